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

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcore.operators.windows import convolution_output_shape
from mxcore.oplib.correlation import channel_first, channel_last, depthwise, scatter, winograd
from mxcore.oplib.correlation.pieces import in_halves, shares_channels
from mxcore.oplib.correlation.windows import Ints, Job, Windows, backward_windows, forward_windows
from mxcore.oplib.parallel import ParallelFor, serial
from mxcore.oplib.precision import wide

__all__ = ["convolution", "convolution_backward_data", "convolution_backward_weight"]


def _channel_first(array: np.ndarray, layout: str) -> np.ndarray:
    """View an activation or a weight with its channel axis second."""
    return array if layout[1] == "C" else np.moveaxis(array, -1, 1)


def _grouped(w: np.ndarray, num_group: int) -> np.ndarray:
    """View a channel-first weight ``(O, C/G, *kernel)`` as ``(G, O/G, C/G, *kernel)``."""
    filters, *rest = w.shape
    return w.reshape(num_group, filters // num_group, *rest)


def _prefer_channel_last(x: np.ndarray, windows: Windows, group: int, filters: int) -> bool:
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
    x: np.ndarray, jobs: Sequence[Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Run jobs that share one padded input. ``x`` is ``(N, C, *spatial)`` with any strides."""
    if x.shape[0] == 0:
        return
    group, filters, depth = jobs[0].w.shape[:3]
    if depthwise.suits(group, depth, filters):
        run: Any = depthwise.correlate
    elif len(jobs) == 1 and winograd.suits(jobs[0].windows, x.shape[0], group, depth, filters, dtype, summed=False):
        run = winograd.correlate
    elif any(_prefer_channel_last(x, job.windows, group, group * filters) for job in jobs):
        run = channel_last.correlate
    else:
        run = channel_first.correlate
    run(x, jobs, bias, dtype, parallel_for)


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
    parallel_for: ParallelFor = serial,
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
        A fresh array of :func:`~mxcore.operators.windows.convolution_output_shape` and the dtype of ``x``.

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
    windows = forward_windows(x_view.shape[2:], kernel, stride, dilate, pad, y_view.shape[2:])
    _correlate(x_view, [Job(windows, w_view, y_view)], bias, wide(np.result_type(x, w)), parallel_for)
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
    parallel_for: ParallelFor = serial,
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
    plan = backward_windows(spatial, kernel, stride, dilate, pad, out)
    if num_group == 1 and g.size and scatter.suits(plan, dx_view.shape[1], kernel, out):
        scatter.scatter(
            g_view,
            w_view[0].swapaxes(0, 1),
            dx_view,
            kernel,
            stride,
            dilate,
            pad,
            wide(np.result_type(g, w)),
            parallel_for,
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
        jobs.append(Job(windows, part, dx_view[(slice(None), slice(None), *index)]))
    if jobs:
        _correlate(g_view, jobs, None, wide(np.result_type(g, w)), parallel_for)
    return dx


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
    parallel_for: ParallelFor = serial,
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
    dtype = wide(np.result_type(x, g))
    dw = np.empty(weight_shape, g.dtype)
    g_view, x_view = _channel_first(g, layout), _channel_first(x, layout)
    dw_view = _grouped(_channel_first(dw, layout), num_group)
    out = g_view.shape[2:]
    x_view, stride = _subsampled(x_view, kernel, stride, pad, out)
    windows = forward_windows(x_view.shape[2:], kernel, stride, dilate, pad, out)
    if x.shape[0] == 0:
        dw.fill(0)
        return dw
    group, filters, depth = dw_view.shape[:3]
    if depthwise.suits(group, depth, filters):
        depthwise.weigh(x_view, g_view, dw_view, windows, dtype, parallel_for)
    elif winograd.suits(windows, x.shape[0], group, depth, filters, dtype, summed=True):
        winograd.weigh(x_view, g_view, dw_view, windows, dtype, parallel_for)
    elif not _prefer_channel_last(x_view, windows, group, group * filters):
        channel_first.weigh(x_view, g_view, dw_view, windows, dtype, parallel_for)
    elif group == 1 and shares_channels(dw.size) and depth > 1:

        def weigh(part: slice) -> None:
            channel_last.weigh(x_view[:, part], g_view, dw_view[:, :, part], windows, dtype, serial)

        in_halves(depth, parallel_for, weigh)
    else:
        channel_last.weigh(x_view, g_view, dw_view, windows, dtype, parallel_for)
    return dw
