"""Kernels of matrix products and linear algebra.

Products are one ``matmul`` on two- or three-dimensional views, so that BLAS does the work and reads transposed
operands in place.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..table import kernel
from .neural import product


def _matmul(xp: Any, a: Any, b: Any) -> Any:
    if a.ndim == b.ndim == 2:
        return product(xp, a, b)
    # NumPy multiplies half precision without BLAS, a hundred times slower than this detour.
    if a.dtype == np.float16:
        return xp.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    return xp.matmul(a, b)


def _t(x: Any) -> Any:
    return x.swapaxes(-1, -2)


@kernel("dot")
def dot(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool, forward_stype: Any = None) -> Any:
    if a.ndim == 2 and b.ndim == 2:
        return _matmul(xp, a.T if transpose_a else a, b.T if transpose_b else b)
    left, right = _rest(a, transpose_a), _rest(b, not transpose_b)
    m, n = math.prod(left), math.prod(right)
    x = a.reshape(a.shape[0], m).T if transpose_a else a.reshape(m, a.shape[-1])
    y = b.reshape(n, b.shape[-1]).T if transpose_b else b.reshape(b.shape[0], n)
    return _matmul(xp, x, y).reshape(left + right or (1,))


def _rest(x: Any, first: bool) -> tuple[int, ...]:
    """Axes of ``x`` without the one that is summed, the first or the last."""
    return x.shape[1:] if first else x.shape[:-1]


@kernel("_backward_dot")
def backward_dot(xp: Any, g: Any, other: Any, like: Any, *, transpose_a: bool, transpose_b: bool, of_lhs: bool) -> Any:
    # As matrices: y (m, n) = a (m, k) b (k, n); a and b may be stored transposed.
    a, b = (like, other) if of_lhs else (other, like)
    k = a.shape[0] if transpose_a else a.shape[-1]
    m, n = math.prod(_rest(a, transpose_a)), math.prod(_rest(b, not transpose_b))
    g = g.reshape(m, n)
    if of_lhs:
        b = b.reshape(n, k) if transpose_b else b.reshape(k, n).T
        y = _matmul(xp, b.T, g.T) if transpose_a else _matmul(xp, g, b)
    else:
        a = a.reshape(k, m) if transpose_a else a.reshape(m, k).T
        y = _matmul(xp, g.T, a.T) if transpose_b else _matmul(xp, a, g)
    return y.reshape(like.shape)


@kernel("batch_dot")
def batch_dot(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool, forward_stype: Any = None) -> Any:
    return _matmul(xp, _t(a) if transpose_a else a, _t(b) if transpose_b else b)


@kernel("_linalg_gemm2")
def gemm2(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool, alpha: float, axis: int) -> Any:
    moved = axis != -2 and axis % a.ndim != a.ndim - 2
    if moved:
        a, b = xp.moveaxis(a, axis, -2), xp.moveaxis(b, axis, -2)
    y = _matmul(xp, _t(a) if transpose_a else a, _t(b) if transpose_b else b)
    if alpha != 1:
        y = y * alpha
    return xp.ascontiguousarray(xp.moveaxis(y, -2, axis)) if moved else y


@kernel("_linalg_gemm")
def gemm(xp: Any, a: Any, b: Any, c: Any, *, beta: float, **kw: Any) -> Any:
    return gemm2(xp, a, b, **kw) + c * beta


@kernel("khatri_rao")
def khatri_rao(xp: Any, *xs: Any) -> Any:
    y = xs[0]
    for x in xs[1:]:
        y = (y[:, None, :] * x[None, :, :]).reshape(-1, x.shape[1])
    return y if len(xs) > 1 else xp.array(y, order="C")


@kernel("_matrix_transpose")
def matrix_transpose(xp: Any, x: Any) -> Any:
    return xp.array(_t(x), order="C")


@kernel("_triangle")
def triangle(xp: Any, x: Any, *, lower: bool, diagonal: float) -> Any:
    y = xp.tril(x, -1) if lower else xp.triu(x, 1)
    if diagonal:
        y = y + xp.eye(x.shape[-1], dtype=x.dtype) * diagonal * x
    return y


@kernel("_expand_like")
def expand_like(xp: Any, x: Any, like: Any, *, axes: int) -> Any:
    lead = like.shape[: like.ndim - axes]
    return xp.array(xp.broadcast_to(x.reshape(lead + (1,) * axes), like.shape), order="C")


@kernel("_fold")
def fold(xp: Any, x: Any, *, axes: int) -> Any:
    return np.add.reduce(x, axis=tuple(range(-axes, 0))).reshape(x.shape[: x.ndim - axes] or (1,))


@kernel("_linalg_extractdiag")
def extractdiag(xp: Any, a: Any, *, offset: int) -> Any:
    return xp.array(xp.diagonal(a, offset, -2, -1), order="C")


@kernel("_linalg_makediag", numpy=True)
def makediag(a: Any, *, offset: int) -> Any:
    n = a.shape[-1] + abs(offset)
    y = np.zeros((*a.shape[:-1], n, n), a.dtype)
    i = np.arange(a.shape[-1])
    y[..., i + max(-offset, 0), i + max(offset, 0)] = a
    return y


@functools.lru_cache(maxsize=64)
def _positions(n: int, offset: int, lower: bool) -> Any:
    if offset < 0 or (offset == 0 and lower):
        return np.tril_indices(n, offset)
    # The upper triangle goes column by column: it is the lower one of the transpose.
    return np.tril_indices(n, -offset)[::-1]


@kernel("_linalg_extracttrian")
def extracttrian(xp: Any, a: Any, *, offset: int, lower: bool) -> Any:
    return xp.ascontiguousarray(a[(..., *_positions(a.shape[-1], offset, lower))])


@kernel("_linalg_maketrian", numpy=True)
def maketrian(a: Any, *, offset: int, lower: bool) -> Any:
    n = (math.isqrt(8 * a.shape[-1] + 1) - 1) // 2 + abs(offset)
    y = np.zeros((*a.shape[:-1], n, n), a.dtype)
    y[(..., *_positions(n, offset, lower))] = a
    return y


@kernel("_linalg_sumlogdiag")
def sumlogdiag(xp: Any, a: Any) -> Any:
    return xp.log(xp.diagonal(a, 0, -2, -1)).sum(axis=-1).reshape(a.shape[:-2] or (1,))


@kernel("_linalg_syrk")
def syrk(xp: Any, a: Any, *, transpose: bool, alpha: float) -> Any:
    y = _matmul(xp, _t(a), a) if transpose else _matmul(xp, a, _t(a))
    return y * alpha if alpha != 1 else y


@kernel("_linalg_trmm")
def trmm(xp: Any, a: Any, b: Any, *, transpose: bool, rightside: bool, lower: bool, alpha: float) -> Any:
    a = xp.tril(a) if lower else xp.triu(a)
    if transpose:
        a = _t(a)
    y = _matmul(xp, b, a) if rightside else _matmul(xp, a, b)
    return y * alpha if alpha != 1 else y


#: Below this size a triangular system is solved by LAPACK's general solver.
_SOLVE = 48


def _forward(xp: Any, a: Any, b: Any) -> Any:
    """Solve ``a x = b`` for lower triangular ``a`` by halves, so that most of the work is matrix products."""
    n = a.shape[-1]
    if n <= _SOLVE:
        return xp.linalg.solve(xp.tril(a), b)
    h = n // 2
    top = _forward(xp, a[..., :h, :h], b[..., :h, :])
    bottom = _forward(xp, a[..., h:, h:], b[..., h:, :] - xp.matmul(a[..., h:, :h], top))
    return xp.concatenate([top, bottom], axis=-2)


@kernel("_linalg_trsm")
def trsm(xp: Any, a: Any, b: Any, *, transpose: bool, rightside: bool, lower: bool, alpha: float) -> Any:
    # x op(a) = b is op(a)^T x^T = b^T.
    if rightside:
        b = _t(b)
        transpose = not transpose
    if transpose:
        a = _t(a)
        lower = not lower
    if lower:
        x = _forward(xp, a, b)
    else:
        # Both axes reversed, an upper triangle is a lower one.
        x = _forward(xp, a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]
    if rightside:
        x = _t(x)
    return xp.ascontiguousarray(x * alpha if alpha != 1 else x)


@kernel("_linalg_potrf")
def potrf(xp: Any, a: Any) -> Any:
    return xp.linalg.cholesky(a)


@kernel("_linalg_potri")
def potri(xp: Any, a: Any) -> Any:
    eye = xp.broadcast_to(xp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    inverse = _forward(xp, a, eye)
    return xp.matmul(_t(inverse), inverse)


@kernel("_linalg_gelqf")
def gelqf(xp: Any, a: Any) -> Any:
    q, r = xp.linalg.qr(_t(a))
    return xp.ascontiguousarray(_t(q)), xp.ascontiguousarray(_t(r))


@kernel("_linalg_syevd")
def syevd(xp: Any, a: Any) -> Any:
    values, vectors = xp.linalg.eigh(a)
    return xp.ascontiguousarray(_t(vectors)), values


@kernel("_linalg_det")
def det(xp: Any, a: Any) -> Any:
    return xp.asarray(xp.linalg.det(a)).reshape(a.shape[:-2] or (1,))


@kernel("_linalg_slogdet")
def slogdet(xp: Any, a: Any) -> Any:
    sign, log = xp.linalg.slogdet(a)
    shape = a.shape[:-2] or (1,)
    return xp.asarray(sign).reshape(shape), xp.asarray(log).reshape(shape)


@kernel("_linalg_inverse")
def inverse(xp: Any, a: Any) -> Any:
    return xp.linalg.inv(a)
