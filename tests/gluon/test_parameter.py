"""Parameters, constants and dictionaries of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mxcore as mx
from mxcore import gluon, nd
from mxcore.gluon import Constant, DeferredInitializationError, Parameter, ParameterDict


def test_one_copy_per_context():
    p = Parameter("weight", shape=(10, 10))
    p.initialize(init="xavier", ctx=[mx.cpu(0), mx.cpu(1)])
    assert len(p.list_data()) == len(p.list_grad()) == 2
    assert p.data(mx.cpu(1)).ctx == mx.cpu(1)
    assert p.grad(mx.cpu(0)).shape == (10, 10)
    np.testing.assert_array_equal(p.data(mx.cpu(0)).asnumpy(), p.data(mx.cpu(1)).asnumpy())
    p.reset_ctx([mx.cpu(1), mx.cpu(2)])
    assert p.list_ctx() == [mx.cpu(1), mx.cpu(2)]
    with mx.cpu(2):
        assert p.data().ctx == mx.cpu(2)


def test_wrong_context_names_the_contexts():
    p = Parameter("weight", shape=(2,))
    p.initialize(ctx=mx.cpu(1))
    with pytest.raises(RuntimeError, match=r"'weight' is not on cpu\(3\).*initialized on \[cpu\(1\)\]"):
        p.data(mx.cpu(3))
    assert p.data().ctx == mx.cpu(1)  # the only context needs no asking


def test_pinned_memory_counts_as_cpu():
    p = Parameter("weight", shape=(2,))
    p.initialize(ctx=mx.cpu(0))
    assert p.data(mx.Context("cpu_pinned", 0)) is p.data()


def test_reading_too_early():
    p = Parameter("w", shape=(3, 0), allow_deferred_init=True)
    with pytest.raises(RuntimeError, match="'w' has not been initialized"):
        p.data()
    p.initialize()
    with pytest.raises(DeferredInitializationError, match=r"shape \(3, 0\) is not fully known") as caught:
        p.data()
    assert caught.value.parameter == "w"
    assert p.list_ctx() == [mx.cpu(0)]


def test_unknown_shape_without_leave():
    with pytest.raises(ValueError, match=r"'w' cannot be initialized: its shape \(0, 2\)"):
        Parameter("w", shape=(0, 2)).initialize()


def test_initializing_twice_warns_unless_forced():
    p = Parameter("w", shape=(2,))
    p.initialize(init="ones")
    with pytest.warns(UserWarning, match="'w' is already initialized"):
        p.initialize(init="zeros")
    assert p.data().asnumpy().tolist() == [1, 1]
    p.initialize(init="zeros", force_reinit=True)
    assert p.data().asnumpy().tolist() == [0, 0]


def test_own_initializer_wins_over_default():
    p = Parameter("w", shape=(2,), init=mx.init.Constant(3))
    p.initialize(default_init="zeros")
    assert p.data().asnumpy().tolist() == [3, 3]
    p.initialize(init="ones", force_reinit=True)
    assert p.data().asnumpy().tolist() == [1, 1]


def test_shape_may_only_be_filled_in():
    p = Parameter("w", shape=(0, 3))
    p.shape = (4, 3)
    with pytest.raises(AssertionError, match=r"'w' has shape \(4, 3\).*\(4, 5\) does not fit"):
        p.shape = (4, 5)
    assert Parameter("w", shape=3).shape == (3,)
    assert Parameter("w").shape is None


@pytest.mark.parametrize("field", ["stype", "grad_stype"])
def test_invalid_storage_type(field):
    with pytest.raises(AssertionError, match=f"{field} must be one of"):
        Parameter("w", shape=(2,), **{field: "invalid"})


def test_dense_parameter_has_no_sparse_rows():
    p = Parameter("w", shape=(4, 2))
    p.initialize()
    rows = nd.arange(0, 4)
    with pytest.raises(RuntimeError, match="Use data"):
        p.row_sparse_data(rows)
    with pytest.raises(RuntimeError, match="Use list_data"):
        p.list_row_sparse_data(rows)
    sparse = Parameter("s", shape=(4, 2), stype="row_sparse")
    with pytest.raises(RuntimeError, match="Use row_sparse_data"):
        sparse.data()


def test_grad_req_makes_and_drops_gradients():
    p = Parameter("w", shape=(2,))
    p.initialize(init="ones")
    p.grad_req = "null"
    with pytest.raises(RuntimeError, match="no gradient, because its grad_req is 'null'"):
        p.grad()
    with pytest.raises(RuntimeError, match="grad_req is 'null'"):
        p.list_grad()
    p.grad_req = "add"
    for _ in range(2):
        with mx.autograd.record():
            y = (p.data() * 3).sum()
        y.backward()
    assert p.grad().asnumpy().tolist() == [6, 6]
    p.zero_grad()
    assert p.grad().asnumpy().tolist() == [0, 0]
    with pytest.raises(AssertionError, match="got 'maybe'"):
        p.grad_req = "maybe"
    assert Parameter("w", shape=(2,), differentiable=False).grad_req == "null"


def test_set_data_writes_in_place_on_every_context():
    p = Parameter("w", shape=(2,))
    p.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    before = p.list_data()
    p.set_data(nd.array([1, 2]))
    assert all(a is b for a, b in zip(before, p.list_data()))
    assert p.data(mx.cpu(1)).asnumpy().tolist() == [1, 2]
    with pytest.raises(AssertionError, match="does not fit"):
        p.set_data(nd.zeros((3,)))


def test_set_data_before_the_shape_is_known():
    p = Parameter("w", shape=(0,), allow_deferred_init=True)
    with pytest.raises(AssertionError, match="has not been initialized"):
        p.set_data(nd.array([1, 2]))
    p.initialize()
    p.set_data(nd.array([1, 2]))
    p._finish_deferred_init()
    assert p.data().asnumpy().tolist() == [1, 2]


def test_cast_keeps_values_and_gradients_working():
    p = Parameter("w", shape=(2,))
    p.initialize(init="ones")
    p.cast("float64")
    assert p.data().dtype == p.grad().dtype == np.float64
    with mx.autograd.record():
        y = (p.data() * 3).sum()
    y.backward()
    assert p.grad().asnumpy().tolist() == [3, 3]
    p.dtype = "float16"
    assert p.data().dtype == np.float16


def test_reset_ctx_needs_a_value_or_a_plan():
    p = Parameter("w", shape=(0,), allow_deferred_init=True)
    with pytest.raises(ValueError, match="has not been initialized"):
        p.reset_ctx(mx.cpu(1))
    p.initialize()
    p.reset_ctx(mx.cpu(1))
    assert p.list_ctx() == [mx.cpu(1)]


def test_symbol_is_refused_with_a_reason():
    with pytest.raises(mx.MXNetError, match="'w' cannot become a symbol"):
        Parameter("w", shape=(2,)).var()


def test_repr():
    assert repr(Parameter("net_w", shape=(2, 0))) == "Parameter net_w (shape=(2, 0), dtype=<class 'numpy.float32'>)"
    assert repr(Constant("c", [1.0])) == "Constant c (shape=(1,), dtype=<class 'numpy.float32'>)"


def test_constant():
    value = np.array([[1, 2], [3, 4]])

    class AddConstant(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.const = self.params.get_constant("const", value)

        def hybrid_forward(self, F, x, const):
            return x + const

    block = AddConstant()
    block.initialize()
    trainer = gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 1.0, "momentum": 0.5})
    x = nd.ones((2, 2))
    x.attach_grad()
    with mx.autograd.record():
        y = block(x)
    y.backward()
    trainer.step(1)
    np.testing.assert_array_equal(block.const.data().asnumpy(), value)
    assert (x.grad.asnumpy() == 1).all()
    assert block.const.grad_req == "null"
    with pytest.warns(UserWarning, match=r"Constant 'addconstant.*_const' has no gradient"):
        block.const.grad_req = "write"


# -- dictionaries ----------------------------------------------------------------------------------------------


def test_get_makes_finds_and_merges():
    params = ParameterDict("net_")
    w = params.get("w", shape=(0, 3))
    assert w.name == "net_w" and list(params) == ["net_w"]
    assert params.get("w", shape=(4, 0)) is w
    assert w.shape == (4, 3)
    assert params.get("w", dtype="float32") is w
    with pytest.raises(AssertionError, match=r"'net_w' exists with shape=\(4, 3\), but shape=\(5, 3\)"):
        params.get("w", shape=(5, 3))
    with pytest.raises(AssertionError, match="lr_mult"):
        params.get("w", lr_mult=2.0)
    params.get("w", init="ones")
    assert w.init == "ones"  # None is filled in


def test_shared_dictionary():
    first = ParameterDict("a_")
    w = first.get("w", shape=(2,))
    second = ParameterDict("a_", shared=first)
    assert second.get("w") is w
    assert second.get("b", shape=(1,)).name == "a_b" and "a_b" not in first


def test_get_constant():
    params = ParameterDict("n_")
    with pytest.raises(KeyError, match="no constant is named 'n_c'"):
        params.get_constant("c")
    c = params.get_constant("c", np.array([1.0, 2.0]))
    assert params.get_constant("c") is c
    assert params.get_constant("c", nd.array([1.0, 2.0])) is c
    with pytest.raises(AssertionError, match="another value"):
        params.get_constant("c", np.array([1.0, 3.0]))
    params.get("w", shape=(2,))
    with pytest.raises(AssertionError, match="not a constant"):
        params.get_constant("w", np.array([1.0]))


def test_update_refuses_two_parameters_of_one_name():
    one, two = ParameterDict(), ParameterDict()
    one.get("w", shape=(1,))
    two.get("w", shape=(1,))
    two.get("v", shape=(1,))
    with pytest.raises(AssertionError, match="'w' stands for a different Parameter"):
        one.update(two)
    assert list(one) == ["w"]


def test_repr_of_dictionary():
    params = ParameterDict("net1_")
    params.get("weight", shape=(10, 5), dtype="float32")
    assert str(params) == "net1_ (\n  Parameter net1_weight (shape=(10, 5), dtype=float32)\n)"
    assert str(ParameterDict()) == "(\n\n)"


def test_setattr_zero_grad_list_ctx():
    params = ParameterDict()
    a, b = params.get("a", shape=(2,)), params.get("b", shape=(2,))
    params.initialize(ctx=[mx.cpu(3), mx.cpu(4)])
    assert set(params.list_ctx()) == {mx.cpu(3), mx.cpu(4)}
    a.list_grad()[1][:] = 5
    params.zero_grad()
    assert a.list_grad()[1].asnumpy().tolist() == [0, 0]
    params.setattr("grad_req", "null")
    assert a._grad is None and b._grad is None
    params.zero_grad()  # nothing to do
    params.reset_ctx(mx.cpu(0))
    assert params.list_ctx() == [mx.cpu(0)]


def test_save_and_load(tmp_path):
    file = str(tmp_path / "p.params")
    saved = ParameterDict("net_")
    saved.get("w0", shape=(3, 2))
    saved.get("w1", shape=(4,))
    saved.initialize("uniform", ctx=mx.cpu(1))
    saved.save(file)
    loaded = ParameterDict("net_")
    loaded.get("w0", shape=(3, 0))
    loaded.get("w1")
    loaded.load(file, ctx=mx.cpu(1))
    for name in saved:
        np.testing.assert_array_equal(saved[name].data().asnumpy(), loaded[name].data().asnumpy())
        assert loaded[name].data().ctx == mx.cpu(1)
        assert loaded[name].shape == saved[name].data().shape


def test_saved_value_is_the_mean_over_contexts(tmp_path):
    file = str(tmp_path / "p.params")
    params = ParameterDict()
    w = params.get("w", shape=(2,))
    params.initialize("ones", ctx=[mx.cpu(0), mx.cpu(1)])
    w.data(mx.cpu(1))[:] = 3
    params.save(file)
    assert nd.load(file)["w"].asnumpy().tolist() == [2, 2]


def test_prefixes_of_files(tmp_path):
    file = str(tmp_path / "p.params")
    params = ParameterDict("net_")
    params.get("w", shape=(2,))
    params.initialize("ones")
    params.save(file, strip_prefix="net_")
    assert list(nd.load(file)) == ["w"]
    with pytest.raises(ValueError, match="cannot strip the prefix 'other_' from Parameter 'net_w'"):
        params.save(file, strip_prefix="other_")
    params.load(file, restore_prefix="net_")
    with pytest.raises(AssertionError, match="restore_prefix is 'x_'"):
        params.load(file, restore_prefix="x_")


def test_missing_and_extra_parameters():
    params = ParameterDict()
    params.get("w", shape=(1,))
    params.initialize("zeros")
    with pytest.raises(AssertionError, match="'w' is missing in param_dict, which has 'v'"):
        params.load_dict({"v": nd.ones((1,))})
    with pytest.raises(AssertionError, match="'v' in param_dict is no parameter here"):
        params.load_dict({"arg:w": nd.ones((1,)), "aux:v": nd.ones((1,))})
    params.load_dict({"arg:w": nd.ones((1,)), "aux:v": nd.ones((1,))}, ignore_extra=True)
    assert params["w"].data().asscalar() == 1
    params.load_dict({}, allow_missing=True)
    assert params["w"].data().asscalar() == 1


def test_loading_other_shapes_types_and_contexts():
    params = ParameterDict()
    w = params.get("w", shape=(2,))
    params.initialize("zeros")
    with pytest.raises(AssertionError, match=r"shape \(2,\) cannot be loaded: the saved array has shape \(3,\)"):
        params.load_dict({"w": nd.ones((3,))})
    with pytest.raises(AssertionError, match=r"dtype float32 cannot be loaded.*float16.*cast_dtype=True"):
        params.load_dict({"w": nd.ones((2,), dtype="float16")})
    with pytest.raises(AssertionError, match=r"on \[cpu\(1\)\], because it was initialized on \[cpu\(0\)\]"):
        params.load_dict({"w": nd.ones((2,))}, ctx=mx.cpu(1))
    params.load_dict({"w": nd.ones((2,), dtype="float16")}, cast_dtype=True)
    assert w.data().dtype == np.float32
    params.load_dict({"w": nd.ones((2,), dtype="float16")}, cast_dtype=True, dtype_source="saved")
    assert w.data().dtype == np.float16 and w.data().asnumpy().tolist() == [1, 1]


def test_initialize_verbose_accepts_names():
    params = ParameterDict()
    params.get("w", shape=(1,))
    params.initialize("ones", verbose=True)
    assert params["w"].data().asscalar() == 1


def test_nothing_warns_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params = ParameterDict("q_")
        params.get("w", shape=(1,))
        params.initialize()
        params.zero_grad()
