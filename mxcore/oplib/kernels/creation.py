"""Kernels that make arrays from attributes alone, and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.creation import arange_bounds
from ..table import kernel


@kernel("_zeros")
def zeros(xp: Any, *, shape: Any, ctx: str, dtype: str) -> Any:
    return xp.zeros(shape, dtype)


@kernel("_ones")
def ones(xp: Any, *, shape: Any, ctx: str, dtype: str) -> Any:
    return xp.ones(shape, dtype)


@kernel("_full")
def full(xp: Any, *, shape: Any, ctx: str, dtype: str, value: float) -> Any:
    return xp.full(shape, np.asarray(value).astype(dtype), dtype)


@kernel("_arange")
def arange(
    xp: Any, *, start: float, stop: Any, step: float, repeat: int, infer_range: bool, ctx: str, dtype: str
) -> Any:
    first, step, count = arange_bounds({"start": start, "stop": stop, "step": step, "repeat": repeat})
    values = np.arange(count) * step + first
    return xp.asarray(np.repeat(values, repeat).astype(dtype))


@kernel("_linspace")
def linspace(xp: Any, *, start: float, stop: float, num: int, endpoint: bool, ctx: str, dtype: str) -> Any:
    return xp.asarray(np.linspace(start, stop, num, endpoint).astype(dtype))


@kernel("_eye")
def eye(xp: Any, *, N: int, M: int, k: int, ctx: str, dtype: str) -> Any:
    return xp.eye(N, M or N, k, dtype=dtype)


@kernel("_histogram", numpy=True)
def histogram(x: Any, bins: Any, *, bin_cnt: Any, range: Any) -> Any:
    counts, edges = np.histogram(x, bins if bins is not None else bin_cnt, range)
    return counts.astype(np.int64), np.array(edges, x.dtype)
