"""Kernels on positions in several axes, cast to int64 first like those of :mod:`.indexing`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..table import kernel
from .fresh import fresh
from .indexing import add_rows, filled, outside, whole


def _flat_keys(xp: Any, indices: Any, shape: tuple[int, ...], name: str) -> Any:
    """Return, for each column of indices, its position in the first axes of ``shape`` flattened."""
    flat: Any = None
    for axis in range(indices.shape[0]):
        n = shape[axis]
        i = whole(indices[axis]).reshape(-1)
        wrong = (i < -n) | (i >= n)
        if bool(wrong.any()):
            raise outside(name, i[wrong][0], axis, n)
        i = xp.where(i < 0, i + n, i)
        flat = i if flat is None else flat * n + i
    return flat


def _parts(indices: Any, shape: tuple[int, ...]) -> tuple[int, int]:
    m = indices.shape[0]
    return math.prod(shape[:m]), math.prod(shape[m:])


@kernel("gather_nd")
def gather_nd(xp: Any, x: Any, indices: Any) -> Any:
    lead, tail = _parts(indices, x.shape)
    flat = _flat_keys(xp, indices, x.shape, "gather_nd")
    y = xp.take(x.reshape(lead, tail), flat, 0)
    return y.reshape(indices.shape[1:] + x.shape[indices.shape[0] :] or (1,))


def _scatter_add(xp: Any, g: Any, indices: Any, shape: Any, name: str) -> Any:
    lead, tail = _parts(indices, shape)
    flat = _flat_keys(xp, indices, shape, name)
    return add_rows(xp, tuple(shape), lead, flat, g.reshape(flat.size, tail))


@kernel("_gather_nd_backward")
def gather_nd_backward(xp: Any, g: Any, indices: Any, x: Any) -> Any:
    return _scatter_add(xp, g, indices, x.shape, "gather_nd")


@kernel("_backward_gather_nd")
def backward_gather_nd(xp: Any, x: Any, indices: Any, *, shape: Any) -> Any:
    return _scatter_add(xp, x, indices, shape, "_backward_gather_nd")


def _scatter_set(xp: Any, shape: Any, x: Any, indices: Any, name: str, start: Any = None) -> Any:
    lead, tail = _parts(indices, shape)
    flat = _flat_keys(xp, indices, shape, name)
    return filled(xp, tuple(shape), (lead, tail), flat, x.reshape(flat.size, tail), start)


@kernel("scatter_nd")
def scatter_nd(xp: Any, x: Any, indices: Any, *, shape: Any) -> Any:
    return _scatter_set(xp, shape, x, indices, "scatter_nd")


@kernel("_scatter_set_nd")
def scatter_set_nd(xp: Any, lhs: Any, rhs: Any, indices: Any, *, shape: Any) -> Any:
    return _scatter_set(xp, shape, rhs, indices, "_scatter_set_nd", fresh(xp, lhs))


@kernel("_ravel_multi_index")
def ravel_multi_index(xp: Any, x: Any, *, shape: Any) -> Any:
    i = whole(x)
    flat = i[0]
    for n, row in zip(shape[1:], i[1:]):
        flat = flat * n + row
    return flat.astype(x.dtype).reshape(x.shape[1:] or (1,))


@kernel("_unravel_index")
def unravel_index(xp: Any, x: Any, *, shape: Any) -> Any:
    rest = whole(x)
    rows = []
    for n in shape[:0:-1]:
        rows.append(rest % n)
        rest = rest // n
    return xp.stack([rest, *rows[::-1]]).astype(x.dtype)


@kernel("_contrib_index_array")
def index_array(xp: Any, x: Any, *, axes: Any) -> Any:
    chosen = range(x.ndim) if axes is None else axes
    grids = []
    for axis in chosen:
        axis %= x.ndim
        steps = xp.arange(x.shape[axis]).reshape((-1,) + (1,) * (x.ndim - axis - 1))
        grids.append(xp.broadcast_to(steps, x.shape))
    return xp.stack(grids, axis=-1).astype(np.int64)


@kernel("_contrib_arange_like")
def arange_like(xp: Any, x: Any, *, start: float, step: float, repeat: int, ctx: str, axis: Any) -> Any:
    shape = x.shape if axis is None else (x.shape[axis],)
    steps = xp.arange(math.prod(shape))
    if repeat != 1:
        steps = steps // repeat
    return (steps * step + start).astype(x.dtype).reshape(shape)
