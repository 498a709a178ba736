"""The Trainer: steps, several contexts, stores, states, bare arrays."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore import autograd, gluon, nd
from mxcore.gluon import Parameter, Trainer, nn

TWO = [mx.cpu(0), mx.cpu(1)]


def parameter(contexts, name="x", init="zeros", **kwargs):
    p = Parameter(name, shape=(3,), **kwargs)
    p.initialize(ctx=contexts, init=init)
    return p


def backward(p, factor=1.0):
    """Gradient ``factor`` on every context."""
    with autograd.record():
        heads = [w * factor for w in p.list_data()]
    for y in heads:
        y.backward()


def values(p, ctx=None):
    return p.data(ctx).asnumpy().tolist()


# -- one context ---------------------------------------------------------------------------------------------------


def test_step_divides_by_the_batch_size():
    p = parameter(mx.cpu())
    trainer = Trainer([p], "sgd", {"learning_rate": 1.0})
    backward(p, 4)
    trainer.step(2)
    assert values(p) == [-2, -2, -2]
    assert trainer.optimizer.rescale_grad == 0.5
    assert trainer._kvstore is None and trainer._update_on_kvstore is None


def test_gradient_must_be_new():
    p = parameter(mx.cpu())
    trainer = Trainer([p], "sgd", {"learning_rate": 1.0})
    with pytest.raises(UserWarning, match=r"gradient of Parameter 'x' on cpu\(0\) was not renewed by backward"):
        trainer.step(1)
    backward(p)
    trainer.step(1)
    with pytest.raises(UserWarning, match="ignore_stale_grad=True"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    assert values(p) == [-1, -1, -1]  # skipped, not updated with the old gradient


def test_stale_gradients_are_skipped_one_by_one():
    used, unused = parameter(mx.cpu(), "a"), parameter(mx.cpu(), "b")
    trainer = Trainer([used, unused], "sgd", {"learning_rate": 1.0})
    backward(used)
    with pytest.raises(UserWarning, match="Parameter 'b'"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    assert values(used) == [-1, -1, -1] and values(unused) == [0, 0, 0]


def test_parameters_without_gradient_are_left_alone():
    p, frozen = parameter(mx.cpu(), "p"), parameter(mx.cpu(), "f", grad_req="null")
    trainer = Trainer([p, frozen], "sgd", {"learning_rate": 1.0})
    backward(p)
    trainer.step(1)
    assert values(frozen) == [0, 0, 0]


def test_multipliers_take_effect_at_once():
    p = parameter(mx.cpu())
    trainer = Trainer([p], "sgd", {"learning_rate": 1.0})
    p.lr_mult = 0.5
    backward(p)
    trainer.step(1)
    assert values(p) == [-0.5, -0.5, -0.5]


def test_learning_rate():
    p = parameter(mx.cpu())
    trainer = Trainer([p], "sgd", {"learning_rate": 0.1})
    assert trainer.learning_rate == 0.1
    trainer.set_learning_rate(0.5)
    assert trainer.optimizer.learning_rate == 0.5
    schedule = mx.lr_scheduler.FactorScheduler(2, factor=0.1, base_lr=1.0)
    trainer = Trainer([p], "sgd", {"learning_rate": 1.0, "lr_scheduler": schedule})
    expected = 1.0
    for i in range(6):
        backward(p)
        trainer.step(1)
        if i % 2 == 0:
            assert trainer.learning_rate == pytest.approx(expected)
            expected *= 0.1


def test_optimizer_instance():
    p = parameter(mx.cpu())
    optimizer = mx.optimizer.SGD(learning_rate=1.0, rescale_grad=0.5)
    trainer = Trainer([p], optimizer)
    assert trainer.optimizer is optimizer and optimizer.param_dict == {0: p}
    backward(p)
    trainer.step(1)
    assert values(p) == [-0.5, -0.5, -0.5]  # its own rescale_grad counts
    with pytest.raises(AssertionError, match="optimizer_params were given together with an Optimizer"):
        Trainer([p], optimizer, {"learning_rate": 1.0})


def test_deferred_parameters_wait_for_the_first_pass():
    net = nn.Dense(2, use_bias=False)
    net.initialize("zeros")
    trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    with pytest.raises(gluon.DeferredInitializationError):
        trainer.step(1)
    with autograd.record():
        y = net(nd.ones((1, 3)))
    y.backward()
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[-1, -1, -1]] * 2


def test_dictionaries_are_taken_in_the_order_of_names():
    net = nn.Sequential()
    for name in ("zeros_", "ones_"):
        net.add(nn.Dense(1, in_units=1, use_bias=False, prefix=name))
    net.initialize()
    trainer = Trainer(net.collect_params(), "sgd")
    assert [p.name for p in trainer._params] == ["ones_weight", "zeros_weight"]
    assert [p.name for p in Trainer(dict(net.collect_params().items()), "sgd")._params] == [
        "ones_weight",
        "zeros_weight",
    ]


def test_what_cannot_be_trained():
    with pytest.raises(ValueError, match="takes a list or dict of Parameters or NDArrays, got <class 'int'>"):
        Trainer(3, "sgd")
    with pytest.raises(ValueError, match="got a list with a <class 'str'>"):
        Trainer(["w"], "sgd")
    with pytest.raises(RuntimeError, match="'x' has not been initialized"):
        Trainer([Parameter("x", shape=(1,))], "sgd")
    with pytest.raises(AssertionError, match=r"'b' is on \[cpu\(1\)\] and those before it on \[cpu\(0\)\]"):
        Trainer([parameter(mx.cpu(0), "a"), parameter(mx.cpu(1), "b")], "sgd")
    with pytest.raises(mx.MXNetError, match="no kvstore 'dist_sync'"):
        p = parameter(mx.cpu())
        trainer = Trainer([p], "sgd", kvstore="dist_sync")
        backward(p)
        trainer.step(1)


# -- bare arrays -----------------------------------------------------------------------------------------------------


def test_linear_regression_on_bare_arrays():
    mx.random.seed(0)
    w = nd.random_normal(shape=(1))
    b = nd.zeros(shape=(1))
    w.attach_grad()
    b.attach_grad()
    trainer = gluon.Trainer([w, b], "sgd", {"learning_rate": 0.01})
    rng = np.random.default_rng(0)
    for _ in range(400):
        x = nd.array(rng.uniform(-2, 2, (4,)))
        with autograd.record():
            loss = ((x * w + b - (3 * x + 1)) ** 2).mean()
        loss.backward()
        trainer.step(batch_size=1)
    assert w.asscalar() == pytest.approx(3, abs=0.05) and b.asscalar() == pytest.approx(1, abs=0.05)


def test_bare_array_with_a_new_gradient():
    w = nd.zeros((2,))
    w.attach_grad()
    trainer = Trainer([w], "sgd", {"learning_rate": 1.0})
    w.attach_grad()  # another gradient array
    with autograd.record():
        y = (w * 2).sum()
    y.backward()
    trainer.step(1)
    assert w.asnumpy().tolist() == [-2, -2]


def test_bare_array_without_gradient():
    with pytest.raises(ValueError, match="array 1 given to the Trainer has no gradient"):
        w = nd.zeros((2,))
        w.attach_grad()
        Trainer([w, nd.zeros((2,))], "sgd")


# -- several contexts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("update_on_kvstore", [None, False])
def test_gradients_are_added_up_over_contexts(update_on_kvstore):
    p = parameter(TWO)
    trainer = Trainer([p], "sgd", {"learning_rate": 1.0, "momentum": 0.5}, update_on_kvstore=update_on_kvstore)
    backward(p)
    trainer.step(1)
    assert trainer._update_on_kvstore is (update_on_kvstore is None)
    assert values(p, mx.cpu(0)) == values(p, mx.cpu(1)) == [-2, -2, -2]
    p.lr_mult = 0.5
    backward(p)
    trainer.step(1)
    # momentum: 0.5 * -2 - 0.5 * 2
    assert values(p, mx.cpu(0)) == values(p, mx.cpu(1)) == [-4, -4, -4]


def test_environment_decides_where_updates_run(monkeypatch):
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", "0")
    p = parameter(TWO)
    trainer = Trainer([p], "sgd")
    backward(p)
    trainer.step(1)
    assert trainer._update_on_kvstore is False


def test_reducing_and_updating_apart():
    p = parameter(TWO)
    trainer = Trainer([p], "sgd", {"learning_rate": 1.0}, update_on_kvstore=False)
    with autograd.record():
        heads = [w * (i + 1) for i, w in enumerate(p.list_data())]
    for y in heads:
        y.backward()
    trainer.allreduce_grads()
    assert [g.asnumpy().tolist() for g in p.list_grad()] == [[3, 3, 3]] * 2
    trainer.update(1)
    assert values(p, mx.cpu(1)) == [-3, -3, -3]
    on_store = Trainer([p], "sgd", update_on_kvstore=True)
    for call in (on_store.allreduce_grads, lambda: on_store.update(1)):
        with pytest.raises(AssertionError, match="while parameters are updated on the kvstore"):
            call()


def test_own_store():
    class Store:
        type = "own"

        def __init__(self):
            self.calls = []

        def is_capable(self, capability):
            return False

        def broadcast(self, key, value, out, priority=0):
            self.calls.append(("broadcast", key))

        def pushpull(self, key, value, out=None, priority=0):
            self.calls.append(("pushpull", key, len(value), out))
            for array in value:
                array[:] = 7

    store = Store()
    p = parameter(TWO)
    trainer = Trainer([p], "sgd", {"learning_rate": 1.0}, kvstore=store)
    backward(p)
    trainer.step(1)
    assert store.calls == [("broadcast", 0), ("pushpull", 0, 2, None)]
    assert values(p, mx.cpu(1)) == [-7, -7, -7]
    with pytest.raises(ValueError, match=r"cannot run an optimizer. Set update_on_kvstore=False"):
        Trainer([p], "sgd", kvstore=store, update_on_kvstore=True)._init_kvstore()
    with pytest.raises(mx.MXNetError, match="kvstore 'own' does not compress gradients"):
        Trainer([p], "sgd", kvstore=store, compression_params={"type": "2bit"})._init_kvstore()


@pytest.mark.parametrize("kind", ["local", "device"])
def test_new_values_reset_the_store(kind, tmp_path):
    params = gluon.ParameterDict()
    p = params.get("x", shape=(3,))
    params.initialize("zeros", ctx=TWO)
    file = str(tmp_path / "x.params")
    params.save(file)
    trainer = Trainer(params, "sgd", {"learning_rate": 0.1}, kvstore=kind)
    backward(p)
    trainer.step(1)
    assert trainer._kvstore.type == kind
    params.load(file)
    assert trainer._kvstore is None and not trainer._kv_initialized
    backward(p)
    trainer.step(1)
    np.testing.assert_allclose(values(p, mx.cpu(0)), [-0.2] * 3, rtol=1e-6)


# -- states ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contexts", [[mx.cpu(0)], TWO])
def test_states_continue_training(tmp_path, contexts):
    file = str(tmp_path / "x.states")

    def train(trainer, p, steps):
        for _ in range(steps):
            backward(p)
            trainer.step(1)

    straight, broken = parameter(contexts), parameter(contexts)
    options = {"learning_rate": 0.1, "momentum": 0.9}
    train(Trainer([straight], "sgd", options), straight, 5)
    first = Trainer([broken], "sgd", options)
    train(first, broken, 3)
    first.save_states(file)
    second = Trainer([broken], "sgd", {"learning_rate": 7.0})
    second.load_states(file)
    assert second.learning_rate == 0.1 and second.optimizer.param_dict == {0: broken}
    train(second, broken, 2)
    np.testing.assert_allclose(values(broken, contexts[-1]), values(straight, contexts[-1]), rtol=1e-6)
    broken.lr_mult = 2.0
    assert second.optimizer._get_lr(0) == pytest.approx(0.2)


def test_states_need_values(tmp_path):
    net = nn.Dense(2)
    net.initialize(ctx=TWO)
    trainer = Trainer(net.collect_params(), "sgd")
    with pytest.raises(AssertionError, match=r"while Parameters have no value yet: .*_weight"):
        trainer.save_states(str(tmp_path / "x.states"))
