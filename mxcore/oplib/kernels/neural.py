"""Kernels of the neural operators: fully connected layers, activations, softmax, dropout.

They pass over large arrays as few times as they can: one fresh array, then in-place arithmetic on it. In-place
operators (``y -= m``) rebind the name where arrays cannot be written, so the same text serves every namespace.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from ..table import kernel
from ..threads import LARGE, LARGE_PLAIN, elementwise, matmul, parallel_for, rows
from .sharing import along_axis, by_rows, by_stretch, call_ufunc, filled, filling, put, writable_in_pieces


def into(xp: Any, fn: Callable[..., Any], x: Any) -> Any:
    """Return ``fn(x)``, written over ``x`` where arrays can be."""
    return fn(x, out=x) if xp is np else fn(x)


def _in_rows(xp: Any, axis: Any, *xs: Any) -> bool:
    """Whether an axis is the last one of contiguous NumPy arrays that ``einsum`` is quicker with."""
    x = xs[0]
    return (
        xp is np
        and axis in (-1, x.ndim - 1)
        and x.shape[-1] >= 16
        and x.dtype.char in "fd"
        and all(v.flags.c_contiguous for v in xs)
    )


def row_sum(xp: Any, x: Any, axis: Any) -> Any:
    """Return the sums along ``axis``, which stays with length 1."""
    if _in_rows(xp, axis, x):
        # A third of the time of add.reduce.
        return np.einsum("rk->r", x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], 1)
    return np.add.reduce(x, axis=axis, keepdims=True)


def row_dot(xp: Any, x: Any, y: Any, axis: Any) -> Any:
    """Return the sums of products along ``axis``, which stays with length 1."""
    if _in_rows(xp, axis, x, y):
        k = x.shape[-1]
        return np.matmul(x.reshape(-1, 1, k), y.reshape(-1, k, 1)).reshape(*x.shape[:-1], 1)
    return np.add.reduce((x * y), axis=axis, keepdims=True)


def _rows(x: Any, flatten: bool) -> Any:
    """View data of a fully connected layer as a matrix."""
    if x.ndim == 2:
        return x
    return x.reshape(x.shape[0], -1) if flatten else x.reshape(-1, x.shape[-1])


def product(xp: Any, a: Any, b: Any) -> Any:
    """Multiply two matrices; float16, which BLAS does not have, in float32."""
    if a.dtype == np.float16:
        return xp.dot(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    return matmul(a, b) if xp is np else xp.dot(a, b)


@kernel("FullyConnected")
def fully_connected(xp: Any, x: Any, w: Any, b: Any, *, num_hidden: int, no_bias: bool, flatten: bool) -> Any:
    y = product(xp, _rows(x, flatten), w.T)
    if b is not None:
        if xp is np and y.size >= LARGE_PLAIN:
            rows(lambda i, j: np.add(y[i:j], b, out=y[i:j]), *y.shape)
        else:
            y += b
    return y if flatten or x.ndim == 2 else y.reshape(*x.shape[:-1], num_hidden)


@kernel("_backward_FullyConnected_data")
def fully_connected_data(xp: Any, g: Any, w: Any, like: Any, *, flatten: bool) -> Any:
    return product(xp, _rows(g, flatten), w).reshape(like.shape)


@kernel("_backward_FullyConnected_weight")
def fully_connected_weight(xp: Any, g: Any, x: Any, *, flatten: bool) -> Any:
    return product(xp, _rows(g, flatten).T, _rows(x, flatten))


# ---------------------------------------------------------------------------------------------------------------
# Activations

#: From how many numbers on the slower call of clip pays.
_LARGE = 1 << 13


def positive_part(xp: Any, x: Any, out: Any = None) -> Any:
    """Return ``max(x, 0)``; NaN stays NaN."""
    if xp is not np or x.dtype.kind != "f" or x.size < _LARGE:
        return xp.maximum(x, 0) if out is None else xp.maximum(x, 0, out=out)
    # NumPy has vector instructions for clip, not for maximum with a number: a quarter of the time.
    if not x.flags.c_contiguous or (out is not None and not (out.flags.c_contiguous and writable_in_pieces(out, x))):
        return np.clip(x, 0, np.inf, out=out)
    y = np.empty(x.shape, x.dtype) if out is None else out
    elementwise(lambda x, y: np.clip(x, 0, np.inf, out=y), x, y)
    return y


def negative_part(xp: Any, x: Any, out: Any = None) -> Any:
    """Return ``min(x, 0)``; NaN stays NaN."""
    if xp is not np or x.dtype.kind != "f" or x.size < _LARGE:
        return xp.minimum(x, 0) if out is None else xp.minimum(x, 0, out=out)
    return np.clip(x, -np.inf, 0, out=out)


@filling
def sigmoid(xp: Any, x: Any, out: Any = None) -> Any:
    # tanh neither overflows nor needs two branches.
    r = x * 0.5 if out is None else np.multiply(x, 0.5, out=out)
    r = into(xp, xp.tanh, r)
    r *= 0.5
    r += 0.5
    return r


#: Up to here one slow call takes less time than five.
_FEW = 128


@filling
def softrelu(xp: Any, x: Any, out: Any = None) -> Any:
    """``log(1 + e**x)`` as ``max(x, 0) + log(1 + e**-|x|)``: for all but a few numbers, a tenth of ``logaddexp``."""
    if x.dtype.kind != "f" or (out is None and x.size < _FEW):
        return xp.logaddexp(x, x.dtype.type(0))
    r = put(xp.abs, out, x)
    r = into(xp, xp.negative, r)
    r = into(xp, xp.exp, r)
    r = into(xp, xp.log1p, r)
    r += xp.maximum(x, 0)
    return r


def _tanh(x: Any) -> Any:
    return call_ufunc(np.tanh, x) if x.dtype.kind == "f" else np.tanh(x)


_ACTIVATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": positive_part,
    "sigmoid": sigmoid,
    "tanh": lambda xp, x: xp.tanh(x) if xp is not np or x.size < LARGE or not x.flags.c_contiguous else _tanh(x),
    "softrelu": softrelu,
    "softsign": by_stretch(lambda xp, x: x / (1 + xp.abs(x))),
}


@kernel("Activation")
def activation(xp: Any, x: Any, *, act_type: str) -> Any:
    y = _ACTIVATIONS[act_type](xp, x)
    return y if y.dtype == x.dtype else y.astype(x.dtype)


def _pass_positive(g: Any, y: Any, to: Any) -> None:
    np.copyto(to, y > 0)
    to *= g


@kernel("_backward_Activation")
def backward_activation(xp: Any, g: Any, y: Any, *, act_type: str) -> Any:
    if act_type == "relu":
        if xp is np and g.flags.c_contiguous and y.flags.c_contiguous:
            r = np.empty(g.shape, g.dtype)
            elementwise(_pass_positive, g, y, r)
            return r
        r = (y > 0).astype(g.dtype)
        r *= g
        return r
    if xp is np and g.size >= LARGE:
        return filled(functools.partial(_smooth_backward, act_type), g, y)
    return _smooth_backward(act_type, xp, g, y)


def _smooth_backward(act_type: str, xp: Any, g: Any, y: Any, out: Any = None) -> Any:
    if act_type == "sigmoid":
        r = xp.subtract(1, y) if out is None else np.subtract(1, y, out=out)
        r *= y
    elif act_type == "tanh":
        r = y * y if out is None else np.multiply(y, y, out=out)
        r = xp.subtract(1, r, out=r) if xp is np else 1 - r
    elif act_type == "softrelu":
        r = put(xp.negative, out, y)
        r = into(xp, xp.expm1, r)
        r = into(xp, xp.negative, r)
    else:
        r = put(xp.abs, out, y)
        r = xp.subtract(1, r, out=r) if xp is np else 1 - r
        r *= r
    r *= g
    return r


_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
_TAIL_SCALE = 0.3
_TAIL_LIMIT = 14.0  # the tail is below 1e-43 from here on
_TAIL_LOW = 1 / (1 + _TAIL_SCALE * _TAIL_LIMIT)
#: Numbers per piece of a long polynomial, so that its sums stay in cache, but NumPy's calls are not too many.
_PIECE = 1 << 16


@functools.lru_cache(maxsize=4)
def _tail_coefficients(dtype: Any) -> list[float]:
    """Return the coefficients, highest power first, of ``Q(z) e**(z*z/2)`` in ``s``, see :func:`normal_tail`.

    Interpolated at Chebyshev points. The function is so smooth that 9 terms are exact to 1e-7 and 33 to 1e-14.
    """

    def f(s: Any) -> Any:
        zs = (1 / (_TAIL_LOW + (1 - _TAIL_LOW) * (s + 1) / 2) - 1) / _TAIL_SCALE
        return np.array([0.5 * math.erfc(z * math.sqrt(0.5)) * math.exp(0.5 * z * z) for z in zs])

    series = chebyshev.chebinterpolate(f, 32 if dtype == np.float64 else 8)
    return chebyshev.cheb2poly(series)[::-1].tolist()


def normal_tail(xp: Any, z: Any, density: Any) -> Any:
    """Return ``Q(z)``, the probability that a standard normal number exceeds ``z``, exact relative to its size.

    Parameters
    ----------
    z : array of floats
        Not negative.
    density : array
        ``e**(-z*z/2)``.
    """
    # s runs over [-1, 1] while 1 / (1 + 0.3 z) runs over [its value at the limit, 1].
    s = z * _TAIL_SCALE
    s += 1
    s = into(xp, xp.reciprocal, s)
    s *= 2 / (1 - _TAIL_LOW)
    s -= (1 + _TAIL_LOW) / (1 - _TAIL_LOW)
    first, *rest = _tail_coefficients(np.dtype(z.dtype))
    q = s * first
    for k in rest[:-1]:
        q += k
        q *= s
    q += rest[-1]
    q *= density
    return q


def _in_pieces(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a slow function of equal arrays, element by element: NumPy's run on pieces that stay in cache, shared out."""

    def run(xp: Any, *arrays: Any) -> Any:
        if xp is not np or arrays[0].size <= _PIECE:
            return fn(xp, *arrays)
        flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
        result = np.empty_like(flat[0])

        def part(i: int, j: int) -> None:
            result[i:j] = fn(np, *[a[i:j] for a in flat])

        parallel_for(result.size, _PIECE, part)
        return result.reshape(arrays[0].shape)

    return run


