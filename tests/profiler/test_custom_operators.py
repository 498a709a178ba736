"""Custom operators in the profiler: their Python code and what it calls, in a category of their own."""

from __future__ import annotations

import json

import pytest

import mxcore as mx
from mxcore import profiler
from mxcore.instruments import instruments
from mxcore.spec import OperatorError


class AddOne(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + 1)
        mx.nd.zeros((3, 3))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], mx.nd.tanh(out_grad[0]))


class AddTwo(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], mx.nd.Custom(in_data[0], op_type="profiled_one") + 1)


class Broken(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise KeyError("no key")


for _name, _op in (("profiled_one", AddOne), ("profiled_two", AddTwo), ("profiled_broken", Broken)):

    @mx.operator.register(_name)
    class _Prop(mx.operator.CustomOpProp):
        _op = _op

        def create_operator(self, ctx, shapes, dtypes):
            return self._op()


def times():
    mx.nd.waitall()
    return {category: set(names) for category, names in json.loads(profiler.dumps(format="json"))["Time"].items()}


def test_code_and_calls_of_forward_and_backward():
    x = mx.nd.array([0.0, 1.0])
    x.attach_grad()
    profiler.set_state("run")
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="profiled_one")
        z = mx.nd.sin(y)
    z.backward()
    found = times()
    assert {
        "profiled_one::pure_python",
        "profiled_one::_plus_scalar",
        "profiled_one::_zeros",
        "_backward_profiled_one::pure_python",
        "_backward_profiled_one::tanh",
    } <= found["Custom Operator"]
    assert all("profiled_one::" in name for name in found["Custom Operator"])
    assert "sin" in found["operator"] and not any("::" in name for name in found["operator"])


def test_a_custom_operator_in_another_and_in_a_scope():
    profiler.set_state("run")
    with profiler.scope("net:"):
        mx.nd.Custom(mx.nd.ones(2), op_type="profiled_two")
    mx.nd.ones(2) + 1
    found = times()
    assert {
        "net:profiled_two::pure_python",
        "net:profiled_two::profiled_one::pure_python",
        "net:profiled_two::profiled_one::_plus_scalar",
        "net:profiled_two::_plus_scalar",
    } <= found["Custom Operator"]
    assert {"net:_ones", "_ones", "_plus_scalar"} <= found["operator"]


def test_the_timeline_has_the_code_around_its_calls(path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    mx.nd.Custom(mx.nd.ones(2), op_type="profiled_one")
    mx.nd.waitall()
    slices = {event["name"]: event for event in trace()["traceEvents"] if event.get("cat") == "Custom Operator"}
    code, call = slices["profiled_one::pure_python"], slices["profiled_one::_zeros"]
    assert code["ts"] <= call["ts"] and call["ts"] + call["dur"] <= code["ts"] + code["dur"]


def test_an_error_is_noted_and_the_category_ends():
    profiler.set_state("run")
    with pytest.raises(OperatorError, match="its forward raised KeyError"):
        mx.nd.Custom(mx.nd.ones(2), op_type="profiled_broken")
    mx.nd.ones(2) + 1
    mx.nd.waitall()
    statistics = json.loads(profiler.dumps(format="json"))
    assert statistics["Failed"] == 1
    assert set(statistics["Time"]["Custom Operator"]) == {"profiled_broken::pure_python"}
    assert "_plus_scalar" in statistics["Time"]["operator"]


def test_other_listeners_hear_the_full_name():
    heard = []

    def listen(event, task, name, *rest):
        heard.append((event, name))

    instruments.add(listen, ["begin", "end"])
    try:
        mx.nd.Custom(mx.nd.ones(2), op_type="profiled_one").wait_to_read()
    finally:
        instruments.remove(listen)
    names = [entry for entry in heard if entry[1].endswith("::pure_python")]
    assert names == [("begin", "profiled_one::pure_python"), ("end", "profiled_one::pure_python")]


def test_nothing_is_told_while_nobody_listens(monkeypatch):
    def emit(*args):
        raise AssertionError(f"told {args}")

    monkeypatch.setattr(type(instruments), "emit", emit)
    assert mx.nd.Custom(mx.nd.ones(2), op_type="profiled_one").asnumpy().tolist() == [2, 2]
