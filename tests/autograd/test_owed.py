"""Gradients handed over to workers: the same bits, and errors that come out where a gradient is read."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore import autograd, gluon, nd
from mxcore.autograd import owed
from mxcore.autograd.backward import _raw
from mxcore.dispatch import runtime
from mxcore.oplib.numpy_library import NumpyLibrary

threaded = pytest.importorskip("mxcore_engine_threaded.engine")


@pytest.fixture
def engine():
    engine = threaded.ThreadedEnginePerDevice(workers=2)
    with mx.use(engine=engine):
        yield engine
    engine.shutdown()


@pytest.fixture
def always(monkeypatch):
    """Hand everything over that can be, however small."""
    monkeypatch.setattr(owed, "WORTH_NS", 1)
    monkeypatch.setattr(threaded, "INLINE_NS", 1)
    monkeypatch.setattr(owed.Choice, "take", lambda self: True)


def dense_net(seed):
    np.random.seed(seed)
    mx.random.seed(seed)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.Dense(16, activation="tanh"), gluon.nn.Dense(4))
    net.initialize(mx.init.Xavier())
    return net


def train(steps, net, tied=False):
    rng = np.random.default_rng(0)
    x, y = nd.array(rng.standard_normal((8, 6))), nd.array(rng.integers(0, 4, 8))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(steps):
        with autograd.record():
            out = net(x)
            total = loss(out + net(x * 0.5) if tied else out, y)
        total.backward()
        trainer.step(8)
    return [p.data().asnumpy().tobytes() for p in net.collect_params().values()]


@pytest.mark.parametrize("tied", [False, True], ids=["once", "twice"])
def test_weights_are_bit_equal_however_gradients_are_computed(engine, always, tied):
    handed = train(45, dense_net(1), tied)
    text = engine.explain()
    assert "only wanted at the end of backward" in text and "gradients of parameters handed over" in text
    with mx.use(engine="naive"):
        assert train(45, dense_net(1), tied) == handed


def test_parameters_stay_unknown_to_the_engine(engine, always):
    net = dense_net(2)
    train(45, net)
    assert "only wanted at the end of backward" in engine.explain()
    for parameter in net.collect_params().values():
        cell, grad = parameter.data()._cell, parameter.grad()._cell
        assert (cell is None or cell.var is None) and (grad is None or grad.var is None)


def failing(monkeypatch, name, when):
    """Make a kernel of the NumPy library raise while ``when[0]``."""
    original = NumpyLibrary.kernel

    def kernel(self, wanted):
        found = original(self, wanted)
        if wanted != name:
            return found

        def maybe(*arrays, **attributes):
            if when[0]:
                raise FloatingPointError("planted")
            return found(*arrays, **attributes)

        return maybe

    monkeypatch.setattr(NumpyLibrary, "kernel", kernel)


@pytest.mark.parametrize("hand", [False, True], ids=["kept", "handed over"])
def test_an_error_of_a_rule_is_raised_where_its_gradient_is_read(engine, monkeypatch, hand):
    when = [False]
    failing(monkeypatch, "_backward_FullyConnected_weight", when)
    monkeypatch.setattr(owed, "WORTH_NS", 1 if hand else 10**12)
    monkeypatch.setattr(threaded, "INLINE_NS", 1)
    monkeypatch.setattr(owed.Choice, "take", lambda self: hand)
    _raw.clear()  # kernels resolved before
    try:
        net = dense_net(3)
        train(20, net)
        when[0] = True
        x = nd.ones((8, 6))
        with autograd.record():
            total = net(x).sum()
        total.backward()  # raises nothing
        when[0] = False
        weights = [p for name, p in net.collect_params().items() if name.endswith("weight")]
        biases = [p for name, p in net.collect_params().items() if name.endswith("bias")]
        for parameter in weights:
            with pytest.raises(mx.MXNetError, match="backward of operator 'FullyConnected' failed .*planted"):
                parameter.grad().asnumpy()
        with autograd.record():
            total = net(x).sum()
        total.backward()  # a full overwrite heals
        assert all(np.isfinite(p.grad().asnumpy()).all() for p in [*weights, *biases])
        while True:
            try:
                mx.nd.waitall()
                break
            except mx.MXNetError:
                pass
    finally:
        _raw.clear()


def test_a_choice_takes_what_was_faster_and_tries_again():
    choice = owed.Choice()
    turns = []
    for _ in range(14):
        turns.append(choice.take())
        choice.record(turns[-1], 10 if turns[-1] else 20)
    assert turns.count(True) == turns.count(False) == 7
    later = [choice.take() for _ in range(96)]
    assert later.count(False) == 2, "the slower way is tried again, seldom"
    for _ in range(7):
        choice.record(True, 40)
    assert not choice.take()


def test_a_users_function_raises_at_the_call(engine):
    class Bad(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, dy):
            raise ZeroDivisionError("mine")

    x = nd.ones(3)
    x.attach_grad()
    with autograd.record():
        y = Bad()(x)
    with pytest.raises(mx.MXNetError, match="mine"):
        y.backward()


def test_engine_swaps_in_the_middle_of_a_graph(engine, always):
    net = dense_net(4)
    train(15, net)
    x = nd.ones((8, 6))
    with autograd.record():
        total = net(x).sum()
    with mx.use(engine="naive"):
        total.backward()
        expected = [p.grad().asnumpy() for p in net.collect_params().values()]
    with autograd.record():
        total = net(x).sum()
    total.backward()
    for parameter, value in zip(net.collect_params().values(), expected):
        assert parameter.grad().asnumpy().tobytes() == value.tobytes()
    assert runtime.current().engine is engine
