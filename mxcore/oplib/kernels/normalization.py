"""Kernels of the normalizations.

Batch normalization is what a convolutional network spends its time on after the convolutions, so its kernels count
passes: sums row by row (``einsum`` and ``matmul``, three times as fast as ``add.reduce``), everything else in place on
pieces that stay in cache. Sums of rows are added up in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..table import kernel
from ..threads import parallel_for
from ..workspace import borrow
from .neural import into, positive_part, row_dot, row_sum

#: Shorter rows than this are worked on as if they were one long row, with the vectors of channels repeated.
_SHORT = 64
#: Numbers per piece: small enough for the cache, large enough that sharing pieces out is cheap.
_PIECE = 1 << 17
#: How far squares may cancel against the squared mean before the variance is computed from differences.
_CANCELS = 30.0


def _split(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return how many numbers are before, along and after an axis."""
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def channel_sum(xp: Any, x: Any, axis: int) -> Any:
    """Return the sums over all axes but ``axis``, in the dtype of ``x``."""
    lead, channels, tail = _split(x.shape, axis)
    if xp is not np or x.dtype.kind != "f" or x.dtype == np.float16:
        axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
        return np.add.reduce(x, axis=axes, dtype=np.float32 if x.dtype == np.float16 else x.dtype).astype(
            x.dtype, copy=False
        )
    return _sums(np.ascontiguousarray(x).reshape(lead, channels, tail)).astype(x.dtype)


def _sums(x: np.ndarray) -> np.ndarray:
    """Return the sums ``(C,)`` of ``(L, C, R)``, in float64."""
    lead, channels, tail = x.shape
    if tail >= _SHORT:
        rows = np.empty((lead, channels), x.dtype)

        def run(part: slice) -> None:
            np.einsum("rk->r", x[part].reshape(-1, tail), out=rows[part].reshape(-1))

        _on_pieces(x.shape, run)
        return np.add.reduce(rows, axis=0, dtype=np.float64)
    total = np.zeros(channels * tail)
    for part in _pieces(x.shape):
        total += np.add.reduce(x[part].reshape(-1, channels * tail), axis=0)
    return np.add.reduce(total.reshape(channels, tail), axis=1)


