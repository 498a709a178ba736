"""Control flow over NDArrays, against loops in NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mxcore as mx

C = mx.nd.contrib


def array(x, dtype="float64"):
    return mx.nd.array(x, dtype=dtype)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# -- foreach ------------------------------------------------------------------------------------------------------


def test_foreach_is_a_loop_over_axis_0():
    x, s = random(4, 3), random(3, seed=1)
    calls = []

    def body(row, states):
        calls.append(row.shape)
        new = states[0] * 0.5 + row
        return new * 2, [new]

    outputs, states = C.foreach(body, array(x), [array(s)])
    want = []
    for row in x:
        s = s * 0.5 + row
        want.append(s * 2)
    np.testing.assert_allclose(outputs.asnumpy(), want)
    assert isinstance(states, list)
    np.testing.assert_allclose(states[0].asnumpy(), s)
    assert calls == [(3,)] * 4


def test_foreach_keeps_nested_structures():
    x, y, s = random(3, 2), random(4, 5, seed=1), random(2, seed=2)
    seen = []

    def body(rows, states):
        seen.append((type(rows), rows[0].shape, rows[1][0].shape))
        (a, (b,)), (s, [t]) = rows, states
        return (a, [b, (s,)]), [s + 1, [t * 2]]

    outputs, states = C.foreach(body, (array(x), [array(y)]), [array(s), [array(s)]])
    a, (b, (kept,)) = outputs
    assert type(outputs) is list and type(outputs[1]) is list and type(outputs[1][1]) is list
    np.testing.assert_array_equal(a.asnumpy(), x)
    np.testing.assert_array_equal(b.asnumpy(), y[:3])  # as long as the first array
    np.testing.assert_allclose(kept.asnumpy(), [s, s + 1, s + 2])
    np.testing.assert_allclose(states[0].asnumpy(), s + 3)
    np.testing.assert_allclose(states[1][0].asnumpy(), s * 8)
    assert seen == [(list, (2,), (5,))] * 3


def test_foreach_of_a_vector_gives_slices_of_one_element():
    outputs, states = C.foreach(lambda x, s: (x, s), array([1, 2, 3]), [])
    assert outputs.asnumpy().tolist() == [[1], [2], [3]]
    assert states == []


def test_foreach_without_outputs():
    outputs, total = C.foreach(lambda x, s: ([], s + x), array([[1, 2], [3, 4]]), array([0, 0]))
    assert outputs == []
    assert total.asnumpy().tolist() == [4, 6]


def test_foreach_is_recorded():
    x, w, s = random(3, 4), random(4, seed=1), random(4, seed=2)
    arrays = [array(v) for v in (x, w, s)]
    for a in arrays:
        a.attach_grad()
    data, weight, state = arrays
    with mx.autograd.record():
        outputs, last = C.foreach(lambda row, h: (h * row, h * weight + row), data, state)
        loss = outputs.sum() + (last * last).sum()
    loss.backward()
    # h_{t+1} = h_t w + x_t, y_t = h_t x_t, loss = sum y + h_T^2: the same backwards.
    h = [s]
    for row in x:
        h.append(h[-1] * w + row)
    g, gx, gw = 2 * h[3], np.zeros_like(x), np.zeros_like(w)
    for t in (2, 1, 0):
        gx[t] = g + h[t]
        gw += g * h[t]
        g = g * w + x[t]
    for a, want in zip(arrays, (gx, gw, g)):
        np.testing.assert_allclose(a.grad.asnumpy(), want)


@pytest.mark.parametrize(
    "data,states,outputs,text",
    [
        (3, [], None, "foreach input must be (nested) list of NDArray, but got 3 of type <class 'int'>"),
        ([array([1]), 2], [], None, "foreach input must be (nested) list of NDArray, but got 2"),
        (array([1]), [None], None, "foreach states must be (nested) list of NDArray, but got None"),
        (array([1]), [], "x", "foreach output must be (nested) list of NDArray, but got x of type <class 'str'>"),
        (array([1]), [], None, "foreach output must be (nested) list of NDArray, but got None"),
    ],
)
def test_foreach_refuses_what_is_no_array(data, states, outputs, text):
    with pytest.raises(AssertionError, match=re.escape(text)):
        C.foreach(lambda x, s: (outputs, s), data, states)


def test_foreach_refuses_no_slices_and_changing_outputs():
    with pytest.raises(mx.MXNetError, match="needs at least one slice, but data has no array"):
        C.foreach(lambda x, s: (x, s), [], [])
    with pytest.raises(mx.MXNetError, match="needs at least one slice, but data has none along axis 0"):
        C.foreach(lambda x, s: (x, s), mx.nd.empty((0, 2)), [])
    grown = []

    def body(x, s):
        grown.append(x)
        return list(grown), s

    with pytest.raises(ValueError, match="foreach output should be the same in each step, but step 0 has 1 and step 1"):
        C.foreach(body, array([1, 2, 3]), [])


def test_foreach_over_a_shorter_second_array_is_an_index_error():
    with pytest.raises(IndexError, match="index 1 is out of bounds"):
        C.foreach(lambda x, s: (x, s), [array([[1, 2], [3, 4]]), array([1])], [])


# -- while_loop ---------------------------------------------------------------------------------------------------


def test_while_loop_stacks_and_fills_up():
    i, s = array([0], "int64"), array([1], "int64")
    outputs, (last, total) = C.while_loop(
        lambda i, s: i <= 5, lambda i, s: ([i + s], [i + 1, s + i]), (i, s), max_iterations=10
    )
    assert isinstance(outputs, list) and outputs[0].dtype == np.int64
    assert outputs[0].asnumpy().ravel().tolist() == [1, 2, 4, 7, 11, 16, 0, 0, 0, 0]
    assert (last.asscalar(), total.asscalar()) == (6, 16)


def test_while_loop_stops_after_max_iterations():
    outputs, i = C.while_loop(lambda i: True, lambda i: (i * i, i + 1), array([1]), max_iterations=array([3]))
    assert outputs.asnumpy().tolist() == [[1], [4], [9]]
    assert i.asnumpy().tolist() == [4]


def test_while_loop_structures():
    one = array([1])

    def below(i):
        return i < 3

    outputs, state = C.while_loop(below, lambda i: ((i, [i * 2]), (i + 1,)), [one], max_iterations=3)
    assert outputs[0].asnumpy().ravel().tolist() == [1, 2, 0]
    assert outputs[1][0].asnumpy().ravel().tolist() == [2, 4, 0]
    assert type(outputs) is list and type(state) is list
    outputs, state = C.while_loop(below, lambda i: (None, i + 1), one, max_iterations=3)
    assert outputs == [] and state.asscalar() == 3
    nested, state = C.while_loop(lambda v: v[0] < 3, lambda v: (v[0], [[v[0] + 1]]), [[one]], max_iterations=3)
    assert nested.shape == (3, 1) and state[0][0].asscalar() == 3


@pytest.mark.parametrize("most", [0, -1, 5])
def test_while_loop_without_a_step(most):
    one = array([1])
    outputs, state = C.while_loop(lambda i: most != 5, lambda i: (i, i + 1), (one,), max_iterations=most)
    assert outputs == []
    assert state == (one,)


def test_while_loop_is_recorded():
    x = random(3)
    a, w = array(x), array([2.0])
    for v in (a, w):
        v.attach_grad()
    with mx.autograd.record():
        outputs, (_, last) = C.while_loop(
            lambda i, h: i < 3, lambda i, h: (h * h, [i + 1, h * w]), [array([0]), a], max_iterations=5
        )
        loss = outputs.sum() + last.sum()
    loss.backward()
    # sum over t < 3 of w^2t x^2, and w^3 x
    np.testing.assert_allclose(a.grad.asnumpy(), 2 * x * (1 + 4 + 16) + 8)
    np.testing.assert_allclose(w.grad.asnumpy(), [(x**2).sum() * (2 * 2 + 4 * 8) + 3 * 4 * x.sum()])


@pytest.mark.parametrize(
    "func,kw,text",
    [
        (None, {}, "max_iterations should be specified"),
        (None, {"max_iterations": "many"}, "Cannot convert max_iteration to python int: it is 'many'"),
        (None, {"max_iterations": 3, "loop_vars": []}, "loop_vars should contain at least one element"),
        (None, {"max_iterations": 3, "cond": lambda i: np.ones(2)}, "Cannot convert Return value of cond to python bool"),
        (None, {"max_iterations": 3, "cond": lambda i: mx.nd.ones((2,))}, "The current array is not a scalar"),
        (lambda i: (i, [i, i]), {"max_iterations": 3}, "loop_vars should be consistent during the loop, but it went from 1 to 2"),
        (lambda i: (i, None), {"max_iterations": 3}, "consistent during the loop, but it went from 1 to 0 in step 0"),
        (
            lambda i: ([i] * int(i.asscalar()), i + 1),
            {"max_iterations": 3},
            "Number of elements in step_output should be the same in each step, but step 0 has 1 and step 1 has 2",
        ),
        (
            lambda i: (mx.nd.ones((int(i.asscalar()), 2)), i + 1),
            {"max_iterations": 2},
            "Shapes of 1-th elements in step_outputs are inconsistent, which are:\n  Step 0, shape is (1, 2)\n"
            "  Step 1, shape is (2, 2)",
        ),
    ],
)  # fmt: skip
def test_while_loop_refuses(func, kw, text):
    given = {"cond": lambda i: i < 9, "func": func, "loop_vars": [array([1])], **kw}
    with pytest.raises(ValueError, match=re.escape(text)):
        C.while_loop(**given)


def test_while_loop_refuses_outputs_that_are_no_arrays():
    with pytest.raises(AssertionError, match=re.escape("while output must be (nested) list of NDArray, but got s of")):
        C.while_loop(lambda i: i < 9, lambda i: ("s", i), array([1]), max_iterations=3)


# -- cond ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pred,taken", [(array([1]), "then"), (array([[0]]), "else"), (True, "then"), (None, "else")])
def test_cond_calls_one_function(pred, taken):
    calls = []

    def branch(name):
        calls.append(name)
        return [name]

    assert C.cond(pred, lambda: branch("then"), lambda: branch("else")) == [taken]
    assert calls == [taken]


def test_cond_is_recorded():
    a, b = array([1.0]), array([2.0])
    for v in (a, b):
        v.attach_grad()
    with mx.autograd.record():
        y = C.cond(a * b < 5, lambda: (a + 5) * (b + 5), lambda: (a - 5) * (b - 5))
    y.backward()
    assert (y.asscalar(), a.grad.asscalar(), b.grad.asscalar()) == (42, 7, 6)


def test_cond_refuses_what_has_no_truth_value():
    with pytest.raises(ValueError, match="The current array is not a scalar"):
        C.cond(array([1, 2]), list, list)
    with pytest.raises(mx.MXNetError, match=re.escape("Cannot convert pred to python bool: it is array([1, 2])")):
        C.cond(np.array([1, 2]), list, list)


def test_names_of_graph_nodes_are_accepted():
    one = array([1])
    assert C.cond(one, lambda: one, list, name="a") is one
    assert C.foreach(lambda x, s: (x, s), one, [], name="b")[0].shape == (1, 1)
    assert C.while_loop(lambda i: i < 2, lambda i: (i, i + 1), one, 1, name="c")[1].asscalar() == 2
