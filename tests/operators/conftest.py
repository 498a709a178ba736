"""Finite differences in training mode, for operators whose records cannot check themselves outside of it."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore.dispatch import rng


def _called(fn, values):
    rng.seed(3)  # the same random numbers at every call
    ys = fn(*values)
    return list(ys) if isinstance(ys, list | tuple) else [ys]


def _arrays(values):
    return [None if v is None else mx.nd.array(v, dtype=v.dtype) for v in values]


def _gradients(fn, values, which, weights, train):
    arrays = _arrays(values)
    for i in which:
        arrays[i].attach_grad()
    with mx.autograd.record(train_mode=train):
        ys = _called(fn, arrays)
    mx.autograd.backward(ys, [mx.nd.array(w, dtype=w.dtype) for w in weights])
    return [arrays[i].grad.asnumpy() for i in which]


def compare(fn, values, *, which=None, order=2, train=True, step=1e-6, rtol=1e-4, atol=1e-5):
    """Compare gradients of ``fn(*arrays)`` with differences along random directions.

    Parameters
    ----------
    values : list of numpy.ndarray or None
    which : list of int
        Inputs to differentiate by; those of float64 if None.
    order : int
        1 or 2.
    """
    random = np.random.default_rng(5)
    which = [i for i, v in enumerate(values) if v is not None and v.dtype == np.float64] if which is None else which
    with mx.autograd.train_mode() if train else mx.autograd.predict_mode():
        weights = [random.standard_normal(y.shape) for y in _called(fn, _arrays(values))]
    directions = {i: random.standard_normal(values[i].shape) for i in which}

    def moved(h):
        return [v + h * directions[i] if i in directions else v for i, v in enumerate(values)]

    def loss(h):
        with mx.autograd.train_mode() if train else mx.autograd.predict_mode():
            ys = _called(fn, _arrays(moved(h)))
        return sum(float((w * y.asnumpy()).sum()) for w, y in zip(weights, ys))

    got = _gradients(fn, values, which, weights, train)
    have = sum(float((g * directions[i]).sum()) for g, i in zip(got, which))
    want = (loss(step) - loss(-step)) / (2 * step)
    np.testing.assert_allclose(have, want, rtol=rtol, atol=atol, err_msg="first derivative")
    if order < 2:
        return
    seconds = [random.standard_normal(values[i].shape) for i in which]

    def first(h):
        return sum(float((g * k).sum()) for g, k in zip(_gradients(fn, moved(h), which, weights, train), seconds))

    want = (first(step) - first(-step)) / (2 * step)
    arrays = _arrays(values)
    for i in which:
        arrays[i].attach_grad()
    with mx.autograd.record(train_mode=train):
        ys = _called(fn, arrays)
        heads = [mx.nd.array(w, dtype=w.dtype) for w in weights]
        gs = mx.autograd.grad(ys, [arrays[i] for i in which], heads, create_graph=True, train_mode=train)
    linked = [(g, mx.nd.array(k, dtype=k.dtype)) for g, k in zip(gs, seconds) if g._tape is not None]
    if linked:
        mx.autograd.backward([g for g, _ in linked], [k for _, k in linked])
    have = sum(float((arrays[i].grad.asnumpy() * directions[i]).sum()) for i in which)
    np.testing.assert_allclose(have, want, rtol=10 * rtol, atol=10 * atol, err_msg="second derivative")


@pytest.fixture
def differences():
    return compare