def _dots(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the sums ``(C,)`` of the products of two ``(L, C, R)``, in float64."""
    lead, channels, tail = x.shape
    if tail >= _SHORT:
        rows = np.empty((lead, channels), x.dtype)

        def run(part: slice) -> None:
            products = rows[part].reshape(-1, 1, 1)
            np.matmul(x[part].reshape(-1, 1, tail), y[part].reshape(-1, tail, 1), out=products)

        _on_pieces(x.shape, run)
        return np.add.reduce(rows, axis=0, dtype=np.float64)
    total = np.zeros(channels)
    for part in _pieces(x.shape):
        with borrow("product", x[part].shape, x.dtype) as product:
            np.multiply(x[part], y[part], out=product)
            total += _sums(product)
    return total


def _pieces(shape: tuple[int, ...]) -> list[slice]:
    lead = shape[0]
    step = max(1, _PIECE // max(1, math.prod(shape[1:])))
    return [slice(first, min(lead, first + step)) for first in range(0, lead, step)]


def _on_pieces(shape: tuple[int, ...], fn: Callable[[slice], None]) -> None:
    """Call ``fn`` on every piece; the compute threads share them out."""
    parts = _pieces(shape)

    def run(first: int, last: int) -> None:
        for part in parts[first:last]:
            fn(part)

    parallel_for(len(parts), 1, run)


def _rows(v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """View or repeat a vector of channels so that it broadcasts over ``(L, C, R)`` in long runs.

    The arrays it is combined with go through :func:`_long` first.
    """
    tail = x.shape[2]
    v = np.asarray(v, x.dtype)
    return v[:, None] if tail >= _SHORT else np.repeat(v, tail)


def _long(x: np.ndarray) -> np.ndarray:
    lead, channels, tail = x.shape
    return x if tail >= _SHORT else x.reshape(lead, channels * tail)


def _statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of every channel of ``(L, C, R)``, in float64."""
    count = x.shape[0] * x.shape[2]
    mean = _sums(x) / count
    var = _dots(x, x) / count - mean * mean
    if not (mean * mean <= _CANCELS * var).all():  # NaN comes here too
        # Squares would cancel: take differences from the mean first.
        rows = _rows(mean, x)
        var = np.zeros_like(mean)
        for part in _pieces(x.shape):
            with borrow("centred", x[part].shape, x.dtype) as centred:
                np.subtract(_long(x[part]), rows, out=_long(centred))
                var += _dots(centred, centred)
        var /= count
    return mean, var


def _work(x: np.ndarray, axis: int) -> np.ndarray:
    """View data as ``(L, C, R)``, in float32 if it is float16."""
    x = np.ascontiguousarray(x if x.dtype != np.float16 else x.astype(np.float32))
    return x.reshape(_split(x.shape, axis))


def batch_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    *,
    eps: float,
    momentum: float,
    fix_gamma: bool,
    use_global_stats: bool,
    axis: int,
    training: bool,
    relu: bool = False,
) -> Any:
    """Normalize each channel; return the result, mean, 1/deviation, and 1 or 0: whether they are of this batch.

    Mutates the moving statistics while training.
    """
    work = _work(x, axis)
    batch = training and not use_global_stats
    if batch and work.size:
        mean, var = _statistics(work)
        for moving, now in ((moving_mean, mean), (moving_var, var)):
            moving *= momentum
            moving += ((1 - momentum) * now).astype(moving.dtype)
    else:
        mean, var = moving_mean.astype(np.float64), moving_var.astype(np.float64)
    invstd = 1 / np.sqrt(var + eps)
    scale = invstd if fix_gamma else invstd * gamma
    y = np.empty(work.shape, work.dtype)
    # (x - mean) * scale + beta as x * scale + shift would lose digits where the mean is large.
    centre, scale, shift = _rows(mean, work), _rows(scale, work), _rows(beta, work)

    def normalize(part: slice) -> None:
        to = _long(y[part])
        np.subtract(_long(work[part]), centre, out=to)
        to *= scale
        to += shift
        if relu:
            positive_part(np, to, out=to)

    _on_pieces(work.shape, normalize)
    dtype = np.asarray(moving_mean).dtype
    result = y.reshape(x.shape).astype(x.dtype, copy=False)
    return result, mean.astype(dtype), invstd.astype(dtype), np.array([batch], dtype)


def backward_batch_norm(
    g: Any, x: Any, gamma: Any, mean: Any, invstd: Any, batch: Any, *, fix_gamma: bool, axis: int
) -> Any:
    """Return the gradients of data, gamma and beta."""
    grad, work = _work(g, axis), _work(x, axis)
    count = max(1, work.shape[0] * work.shape[2])
    mean, invstd = mean.astype(np.float64), invstd.astype(np.float64)
    dbeta = _sums(grad)
    dgamma = (_dots(grad, work) - mean * dbeta) * invstd
    scale = invstd if fix_gamma else invstd * gamma
    dx = np.empty(work.shape, work.dtype)
    a = _rows(scale, work)
    if batch[0]:
        # dx = scale (g - mean(g) - xhat mean(g xhat)) = a g + b x + c
        b = -scale * invstd * dgamma / count
        c = _rows(-scale * dbeta / count - b * mean, work)
        b = _rows(b, work)

        def through_statistics(part: slice) -> None:
            to = _long(dx[part])
            with borrow("scaled", to.shape, to.dtype) as scaled:
                np.multiply(_long(work[part]), b, out=scaled)
                scaled += c
                np.multiply(_long(grad[part]), a, out=to)
                to += scaled

        _on_pieces(work.shape, through_statistics)
    else:
        np.multiply(_long(grad), a, out=_long(dx))
    if fix_gamma:
        dgamma = np.zeros_like(dgamma)
    return (
        dx.reshape(x.shape).astype(x.dtype, copy=False),
        dgamma.astype(gamma.dtype),
        dbeta.astype(gamma.dtype),
    )


