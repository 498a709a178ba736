"""Operators that make arrays from nothing, and ``nd.histogram``."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore.ndarray.histograms import histogram
from mxcore.spec import ParameterError

make = mx.nd._internal

CASES = {
    "zeros": (make._zeros, {"shape": (2, 3)}, np.zeros((2, 3), "float32")),
    "zeros_int": (make._zeros, {"shape": 4, "dtype": "int32"}, np.zeros(4, "int32")),
    "ones": (make._ones, {"shape": (2,), "dtype": "float64"}, np.ones(2)),
    "full": (make._full, {"shape": (2, 1), "value": 2.5}, np.full((2, 1), 2.5, "float32")),
    "full_int": (make._full, {"shape": (3,), "value": 7.9, "dtype": "int8"}, np.full(3, 7, "int8")),
    "arange_stop_only": (make._arange, {"start": 5}, np.arange(5, dtype="float32")),
    "arange_repeat": (make._arange, {"start": 1, "stop": 5, "step": 2, "repeat": 2}, np.array([1, 1, 3, 3], "float32")),
    "arange_down": (make._arange, {"start": 5, "stop": 0, "step": -2, "dtype": "int32"}, np.array([5, 3, 1], "int32")),
    "arange_fraction": (make._arange, {"start": 0, "stop": 1, "step": 0.3}, np.float32([0, 0.3, 0.6, 0.9])),
    "linspace": (make._linspace, {"start": 0, "stop": 1, "num": 5}, np.float32([0, 0.25, 0.5, 0.75, 1])),
    "linspace_open": (make._linspace, {"start": 2, "stop": -1, "num": 3, "endpoint": False}, np.float32([2, 1, 0])),
    "eye": (make._eye, {"N": 2}, np.eye(2, dtype="float32")),
    "eye_shifted": (make._eye, {"N": 2, "M": 3, "k": 1, "dtype": "int64"}, np.eye(2, 3, 1, "int64")),
}


@pytest.mark.parametrize("case", CASES)
def test_makes(case):
    fn, attributes, want = CASES[case]
    got = fn(**attributes)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.asnumpy(), want, rtol=1e-6)


def test_attributes_as_strings():
    # What a symbol file holds.
    y = make._zeros(shape="(2, 3)", dtype="float16", ctx="cpu(0)")
    assert y.shape == (2, 3) and y.dtype == np.float16


def test_histogram_with_bins():
    x = mx.nd.array([1, 2, 3, 4, 5])
    counts, edges = histogram(x, bins=mx.nd.array([1, 3, 6]))
    assert counts.asnumpy().tolist() == [2, 3] and counts.dtype == np.int64
    assert edges.asnumpy().tolist() == [1, 3, 6] and edges.dtype == np.float32


def test_histogram_with_range():
    counts, edges = histogram(mx.nd.array([1, 2, 3, 4, 5]), bins=3, range=(1, 5))
    assert counts.asnumpy().tolist() == [2, 1, 2]
    np.testing.assert_allclose(edges.asnumpy(), [1, 7 / 3, 11 / 3, 5], rtol=1e-6)


def test_histogram_without_range_warns_and_is_numpys():
    with pytest.warns(UserWarning, match="no range was given"):
        counts, edges = histogram(mx.nd.array([1, 2, 3, 4, 5]), bins=3)
    assert counts.asnumpy().tolist() == [2, 1, 2] and counts.dtype == np.float32
    np.testing.assert_allclose(edges.asnumpy(), [1, 7 / 3, 11 / 3, 5], rtol=1e-6)


def test_histogram_refuses_other_bins():
    with pytest.raises(ValueError, match="bins must be a number or an NDArray but is list"):
        histogram(mx.nd.array([1, 2]), bins=[0, 1])
    with pytest.raises(ParameterError, match="rising range"):
        histogram(mx.nd.array([1, 2]), bins=2, range=(3, 3))
