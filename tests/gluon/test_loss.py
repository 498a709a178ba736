"""Losses against MXNet 1.9.1 and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from mxcore import autograd, nd
from mxcore.gluon import loss, nn
from mxcore.gluon.trainer import Trainer

P = np.array([[0.5, -1.2, 2.0], [1.5, 0.3, -0.7]], "float32")
Y = np.array([[1, 0, 1], [0, 1, 0.5]], "float32")
S = np.array([[2.0], [0.5]], "float32")
POSITIVE = np.array([[2, 1, 0.5]], "float32")
SIGNED = np.sign(Y - 0.4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


# Loss, inputs, what MXNet 1.9.1 returns.
VALUES = {
    "l2": (loss.L2Loss(), (P, Y), [0.4483334, 0.6966667]),
    "l2 weighted": (loss.L2Loss(weight=0.3), (P, Y, S), [0.2690000, 0.1045000]),
    "l1": (loss.L1Loss(), (P, Y, S), [1.8000001, 0.5666667]),
    "bce": (loss.SigmoidBCELoss(), (P, Y), [0.2880958, 1.0029849]),
    "bce positive": (loss.SigmoidBCELoss(), (P, Y, S, POSITIVE), [0.8499336, 0.4555264]),
    "bce probability": (loss.SigmoidBCELoss(from_sigmoid=True), (sigmoid(P), Y), [0.2880958, 1.0029848]),
    "bce probability positive": (
        loss.SigmoidBCELoss(from_sigmoid=True),
        (sigmoid(P), Y, None, POSITIVE),
        [0.4249668, 0.9110526],
    ),
    "ce": (loss.SoftmaxCELoss(), (P, [2, 0]), [0.2341989, 0.3450081]),
    "ce dense": (loss.SoftmaxCELoss(sparse_label=False), (P, softmax(Y), S), [2.7296739, 0.8143079]),
    "ce axis": (loss.SoftmaxCELoss(axis=0), (P, [1, 0, 1]), [1.5932395]),
    "kl": (loss.KLDivLoss(from_logits=False), (P, softmax(Y)), [0.3474797, 0.6084242]),
    "kl logits": (loss.KLDivLoss(weight=2), (np.log(softmax(P)), softmax(Y)), [0.6949594, 1.2168484]),
    "huber": (loss.HuberLoss(rho=0.8), (P, Y), [0.5187500, 0.7354167]),
    "hinge": (loss.HingeLoss(), (P, SIGNED), [0.1666667, 1.6333333]),
    "squared hinge": (loss.SquaredHingeLoss(margin=2), (P, SIGNED), [0.9633333, 7.4766669]),
    "logistic": (loss.LogisticLoss(), (P, SIGNED), [0.2880958, 1.1196516]),
    "logistic binary": (loss.LogisticLoss(label_format="binary"), (P, Y, S), [0.5761917, 0.5014924]),
    "triplet": (loss.TripletLoss(), (P, Y, P * 0.9), [3.6331000, 5.1517000]),
    "poisson": (loss.PoissonNLLLoss(), (P, Y), [2.2028508]),
    "poisson full": (
        loss.PoissonNLLLoss(from_logits=False, compute_full=True),
        (np.exp(P), np.array([[1, 2, 3], [4, 5, 6]])),
        [4.1960797],
    ),
    "cosine": (loss.CosineEmbeddingLoss(margin=0.1), (P, Y, [1, -1]), [[0.2589136], [0.0]]),
    "sdml": (loss.SDMLLoss(), (P, Y), [0.7936506, 0.3810950]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    block, inputs, expected = VALUES[name]
    out = block(*(None if value is None else nd.array(value) for value in inputs))
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", VALUES)
def test_gradient_in_the_first_input(name):
    block, inputs, _ = VALUES[name]
    arrays = [None if value is None else nd.array(np.asarray(value), dtype="float64") for value in inputs]
    x = arrays[0]
    x.attach_grad()
    with autograd.record():
        total = block(*arrays).sum()
    total.backward()
    step = 1e-6
    base = np.asarray(inputs[0], "float64")
    numeric = np.zeros_like(base)
    for index in np.ndindex(base.shape):
        ends = []
        for sign in (1, -1):
            moved = base.copy()
            moved[index] += sign * step
            arrays[0] = nd.array(moved, dtype="float64")
            ends.append(float(block(*arrays).sum().asscalar()))
        numeric[index] = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(x.grad.asnumpy(), numeric, rtol=1e-4, atol=1e-5)


def test_label_in_another_shape():
    out = loss.L1Loss()(nd.array([[1.0], [2.0]]), nd.array([3.0, 5.0]))
    assert out.asnumpy().tolist() == [2, 3]


def test_binary_cross_entropy_equals_softmax_over_two_classes():
    rng = np.random.default_rng(0)
    probability = rng.uniform(0.1, 0.9, (50, 1))
    label = rng.integers(0, 2, (50, 1))
    two = np.log(np.concatenate([1 - probability, probability], 1) + 1e-8)
    one = loss.SigmoidBCELoss(from_sigmoid=True)(nd.array(probability), nd.array(label))
    other = loss.SoftmaxCELoss(from_logits=True)(nd.array(two), nd.array(label))
    np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=1e-5, atol=1e-6)


def test_binary_cross_entropy_of_huge_values_is_finite():
    out = loss.SigmoidBCELoss()(nd.array([1000.0, -1000.0]), nd.array([1.0, 1.0]))
    assert out.asnumpy().tolist() == [0, 1000]


def test_ctc():
    block = loss.CTCLoss()
    labels = nd.array([[1, 0, -1, -1], [2, 1, 1, -1]])
    expected = [18.8282070, 16.5058174]
    np.testing.assert_allclose(block(nd.ones((2, 20, 4)), labels).asnumpy(), expected, rtol=1e-5)
    turned = loss.CTCLoss(layout="TNC", label_layout="TN")
    np.testing.assert_allclose(turned(nd.ones((20, 2, 4)), labels.T).asnumpy(), expected, rtol=1e-5)
    padded = nd.array([[2, 1, 3, 3], [3, 2, 2, 3]])
    out = block(nd.ones((2, 25, 4)), padded, nd.array([20, 20]), nd.array([2, 3]))
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-5)


def test_arguments_are_checked():
    with pytest.raises(AssertionError, match="layout 'NTC' or 'TNC', got 'CTN'"):
        loss.CTCLoss(layout="CTN")
    with pytest.raises(AssertionError, match="layout 'NT' or 'TN', got 'X'"):
        loss.CTCLoss(label_layout="X")
    with pytest.raises(ValueError, match="'signed' or 'binary', got 'other'"):
        loss.LogisticLoss(label_format="other")
    with pytest.raises(AssertionError, match="weight of a loss must be a number"):
        loss.L1Loss(weight="2")(nd.ones((1,)), nd.ones((1,)))
    with pytest.raises(AssertionError, match=r"one shape, got \(2, 3\) and \(2, 4\)"):
        loss.SDMLLoss()(nd.ones((2, 3)), nd.ones((2, 4)))


def test_metric_learning_pulls_pairs_together():
    rng = np.random.default_rng(1)
    left = nd.array(rng.uniform(-1, 1, (5, 10)))
    right = nd.array(left.asnumpy() + rng.uniform(-0.1, 0.1, (5, 10)))
    model = nn.Dense(10, activation="tanh")
    model.initialize("xavier")
    trainer = Trainer(model.collect_params(), "adam", {"learning_rate": 0.1})
    block = loss.SDMLLoss()
    for _ in range(20):
        with autograd.record():
            value = block(model(left), model(right))
        value.backward()
        trainer.step(1)
    assert float(value.mean().asscalar()) < 0.05
