"""Fixed pieces of a range: what ``parallel_for`` of every engine iterates over.

The pieces depend on ``n`` and ``grain`` only, never on the number of workers, so that results do not either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..spec.errors import EngineError

__all__ = ["pieces", "run_serially"]


def pieces(n: int, grain: int) -> list[tuple[int, int]]:
    """Return the ``(start, stop)`` pieces of ``range(n)``, each of ``grain`` items but the last.

    Raises
    ------
    EngineError
        If ``n`` is negative or ``grain`` is below 1.

    Examples
    --------
    >>> pieces(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    >>> pieces(0, 4)
    []
    """
    if n < 0 or grain < 1:
        raise EngineError(
            f"parallel_for: n={n}, grain={grain}: there are no such pieces. Use n >= 0 and grain >= 1.",
            n=n,
            grain=grain,
        )
    return [(start, min(start + grain, n)) for start in range(0, n, grain)]


def run_serially(n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
    """Call ``fn`` on every piece in order; raise the error of the earliest failed piece when all were called."""
    first: Exception | None = None
    for start, stop in pieces(n, grain):
        try:
            fn(start, stop)
        except Exception as error:
            first = first or error
    if first is not None:
        raise first
