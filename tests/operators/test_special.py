"""Special functions: precision over their whole range, poles, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mxcore as mx


def call(name, x, dtype="float64", **kw):
    return getattr(mx.nd, name)(mx.nd.array(x, dtype=dtype), **kw).asnumpy()


def relative(got, want):
    return np.max(np.abs(got.astype(np.float64) - want) / np.maximum(np.abs(want), 1e-300))


def test_erf():
    x = np.concatenate([np.linspace(-7, 7, 20001), [1e-300, -1e-20, 0.46875, 4.0, 30.0]])
    want = np.array([math.erf(v) for v in x])
    nonzero = want != 0
    assert relative(call("erf", x)[nonzero], want[nonzero]) < 1e-15
    single = x.astype(np.float32)
    want = np.array([math.erf(float(v)) for v in single])
    nonzero = want != 0
    got = call("erf", single, "float32")
    assert relative(got[nonzero], want[nonzero]) < 5e-7
    assert np.abs(got).max() == 1.0
    assert call("erf", [0.0, np.inf, -np.inf]).tolist() == [0.0, 1.0, -1.0]
    assert np.isnan(call("erf", [np.nan], "float32")).all()
    assert np.isnan(call("erf", [np.nan])).all()


def test_erfinv():
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-0.999999, 0.999999, 9999), 1 - 10.0 ** -np.arange(1, 16), [1e-300, -1e-17]])
    assert relative(call("erfinv", x), special.erfinv(x)) < 1e-14
    single = x.astype(np.float32)
    single = single[np.abs(single) < 1]
    got = call("erfinv", single, "float32")
    assert relative(got[single != 0], special.erfinv(single.astype(np.float64))[single != 0]) < 1e-6
    assert call("erfinv", [0.0, 1.0, -1.0]).tolist() == [0.0, np.inf, -np.inf]
    assert np.isnan(call("erfinv", [1.5, -2.0])).all()


def test_gamma():
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-20.49, 170, 40001), 10.0 ** -np.arange(1.0, 30)])
    assert relative(call("gamma", x), special.gamma(x)) < 5e-14
    assert call("gamma", [1.0, 2, 3, 4, 5, 11]) == pytest.approx([1, 1, 2, 6, 24, 3628800], rel=1e-14)
    got = call("gamma", [np.inf, 172.0, 0.0, -0.0, -3.0])
    assert got[:4].tolist() == [np.inf, np.inf, np.inf, -np.inf]
    assert np.isnan(got[4])


def test_gammaln():
    x = np.concatenate([np.linspace(-20.49, 200, 40001), [1e10, 1e300, 1e-300, 1.0, 2.0, 1.4616321449683622]])
    want = np.array([math.lgamma(v) for v in x])
    got = call("gammaln", x)
    assert np.max(np.abs(got - want) / np.maximum(np.abs(want), 1.0)) < 5e-14
    assert call("gammaln", [np.inf, 0.0, -1.0]).tolist() == [np.inf] * 3
    assert call("gammaln", [1.0, 2.0]).tolist() == [0.0, 0.0]
    near = np.concatenate([z + s * 10.0 ** -np.arange(1.0, 13) for z in (1, 2) for s in (1, -1)])
    e = near - np.rint(near)
    euler = 0.5772156649015329
    slope = np.where(near < 1.5, -euler, 1.0 - euler)
    curve = np.where(near < 1.5, math.pi**2 / 12, math.pi**2 / 12 - 0.5)
    want = e * (slope + e * curve)
    small = np.abs(e) < 1e-5
    assert relative(call("gammaln", near)[small], want[small]) < 1e-9


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma(n):
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(0.05, 60, 5000), [1e3, 1e8]])
    got = mx.nd._internal._polygamma(mx.nd.array(x, dtype="float64"), n=n).asnumpy()
    want = special.polygamma(n, x)
    assert np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-3 if n < 2 else 1e-300)) < 1e-12


def test_pieces_integers_and_strides():
    x = np.linspace(-2, 2, 20001).reshape(-1, 3)
    want = np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)
    np.testing.assert_allclose(call("erf", x), want, rtol=1e-15, atol=1e-300)
    strided = mx.nd.array(x, dtype="float64")[::2]
    np.testing.assert_allclose(mx.nd.erf(strided).asnumpy(), want[::2], rtol=1e-15, atol=1e-300)
    y = call("gamma", [1, 5], "int32")
    assert y.dtype == np.int32
    assert y.tolist() == [1, 24]
    assert call("erf", np.zeros((0, 3))).shape == (0, 3)
