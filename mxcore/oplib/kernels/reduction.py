"""Kernels of reductions.

Large arrays are cut along axes that stay, and sums of all numbers at fixed places; the compute threads share the parts.
float16 is accumulated in float32. Integers keep their dtype. A result never lacks axes: a full reduction is ``(1,)``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..precision import wide
from ..table import kernel
from ..threads import LARGE, STRETCH, blas, parallel_for, rows
from .sharing import reduced


@functools.lru_cache(maxsize=1024)
def axes_of(ndim: int, axis: Any, exclude: bool = False) -> tuple[int, ...]:
    """Return the axes that ``axis`` and ``exclude`` mean, counted from the front."""
    if axis is None or axis == ():
        return tuple(range(ndim))
    axes = tuple(a % ndim for a in ((axis,) if isinstance(axis, int) else axis))
    return tuple(a for a in range(ndim) if a not in axes) if exclude else axes


def with_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``shape`` with 1 at ``axes``."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def finish(xp: Any, r: Any, dtype: Any) -> Any:
    """Give a reduction its dtype, and an axis where it has none."""
    if r.dtype != dtype:
        r = r.astype(dtype)
    return r if r.ndim else xp.asarray(r).reshape(1)


#: Below this many elements the ways below cost more than they save.
_MANY = 4096
#: Rows longer than this are not summed in one go: float32 would lose digits.
_LONG = 8192


@functools.lru_cache(maxsize=64)
def _ones(n: int, dtype: Any) -> np.ndarray:
    ones = np.ones(n, dtype)
    ones.flags.writeable = False
    return ones


def _row_totals(x: np.ndarray) -> np.ndarray:
    """Return the sums of the rows of a matrix."""
    m, n = x.shape
    y, ones = np.empty(m, x.dtype), _ones(n, x.dtype)
    # BLAS takes several rows at a time: cuts at multiples of 16 leave the sums as they are.
    rows(lambda i, j: np.matmul(x[16 * i : 16 * j], ones, out=y[16 * i : 16 * j]), -(-m // 16), 16 * n)
    return y


def _sum_by_products(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray | None:
    """Add up a C-ordered float array as products with ones, or return None where that does not pay.

    BLAS reads memory about three times as fast as ``numpy.add.reduce``. Axes at the end are summed first, then those
    at the front; partial sums keep it as exact as NumPy's.
    """
    shape, dtype = x.shape, x.dtype
    trailing = len(shape)
    while trailing and trailing - 1 in axes:
        trailing -= 1
    n = math.prod(shape[trailing:])
    if trailing == 0:
        flat = x.reshape(-1)
        whole = n // 4096 * 4096
        total = np.add.reduce(_row_totals(flat[:whole].reshape(-1, 4096)))
        return np.full(1, total + np.add.reduce(flat[whole:]), dtype)
    kept = [i for i in range(trailing) if i not in axes]
    if kept != list(range(kept[0], kept[-1] + 1)) or kept[-1] != trailing - 1 or n > _LONG:
        return None
    y = x.reshape(-1)
    if n > 1:
        y = _row_totals(y.reshape(-1, n))
    m = math.prod(shape[: kept[0]])
    if m > 1:
        if m > 8 * _LONG:
            return None
        y = _ones(m, dtype) @ y.reshape(m, -1)
    return y


def _sums(xp: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if xp is not np:
        return xp.add.reduce(x, axis=axes, dtype=wide(x.dtype), keepdims=keepdims)
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    if x.size >= _MANY and axes and x.dtype.kind == "f" and x.flags.c_contiguous:
        with blas:  # one thread: waking BLAS's own for a sum costs whatever comes next
            y = _sum_by_products(x, axes)
        if y is not None:
            return y.reshape(
                with_axes(x.shape, axes) if keepdims else [n for i, n in enumerate(x.shape) if i not in axes]
            )
    return _reduced(np, np.add, x, axes, keepdims, x.dtype)


def _reduced(xp: Any, ufunc: Any, x: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any = None) -> Any:
    """Return ``ufunc.reduce(x, axes)``, whose dtype is ``dtype``, that of ``x`` by default."""
    if xp is not np:
        return ufunc.reduce(x, axis=axes, dtype=dtype, keepdims=keepdims)
    if x.size < LARGE:
        return ufunc.reduce(x, axes, dtype, None, keepdims)
    if len(axes) == x.ndim and ufunc in (np.maximum, np.minimum) and x.flags.c_contiguous:
        return ufunc.reduce(_of_stretches(ufunc.reduce, x.reshape(-1))).reshape((1,) * x.ndim if keepdims else ())
    return reduced(lambda x, axes: ufunc.reduce(x, axes, dtype, None, True), x, axes, dtype or x.dtype, keepdims)


@kernel("sum")
def sum_(xp: Any, x: Any, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    return finish(xp, _sums(xp, x, axes_of(x.ndim, axis, exclude), keepdims), x.dtype)


def averaged(xp: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the mean, still in the dtype it was accumulated in."""
    count = math.prod([x.shape[a] for a in axes])
    if x.dtype.kind == "f":
        r = _sums(xp, x, axes, keepdims)
        return r / r.dtype.type(count)
    return xp.trunc(xp.add.reduce(x, axis=axes, keepdims=keepdims) / max(count, 1))


