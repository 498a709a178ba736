"""Random operators: moments and quantiles, streams, shapes and dtypes, gradients of log probabilities."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import mxcore as mx
from mxcore.operators.random import DISTRIBUTIONS
from mxcore.spec import ParameterError
from mxcore.testing.engine_seeded import SeededEngine

N = 40_000
#: distribution -> (parameters, SciPy distribution with the same parameters)
CASES = {
    "uniform": ((-1.0, 3.0), lambda s, low, high: s.uniform(low, high - low)),
    "normal": ((2.0, 0.5), lambda s, mu, sigma: s.norm(mu, sigma)),
    "gamma": ((2.5, 0.4), lambda s, alpha, beta: s.gamma(alpha, scale=beta)),
    "exponential": ((4.0,), lambda s, lam: s.expon(scale=1 / lam)),
    "poisson": ((3.5,), lambda s, lam: s.poisson(lam)),
    "negative_binomial": ((3, 0.4), lambda s, k, p: s.nbinom(k, p)),
    "generalized_negative_binomial": ((2.0, 0.3), lambda s, mu, a: s.nbinom(1 / a, 1 / (1 + a * mu))),
}


def fits(x, distribution):
    """Kolmogorov-Smirnov distance below its 1e-4 quantile, at the jumps of a discrete distribution too."""
    x = np.sort(np.asarray(x, np.float64))
    at = np.unique(x)
    empirical = np.searchsorted(x, at, side="right") / len(x)
    return np.abs(empirical - distribution.cdf(at)).max() < 2.23 / math.sqrt(len(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_distribution_of_numbers(name, dtype):
    stats = pytest.importorskip("scipy.stats")
    parameters, make = CASES[name]
    mx.random.seed(11)
    x = getattr(mx.nd, f"random_{name}")(*parameters, shape=(N,), dtype=dtype)
    assert x.dtype == np.dtype(dtype)
    d = make(stats, *parameters)
    assert fits(x.asnumpy(), d)
    assert abs(x.asnumpy().astype(np.float64).mean() - d.mean()) < 5 * d.std() / math.sqrt(N)
    like = getattr(mx.nd.random, f"{name}_like")(x, *parameters)
    assert like.dtype == x.dtype
    assert like.shape == x.shape
    assert fits(like.asnumpy(), d)
    assert np.abs(like.asnumpy() - x.asnumpy()).max() > 0


@pytest.mark.parametrize("name", CASES)
def test_distribution_of_arrays(name):
    stats = pytest.importorskip("scipy.stats")
    parameters, make = CASES[name]
    other = [p * 0.75 for p in parameters]
    if name == "negative_binomial":
        other[0] = 5
    mx.random.seed(12)
    arrays = [mx.nd.array([[a], [b]]) for a, b in zip(parameters, other)]
    x = getattr(mx.nd, f"sample_{name}")(*arrays, shape=(N // 4, 2))
    assert x.shape == (2, 1, N // 4, 2)
    assert x.dtype == np.float32
    for row, p in zip(x.asnumpy().reshape(2, -1), (parameters, other)):
        assert fits(row, make(stats, *p))


def test_module_takes_numbers_or_arrays():
    r = mx.nd.random
    assert r.uniform().shape == (1,)
    assert r.uniform(0, 1, 3).shape == (3,)
    assert r.normal(0, 1, (2, 3), dtype=np.float16).dtype == np.float16
    assert r.randn(2, 3, loc=1, scale=2, dtype="float64").shape == (2, 3)
    assert r.exponential(mx.nd.array([1.0, 2.0]), shape=2).shape == (2, 2)
    assert r.poisson(mx.nd.array([1.0, 2.0])).shape == (2,)
    assert r.randint(0, 5, shape=(4,)).dtype == np.int32
    assert r.randint(0, 2**40, shape=(4,), dtype="int64").dtype == np.int64
    assert mx.random.gamma is r.gamma
    out = mx.nd.zeros((3, 2), dtype="float64")
    assert r.uniform(5, 6, out=out) is out
    assert (out.asnumpy() >= 5).all()
    assert r.normal(100, 1, shape=(3, 2), out=out) is out
    assert (out.asnumpy() > 50).all()


def test_module_refuses_mixed_and_wrong_parameters():
    r = mx.nd.random
    with pytest.raises(AssertionError, match="all be NDArrays or all numbers"):
        r.uniform(1, mx.nd.array([2]))
    with pytest.raises(ValueError, match="must be NDArrays or numbers"):
        r.uniform("a", "b")
    with pytest.raises(ValueError, match="low <= high"):
        r.uniform(3, 1).wait_to_read()
    with pytest.raises(ValueError, match="scale >= 0"):
        r.normal(0, -1).wait_to_read()
    with pytest.raises(ValueError, match="one of 'float32'"):
        r.uniform(dtype="int32")
    with pytest.raises(ValueError, match="low < high"):
        r.randint(3, 3).wait_to_read()


BAD_NUMBERS = {
    "uniform": ({"low": 2, "high": 1}, "low <= high, but got low=2.0, high=1.0"),
    "normal": ({"scale": -1}, "scale >= 0, but got loc=0.0, scale=-1.0"),
    "gamma": ({"alpha": 0}, "alpha > 0 and beta > 0, but got alpha=0.0, beta=1.0"),
    "exponential": ({"lam": 0}, "lam > 0, but got lam=0.0"),
    "poisson": ({"lam": -1}, "lam >= 0, but got lam=-1.0"),
    "negative_binomial": ({"p": 2}, "k > 0 and 0 < p <= 1, but got k=1, p=2.0"),
    "generalized_negative_binomial": ({"mu": -1}, "mu >= 0 and alpha >= 0, but got mu=-1.0, alpha=1.0"),
    "randint": ({"low": 3, "high": 3}, "low < high, but got low=3, high=3"),
}


def test_every_distribution_has_bad_numbers():
    assert set(BAD_NUMBERS) == {d.name for d in DISTRIBUTIONS} | {"randint"}


@pytest.mark.parametrize("name", BAD_NUMBERS)
def test_bad_numbers_fail_where_the_engine_runs_the_kernel(name):
    numbers, message = BAD_NUMBERS[name]
    calls = {f"_random_{name}": lambda: getattr(mx.nd._internal, f"_random_{name}")(shape=(2,), **numbers)}
    if name != "randint":
        like = getattr(mx.nd._internal, f"_random_{name}_like")
        calls[f"_random_{name}_like"] = lambda: like(mx.nd.ones(2), **numbers)
    for operator, call in calls.items():
        text = f"operator '{operator}' needs {message}."
        with mx.use(engine="naive"), pytest.raises(ParameterError, match="^" + re.escape(text)):
            call()
        # Both the array and what is made of it fail at the sync point, and the call itself on engines that wait.
        with pytest.raises(ParameterError, match="^" + re.escape(text)):
            (call() * 2).wait_to_read()


def test_bad_numbers_wait_for_the_sync_point():
    with mx.use(engine=SeededEngine(seed=1)):
        bad = mx.nd.random.normal(0, -1, (2, 2))
        product = mx.nd.dot(mx.nd.ones((2, 2)), bad)
        assert product.shape == (2, 2)
        for array in (product, bad, product):
            with pytest.raises(ParameterError, match="needs scale >= 0"):
                array.asnumpy()
        with pytest.raises(ValueError, match="one of 'float32'"):  # how the call is written: at once
            mx.nd.random.normal(0, -1, (2, 2), dtype="int32")


def test_streams():
    def draw(ctx=None):
        return mx.nd.random.normal(shape=(5,), ctx=ctx).asnumpy()

    mx.random.seed(1)
    a, b = draw(), draw()
    mx.random.seed(1)
    np.testing.assert_array_equal(draw(), a)
    np.testing.assert_array_equal(draw(), b)
    assert np.abs(a - b).min() > 0
    mx.random.seed(2)
    assert np.abs(draw() - a).min() > 0
    mx.random.seed(1)
    assert np.abs(draw(mx.cpu(1)) - a).min() > 0
    mx.random.seed(1, ctx=mx.cpu(1))
    c = draw(mx.cpu(1))
    draw()
    mx.random.seed(1, ctx=mx.cpu(1))
    np.testing.assert_array_equal(draw(mx.cpu(1)), c)


def test_integers_cover_their_range_evenly():
    mx.random.seed(3)
    counts = np.bincount(mx.nd.random.randint(-3, 4, shape=(N,)).asnumpy() + 3, minlength=7)
    assert len(counts) == 7
    assert np.abs(counts - N / 7).max() < 5 * math.sqrt(N / 7)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "float32", "float64"])
def test_categories(dtype):
    mx.random.seed(4)
    p = np.array([[0.1, 0.0, 0.6, 0.3], [0.5, 0.25, 0.25, 0.0]], np.float32)
    data = mx.nd.array(p)
    drawn, log = mx.nd.random.multinomial(data, shape=(N // 2, 2), get_prob=True, dtype=dtype)
    assert drawn.shape == log.shape == (2, N // 2, 2)
    assert drawn.dtype == np.dtype(dtype)
    for row, logs, want in zip(drawn.asnumpy().reshape(2, -1).astype(int), log.asnumpy().reshape(2, -1), p):
        share = np.bincount(row, minlength=4) / N
        assert np.abs(share - want).max() < 5 * math.sqrt(0.25 / N)
        assert share[want == 0].sum() == 0
        np.testing.assert_allclose(np.exp(logs), want[row], rtol=1e-6)
    assert mx.nd.random.multinomial(mx.nd.array([0, 1])).shape == (1,)
    assert mx.nd.random.multinomial(data).shape == (2,)


def test_log_probabilities_have_a_gradient():
    x = mx.nd.array([[0.0, 0.25, 0.75], [0.5, 0.5, 0.0]])
    x.attach_grad()
    with mx.autograd.record():
        drawn, log = mx.nd.random.multinomial(x, shape=(6,), get_prob=True)
    weight = np.arange(12, dtype=np.float32).reshape(2, 6)
    log.backward(mx.nd.array(weight))
    want = np.zeros((2, 3))
    for r in range(2):
        for k, w in zip(drawn.asnumpy()[r], weight[r]):
            want[r, k] += w / x.asnumpy()[r, k]
    np.testing.assert_allclose(x.grad.asnumpy(), want, rtol=1e-6)


def test_shuffle_gives_every_order():
    mx.random.seed(5)
    x = mx.nd.arange(6).reshape((3, 2))
    seen = {}
    for _ in range(600):
        y = mx.nd.shuffle(x).asnumpy()
        seen[tuple(y[:, 0])] = seen.get(tuple(y[:, 0]), 0) + 1
        np.testing.assert_array_equal(y[:, 1], y[:, 0] + 1)
    assert len(seen) == 6
    assert min(seen.values()) > 50
    np.testing.assert_array_equal(x.asnumpy(), np.arange(6).reshape(3, 2))


def test_unique_zipfian():
    mx.random.seed(6)
    samples, tries = mx.nd._internal._sample_unique_zipfian(50, shape=(300, 8))
    s, t = samples.asnumpy(), tries.asnumpy()
    assert s.min() >= 0
    assert s.max() < 50
    assert all(len(set(row)) == 8 for row in s)
    assert (t >= 8).all()
    # The first of a row is a plain draw.
    want = math.log(2) / math.log(51)
    assert abs((s[:, 0] == 0).mean() - want) < 5 * math.sqrt(want * (1 - want) / 300)


def test_rand_zipfian():
    from mxcore.ndarray.contrib_functions import rand_zipfian

    mx.random.seed(7)
    classes, true, drawn = rand_zipfian(mx.nd.array([0, 3]), N, 8)
    c = classes.asnumpy()
    assert c.dtype == np.int64
    p = np.log((np.arange(8) + 2) / (np.arange(8) + 1)) / math.log(9)
    np.testing.assert_allclose(true.asnumpy(), N * p[[0, 3]])
    np.testing.assert_allclose(drawn.asnumpy(), N * p[c])
    assert np.abs(np.bincount(c, minlength=8) - N * p).max() < 5 * math.sqrt(N / 4)
