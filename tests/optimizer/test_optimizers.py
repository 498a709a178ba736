"""Optimizers: four steps of each against MXNet 1.9.1, and against formulas in float64."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import mxcore as mx
from mxcore import lr_scheduler

# Weights after each of four updates by real MXNet 1.9.1, from the weights and gradients below.
REFERENCE = json.loads((Path(__file__).parent / "mxnet_1_9_1.json").read_text())


def start(dtype="float32"):
    return mx.nd.array(np.linspace(-1, 1, 6).reshape(2, 3), dtype=dtype)


def gradient(t, dtype="float32"):
    return mx.nd.array(np.cos(np.arange(6) * 1.7 + t).reshape(2, 3), dtype=dtype)


def label(case):
    return "-".join([case["name"], *(f"{k}={v}" for k, v in case["args"].items())])


@pytest.mark.parametrize("case", REFERENCE, ids=label)
def test_steps_equal_mxnet(case):
    updater = mx.optimizer.get_updater(mx.optimizer.create(case["name"], **case["args"]))
    weight = start(case["dtype"])
    tolerance = {"float16": 2e-3, "float32": 2e-6}[case["dtype"]]
    if case["name"] == "nag" and case["args"].get("wd"):
        # In place, MXNet's kernel decays by the weight that it has just written.
        tolerance = 1e-4
    for t, expected in enumerate(case["weights"]):
        updater([0], [gradient(t, case["dtype"])], [weight])
        np.testing.assert_allclose(weight.asnumpy().ravel(), expected, rtol=tolerance, atol=tolerance)


def run_formula(step, state, steps=5):
    w = np.linspace(-1, 1, 6)
    for t in range(steps):
        w = step(w, np.cos(np.arange(6) * 1.7 + t), state, t + 1)
    return w


def sgd(w, g, s, t):
    s["m"] = 0.9 * s.get("m", 0) - 0.1 * (np.clip(0.5 * g, -0.3, 0.3) + 0.01 * w)
    return w + s["m"]


def adam(w, g, s, t):
    g = np.clip(0.5 * g + 0.01 * w, -0.3, 0.3)
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    return w - 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * s["m"] / (np.sqrt(s["v"]) + 1e-8)


def rmsprop(w, g, s, t):
    g = np.clip(0.5 * g + 0.01 * w, -0.3, 0.3)
    s["n"] = 0.9 * s.get("n", 0) + 0.1 * g * g
    return w - 0.1 * g / np.sqrt(s["n"] + 1e-8)


def adagrad(w, g, s, t):
    g = np.clip(0.5 * g, -0.3, 0.3)
    s["h"] = s.get("h", 0) + g * g
    return w - 0.1 * (g / np.sqrt(s["h"] + 1e-7) + 0.01 * w)


@pytest.mark.parametrize("step, args", [(sgd, {"momentum": 0.9}), (adam, {}), (rmsprop, {}), (adagrad, {})])
def test_steps_equal_float64_formula(step, args):
    # Rounding the coefficients to float32, as MXNet's operators do, is within the tolerance.
    optimizer = mx.optimizer.create(
        step.__name__, learning_rate=0.1, wd=0.01, clip_gradient=0.3, rescale_grad=0.5, **args
    )
    updater = mx.optimizer.get_updater(optimizer)
    weight = start("float64")
    for t in range(5):
        updater(0, gradient(t, "float64"), weight)
    np.testing.assert_allclose(weight.asnumpy().ravel(), run_formula(step, {}), rtol=2e-5, atol=5e-6)


def test_sgld_adds_noise_of_variance_lr():
    optimizer = mx.optimizer.create("sgld", learning_rate=0.04)
    weight = mx.nd.zeros((200, 200))
    optimizer.update(0, weight, mx.nd.ones((200, 200)), None)
    values = weight.asnumpy()
    assert abs(values.mean() + 0.02) < 0.01
    assert abs(values.std() - 0.2) < 0.01


def test_lists_and_single_calls_give_the_same():
    for name in ("sgd", "lamb", "adam"):
        one, many = (mx.optimizer.get_updater(mx.optimizer.create(name, learning_rate=0.1)) for _ in range(2))
        alone, together = [start() * k for k in range(1, 7)], [start() * k for k in range(1, 7)]
        for t in range(2):
            for i, w in enumerate(alone):
                one(i, gradient(t + i), w)
            many(list(range(6)), [gradient(t + i) for i in range(6)], together)
        for a, b in zip(alone, together):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_multipliers_by_param_then_index_then_name():
    class Param:
        lr_mult, wd_mult = 3.0, 4.0

    optimizer = mx.optimizer.SGD(
        learning_rate=1.0,
        wd=1.0,
        param_idx2name={0: "a_weight", 1: "b_bias", 2: "c_gamma", 3: "d_weight"},
        param_dict={3: Param()},
    )
    assert optimizer.wd_mult == {"b_bias": 0.0}
    optimizer.set_lr_mult({"a_weight": 0.5, 1: 0.25})
    optimizer.set_wd_mult({"a_weight": 2.0})
    assert optimizer._get_lrs([0, 1, 2, 3, "other"]) == [0.5, 0.25, 1.0, 3.0, 1.0]
    assert optimizer._get_wds([0, 1, 2, 3, "other"]) == [2.0, 0.0, 1.0, 4.0, 1.0]


def test_counts_are_kept_per_device_and_begin_where_told():
    optimizer = mx.optimizer.Optimizer(begin_num_update=5)
    optimizer._update_count(0)
    optimizer._update_count([0, 1])
    assert optimizer._index_update_count == {0: 7, 1: 6}
    assert optimizer.num_update == 7
    optimizer._set_current_context(1)
    optimizer._update_count(0)
    assert optimizer._index_update_count == {0: 6}
    optimizer._set_current_context(0)
    assert optimizer._index_update_count == {0: 7, 1: 6}


def test_learning_rate_and_schedule(capsys):
    optimizer = mx.optimizer.SGD(learning_rate=0.1)
    optimizer.set_learning_rate(0.2)
    assert optimizer.learning_rate == 0.2
    assert mx.optimizer.SGD().learning_rate == 0.01
    schedule = lr_scheduler.FactorScheduler(step=1, factor=0.5)
    scheduled = mx.optimizer.SGD(lr_scheduler=schedule, learning_rate=0.4)
    assert scheduled.learning_rate == 0.4
    assert "replaces base_lr" in capsys.readouterr().out
    weight = start()
    for t in range(3):
        scheduled.update(0, weight, gradient(t), None)
    assert scheduled.learning_rate == 0.1
    with pytest.raises(UserWarning, match="LRScheduler of this optimizer decides"):
        scheduled.set_learning_rate(1)


def test_states_survive_a_file_and_go_on_alike():
    first = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.1, param_dict={}))
    weight = start()
    for t in range(2):
        first(0, gradient(t), weight)
    second = mx.optimizer.get_updater(mx.optimizer.SGD())
    second.set_states(first.get_states(dump_optimizer=True))
    assert isinstance(second.optimizer, mx.optimizer.Adam)
    copy = weight.copy()
    first(0, gradient(2), weight)
    second(0, gradient(2), copy)
    np.testing.assert_array_equal(weight.asnumpy(), copy.asnumpy())


def test_pickled_optimizer_leaves_parameters_behind():
    optimizer = mx.optimizer.SGD(momentum=0.5, param_dict={0: lambda: None})
    copy = pickle.loads(pickle.dumps(optimizer))
    assert copy.param_dict == {} and copy.momentum == 0.5


def test_float16_without_multi_precision_warns():
    with pytest.warns(UserWarning, match="multi_precision=True option of the SGD optimizer"):
        mx.optimizer.SGD(momentum=0.9).create_state_multi_precision(0, start("float16"))


def test_multi_precision_state_layout():
    momentum, master = mx.optimizer.SGD(momentum=0.9, multi_precision=True).create_state_multi_precision(
        0, start("float16")
    )
    assert np.dtype(momentum.dtype) == np.dtype(master.dtype) == np.float32
    master, (mean, var) = mx.optimizer.Adam(multi_precision=True).create_state_multi_precision(0, start("float16"))
    assert {np.dtype(a.dtype) for a in (master, mean, var)} == {np.dtype(np.float32)}


def test_unknown_optimizer_names_the_known():
    with pytest.raises(ValueError, match=r"Cannot find optimizer sdg: registered are .*sgd.*mx\.optimizer\.register"):
        mx.optimizer.create("sdg")


def test_register_own_and_override_warns():
    try:

        @mx.optimizer.register
        class OnlyForThisTest(mx.optimizer.Optimizer):
            def update(self, index, weight, grad, state):
                weight[:] = 7

        weight = start()
        mx.optimizer.get_updater(mx.optimizer.create("onlyforthistest"))(0, gradient(0), weight)
        assert (weight.asnumpy() == 7).all()
        with pytest.warns(UserWarning, match="overriding existing optimizer"):
            mx.optimizer.register(OnlyForThisTest)
    finally:
        mx.optimizer.Optimizer.opt_registry.pop("onlyforthistest", None)


def test_adadelta_leaves_the_gradient_alone():
    gradients = gradient(0)
    mx.optimizer.get_updater(mx.optimizer.AdaDelta(rescale_grad=0.5))(0, gradients, start())
    np.testing.assert_array_equal(gradients.asnumpy(), gradient(0).asnumpy())


def test_lbsgd_sums_gradients_of_a_macro_batch():
    optimizer = mx.optimizer.LBSGD(learning_rate=0.1, batch_scale=2, warmup_epochs=0)
    weight, buffer = start(), gradient(0)
    before = weight.asnumpy()
    optimizer.update(0, weight, buffer, None)
    np.testing.assert_array_equal(weight.asnumpy(), before)
    buffer[:] = gradient(1)  # backward writes into the same buffer
    optimizer.update(0, weight, buffer, None)
    mean = (gradient(0).asnumpy() + gradient(1).asnumpy()) / 2
    np.testing.assert_allclose(weight.asnumpy(), before - 0.1 * 2 * mean, rtol=1e-5)


def test_group_adagrad_refuses_weight_decay_and_vectors():
    optimizer = mx.optimizer.contrib.GroupAdaGrad(wd=0.1)
    with pytest.raises(AssertionError, match="Weight decay is not supported for GroupAdaGrad"):
        optimizer.update(0, start(), gradient(0), optimizer.create_state(0, start()))
    with pytest.raises(AssertionError, match="must be a matrix"):
        optimizer.create_state(0, mx.nd.ones((3,)))


def test_all_of_mxnets_names_are_there():
    expected = [
        "AdaDelta",
        "AdaGrad",
        "Adam",
        "Adamax",
        "DCASGD",
        "FTML",
        "Ftrl",
        "LARS",
        "LBSGD",
        "NAG",
        "NDabs",
        "Nadam",
        "Optimizer",
        "RMSProp",
        "SGD",
        "SGLD",
        "Signum",
        "LAMB",
        "Test",
        "Updater",
        "ccSGD",
        "create",
        "get_updater",
        "register",
        "contrib",
    ]
    assert set(expected) == set(mx.optimizer.__all__)
    assert all(hasattr(mx.optimizer, name) for name in expected)


def test_no_warning_in_a_plain_step():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mx.optimizer.get_updater(mx.optimizer.SGD(momentum=0.9))(0, gradient(0), start())
