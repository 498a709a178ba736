"""What the records of the neural operators cannot say about themselves: training, randomness, dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mxcore as mx


def signed(*shape):
    r = np.random.default_rng(2)
    return r.uniform(0.1, 2, shape) * r.choice([-1, 1], shape)


@pytest.mark.parametrize(
    "how",
    [
        {"slope": 0.3},
        {"slope": 1.7},
        {"slope": -0.2},
        {"act_type": "elu", "slope": 0.7},
        {"act_type": "selu"},
        {"act_type": "gelu"},
        {"act_type": "rrelu", "lower_bound": 0.1, "upper_bound": 0.4},
    ],
)
def test_leaky_gradients(differences, how):
    differences(lambda x: mx.nd.LeakyReLU(x, **how), [signed(3, 4)])


@pytest.mark.parametrize("shape,slopes", [((2, 3, 4), 3), ((2, 3), 3), ((2, 3, 2), 1)])
def test_learned_slopes(differences, shape, slopes):
    gamma = np.random.default_rng(1).uniform(0.1, 0.9, slopes)
    differences(lambda x, s: mx.nd.LeakyReLU(x, s, act_type="prelu"), [signed(*shape), gamma])


def test_random_slopes_stay_in_bounds_and_differ():
    x = mx.nd.array(-np.ones((50, 40)))
    with mx.autograd.train_mode():
        y, slopes = mx.nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.2, upper_bound=0.3)
    np.testing.assert_array_equal(slopes.asnumpy(), -y.asnumpy())
    y = -y.asnumpy()
    assert y.min() >= 0.2 and y.max() <= 0.3 and y.std() > 0.02
    fixed, _ = mx.nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.2, upper_bound=0.3)
    np.testing.assert_allclose(fixed.asnumpy(), -0.25, rtol=1e-6)


@pytest.mark.parametrize("dtype,rtol", [("float64", 1e-12), ("float32", 1e-5), ("float16", 1e-2)])
def test_gelu_is_exact_in_both_tails(dtype, rtol):
    x = np.concatenate([np.linspace(-13, 13, 40001), [0.0, 1e-3, -1e-6]]).astype(dtype)
    want = [float(v) * 0.5 * math.erfc(-float(v) * math.sqrt(0.5)) for v in x]
    y = mx.nd.LeakyReLU(mx.nd.array(x, dtype=dtype), act_type="gelu")
    assert y.dtype == np.dtype(dtype)
    tiny = np.finfo(dtype).smallest_normal if dtype != "float64" else 1e-40
    np.testing.assert_allclose(y.asnumpy().astype("float64"), want, rtol=rtol, atol=tiny)
    ends = mx.nd.LeakyReLU(mx.nd.array([np.inf, -np.inf, np.nan], dtype=dtype), act_type="gelu").asnumpy()
    np.testing.assert_array_equal(ends, [np.inf, 0, np.nan])


@pytest.mark.parametrize("p", [0.5, 0.3, 0.125])
@pytest.mark.parametrize("axes", [(), (1,)])
def test_dropout_moments_and_gradient(p, axes):
    x = mx.nd.ones((200, 100))
    x.attach_grad()
    mx.random.seed(4)
    with mx.autograd.record():
        y = mx.nd.Dropout(x, p=p, axes=axes)
    y.backward()
    got = y.asnumpy()
    np.testing.assert_allclose(sorted(set(got.ravel())), [0, 1 / (1 - p)], rtol=1e-6)
    draws = 200 if axes else 20000
    assert abs((got == 0).mean() - p) < 5 * math.sqrt(p * (1 - p) / draws)
    assert (got == got[:, :1]).all() == bool(axes)
    np.testing.assert_array_equal(x.grad.asnumpy(), got)  # the mask: the input is 1


def test_dropout_outside_of_training_is_a_copy_with_gradient_one():
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    with mx.autograd.record(train_mode=False):
        y = mx.nd.Dropout(x, p=0.9)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), [1, 2])
    np.testing.assert_array_equal(x.grad.asnumpy(), [1, 1])
    assert (mx.nd.Dropout(mx.nd.ones((1000,)), p=0.5, mode="always").asnumpy() == 0).any()


def test_dropout_repeats_with_the_seed(differences):
    def drop():
        mx.random.seed(9)
        with mx.autograd.train_mode():
            return mx.nd.Dropout(mx.nd.ones((64,)), p=0.5).asnumpy()

    np.testing.assert_array_equal(drop(), drop())
    differences(lambda x: mx.nd.Dropout(x * x, p=0.4), [signed(5, 6)])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_of_large_and_half_numbers(name):
    fn = getattr(mx.nd, name)
    y = fn(mx.nd.array([[1000.0, 1000.0, -1000.0]])).asnumpy()
    assert np.isfinite(y).all() and y.dtype == np.float32
    half = mx.nd.array([[1, 2, 3]], dtype="float16")
    assert fn(half).dtype == np.float16
    assert fn(half, dtype="float32").dtype == np.float32


def test_softmax_gradient_has_the_dtype_of_the_data():
    x = mx.nd.array([[1, 2, 3]], dtype="float16")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.softmax(x, dtype="float32") * mx.nd.array([[1, 0, 0]])
    y.backward()
    p = np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum()
    assert x.grad.dtype == np.float16
    np.testing.assert_allclose(x.grad.asnumpy()[0], p[0] * (np.array([1, 0, 0]) - p), atol=1e-3)


def test_fully_connected_in_half_precision_multiplies_in_single():
    x = np.full((1, 4096), 1 / 64, "float16")
    y = mx.nd.FullyConnected(
        mx.nd.array(x, dtype="float16"), mx.nd.array(x, dtype="float16"), no_bias=True, num_hidden=1
    )
    assert y.dtype == np.float16 and float(y.asnumpy()[0, 0]) == 1.0


def test_relu_gradient_of_activation_is_zero_at_zero_and_keeps_nan():
    x = mx.nd.array([0.0, -1.0, 2.0, float("nan")])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Activation(x, act_type="relu")
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0, 1, 0])
    assert math.isnan(float(y.asnumpy()[3]))


@pytest.mark.parametrize("size", [5, 10000])
def test_rectifiers_of_small_and_large_arrays(size):
    # Large arrays take another way (clip), which must agree, in what is not a number too.
    x = np.random.default_rng(6).standard_normal(size).astype("float32")
    x[:5] = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    want = np.maximum(x, 0)
    np.testing.assert_array_equal(mx.nd.Activation(mx.nd.array(x), act_type="relu").asnumpy(), want)
    leaky = mx.nd.LeakyReLU(mx.nd.array(x), act_type="prelu", gamma=mx.nd.array([0.5])).asnumpy()
    np.testing.assert_array_equal(leaky, np.where(x > 0, x, x * np.float32(0.5)))
    elu = mx.nd.LeakyReLU(mx.nd.array(x), act_type="elu", slope=2.0).asnumpy()
    np.testing.assert_allclose(elu, np.where(x > 0, x, 2 * np.expm1(x)), rtol=1e-6)
    ints = mx.nd.array([[-3, 4]], dtype="int32")
    assert mx.nd.Activation(ints, act_type="relu").asnumpy().tolist() == [[0, 4]]


@pytest.mark.parametrize("size", [4, 1 << 19])
def test_gradient_of_relu_keeps_nan(size):
    x = mx.nd.array([-1.0, 0.0, 2.0, np.nan] * (size // 4))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.relu(x)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy()[:4], [0, 0, 1, np.nan])
    np.testing.assert_array_equal(x.grad.asnumpy()[-4:], [0, 0, 1, np.nan])
