"""Pieces of references and samples that several families share, in plain NumPy: nothing here is known to kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def written(x: np.ndarray, key: Any, value: Any) -> np.ndarray:
    """Return a copy of ``x`` with ``value`` at ``key``."""
    x = x.copy()
    x[key] = value
    return x


def padded(x: np.ndarray, pad: Any) -> np.ndarray:
    """Return ``(N, C, ...)`` with ``pad`` zeros at both ends of each spatial axis."""
    return np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])


def filled(a: Any, n: int) -> Any:
    """Return stride, dilate, pad and num_group of a convolution over ``n`` spatial axes, filled in."""
    return (
        a.get("stride") or (1,) * n,
        a.get("dilate") or (1,) * n,
        a.get("pad") or (0,) * n,
        a.get("num_group", 1),
    )


def distinct(
    rng: np.random.Generator, shape: tuple[int, ...], *, step: float = 0.37, least: float = -1.0
) -> np.ndarray:
    """Return numbers that no finite difference brings into another order."""
    return rng.permutation(math.prod(shape)).reshape(shape) * step + least