@kernel("BatchNorm", numpy=True)
def batch_norm_(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, **a: Any) -> Any:
    for unused in ("output_mean_var", "cudnn_off", "min_calib_range", "max_calib_range"):
        del a[unused]
    return batch_norm(x, gamma, beta, mean, var, **a)


@kernel("_contrib_BatchNormWithReLU", numpy=True)
def batch_norm_relu(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, **a: Any) -> Any:
    return batch_norm_(x, gamma, beta, mean, var, relu=True, **a)


@kernel("_contrib_SyncBatchNorm", numpy=True)
def sync_batch_norm(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, **a: Any) -> Any:
    for unused in ("output_mean_var", "ndev", "key"):
        del a[unused]
    return batch_norm(x, gamma, beta, mean, var, axis=1, **a)


@kernel("BatchNorm_v1", numpy=True)
def batch_norm_v1(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, *, output_mean_var: bool, **a: Any) -> Any:
    return batch_norm(x, gamma, beta, mean, var, axis=1, **a)


@kernel("_backward_BatchNorm", numpy=True)
def backward_batch_norm_(g: Any, x: Any, gamma: Any, mean: Any, invstd: Any, batch: Any, **a: Any) -> Any:
    return backward_batch_norm(g, x, gamma, mean, invstd, batch, **a)


# ---------------------------------------------------------------------------------------------------------------
# Layer, group and instance normalization


