"""Kernels of the windowed operators, over the functions of :mod:`.convolution` and :mod:`.pooling`.

Here attributes become the full geometry those functions want (strides and pads left out, layouts not said), once
per combination. Everything else here is separable resizing, which is two matrix products.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...operators.resizing import resized
from ...operators.windows import (
    bilinear_upsampling,
    deconvolution_geometry,
    geometry,
    pooling_geometry,
    pooling_output_shape,
)
from ..table import kernel
from ..threads import blas, parallel_for
from . import convolution as _convolution
from . import pooling as _pooling
from .normalization import channel_sum
from .pooling import _Plan


def shared(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Run a windowed function with its pieces shared out to the compute threads and BLAS on one."""

    @functools.wraps(fn)
    def run(*args: Any, **kw: Any) -> Any:
        with blas:
            return fn(*args, parallel_for=parallel_for, **kw)

    return run


convolution = shared(_convolution.convolution)
convolution_backward_data = shared(_convolution.convolution_backward_data)
convolution_backward_weight = shared(_convolution.convolution_backward_weight)
pooling = shared(_pooling.pooling)
pooling_backward = shared(_pooling.pooling_backward)


@kernel("Convolution", "Convolution_v1", numpy=True)
def convolution_(x: Any, w: Any, b: Any, *, kernel: Any, stride: Any, dilate: Any, pad: Any, **a: Any) -> Any:
    return convolution(x, w, b, **geometry(kernel, stride, dilate, pad, a["num_group"], a["layout"]))


@kernel("_conv_backward_data", numpy=True)
def conv_backward_data(g: Any, w: Any, like: Any, **a: Any) -> Any:
    return convolution_backward_data(g, w, data_shape=like.shape, **geometry(**a))


@kernel("_conv_backward_weight", numpy=True)
def conv_backward_weight(g: Any, x: Any, like: Any, **a: Any) -> Any:
    return convolution_backward_weight(x, g, weight_shape=like.shape, **geometry(**a))


@kernel("Deconvolution", numpy=True)
def deconvolution(
    x: Any,
    w: Any,
    b: Any,
    *,
    num_filter: Any,
    workspace: Any,
    no_bias: Any,
    cudnn_tune: Any,
    cudnn_off: Any,
    **a: Any,
) -> Any:
    shape, full = deconvolution_geometry(x.shape, w.shape, **a)
    y = convolution_backward_data(x, w, data_shape=shape, **full)
    if b is not None:
        y += b if full["layout"][-1] == "C" else b.reshape(-1, *(1,) * (y.ndim - 2))
    return y


@kernel("_deconv_backward_data", numpy=True)
def deconv_backward_data(g: Any, w: Any, like: Any, **a: Any) -> Any:
    _, full = deconvolution_geometry(like.shape, w.shape, **a)
    return convolution(g, w, None, **full)


@kernel("_deconv_backward_weight", numpy=True)
def deconv_backward_weight(g: Any, x: Any, like: Any, **a: Any) -> Any:
    _, full = deconvolution_geometry(x.shape, like.shape, **a)
    return convolution_backward_weight(g, x, weight_shape=like.shape, **full)


@kernel("_channel_sum")
def channel_sum_(xp: Any, x: Any, *, axis: int) -> Any:
    return channel_sum(xp, x, axis)


@kernel("_channel_spread")
def channel_spread(xp: Any, v: Any, like: Any, *, axis: int) -> Any:
    shape = [1] * like.ndim
    shape[axis] = -1
    return xp.array(xp.broadcast_to(v.reshape(shape), like.shape), order="C")


# ---------------------------------------------------------------------------------------------------------------
# Pooling


@kernel("Pooling", numpy=True)
def pooling_(x: Any, *, cudnn_off: bool, **a: Any) -> Any:
    return pooling(x, **pooling_geometry(x.ndim, **a))


@kernel("Pooling_v1", numpy=True)
def pooling_v1(x: Any, **a: Any) -> Any:
    if a["pool_type"] == "max" and any(a["pad"]) and not a["global_pool"]:
        # Here padding is a 0 like any other number, so that it can be the maximum.
        x, a = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in a["pad"]]]), {**a, "pad": ()}
    return pooling(x, **pooling_geometry(x.ndim, **a, p_value=None, count_include_pad=None, layout=None))


@kernel("_pooling_backward", numpy=True)
def pooling_backward_(g: Any, x: Any, y: Any, *, cudnn_off: bool, **a: Any) -> Any:
    return pooling_backward(g, x, y, **pooling_geometry(x.ndim, **a))


@kernel("_pooling_gather", numpy=True)
def pooling_gather(v: Any, x: Any, y: Any, *, cudnn_off: bool, **a: Any) -> Any:
    full = pooling_geometry(x.ndim, **a)
    y_shape = pooling_output_shape(x.shape, **full)
    plan = _Plan(x.shape, y_shape, *(full[k] for k in ("kernel", "global_pool", "stride", "pad", "layout")))
    result = np.zeros(y.shape, v.dtype)
    to, source = plan.flat(result, plan.out), plan.flat(x, plan.spatial)
    values, top = plan.flat(v, plan.spatial), plan.flat(y, plan.out)
    taken = np.zeros(top.shape, bool)
    for outputs, inputs in plan.offsets():
        hit = (source[inputs] == top[outputs]) & ~taken[outputs]
        taken[outputs] |= hit
        to[outputs] += np.where(hit, values[inputs], 0)
    return result


