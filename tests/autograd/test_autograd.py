"""Recording and differentiation: scopes, requests, heads, versions, functions."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mxcore as mx
from mxcore import autograd, nd
from mxcore.spec import AutogradError, ShapeError, StaleValueError


def leaf(values, req="write"):
    x = nd.array(values)
    x.attach_grad(req)
    return x


def test_flags_and_scopes():
    assert not autograd.is_recording() and not autograd.is_training()
    with autograd.record():
        assert autograd.is_recording() and autograd.is_training()
        with autograd.pause():
            assert not autograd.is_recording() and not autograd.is_training()
        with autograd.predict_mode():
            assert autograd.is_recording() and not autograd.is_training()
    with autograd.record(train_mode=False):
        assert autograd.is_recording() and not autograd.is_training()
    with autograd.train_mode():
        assert autograd.is_training() and not autograd.is_recording()
    assert not autograd.is_recording() and not autograd.is_training()


def test_scope_is_left_when_an_exception_passes():
    with pytest.raises(KeyError), autograd.record():
        raise KeyError
    assert not autograd.is_recording()


def test_recording_is_thread_local():
    seen = []
    with autograd.record():
        thread = threading.Thread(target=lambda: seen.append(autograd.is_recording()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_requests_write_add_null():
    for req, want in (("write", 2.0), ("add", 4.0), ("null", 0.0)):
        x = leaf([1.0], req)
        for _ in range(2):
            with autograd.record():
                y = 2 * x
            y.backward()
        assert x.grad.asscalar() == want


def test_unknown_request_is_an_error():
    with pytest.raises(AutogradError, match="grad_req must be 'write', 'add' or 'null' but is 'sum'"):
        nd.ones(1).attach_grad("sum")


def test_head_gradients_and_several_heads():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y, z = x * x, x * 3
    autograd.backward([y, z], [nd.array([1.0, 10.0]), None])
    np.testing.assert_array_equal(x.grad.asnumpy(), [2 + 3, 40 + 3])


def test_head_gradient_of_wrong_shape():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * x
    with pytest.raises(ShapeError, match=r"head gradient has shape \(3,\) but its head has \(2,\)"):
        y.backward(nd.ones(3))


def test_backward_twice_needs_retain_graph():
    x = leaf([3.0])
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.asscalar() == 6
    with pytest.raises(AutogradError, match="freed by an earlier backward. Pass retain_graph=True"):
        y.backward()


def test_backward_of_what_was_not_recorded():
    with pytest.raises(AutogradError, match=r"head 0 \(2,\) is not in the autograd graph"):
        nd.ones(2).backward()


def test_a_shared_input_gets_the_sum():
    x = leaf([2.0])
    with autograd.record():
        y = x * x + x / x + x
        z = y * y
    z.backward()
    assert x.grad.asscalar() == pytest.approx(2 * (4 + 1 + 2) * (4 + 1))


def test_broadcast_gradients_are_summed():
    a, b = leaf(np.ones((2, 3))), leaf(np.ones((3,)))
    with autograd.record():
        y = a * b * 2
    y.backward()
    np.testing.assert_array_equal(a.grad.asnumpy(), np.full((2, 3), 2))
    np.testing.assert_array_equal(b.grad.asnumpy(), [4, 4, 4])


def test_deep_chain_is_not_limited_by_recursion():
    x = leaf([1.0])
    with autograd.record():
        y = x
        for _ in range(5000):
            y = y + 1
    y.backward()
    assert x.grad.asscalar() == 1
    del y


def test_grad_of_grad_of_grad():
    x = leaf([2.0])
    with autograd.record():
        y = x * x * x * x
        g = autograd.grad(y, x, create_graph=True)
        h = autograd.grad(g, x, create_graph=True)
    h.backward()
    assert g.asscalar() == 32 and h.asscalar() == 48 and x.grad.asscalar() == 48


def test_grad_leaves_attached_gradients_alone_and_takes_intermediates():
    x = leaf([2.0])
    with autograd.record():
        y = x * x
        z = y * 3
    gx, gy = autograd.grad(z, [x, y])
    assert (gx.asscalar(), gy.asscalar(), x.grad.asscalar()) == (12, 3, 0)


def test_grad_of_a_variable_outside():
    with autograd.record():
        y = leaf([1.0]) * 2
    with pytest.raises(AutogradError, match="variable 0 .* is not in the graph; call attach_grad"):
        autograd.grad(y, nd.ones(1))


def test_mark_variables():
    x, g = nd.array([3.0]), nd.zeros(1)
    autograd.mark_variables([x], [g])
    with autograd.record():
        y = x * x
    y.backward()
    assert g.asscalar() == 6 and x.grad is g


def test_gradient_array_stays_the_same_object_and_views_of_it_stay_true():
    x = leaf([1.0, 2.0])
    grad, view = x.grad, x.grad[0:1]
    with autograd.record():
        y = x * x
    y.backward()
    assert x.grad is grad
    assert view.asscalar() == 2, "a view of the gradient array sees what backward wrote"


def test_gradient_never_shares_memory_with_another_array():
    x, z = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    with autograd.record():
        y = x + z
    seed = nd.array([5.0, 6.0])
    y.backward(seed)
    x.grad[:] = 0
    np.testing.assert_array_equal(z.grad.asnumpy(), [5, 6])
    np.testing.assert_array_equal(seed.asnumpy(), [5, 6])


def test_in_place_on_a_recorded_array_is_refused():
    x = leaf([1.0])
    with autograd.record():
        y = x * 2
        with pytest.raises(AutogradError, match="Inplace operations .* broadcast_add would overwrite"):
            y += 1
        with pytest.raises(AutogradError, match="Inplace operations .* assignment"):
            x[:] = 3
    y.backward()
    assert x.grad.asscalar() == 2, "the refused writes changed nothing"


def test_overwriting_an_input_that_backward_needs_names_operator_and_line():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * x
    x[:] = 5
    with pytest.raises(StaleValueError) as e:
        y.backward()
    text = str(e.value)
    assert "operator 'broadcast_mul' needs its input 'lhs'" in text
    assert "version 1, recorded at 0" in text
    assert "test_autograd.py" in text and "line " in text


def test_overwriting_an_output_that_backward_needs():
    x = leaf([1.0])
    with autograd.record():
        y = nd.exp(x)
    y[:] = 0
    with pytest.raises(StaleValueError, match="operator 'exp' needs its own output"):
        y.backward()


def test_overwriting_through_a_view_is_noticed():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * x
    x[0:1][:] = 9
    with pytest.raises(StaleValueError):
        y.backward()


def test_overwriting_what_backward_does_not_read_is_allowed():
    x = leaf([1.0])
    with autograd.record():
        y = x + 1
    x[:] = 7
    y.backward()
    assert x.grad.asscalar() == 1


def test_a_failed_backward_leaves_the_graph_usable():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * x
    with pytest.raises(ShapeError):
        y.backward(nd.ones(5))
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 4])


def test_detach_and_stop_gradient():
    x = leaf([3.0])
    with autograd.record():
        y = x * x
        z = y.detach() * x + nd.stop_gradient(y)
    z.backward()
    assert x.grad.asscalar() == 9


def test_function_and_its_errors():
    class Cube(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * x * x

        def backward(self, dy):
            (x,) = self.saved_tensors
            return 3 * x * x * dy

    x = leaf([2.0])
    cube = Cube()
    with autograd.record():
        y = cube(x) * 2
    y.backward()
    assert x.grad.asscalar() == 24
    with pytest.raises(AutogradError, match="Cube instance can be called only once"):
        cube(x)

    class Wrong(Cube):
        def backward(self, dy):
            return dy, dy

    with autograd.record():
        y = Wrong()(x)
    with pytest.raises(AutogradError, match=r"Wrong.backward must return one gradient per input \(1\) but returned 2"):
        y.backward()


def test_gradients_cross_contexts():
    x = leaf([2.0])
    with autograd.record():
        y = x.as_in_context(mx.cpu(1)) * 3
    y.backward()
    assert x.grad.asscalar() == 3 and x.grad.context == mx.cpu(0)


def test_indexing_is_differentiable():
    x = leaf(np.arange(6).reshape(2, 3))
    with autograd.record():
        y = x[1] * 2 + x[:, 1].sum() + x[nd.array([0, 0]), nd.array([2, 2])].sum()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[0, 3, 6], [2, 5, 2]])


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_that_grad_returns_share_no_memory(create_graph):
    x, z, seed = leaf([1.0, 2.0]), leaf([1.0, 2.0]), nd.array([5.0, 6.0])
    with autograd.record():
        y = x + z
        gx, gz = autograd.grad(y, [x, z], [seed], create_graph=create_graph)
    gx[:] = 0
    np.testing.assert_array_equal(gz.asnumpy(), [5, 6])
    np.testing.assert_array_equal(seed.asnumpy(), [5, 6])


def test_the_line_that_overwrote_is_found_where_a_program_imports_operator():
    source = (
        "import operator\nfrom mxcore import autograd, nd\nx = nd.array([1.0])\nx.attach_grad()\n"
        "with autograd.record():\n    y = x * x\nnd.broadcast_add(x, x, out=x)\ny.backward()\n"
    )
    with pytest.raises(StaleValueError, match="by line 7 of program.py"):
        exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})
