"""Linear algebra beyond what records check by themselves: symmetric inputs, products of factors, empty and large arrays."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx


def array(x, dtype="float64"):
    return mx.nd.array(x, dtype=dtype)


def symmetric(rng, n):
    x = rng.standard_normal((n, n))
    return x @ x.T + n * np.eye(n)


def derivative(loss, a, v, h=1e-6):
    return float((loss(array(a + h * v)) - loss(array(a - h * v))).asnumpy()[0]) / (2 * h)


def first(loss, a):
    x = array(a)
    x.attach_grad()
    with mx.autograd.record():
        y = loss(x)
    y.backward()
    return x.grad.asnumpy()


LOSSES = {
    "potrf": lambda x, w: (mx.nd.linalg.potrf(x) * w).sum(),
    "syevd": lambda x, w: (mx.nd.square(mx.nd.linalg.syevd(x)[0]) * w).sum() + (mx.nd.linalg.syevd(x)[1] * w[0]).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_functions_of_symmetric_matrices(name):
    rng = np.random.default_rng(3)
    a, w = symmetric(rng, 4), array(rng.standard_normal((4, 4)))

    def loss(x):
        return LOSSES[name](x, w)

    v = rng.standard_normal((4, 4))
    v = v + v.T
    g = first(loss, a)
    np.testing.assert_allclose(g, g.T, atol=1e-10)
    np.testing.assert_allclose((g * v).sum(), derivative(loss, a, v), rtol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_second_order(name):
    rng = np.random.default_rng(4)
    a, w = symmetric(rng, 3), array(rng.standard_normal((3, 3)))
    k = rng.standard_normal((3, 3))
    k, v = k + k.T, np.eye(3) + np.ones((3, 3))
    h = 1e-6

    def loss(x):
        return LOSSES[name](x, w)

    want = ((first(loss, a + h * v) - first(loss, a - h * v)) * k).sum() / (2 * h)
    x = array(a)
    x.attach_grad()
    with mx.autograd.record():
        (g,) = mx.autograd.grad(loss(x), [x], create_graph=True)
    g.backward(array(k))
    np.testing.assert_allclose((x.grad.asnumpy() * v).sum(), want, rtol=1e-4)


def test_eigenvectors_are_rows():
    a = symmetric(np.random.default_rng(5), 5)
    u, values = (y.asnumpy() for y in mx.nd.linalg.syevd(array(a)))
    np.testing.assert_allclose(u.T @ np.diag(values) @ u, a, atol=1e-10)
    np.testing.assert_allclose(u @ u.T, np.eye(5), atol=1e-10)


def test_triangular_solve_larger_than_one_block():
    rng = np.random.default_rng(6)
    n = 150
    a = np.tril(rng.standard_normal((n, n))) / n + np.eye(n)
    b = rng.standard_normal((n, 7))
    for lower in (True, False):
        for transpose in (True, False):
            m = a if lower else a.T.copy()
            x = mx.nd.linalg.trsm(array(m), array(b), lower=lower, transpose=transpose).asnumpy()
            np.testing.assert_allclose((m.T if transpose else m) @ x, b, atol=1e-10)


def test_upper_triangles_go_column_by_column():
    a = mx.nd.arange(1, 10).reshape((3, 3))
    upper = mx.nd.linalg.extracttrian(a, lower=False)
    assert upper.asnumpy().tolist() == [1, 2, 5, 3, 6, 9]
    assert mx.nd.linalg.maketrian(upper, lower=False).asnumpy().tolist() == [[1, 2, 3], [0, 5, 6], [0, 0, 9]]


def test_half_precision_is_summed_in_single():
    x = mx.nd.ones((1, 4096), dtype="float16")
    y = mx.nd.dot(x, x, transpose_b=True)
    assert y.dtype == np.float16
    assert y.asnumpy().tolist() == [[4096.0]]


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 0, 3), (3, 4)), ((2, 3, 0), (0, 4))])
def test_empty_products(shapes):
    a, b = (np.ones(s, np.float32) for s in shapes)
    x, y = array(a, "float32"), array(b, "float32")
    for v in (x, y):
        v.attach_grad()
    with mx.autograd.record():
        z = mx.nd.dot(x, y)
    z.backward()
    np.testing.assert_array_equal(z.asnumpy(), np.tensordot(a, b, 1))
    assert x.grad.shape == a.shape
    assert y.grad.shape == b.shape


def test_singular_and_indefinite_matrices_are_named():
    with pytest.raises(mx.MXNetError, match="_linalg_inverse.*Singular"):
        mx.nd.linalg.inverse(mx.nd.zeros((2, 2))).asnumpy()
    with pytest.raises(mx.MXNetError, match="_linalg_potrf.*positive definite"):
        mx.nd.linalg.potrf(mx.nd.array([[-1]])).asnumpy()
