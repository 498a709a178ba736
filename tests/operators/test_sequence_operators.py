"""Gradients and dropout of the fused recurrent layers."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore.operators.recurrent_layout import GATES, Layout

MODES = sorted(GATES)


def network(mode, inputs=3, size=4, layers=2, directions=2, projection=None, n=2, steps=5):
    r = np.random.default_rng(4)
    layout = Layout(mode, inputs, size, layers, directions, projection)
    k = layers * directions
    x = r.standard_normal((steps, n, inputs))
    state = r.standard_normal((k, n, layout.recurrent))
    cell = r.standard_normal((k, n, size)) if mode == "lstm" else None
    how = {
        "mode": mode,
        "state_size": size,
        "num_layers": layers,
        "bidirectional": directions == 2,
        "projection_size": projection,
    }
    return [x, r.standard_normal(layout.length) * 0.4, state, cell], how


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
def test_gradients(differences, mode, states, directions):
    values, how = network(mode, directions=directions)
    differences(lambda *v: mx.nd.RNN(*v, state_outputs=states, **how), values, order=1)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_through_dropout(differences, mode):
    values, how = network(mode, layers=3)
    differences(lambda *v: mx.nd.RNN(*v, p=0.4, **how), values, order=1)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_with_lengths(differences, mode):
    values, how = network(mode, n=3)
    lengths = np.array([5, 1, 3], "float32")

    def run(*v):
        return mx.nd.RNN(*v, mx.nd.array(lengths), use_sequence_length=True, state_outputs=True, **how)

    differences(run, values, order=1)


def test_gradients_with_projection(differences):
    values, how = network("lstm", projection=2)
    differences(lambda *v: mx.nd.RNN(*v, state_outputs=True, **how), values, order=1)


def test_steps_beyond_a_length_do_not_matter():
    values, how = network("gru", n=2)
    arrays = [None if v is None else mx.nd.array(v) for v in values]
    lengths = mx.nd.array([2, 5])
    one = mx.nd.RNN(*arrays, lengths, use_sequence_length=True, **how).asnumpy()
    arrays[0][2:, 0] = 99
    two = mx.nd.RNN(*arrays, lengths, use_sequence_length=True, **how).asnumpy()
    np.testing.assert_array_equal(one, two)
    assert (one[2:, 0] == 0).all()


def test_dropout_between_layers_only_and_only_while_training():
    values, how = network("rnn_tanh", layers=1)
    arrays = [None if v is None else mx.nd.array(v) for v in values]
    plain = mx.nd.RNN(*arrays, **how).asnumpy()
    with mx.autograd.train_mode():
        np.testing.assert_array_equal(mx.nd.RNN(*arrays, p=0.5, **how).asnumpy(), plain)
    values, how = network("rnn_tanh", layers=2)
    arrays = [None if v is None else mx.nd.array(v) for v in values]
    plain = mx.nd.RNN(*arrays, **how).asnumpy()
    np.testing.assert_array_equal(mx.nd.RNN(*arrays, p=0.5, **how).asnumpy(), plain)
    with mx.autograd.train_mode():
        assert not np.allclose(mx.nd.RNN(*arrays, p=0.5, **how).asnumpy(), plain)


def test_second_derivatives_are_refused():
    values, how = network("gru", layers=1, directions=1)
    arrays = [None if v is None else mx.nd.array(v) for v in values]
    arrays[0].attach_grad()
    with mx.autograd.record():
        y = mx.nd.RNN(*arrays, **how)
        g = mx.autograd.grad(y, arrays[0], create_graph=True)
        z = g * g
    with pytest.raises(mx.MXNetError, match="'_backward_RNN' has no gradient"):
        z.backward()


def test_half_precision():
    values, how = network("lstm")
    half = mx.nd.RNN(*[mx.nd.array(v, dtype="float16") for v in values], **how)
    full = mx.nd.RNN(*[mx.nd.array(v, dtype="float64") for v in values], **how)
    assert half.dtype == np.float16
    np.testing.assert_allclose(half.asnumpy(), full.asnumpy(), atol=5e-3)
