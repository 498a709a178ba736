"""The data gradient by scattering: multiply first, then add overlapping results.

In place of gathering windows of a padded gradient, as the other ways do: the one of this room that has no other half.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..parallel import ParallelFor
from ..workspace import borrow
from .pieces import copy, is_plain, pieces_of, positions_for
from .windows import Ints, Windows

# Results of at most this many channels are scattered, see :func:`suits`.
_FEW_CHANNELS = 8


def suits(plan: Sequence[tuple[Ints, tuple[slice, ...], Windows]], channels: int, kernel: Ints, out: Ints) -> bool:
    """Whether to multiply first and add overlapping results, in place of gathering a padded gradient.

    A gather also multiplies the padding: 2.25 times the work for a 5x5 kernel without pad on 12x12. And a result of
    few channels is a poor matmul, which the taps widen.
    """
    gathered = sum(windows.n_out * windows.n_taps for _, _, windows in plan)
    return channels <= _FEW_CHANNELS or gathered > 1.4 * math.prod(out) * math.prod(kernel)


def scatter(
    g: np.ndarray,
    w: np.ndarray,
    dx: np.ndarray,
    kernel: Ints,
    stride: Ints,
    dilate: Ints,
    pad: Ints,
    dtype: np.dtype,
    parallel_for: ParallelFor,
) -> None:
    """Write the data gradient into ``dx`` by adding ``g``'s product with each tap of ``w`` ``(O, C, *kernel)``."""
    n, filters, *out = g.shape
    channels, spatial = dx.shape[1], dx.shape[2:]
    n_out, n_taps = math.prod(out), math.prod(kernel)
    channel_last = channels > _FEW_CHANNELS
    pieces = pieces_of(n, n_out, positions_for(channels * n_taps))
    taps = list(itertools.product(*map(range, kernel)))
    # Where each tap lands, cropped to the data: (outputs, data positions).
    lands = []
    for position in taps:
        pairs = [
            _landing(t * d - p, o, s, size) for t, d, p, o, s, size in zip(position, dilate, pad, out, stride, spatial)
        ]
        lands.append((tuple(a for a, _ in pairs), tuple(b for _, b in pairs)))
    matrix: np.ndarray
    if channel_last:
        matrix = np.moveaxis(w, (0, 1), (-2, -1)).astype(dtype, order="C").reshape(n_taps, filters, channels)
    else:
        matrix = np.moveaxis(w, 0, -1).astype(dtype, order="C").reshape(channels * n_taps, filters)

    def run(low: int, high: int) -> None:
        for rows in pieces[low:high]:
            if channel_last:
                scatter_channel_last(np.moveaxis(g[rows], 1, -1), np.moveaxis(dx[rows], 1, -1))
            else:
                scatter_channel_first(g[rows], dx[rows])

    def scatter_channel_last(frm: np.ndarray, to: np.ndarray) -> None:
        count = len(frm)
        with (
            borrow("gradient", frm.shape, dtype) as grad,
            borrow("columns", (n_taps, count * n_out, channels), dtype) as columns,
            borrow("padded", to.shape, dtype) as total,
        ):
            copy(grad, frm)
            np.matmul(grad.reshape(-1, filters), matrix, out=columns)
            total.fill(0)
            for (outputs, data), part in zip(lands, columns.reshape(n_taps, count, *out, channels)):
                window = total[(slice(None), *data)]
                np.add(window, part[(slice(None), *outputs)], out=window)
            np.copyto(to, total, casting="same_kind")

    def scatter_channel_first(frm: np.ndarray, to: np.ndarray) -> None:
        count = len(frm)
        with (
            borrow("gradient", frm.shape, dtype) as grad,
            borrow("columns", (count, channels * n_taps, n_out), dtype) as columns,
            borrow("padded", to.shape, dtype) as total,
        ):
            if is_plain(frm, dtype):
                grad = frm
            else:
                np.copyto(grad, frm)
            np.matmul(matrix, grad.reshape(count, filters, n_out), out=columns)
            total.fill(0)
            parts = columns.reshape(count, channels, n_taps, *out)
            for t, (outputs, data) in enumerate(lands):
                window = total[(slice(None), slice(None), *data)]
                seen: Any = (slice(None), slice(None), t, *outputs)
                np.add(window, parts[seen], out=window)
            np.copyto(to, total, casting="same_kind")

    parallel_for(len(pieces), 1, run)


def _landing(start: int, out: int, stride: int, size: int) -> tuple[slice, slice]:
    """Return the outputs ``o`` with ``0 <= start + stride * o < size``, and those positions."""
    low = max(0, -(start // stride))
    high = max(low, min(out, (size - 1 - start) // stride + 1))
    first = start + stride * low
    return slice(low, high), slice(first, first + (high - low) * stride, stride) if high > low else slice(0, 0)