def _f32(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _along(v: Any, ndim: int, axis: int) -> Any:
    """View a vector so that it broadcasts along one axis of data with ``ndim`` axes."""
    shape = [1] * ndim
    shape[axis] = -1
    return v.reshape(shape)


def _count(x: Any, axes: Any) -> int:
    return math.prod(x.shape[i] for i in ((axes,) if isinstance(axes, int) else axes))


def _standardized(xp: Any, x: Any, axes: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return ``(x - mean) / std`` (a fresh array), mean and std over ``axes``, which stay with length 1."""
    count = _count(x, axes)
    mean = row_sum(xp, x, axes)
    mean /= count
    y = x - mean
    std = row_dot(xp, y, y, axes)
    std /= count
    std += eps
    std = into(xp, xp.sqrt, std)
    y /= std
    return y, mean, std


@kernel("LayerNorm")
def layer_norm(xp: Any, x: Any, gamma: Any, beta: Any, *, axis: int, eps: float, output_mean_var: bool) -> Any:
    y, mean, std = _standardized(xp, _f32(x), axis, eps)
    y *= _along(gamma, x.ndim, axis)
    y += _along(beta, x.ndim, axis)
    return tuple(v.astype(x.dtype, copy=False) for v in (y, mean, std))


def _standardize_backward(xp: Any, g: Any, xhat: Any, std: Any, axes: Any) -> Any:
    """Return the gradient of ``x`` for the gradient ``g`` of ``xhat = (x - mean) / std``; mutates ``g``."""
    count = _count(g, axes)
    projection = row_dot(xp, g, xhat, axes)
    projection /= count
    mean = row_sum(xp, g, axes)
    mean /= count
    g -= mean
    g -= xhat * projection
    g /= std
    return g


@kernel("_backward_LayerNorm")
def backward_layer_norm(xp: Any, g: Any, x: Any, gamma: Any, mean: Any, std: Any, *, axis: int, eps: float) -> Any:
    grad, std = _f32(g), _f32(std)
    xhat = _f32(x) - _f32(mean)
    xhat /= std
    dgamma = channel_sum(xp, grad * xhat, axis)
    dbeta = channel_sum(xp, grad, axis)
    dx = _standardize_backward(xp, grad * _along(_f32(gamma), x.ndim, axis), xhat, std, axis % x.ndim)
    return dx.astype(x.dtype, copy=False), dgamma.astype(gamma.dtype), dbeta.astype(gamma.dtype)


def _in_groups(x: Any, groups: int) -> Any:
    return x.reshape(x.shape[0], groups or x.shape[1], -1)


@kernel("GroupNorm")
def group_norm(xp: Any, x: Any, gamma: Any, beta: Any, *, num_groups: int, eps: float, output_mean_var: bool) -> Any:
    y, mean, std = _standardized(xp, _in_groups(_f32(x), num_groups), 2, eps)
    y *= gamma[:, None]
    y += beta[:, None]
    shape = (x.shape[0], num_groups)
    return tuple(v.astype(x.dtype, copy=False) for v in (y.reshape(x.shape), mean.reshape(shape), std.reshape(shape)))


@kernel("_backward_GroupNorm")
def backward_group_norm(
    xp: Any, g: Any, x: Any, gamma: Any, mean: Any, std: Any, *, num_groups: int, eps: float
) -> Any:
    grad, std = _in_groups(_f32(g), num_groups), _f32(std)[:, :, None]
    xhat = _in_groups(_f32(x), num_groups) - _f32(mean)[:, :, None]
    xhat /= std
    dgamma = channel_sum(xp, grad * xhat, 1)
    dbeta = channel_sum(xp, grad, 1)
    dx = _standardize_backward(xp, grad * _f32(gamma)[:, None], xhat, std, 2).reshape(x.shape)
    return dx.astype(x.dtype, copy=False), dgamma.astype(gamma.dtype), dbeta.astype(gamma.dtype)


@kernel("InstanceNorm")
def instance_norm(xp: Any, x: Any, gamma: Any, beta: Any, *, eps: float) -> Any:
    y, mean, std = _standardized(xp, _f32(x), tuple(range(2, x.ndim)), eps)
    y *= _along(gamma, x.ndim, 1)
    y += _along(beta, x.ndim, 1)
    shape = x.shape[:2]
    return tuple(v.astype(x.dtype, copy=False) for v in (y, mean.reshape(shape), std.reshape(shape)))


def _l2_axes(mode: str, ndim: int) -> tuple[int, ...]:
    return {"instance": tuple(range(1, ndim)), "channel": (1,), "spatial": tuple(range(2, ndim))}[mode]


@kernel("L2Normalization")
def l2_normalization(xp: Any, x: Any, *, eps: float, mode: str) -> Any:
    work = _f32(x)
    norm = xp.sqrt(xp.add.reduce(xp.square(work), axis=_l2_axes(mode, x.ndim), keepdims=True) + work.dtype.type(eps))
    return (work / norm).astype(x.dtype, copy=False), norm.astype(x.dtype, copy=False)


def _window_sum(xp: Any, x: Any, nsize: int) -> Any:
    """Sum ``nsize`` neighbouring channels, centred, with zeros beyond the ends."""
    half, channels = nsize // 2, x.shape[1]
    total = xp.array(x, order="C")
    for k in range(1, min(half, channels - 1) + 1):
        total[:, k:] += x[:, :-k]
        total[:, :-k] += x[:, k:]
    return total


@kernel("LRN", numpy=True)
def lrn(x: Any, *, alpha: float, beta: float, knorm: float, nsize: int) -> Any:
    work = _f32(x)
    base = _window_sum(np, np.square(work), nsize)
    base *= alpha / nsize
    base += knorm
    y = work * base**-beta
    return y.astype(x.dtype, copy=False), base.astype(x.dtype, copy=False)


@kernel("_channel_window_sum", numpy=True)
def channel_window_sum(x: Any, *, nsize: int) -> Any:
    return _window_sum(np, x, nsize)
