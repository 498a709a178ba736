"""Initializers: values, dispatch by name, text form, errors."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import pytest

import mxcore as mx
from mxcore import initializer
from mxcore.initializer import InitDesc


def filled(init, shape, name="fc_weight", dtype="float32"):
    array = mx.nd.full(shape, 9, dtype=dtype)
    init(InitDesc(name), array)
    return array.asnumpy()


@pytest.mark.parametrize(
    "name, value",
    [("x_weight", 3), ("x_bias", 0), ("x_gamma", 1), ("x_beta", 0), ("x_min", 0), ("x_max", 1), ("bias_quantize", 0)],
)
def test_end_of_the_name_decides(name, value):
    assert (filled(initializer.Constant(3), (2, 2), name) == value).all()


def test_quantized_weights_are_random_bytes():
    values = filled(initializer.Zero(), (40, 40), "weight_quantize", dtype="int8")
    assert values.min() >= -127 and values.max() <= 127 and len(np.unique(values)) > 100


def test_unknown_name_is_explained():
    with pytest.raises(ValueError, match=r"Unknown initialization pattern for x_state: .*Parameter\(init="):
        filled(initializer.Zero(), (2,), "x_state")


def test_own_initializer_of_a_parameter_comes_first():
    array = mx.nd.zeros((3,))
    initializer.Zero()(InitDesc("x_bias", {"__init__": initializer.Constant(2.0).dumps()}), array)
    assert (array.asnumpy() == 2).all()


def test_desc_is_a_string_and_learns_the_global_initializer():
    desc = InitDesc("a_weight", {"k": "v"})
    assert desc == "a_weight" and desc.attrs == {"k": "v"} and desc.global_init is None
    init = initializer.One()
    init(desc, mx.nd.zeros((1,)))
    assert desc.global_init is init


@pytest.mark.parametrize(
    "init, text",
    [
        (initializer.Zero(), '["zero", {}]'),
        (initializer.Constant(1), '["constant", {"value": 1}]'),
        (initializer.Constant(np.ones((1, 2))), '["constant", {"value": [[1.0, 1.0]]}]'),
        (initializer.Uniform(), '["uniform", {"scale": 0.07}]'),
        (initializer.Normal(0.5), '["normal", {"sigma": 0.5}]'),
        (initializer.Orthogonal(), '["orthogonal", {"scale": 1.414, "rand_type": "uniform"}]'),
        (initializer.Xavier(), '["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 3}]'),
        (initializer.MSRAPrelu(), '["msraprelu", {"factor_type": "avg", "slope": 0.25}]'),
        (initializer.Bilinear(), '["bilinear", {}]'),
        (initializer.LSTMBias(2.0), '["lstmbias", {"forget_bias": 2.0}]'),
    ],
)
def test_text_form_is_mxnets_and_makes_the_same(init, text):
    assert init.dumps() == text
    assert initializer.create(text) == init
    assert initializer.create(init) is init


def test_constant_array_survives_its_text_form():
    value = mx.nd.array([[1, 2], [3, 4]])
    again = initializer.create(initializer.Constant(value).dumps())
    np.testing.assert_array_equal(filled(again, (2, 2)), value.asnumpy())


def test_create_by_alias_and_arguments():
    assert isinstance(initializer.create("zeros"), initializer.Zero)
    assert isinstance(initializer.create("ones"), initializer.One)
    assert initializer.create("normal", sigma=3).sigma == 3
    with pytest.raises(AssertionError, match=r"xaviar is not registered as a initializer; known: .*xavier"):
        initializer.create("xaviar")


@pytest.mark.parametrize("factor, fan", [("in", 3 * 4), ("out", 50 * 4), ("avg", (3 * 4 + 50 * 4) / 2)])
def test_xavier_bounds_and_variance(factor, fan):
    mx.random.seed(1)
    shape = (50, 3, 2, 2)
    bound = math.sqrt(3 / fan)
    values = filled(initializer.Xavier(factor_type=factor), shape)
    assert np.abs(values).max() <= bound
    assert values.var() == pytest.approx(bound**2 / 3, rel=0.15)
    values = filled(initializer.Xavier("gaussian", factor, 2), shape)
    assert values.std() == pytest.approx(math.sqrt(2 / fan), rel=0.15)


def test_msra_prelu_is_a_gaussian_xavier():
    mx.random.seed(1)
    values = filled(initializer.MSRAPrelu("in", 0.5), (60, 40))
    assert values.std() == pytest.approx(math.sqrt(2 / 1.25 / 40), rel=0.1)


def test_xavier_refuses_vectors_and_unknown_types():
    with pytest.raises(
        ValueError, match=r"cannot be applied to vector fc_weight of shape \(3,\). It requires at least 2D"
    ):
        filled(initializer.Xavier(), (3,))
    with pytest.raises(ValueError, match="Incorrect factor type 'both'"):
        filled(initializer.Xavier(factor_type="both"), (3, 3))
    with pytest.raises(ValueError, match="Unknown random type 'cauchy'"):
        filled(initializer.Xavier(rnd_type="cauchy"), (3, 3))


@pytest.mark.parametrize("rand_type", ["uniform", "normal"])
@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (4, 3, 3)])
def test_orthogonal_rows_or_columns(rand_type, shape):
    matrix = filled(initializer.Orthogonal(2.0, rand_type), shape).reshape(shape[0], -1).astype(np.float64)
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)


def test_uniform_and_normal_moments():
    mx.random.seed(3)
    values = filled(initializer.Uniform(0.5), (100, 100))
    assert np.abs(values).max() <= 0.5 and values.std() == pytest.approx(0.5 / math.sqrt(3), rel=0.05)
    values = filled(initializer.Normal(2), (100, 100))
    assert abs(values.mean()) < 0.1 and values.std() == pytest.approx(2, rel=0.05)


def test_bilinear_kernel():
    line = np.array([1, 3, 3, 1]) / 4
    np.testing.assert_array_equal(
        filled(initializer.Bilinear(), (2, 1, 4, 4)), np.tile(np.outer(line, line), (2, 1, 1, 1))
    )
    line3 = np.array([1, 3, 3]) / 4  # MXNet centres odd kernels so
    np.testing.assert_array_equal(filled(initializer.Bilinear(), (1, 1, 3, 3))[0, 0], np.outer(line3, line3))


def test_lstm_bias_opens_the_forget_gate():
    array = mx.nd.ones((8,))
    initializer.create("lstmbias", forget_bias=2.5)._init_weight("x", array)
    assert array.asnumpy().tolist() == [0, 0, 2.5, 2.5, 0, 0, 0, 0]


@pytest.mark.parametrize("mode, gates", [("rnn_tanh", 1), ("gru", 3), ("lstm", 4)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_fused_rnn_fills_every_gate(mode, gates, bidirectional):
    hidden, layers, width = 3, 2, 5
    ways = 1 + bidirectional
    weights = gates * hidden * ways * (width + hidden) + gates * hidden * ways * (hidden * ways + hidden)
    biases = layers * ways * 2 * gates * hidden
    array = mx.nd.full((weights + biases,), 9)
    initializer.FusedRNN(initializer.One(), hidden, layers, mode, bidirectional, forget_bias=7)._init_weight("p", array)
    values = array.asnumpy()
    assert (values[:weights] == 1).all()
    per_gate = values[weights:].reshape(-1, gates, hidden)
    for gate in range(gates):
        assert (per_gate[:, gate] == (7 if mode == "lstm" and gate == 1 else 0)).all()


def test_fused_rnn_refuses_a_wrong_size_and_survives_its_text_form():
    init = initializer.FusedRNN(initializer.Normal(0.5), 3, 1, "lstm")
    with pytest.raises(ValueError, match="a lstm of 1 layers of 3 units cannot have 100 parameters"):
        init._init_weight("p", mx.nd.zeros((100,)))
    assert initializer.create(init.dumps()) == init


def test_mixed_takes_the_first_match():
    init = initializer.Mixed(["bias", ".*weight"], [initializer.Constant(1), initializer.Constant(2)])
    assert (filled(init, (2,), "fc_weight") == 2).all()
    with pytest.raises(ValueError, match=r'fc_gamma did not match any pattern. Consider adding a "\.\*"'):
        filled(init, (2,), "fc_gamma")
    with pytest.raises(AssertionError, match="2 patterns for 1 initializers"):
        initializer.Mixed(["a", "b"], [initializer.Zero()])


def test_load_takes_saved_values_and_falls_back():
    saved = {"arg:a": mx.nd.ones((2,)), "aux:b": mx.nd.ones((3,)) * 2}
    init = initializer.Load(saved, default_init=initializer.Constant(5))
    assert (filled(init, (2,), "a") == 1).all()
    assert (filled(init, (3,), "b") == 2).all()
    assert (filled(init, (3,), "c_weight") == 5).all()
    with pytest.raises(AssertionError, match=r"Parameter a cannot .* target \(4,\) vs loaded \(2,\)"):
        filled(init, (4,), "a")
    with pytest.raises(AssertionError, match=r"Cannot Initialize c. Not found in loaded param and no default"):
        filled(initializer.Load(saved), (3,), "c")


def test_plain_string_warns_as_in_mxnet():
    array = mx.nd.zeros((2, 2))
    with pytest.warns(DeprecationWarning, match="InitDesc"):
        initializer.Zero()("bn_moving_var", array)
    assert (array.asnumpy() == 1).all()
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="name must be string"):
        initializer.Zero()(3, array)


def test_verbosity_logs_what_was_done(caplog):
    init = initializer.One().set_verbosity(True)
    with caplog.at_level(logging.INFO):
        filled(init, (2, 2))
    assert "Initialized fc_weight as weight: 1.0" in caplog.text


def test_register_own_class_and_alias():
    @initializer.register
    @initializer.alias("threes")
    class ThreesForThisTest(initializer.Initializer):
        def _init_weight(self, _, arr):
            arr[:] = 3

    assert (filled(initializer.create("threes"), (2,)) == 3).all()
    assert json.loads(initializer.create("threesforthistest").dumps()) == ["threesforthistest", {}]
    with pytest.warns(UserWarning, match="New initializer .*ThreesForThisTest registered with name threes replaces"):
        initializer.alias("threes")(ThreesForThisTest)
    with pytest.raises(AssertionError, match="cannot be a initializer; derive the class from Initializer"):
        initializer.register(dict)
