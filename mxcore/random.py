"""``mx.random``: seeding, and the sampling functions of ``mx.nd.random``."""

from __future__ import annotations

from typing import Any

from .dispatch import rng
from .ndarray import random as _random


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Seed the random streams.

    Parameters
    ----------
    seed_state : int
    ctx : Context or "all"
        Seed one device only, or all. Streams of different devices differ under one seed.

    Raises
    ------
    ValueError
        If the seed is not a whole number.
    """
    if not hasattr(seed_state, "__index__"):
        raise ValueError(f"mx.random.seed takes a whole number, not {seed_state!r}.")
    rng.seed(int(seed_state), ctx)


def __getattr__(name: str) -> Any:
    return getattr(_random, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_random)})
