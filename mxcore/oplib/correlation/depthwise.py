"""Multiplying depthwise: with one channel per group there is no matrix, but one multiply-add per tap over long runs.

With stride 1 a tap is an offset into the flattened padded image, so each multiply-add is one run; the positions between
the rows are computed too and dropped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..parallel import ParallelFor
from ..workspace import borrow
from .pieces import pad_into
from .windows import Ints, Job, Windows

# Floats of the padded image (some channels of it) that a depthwise piece works on.
_FLOATS = 1 << 17


def suits(group: int, channels: int, filters: int) -> bool:
    """Whether to go this way, by the channels and filters of each group."""
    return group > 1 and channels == 1 and filters <= 4


def _at(position: Sequence[Any]) -> Any:
    """Return the index of a position, or of slices, after one leading axis."""
    return (slice(None), *position)


def _flat_span(windows: Windows) -> int:
    """Return how far the outputs of one tap reach in the flattened padded input (stride 1 only)."""
    span = 0
    for size, out in zip(windows.size, windows.out):
        span = span * size + out - 1
    return span + 1


def _flat_offsets(windows: Windows) -> list[int]:
    """Return where each tap begins in the flattened padded input."""
    offsets = []
    for position in itertools.product(*map(range, windows.taps)):
        offset = 0
        for size, begin, step, t in zip(windows.size, windows.start, windows.step, position):
            offset = offset * size + begin + step * t
        offsets.append(offset)
    return offsets


def _rows_of(flat: np.ndarray, windows: Windows) -> np.ndarray:
    """View the outputs in ``(channels, span)``, which also holds what lies between rows."""
    strides = [flat.itemsize]
    for size in reversed(windows.size[1:]):
        strides.insert(0, strides[0] * size)
    return np.ndarray((len(flat), *windows.out), flat.dtype, flat, 0, (flat.strides[0], *strides))


def correlate(
    x: np.ndarray, jobs: Sequence[Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Run jobs, some channels of one padded image at a time."""
    n, channels = x.shape[:2]
    group_filters = jobs[0].w.shape[1]
    shared = jobs[0].windows
    weights = [job.w.astype(dtype, order="C", copy=False).reshape(channels, group_filters, -1) for job in jobs]
    shift = None if bias is None else bias.reshape(channels, group_filters)
    some = max(1, min(channels, _FLOATS // max(1, math.prod(shared.size))))
    per_image = -(-channels // some)

    def run(low: int, high: int) -> None:
        for piece in range(low, high):
            image, first = piece // per_image, piece % per_image * some
            part = slice(first, min(channels, first + some))
            with borrow("padded", (part.stop - first, *shared.size), dtype) as padded:
                pad_into(x[image, part], padded, 1, shared)
                for job, w in zip(jobs, weights):
                    to = job.y[image].reshape(channels, group_filters, *job.windows.out)[part]
                    for m in range(group_filters):
                        add = None if shift is None else shift[part, m]
                        fill(padded, job.windows, w[part, m], add, to[:, m])

    def fill(padded: np.ndarray, windows: Windows, w: np.ndarray, add: np.ndarray | None, to: np.ndarray) -> None:
        count = len(padded)
        if all(s == 1 for s in windows.stride):
            shape: Ints = (count, _flat_span(windows))
            flat = padded.reshape(count, -1)
            seen = [flat[:, offset : offset + shape[1]] for offset in _flat_offsets(windows)]
        else:
            shape = (count, *windows.out)
            view = windows.view(padded, 1, tuple(slice(0, o) for o in windows.out), False)
            seen = [view[_at(position)] for position in itertools.product(*map(range, windows.taps))]
        scale = w.reshape(count, -1, *(1,) * (len(shape) - 1))
        with borrow("product", shape, dtype) as total, borrow("partial", shape, dtype) as term:
            np.multiply(seen[0], scale[:, 0], out=total)
            for t, source in enumerate(seen[1:], start=1):
                np.multiply(source, scale[:, t], out=term)
                np.add(total, term, out=total)
            if add is not None:
                total += add.reshape(count, *(1,) * (len(shape) - 1))
            np.copyto(to, _rows_of(total, windows) if total.shape != to.shape else total, casting="same_kind")

    parallel_for(n * per_image, 1, run)


def weigh(
    x: np.ndarray, g: np.ndarray, dw: np.ndarray, windows: Windows, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Write the gradient of the weight, one sum of products per tap."""
    n, channels = x.shape[:2]
    filters = dw.shape[1]
    flat = all(s == 1 for s in windows.stride)
    grad = g.reshape(n, channels, filters, *windows.out)
    some = max(1, min(channels, _FLOATS // max(1, math.prod(windows.size))))
    total = np.empty((channels, filters, windows.n_taps), dtype)

    def run(low: int, high: int) -> None:
        for index in range(low, high):
            part = slice(index * some, min(channels, (index + 1) * some))
            total[part] = 0
            for image in range(n):
                with borrow("padded", (part.stop - part.start, *windows.size), dtype) as padded:
                    pad_into(x[image, part], padded, 1, windows)
                    for m in range(filters):
                        dot(padded, grad[image, part, m], total[part, m])

    def dot(padded: np.ndarray, frm: np.ndarray, sums: np.ndarray) -> None:
        count = len(padded)
        with borrow("gradient", (count, _flat_span(windows)) if flat else frm.shape, dtype) as rows:
            if flat:
                rows.fill(0)  # between the rows of outputs
                np.copyto(_rows_of(rows, windows), frm, casting="same_kind")
                seen = padded.reshape(count, -1)
                for t, offset in enumerate(_flat_offsets(windows)):
                    sums[:, t] += np.einsum("cl,cl->c", seen[:, offset : offset + rows.shape[1]], rows)
                return
            np.copyto(rows, frm, casting="same_kind")
            view = windows.view(padded, 1, tuple(slice(0, o) for o in windows.out), False)
            axes = "cdhw"[: rows.ndim]
            for t, position in enumerate(itertools.product(*map(range, windows.taps))):
                sums[:, t] += np.einsum(f"{axes},{axes}->c", view[_at(position)], rows)

    # Threads share the channels, so nothing needs adding up afterwards.
    parallel_for(-(-channels // some), 1, run)
    np.copyto(dw, total.reshape(dw.shape), casting="same_kind")
