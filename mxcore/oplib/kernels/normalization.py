"""Kernels of the normalizations.

Batch normalization is what a convolutional network spends its time on after the convolutions, so its kernels count
passes: sums row by row (``einsum`` and ``matmul``, three times as fast as ``add.reduce``), everything else in place on
pieces that stay in cache. Sums of rows are added up in float64, those of pieces in their order. The compute threads
share the pieces out, which depend on shapes only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..precision import wide
from ..table import kernel
from ..threads import LARGE, LARGE_PLAIN, STRETCH, parallel_for, stretch_for
from ..workspace import borrow
from .neural import into, positive_part, row_dot, row_sum
from .sharing import by_rows, put

#: Shorter rows than this are worked on as if they were one long row, with the vectors of channels repeated.
_SHORT = 64
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


#: What a piece takes of axes 0 and 1.
_Part = tuple[slice, slice]


def _sums(x: np.ndarray) -> np.ndarray:
    """Return the sums ``(C,)`` of ``(L, C, R)``, in float64."""
    lead, channels, tail = x.shape
    if tail >= _SHORT:
        sums = np.empty((lead, channels), x.dtype)

        def run(part: _Part) -> None:
            np.einsum("rk->r", x[part].reshape(-1, tail), out=sums[part].reshape(-1))

        _on_pieces(x.shape, run)
        return np.add.reduce(sums, axis=0, dtype=np.float64)

    def add(part: _Part) -> Any:
        total = np.add.reduce(x[part].reshape(-1, channels * tail), axis=0).astype(np.float64)
        return np.einsum("rk->r", total.reshape(channels, tail)) if tail > 1 else total

    return _added_up(x.shape, add)


def _dots(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the sums ``(C,)`` of the products of two ``(L, C, R)``, in float64."""
    lead, channels, tail = x.shape
    if tail >= _SHORT:
        sums = np.empty((lead, channels), x.dtype)

        def run(part: _Part) -> None:
            products = sums[part].reshape(-1, 1, 1)
            np.matmul(x[part].reshape(-1, 1, tail), y[part].reshape(-1, tail, 1), out=products)

        _on_pieces(x.shape, run)
        return np.add.reduce(sums, axis=0, dtype=np.float64)

    def add(part: _Part) -> Any:
        with borrow("product", x[part].shape, x.dtype) as product:
            np.multiply(x[part], y[part], out=product)
            return _sums(product)

    return _added_up(x.shape, add)


