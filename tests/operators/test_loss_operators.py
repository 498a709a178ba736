"""Gradients of output layers, which ignore what arrives from above, and of CTC."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx

X = [[1.0, 2.0], [3.0, 5.0]]
P = (np.exp(X) / np.exp(X).sum(1, keepdims=True)).tolist()
HOT = np.eye(2)


def gradient(fn, data, *rest, head=None, **how):
    x = mx.nd.array(data)
    x.attach_grad()
    with mx.autograd.record():
        y = fn(x, *[mx.nd.array(r) for r in rest], **how)
    y.backward(None if head is None else mx.nd.array(head))
    return x.grad.asnumpy()


@pytest.mark.parametrize(
    "how,want",
    [
        ({}, np.array(P) - HOT),
        ({"grad_scale": 3.0}, 3 * (np.array(P) - HOT)),
        ({"normalization": "batch"}, (np.array(P) - HOT) / 2),
        ({"use_ignore": True, "ignore_label": 1}, (np.array(P) - HOT) * [[1], [0]]),
        ({"use_ignore": True, "ignore_label": 1, "normalization": "valid"}, (np.array(P) - HOT) * [[1], [0]]),
        ({"normalization": "valid"}, (np.array(P) - HOT) / 2),
        ({"smooth_alpha": 0.1}, np.array(P) - [[0.9, 0.1], [0.1, 0.9]]),
    ],
)
def test_softmax_output(how, want):
    got = gradient(mx.nd.SoftmaxOutput, X, [0, 1], head=[[7, 7], [7, 7]], **how)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_softmax_output_takes_the_gradient_from_above_when_asked():
    got = gradient(mx.nd.SoftmaxOutput, X, [0, 1], head=[[1, 2], [3, 4]], out_grad=True)
    np.testing.assert_allclose(got, (np.array(P) - HOT) * [[1, 2], [3, 4]], rtol=1e-5)


@pytest.mark.parametrize("normalization,divisor", [("null", 4), ("batch", 8), ("valid", 5)])
def test_softmax_output_per_position(normalization, divisor):
    r = np.random.default_rng(0)
    x = r.standard_normal((2, 3, 4))
    label = np.array([[0, 1, 2, -1], [2, -1, 1, -1]])
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    hot = np.moveaxis(np.eye(3)[np.maximum(label, 0)], -1, 1)
    want = (p - hot) * (label >= 0)[:, None] / divisor
    got = gradient(mx.nd.SoftmaxOutput, x, label, multi_output=True, use_ignore=True, normalization=normalization)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_softmax_output_with_probabilities_and_with_the_last_axis():
    np.testing.assert_allclose(
        gradient(mx.nd.SoftmaxOutput, X, [[0.5, 0.5], [1, 0]]), np.array(P) - [[0.5, 0.5], [1, 0]], rtol=1e-5
    )
    got = gradient(mx.nd.SoftmaxOutput, [X], [[0, 1]], preserve_shape=True)
    np.testing.assert_allclose(got, [np.array(P) - HOT], rtol=1e-5)


@pytest.mark.parametrize(
    "name,want",
    [
        ("LinearRegressionOutput", (np.array(X) - HOT) / 2),
        ("LogisticRegressionOutput", (1 / (1 + np.exp(-np.array(X))) - HOT) / 2),
        ("MAERegressionOutput", np.sign(np.array(X) - HOT) / 2),
    ],
)
def test_regression(name, want):
    np.testing.assert_allclose(gradient(getattr(mx.nd, name), X, HOT, head=[[9, 9], [9, 9]]), want, rtol=1e-5)
    got = gradient(getattr(mx.nd, name), X, HOT, grad_scale=4.0)
    np.testing.assert_allclose(got, 4 * want, rtol=1e-5)


@pytest.mark.parametrize(
    "how,want",
    [
        ({}, [[-1.0, 2.4, 2.2], [2.6, -1.2, 6.0]]),
        ({"use_linear": True, "regularization_coefficient": 0.5}, [[-0.5, 0.5, 0.5], [0.5, -0.5, 0.5]]),
    ],
)
def test_svm_output(how, want):
    got = gradient(mx.nd.SVMOutput, [[0.5, 0.2, 0.1], [0.3, 0.4, 2]], [0, 1], **how)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_sparse_regularizer_moves_its_average_and_adds_its_slope():
    x, moving = mx.nd.array([[0.5, 0.2], [0.3, 0.4]]), mx.nd.array([0.1, 0.1])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.IdentityAttachKLSparseReg(x, moving, penalty=0.5, momentum=0.8)
    y.backward()
    average = 0.8 * 0.1 + 0.2 * np.array([0.4, 0.3])
    np.testing.assert_allclose(moving.asnumpy(), average, rtol=1e-5)
    slope = 0.5 * (0.9 / (1 - average) - 0.1 / average)
    np.testing.assert_allclose(x.grad.asnumpy(), [1 + slope, 1 + slope], rtol=1e-4)


@pytest.mark.parametrize(
    "label,how",
    [
        ([[1, 2, 0], [3, 3, 0]], {}),
        ([[1, 2, -1], [3, 0, 0]], {"blank_label": "last"}),
        ([[0, 0, 0], [1, 2, 3]], {}),
    ],
)
def test_ctc_gradient(differences, label, how):
    x = np.random.default_rng(1).standard_normal((6, 2, 5))
    label = np.array(label, "float32")
    differences(lambda v: mx.nd.CTCLoss(v, mx.nd.array(label), **how), [x], order=1)


def test_ctc_gradient_with_lengths_is_zero_beyond_them(differences):
    x = np.random.default_rng(1).standard_normal((6, 2, 5))
    label = mx.nd.array([[1, 2, 9], [3, 3, 3]])
    how = {"use_data_lengths": True, "use_label_lengths": True}
    lengths = mx.nd.array([4, 6]), mx.nd.array([2, 3])
    differences(lambda v: mx.nd.CTCLoss(v, label, *lengths, **how), [x], order=1)
    got = gradient(lambda v: mx.nd.CTCLoss(v, label, *lengths, **how), x)
    assert (got[4:, 0] == 0).all() and (got[:4, 0] != 0).any()


def test_ctc_that_no_path_can_read_is_zero():
    got = gradient(mx.nd.CTCLoss, np.random.default_rng(1).standard_normal((4, 1, 5)), [[3, 3, 3]])
    assert (got == 0).all()


def test_ctc_refuses_second_derivatives():
    x = mx.nd.array(np.zeros((3, 1, 3)))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.CTCLoss(x, mx.nd.array([[1]]))
        g = mx.autograd.grad(y, x, create_graph=True)
        z = g * g
    with pytest.raises(mx.MXNetError, match="'CTCLoss' has first derivatives only"):
        z.backward()
