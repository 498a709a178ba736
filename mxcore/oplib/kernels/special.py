"""Kernels of special functions, without SciPy: error function and its inverse, gamma and its logarithmic derivatives.

All run over pieces small enough for the cache, since each makes tens of passes; the compute threads share them out.
Single precision has a way of its own where it pays (``erf``); else it is computed in double precision.

References: W. J. Cody, "Rational Chebyshev approximations for the error function", 1969; M. Giles, "Approximating the
erfinv function", 2010; Abramowitz and Stegun 6.1, 6.3, 6.4 (Stirling's series and its derivatives).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..table import kernel
from ..threads import parallel_for

_PIECE = 1 << 16


def _blockwise(name: str, single: Callable[[Any], Any] | None = None) -> Callable[[Callable[..., Any]], Any]:
    """Declare the kernel of a function of double precision pieces; ``single`` is the function for lower precision."""

    def declare(double: Callable[..., Any]) -> Callable[..., Any]:
        def run(x: Any, **attributes: Any) -> Any:
            low = single is not None and x.dtype.kind == "f" and x.dtype.itemsize <= 4
            fn, working = (single, np.float32) if low else (double, np.float64)
            y = np.empty(x.shape, x.dtype)
            source, target = np.ascontiguousarray(x).reshape(-1), y.reshape(-1)

            def compute(first: int, last: int) -> None:
                # Poles and overflows give inf and nan, as in C, without a warning.
                with np.errstate(all="ignore"):
                    for start in range(first * _PIECE, min(last * _PIECE, source.size), _PIECE):
                        piece = source[start : start + _PIECE].astype(working)
                        target[start : start + _PIECE] = fn(piece, **attributes)  # type: ignore[misc]

            if source.size <= _PIECE:
                compute(0, 1)
            else:
                parallel_for(-(-source.size // _PIECE), 1, compute)
            return y

        kernel(name, numpy=True)(run)
        return double

    return declare


def _horner(coefficients: Sequence[float], x: Any) -> Any:
    """Evaluate a polynomial, highest power first, in one array."""
    y = x * coefficients[0]
    y += coefficients[1]
    for c in coefficients[2:]:
        y *= x
        y += c
    return y


# ---------------------------------------------------------------------------------------------------------------
# Error function

# erf(x) = x R(x**2) for |x| <= 0.46875
_ERF_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
# erfc(x) = exp(-x**2) R(x) up to 4
_ERFC_MIDDLE = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)
# erfc(x) = exp(-x**2) / x * (1 / sqrt(pi) - s R(s)) with s = 1 / x**2 above 4
_ERFC_LARGE = (
    (
        1.63153871373020978e-2,
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
    ),
    (
        1.0,
        2.56852019228982242,
        1.87295284992346725,
        5.27905102951428412e-1,
        6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)
# erf(x) = x R(x**2) up to 3.92, where single precision has 1: a weighted least squares fit of our own, within 2e-8
_ERF_SINGLE = (
    (
        2.050276139800769e-06,
        0.0002848680501112471,
        0.003764805633286798,
        0.05274620488519351,
        0.19038704272256382,
        1.1283791463995538,
    ),
    (
        3.8092923241570305e-05,
        0.0011623461320395669,
        0.014967579206816317,
        0.11410113030365727,
        0.5020588678161767,
        1.0,
    ),
)


def _rational(pair: Any, x: Any) -> Any:
    y = _horner(pair[0], x)
    y /= _horner(pair[1], x)
    return y


def _erf_single(x: Any) -> Any:
    np.clip(x, -3.92, 3.92, out=x)
    x *= _rational(_ERF_SINGLE, x * x)
    return np.clip(x, -1.0, 1.0, out=x)


@_blockwise("erf", _erf_single)
def erf(x: Any) -> Any:
    a = np.abs(x)
    small = a <= 0.46875
    if small.all():
        return x * _rational(_ERF_SMALL, x * x)
    np.minimum(a, 6.0, out=a)
    # Above 4 erfc is below 2e-8: the middle formula is exact enough there for 1 - erfc.
    y = _rational(_ERFC_MIDDLE, a)
    y *= np.exp(-a * a)
    np.subtract(1.0, y, out=y)
    y = np.copysign(y, x)
    if small.any():
        s = x[small]
        y[small] = s * _rational(_ERF_SMALL, s * s)
    return y


def _erfc(x: Any) -> Any:
    """1 - erf(x) for x >= 0.46875, to full relative precision."""
    # x**2 = k**2 + (x - k)(x + k) with few digits in k: the exponential of a rounded square would lose digits.
    k = np.trunc(x * 16.0) / 16.0
    e = np.exp(-k * k) * np.exp(-(x - k) * (x + k))
    s = 1.0 / (x * x)
    far = (1.0 / math.sqrt(math.pi) - s * _rational(_ERFC_LARGE, s)) / x
    return e * np.where(x < 4.0, _rational(_ERFC_MIDDLE, np.minimum(x, 4.0)), far)


_ERFINV_CENTRE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_ERFINV_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


@_blockwise("erfinv")
def erfinv(x: Any) -> Any:
    w = -np.log1p(-x * x)
    near = np.abs(x) > 0.9
    w[near] = -np.log((1.0 - x[near]) * (1.0 + x[near]))
    y = np.where(w < 5.0, _horner(_ERFINV_CENTRE, w - 2.5), _horner(_ERFINV_TAIL, np.sqrt(np.maximum(w, 5.0)) - 3.0))
    y *= x
    # The approximation is good to single precision, less so at the very end; steps of Halley's rule, which triple the
    # digits, give double precision, on erfc where erf is near 1.
    a, target = np.abs(y), np.abs(x)
    tail = target > 0.5
    for _ in range(6):
        residual = erf(a) - target
        if tail.any():
            residual[tail] = (1.0 - target[tail]) - _erfc(a[tail])
        step = residual * (math.sqrt(math.pi) / 2.0) * np.exp(a * a)
        step /= 1.0 + a * step
        a -= step
        if not (np.abs(step) > 1e-7).any():
            break
    y = np.copysign(a, x)
    y[target == 1.0] = np.copysign(np.inf, x[target == 1.0])
    return y


# ---------------------------------------------------------------------------------------------------------------
# Gamma function. Small arguments are moved up by its recurrence to where the asymptotic series is exact.

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1))
_DIGAMMA = tuple(b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_FACTORIALS = np.array([math.factorial(n) for n in range(23)], np.float64)
_FAR = 10.0


def _moved(x: Any) -> tuple[Any, Any]:
    """Return ``z >= 10`` and the product ``x (x + 1) ... (z - 1)``, for ``x > 0``."""
    z, product = x.copy(), np.ones_like(x)
    for _ in range(int(_FAR)):
        low = z < _FAR
        if not low.any():
            break
        np.multiply(product, z, out=product, where=low)
        np.add(z, 1.0, out=z, where=low)
    return z, product


def _correction(z: Any) -> Any:
    r = 1.0 / z
    return _horner(_STIRLING[::-1], r * r) * r


def _log_gamma(x: Any) -> Any:
    z, product = _moved(x)
    y = (z - 0.5) * np.log(z) - z + _HALF_LOG_TWO_PI + _correction(z) - np.log(product)
    return np.where(np.isinf(x), x, y)


def _gamma(x: Any) -> Any:
    z, product = _moved(x)
    # The power in two halves: the whole one overflows before the gamma function does.
    half = np.power(z, 0.5 * z - 0.25)
    y = math.sqrt(2.0 * math.pi) * half * np.exp(-z) * half * np.exp(_correction(z)) / product
    return np.where(z > 171.7, np.inf, y)


def _sin_pi(x: Any) -> Any:
    """sin(pi x), exactly 0 at whole numbers."""
    n = np.rint(x)
    return np.sin(math.pi * (x - n)) * np.where(np.remainder(n, 2.0) == 0, 1.0, -1.0)


@_blockwise("gammaln")
def gammaln(x: Any) -> Any:
    negative = x < 0.5
    y = _log_gamma(np.where(negative, 1.0 - x, x))
    if negative.any():
        v = x[negative]
        y[negative] = np.log(math.pi / np.abs(_sin_pi(v))) - y[negative]
    # Around its zeros, 1 and 2, differences of large terms would leave few digits: Taylor's series there.
    for zero in (1.0, 2.0):
        e = x - zero
        near = np.abs(e) < 0.25
        if near.any():
            e = e[near]
            y[near] = _horner(_AROUND_ONE, e) * e + (np.log1p(e) if zero == 2.0 else 0.0)
    return y


@_blockwise("gamma")
def gamma(x: Any) -> Any:
    negative = x < 0.5
    y = _gamma(np.where(negative, 1.0 - x, x))
    if negative.any():
        v = x[negative]
        s = _sin_pi(v)
        r = math.pi / (s * y[negative])
        # A pole has no sign, but 0 has; very negative numbers underflow.
        r = np.where((s == 0) & (v != 0), np.nan, r)
        y[negative] = np.where(v == 0, np.copysign(np.inf, v), r)
    whole = (x >= 1) & (x <= len(_FACTORIALS)) & (x == np.rint(x))
    if whole.any():
        # Exactly, so that arrays of whole numbers are not cut off one below.
        y[whole] = _FACTORIALS[x[whole].astype(np.int64) - 1]
    return y


def _digamma(x: Any) -> Any:
    z, sums = x.copy(), np.zeros_like(x)
    for _ in range(int(_FAR)):
        low = z < _FAR
        if not low.any():
            break
        np.subtract(sums, 1.0 / z, out=sums, where=low)
        np.add(z, 1.0, out=z, where=low)
    r = 1.0 / (z * z)
    return sums + np.log(z) - 0.5 / z - _horner(_DIGAMMA[::-1], r) * r


def _polygamma(x: Any, n: int) -> Any:
    far = 20.0 + n
    z, sums = x.copy(), np.zeros_like(x)
    steps = int(max(np.ceil(far - np.min(x, initial=far, where=np.isfinite(x))), 0))
    for _ in range(steps):
        low = z < far
        np.add(sums, 1.0 / z ** (n + 1), out=sums, where=low)
        np.add(z, 1.0, out=z, where=low)
    y = math.factorial(n) * sums + math.factorial(n - 1) / z**n + 0.5 * math.factorial(n) / z ** (n + 1)
    for k, b in enumerate(_BERNOULLI, 1):
        y += b * (math.factorial(2 * k + n - 1) / math.factorial(2 * k)) / z ** (2 * k + n)
    return y if n % 2 else -y


# ln gamma(1 + e) = -0.577... e + sum of zeta(k) (-e)**k / k, highest power first
_ZETA = [float(abs(_polygamma(np.ones(1), k - 1)[0])) / math.factorial(k - 1) for k in range(2, 29)]
_AROUND_ONE = tuple(z * (-1.0) ** k / k for k, z in zip(range(28, 1, -1), reversed(_ZETA))) + (-0.5772156649015329,)


@_blockwise("_polygamma")
def polygamma(x: Any, *, n: int) -> Any:
    if n:
        return _polygamma(x, n)
    negative = x < 0.5
    y = _digamma(np.where(negative, 1.0 - x, x))
    if negative.any():
        v = x[negative]
        d = v - np.rint(v)
        y[negative] -= np.where(d == 0, np.nan, math.pi / np.tan(math.pi * d))
    return y
