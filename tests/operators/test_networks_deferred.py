"""Small networks of every family on an engine that runs everything later: same values, states and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore import nd
from mxcore.testing.engine_seeded import SeededEngine


def parameters(*shapes):
    values = np.random.default_rng(0)
    arrays = [nd.array(values.standard_normal(s) * 0.3) for s in shapes]
    for a in arrays:
        a.attach_grad()
    return arrays


def convolutional():
    w, b, gamma, beta, v, c = parameters((4, 3, 3, 3), (4,), (4,), (4,), (5, 64), (5,))
    mean, var = nd.zeros((4,)), nd.ones((4,))
    x, label = nd.array(np.random.default_rng(1).standard_normal((2, 3, 8, 8))), nd.array([1, 4])
    for _ in range(2):
        with mx.autograd.record():
            y = nd.Convolution(x, w, b, kernel=(3, 3), pad=(1, 1), num_filter=4)
            y = nd.BatchNorm(y, gamma, beta, mean, var, fix_gamma=False)
            y = nd.Pooling(nd.Activation(y, act_type="relu"), kernel=(2, 2), stride=(2, 2))
            y = nd.Dropout(y, p=0.25)
            y = nd.SoftmaxOutput(nd.FullyConnected(y, v, c, num_hidden=5), label)
        y.backward()
        w -= 0.1 * w.grad
    return [y, mean, var, w] + [p.grad for p in (w, b, gamma, beta, v, c)]


def recurrent():
    w, state, cell, gamma, beta = parameters((4 * 3 * (2 + 3 + 2),), (1, 2, 3), (1, 2, 3), (3,), (3,))
    x, label = nd.array(np.random.default_rng(1).standard_normal((6, 2, 2))), nd.array([[1, 2], [2, 0]])
    with mx.autograd.record():
        y, h, _ = nd.RNN(x, w, state, cell, state_size=3, num_layers=1, mode="lstm", state_outputs=True)
        y = nd.LayerNorm(y, gamma, beta)
        z = nd.CTCLoss(nd.LeakyReLU(y), label) + h.sum()
    z.backward()
    return [z, h] + [p.grad for p in (w, state, cell, gamma, beta)]


def twice():
    x, gamma, beta = parameters((3, 4), (4,), (4,))
    mean, var = nd.zeros((4,)), nd.ones((4,))
    with mx.autograd.record():
        y = nd.log_softmax(nd.BatchNorm(x, gamma, beta, mean, var, fix_gamma=False) * nd.softmax(x))
        d = mx.autograd.grad(y, x, create_graph=True)
        z = (d * d).sum()
    z.backward()
    return [d, x.grad, gamma.grad]


@pytest.mark.parametrize("network", [convolutional, recurrent, twice])
@pytest.mark.parametrize("seed", range(3))
def test_networks_are_the_same(network, seed):
    mx.random.seed(3)
    want = [v.asnumpy() for v in network()]
    mx.random.seed(3)
    with mx.use(engine=SeededEngine(seed)):
        got = [v.asnumpy() for v in network()]
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
