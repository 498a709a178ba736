"""Convolution over one to three spatial axes: forward, data gradient (deconvolution) and weight gradient.

Everything is one operation, *correlate*: every output position is the product of a window of a padded input with
a weight matrix. The forward pass is one such job. The data gradient is one per residue of the stride: the outputs
whose positions leave the same remainder see the same taps, so each residue is a plain stride-1 correlation of the
gradient with some of the flipped weights, and nothing is ever added into overlapping places. The weight gradient
multiplies the same windows with the gradient of the result.

Four ways to multiply, chosen from the shapes alone (``docs/design/0003-convolution.md`` has the measurements):

*channel-last*
    The piece at hand is transposed to channel-last once; then a window is a few long runs, gathering costs a
    tenth of the multiplication, and BLAS gets ``(positions, taps * channels) @ (taps * channels, filters)``.
*channel-first*
    Windows are gathered as ``(channels * taps, positions)`` per image. For few channels (images, first layers) and
    for groups, which become the batch axis of one matmul.
*depthwise*
    One channel per group has nothing to multiply as a matrix: one multiply-add per tap over long runs.
*Winograd*
    3x3 with stride 1 in float32 and 32 or more channels: a quarter of the multiplications, F(4x4, 3x3).

All work is cut into pieces that stay in cache, in temporaries that are used again (:mod:`mxcore.oplib.workspace`).
Pieces do not depend on ``parallel_for``, so results do not either. float16 computes in float32.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxcore.oplib.workspace import borrow
from mxcore.spec.errors import ShapeError

__all__ = [
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weight",
    "convolution_output_shape",
    "deconvolution_output_shape",
]

Ints = tuple[int, ...]
ParallelFor = Callable[[int, int, Callable[[int, int], Any]], None]

# Positions per matmul: enough rows to pay for packing the weights, few enough that the columns stay in cache.
_POSITIONS = 1024
# Of short rows more, until the columns (numbers) fill an L2 cache: a call into NumPy costs a microsecond or two.
_COLUMNS = 1 << 18
# Floats of the padded image (some channels of it) that a depthwise piece works on.
_DEPTHWISE_FLOATS = 1 << 16
#: Whether large 3x3 convolutions in float32 may go Winograd's way (about 6 times the rounding error of direct sums).
USE_WINOGRAD = True
_WINOGRAD_CHANNELS = 32
# Fewer tiles than this do not pay for the transform of the weights, or of their gradient.
_WINOGRAD_TILES = 64
_WINOGRAD_SUMMED_TILES = 32
# Transformed numbers of a piece, and tiles of a piece whose products are summed.
_WINOGRAD_FLOATS = 1 << 17
_WINOGRAD_SUM_TILES = 128
# Results of at most this many channels are scattered, see _prefer_scatter.
_FEW_CHANNELS = 8
# From this size on, threads share a weight gradient by channels.
_LARGE_WEIGHT = 1 << 19
# The weight gradient sums pieces in this many lanes, whatever the number of threads.
_LANES = 2


def convolution_output_shape(
    data_shape: Sequence[int],
    weight_shape: Sequence[int],
    *,
    kernel: Ints,
    stride: Ints,
    dilate: Ints,
    pad: Ints,
    num_group: int,
    layout: str,
) -> Ints:
    """Return the shape of ``convolution(x, w, ...)``.

    Raises
    ------
    ShapeError
        When the shapes and attributes do not fit together; says which of them and why.
    """
    n_axes = len(kernel)
    spatial, channel = _axes(layout)

    def fail(why: str) -> ShapeError:
        return ShapeError(
            f"Convolution: data {tuple(data_shape)} ({layout}) and weight {tuple(weight_shape)} with kernel={kernel}, "
            f"stride={stride}, dilate={dilate}, pad={pad}, num_group={num_group}: {why}",
            operator="Convolution",
            shapes=[tuple(data_shape), tuple(weight_shape)],
        )

    if len(data_shape) != n_axes + 2 or len(layout) != n_axes + 2:
        raise fail(f"a kernel of {n_axes} axes needs data of {n_axes + 2} axes and a layout of as many letters.")
    channels, filters = data_shape[channel], weight_shape[0]
    if channels % num_group or filters % num_group:
        raise fail(f"{channels} channels and {filters} filters must both divide by num_group.")
    expected = _weight_shape(filters, channels // num_group, kernel, layout)
    if tuple(weight_shape) != expected:
        raise fail(f"the weight must have shape {expected}.")
    shape = list(data_shape)
    shape[channel] = filters
    for axis, k, s, d, p in zip(spatial, kernel, stride, dilate, pad):
        if min(k, s, d) < 1 or p < 0:
            raise fail("kernel, stride and dilate must be at least 1 and pad at least 0.")
        extent, padded = d * (k - 1) + 1, shape[axis] + 2 * p
        if extent > padded:
            raise fail(f"the kernel spans {extent} positions of axis {axis}, which has {padded} with its pad.")
        shape[axis] = (padded - extent) // s + 1
    return tuple(shape)


def deconvolution_output_shape(
    data_shape: Sequence[int],
    weight_shape: Sequence[int],
    *,
    kernel: Ints,
    stride: Ints,
    dilate: Ints,
    pad: Ints,
    adj: Ints,
    target_shape: Ints,
    num_group: int,
    layout: str,
) -> tuple[Ints, Ints]:
    """Return the output shape of a deconvolution and the ``pad`` to compute it with.

    A ``target_shape`` with any non-zero entry replaces ``pad`` and ``adj`` by what leads to it.

    Raises
    ------
    ShapeError
        When the shapes and attributes do not fit together; says which of them and why.
    """
    n_axes = len(kernel)
    spatial, channel = _axes(layout)

    def fail(why: str) -> ShapeError:
        return ShapeError(
            f"Deconvolution: data {tuple(data_shape)} ({layout}) and weight {tuple(weight_shape)} with "
            f"kernel={kernel}, stride={stride}, dilate={dilate}, pad={pad}, adj={adj}, target_shape={target_shape}, "
            f"num_group={num_group}: {why}",
            operator="Deconvolution",
            shapes=[tuple(data_shape), tuple(weight_shape)],
        )

    if len(data_shape) != n_axes + 2 or len(layout) != n_axes + 2:
        raise fail(f"a kernel of {n_axes} axes needs data of {n_axes + 2} axes and a layout of as many letters.")
    channels = data_shape[channel]
    per_group = weight_shape[1] if layout[1] == "C" else weight_shape[-1]
    expected = _weight_shape(channels, per_group, kernel, layout)
    if tuple(weight_shape) != expected:
        raise fail(f"the weight must have shape {expected}.")
    if channels % num_group:
        raise fail(f"{channels} channels must divide by num_group.")
    shape = list(data_shape)
    shape[channel] = per_group * num_group
    pads = []
    to_target = any(target_shape)
    for i, (axis, k, s, d) in enumerate(zip(spatial, kernel, stride, dilate)):
        if min(k, s, d) < 1:
            raise fail("kernel, stride and dilate must be at least 1.")
        full = s * (shape[axis] - 1) + d * (k - 1) + 1
        if to_target:
            excess = full - target_shape[i]
            if excess < 0:
                raise fail(f"target_shape is larger than {full}, the most that axis {axis} can reach.")
            p, a = (excess + 1) // 2, excess % 2
        else:
            p, a = pad[i], adj[i]
        if a > s - 1:
            raise fail(f"adj must be smaller than the stride, but axis {axis} has {a} and {s}.")
        shape[axis] = full - 2 * p + a
        if shape[axis] < 1:
            raise fail(f"axis {axis} would have {shape[axis]} positions; use less pad.")
        pads.append(p)
    return tuple(shape), tuple(pads)


def _axes(layout: str) -> tuple[Ints, int]:
    return tuple(axis for axis, name in enumerate(layout) if name in "DHW"), layout.index("C")


def _weight_shape(filters: int, channels: int, kernel: Ints, layout: str) -> Ints:
    return (filters, channels, *kernel) if layout[1] == "C" else (filters, *kernel, channels)


def _channel_first(array: np.ndarray, layout: str) -> np.ndarray:
    """View an activation or a weight with its channel axis second."""
    return array if layout[1] == "C" else np.moveaxis(array, -1, 1)


def _grouped(w: np.ndarray, num_group: int) -> np.ndarray:
    """View a channel-first weight ``(O, C/G, *kernel)`` as ``(G, O/G, C/G, *kernel)``."""
    filters, *rest = w.shape
    return w.reshape(num_group, filters // num_group, *rest)


def _compute_dtype(*arrays: np.ndarray) -> np.dtype:
    dtype = np.result_type(*arrays)
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _serial(n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
    fn(0, n)


@dataclass(frozen=True, slots=True)
class _Windows:
    """Which positions of a padded input the outputs see.

    Output ``j`` sees, at tap ``t``, padded position ``start + stride * j + step * t``; padded position ``i`` is input
    position ``i - low`` or zero. One entry per spatial axis.
    """

    low: Ints
    size: Ints
    start: Ints
    stride: Ints
    taps: Ints
    step: Ints
    out: Ints

    @property
    def n_taps(self) -> int:
        return math.prod(self.taps)

    @property
    def n_out(self) -> int:
        return math.prod(self.out)

    @property
    def whole(self) -> bool:
        """Whether there is one tap and the windows are the padded input itself."""
        return self.n_taps == 1 and self.out == self.size and not any(self.start)

    def reads_all_of(self, spatial: Ints) -> bool:
        """Whether the padded input is the input itself."""
        return self.size == spatial and not any(self.low)

    def view(self, padded: np.ndarray, first_axis: int, block: Sequence[slice], taps_last: bool) -> np.ndarray:
        """View contiguous ``padded`` with its spatial axes replaced by those of ``out[block]`` and of the taps."""
        last_axis = first_axis + len(self.out)
        lead, spatial, tail = (
            padded.strides[:first_axis],
            padded.strides[first_axis:last_axis],
            padded.strides[last_axis:],
        )
        offset = 0
        for begin, stride, part, nbytes in zip(self.start, self.stride, block, spatial):
            offset += (begin + stride * part.start) * nbytes
        out = tuple(part.stop - part.start for part in block)
        out_strides = tuple(s * nbytes for s, nbytes in zip(self.stride, spatial))
        tap_strides = tuple(s * nbytes for s, nbytes in zip(self.step, spatial))
        if taps_last:
            shape, strides = (*out, *self.taps), (*out_strides, *tap_strides)
        else:
            shape, strides = (*self.taps, *out), (*tap_strides, *out_strides)
        # np.ndarray is three times faster than as_strided, which matters for small pieces.
        return np.ndarray(
            (*padded.shape[:first_axis], *shape, *padded.shape[last_axis:]),
            padded.dtype,
            padded,
            offset,
            (*lead, *strides, *tail),
        )


@dataclass(frozen=True, slots=True)
class _Job:
    """One correlation: ``y[n, g, o, j] = sum over c, t of x[n, g, c, window(j, t)] * w[g, o, c, t]``."""

    windows: _Windows
    w: np.ndarray  # (G, O/G, C/G, *taps), any strides
    y: np.ndarray  # (N, O, *out), any strides, written


@functools.lru_cache(maxsize=4096)
def _forward_windows(spatial: Ints, kernel: Ints, stride: Ints, dilate: Ints, pad: Ints, out: Ints) -> _Windows:
    size = tuple((o - 1) * s + d * (k - 1) + 1 for o, s, d, k in zip(out, stride, dilate, kernel))
    return _Windows(pad, size, (0,) * len(kernel), stride, kernel, dilate, out)


@functools.lru_cache(maxsize=4096)
def _backward_windows(
    spatial: Ints, kernel: Ints, stride: Ints, dilate: Ints, pad: Ints, out: Ints
) -> tuple[tuple[Ints, tuple[slice, ...], _Windows], ...]:
    """Return, per residue of the stride that sees any tap: residue, the taps in kernel order reversed, windows.

    Data position ``i = r + s*j`` meets tap ``k`` of output ``o`` where ``s*o = i + p - d*k``. So residue ``r`` sees
    every ``q``-th tap, ``q = s / gcd(s, d)``, and the outputs it needs move by ``d*q/s`` per tap.
    """
    per_axis = []
    lows: list[int] = []
    sizes: list[int] = []
    for n, k, s, d, p in zip(spatial, kernel, stride, dilate, pad):
        q = s // math.gcd(s, d)
        # (residue, taps, first output seen at output 0, count of taps, outputs per tap, count of data positions)
        found: list[tuple[int, slice, int, int, int, int]] = []
        for r in range(min(s, n)):
            taps = [t for t in range(k) if (r + p - d * t) % s == 0]
            if taps:
                first = (r + p - d * taps[-1]) // s
                found.append((r, slice(taps[0], taps[-1] + 1, q), first, len(taps), d * q // s, -(-(n - r) // s)))
        low = -min((f[2] for f in found), default=0)
        lows.append(low)
        sizes.append(max((f[2] + low + (f[3] - 1) * f[4] + f[5] for f in found), default=0))
        per_axis.append(found)
    ones = (1,) * len(kernel)
    result = []
    for axes in itertools.product(*per_axis):
        starts = tuple(axis[2] + low for axis, low in zip(axes, lows))
        counts, steps = tuple(axis[3] for axis in axes), tuple(axis[4] for axis in axes)
        outs = tuple(axis[5] for axis in axes)
        windows = _Windows(tuple(lows), tuple(sizes), starts, ones, counts, steps, outs)
        result.append((tuple(axis[0] for axis in axes), tuple(axis[1] for axis in axes), windows))
    return tuple(result)


@functools.lru_cache(maxsize=4096)
def _blocks(shape: Ints, budget: int) -> tuple[tuple[slice, ...], ...]:
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


def _positions(depth: int) -> int:
    """Return how many outputs, each a row of ``depth`` gathered numbers, to work on at once."""
    return max(_POSITIONS, _COLUMNS // max(1, depth))


def _pieces(n: int, n_out: int, positions: int) -> list[slice]:
    """Cut the batch into pieces of about ``positions`` outputs, at least two so that two threads can share."""
    images = max(1, min(-(-n // 2), positions // max(1, n_out)))
    images = -(-n // -(-n // images))
    return [slice(first, min(n, first + images)) for first in range(0, n, images)]


def _pad(x: np.ndarray, padded: np.ndarray, first_axis: int, windows: _Windows) -> None:
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
    _copy(padded[tuple(to)], x[tuple(frm)])


def _copy(to: np.ndarray, frm: np.ndarray) -> None:
    """``to[...] = frm``, a transpose to channel-last in blocks of channels whose lines fit into one cache set."""
    stride = abs(frm.strides[-1])
    channels = to.shape[-1]
    # 4096 bytes is the span of one way of an L1 cache, 8 its ways: 4x faster for 32x32 images.
    fit = 8 * (4096 // math.gcd(stride, 4096)) if stride >= 1024 else channels
    for first in range(0, channels, fit):
        np.copyto(to[..., first : first + fit], frm[..., first : first + fit], casting="same_kind")


def _is_plain(array: np.ndarray, dtype: np.dtype) -> bool:
    return array.dtype == dtype and array.flags.c_contiguous


def _prefer_channel_last(x: np.ndarray, windows: _Windows, group: int, filters: int) -> bool:
    """Guess the cheaper way from the number of runs to gather (8 ns each) and floats to transpose (0.6 ns each)."""
    channels, n_out, n_taps = x.shape[1], windows.n_out, windows.n_taps
    last = first = 0.0
    if not windows.whole:
        merged = windows.taps[-1] if group == 1 and windows.step[-1] == 1 else 1
        last += 8 * n_out * (n_taps // merged) * group
        first += 8 * channels * n_taps * (n_out // windows.out[-1])
    transposes = 0.6 * (math.prod(windows.size) * channels + n_out * filters)
    if x.strides[1] == x.itemsize and channels > 1:
        first += transposes
    else:
        last += transposes
    # An image of few positions is a poor matmul by itself: half speed (100 flops a nanosecond) at 64.
    first += 2 * n_out * n_taps * channels * filters / group / 100 * min(64 / n_out, 4)
    return last < first


def _correlate(
    x: np.ndarray, jobs: Sequence[_Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Run jobs that share one padded input. ``x`` is ``(N, C, *spatial)`` with any strides."""
    if x.shape[0] == 0:
        return
    group, filters, depth = jobs[0].w.shape[:3]
    if group > 1 and depth == 1 and filters <= 4:
        run: Any = _correlate_depthwise
    elif len(jobs) == 1 and _suits_winograd(jobs[0].windows, x.shape[0], group, depth, filters, dtype, _WINOGRAD_TILES):
        run = _correlate_winograd
    elif any(_prefer_channel_last(x, job.windows, group, group * filters) for job in jobs):
        run = _correlate_channel_last
    else:
        run = _correlate_channel_first
    run(x, jobs, bias, dtype, parallel_for)


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


