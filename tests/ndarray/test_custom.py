"""Custom operators: values, gradients, states, and what happens when the user's code raises."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore.spec import OperatorError, ParameterError


class ScaledSquare(mx.operator.CustomOp):
    def __init__(self, scale):
        self.scale = scale

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], self.scale * in_data[0] ** 2)
        aux[0][:] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * self.scale * in_data[0] * out_grad[0])


@mx.operator.register("test_scaled_square")
class ScaledSquareProp(mx.operator.CustomOpProp):
    def __init__(self, scale="1"):
        super().__init__(need_top_grad=True)
        self.scale = float(scale)

    def list_auxiliary_states(self):
        return ["calls"]

    def create_operator(self, ctx, shapes, dtypes):
        return ScaledSquare(self.scale)


def test_values_gradients_and_states():
    x, calls = mx.nd.array([1.0, 2.0]), mx.nd.zeros(1)
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x, calls, op_type="test_scaled_square", scale=3)
    y.backward(mx.nd.array([1.0, 10.0]))
    np.testing.assert_array_equal(y.asnumpy(), [3, 12])
    np.testing.assert_array_equal(x.grad.asnumpy(), [6, 120])
    assert calls.asscalar() == 1
    out = mx.nd.zeros(2)
    assert mx.nd.Custom(data=x, calls=calls, op_type="test_scaled_square", out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), [1, 4])


def test_mistakes_are_named():
    with pytest.raises(
        ParameterError, match="no custom operator 'nosuch' is registered. Registered: .*test_scaled_square"
    ):
        mx.nd.Custom(mx.nd.ones(1), op_type="nosuch")
    with pytest.raises(OperatorError, match=r"wants 2 inputs \(data, calls\) but got 1"):
        mx.nd.Custom(mx.nd.ones(1), op_type="test_scaled_square")


def test_an_exception_of_the_user_is_chained():
    class Fails(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            raise KeyError("missing")

    @mx.operator.register("test_fails")
    class FailsProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Fails()

    with pytest.raises(mx.MXNetError, match=r"'Custom' \(FailsProp\): its forward raised KeyError: 'missing'") as e:
        mx.nd.Custom(mx.nd.ones(2), op_type="test_fails")
    assert isinstance(e.value.__cause__, KeyError)
