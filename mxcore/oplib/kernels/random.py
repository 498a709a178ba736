"""Kernels of random operators: NumPy draws, whatever the array library.

``rng`` is the generator of this call. float32 is drawn as float32, float16 as float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...operators.random import DENSITIES, DISTRIBUTIONS, Distribution, check_randint, log_dirichlet
from ..table import NUMPY, kernel
from . import special as _special  # noqa: F401  (declares gammaln)

_single, _double = np.dtype(np.float32), np.dtype(np.float64)


def _host(x: Any) -> np.ndarray:
    """Return ``x`` as a NumPy array."""
    return x.get() if hasattr(x, "get") else np.asarray(x)


def uniform(rng: Any, size: Any, dtype: Any, low: Any, high: Any) -> Any:
    x = rng.random(size, dtype)
    if np.ndim(low) or low != 0 or high != 1:
        x *= high - low
        x += low
    return x


def normal(rng: Any, size: Any, dtype: Any, loc: Any, scale: Any) -> Any:
    x = rng.standard_normal(size, dtype)
    if np.ndim(scale) or scale != 1:
        x *= scale
    if np.ndim(loc) or loc != 0:
        x += loc
    return x


def gamma(rng: Any, size: Any, dtype: Any, alpha: Any, beta: Any) -> Any:
    x = rng.standard_gamma(alpha, size, dtype)
    x *= beta
    return x


def exponential(rng: Any, size: Any, dtype: Any, lam: Any) -> Any:
    x = rng.standard_exponential(size, dtype)
    x /= lam
    return x


def poisson(rng: Any, size: Any, dtype: Any, lam: Any) -> Any:
    return rng.poisson(lam, size)


def negative_binomial(rng: Any, size: Any, dtype: Any, k: Any, p: Any) -> Any:
    return rng.negative_binomial(k, p, size)


def generalized_negative_binomial(rng: Any, size: Any, dtype: Any, mu: Any, alpha: Any) -> Any:
    # A Poisson whose rate is gamma distributed with mean mu and variance alpha * mu**2; without variance, just mu.
    alpha = np.asarray(alpha, np.float64)
    spread = np.where(alpha > 0, alpha, 1.0)
    rate = rng.standard_gamma(1.0 / spread, size) * spread * mu
    return rng.poisson(np.where(alpha > 0, rate, mu), size)


#: distribution -> draw(rng, size, dtype, *parameters); dtype is single or double precision
DRAW: dict[str, Callable[..., Any]] = {
    "uniform": uniform,
    "normal": normal,
    "gamma": gamma,
    "exponential": exponential,
    "poisson": poisson,
    "negative_binomial": negative_binomial,
    "generalized_negative_binomial": generalized_negative_binomial,
}


def _drawn(draw: Callable[..., Any], rng: Any, shape: Any, dtype: Any, parameters: Any) -> Any:
    working = _double if dtype == _double else _single
    return draw(rng, shape, working, *parameters).astype(dtype, copy=False)


def _declare(d: Distribution, draw: Callable[..., Any]) -> None:
    def created(xp: Any, *, rng: Any, shape: Any, dtype: Any, **parameters: Any) -> Any:
        d.check(f"_random_{d.name}", parameters)
        return xp.asarray(_drawn(draw, rng, shape or (1,), np.dtype(dtype or "float32"), parameters.values()))

    def like(xp: Any, x: Any, *, rng: Any, **parameters: Any) -> Any:
        d.check(f"_random_{d.name}_like", parameters)
        return xp.asarray(_drawn(draw, rng, x.shape, np.dtype(x.dtype), parameters.values()))

    def sampled(xp: Any, *arrays: Any, rng: Any, shape: Any, dtype: Any) -> Any:
        shape = shape or ()
        wide = [_host(a).astype(np.float64).reshape(a.shape + (1,) * len(shape)) for a in arrays]
        # Parameters in double precision, so the draws too: float32 draws would refuse them.
        x = draw(rng, arrays[0].shape + shape, _double, *wide)
        return xp.asarray(x.astype(dtype or "float32", copy=False))

    kernel(f"_random_{d.name}")(created)
    kernel(f"_random_{d.name}_like")(like)
    kernel(f"_sample_{d.name}")(sampled)


for _distribution in DISTRIBUTIONS:
    _declare(_distribution, DRAW[_distribution.name])


@kernel("_random_randint")
def randint(xp: Any, *, rng: Any, low: int, high: int, shape: Any, dtype: Any) -> Any:
    check_randint({"low": low, "high": high})
    return xp.asarray(rng.integers(low, high, shape or (1,), dtype or "int32"))


@kernel("_sample_multinomial")
def multinomial(xp: Any, data: Any, *, rng: Any, shape: Any, get_prob: bool, dtype: str) -> Any:
    shape = shape or ()
    host = _host(data)
    k = host.shape[-1]
    p = host.reshape(-1, k)
    # All distributions in one search: row r occupies the numbers from r to r + 1.
    ends = np.minimum(np.cumsum(p, axis=1, dtype=np.float64), 1.0) + np.arange(len(p))[:, None]
    draws = int(np.prod(shape, dtype=np.int64))
    at = rng.random((len(p), draws)) + np.arange(len(p))[:, None]
    index = np.searchsorted(ends.reshape(-1), at.reshape(-1), side="right").reshape(at.shape)
    index -= np.arange(len(p))[:, None] * k
    # Rounding can leave the sum just below 1.
    np.clip(index, 0, k - 1, out=index)
    out = (host.shape[:-1] + shape) or (1,)
    drawn = xp.asarray(index.reshape(out).astype(dtype))
    if not get_prob:
        return drawn
    with np.errstate(divide="ignore"):
        log = np.log(np.take_along_axis(p, index, 1))
    return drawn, xp.asarray(log.reshape(out))


@kernel("_gather_categories")
def gather_categories(xp: Any, x: Any, index: Any) -> Any:
    rows = x.reshape(-1, x.shape[-1])
    i = index.astype(np.int64).reshape(len(rows), -1)
    return rows[xp.arange(len(rows))[:, None], i].reshape(index.shape)


@kernel("_scatter_categories", numpy=True)
def scatter_categories(g: Any, index: Any, like: Any) -> Any:
    y = np.zeros(like.shape, g.dtype)
    rows = y.reshape(-1, like.shape[-1])
    i = index.astype(np.int64).reshape(len(rows), -1)
    np.add.at(rows, (np.arange(len(rows))[:, None], i), g.reshape(i.shape))
    return y


@kernel("_shuffle")
def shuffle(xp: Any, x: Any, *, rng: Any) -> Any:
    return x[xp.asarray(rng.permutation(x.shape[0]))]


@kernel("_sample_unique_zipfian")
def unique_zipfian(xp: Any, *, rng: Any, range_max: int, shape: Any) -> Any:
    rows, wanted = shape
    samples, tries = np.empty(shape, np.int64), np.zeros(rows, np.int64)
    for r in range(rows):
        drawn = np.empty(0, np.int64)
        while True:
            u = rng.random(max(2 * wanted, 64))
            fresh = (np.exp(u * np.log(range_max + 1.0)) - 1.0).astype(np.int64) % range_max
            drawn = np.concatenate([drawn, fresh])
            _, first = np.unique(drawn, return_index=True)
            if len(first) >= wanted:
                break
        first.sort()
        samples[r] = drawn[first[:wanted]]
        tries[r] = first[wanted - 1] + 1 if wanted else 0
    return xp.asarray(samples), xp.asarray(tries)


# ---------------------------------------------------------------------------------------------------------------
# Densities: the formulas are the records'


class _Functions:
    """What the formulas call, on NumPy arrays."""

    log = staticmethod(np.log)
    gammaln = staticmethod(NUMPY["gammaln"])


def _density(log_density: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, *parameters: Any, is_log: bool) -> Any:
        wide = [p.reshape(p.shape + (1,) * (x.ndim - p.ndim)) for p in parameters]
        with np.errstate(divide="ignore", invalid="ignore"):
            y = log_density(_Functions, x, *wide)
            return y if is_log else np.exp(y)

    return run


for _d in DENSITIES:
    kernel(f"_random_pdf_{_d.name}", numpy=True)(_density(_d.log))


@kernel("_random_pdf_dirichlet", numpy=True)
def pdf_dirichlet(x: Any, alpha: Any, *, is_log: bool) -> Any:
    wide = alpha.reshape((*alpha.shape[:-1], *(1,) * (x.ndim - alpha.ndim), alpha.shape[-1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        y = log_dirichlet(_Functions, lambda v: v.sum(-1), x, wide).reshape(x.shape[:-1] or (1,))
        return y if is_log else np.exp(y)