def _tails(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return ``|x|`` (limited, or infinity times 0 would be NaN), ``e**(-x*x/2)`` and ``Q(|x|)``."""
    z = xp.minimum(xp.abs(x), x.dtype.type(40))
    density = z * z
    density *= -0.5
    density = into(xp, xp.exp, density)
    return z, density, normal_tail(xp, z, density)


@_in_pieces
def gelu(xp: Any, x: Any) -> Any:
    """``x`` times the normal distribution function, as ``max(x, 0) - |x| Q(|x|)``: exact in both tails."""
    z, _, q = _tails(xp, x)
    q *= z
    y = xp.maximum(x, 0)
    y -= q
    return y


@_in_pieces
def _gelu_backward(xp: Any, g: Any, x: Any) -> Any:
    z, density, q = _tails(xp, x)
    # Phi(x) is 1 - Q where x is positive, else Q; then x phi(x)
    r = (x > 0).astype(x.dtype)
    r -= xp.copysign(q, x)
    density *= xp.copysign(z, x)
    density *= 1 / math.sqrt(2 * math.pi)
    r += density
    r *= g
    return r


def _channels(gamma: Any, x: Any) -> Any:
    """View the slopes of ``prelu`` so that they broadcast along axis 1 of ``x``."""
    if gamma.ndim != 1 or gamma.shape[0] == 1 or x.ndim <= 2:
        return gamma
    return gamma.reshape(1, -1, *(1,) * (x.ndim - 2))


def _slopes(xp: Any, x: Any, slope: Any) -> Any:
    """Return 1 where ``x`` is positive, else ``slope``, without a branch per element."""
    r = (x > 0).astype(x.dtype)
    r *= 1 - slope
    r += slope
    return r


def _leaky(slope: float, xp: Any, x: Any, out: Any = None) -> Any:
    y = x * slope if out is None else np.multiply(x, slope, out=out)
    if slope < 0:
        y = xp.where(x > 0, x, y)
        return y if out is None else np.positive(y, out=out)
    limit = xp.maximum if slope <= 1 else xp.minimum
    return limit(x, y) if out is None else limit(x, y, out=out)


def _prelu(xp: Any, x: Any, slopes: Any, out: Any) -> Any:
    # Sums of both parts, not where(): a branch per element takes ten times as long.
    y = negative_part(xp, x, out)
    y *= slopes
    y += positive_part(xp, x)
    return y


def _elu(slope: float, scale: float, xp: Any, x: Any, out: Any = None) -> Any:
    y = negative_part(xp, x, out)
    y = into(xp, xp.expm1, y)
    y *= slope
    y += positive_part(xp, x)
    if scale != 1:
        y *= scale
    return y


@kernel("LeakyReLU")
def leaky_relu(
    xp: Any,
    x: Any,
    gamma: Any,
    *,
    act_type: str,
    slope: float,
    lower_bound: float,
    upper_bound: float,
    rng: Any = None,
    training: bool = False,
) -> Any:
    mask = xp.ones((1,) * x.ndim, x.dtype)
    large = xp is np and x.size >= LARGE
    if act_type == "leaky":
        y = filled(functools.partial(_leaky, slope), x) if large else _leaky(slope, xp, x)
    elif act_type == "prelu":
        slopes = _channels(gamma, x)
        inside = slopes.ndim == x.ndim and len(slopes) > 1
        (y,) = by_rows(xp, lambda x, out=None: (_prelu(xp, x, slopes, out),), inside, [(x.shape, x.dtype)], x)
    elif act_type == "elu":
        y = filled(functools.partial(_elu, slope, 1.0), x) if large else _elu(slope, 1.0, xp, x)
    elif act_type == "selu":
        fn = functools.partial(_elu, _SELU_ALPHA, _SELU_SCALE)
        y = filled(fn, x) if large else fn(xp, x)
    elif act_type == "gelu":
        half = x.dtype == np.float16
        y = gelu(xp, x.astype(np.float32) if half else x)
    else:
        if training:
            slopes = xp.asarray(rng.uniform(lower_bound, upper_bound, x.shape).astype(x.dtype))
            mask = xp.where(x > 0, xp.ones((), x.dtype), slopes)
        else:
            mask = _slopes(xp, x, (lower_bound + upper_bound) / 2)
        y = x * mask
    return y if y.dtype == x.dtype else y.astype(x.dtype), mask


@kernel("_leaky_backward")
def leaky_backward(xp: Any, g: Any, x: Any, *, slope: float) -> Any:
    if xp is np and g.size >= LARGE:
        return by_stretch(functools.partial(_leaky_slope, slope))(np, g, x)
    return _leaky_slope(slope, xp, g, x)


def _leaky_slope(slope: float, xp: Any, g: Any, x: Any) -> Any:
    r = _slopes(xp, x, slope)
    r *= g
    return r


def _prelu_backward(xp: Any, g: Any, x: Any, slopes: Any) -> Any:
    below = (x <= 0).astype(x.dtype)
    below *= g
    dx = g - below
    dx += below * slopes
    below *= x
    return dx, below


@kernel("_backward_prelu")
def backward_prelu(xp: Any, g: Any, x: Any, gamma: Any) -> Any:
    slopes = _channels(gamma, x)
    inside = slopes.ndim == x.ndim and len(slopes) > 1
    gives = [(x.shape, g.dtype), (x.shape, x.dtype)]
    dx, below = by_rows(xp, lambda g, x, out=None: _prelu_backward(xp, g, x, slopes), inside, gives, g, x)
    lead = below.ndim - slopes.ndim
    axes = tuple(i for i in range(below.ndim) if i < lead or slopes.shape[i - lead] == 1)
    return dx, np.add.reduce(below, axis=axes, dtype=g.dtype).reshape(gamma.shape)


@kernel("_gelu_backward")
def gelu_backward(xp: Any, g: Any, x: Any) -> Any:
    if x.dtype == np.float16:
        return _gelu_backward(xp, g.astype(np.float32), x.astype(np.float32)).astype(np.float16)
    return _gelu_backward(xp, g, x)


# ---------------------------------------------------------------------------------------------------------------
# Softmax


def _scaled(xp: Any, x: Any, axis: Any, temperature: float | None, dtype: Any, out: Any) -> Any:
    """Return ``x / temperature`` minus its maximum along ``axis``, a fresh array or ``out``."""
    x = x.astype(dtype, copy=False)
    top = x.max(axis=axis, keepdims=True)
    y = x - top if out is None else put(np.subtract, out, x, top)
    if temperature is not None and temperature != 1:
        y /= temperature
    return y


def softmax_of(xp: Any, x: Any, axis: Any, temperature: float | None = None, dtype: Any = None) -> Any:
    """Return the softmax along an axis or several, a fresh array."""
    if x.size == 0:
        return xp.zeros(x.shape, dtype or x.dtype)
    if xp is np and x.size >= LARGE:
        fn = functools.partial(_softmax, np, temperature, dtype)
        return along_axis(np, fn, axis, dtype or x.dtype, x)
    return _softmax(xp, temperature, dtype, x, axis)


def _softmax(xp: Any, temperature: float | None, dtype: Any, x: Any, axis: Any, out: Any = None) -> Any:
    half = x.dtype == np.float16
    y = _scaled(xp, x, axis, temperature, np.float32 if half else (dtype or x.dtype), out)
    y = into(xp, xp.exp, y)
    y /= row_sum(xp, y, axis)
    return y.astype(dtype or x.dtype, copy=False)


@kernel("softmax")
def softmax(xp: Any, x: Any, length: Any, *, axis: int, temperature: float | None, dtype: Any, use_length: bool) -> Any:
    if length is None:
        return softmax_of(xp, x, axis, temperature, dtype)
    axis %= x.ndim
    shape = [1] * x.ndim
    shape[axis] = -1
    inside = xp.arange(x.shape[axis]).reshape(shape) < xp.expand_dims(length, axis)
    # Masked positions count as -inf; a row without any is all zeros.
    y = xp.where(inside, x, -xp.inf).astype(np.float32 if x.dtype == np.float16 else x.dtype)
    top = y.max(axis=axis, keepdims=True)
    y -= xp.where(xp.isfinite(top), top, 0)
    if temperature is not None:
        y /= temperature
    y = into(xp, xp.exp, y)
    total = np.add.reduce(y, axis=axis, keepdims=True)
    y /= xp.where(total > 0, total, 1)
    return y.astype(dtype or x.dtype, copy=False)


@kernel("softmin")
def softmin(xp: Any, x: Any, *, axis: int, temperature: float | None, dtype: Any, use_length: bool) -> Any:
    return softmax_of(xp, -x, axis, temperature, dtype)


@kernel("log_softmax")
def log_softmax(xp: Any, x: Any, *, axis: int, temperature: float | None, dtype: Any, use_length: bool) -> Any:
    if x.size == 0:
        return xp.zeros(x.shape, dtype or x.dtype)
    if xp is np and x.size >= LARGE:
        fn = functools.partial(_log_softmax, np, temperature, dtype)
        return along_axis(np, fn, axis, dtype or x.dtype, x)
    return _log_softmax(xp, temperature, dtype, x, axis)


def _log_softmax(xp: Any, temperature: float | None, dtype: Any, x: Any, axis: Any, out: Any = None) -> Any:
    y = _scaled(xp, x, axis, temperature, np.float32 if x.dtype == np.float16 else (dtype or x.dtype), out)
    total = row_sum(xp, xp.exp(y), axis)
    y -= into(xp, xp.log, total)
    return y.astype(dtype or x.dtype, copy=False)


def _softmax_axes(mode: str, ndim: int) -> Any:
    return 1 if mode == "channel" else tuple(range(1, ndim))


@kernel("SoftmaxActivation")
def softmax_activation(xp: Any, x: Any, *, mode: str) -> Any:
    return softmax_of(xp, x, _softmax_axes(mode, x.ndim))


def _backward_softmax_of(xp: Any, g: Any, y: Any, axis: Any, scale: float) -> Any:
    if xp is np and g.size >= LARGE:
        return along_axis(np, functools.partial(_softmax_back, np, scale), axis, g.dtype, g, y)
    return _softmax_back(xp, scale, g, y, axis)


def _softmax_back(xp: Any, scale: float, g: Any, y: Any, axis: Any, out: Any = None) -> Any:
    dot = row_dot(xp, g, y, axis)
    r = g - dot if out is None else put(np.subtract, out, g, dot)
    r *= y
    if scale != 1:
        r *= scale
    return r


@kernel("_backward_softmax")
def backward_softmax(xp: Any, g: Any, y: Any, *, axis: int, scale: float) -> Any:
    return _backward_softmax_of(xp, g, y, axis, scale)


@kernel("_backward_SoftmaxActivation")
def backward_softmax_activation(xp: Any, g: Any, y: Any, *, mode: str) -> Any:
    return _backward_softmax_of(xp, g, y, _softmax_axes(mode, y.ndim), 1)


@kernel("_backward_log_softmax")
def backward_log_softmax(xp: Any, g: Any, y: Any, *, axis: int, scale: float) -> Any:
    if xp is np and g.size >= LARGE:
        return along_axis(np, functools.partial(_log_softmax_back, np, scale), axis, g.dtype, g, y)
    return _log_softmax_back(xp, scale, g, y, axis)


def _log_softmax_back(xp: Any, scale: float, g: Any, y: Any, axis: Any, out: Any = None) -> Any:
    r = xp.exp(y) if out is None else put(np.exp, out, y)
    r *= row_sum(xp, g, axis)
    r = xp.subtract(g, r, out=r) if xp is np else g - r
    if scale != 1:
        r *= scale
    return r


# ---------------------------------------------------------------------------------------------------------------
# Dropout


def keep_mask(xp: Any, rng: np.random.Generator, shape: Any, p: float, dtype: Any) -> Any:
    """Return an array of 0 with probability ``p``, else ``1 / (1 - p)``.

    Drawn from raw bits, 8 a number where ``p`` is a multiple of 1/256, else 16 (then ``p`` is met to 1e-5): a
    quarter of the time of uniform floats.
    """
    n = math.prod(shape)
    kind, levels = (np.uint8, 256) if p * 256 == int(p * 256) else (np.uint16, 65536)
    per_draw = 8 // np.dtype(kind).itemsize
    bits = rng.bit_generator.random_raw(-(-n // per_draw)).view(kind)[:n].reshape(shape)
    if p >= 1:
        return xp.zeros(shape, dtype)
    mask = np.empty(shape, dtype)

    def keep(bits: Any, mask: Any) -> None:
        mask[...] = bits >= round(p * levels)
        mask *= 1 / (1 - p)

    elementwise(keep, bits, mask)
    return mask if xp is np else xp.asarray(mask)


@kernel("Dropout")
def dropout(
    xp: Any,
    x: Any,
    *,
    p: float,
    mode: str,
    axes: tuple[int, ...],
    cudnn_off: bool,
    rng: Any = None,
    training: bool = False,
) -> Any:
    if p == 0 or not (training or mode == "always"):
        return xp.array(x, order="C"), xp.ones((1,) * x.ndim, x.dtype)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    mask = keep_mask(xp, rng, shape, p, x.dtype)
    if xp is np and x.size >= LARGE_PLAIN and x.shape == mask.shape and x.flags.c_contiguous:
        y = np.empty(x.shape, x.dtype)
        elementwise(lambda x, mask, y: np.multiply(x, mask, out=y), x, mask, y)
        return y, mask
    return x * mask, mask
