"""Statistical checks of generators of random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._compare import _to_numpy


def gen_buckets_probs_with_ppf(ppf: Callable[[float], Any], nbuckets: int) -> tuple[list[tuple[Any, Any]], list[float]]:
    """Return `nbuckets` intervals of equal probability and these probabilities, from a quantile function."""
    if nbuckets <= 0:
        raise AssertionError(f"nbuckets must be positive, got {nbuckets}.")
    buckets = [(ppf(i / float(nbuckets)), ppf((i + 1) / float(nbuckets))) for i in range(nbuckets)]
    return buckets, [1.0 / nbuckets] * nbuckets


def mean_check(generator: Callable[[int], Any], mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the mean of samples lies within three standard errors of `mu`."""
    mean = np.array(generator(nsamples)).mean()
    return bool(abs(mean - mu) < 3 * sigma / np.sqrt(nsamples))


def var_check(generator: Callable[[int], Any], sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the variance of samples lies within three standard errors of ``sigma**2``."""
    variance = np.array(generator(nsamples)).var(ddof=1)
    return bool(abs(variance - sigma**2) < 3 * np.sqrt(2 * sigma**4 / (nsamples - 1)))


def chi_square_check(
    generator: Callable[[int], Any], buckets: list[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the p-value of a chi-square test of samples, with observed and expected counts. Needs SciPy.

    Parameters
    ----------
    generator : callable
        From a number to that many samples.
    buckets : list
        Intervals ``(low, high)`` in order, or single values.
    probs : sequence of float
        Probability of each bucket.
    nsamples : int
        Number of samples.
    """
    try:
        from scipy import stats
    except ImportError as error:
        raise ImportError("chi_square_check needs SciPy, which is not installed: pip install scipy") from error
    if not isinstance(buckets, list) or len(probs) != len(buckets):
        raise AssertionError(f"chi_square_check: {len(probs)} probabilities for {len(buckets)} buckets (a list).")
    samples = np.array(_to_numpy(generator(nsamples)))
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array([edge for bucket in buckets for edge in bucket], dtype=np.float32)
        if (np.diff(edges) < 0).any():
            raise AssertionError(f"chi_square_check: the buckets {buckets} are not in order.")
        which = np.searchsorted(edges, samples, side="right") // 2
        keys: Any = range(len(buckets))
    else:
        which, keys = samples, buckets
    observed = np.array([(which == key).sum() for key in keys], dtype=np.int64)
    expected = (nsamples * np.array(probs, dtype=np.float32)).astype(np.int32)
    # SciPy insists that both count the same number of samples; expected counts are rounded above.
    scaled = np.asarray(probs, np.float64) / np.sum(probs, dtype=np.float64) * observed.sum()
    return stats.chisquare(f_obs=observed, f_exp=scaled)[1], observed, expected


def verify_generator(
    generator: Callable[[int], Any],
    buckets: list[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """Raise ``AssertionError`` unless enough chi-square tests of a generator pass; return their p-values.

    Parameters
    ----------
    generator, buckets, probs, nsamples
        As for :func:`chi_square_check`.
    nrepeat : int
        Number of tests.
    success_rate : float
        Share of the tests that has to pass.
    alpha : float
        Level above which a p-value passes.
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    p_values = [result[0] for result in results]
    if (np.array(p_values) > alpha).sum() < nrepeat * success_rate:
        raise AssertionError(
            f"Generator test fails, Chi-square p={p_values}, obs_freq={[r[1] for r in results]}, "
            f"expected_freq={[r[2] for r in results]}.\nbuckets={buckets}, probs={probs}"
        )
    return p_values
