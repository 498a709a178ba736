"""Batch normalization while training, and how it holds up against numbers that cancel."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx

CASES = [((4, 3), 1), ((2, 3, 5), 1), ((3, 2, 9, 8), 1), ((2, 4, 3), -1), ((2, 3, 4, 5), 0)]


def inputs(shape, axis):
    r = np.random.default_rng(8)
    n = shape[axis]
    return [r.standard_normal(shape) * 2 + 1, r.standard_normal(n), r.standard_normal(n)]


def call(name="BatchNorm", **how):
    def fn(x, gamma, beta):
        n = len(gamma)
        moving = mx.nd.zeros((n,), dtype=x.dtype), mx.nd.ones((n,), dtype=x.dtype)
        return getattr(mx.nd.contrib if how.pop("contrib", 0) else mx.nd, name)(x, gamma, beta, *moving, **how)

    return fn


@pytest.mark.parametrize("shape,axis", CASES)
@pytest.mark.parametrize("how", [{}, {"fix_gamma": False}, {"use_global_stats": True, "fix_gamma": False}])
def test_gradients_while_training(differences, shape, axis, how):
    differences(call(axis=axis, eps=0.01, **how), inputs(shape, axis))


def test_gradients_reach_the_statistics(differences):
    differences(call(output_mean_var=True, fix_gamma=False), inputs((3, 2, 4), 1))


def test_gradients_of_the_rectified_form(differences):
    fn = mx.nd.contrib.BatchNormWithReLU

    def run(x, gamma, beta):
        return fn(
            x, gamma, beta, mx.nd.zeros((2,), dtype="float64"), mx.nd.ones((2,), dtype="float64"), fix_gamma=False
        )

    differences(run, inputs((3, 2, 4), 1))


def test_values_and_moving_statistics_while_training():
    x, gamma, beta = inputs((4, 3, 5, 5), 1)
    mean, var = mx.nd.array([0.5, 0.6, 0.7]), mx.nd.array([1.5, 2.5, 3.5])
    arrays = [mx.nd.array(v) for v in (x, gamma, beta)]
    with mx.autograd.train_mode():
        y, m, invstd = mx.nd.BatchNorm(*arrays, mean, var, momentum=0.8, eps=0.1, fix_gamma=False, output_mean_var=True)
    axes, view = (0, 2, 3), (1, 3, 1, 1)
    want = (x - x.mean(axes).reshape(view)) / np.sqrt(x.var(axes).reshape(view) + 0.1)
    want = want * gamma.reshape(view) + beta.reshape(view)
    np.testing.assert_allclose(y.asnumpy(), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(m.asnumpy(), x.mean(axes), rtol=1e-5)
    np.testing.assert_allclose(invstd.asnumpy(), 1 / np.sqrt(x.var(axes) + 0.1), rtol=1e-5)
    np.testing.assert_allclose(mean.asnumpy(), 0.8 * np.array([0.5, 0.6, 0.7]) + 0.2 * x.mean(axes), rtol=1e-5)
    np.testing.assert_allclose(var.asnumpy(), 0.8 * np.array([1.5, 2.5, 3.5]) + 0.2 * x.var(axes), rtol=1e-5)


def test_moving_statistics_stay_outside_of_training_and_with_global_statistics():
    x, gamma, beta = (mx.nd.array(v) for v in inputs((4, 3), 1))
    mean, var = mx.nd.array([0.5, 0.6, 0.7]), mx.nd.array([1.5, 2.5, 3.5])
    mx.nd.BatchNorm(x, gamma, beta, mean, var)
    with mx.autograd.train_mode():
        mx.nd.BatchNorm(x, gamma, beta, mean, var, use_global_stats=True)
    np.testing.assert_array_equal(mean.asnumpy(), np.array([0.5, 0.6, 0.7], "float32"))
    np.testing.assert_array_equal(var.asnumpy(), [1.5, 2.5, 3.5])


@pytest.mark.parametrize("shape", [(8, 2, 32, 32), (64, 2, 3)])
@pytest.mark.parametrize("offset", [0.0, 10.0, 1000.0])
def test_variance_where_squares_cancel(shape, offset):
    r = np.random.default_rng(0)
    x = (r.standard_normal(shape) + offset).astype("float32")
    vectors = [mx.nd.ones((2,)), mx.nd.zeros((2,)), mx.nd.zeros((2,)), mx.nd.ones((2,))]
    with mx.autograd.train_mode():
        y = mx.nd.BatchNorm(mx.nd.array(x), *vectors).asnumpy()
    axes = tuple(i for i in range(len(shape)) if i != 1)
    exact = x.astype("float64")
    want = (exact - exact.mean(axes, keepdims=True)) / np.sqrt(exact.var(axes, keepdims=True) + 1e-3)
    np.testing.assert_allclose(y, want, atol=1e-5 + 2e-7 * offset)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dtypes_of_results_and_gradients(dtype):
    x = mx.nd.array(inputs((4, 3, 2), 1)[0], dtype=dtype)
    kind = "float32" if dtype == "float16" else dtype
    gamma, beta = mx.nd.ones((3,), dtype=kind), mx.nd.zeros((3,), dtype=kind)
    moving = mx.nd.zeros((3,), dtype=kind), mx.nd.ones((3,), dtype=kind)
    for v in (x, gamma, beta):
        v.attach_grad()
    with mx.autograd.record():
        y = mx.nd.BatchNorm(x, gamma, beta, *moving, fix_gamma=False)
    y.backward()
    assert y.dtype == x.grad.dtype == np.dtype(dtype)
    assert gamma.grad.dtype == beta.grad.dtype == np.dtype(kind)


def test_constant_channel_gives_beta():
    x = mx.nd.full((4, 1, 8, 8), 3.0)
    with mx.autograd.train_mode():
        y = mx.nd.BatchNorm(x, mx.nd.ones((1,)), mx.nd.array([0.25]), mx.nd.zeros((1,)), mx.nd.ones((1,)))
    np.testing.assert_allclose(y.asnumpy(), 0.25, atol=1e-6)


@pytest.mark.parametrize("name,size", [("LayerNorm", 4), ("GroupNorm", 3), ("InstanceNorm", 3)])
def test_half_precision_of_the_others(name, size):
    x = np.random.default_rng(1).standard_normal((2, 3, 4))
    how = {"num_groups": 3} if name == "GroupNorm" else {}
    fn = getattr(mx.nd, name)
    ones, zeros = np.ones(size), np.zeros(size)
    got = fn(*[mx.nd.array(v, dtype="float16") for v in (x, ones, zeros)], **how)
    want = fn(*[mx.nd.array(v, dtype="float64") for v in (x, ones, zeros)], **how)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), atol=4e-3)
