"""Large NumPy arrays in pieces: what kernels written over any array namespace use to share themselves out.

A kernel hands over the function it would have called on whole arrays. Arrays of other namespaces, and small ones, go
through it whole; large NumPy arrays some numbers or rows at a time, which stay in cache and are shared out to the
compute threads (:mod:`..threads`). Pieces depend on shapes only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..threads import LARGE, elementwise, mapped, rows
from .fresh import along

#: Numbers in a run of memory that NumPy's cost per run does not show on.
_LONG_RUN = 1024


def by_stretch(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fn(xp, *arrays)``, which works element by element on equal arrays; see :func:`..threads.mapped`."""

    def run(xp: Any, *arrays: Any) -> Any:
        if xp is not np or arrays[0].size < LARGE:
            return fn(xp, *arrays)
        return mapped(functools.partial(fn, np), *arrays)

    return run


def filling(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fn(xp, x, out)`` like :func:`by_stretch`; large NumPy floats get stretches of the result as ``out``.

    ``fn`` returns its result and makes it itself where ``out`` is None.
    """

    def run(xp: Any, x: Any) -> Any:
        return fn(xp, x) if xp is not np or x.size < LARGE else filled(fn, x)

    return run


def filled(fn: Callable[..., Any], *arrays: Any) -> Any:
    """Return ``fn(np, *arrays)`` as described at :func:`filling`, for large NumPy arrays."""
    x = arrays[0]
    if not _alike(x, arrays):
        return fn(np, *arrays)
    y = np.empty(x.shape, x.dtype)
    elementwise(lambda *parts: fn(np, *parts[:-1], out=parts[-1]), *arrays, y)
    return y


def _alike(x: np.ndarray, arrays: Sequence[np.ndarray]) -> bool:
    return x.dtype.kind == "f" and all(
        a.flags.c_contiguous and a.shape == x.shape and a.dtype == x.dtype for a in arrays
    )


def put(fn: Callable[..., Any], out: Any, *arrays: Any) -> Any:
    """Return ``fn(*arrays)``, written to ``out`` if there is one; it must have the dtype of the first array."""
    return fn(*arrays) if out is None or out.dtype != arrays[0].dtype else fn(*arrays, out=out)


def by_rows(xp: Any, fn: Callable[..., Any], inside: bool, gives: Sequence[Any], *arrays: Any) -> Any:
    """Return ``fn(*arrays)``, a function of each slice along axis 0; large ones go some slices at a time.

    Parameters
    ----------
    fn : callable
        ``fn(*arrays, out=None)`` gives a tuple of fresh arrays, where it may write the first to ``out`` if that is not
        None. Must not depend on how many slices it gets.
    inside : bool
        Whether axis 0 is one that ``fn`` works along, so that the arrays cannot be cut.
    gives : sequence of (shape, dtype)
        What ``fn`` gives for the whole arrays. All have axis 0 as it is.
    *arrays : array
        With axis 0 as it is; any strides.
    """
    first = arrays[0]
    if xp is not np or inside or first.size < LARGE or len(first) < 2:
        return fn(*arrays)
    results = tuple(np.empty(shape, dtype) for shape, dtype in gives)

    def run(start: int, stop: int) -> None:
        out = results[0][start:stop]
        first, *others = fn(*[a[start:stop] for a in arrays], out=out)
        if first is not out:
            out[...] = first
        for to, part in zip(results[1:], others):
            to[start:stop] = part

    rows(run, len(first), first.size // len(first))
    return results


def along_axis(xp: Any, fn: Callable[..., Any], axis: Any, dtype: Any, *arrays: Any) -> Any:
    """Return ``fn(*arrays, axis)``, an array like the first that depends on each run along an axis or axes alone.

    ``fn`` takes ``out`` as for :func:`by_rows`.
    """
    x = arrays[0]
    if xp is not np or x.size < LARGE:
        return fn(*arrays, axis)
    axes = tuple(a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis))
    if axes == (x.ndim - 1,) and x.ndim != 2 and all(a.flags.c_contiguous for a in arrays):
        flat = [a.reshape(-1, x.shape[-1]) for a in arrays]
        return along_axis(np, fn, 1, dtype, *flat).reshape(x.shape)

    def run(*parts: Any, out: Any = None) -> Any:
        return (fn(*parts, axis, out=out),)

    return by_rows(np, run, 0 in axes, [(x.shape, dtype)], *arrays)[0]


def reduced(fn: Callable[..., Any], x: np.ndarray, axes: tuple[int, ...], dtype: Any, keepdims: bool) -> np.ndarray:
    """Return ``fn(x, axes)``, a reduction that keeps its axes with length 1: large ones cut along the first axis kept.

    Not where that would leave short runs of memory to add to each other, which NumPy is slow at.
    """
    kept = [i for i, n in enumerate(x.shape) if n > 1 and i not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    cut = kept[0] if kept else 0
    if x.size < LARGE or not kept or (math.prod(x.shape[:cut]) > 1 and math.prod(x.shape[cut + 1 :]) < _LONG_RUN):
        y = fn(x, axes)
    else:
        y = np.empty(shape, dtype)
        n = x.shape[cut]

        def run(start: int, stop: int) -> None:
            part = along(x.ndim, cut, slice(start, stop))
            y[part] = fn(x[part], axes)

        rows(run, n, x.size // n)
    return y if keepdims else y.reshape([n for i, n in enumerate(shape) if i not in axes])


def call_ufunc(ufunc: Callable[..., Any], x: np.ndarray, out: Any = None) -> Any:
    """Return ``ufunc(x, out=out)`` of a large C-ordered array of floats, shared out where ``out`` lets it be."""
    if out is None:
        out = np.empty(x.shape, x.dtype)
    elif out.shape != x.shape or not out.flags.c_contiguous or not writable_in_pieces(out, x):
        return ufunc(x, out=out)
    elementwise(lambda a, b: ufunc(a, out=b), x, out)
    return out


def call_binary(ufunc: Callable[..., Any], x: np.ndarray, y: np.ndarray, out: Any = None) -> Any:
    """Return ``ufunc(x, y, out=out)``, shared out for large C-ordered floats of one shape, or one of them a number."""
    whole = x if x.ndim else y
    if (
        whole.size < LARGE
        or x.dtype is not y.dtype
        or x.dtype.kind != "f"
        or not (x.flags.c_contiguous and y.flags.c_contiguous)
        or not (x.shape == y.shape or x.ndim == 0 or y.ndim == 0)
    ):
        return ufunc(x, y) if out is None else ufunc(x, y, out=out)
    if out is None:
        out = np.empty(whole.shape, x.dtype)
    elif out.shape != whole.shape or not out.flags.c_contiguous or not writable_in_pieces(out, x, y):
        return ufunc(x, y, out=out)
    if y.ndim == 0:
        elementwise(lambda x, to: ufunc(x, y, out=to), x, out)
    elif x.ndim == 0:
        elementwise(lambda y, to: ufunc(x, y, out=to), y, out)
    else:
        elementwise(lambda x, y, to: ufunc(x, y, out=to), x, y, out)
    return out


def writable_in_pieces(out: np.ndarray, *inputs: np.ndarray) -> bool:
    """Whether ``out`` may be written while parts of the inputs are still to be read: each is ``out`` or far from it."""
    return all(a is out or not np.may_share_memory(a, out) for a in inputs)
