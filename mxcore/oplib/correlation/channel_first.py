"""Multiplying channel-first: windows gathered as ``(channels * taps, positions)`` per image.

For few channels (images, first layers) and for groups, which become the batch axis of one matmul.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ..parallel import ParallelFor
from ..workspace import borrow
from .pieces import blocks, is_plain, pieces_of, positions_for, sum_in_lanes, with_padded
from .windows import Job, Windows


def correlate(
    x: np.ndarray, jobs: Sequence[Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Run jobs, a piece of the padded input at a time, all its groups in one matmul."""
    n, channels = x.shape[:2]
    group, group_filters = jobs[0].w.shape[:2]
    matrices = [job.w.astype(dtype, order="C", copy=False).reshape(group, group_filters, -1) for job in jobs]
    shift = None if bias is None else bias.reshape(group, group_filters, 1)
    shared = jobs[0].windows
    as_is = is_plain(x, dtype) and shared.reads_all_of(x.shape[2:])
    positions = positions_for(channels * max(job.windows.n_taps for job in jobs))
    pieces = pieces_of(n, max(job.windows.n_out for job in jobs), positions)

    def run(low: int, high: int) -> None:
        for rows in pieces[low:high]:
            with_padded(x[rows], as_is, 2, shared, dtype, functools.partial(multiply, rows))

    def multiply(rows: slice, padded: np.ndarray) -> None:
        for job, matrix in zip(jobs, matrices):
            windows = job.windows
            for block in blocks((padded.shape[0], *windows.out), positions):
                to = job.y[rows][(block[0], slice(None), *block[1:])]
                view = windows.view(padded[block[0]], 2, block[1:], False)
                if is_plain(to, dtype):
                    fill(to, view, matrix)
                else:
                    with borrow("product", to.shape, dtype) as product:
                        fill(product, view, matrix)
                        np.copyto(to, product, casting="same_kind")

    def fill(product: np.ndarray, view: np.ndarray, matrix: np.ndarray) -> None:
        out = product.reshape(product.shape[0], group, group_filters, -1)
        if view.flags.c_contiguous:
            np.matmul(matrix, view.reshape(len(out), group, -1, out.shape[-1]), out=out)
        else:
            with borrow("columns", view.shape, dtype) as columns:
                np.copyto(columns, view)
                np.matmul(matrix, columns.reshape(len(out), group, -1, out.shape[-1]), out=out)
        if shift is not None:
            out += shift

    parallel_for(len(pieces), 1, run)


def weigh(
    x: np.ndarray, g: np.ndarray, dw: np.ndarray, windows: Windows, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Write the gradient of the weight: gradients of outputs times the windows, per image and group."""
    n, channels = x.shape[:2]
    group, filters, depth = dw.shape[:3]
    as_is = is_plain(x, dtype) and windows.reads_all_of(x.shape[2:])
    positions = positions_for(channels * windows.n_taps)
    pieces = pieces_of(n, windows.n_out, positions)

    def add(piece: int, total: np.ndarray, first: bool) -> None:
        rows = pieces[piece]
        with_padded(x[rows], as_is, 2, windows, dtype, lambda padded: multiply(rows, padded, total, first))

    def multiply(rows: slice, padded: np.ndarray, total: np.ndarray, first: bool) -> None:
        for block in blocks((padded.shape[0], *windows.out), positions):
            frm = g[rows][(block[0], slice(None), *block[1:])]
            view = windows.view(padded[block[0]], 2, block[1:], False)
            count = len(frm)
            with (
                borrow("columns", view.shape, dtype) as columns,
                borrow("gradient", frm.shape, dtype) as grad,
                borrow("partial", (count, *total.shape), dtype) as partial,
            ):
                if view.flags.c_contiguous:
                    columns = view
                else:
                    np.copyto(columns, view)
                if is_plain(frm, dtype):
                    grad = frm
                else:
                    np.copyto(grad, frm)
                left = grad.reshape(count, group, filters, -1)
                right = columns.reshape(count, group, -1, left.shape[-1])
                np.matmul(left, right.swapaxes(2, 3), out=partial)
                if first:
                    np.add.reduce(partial, axis=0, out=total)
                else:
                    for one in partial:
                        np.add(total, one, out=total)
            first = False

    total = sum_in_lanes(len(pieces), (group, filters, depth * windows.n_taps), dtype, parallel_for, add)
    np.copyto(dw, total.reshape(dw.shape), casting="same_kind")
