"""Kernels of contributed operators and of automatic mixed precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..table import kernel
from .linalg import _matmul


@kernel("_contrib_div_sqrt_dim")
def div_sqrt_dim(xp: Any, x: Any) -> Any:
    return x * (1.0 / math.sqrt(x.shape[-1]))


@kernel("_contrib_isnan")
def isnan(xp: Any, x: Any) -> Any:
    return xp.isnan(x).astype(x.dtype)


@kernel("_contrib_isinf")
def isinf(xp: Any, x: Any) -> Any:
    return xp.isinf(x).astype(x.dtype)


@kernel("_contrib_isfinite")
def isfinite(xp: Any, x: Any) -> Any:
    return xp.isfinite(x).astype(x.dtype)


@kernel("_contrib_allclose")
def allclose(xp: Any, a: Any, b: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    return xp.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan).all().reshape(1).astype("uint8")


@kernel("_contrib_quadratic")
def quadratic(xp: Any, x: Any, *, a: float, b: float, c: float) -> Any:
    return ((x * a + b) * x + c).astype(x.dtype, copy=False)


@kernel("_contrib_gradientmultiplier")
def gradient_multiplier(xp: Any, x: Any, *, scalar: float, is_int: bool) -> Any:
    return xp.array(x, order="C")


@kernel("amp_cast")
def amp_cast(xp: Any, x: Any, *, dtype: str) -> Any:
    return x.astype(dtype if x.dtype.kind == "f" else x.dtype, order="C")


@kernel("amp_multicast")
def amp_multicast(xp: Any, *xs: Any, num_outputs: int, cast_narrow: bool) -> Any:
    floats = [x.dtype for x in xs if x.dtype.kind == "f"]
    if floats:
        common = (min if cast_narrow else max)(floats, key=lambda d: d.itemsize)
    ys = tuple(x.astype(common if x.dtype.kind == "f" else x.dtype, order="C") for x in xs)
    return ys if num_outputs > 1 else ys[0]


def _heads(x: Any, heads: int, parts: int, part: int) -> Any:
    """Return a view (N, heads, L, D) of one of the interleaved parts."""
    length, batch, _ = x.shape
    return x.reshape(length, batch, heads, parts, -1)[:, :, :, part].transpose(1, 2, 0, 3)


@kernel("_take_heads")
def take_heads(xp: Any, x: Any, *, heads: int, parts: int, part: int) -> Any:
    y = _heads(x, heads, parts, part)
    return xp.array(y, order="C").reshape(-1, *y.shape[2:])


@kernel("_put_heads", numpy=True)
def put_heads(x: Any, *, heads: int, parts: int, part: int) -> Any:
    n, length, size = x.shape
    y = (np.empty if parts == 1 else np.zeros)((length, n // heads, heads, parts, size), x.dtype)
    y[:, :, :, part] = x.reshape(n // heads, heads, length, size).transpose(2, 0, 1, 3)
    return y.reshape(length, n // heads, -1)


def _scores(xp: Any, q: Any, k: Any) -> Any:
    y = _matmul(xp, q * (1.0 / math.sqrt(q.shape[-1])), k.swapaxes(-1, -2))
    return y.reshape(-1, *y.shape[2:])


@kernel("_contrib_interleaved_matmul_selfatt_qk")
def selfatt_qk(xp: Any, x: Any, *, heads: int) -> Any:
    return _scores(xp, _heads(x, heads, 3, 0), _heads(x, heads, 3, 1))


@kernel("_contrib_interleaved_matmul_encdec_qk")
def encdec_qk(xp: Any, queries: Any, x: Any, *, heads: int) -> Any:
    return _scores(xp, _heads(queries, heads, 1, 0), _heads(x, heads, 2, 0))


def _mixed(xp: Any, attention: Any, v: Any) -> Any:
    batch, heads, _, size = v.shape
    y = _matmul(xp, attention.reshape(batch, heads, *attention.shape[1:]), v)
    return xp.array(y.transpose(2, 0, 1, 3), order="C").reshape(-1, batch, heads * size)


@kernel("_contrib_interleaved_matmul_selfatt_valatt")
def selfatt_valatt(xp: Any, x: Any, attention: Any, *, heads: int) -> Any:
    return _mixed(xp, attention, _heads(x, heads, 3, 2))


@kernel("_contrib_interleaved_matmul_encdec_valatt")
def encdec_valatt(xp: Any, x: Any, attention: Any, *, heads: int) -> Any:
    return _mixed(xp, attention, _heads(x, heads, 2, 1))


@kernel("_contrib_fft")
def fft(xp: Any, x: Any, *, compute_size: int) -> Any:
    z = xp.fft.fft(x)
    return xp.stack([z.real, z.imag], axis=-1).reshape(*x.shape[:-1], 2 * x.shape[-1]).astype(x.dtype)


@kernel("_contrib_ifft")
def ifft(xp: Any, x: Any, *, compute_size: int) -> Any:
    n = x.shape[-1] // 2
    return (xp.fft.ifft(x[..., ::2] + 1j * x[..., 1::2]).real * n).astype(x.dtype)
