"""What closes the system of windowed operators: transposes of each other, also where maxima are tied."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore.dispatch.functions import call

POOLING = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}


def inner(a, b):
    return float((a.asnumpy() * b.asnumpy()).sum())


@pytest.mark.parametrize("convention", ["valid", "full"])
def test_gather_is_the_transpose_of_the_scatter_with_ties(convention):
    r = np.random.default_rng(0)
    how = {**POOLING, "pooling_convention": convention}
    x = mx.nd.array(r.integers(0, 3, (2, 3, 7, 6)), dtype="float64")
    y = call("Pooling", (x,), how)
    g, v = (
        mx.nd.array(r.standard_normal(y.shape), dtype="float64"),
        mx.nd.array(r.standard_normal(x.shape), dtype="float64"),
    )
    scattered = call("_pooling_backward", (g, x, y), how)
    gathered = call("_pooling_gather", (v, x, y), how)
    np.testing.assert_allclose(inner(v, scattered), inner(g, gathered), rtol=1e-12)
    # Each window gives its gradient to one position.
    np.testing.assert_allclose(scattered.asnumpy().sum(), g.asnumpy().sum(), rtol=1e-12)


@pytest.mark.parametrize("name", ["Convolution", "Deconvolution"])
def test_third_derivatives(name):
    # f = (w * x) . (w * x) . (w * x): by w three times along v gives 6 sums of products of x and v.
    r = np.random.default_rng(1)
    how = {"kernel": (2, 2), "num_filter": 2, "no_bias": True}
    x = mx.nd.array(r.standard_normal((1, 2, 3, 3)), dtype="float64")
    w = mx.nd.array(r.standard_normal((2, 2, 2, 2)), dtype="float64")
    v = mx.nd.array(r.standard_normal((2, 2, 2, 2)), dtype="float64")
    w.attach_grad()
    op = getattr(mx.nd, name)
    with mx.autograd.record():
        y = op(x, w, **how)
        z = (y * y * y).sum()
        for _ in range(2):
            d = mx.autograd.grad(z, w, create_graph=True)
            z = (d * v).sum()
    z.backward()
    along = op(x, v, **how).asnumpy()
    np.testing.assert_allclose(inner(w.grad, v), 6 * (along**3).sum(), rtol=1e-9)


@pytest.mark.parametrize("name", ["Convolution", "Deconvolution", "Pooling"])
def test_half_precision(name):
    r = np.random.default_rng(2)
    how = {"kernel": (3, 3), "pad": (1, 1)}
    ins = [r.standard_normal((2, 4, 6, 6))]
    if name != "Pooling":
        ins.append(r.standard_normal((4, 4, 3, 3)))
        how |= {"num_filter": 4, "no_bias": True}
    fn = getattr(mx.nd, name)
    half = [mx.nd.array(v, dtype="float16") for v in ins]
    for v in half:
        v.attach_grad()
    with mx.autograd.record():
        y = fn(*half, **how)
    y.backward()
    full = fn(*[mx.nd.array(v.asnumpy(), dtype="float64") for v in half], **how)
    assert y.dtype == half[0].grad.dtype == np.float16
    np.testing.assert_allclose(y.asnumpy(), full.asnumpy(), atol=2e-2)


def test_channels_last_is_the_same_convolution():
    r = np.random.default_rng(3)
    x, w = r.standard_normal((2, 3, 5, 6)), r.standard_normal((4, 3, 3, 3))
    how = {"kernel": (3, 3), "num_filter": 4, "no_bias": True, "stride": (2, 1)}
    first = mx.nd.Convolution(mx.nd.array(x), mx.nd.array(w), **how).asnumpy()
    last = mx.nd.Convolution(
        mx.nd.array(np.moveaxis(x, 1, -1)), mx.nd.array(np.moveaxis(w, 1, -1)), layout="NHWC", **how
    ).asnumpy()
    np.testing.assert_allclose(np.moveaxis(last, -1, 1), first, rtol=1e-4, atol=1e-5)


def test_geometry_may_come_as_strings():
    x, w = mx.nd.ones((1, 1, 4, 4)), mx.nd.ones((1, 1, 3, 3))
    y = mx.nd.Convolution(x, w, kernel="(3, 3)", num_filter="1", no_bias="True", pad="(1, 1)")
    assert y.asnumpy()[0, 0, 0].tolist() == [4, 6, 6, 4]
    assert mx.nd.Pooling(x, global_pool=True, pool_type="avg").shape == (1, 1, 1, 1)
