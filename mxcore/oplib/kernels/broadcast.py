"""Kernels of operators of two arrays.

``elemwise_*`` share the kernels of ``broadcast_*``: that shapes are equal is the record's check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..table import kernel
from ..threads import LARGE_PLAIN
from .sharing import by_stretch, call_binary, filled, reduced

for _names, _ufunc in (
    (("broadcast_add", "elemwise_add"), np.add),
    (("broadcast_sub", "elemwise_sub"), np.subtract),
    (("broadcast_mul", "elemwise_mul"), np.multiply),
    (("broadcast_maximum", "_maximum"), np.maximum),
    (("broadcast_minimum", "_minimum"), np.minimum),
    (("broadcast_power", "_power"), np.power),
):
    # The ufunc itself: nothing between dispatch and NumPy.
    kernel(*_names, numpy=True, out=True)(_ufunc)


@kernel("broadcast_div", "elemwise_div", numpy=True, out=True)
def divide(x: Any, y: Any, out: Any = None) -> Any:
    if x.dtype.kind == "f":
        if x.size >= LARGE_PLAIN:
            return call_binary(np.true_divide, x, y, out)
        return np.true_divide(x, y, out=out) if out is not None else np.true_divide(x, y)
    # Whole numbers divide as in C: towards zero.
    q = np.true_divide(x, y, dtype=np.float64)
    np.trunc(q, out=q)
    if out is not None:
        out[...] = q
        return out
    return q.astype(x.dtype)


@kernel("broadcast_mod", "_mod", numpy=True)
def mod(x: Any, y: Any) -> Any:
    r = np.mod(x, y)
    if x.dtype.kind == "f":
        # MXNet defines x mod 0 as 0.
        zero = y == 0
        if zero.any():
            r = np.where(zero, np.zeros((), x.dtype), r)
    return r


@kernel("broadcast_hypot", "_hypot", numpy=True)
def hypot(x: Any, y: Any) -> Any:
    return call_binary(np.hypot, x, y).astype(x.dtype, copy=False)


def as_numbers(compare: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a comparison so that it gives 0 and 1 in the dtype of the first array."""

    def large(xp: Any, x: Any, y: Any, out: Any = None) -> Any:
        if out is None:
            return compare(x, y).astype(x.dtype)
        np.copyto(out, compare(x, y))
        return out

    def run(x: Any, y: Any) -> Any:
        return compare(x, y).astype(x.dtype) if x.size < LARGE_PLAIN else filled(large, x, y)

    return run


COMPARISONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "lesser": np.less,
    "lesser_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
for _name, _compare in COMPARISONS.items():
    kernel(f"broadcast_{_name}", f"_{_name}", numpy=True)(as_numbers(_compare))


@kernel("_sum_like")
def sum_like(xp: Any, g: Any, like: Any) -> Any:
    if g.shape == like.shape:
        return g
    lead = g.ndim - like.ndim
    axes = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(like.shape) if n == 1 and g.shape[lead + i] != 1)

    def add(g: Any, axes: Any) -> Any:
        return xp.add.reduce(g, axis=axes, keepdims=True, dtype=g.dtype)

    return (reduced(add, g, axes, g.dtype, True) if xp is np else add(g, axes)).reshape(like.shape)


@kernel("add_n")
def add_n(xp: Any, *xs: Any) -> Any:
    if len(xs) == 1:
        return xp.array(xs[0], order="C")
    return _added(xp, *xs)


@by_stretch
def _added(xp: Any, *xs: Any) -> Any:
    total = xs[0] + xs[1]
    for x in xs[2:]:
        total = total + x
    return total


@kernel("broadcast_to")
def broadcast_to(xp: Any, x: Any, *, shape: Any) -> Any:
    return xp.array(xp.broadcast_to(x, tuple(w or n for w, n in zip(shape, x.shape))), order="C")


@kernel("broadcast_like")
def broadcast_like(xp: Any, x: Any, like: Any, *, lhs_axes: Any, rhs_axes: Any) -> Any:
    target = like.shape
    if lhs_axes is not None and rhs_axes is not None:
        out = list(x.shape)
        for i, j in zip(lhs_axes, rhs_axes):
            out[i] = like.shape[j]
        target = tuple(out)
    return xp.array(xp.broadcast_to(x, target), order="C")


@kernel("broadcast_axis")
def broadcast_axis(xp: Any, x: Any, *, axis: Any, size: Any) -> Any:
    out = list(x.shape)
    for i, n in zip((axis,) if isinstance(axis, int) else axis, (size,) if isinstance(size, int) else size):
        out[i] = n
    return xp.array(xp.broadcast_to(x, tuple(out)), order="C")
