"""Kernels that order elements along an axis. All orders are stable, upwards and downwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.ordering import chosen
from ..table import kernel
from .indexing import whole


def lay_out(x: Any, axis: Any) -> tuple[Any, int]:
    """Return the array and the axis to order: the flattened array where ``axis`` is None."""
    return (x.reshape(-1), 0) if axis is None else (x, axis % x.ndim)


def positions(xp: Any, x: Any, axis: int, is_ascend: bool) -> Any:
    """Return the positions that sort ``x`` along ``axis``."""
    if is_ascend:
        return xp.argsort(x, axis=axis, kind="stable")
    # Equal elements keep their order downwards too: sort the reversed array upwards and read it from the end.
    n = x.shape[axis]
    order = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return (n - 1) - xp.flip(order, axis)


def best(xp: Any, x: Any, axis: int, k: int, is_ascend: bool) -> Any:
    """Return the positions of the first ``k`` elements in order."""
    n = x.shape[axis]
    if xp is np and k <= 8 and n >= 64:
        found = _searched(x, axis, k, is_ascend)
        if found is not None:
            return found
    if xp is np and n >= 256 and k * 8 <= n:
        found = _selected(x, axis, k, is_ascend)
        if found is not None:
            return found
    order = positions(xp, x, axis, is_ascend)
    return order[(slice(None),) * axis + (slice(0, k),)]


def _searched(x: np.ndarray, axis: int, k: int, is_ascend: bool) -> np.ndarray | None:
    """Find the ``k`` best by searching ``k`` times, each time taking out what was found.

    A search is about as fast as reading the array. None where values could be confused with what stands for
    "taken out", or NaN is not last.
    """
    if x.dtype.kind == "f":
        out: Any = np.inf if is_ascend else -np.inf
    elif x.dtype.kind in "iu":
        out = np.iinfo(x.dtype).max if is_ascend else np.iinfo(x.dtype).min
    else:
        return None
    rows = np.array(np.moveaxis(x, axis, -1), order="C")
    shape = rows.shape[:-1]
    rows = rows.reshape(-1, x.shape[axis])
    flat = rows.reshape(-1)
    begins = np.arange(rows.shape[0]) * rows.shape[1]
    found = np.empty((rows.shape[0], k), np.int64)
    for i in range(k):
        at = rows.argmin(1) if is_ascend else rows.argmax(1)
        places = begins + at
        values = flat[places]
        if bool((values == out).any()) or bool((values != values).any()):
            return None
        found[:, i] = at
        flat[places] = out
    return np.moveaxis(found.reshape(*shape, k), -1, axis)


def _selected(x: np.ndarray, axis: int, k: int, is_ascend: bool) -> np.ndarray | None:
    """Find the ``k`` best without sorting everything: partition, keep ties in order, sort what is left."""
    rows = np.moveaxis(x, axis, -1)
    n = rows.shape[-1]
    where = k - 1 if is_ascend else n - k
    threshold = np.partition(rows, where, axis=-1)[..., where : where + 1]
    better = rows < threshold if is_ascend else rows > threshold
    tied = rows == threshold
    room = k - better.sum(axis=-1, keepdims=True)
    keep = better | (tied & (np.cumsum(tied, axis=-1) <= room))
    if not np.array_equal(keep.sum(axis=-1), np.full(keep.shape[:-1], k)):
        return None  # NaN equals nothing: leave it to the full sort
    found = np.nonzero(keep)[-1].reshape(*rows.shape[:-1], k)
    order = positions(np, np.take_along_axis(rows, found, -1), found.ndim - 1, is_ascend)
    return np.moveaxis(np.take_along_axis(found, order, -1), -1, axis)


@kernel("sort")
def sort(xp: Any, x: Any, *, axis: Any, is_ascend: bool) -> Any:
    x, along = lay_out(x, axis)
    order = positions(xp, x, along, is_ascend)
    return xp.take_along_axis(x, order, along), order


@kernel("argsort")
def argsort(xp: Any, x: Any, *, axis: Any, is_ascend: bool, dtype: str) -> Any:
    x, along = lay_out(x, axis)
    return positions(xp, x, along, is_ascend).astype(dtype)


@kernel("topk")
def topk(xp: Any, x: Any, *, axis: Any, k: int, ret_typ: str, is_ascend: bool, dtype: str) -> Any:
    shape = x.shape
    x, along = lay_out(x, axis)
    order = best(xp, x, along, chosen(k, x.shape[along]), is_ascend)
    if ret_typ == "indices":
        return xp.array(order.astype(dtype), order="C")
    if ret_typ == "mask":
        return _put(xp, x.shape, order, xp.ones(order.shape, x.dtype), along).reshape(shape)
    values = xp.array(xp.take_along_axis(x, order, along), order="C")
    return values, xp.array(order.astype(dtype) if ret_typ == "both" else order, order="C")


def _put(xp: Any, shape: Any, order: Any, values: Any, axis: int) -> Any:
    out = xp.zeros(shape, values.dtype)
    key = []
    for i, n in enumerate(order.shape):
        key.append(order if i == axis else xp.arange(n).reshape((-1,) + (1,) * (order.ndim - i - 1)))
    if hasattr(out, "at"):
        return out.at[tuple(key)].set(values)
    out[tuple(key)] = values
    return out


@kernel("_take_along")
def take_along(xp: Any, x: Any, indices: Any, *, axis: Any) -> Any:
    x, along = lay_out(x, axis)
    return xp.take_along_axis(x, whole(indices), along)


@kernel("_take_along_backward")
def take_along_backward(xp: Any, g: Any, indices: Any, x: Any, *, axis: Any) -> Any:
    flat, along = lay_out(x, axis)
    return _put(xp, flat.shape, whole(indices), g, along).reshape(x.shape)