# ---------------------------------------------------------------------------------------------------------------
# Resizing


def upsample(xp: Any, x: Any, scale: int) -> Any:
    """Repeat rows and columns ``scale`` times."""
    n, c, h, w = x.shape
    wide = xp.broadcast_to(x[:, :, :, None, :, None], (n, c, h, scale, w, scale))
    return xp.array(wide, order="C").reshape(n, c, h * scale, w * scale)


@functools.lru_cache(maxsize=256)
def averaging_matrix(size: int, out: int) -> np.ndarray:
    """Return the matrix ``(out, size)`` whose row ``i`` averages positions ``floor(i s)`` to ``ceil((i + 1) s)``."""
    matrix = np.zeros((out, size))
    for i in range(out):
        first, last = i * size // out, -(-(i + 1) * size // out)
        matrix[i, first:last] = 1 / (last - first)
    return matrix


@functools.lru_cache(maxsize=256)
def bilinear_matrix(size: int, out: int, align_corners: bool) -> np.ndarray:
    """Return the matrix ``(out, size)`` of linear interpolation.

    With ``align_corners`` the first and the last positions coincide; else positions are centres of cells.
    """
    if align_corners:
        at = np.arange(out) * ((size - 1) / (out - 1) if out > 1 else 0.0)
    else:
        at = np.maximum((np.arange(out) + 0.5) * (size / out) - 0.5, 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = at - low
    matrix = np.zeros((out, size))
    np.add.at(matrix, (np.arange(out), low), 1 - part)
    np.add.at(matrix, (np.arange(out), high), part)
    return matrix


def separable(xp: Any, x: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    """Return ``rows @ x @ columns.T`` for every image of ``(N, C, H, W)``."""
    dtype = np.float32 if x.dtype == np.float16 else x.dtype
    a, b = xp.asarray(rows.astype(dtype)), xp.asarray(columns.astype(dtype).T)
    y = xp.matmul(xp.matmul(a, x.astype(dtype, copy=False)), b)
    return y.astype(x.dtype, copy=False)


def _pooled_size(output_size: tuple[int, ...]) -> tuple[int, int]:
    if not output_size:
        return 1, 1
    return (output_size[0], output_size[-1])


@kernel("_contrib_AdaptiveAvgPooling2D")
def adaptive_pooling(xp: Any, x: Any, *, output_size: tuple[int, ...]) -> Any:
    h, w = _pooled_size(output_size)
    if (h, w) == (1, 1):
        return x.mean(axis=(2, 3), keepdims=True).astype(x.dtype, copy=False)
    return separable(xp, x, averaging_matrix(x.shape[2], h), averaging_matrix(x.shape[3], w))


@kernel("_adaptive_pooling_backward")
def adaptive_pooling_backward(xp: Any, g: Any, like: Any, *, output_size: tuple[int, ...]) -> Any:
    rows, columns = (averaging_matrix(n, m) for n, m in zip(like.shape[2:], g.shape[2:]))
    return separable(xp, g, rows.T, columns.T)


@kernel("_contrib_BilinearResize2D")
def bilinear_resize(xp: Any, x: Any, like: Any, *, align_corners: bool, **a: Any) -> Any:
    h, w = resized(x.shape, None if like is None else like.shape, a)
    return separable(
        xp, x, bilinear_matrix(x.shape[2], h, align_corners), bilinear_matrix(x.shape[3], w, align_corners)
    )


@kernel("_bilinear_resize_backward")
def bilinear_resize_backward(xp: Any, g: Any, data: Any, *, align_corners: bool) -> Any:
    rows, columns = (bilinear_matrix(n, m, align_corners) for n, m in zip(data.shape[2:], g.shape[2:]))
    return separable(xp, g, rows.T, columns.T)


@kernel("UpSampling", numpy=True)
def upsampling(*xs: Any, scale: int, sample_type: str, multi_input_mode: str, **a: Any) -> Any:
    if sample_type == "bilinear":
        x, w = xs
        how = bilinear_upsampling(scale)
        shape, full = deconvolution_geometry(
            x.shape, w.shape, adj=(), target_shape=(), dilate=(), num_group=x.shape[1], layout=None, **how
        )
        return convolution_backward_data(x, w, data_shape=shape, **full)
    height = xs[0].shape[2] * scale
    parts = [upsample(np, x, height // x.shape[2]) for x in xs]
    if len(parts) == 1:
        return parts[0]
    if multi_input_mode == "concat":
        return np.concatenate(parts, axis=1)
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


@kernel("_backward_UpSampling")
def backward_upsampling(xp: Any, g: Any, *xs: Any, scale: int, multi_input_mode: str, index: int) -> Any:
    n, c, h, w = xs[index].shape
    scale = xs[0].shape[2] * scale // h
    if multi_input_mode == "concat":
        first = sum(x.shape[1] for x in xs[:index])
        g = g[:, first : first + c]
    return g.reshape(n, c, h, scale, w, scale).sum(axis=(3, 5), dtype=g.dtype)