@kernel("mean")
def mean(xp: Any, x: Any, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    return finish(xp, averaged(xp, x, axes_of(x.ndim, axis, exclude), keepdims), x.dtype)


@kernel("max")
def max_(xp: Any, x: Any, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    axes = axes_of(x.ndim, axis, exclude)
    if xp is np and x.size >= LARGE:
        return finish(xp, _reduced(np, np.maximum, x, axes, keepdims), x.dtype)
    return finish(xp, x.max(axis=axes, keepdims=keepdims), x.dtype)


@kernel("min")
def min_(xp: Any, x: Any, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    axes = axes_of(x.ndim, axis, exclude)
    if xp is np and x.size >= LARGE:
        return finish(xp, _reduced(np, np.minimum, x, axes, keepdims), x.dtype)
    return finish(xp, x.min(axis=axes, keepdims=keepdims), x.dtype)


@kernel("prod")
def prod(xp: Any, x: Any, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    r = _reduced(xp, xp.multiply, x, axes_of(x.ndim, axis, exclude), keepdims, wide(x.dtype))
    return finish(xp, r, x.dtype)


def _filled(xp: Any, x: Any, value: int) -> Any:
    return xp.where(xp.isnan(x), x.dtype.type(value), x) if x.dtype.kind == "f" else x


@kernel("nansum")
def nansum(xp: Any, x: Any, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    return sum_(xp, _filled(xp, x, 0), axis=axis, keepdims=keepdims, exclude=exclude)


@kernel("nanprod")
def nanprod(xp: Any, x: Any, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    return prod(xp, _filled(xp, x, 1), axis=axis, keepdims=keepdims, exclude=exclude)


@kernel("_nan_to_zero")
def nan_to_zero(xp: Any, x: Any) -> Any:
    return _filled(xp, x, 0) if x.dtype.kind == "f" else x + 0


@kernel("_with_axes")
def with_axes_back(xp: Any, x: Any, like: Any, *, axis: Any, exclude: bool) -> Any:
    return x.reshape(with_axes(like.shape, axes_of(like.ndim, axis, exclude)))


@kernel("_expand_reduced")
def expand_reduced(xp: Any, x: Any, like: Any, *, axis: Any, exclude: bool, mean: bool) -> Any:
    axes = axes_of(like.ndim, axis, exclude)
    x = x.reshape(with_axes(like.shape, axes))
    if mean:
        x = (x / math.prod([like.shape[a] for a in axes])).astype(x.dtype)
    if xp is np:
        y = np.empty(like.shape, x.dtype)
        y[...] = x  # an eighth of the time of broadcast_to on small arrays
        return y
    return xp.array(xp.broadcast_to(x, like.shape))


def sum_of_squares(xp: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Add up squares, still in the dtype they were accumulated in."""
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    if len(axes) == x.ndim and not keepdims and x.dtype.kind == "f":
        flat = x.reshape(-1)
        return _square_total(flat) if xp is np else xp.dot(flat, flat)

    def squares(x: Any, axes: Any) -> Any:
        return xp.add.reduce(x * x, axis=axes, dtype=x.dtype, keepdims=True)

    if xp is np and x.size >= LARGE:
        return reduced(squares, x, axes, x.dtype, keepdims)
    return xp.add.reduce(x * x, axis=axes, dtype=x.dtype, keepdims=keepdims)


def _square_total(x: np.ndarray) -> Any:
    """Return the sum of squares of a vector: a dot product, or the sum of those of its stretches."""
    if x.size < LARGE:
        if x.size <= _LONG:  # OpenBLAS takes one thread by itself
            return np.dot(x, x)
        with blas:
            return np.dot(x, x)
    return np.add.reduce(_of_stretches(lambda x: np.dot(x, x), x))


def _of_stretches(fn: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """Return the number that ``fn`` makes of each stretch of a vector."""
    found = np.empty(-(-x.size // STRETCH), x.dtype)

    def run(first: int, last: int) -> None:
        for k in range(first, last):
            found[k] = fn(x[k * STRETCH : (k + 1) * STRETCH])

    parallel_for(len(found), 1, run)
    return found


@kernel("_square_sum")
def square_sum(xp: Any, x: Any, *, axis: Any, keepdims: bool, exclude: bool) -> Any:
    return finish(xp, sum_of_squares(xp, x, axes_of(x.ndim, axis, exclude), keepdims), x.dtype)


@kernel("norm")
def norm(xp: Any, x: Any, *, ord: int, axis: Any, out_dtype: Any, keepdims: bool) -> Any:
    dtype = np.dtype(out_dtype or x.dtype)
    axes = axes_of(x.ndim, axis)
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    if ord == 1:
        r = _sums(xp, xp.abs(x), axes, keepdims)
    else:
        r = xp.sqrt(sum_of_squares(xp, x, axes, keepdims))
    return finish(xp, r, dtype)


@kernel("moments")
def moments(xp: Any, x: Any, *, axes: Any, keepdims: bool) -> Any:
    over = axes_of(x.ndim, axes)
    m = averaged(xp, x, over, True)
    centred = x - (m if x.dtype.kind == "f" else m.astype(x.dtype))
    shape = m.shape if keepdims else tuple(n for i, n in enumerate(x.shape) if i not in over) or (1,)
    v = averaged(xp, centred * centred, over, True)
    return m.astype(x.dtype).reshape(shape), v.astype(x.dtype).reshape(shape)


def _position(search: Callable[..., Any]) -> Callable[..., Any]:
    def run(xp: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
        dtype = x.dtype if x.dtype != np.bool_ else np.dtype(np.float32)
        if axis is None:
            return xp.full((1,) * x.ndim if keepdims else (1,), search(x, None), dtype)
        if xp is np and x.size >= LARGE:
            axes = axes_of(x.ndim, axis)
            r = reduced(lambda x, axes: xp.expand_dims(search(x, axes[0]), axes[0]), x, axes, np.int64, False)
        else:
            r = search(x, axis)
        if keepdims:
            r = r.reshape(with_axes(x.shape, axes_of(x.ndim, axis)))
        return finish(xp, r, dtype)

    return run


kernel("argmax")(_position(lambda x, axis: x.argmax(axis)))
kernel("argmin")(_position(lambda x, axis: x.argmin(axis)))


@kernel("argmax_channel")
def argmax_channel(xp: Any, x: Any) -> Any:
    return x.argmax(1).astype(x.dtype)


@kernel("cumsum")
def cumsum(xp: Any, x: Any, *, axis: Any, dtype: Any) -> Any:
    out = np.dtype(dtype or x.dtype)
    return xp.cumsum(x, axis=axis, dtype=wide(out)).astype(out, copy=False)


@kernel("all_finite")
def all_finite(xp: Any, x: Any, *, init_output: bool) -> Any:
    return xp.isfinite(x).all().astype(np.float32).reshape(1)


@kernel("multi_all_finite")
def multi_all_finite(xp: Any, *xs: Any, num_arrays: int, init_output: bool) -> Any:
    return xp.full((1,), all(bool(xp.isfinite(x).all()) for x in xs), np.float32)


@kernel("multi_sum_sq")
def multi_sum_sq(xp: Any, *xs: Any, num_arrays: int) -> Any:
    return xp.stack([sum_of_squares(xp, x, axes_of(x.ndim, None), False) for x in xs]).astype(np.float32)
