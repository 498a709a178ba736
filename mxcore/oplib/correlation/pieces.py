"""Cutting work into pieces that stay in cache, and bringing a piece into a temporary.

How work is cut follows from shapes alone, never from ``parallel_for``, so results do not depend on threads.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from ..parallel import ParallelFor
from ..workspace import borrow
from .windows import Ints, Windows

# Positions per matmul: enough rows to pay for packing the weights, few enough that the columns stay in cache.
_POSITIONS = 1024
# Of short rows more, until the columns (numbers) fill an L2 cache: a call into NumPy costs a microsecond or two.
_COLUMNS = 1 << 18
# From this size on, threads share a weight gradient by channels.
_LARGE_WEIGHT = 1 << 19
# The weight gradient sums pieces in this many lanes, whatever the number of threads.
_LANES = 2


@functools.lru_cache(maxsize=4096)
def blocks(shape: Ints, budget: int) -> tuple[tuple[slice, ...], ...]:
    """Cut an index space into boxes of at most ``budget`` points (at least one), whole inner axes first."""
    sizes = list(shape)
    for axis, size in enumerate(shape):
        inner = math.prod(shape[axis + 1 :])
        if inner <= budget:
            count = -(-size // max(1, budget // inner))
            sizes[axis] = -(-size // count)  # equal blocks, not full ones and a small rest
            break
        sizes[axis] = 1
    starts = itertools.product(*(range(0, size, step) for size, step in zip(shape, sizes)))
    return tuple(tuple(slice(a, min(a + step, size)) for a, step, size in zip(start, sizes, shape)) for start in starts)


def positions_for(depth: int) -> int:
    """Return how many outputs, each a row of ``depth`` gathered numbers, to work on at once."""
    return max(_POSITIONS, _COLUMNS // max(1, depth))


def pieces_of(n: int, n_out: int, positions: int) -> list[slice]:
    """Cut the batch into pieces of about ``positions`` outputs, at least two so that two threads can share."""
    images = max(1, min(-(-n // 2), positions // max(1, n_out)))
    images = -(-n // -(-n // images))
    return [slice(first, min(n, first + images)) for first in range(0, n, images)]


def shares_channels(size: int) -> bool:
    """Whether threads share a weight gradient of ``size`` numbers by channels.

    Adding up two such weights would cost more than reading the gradient of the result twice.
    """
    return size >= _LARGE_WEIGHT


def in_halves(n: int, parallel_for: ParallelFor, fn: Callable[[slice], None]) -> None:
    """Call ``fn`` for both halves of ``range(n)``."""
    half = -(-n // 2)

    def run(low: int, high: int) -> None:
        for first in range(low * half, min(n, high * half), half):
            fn(slice(first, min(n, first + half)))

    parallel_for(2, 1, run)


def sum_in_lanes(
    n: int, shape: Ints, dtype: np.dtype, parallel_for: ParallelFor, add: Callable[[int, np.ndarray, bool], None]
) -> np.ndarray:
    """Return the sum of ``n`` pieces; ``add(piece, total, first)`` writes or adds one to ``total``."""
    lanes = min(n, _LANES)
    totals = [np.empty(shape, dtype) for _ in range(lanes)]

    def run(low: int, high: int) -> None:
        for lane in range(low, high):
            first, last = n * lane // lanes, n * (lane + 1) // lanes
            for piece in range(first, last):
                add(piece, totals[lane], piece == first)

    parallel_for(lanes, 1, run)
    for other in totals[1:]:
        totals[0] += other
    return totals[0]


def pad_into(x: np.ndarray, padded: np.ndarray, first_axis: int, windows: Windows) -> None:
    """Write ``x`` into ``padded`` (same axis order) at ``low``, zeros around it, cropping what is out of range."""
    to: list[slice] = [slice(None)] * x.ndim
    frm: list[slice] = [slice(None)] * x.ndim
    for axis, (low, size) in enumerate(zip(windows.low, windows.size), start=first_axis):
        begin, end = max(0, -low), min(x.shape[axis], size - low)
        if end <= begin:
            padded.fill(0)
            return
        if begin + low > 0:
            to[axis] = slice(0, begin + low)
            padded[tuple(to)] = 0
        if end + low < size:
            to[axis] = slice(end + low, size)
            padded[tuple(to)] = 0
        to[axis], frm[axis] = slice(begin + low, end + low), slice(begin, end)
    copy(padded[tuple(to)], x[tuple(frm)])


def with_padded(
    x: np.ndarray, as_is: bool, first_axis: int, windows: Windows, dtype: np.dtype, fn: Callable[[np.ndarray], None]
) -> None:
    """Call ``fn`` with ``x`` padded for ``windows``: a temporary, or ``x`` itself where that is the same (``as_is``)."""
    if as_is:
        fn(x)
        return
    shape = (*x.shape[:first_axis], *windows.size, *x.shape[first_axis + len(windows.size) :])
    with borrow("padded", shape, dtype) as padded:
        pad_into(x, padded, first_axis, windows)
        fn(padded)


def copy(to: np.ndarray, frm: np.ndarray) -> None:
    """``to[...] = frm``, a transpose to channel-last in blocks of channels whose lines fit into one cache set."""
    stride = abs(frm.strides[-1])
    channels = to.shape[-1]
    # 4096 bytes is the span of one way of an L1 cache, 8 its ways: 4x faster for 32x32 images.
    fit = 8 * (4096 // math.gcd(stride, 4096)) if stride >= 1024 else channels
    for first in range(0, channels, fit):
        np.copyto(to[..., first : first + fit], frm[..., first : first + fit], casting="same_kind")


def is_plain(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether an array can be multiplied as it is."""
    return array.dtype == dtype and array.flags.c_contiguous