def _correlate_channel_last(
    x: np.ndarray, jobs: Sequence[_Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    n, channels = x.shape[:2]
    group, group_filters, depth = jobs[0].w.shape[:3]
    filters = group * group_filters
    source = np.moveaxis(x, 1, -1)
    targets = [np.moveaxis(job.y, 1, -1) for job in jobs]
    matrices = [_weight_matrices(job.w, dtype, parallel_for) for job in jobs]
    shared = jobs[0].windows
    as_is = _is_plain(source, dtype) and shared.reads_all_of(x.shape[2:])
    positions = _positions(depth * max(job.windows.n_taps for job in jobs))
    pieces = _pieces(n, max(job.windows.n_out for job in jobs), positions)

    def run(low: int, high: int) -> None:
        for rows in pieces[low:high]:
            if as_is:
                multiply(rows, source[rows])
                continue
            with borrow("padded", (rows.stop - rows.start, *shared.size, channels), dtype) as padded:
                _pad(source[rows], padded, 1, shared)
                multiply(rows, padded)

    def multiply(rows: slice, padded: np.ndarray) -> None:
        for job, matrix, target in zip(jobs, matrices, targets):
            windows = job.windows
            for block in _blocks((padded.shape[0], *windows.out), positions):
                to = target[rows][block]
                view = windows.view(padded[block[0]], 1, block[1:], True)
                if _is_plain(to, dtype):
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


def _correlate_channel_first(
    x: np.ndarray, jobs: Sequence[_Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    n, channels = x.shape[:2]
    group, group_filters = jobs[0].w.shape[:2]
    matrices = [job.w.astype(dtype, order="C", copy=False).reshape(group, group_filters, -1) for job in jobs]
    shift = None if bias is None else bias.reshape(group, group_filters, 1)
    shared = jobs[0].windows
    as_is = _is_plain(x, dtype) and shared.reads_all_of(x.shape[2:])
    positions = _positions(channels * max(job.windows.n_taps for job in jobs))
    pieces = _pieces(n, max(job.windows.n_out for job in jobs), positions)

    def run(low: int, high: int) -> None:
        for rows in pieces[low:high]:
            if as_is:
                multiply(rows, x[rows])
                continue
            with borrow("padded", (rows.stop - rows.start, channels, *shared.size), dtype) as padded:
                _pad(x[rows], padded, 2, shared)
                multiply(rows, padded)

    def multiply(rows: slice, padded: np.ndarray) -> None:
        for job, matrix in zip(jobs, matrices):
            windows = job.windows
            for block in _blocks((padded.shape[0], *windows.out), positions):
                to = job.y[rows][(block[0], slice(None), *block[1:])]
                view = windows.view(padded[block[0]], 2, block[1:], False)
                if _is_plain(to, dtype):
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


def _at(position: Sequence[Any]) -> Any:
    """Return the index of a position, or of slices, after one leading axis."""
    return (slice(None), *position)


def _flat_span(windows: _Windows) -> int:
    """Return how far the outputs of one tap reach in the flattened padded input (stride 1 only)."""
    span = 0
    for size, out in zip(windows.size, windows.out):
        span = span * size + out - 1
    return span + 1


def _flat_offsets(windows: _Windows) -> list[int]:
    """Return where each tap begins in the flattened padded input."""
    offsets = []
    for position in itertools.product(*map(range, windows.taps)):
        offset = 0
        for size, begin, step, t in zip(windows.size, windows.start, windows.step, position):
            offset = offset * size + begin + step * t
        offsets.append(offset)
    return offsets


def _rows_of(flat: np.ndarray, windows: _Windows) -> np.ndarray:
    """View the outputs in ``(channels, span)``, which also holds what lies between rows."""
    strides = [flat.itemsize]
    for size in reversed(windows.size[1:]):
        strides.insert(0, strides[0] * size)
    return np.ndarray((len(flat), *windows.out), flat.dtype, flat, 0, (flat.strides[0], *strides))


def _correlate_depthwise(
    x: np.ndarray, jobs: Sequence[_Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """One channel per group: a multiply-add per tap.

    With stride 1 a tap is an offset into the flattened padded image, so each multiply-add is one long run; the
    positions between the rows are computed too and dropped.
    """
    n, channels = x.shape[:2]
    group_filters = jobs[0].w.shape[1]
    shared = jobs[0].windows
    weights = [job.w.astype(dtype, order="C", copy=False).reshape(channels, group_filters, -1) for job in jobs]
    shift = None if bias is None else bias.reshape(channels, group_filters)
    some = max(1, min(channels, _DEPTHWISE_FLOATS // max(1, math.prod(shared.size))))

    def run(low: int, high: int) -> None:
        for image in range(low, high):
            for first in range(0, channels, some):
                part = slice(first, min(channels, first + some))
                with borrow("padded", (part.stop - first, *shared.size), dtype) as padded:
                    _pad(x[image, part], padded, 1, shared)
                    for job, w in zip(jobs, weights):
                        to = job.y[image].reshape(channels, group_filters, *job.windows.out)[part]
                        for m in range(group_filters):
                            add = None if shift is None else shift[part, m]
                            fill(padded, job.windows, w[part, m], add, to[:, m])

    def fill(padded: np.ndarray, windows: _Windows, w: np.ndarray, add: np.ndarray | None, to: np.ndarray) -> None:
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

    parallel_for(n, 1, run)


# Winograd's F(4x4, 3x3): 36 multiplications for 16 outputs in place of 144. A tile of 6x6 inputs is changed to the
# basis of polynomial values at 0, 1, -1, 2, -2 and infinity, where correlation is a product; 2-D is 1-D twice.
_INPUT_BASIS = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
_WEIGHT_BASIS = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24
_OUTPUT_BASIS = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]])


@functools.cache
def _winograd_bases(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the changes of basis of flattened tiles: inputs (36, 36), weights (36, 9), outputs (16, 36)."""
    bases = (_INPUT_BASIS, _WEIGHT_BASIS, _OUTPUT_BASIS)
    return tuple(np.kron(basis, basis).astype(dtype) for basis in bases)  # type: ignore[return-value]


def _suits_winograd(
    windows: _Windows, n: int, group: int, channels: int, filters: int, dtype: np.dtype, least_tiles: int
) -> bool:
    """Whether to use Winograd's way: 3x3, stride 1, float32, and enough of everything to pay for three transforms.

    float64 is for those who want every digit, so it always takes the direct way.
    """
    if windows.taps != (3, 3) or windows.stride != (1, 1) or windows.step != (1, 1) or any(windows.start):
        return False
    if not USE_WINOGRAD or group != 1 or dtype != np.float32:
        return False
    tiles = math.prod(-(-o // 4) for o in windows.out)
    wasted = 16 * tiles > 1.4 * windows.n_out
    return min(channels, filters) >= _WINOGRAD_CHANNELS and n * tiles >= least_tiles and not wasted


def _tiled(windows: _Windows) -> _Windows:
    """Return the 6x6 windows, 4 apart, that hold what ``windows`` read."""
    tiles = tuple(-(-o // 4) for o in windows.out)
    size = tuple(4 * t + 2 for t in tiles)
    return _Windows(windows.low, size, (0, 0), (4, 4), (6, 6), (1, 1), tiles)


def _input_tiles(x: np.ndarray, tiled: _Windows, dtype: np.dtype, to: np.ndarray) -> None:
    """Write the tiles of ``x`` ``(n, H, W, C)`` in their basis into ``to`` ``(36, n * tiles, C)``."""
    n, channels = len(x), x.shape[-1]
    shape = (6, 6, n, *tiled.out, channels)
    with (
        borrow("padded", (n, *tiled.size, channels), dtype) as padded,
        borrow("columns", shape, dtype) as tiles,
    ):
        _pad(x, padded, 1, tiled)
        view = tiled.view(padded, 1, tuple(slice(0, o) for o in tiled.out), True)
        np.copyto(tiles, np.moveaxis(view, (3, 4), (0, 1)))
        np.matmul(_winograd_bases(dtype)[0], tiles.reshape(36, -1), out=to.reshape(36, -1))


def _correlate_winograd(
    x: np.ndarray, jobs: Sequence[_Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    job = jobs[0]
    n, channels = x.shape[:2]
    filters = job.w.shape[1]
    tiled = _tiled(job.windows)
    n_tiles = tiled.n_out
    height, width = job.windows.out
    source, target = np.moveaxis(x, 1, -1), np.moveaxis(job.y, 1, -1)
    _, weight_basis, output_basis = _winograd_bases(dtype)
    # (36, C, O): as the right factor it must not be a transposed view, which costs half the speed of small matmuls.
    frm = np.moveaxis(job.w[0], (0, 1), (-1, -2))
    weights = np.empty((36, channels, filters), dtype)

    def transform(low: int, high: int) -> None:
        # Some channels at a time, so that what the strided reads touch stays in cache.
        for first in range(low, high, 32):
            last = min(high, first + 32)
            with borrow("weights", (3, 3, last - first, filters), dtype) as taps:
                np.copyto(taps, frm[:, :, first:last], casting="same_kind")
                part = weights.reshape(36, -1)[:, first * filters : last * filters]
                np.matmul(weight_basis, taps.reshape(9, -1), out=part)

    parallel_for(channels, -(-channels // 2), transform)
    pieces = _pieces(n, n_tiles, _WINOGRAD_FLOATS // (36 * max(channels, filters)))

    def run(low: int, high: int) -> None:
        for part in pieces[low:high]:
            count = part.stop - part.start
            total = count * n_tiles
            with (
                borrow("tiles", (36, total, channels), dtype) as tiles,
                borrow("products", (36, total, filters), dtype) as products,
                borrow("outputs", (4, 4, count, *tiled.out, filters), dtype) as outputs,
                borrow("product", (count, tiled.out[0], 4, tiled.out[1], 4, filters), dtype) as image,
            ):
                _input_tiles(source[part], tiled, dtype, tiles)
                np.matmul(tiles, weights, out=products)
                np.matmul(output_basis, products.reshape(36, -1), out=outputs.reshape(16, -1))
                np.copyto(image.transpose(2, 4, 0, 1, 3, 5), outputs)
                whole = image.reshape(count, 4 * tiled.out[0], 4 * tiled.out[1], filters)
                if bias is not None:
                    whole += bias
                np.copyto(target[part], whole[:, :height, :width], casting="same_kind")

    parallel_for(len(pieces), 1, run)


def _weigh_winograd(
    x: np.ndarray, g: np.ndarray, dw: np.ndarray, windows: _Windows, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """The transpose of :func:`_correlate_winograd` in the weights: sum products of tiles, then leave the basis."""
    n, channels = x.shape[:2]
    filters = dw.shape[1]
    tiled = _tiled(windows)
    n_tiles = tiled.n_out
    # The outputs of a tile are 4x4 and do not overlap.
    outputs = _Windows((0, 0), tuple(4 * t for t in tiled.out), (0, 0), (4, 4), (4, 4), (1, 1), tiled.out)
    source, grad = np.moveaxis(x, 1, -1), np.moveaxis(g, 1, -1)
    _, weight_basis, output_basis = _winograd_bases(dtype)
    pieces = _pieces(n, n_tiles, _WINOGRAD_SUM_TILES)
    # Threads share the channels of a large weight and the images of a small one, as in the direct way.
    halves = 2 if dw.size >= _LARGE_WEIGHT else 1
    half = -(-channels // halves)

    def sum_pieces(channel: slice, low: int, high: int, total: np.ndarray) -> None:
        for part in pieces[low:high]:
            count = part.stop - part.start
            n_rows = count * n_tiles
            with (
                borrow("tiles", (36, n_rows, channel.stop - channel.start), dtype) as tiles,
                borrow("gradients", (36, n_rows, filters), dtype) as gradients,
                borrow("partial", total.shape, dtype) as partial,
            ):
                _input_tiles(source[part][..., channel], tiled, dtype, tiles)
                with (
                    borrow("padded", (count, *outputs.size, filters), dtype) as padded,
                    borrow("columns", (4, 4, count, *tiled.out, filters), dtype) as cut,
                ):
                    _pad(grad[part], padded, 1, outputs)
                    view = outputs.view(padded, 1, tuple(slice(0, o) for o in tiled.out), True)
                    np.copyto(cut, np.moveaxis(view, (3, 4), (0, 1)))
                    np.matmul(output_basis.T, cut.reshape(16, -1), out=gradients.reshape(36, -1))
                if part is pieces[low]:
                    np.matmul(gradients.swapaxes(1, 2), tiles, out=total)
                else:
                    np.matmul(gradients.swapaxes(1, 2), tiles, out=partial)
                    np.add(total, partial, out=total)

    def finish(channel: slice, total: np.ndarray) -> None:
        with borrow("weights", (3, 3, filters, channel.stop - channel.start), dtype) as taps:
            np.matmul(weight_basis.T, total.reshape(36, -1), out=taps.reshape(9, -1))
            np.copyto(dw[0][:, channel], np.moveaxis(taps, (0, 1), (2, 3)), casting="same_kind")

    if halves == 2:

        def run(low: int, high: int) -> None:
            for first in range(low * half, min(channels, high * half), half):
                channel = slice(first, min(channels, first + half))
                with borrow("sums", (36, filters, channel.stop - first), dtype) as total:
                    sum_pieces(channel, 0, len(pieces), total)
                    finish(channel, total)

        parallel_for(2, 1, run)
        return
    lanes = min(len(pieces), _LANES)
    totals = [np.empty((36, filters, channels), dtype) for _ in range(lanes)]

    def run_lanes(low: int, high: int) -> None:
        for lane in range(low, high):
            sum_pieces(slice(0, channels), len(pieces) * lane // lanes, len(pieces) * (lane + 1) // lanes, totals[lane])

    parallel_for(lanes, 1, run_lanes)
    for other in totals[1:]:
        totals[0] += other
    finish(slice(0, channels), totals[0])


def convolution(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    *,
    kernel: Ints,
    stride: Ints,
    dilate: Ints,
    pad: Ints,
    num_group: int,
    layout: str,
    parallel_for: ParallelFor = _serial,
) -> np.ndarray:
    """Correlate ``x`` with the filters ``w`` and add ``bias`` per filter.

    Parameters
    ----------
    x : ndarray of ``layout``, ``(N, C, *spatial)`` or ``(N, *spatial, C)``, any strides, not changed
    w : ndarray ``(O, C / num_group, *kernel)``, or ``(O, *kernel, C / num_group)`` when channels come last
    bias : ndarray ``(O,)`` or None
    kernel, stride, dilate, pad : tuples with one int per spatial axis
    num_group : int
    layout : 'NCW', 'NCHW', 'NCDHW', 'NWC', 'NHWC' or 'NDHWC'
    parallel_for : callable
        ``parallel_for(n, grain, fn)`` calls ``fn(low, high)`` over parts of ``range(n)``, possibly from several
        threads, and returns when all are done.

    Returns
    -------
    ndarray
        A fresh array of :func:`convolution_output_shape` and the dtype of ``x``.

    Raises
    ------
    ShapeError
        When the shapes and attributes do not fit together.

    Examples
    --------
    >>> x, w = np.arange(5.0).reshape(1, 1, 5), np.array([[[1.0, 0.0, -1.0]]])
    >>> how = dict(kernel=(3,), stride=(1,), dilate=(1,), pad=(1,), num_group=1, layout="NCW")
    >>> convolution(x, w, None, **how)
    array([[[-1., -2., -2., -2.,  3.]]])
    """
    y_shape = convolution_output_shape(
        x.shape, w.shape, kernel=kernel, stride=stride, dilate=dilate, pad=pad, num_group=num_group, layout=layout
    )
    y = np.empty(y_shape, x.dtype)
    y_view, x_view = _channel_first(y, layout), _channel_first(x, layout)
    w_view = _grouped(_channel_first(w, layout), num_group)
    x_view, stride = _subsampled(x_view, kernel, stride, pad, y_view.shape[2:])
    windows = _forward_windows(x_view.shape[2:], kernel, stride, dilate, pad, y_view.shape[2:])
    _correlate(x_view, [_Job(windows, w_view, y_view)], bias, _compute_dtype(x, w), parallel_for)
    return y


def _subsampled(x: np.ndarray, kernel: Ints, stride: Ints, pad: Ints, out: Ints) -> tuple[np.ndarray, Ints]:
    """Drop the positions that a kernel of one position never reads."""
    if math.prod(kernel) > 1 or any(pad):
        return x, stride
    index = tuple(slice(0, (o - 1) * s + 1, s) for o, s in zip(out, stride))
    return x[(slice(None), slice(None), *index)], (1,) * len(stride)


def convolution_backward_data(
    g: np.ndarray,
    w: np.ndarray,
    *,
    data_shape: Sequence[int],
    kernel: Ints,
    stride: Ints,
    dilate: Ints,
    pad: Ints,
    num_group: int,
    layout: str,
    parallel_for: ParallelFor = _serial,
) -> np.ndarray:
    """Return the gradient of the data for the gradient ``g`` of the result.

    This is also the forward pass of a deconvolution with data ``g``, weight ``w`` and result shape ``data_shape``.

    Parameters
    ----------
    g : ndarray of ``layout`` with O channels, any strides, not changed
    w : ndarray, as for :func:`convolution`
    data_shape : sequence of int
        The shape of the result, because a stride leaves several that fit.
    kernel, stride, ... : as for :func:`convolution`

    Returns
    -------
    ndarray
        A fresh array of ``data_shape`` and the dtype of ``g``.
    """
    dx = np.empty(data_shape, g.dtype)
    g_view, dx_view = _channel_first(g, layout), _channel_first(dx, layout)
    w_view = _grouped(_channel_first(w, layout), num_group).swapaxes(1, 2)
    spatial, out = dx_view.shape[2:], g_view.shape[2:]
    plan = _backward_windows(spatial, kernel, stride, dilate, pad, out)
    if num_group == 1 and g.size and _prefer_scatter(plan, dx_view.shape[1], kernel, out):
        _scatter(
            g_view, w_view[0].swapaxes(0, 1), dx_view, kernel, stride, dilate, pad, _compute_dtype(g, w), parallel_for
        )
        return dx
    if len(plan) < math.prod(min(s, n) for s, n in zip(stride, spatial)):
        dx.fill(0)  # some residues of the stride see no tap
    jobs = []
    for residues, taps, windows in plan:
        index = tuple(slice(r, None, s) for r, s in zip(residues, stride))
        index_of_taps: Any = (..., *taps)
        flipped: Any = (..., *(slice(None, None, -1),) * len(taps))
        part = w_view[index_of_taps][flipped]
        jobs.append(_Job(windows, part, dx_view[(slice(None), slice(None), *index)]))
    if jobs:
        _correlate(g_view, jobs, None, _compute_dtype(g, w), parallel_for)
    return dx


def _prefer_scatter(
    plan: Sequence[tuple[Ints, tuple[slice, ...], _Windows]], channels: int, kernel: Ints, out: Ints
) -> bool:
    """Whether to multiply first and add overlapping results, in place of gathering a padded gradient.

    A gather also multiplies the padding: 2.25 times the work for a 5x5 kernel without pad on 12x12. And a result of
    few channels is a poor matmul, which the taps widen.
    """
    gathered = sum(windows.n_out * windows.n_taps for _, _, windows in plan)
    return channels <= _FEW_CHANNELS or gathered > 1.4 * math.prod(out) * math.prod(kernel)


def _scatter(
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
    pieces = _pieces(n, n_out, _positions(channels * n_taps))
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
            _copy(grad, frm)
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
            if _is_plain(frm, dtype):
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


def convolution_backward_weight(
    x: np.ndarray,
    g: np.ndarray,
    *,
    weight_shape: Sequence[int],
    kernel: Ints,
    stride: Ints,
    dilate: Ints,
    pad: Ints,
    num_group: int,
    layout: str,
    parallel_for: ParallelFor = _serial,
) -> np.ndarray:
    """Return the gradient of the weight for the gradient ``g`` of the result.

    Parameters
    ----------
    x, g : ndarrays of ``layout`` with C and O channels, any strides, not changed
    weight_shape : sequence of int
    kernel, stride, ... : as for :func:`convolution`

    Returns
    -------
    ndarray
        A fresh array of ``weight_shape`` and the dtype of ``g``.
    """
    dtype = _compute_dtype(x, g)
    dw = np.empty(weight_shape, g.dtype)
    g_view, x_view = _channel_first(g, layout), _channel_first(x, layout)
    dw_view = _grouped(_channel_first(dw, layout), num_group)
    out = g_view.shape[2:]
    x_view, stride = _subsampled(x_view, kernel, stride, pad, out)
    windows = _forward_windows(x_view.shape[2:], kernel, stride, dilate, pad, out)
    if x.shape[0] == 0:
        dw.fill(0)
        return dw
    group, filters, depth = dw_view.shape[:3]
    if group > 1 and depth == 1 and filters <= 4:
        _weigh_depthwise(x_view, g_view, dw_view, windows, dtype, parallel_for)
    elif _suits_winograd(windows, x.shape[0], group, depth, filters, dtype, _WINOGRAD_SUMMED_TILES):
        _weigh_winograd(x_view, g_view, dw_view, windows, dtype, parallel_for)
    elif not _prefer_channel_last(x_view, windows, group, group * filters):
        _weigh_channel_first(x_view, g_view, dw_view, windows, dtype, parallel_for)
    elif group == 1 and dw.size >= _LARGE_WEIGHT and depth > 1:
        # Threads share the channels: adding up two such weights would cost more than reading g twice.
        half = -(-depth // 2)

        def run(low: int, high: int) -> None:
            for first in range(low * half, min(depth, high * half), half):
                part = slice(first, min(depth, first + half))
                _weigh_channel_last(x_view[:, part], g_view, dw_view[:, :, part], windows, dtype, _serial)

        parallel_for(2, 1, run)
    else:
        _weigh_channel_last(x_view, g_view, dw_view, windows, dtype, parallel_for)
    return dw


def _sum_in_lanes(
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


def _weigh_channel_last(
    x: np.ndarray, g: np.ndarray, dw: np.ndarray, windows: _Windows, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    n, channels = x.shape[:2]
    group, filters, depth = dw.shape[:3]
    source, grad = np.moveaxis(x, 1, -1), np.moveaxis(g, 1, -1)
    as_is = _is_plain(source, dtype) and windows.reads_all_of(x.shape[2:])
    positions = _positions(depth * windows.n_taps)
    pieces = _pieces(n, windows.n_out, positions)

    def add(piece: int, total: np.ndarray, first: bool) -> None:
        rows = pieces[piece]
        if as_is:
            multiply(rows, source[rows], total, first)
            return
        with borrow("padded", (rows.stop - rows.start, *windows.size, channels), dtype) as padded:
            _pad(source[rows], padded, 1, windows)
            multiply(rows, padded, total, first)

    def multiply(rows: slice, padded: np.ndarray, total: np.ndarray, first: bool) -> None:
        for block in _blocks((padded.shape[0], *windows.out), positions):
            view = windows.view(padded[block[0]], 1, block[1:], True)
            frm = grad[rows][block]
            with borrow("gradient", frm.shape, dtype) as transposed:
                if _is_plain(frm, dtype):
                    transposed = frm
                else:
                    _copy(transposed, frm)
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

    total = _sum_in_lanes(len(pieces), (group, filters, windows.n_taps * depth), dtype, parallel_for, add)
    parts = total.reshape(group, filters, *windows.taps, depth)
    np.copyto(np.moveaxis(dw, 2, -1), parts, casting="same_kind")


def _weigh_channel_first(
    x: np.ndarray, g: np.ndarray, dw: np.ndarray, windows: _Windows, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    n, channels = x.shape[:2]
    group, filters, depth = dw.shape[:3]
    as_is = _is_plain(x, dtype) and windows.reads_all_of(x.shape[2:])
    positions = _positions(channels * windows.n_taps)
    pieces = _pieces(n, windows.n_out, positions)

    def add(piece: int, total: np.ndarray, first: bool) -> None:
        rows = pieces[piece]
        if as_is:
            multiply(rows, x[rows], total, first)
            return
        with borrow("padded", (rows.stop - rows.start, channels, *windows.size), dtype) as padded:
            _pad(x[rows], padded, 2, windows)
            multiply(rows, padded, total, first)

    def multiply(rows: slice, padded: np.ndarray, total: np.ndarray, first: bool) -> None:
        for block in _blocks((padded.shape[0], *windows.out), positions):
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
                if _is_plain(frm, dtype):
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

    total = _sum_in_lanes(len(pieces), (group, filters, depth * windows.n_taps), dtype, parallel_for, add)
    np.copyto(dw, total.reshape(dw.shape), casting="same_kind")


def _weigh_depthwise(
    x: np.ndarray, g: np.ndarray, dw: np.ndarray, windows: _Windows, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    n, channels = x.shape[:2]
    filters = dw.shape[1]
    flat = all(s == 1 for s in windows.stride)
    grad = g.reshape(n, channels, filters, *windows.out)
    some = max(1, min(channels, _DEPTHWISE_FLOATS // max(1, math.prod(windows.size))))
    total = np.empty((channels, filters, windows.n_taps), dtype)

    def run(low: int, high: int) -> None:
        for index in range(low, high):
            part = slice(index * some, min(channels, (index + 1) * some))
            total[part] = 0
            for image in range(n):
                with borrow("padded", (part.stop - part.start, *windows.size), dtype) as padded:
                    _pad(x[image, part], padded, 1, windows)
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
