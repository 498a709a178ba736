"""Multiplying channel-last: windows gathered as ``(positions, taps * channels)``, one BLAS call a block.

The piece at hand is transposed to channel-last once; then a window is a few long runs. Groups are one product each.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from ..parallel import ParallelFor
from ..workspace import borrow
from .pieces import blocks, copy, is_plain, pieces_of, positions_for, sum_in_lanes, with_padded
from .windows import Job, Windows


def _weight_matrices(w: np.ndarray, dtype: np.dtype, parallel_for: ParallelFor) -> np.ndarray:
    """Return ``(G, O, C, *taps)`` as matrices ``(G, taps * C, O)``, by the cheaper of two transposes."""
    group, filters, depth, *taps = w.shape
    n_rows = depth * math.prod(taps)
    by_filter = w.strides[1] >= w.strides[2]
    if by_filter:
        frm = np.moveaxis(w, 2, -1)
        to = np.empty(frm.shape, dtype)
        result = to.reshape(group, filters, n_rows).swapaxes(1, 2)
    else:
        frm = np.moveaxis(w, (1, 2), (-1, -2))
        to = np.empty(frm.shape, dtype)
        result = to.reshape(group, n_rows, filters)
    axis = 1 if by_filter else frm.ndim - 2
    lead = (slice(None),) * axis

    def run(low: int, high: int) -> None:
        np.copyto(to[(*lead, slice(low, high))], frm[(*lead, slice(low, high))], casting="same_kind")

    n = frm.shape[axis]
    if to.size < 1 << 18:
        run(0, n)
    else:
        parallel_for(n, -(-n // 2), run)
    return result


def correlate(
    x: np.ndarray, jobs: Sequence[Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Run jobs, a piece of the padded input in channel-last order at a time."""
    n = x.shape[0]
    group, group_filters, depth = jobs[0].w.shape[:3]
    filters = group * group_filters
    source = np.moveaxis(x, 1, -1)
    targets = [np.moveaxis(job.y, 1, -1) for job in jobs]
    matrices = [_weight_matrices(job.w, dtype, parallel_for) for job in jobs]
    shared = jobs[0].windows
    as_is = is_plain(source, dtype) and shared.reads_all_of(x.shape[2:])
    positions = positions_for(depth * max(job.windows.n_taps for job in jobs))
    pieces = pieces_of(n, max(job.windows.n_out for job in jobs), positions)

    def run(low: int, high: int) -> None:
        for rows in pieces[low:high]:
            with_padded(source[rows], as_is, 1, shared, dtype, functools.partial(multiply, rows))

    def multiply(rows: slice, padded: np.ndarray) -> None:
        for job, matrix, target in zip(jobs, matrices, targets):
            windows = job.windows
            for block in blocks((padded.shape[0], *windows.out), positions):
                to = target[rows][block]
                view = windows.view(padded[block[0]], 1, block[1:], True)
                if is_plain(to, dtype):
                    fill(to.reshape(-1, filters), view, matrix)
                else:
                    with borrow("product", to.shape, dtype) as product:
                        fill(product.reshape(-1, filters), view, matrix)
                        np.copyto(to, product, casting="same_kind")

    def fill(product: np.ndarray, view: np.ndarray, matrix: np.ndarray) -> None:
        for i in range(group):
            part, out = view, product
            if group > 1:
                part = view[..., i * depth : (i + 1) * depth]
                out = product[:, i * group_filters : (i + 1) * group_filters]
            if part.flags.c_contiguous:
                np.matmul(part.reshape(len(out), -1), matrix[i], out=out)
            else:
                with borrow("columns", part.shape, dtype) as columns:
                    np.copyto(columns, part)
                    np.matmul(columns.reshape(len(out), -1), matrix[i], out=out)
        if bias is not None:
            product += bias

    parallel_for(len(pieces), 1, run)


def weigh(
    x: np.ndarray, g: np.ndarray, dw: np.ndarray, windows: Windows, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Write the gradient of the weight: gradients of outputs, transposed, times the windows."""
    n = x.shape[0]
    group, filters, depth = dw.shape[:3]
    source, grad = np.moveaxis(x, 1, -1), np.moveaxis(g, 1, -1)
    as_is = is_plain(source, dtype) and windows.reads_all_of(x.shape[2:])
    positions = positions_for(depth * windows.n_taps)
    pieces = pieces_of(n, windows.n_out, positions)

    def add(piece: int, total: np.ndarray, first: bool) -> None:
        rows = pieces[piece]
        with_padded(source[rows], as_is, 1, windows, dtype, lambda padded: multiply(rows, padded, total, first))

    def multiply(rows: slice, padded: np.ndarray, total: np.ndarray, first: bool) -> None:
        for block in blocks((padded.shape[0], *windows.out), positions):
            view = windows.view(padded[block[0]], 1, block[1:], True)
            frm = grad[rows][block]
            with borrow("gradient", frm.shape, dtype) as transposed:
                if is_plain(frm, dtype):
                    transposed = frm
                else:
                    copy(transposed, frm)
                left = transposed.reshape(-1, group * filters).T
                for i in range(group):
                    part = view if group == 1 else view[..., i * depth : (i + 1) * depth]
                    rows_of_group = left[i * filters : (i + 1) * filters]
                    if part.flags.c_contiguous:
                        accumulate(rows_of_group, part.reshape(left.shape[1], -1), total[i], first)
                    else:
                        with borrow("columns", part.shape, dtype) as columns:
                            np.copyto(columns, part)
                            accumulate(rows_of_group, columns.reshape(left.shape[1], -1), total[i], first)
            first = False

    def accumulate(left: np.ndarray, right: np.ndarray, total: np.ndarray, first: bool) -> None:
        if first:
            np.matmul(left, right, out=total)
            return
        with borrow("partial", total.shape, dtype) as partial:
            np.matmul(left, right, out=partial)
            np.add(total, partial, out=total)

    total = sum_in_lanes(len(pieces), (group, filters, windows.n_taps * depth), dtype, parallel_for, add)
    parts = total.reshape(group, filters, *windows.taps, depth)
    np.copyto(np.moveaxis(dw, 2, -1), parts, casting="same_kind")
