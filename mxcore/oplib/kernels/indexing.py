"""Kernels that read or write slices and elements by position.

Positions arrive in any dtype and are cast to int64 first, which cuts fractions off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...spec.errors import ParameterError, PositionError, ShapeError
from ..table import kernel
from ..threads import LARGE, rows
from .fresh import fresh, replaced
from .reduction import with_axes


def whole(indices: Any) -> Any:
    """Return positions as int64."""
    return indices if indices.dtype == np.int64 else indices.astype(np.int64)


def outside(name: str, value: Any, axis: int, n: int) -> PositionError:
    """Return the error for a position outside an axis."""
    return PositionError(
        f"operator '{name}': position {int(value)} is out of bounds for axis {axis} with length {n}.", operator=name
    )


def bounded(xp: Any, indices: Any, n: int, mode: str, axis: int, name: str) -> Any:
    """Return positions in ``[0, n)`` by ``mode``; raises PositionError for one outside with ``"raise"``."""
    i = whole(indices)
    if mode == "wrap":
        return i % n
    if mode == "raise":
        wrong = (i < 0) | (i >= n)
        if wrong.any():
            raise outside(name, i[wrong][0], axis, n)
        return i
    return xp.minimum(xp.maximum(i, 0), n - 1)


def add_rows(xp: Any, shape: tuple[int, ...], n: int, rows: Any, g: Any) -> Any:
    """Return zeros of ``shape``, seen as ``(n, D)``, with ``g[k]`` added to row ``rows[k]`` for all ``k``.

    ``g`` has shape ``(K, D)``. The sum of each row is taken in the order of ``k``, so equal inputs give equal results.
    """
    if xp is not np:
        out = xp.zeros((n, g.shape[1]), g.dtype)
        if hasattr(out, "at"):
            return out.at[rows].add(g).reshape(shape)
        xp.add.at(out, rows, g)
        return out.reshape(shape)
    if g.dtype == np.float16:
        return add_rows(np, shape, n, rows, g.astype(np.float32)).astype(np.float16)
    count, width = g.shape
    result = np.zeros(shape, g.dtype)
    if not g.size:
        return result
    out = result.reshape(n, width)
    if width < 16:
        # Narrow rows: one flat numpy.add.at, whose loop over int64 positions is fast since NumPy 1.25.
        positions = rows if width == 1 else (rows[:, None] * width + np.arange(width)).reshape(-1)
        np.add.at(out.reshape(-1), positions, np.ascontiguousarray(g).reshape(-1))
        return result
    # Wide rows: handle whole rows at a time. Sort by row; then the k-th occurrences of all rows are distinct, and
    # fancy += is right for them. Measured against numpy.add.at: 3 to 50 times faster.
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    targets = ordered[starts]
    repeats = np.diff(np.append(starts, count))
    most = int(repeats.max())
    if most > 4 and most * 4 > len(starts):
        out[targets] = np.add.reduceat(g[order], starts, axis=0)
        return result
    out[targets] = g[order[starts]]
    for k in range(1, most):
        more = repeats > k
        starts, targets, repeats = starts[more], targets[more], repeats[more]
        out[targets] += g[order[starts + k]]
    return result


def filled(xp: Any, shape: tuple[int, ...], seen_as: tuple[int, ...], key: Any, value: Any, start: Any = None) -> Any:
    """Return zeros (or ``start``, which nobody else has) with ``value`` at ``key`` of the array seen as ``seen_as``."""
    out = xp.zeros(shape, value.dtype) if start is None else start
    if hasattr(out, "at"):
        return out.reshape(seen_as).at[key].set(value).reshape(shape)
    out.reshape(seen_as)[key] = value
    return out


# ---------------------------------------------------------------------------------------------------------------
# Whole slices


def _taken(x: Any, i: Any, axis: int, mode: str) -> Any:
    """Return slices of ``x`` along ``axis``: large results some slices, or for later axes some of axis 0, at a time."""
    axis %= x.ndim
    n = len(x) if axis else i.size
    numbers = i.size * (x.size // max(1, x.shape[axis]))
    if numbers < LARGE or n < 2:
        return np.take(x, i, axis, mode=mode)  # type: ignore[call-overload]
    x, i = np.ascontiguousarray(x), np.ascontiguousarray(i)
    y = np.empty((*x.shape[:axis], *i.shape, *x.shape[axis + 1 :]), x.dtype)
    if axis:
        rows(lambda a, b: np.take(x[a:b], i, axis, out=y[a:b], mode=mode), n, numbers // n)  # type: ignore[call-overload]
        return y
    flat, to = i.reshape(-1), y.reshape(n, *x.shape[1:])
    rows(lambda a, b: np.take(x, flat[a:b], 0, out=to[a:b], mode=mode), n, numbers // n)  # type: ignore[call-overload]
    return y


@kernel("take")
def take(xp: Any, x: Any, indices: Any, *, axis: int, mode: str) -> Any:
    if xp is np and mode != "raise":
        i = whole(indices)
        if x.size * i.size < LARGE:
            return np.take(x, i, axis, mode=mode)  # type: ignore[call-overload]
        return _taken(x, i, axis, mode)
    return xp.take(x, bounded(xp, indices, x.shape[axis], mode, axis, "take"), axis)


@kernel("_take_backward")
def take_backward(xp: Any, g: Any, indices: Any, x: Any, *, axis: int, mode: str) -> Any:
    axis %= x.ndim
    n = x.shape[axis]
    rows = bounded(xp, indices, n, mode, axis, "take").reshape(-1)
    lead = math.prod(x.shape[:axis])
    if lead == 1:
        return add_rows(xp, x.shape, n, rows, g.reshape(rows.size, -1))
    tail = math.prod(x.shape[axis + 1 :])
    g = xp.moveaxis(g.reshape(lead, rows.size, tail), 1, 0).reshape(rows.size, lead * tail)
    return fresh(xp, xp.moveaxis(add_rows(xp, (n, lead, tail), n, rows, g), 0, 1)).reshape(x.shape)


@kernel("Embedding")
def embedding(
    xp: Any, data: Any, weight: Any, *, input_dim: int, output_dim: int, dtype: str, sparse_grad: bool
) -> Any:
    return take(xp, weight, data, axis=0, mode="clip")


def _kept(xp: Any, x: Any, index: Any) -> Any:
    if index.ndim != 1 or index.shape[0] != x.shape[0]:
        raise ShapeError(
            f"operator '_contrib_boolean_mask' wants an index with one entry for each of the {x.shape[0]} slices of "
            f"data {x.shape} but got {index.shape}.",
            operator="_contrib_boolean_mask",
            shapes=[x.shape, index.shape],
        )
    return xp.nonzero(index)[0]


@kernel("_contrib_boolean_mask")
def boolean_mask(xp: Any, x: Any, index: Any, *, axis: int) -> Any:
    if axis != 0:
        raise ParameterError(
            f"operator '_contrib_boolean_mask': axis={axis} is not supported; only 0 is.",
            operator="_contrib_boolean_mask",
        )
    return xp.take(x, _kept(xp, x, index), 0)


@kernel("_boolean_mask_backward")
def boolean_mask_backward(xp: Any, g: Any, x: Any, index: Any) -> Any:
    return replaced(xp, xp.zeros(x.shape, g.dtype), _kept(xp, x, index), g)


@kernel("_contrib_index_copy")
def index_copy(xp: Any, old: Any, index: Any, new: Any) -> Any:
    rows = bounded(xp, index, old.shape[0], "raise", 0, "_contrib_index_copy")
    return replaced(xp, old, rows, new)


# ---------------------------------------------------------------------------------------------------------------
# One element of each row


def _flat_positions(xp: Any, shape: tuple[int, ...], index: Any, axis: int, mode: str, name: str) -> Any:
    """Return the positions, in an array of ``shape`` flattened, of one element along ``axis`` for each index."""
    axis %= len(shape)
    n = shape[axis]
    i = bounded(xp, index, n, mode, axis, name)
    lead, tail = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    if tail == 1:
        return i.reshape(-1) + xp.arange(lead) * n
    return ((i.reshape(lead, tail) + xp.arange(lead)[:, None] * n) * tail + xp.arange(tail)).reshape(-1)


@kernel("pick")
def pick(xp: Any, x: Any, index: Any, *, axis: int, keepdims: bool, mode: str) -> Any:
    axis %= x.ndim
    flat = x.reshape(-1).take(_flat_positions(xp, x.shape, index, axis, mode, "pick"))
    shape = with_axes(x.shape, (axis,)) if keepdims else x.shape[:axis] + x.shape[axis + 1 :]
    return flat.reshape(shape or (1,))


@kernel("_pick_backward")
def pick_backward(xp: Any, g: Any, index: Any, x: Any, *, axis: int, mode: str) -> Any:
    flat = _flat_positions(xp, x.shape, index, axis, mode, "pick")
    return filled(xp, x.shape, (-1,), flat, g.reshape(-1))


@kernel("batch_take")
def batch_take(xp: Any, x: Any, indices: Any) -> Any:
    flat = _flat_positions(xp, x.shape, indices, 1, "clip", "batch_take")
    return xp.take(x.reshape(-1), flat).reshape(indices.shape)


@kernel("fill_element_0index")
def fill_element_0index(xp: Any, lhs: Any, mhs: Any, rhs: Any) -> Any:
    columns = bounded(xp, rhs, lhs.shape[1], "raise", 1, "fill_element_0index")
    return replaced(xp, lhs, (xp.arange(lhs.shape[0]), columns), mhs)


@kernel("one_hot")
def one_hot(xp: Any, indices: Any, *, depth: int, on_value: float, off_value: float, dtype: str) -> Any:
    i = whole(indices).reshape(-1)
    count = i.size
    if off_value == 0:
        out = xp.zeros((*indices.shape, depth), dtype)
    else:
        out = xp.full((*indices.shape, depth), np.asarray(off_value).astype(dtype), dtype)
    positions = xp.arange(count) * depth + i
    inside = (i >= 0) & (i < depth)
    if not bool(inside.all()):
        positions = positions[inside]
    return filled(xp, out.shape, (-1,), positions, np.asarray(on_value).astype(dtype), out)


@kernel("where")
def where(xp: Any, condition: Any, x: Any, y: Any) -> Any:
    if condition.ndim < x.ndim:
        condition = condition.reshape((-1,) + (1,) * (x.ndim - 1))
    return xp.where(condition != 0, x, y)