def _pieces(shape: tuple[int, ...]) -> list[_Part]:
    """Cut ``(L, C, R)`` into contiguous pieces: some of ``L``, or where one of it is large, some channels of one."""
    lead, channels, tail = shape
    numbers = channels * tail
    if tail >= _SHORT:
        piece = stretch_for(lead * numbers)
    else:
        # Numbers one apart in each row are added up in their own dtype in a piece: with many rows that loses digits.
        piece = STRETCH if tail == 1 else 2 * STRETCH
    if tail >= _SHORT and numbers > piece and lead * numbers >= LARGE_PLAIN:
        some = -(-channels // -(-numbers // piece))
        return [(slice(i, i + 1), slice(c, c + some)) for i in range(lead) for c in range(0, channels, some)]
    step = max(1, piece // max(1, numbers))
    return [(slice(first, min(lead, first + step)), slice(None)) for first in range(0, lead, step)]


def _on_pieces(shape: tuple[int, ...], fn: Callable[[_Part], None]) -> None:
    """Call ``fn`` on every piece; the compute threads share them out."""
    parts = _pieces(shape)

    def run(first: int, last: int) -> None:
        for part in parts[first:last]:
            fn(part)

    parallel_for(len(parts), 1, run)


def _added_up(shape: tuple[int, ...], fn: Callable[[_Part], Any]) -> np.ndarray:
    """Return the sum ``(C,)`` of what ``fn`` gives for every piece, in their order, in float64."""
    parts = _pieces(shape)
    found = np.zeros((len(parts), shape[1]))

    def run(first: int, last: int) -> None:
        for k in range(first, last):
            found[k] = fn(parts[k])

    parallel_for(len(parts), 1, run)
    total = np.zeros(shape[1])
    for one in found:
        total += one
    return total


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
        means = _rows(mean, x)

        def squares(part: _Part) -> Any:
            found = np.zeros(x.shape[1])
            with borrow("centred", x[part].shape, x.dtype) as centred:
                np.subtract(_long(x[part]), means[part[1]], out=_long(centred))
                found[part[1]] = _dots(centred, centred)
            return found

        var = _added_up(x.shape, squares)
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

    def normalize(part: _Part) -> None:
        to, channels = _long(y[part]), part[1]
        np.subtract(_long(work[part]), centre[channels], out=to)
        to *= scale[channels]
        to += shift[channels]
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

        def through_statistics(part: _Part) -> None:
            to, channels = _long(dx[part]), part[1]
            with borrow("scaled", to.shape, to.dtype) as scaled:
                np.multiply(_long(work[part]), b[channels], out=scaled)
                scaled += c[channels]
                np.multiply(_long(grad[part]), a[channels], out=to)
                to += scaled

        _on_pieces(work.shape, through_statistics)
    else:

        def through_scale(part: _Part) -> None:
            np.multiply(_long(grad[part]), a[part[1]], out=_long(dx[part]))

        _on_pieces(work.shape, through_scale)
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


def _standardized(xp: Any, x: Any, axes: Any, eps: float, out: Any) -> tuple[Any, Any, Any]:
    """Return ``(x - mean) / std`` (a fresh array or ``out``), mean and std over ``axes``, which stay with length 1."""
    count = _count(x, axes)
    mean = row_sum(xp, x, axes)
    mean /= count
    y = x - mean if out is None else put(np.subtract, out, x, mean)
    std = row_dot(xp, y, y, axes)
    std /= count
    std += eps
    std = into(xp, xp.sqrt, std)
    y /= std
    return y, mean, std


def _normalized(xp: Any, x: Any, axes: tuple[int, ...], eps: float, gamma: Any, beta: Any) -> Any:
    """Return ``gamma * (x - mean) / std + beta``, mean and std over ``axes``, in the dtype of ``x``."""

    along = axes if len(axes) > 1 else axes[0]
    if xp is not np or x.size < LARGE:
        return _normalize(xp, along, eps, gamma, beta, x)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    fn = functools.partial(_normalize, np, along, eps, gamma, beta)
    return by_rows(np, fn, 0 in axes, [(shape, x.dtype) for shape in (x.shape, kept, kept)], x)


def _normalize(xp: Any, axes: Any, eps: float, gamma: Any, beta: Any, x: Any, out: Any = None) -> Any:
    y, mean, std = _standardized(xp, _f32(x), axes, eps, out)
    y *= gamma
    y += beta
    return tuple(v.astype(x.dtype, copy=False) for v in (y, mean, std))


@kernel("LayerNorm")
def layer_norm(xp: Any, x: Any, gamma: Any, beta: Any, *, axis: int, eps: float, output_mean_var: bool) -> Any:
    axis %= x.ndim
    if axis == x.ndim - 1 and x.ndim > 2 and xp is np and x.size >= LARGE:
        flat = x.reshape(math.prod(x.shape[:-1]), x.shape[axis])
        results = _normalized(xp, flat, (1,), eps, gamma, beta)
        return tuple(v.reshape(*x.shape[:-1], v.shape[1]) for v in results)
    return _normalized(xp, x, (axis,), eps, _along(gamma, x.ndim, axis), _along(beta, x.ndim, axis))


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


def _backward_normalized(
    xp: Any, g: Any, x: Any, mean: Any, std: Any, axes: tuple[int, ...], channel: int, gamma: Any, dtype: Any
) -> Any:
    """Return the gradients of data, gamma and beta of :func:`_normalized`, whose gamma lies along ``channel``."""

    def run(g: Any, x: Any, mean: Any, std: Any, out: Any = None) -> Any:
        grad, std = _f32(g), _f32(std)
        xhat = _f32(x) - _f32(mean)
        xhat /= std
        weighted = grad * xhat
        dx = _standardize_backward(
            xp, put(xp.multiply, out, grad, gamma), xhat, std, axes if len(axes) > 1 else axes[0]
        )
        return dx.astype(x.dtype, copy=False), weighted

    gives = ((x.shape, x.dtype), (x.shape, wide(x.dtype)))
    dx, weighted = by_rows(xp, run, 0 in axes, gives, g, x, mean, std)
    return dx, channel_sum(xp, weighted, channel).astype(dtype), channel_sum(xp, _f32(g), channel).astype(dtype)


@kernel("_backward_LayerNorm")
def backward_layer_norm(xp: Any, g: Any, x: Any, gamma: Any, mean: Any, std: Any, *, axis: int, eps: float) -> Any:
    axis %= x.ndim
    if axis == x.ndim - 1 and x.ndim > 2 and xp is np and x.size >= LARGE:
        n = math.prod(x.shape[:-1])
        flat = [v.reshape(n, -1 if v.size else v.shape[-1]) for v in (g, x, mean, std)]
        dx, *rest = backward_layer_norm(xp, *flat[:2], gamma, *flat[2:], axis=1, eps=eps)
        return dx.reshape(x.shape), *rest
    return _backward_normalized(xp, g, x, mean, std, (axis,), axis, _along(_f32(gamma), x.ndim, axis), gamma.dtype)


def _in_groups(x: Any, groups: int) -> Any:
    return x.reshape(x.shape[0], groups or x.shape[1], -1)


@kernel("GroupNorm")
def group_norm(xp: Any, x: Any, gamma: Any, beta: Any, *, num_groups: int, eps: float, output_mean_var: bool) -> Any:
    y, mean, std = _normalized(xp, _in_groups(x, num_groups), (2,), eps, gamma[:, None], beta[:, None])
    shape = (x.shape[0], num_groups)
    return y.reshape(x.shape), mean.reshape(shape), std.reshape(shape)


@kernel("_backward_GroupNorm")
def backward_group_norm(
    xp: Any, g: Any, x: Any, gamma: Any, mean: Any, std: Any, *, num_groups: int, eps: float
) -> Any:
    dx, *rest = _backward_normalized(
        xp,
        _in_groups(g, num_groups),
        _in_groups(x, num_groups),
        mean[:, :, None],
        std[:, :, None],
        (2,),
        1,
        _f32(gamma)[:, None],
        gamma.dtype,
    )
    return dx.reshape(x.shape), *rest


@kernel("InstanceNorm")
def instance_norm(xp: Any, x: Any, gamma: Any, beta: Any, *, eps: float) -> Any:
    axes = tuple(range(2, x.ndim))
    y, mean, std = _normalized(xp, x, axes, eps, _along(gamma, x.ndim, 1), _along(beta, x.ndim, 1))
    shape = x.shape[:2]
    return y, mean.reshape(shape), std.reshape(shape)


def _l2_axes(mode: str, ndim: int) -> tuple[int, ...]:
    return {"instance": tuple(range(1, ndim)), "channel": (1,), "spatial": tuple(range(2, ndim))}[mode]


@kernel("L2Normalization")
def l2_normalization(xp: Any, x: Any, *, eps: float, mode: str) -> Any:
    axes = _l2_axes(mode, x.ndim)

    def run(x: Any, out: Any = None) -> Any:
        work = _f32(x)
        norm = xp.sqrt(xp.add.reduce(xp.square(work), axis=axes, keepdims=True) + work.dtype.type(eps))
        return (work / norm).astype(x.dtype, copy=False), norm.astype(x.dtype, copy=False)

    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return by_rows(xp, run, False, [(shape, x.dtype) for shape in (x.shape, kept)], x)


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
    def run(x: Any, out: Any = None) -> Any:
        work = _f32(x)
        base = _window_sum(np, np.square(work), nsize)
        base *= alpha / nsize
        base += knorm
        y = work * base**-beta
        return y.astype(x.dtype, copy=False), base.astype(x.dtype, copy=False)

    return by_rows(np, run, False, [(x.shape, x.dtype)] * 2, x)


@kernel("_channel_window_sum", numpy=True)
def channel_window_sum(x: Any, *, nsize: int) -> Any:
    return by_rows(np, lambda x, out=None: (_window_sum(np, x, nsize),), False, [(x.shape, x.dtype)], x)[0]
