"""Blocks: names, children, hooks, files, deferred shapes, hybridizing."""

from __future__ import annotations

import base64
import json
import re
import warnings

import numpy as np
import pytest

import mxcore as mx
from mxcore import gluon, nd
from mxcore.gluon import nn

# Written by MXNet 1.9.1: Dense(2, in_units=3, prefix='d_') with weight [[0, 1, 2], [3, 4, 5]] and bias [7, 8] in a
# HybridSequential, saved by save_parameters, by collect_params().save, and with its prefix stripped.
MXNET_FILES = {
    "structural": (
        "EgEAAAAAAAAAAAAAAAAAAAIAAAAAAAAAyfqT+QAAAAACAAAAAgAAAAAAAAADAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAIA/AAAA"
        "QAAAQEAAAIBAAACgQMn6k/kAAAAAAQAAAAIAAAAAAAAAAQAAAAAAAAAAAAAAAADgQAAAAEECAAAAAAAAAAgAAAAAAAAAMC53ZWln"
        "aHQGAAAAAAAAADAuYmlhcw=="
    ),
    "full": (
        "EgEAAAAAAAAAAAAAAAAAAAIAAAAAAAAAyfqT+QAAAAACAAAAAgAAAAAAAAADAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAIA/AAAA"
        "QAAAQEAAAIBAAACgQMn6k/kAAAAAAQAAAAIAAAAAAAAAAQAAAAAAAAAAAAAAAADgQAAAAEECAAAAAAAAAAgAAAAAAAAAZF93ZWln"
        "aHQGAAAAAAAAAGRfYmlhcw=="
    ),
    "stripped": (
        "EgEAAAAAAAAAAAAAAAAAAAIAAAAAAAAAyfqT+QAAAAACAAAAAgAAAAAAAAADAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAIA/AAAA"
        "QAAAQEAAAIBAAACgQMn6k/kAAAAAAQAAAAIAAAAAAAAAAQAAAAAAAAAAAAAAAADgQAAAAEECAAAAAAAAAAYAAAAAAAAAd2VpZ2h0"
        "BAAAAAAAAABiaWFz"
    ),
}


class Net(gluon.Block):
    def __init__(self, in_units=0, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.dense0 = nn.Dense(5, in_units=in_units)
            self.dense1 = nn.Dense(5, in_units=in_units)

    def forward(self, x):
        return self.dense1(self.dense0(x))


# -- names -------------------------------------------------------------------------------------------------------


def test_names_are_counted_per_manager_and_per_parent():
    with mx.name.NameManager():
        assert [nn.Dense(1).name, nn.Dense(1).name, nn.Conv2D(1, 1).name] == ["dense0", "dense1", "conv0"]
        net = nn.Sequential()
        assert net.prefix == "sequential0_"
        with net.name_scope():
            inner = nn.Sequential()
            assert inner.prefix == "sequential0_sequential0_"
            with inner.name_scope():
                assert nn.Dense(1).prefix == "sequential0_sequential0_dense0_"
            assert nn.Dense(1).prefix == "sequential0_dense0_"
        with net.name_scope():
            assert nn.Dense(1).prefix == "sequential0_dense1_"
            assert nn.Dense(1, prefix="out_").prefix == "sequential0_out_"
        assert nn.Dense(1).prefix == "dense2_"


def test_activation_is_named_after_its_function():
    with mx.name.NameManager():
        assert nn.Activation("relu").name == "relu0"
        assert nn.Dense(1, activation="tanh", prefix="d_").act.prefix == "d_tanh_"


def test_empty_prefix_opens_no_scope():
    with mx.name.NameManager():
        net = nn.HybridSequential(prefix="")
        with net.name_scope():
            net.add(nn.Dense(1))
        assert list(net.collect_params()) == ["dense0_weight", "dense0_bias"]


def test_scope_may_be_entered_again_inside_itself():
    with mx.name.NameManager():
        net = nn.Sequential(prefix="n_")
        with net.name_scope():
            with net.name_scope():
                assert nn.Dense(1).prefix == "n_dense0_"
            assert nn.Dense(1).prefix == "n_dense1_"
        assert nn.Dense(1).prefix == "dense0_"


def test_name_without_underscore():
    assert nn.Dense(1, prefix="abc").name == "abc"
    assert nn.Dense(1, prefix="abc_").name == "abc"


# -- parameters ----------------------------------------------------------------------------------------------------


def test_collect_params_by_pattern():
    net = nn.HybridSequential(prefix="test_")
    with net.name_scope():
        net.add(nn.Conv2D(10, 3), nn.Dense(10, activation="relu"))
    assert list(net.collect_params()) == [
        "test_conv0_weight",
        "test_conv0_bias",
        "test_dense0_weight",
        "test_dense0_bias",
    ]
    assert list(net.collect_params(".*weight")) == ["test_conv0_weight", "test_dense0_weight"]
    assert list(net.collect_params("test_conv0_bias|test_dense0_bias")) == ["test_conv0_bias", "test_dense0_bias"]


def test_sharing_parameters(tmp_path):
    net1 = Net(prefix="net1_", in_units=5)
    net2 = Net(prefix="net2_", params=net1.collect_params())
    assert net2.dense0.weight is net1.dense0.weight
    net1.initialize()
    x = nd.ones((3, 5))
    np.testing.assert_array_equal(net1(x).asnumpy(), net2(x).asnumpy())
    file = str(tmp_path / "net1.params")
    net1.save_parameters(file)
    net3 = Net(prefix="net3_")
    net3.load_parameters(file, mx.cpu())
    np.testing.assert_array_equal(net1(x).asnumpy(), net3(x).asnumpy())


def test_deferred_shape_found_through_the_sharing_block():
    net4 = Net(prefix="net4_")
    net5 = Net(prefix="net5_", in_units=5, params=net4.collect_params())
    net4.initialize()
    net5(nd.zeros((3, 5)))
    assert net4.dense0.weight.shape == (5, 5)


# -- attributes ----------------------------------------------------------------------------------------------------


def test_attributes_of_other_kinds_may_change_type():
    block = gluon.Block()
    block.a = None
    block.a = 1
    assert block.a == 1


def test_child_may_be_replaced_by_a_block_only():
    block = gluon.Block()
    block.b = gluon.Block()
    with pytest.raises(TypeError, match=r"attribute 'b' of Block is a .*Block.* and cannot become a .*tuple"):
        block.b = (2,)
    new = gluon.Block()
    block.b = new
    assert list(block._children.values()) == [new]


def test_parameter_attribute_is_final():
    block = gluon.Block()
    block.p = gluon.Parameter("p", shape=(1,))
    with pytest.raises(TypeError, match="cannot become"):
        block.p = 3
    with pytest.raises(AssertionError, match="'p' of Block already holds a Parameter"):
        block.p = gluon.Parameter("q", shape=(1,))


def test_blocks_in_containers_are_warned_of():
    class Hidden(gluon.Block):
        def __init__(self):
            super().__init__()
            self.layers = {"a": [nn.Dense(1)]}

    with pytest.warns(UserWarning, match=r"Hidden.layers holds Blocks that are not registered"):
        Hidden().collect_params()

    class Registered(gluon.Block):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Dense(1)]
            self.register_child(self.layers[0])
            self.data = {"a": "4", "b": 123}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(Registered().collect_params())) == 2


def test_hybrid_children_only():
    with pytest.raises(ValueError, match="children of a HybridBlock must be HybridBlocks"):
        nn.HybridSequential().add(nn.Sequential())


def test_repr():
    with mx.name.NameManager():
        net = Net(in_units=4)
    assert repr(net) == "Net(\n  (dense0): Dense(4 -> 5, linear)\n  (dense1): Dense(4 -> 5, linear)\n)"
    outer = nn.Sequential()
    outer.add(nn.Sequential(), net)
    assert repr(outer) == (
        "Sequential(\n  (0): Sequential(\n  \n  )\n  (1): Net(\n    (dense0): Dense(4 -> 5, linear)\n"
        "    (dense1): Dense(4 -> 5, linear)\n  )\n)"
    )


# -- running -------------------------------------------------------------------------------------------------------


def test_hooks_see_inputs_and_output_until_detached():
    seen = []
    block = nn.Dense(2)
    block.initialize()
    pre = block.register_forward_pre_hook(lambda b, args: seen.append(("pre", b, args[0].shape)))
    post = block.register_forward_hook(lambda b, args, out: seen.append(("post", b, out.shape)))
    block(nd.ones((3, 5)))
    assert seen == [("pre", block, (3, 5)), ("post", block, (3, 2))]
    post.detach()
    block(nd.ones((3, 5)))
    assert len(seen) == 3
    with pre:
        pass
    block(nd.ones((3, 5)))
    assert len(seen) == 3
    post.detach()  # again: harmless


def test_a_hook_may_detach_itself():
    block = nn.Flatten()
    handle = block.register_forward_hook(lambda *_: handle.detach())
    block(nd.ones((2, 2)))
    assert not block._forward_hooks


def test_apply_goes_from_the_leaves_up():
    block = nn.HybridSequential(prefix="test_")
    with block.name_scope():
        block.add(nn.Dense(10), nn.Dropout(0.5))
    names = []
    assert block.apply(lambda b: names.append(b.name)) is block
    assert names == ["test_dense0", "test_dropout0", "test"]


def test_undefined_forward():
    with pytest.raises(NotImplementedError, match=r"Block does not define forward\(\)"):
        gluon.Block()(nd.ones((1,)))
    with pytest.raises(NotImplementedError, match=r"does not define hybrid_forward\(\)"):
        gluon.HybridBlock()(nd.ones((1,)))


def test_no_array_among_inputs():
    with pytest.raises(ValueError, match="needs at least one NDArray among its inputs, got NoneType, int"):
        gluon.HybridBlock()(None, 3)


def test_hybrid_forward_runs_on_the_context_of_its_input():
    class Fill(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.zeros((2,))

    assert Fill()(nd.ones((1,), ctx=mx.cpu(5))).ctx == mx.cpu(5)


def test_several_contexts():
    net = nn.Dense(2)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    a, b = net(nd.ones((1, 3), ctx=mx.cpu(0))), net(nd.ones((1, 3), ctx=mx.cpu(1)))
    assert (a.ctx, b.ctx) == (mx.cpu(0), mx.cpu(1))
    np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    with pytest.raises(RuntimeError, match=r"not on cpu\(7\)"):
        net(nd.ones((1, 3), ctx=mx.cpu(7)))


def test_not_initialized():
    with pytest.raises(RuntimeError, match="has not been initialized"):
        nn.Dense(2)(nd.ones((1, 3)))


def test_cast():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 1), nn.BatchNorm(), nn.Dense(1))
    net.initialize()
    net.cast("float64")
    assert net(nd.ones((1, 1, 2, 2), dtype="float64")).dtype == np.float64
    net.cast("float16")
    assert np.dtype(net[1].gamma.dtype) == np.float32 and net[0].weight.data().dtype == np.float16


# -- deferred shapes -------------------------------------------------------------------------------------------------


def test_shapes_through_a_stack():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, kernel_size=2, padding=1), nn.BatchNorm(), nn.Dense(10))
    net.initialize()
    net(nd.ones((2, 3, 5, 7)))
    assert (net[0].weight.shape, net[1].gamma.shape, net[2].weight.shape) == ((64, 3, 2, 2), (64,), (10, 3072))
    assert net[1].running_var.shape == (64,)


def test_own_parameters_found_by_the_operator_that_takes_them():
    class Custom(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(4, 0), init="ones", allow_deferred_init=True)
                self.scale = self.params.get("scale", shape=(0, 0), init="ones", allow_deferred_init=True)
                self.shift = self.params.get("shift", shape=(0, 0), init="ones", allow_deferred_init=True)
                self.gamma = self.params.get("gamma", shape=(0,), init="ones", allow_deferred_init=True)
                self.beta = self.params.get("beta", shape=(0,), init="zeros", allow_deferred_init=True)

        def hybrid_forward(self, F, x, weight, scale, shift, gamma, beta):
            y = F.FullyConnected(x, weight, num_hidden=4, no_bias=True)
            y = F.elemwise_mul(y, scale) + shift
            return F.LayerNorm(y, gamma=gamma, beta=beta) + y * scale

    block = Custom()
    block.initialize()
    x = nd.ones((2, 3))
    with mx.autograd.record():
        first = block(x)
    first.backward()
    gradient = block.weight.grad().asnumpy()
    assert np.abs(gradient).sum() > 0  # the first pass is recorded like any other
    shapes = [p.shape for p in (block.weight, block.scale, block.shift, block.gamma, block.beta)]
    assert shapes == [(4, 3), (2, 4), (2, 4), (4,), (4,)]
    with mx.autograd.record():
        second = block(x)
    second.backward()
    np.testing.assert_allclose(first.asnumpy(), second.asnumpy(), rtol=1e-6)
    np.testing.assert_allclose(gradient, block.weight.grad().asnumpy(), rtol=1e-6)


def test_shape_that_no_operator_tells():
    class Reshaped(gluon.HybridBlock):
        def __init__(self, how, **kwargs):
            super().__init__(**kwargs)
            self.how = how
            self.w = self.params.get("w", shape=(0, 4), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            return self.how(F, x, w)

    def error_of(how):
        block = Reshaped(how, prefix="r_")
        block.initialize()
        with pytest.raises(ValueError) as caught:
            block(nd.ones((2, 3)))
        return str(caught.value)

    message = error_of(lambda F, x, w: F.dot(x, w))
    assert "Deferred initialization failed: the shape (0, 4) of Parameter 'r_w'" in message
    assert "from operator dot" in message and "declare the whole shape" in message
    assert "from its attribute 'reshape'" in error_of(lambda F, x, w: F.dot(x, w.reshape((3, 4))))
    assert "from an operation with int" in error_of(lambda F, x, w: w + 1)


def test_first_pass_draws_random_numbers_once():
    class Noisy(gluon.HybridBlock):
        def __init__(self, in_units, **kwargs):
            super().__init__(**kwargs)
            self.w = self.params.get("w", shape=(2, in_units), init="ones", allow_deferred_init=True)
            self.drop = nn.Dropout(0.5)

        def hybrid_forward(self, F, x, w):
            return F.FullyConnected(self.drop(x), w, num_hidden=2, no_bias=True)

    outputs = []
    for in_units in (64, 0):
        block = Noisy(in_units)
        block.initialize()
        mx.random.seed(3)
        with mx.autograd.train_mode():
            outputs.append(block(nd.ones((1, 64))).asnumpy())
    np.testing.assert_array_equal(*outputs)


def test_infer_shape_leaves_values_alone():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Dense(2))
    net.infer_shape(nd.ones((1, 3, 5, 5)))
    assert net[0].weight.shape == (4, 3, 3, 3) and net[2].weight.shape == (2, 36)
    with pytest.raises(RuntimeError, match="has not been initialized"):
        net[0].weight.data()
    net.initialize()  # not deferred any more
    assert net[2].weight.data().shape == (2, 36)
    before = net[1].running_mean.data().asnumpy()
    with mx.autograd.record():
        net.infer_shape(nd.ones((1, 3, 5, 5)))
    np.testing.assert_array_equal(before, net[1].running_mean.data().asnumpy())


def test_infer_type():
    net = nn.HybridSequential()
    net.add(nn.Embedding(5, 4, dtype="float16"), nn.Dense(2), nn.BatchNorm())
    net.initialize()
    net.infer_type(nd.ones((3,)))
    types = [np.dtype(p.dtype).name for p in (net[0].weight, net[1].weight, net[2].gamma)]
    assert types == ["float16", "float16", "float32"]


# -- hybridizing -----------------------------------------------------------------------------------------------------


def test_hybridized_gives_the_same():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    net.initialize()
    x = nd.ones((2, 3))
    plain = net(x).asnumpy()
    net.hybridize(static_alloc=True, static_shape=True)
    np.testing.assert_array_equal(plain, net(x).asnumpy())
    assert net[0]._active and net[0].act._active
    net.hybridize(False)
    assert not net[0]._active


def test_hybridize_checks_its_arguments():
    net = nn.Dense(2, prefix="d_")
    with pytest.raises(mx.MXNetError, match="there is no graph backend 'TensorRT'"):
        net.hybridize(backend="TensorRT")
    with pytest.raises(mx.MXNetError, match="static_shape=True needs static_alloc=True"):
        net.hybridize(static_shape=True)
    with pytest.raises(ValueError, match="needs the name of a backend"):
        net.optimize_for(nd.ones((1, 2)))
    assert not net._active


class Sum(gluon.HybridBlock):
    def hybrid_forward(self, F, a, b=None):
        return sum(x for x in (a, b) if x is not None)


def test_hybridized_inputs_must_be_arrays_on_one_context():
    block = Sum()
    assert block(nd.ones((2,)), 1).asnumpy().tolist() == [2, 2]
    block.hybridize()
    with pytest.raises(ValueError, match="must be NDArrays or nested lists of them, got 1"):
        block(nd.ones((2,)), 1)
    with pytest.raises(ValueError, match=r"must be on one context, but are on cpu\(1\), cpu\(2\)"):
        block(nd.ones((2,), ctx=mx.cpu(1)), nd.ones((2,), ctx=mx.cpu(2)))


def test_hybridized_inputs_keep_their_structure():
    block = Sum()
    block.hybridize()
    one = nd.ones((2,))
    block(one)
    block(one, None)
    with pytest.raises(ValueError, match=re.escape("first called with inputs structured as [0]")):
        block(one, one)
    block.hybridize()
    assert block(one, one).asnumpy().tolist() == [2, 2]
    with pytest.raises(ValueError, match="first called"):
        block(None, one)


def test_only_the_outermost_block_is_checked():
    class Outer(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.inner = Sum()

        def hybrid_forward(self, F, x):
            return self.inner(x, 1)

    outer = Outer()
    outer.hybridize()
    assert outer(nd.ones((2,))).asnumpy().tolist() == [2, 2]
    with pytest.raises(ValueError, match="must be NDArrays"):
        outer.inner(nd.ones((2,)), 1)


def test_graphs_are_refused_with_a_reason(tmp_path):
    net = nn.Dense(2, prefix="d_")
    with pytest.raises(mx.MXNetError, match=r"export of 'd'.*has no graphs"):
        net.export(str(tmp_path / "net"))
    with pytest.raises(mx.MXNetError, match="register_op_hook on 'd'"):
        net.register_op_hook(print)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["structural", "full"])
def test_files_of_mxnet(tmp_path, kind):
    file = tmp_path / "net.params"
    file.write_bytes(base64.b64decode(MXNET_FILES[kind]))
    net = nn.HybridSequential(prefix="")
    net.add(nn.Dense(2, prefix="d_"))
    net.load_parameters(str(file))
    assert net(nd.array([[1, 1, 1]])).asnumpy().tolist() == [[10, 20]]


def test_file_of_mxnet_for_a_single_layer(tmp_path):
    file = tmp_path / "layer.params"
    file.write_bytes(base64.b64decode(MXNET_FILES["stripped"]))
    layer = nn.Dense(2)
    layer.load_parameters(str(file))
    assert layer(nd.array([[1, 1, 1]])).asnumpy().tolist() == [[10, 20]]


def test_file_is_mxnets_byte_by_byte(tmp_path):
    net = nn.HybridSequential(prefix="n_")
    net.add(nn.Dense(2, in_units=3, prefix="d_"))
    net.initialize()
    net[0].weight.set_data(nd.arange(6).reshape((2, 3)))
    net[0].bias.set_data(nd.array([7, 8]))
    file = tmp_path / "net.params"
    net.save_parameters(str(file))
    assert base64.b64encode(file.read_bytes()).decode() == MXNET_FILES["structural"]
    net.collect_params().save(str(file))
    assert base64.b64encode(file.read_bytes()).decode() == MXNET_FILES["full"]


def test_shared_parameters_saved_once_or_twice(tmp_path):
    class Pair(gluon.Block):
        def __init__(self):
            super().__init__()
            self.a = nn.Dense(2, in_units=2, use_bias=False)
            self.b = nn.Dense(2, in_units=2, use_bias=False, params=self.a.params)

    file = str(tmp_path / "pair.params")
    pair = Pair()
    pair.initialize()
    for deduplicate, names in ((True, ["b.weight"]), (False, ["a.weight", "b.weight"])):
        pair.save_parameters(file, deduplicate=deduplicate)
        assert sorted(nd.load(file)) == names
        other = Pair()
        other.load_parameters(file)
        np.testing.assert_array_equal(other.a.weight.data().asnumpy(), pair.b.weight.data().asnumpy())


def test_missing_and_extra(tmp_path):
    file = str(tmp_path / "net.params")
    small, big = nn.Sequential(), nn.Sequential()
    small.add(nn.Dense(2, in_units=3))
    big.add(nn.Dense(2, in_units=3), nn.Dense(1, in_units=2))
    small.initialize()
    big.initialize()
    small.save_parameters(file)
    with pytest.raises(AssertionError, match=r"'1.weight' is missing in file .*which has '0.weight', '0.bias'"):
        big.load_parameters(file)
    big.load_parameters(file, allow_missing=True)
    np.testing.assert_array_equal(big[0].weight.data().asnumpy(), small[0].weight.data().asnumpy())
    big.save_parameters(file)
    with pytest.raises(ValueError, match=r"'1.weight' in file .* is no Parameter of this block, which has '0.weight'"):
        small.load_parameters(file)
    small.load_parameters(file, ignore_extra=True)


def test_loading_fills_in_shapes_and_types(tmp_path):
    file = str(tmp_path / "net.params")
    net = nn.Dense(10, in_units=4)
    net.initialize()
    net.cast("float16")
    net.save_parameters(file)
    other = nn.Dense(10)
    other.initialize()
    with pytest.raises(AssertionError, match="cast_dtype=True"):
        other.load_parameters(file)
    other.load_parameters(file, cast_dtype=True)
    assert other.weight.shape == (10, 4) and other.weight.data().dtype == np.float32
    other.load_parameters(file, cast_dtype=True, dtype_source="saved")
    assert other.weight.dtype == np.float16


def test_names_needed(tmp_path):
    file = str(tmp_path / "list.params")
    nd.save(file, [nd.ones((1,))])
    with pytest.raises(ValueError, match="1 arrays without names"):
        nn.Dense(1).load_parameters(file)


def test_block_without_parameters(tmp_path):
    file = str(tmp_path / "empty.params")
    nn.Flatten().save_parameters(file)
    nn.Flatten().load_parameters(file)


def test_deprecated_names(tmp_path):
    file = str(tmp_path / "old.params")
    net = nn.HybridSequential(prefix="a_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=2))
    net.initialize()
    with pytest.warns(UserWarning, match="save_params is deprecated"):
        net.save_params(file)
    assert list(nd.load(file)) == ["dense0_weight", "dense0_bias"]
    other = nn.HybridSequential(prefix="b_")
    with other.name_scope():
        other.add(nn.Dense(2))
    with pytest.warns(UserWarning, match="load_params is deprecated"):
        other.load_params(file)
    np.testing.assert_array_equal(other[0].weight.data().asnumpy(), net[0].weight.data().asnumpy())


def test_save_and_load_with_names(tmp_path):
    def build(name):
        net = nn.HybridSequential(prefix=f"{name}_")
        net.add(nn.Dense(2, prefix=f"{name}d_"))
        return net

    saved, loaded = build("n"), build("m")
    saved.initialize()
    x = nd.ones((1, 3))
    out = saved(x)
    prefix = str(tmp_path / "model")
    saved.save(prefix)
    model = json.loads((tmp_path / "model-model.json").read_text())
    assert model == {
        "hybridsequential0": {
            "orig_name": "n",
            "hybridized": False,
            "children": {"nd": "0"},
            "dense1": {"orig_name": "nd", "hybridized": False, "children": {}},
        }
    }
    loaded.load(prefix)
    assert loaded.name == "n" and list(loaded.collect_params()) == ["nd_weight", "nd_bias"]
    np.testing.assert_array_equal(out.asnumpy(), loaded(x).asnumpy())
    with pytest.raises(ValueError, match="no block 'dense0' at this place, but hybridsequential0"):
        nn.Dense(2).load(prefix)


def test_summary(capsys):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Flatten(), nn.Dense(2))
    net.initialize()
    net.summary(nd.ones((2, 3, 5, 5)))
    # As MXNet 1.9.1 prints it.
    assert capsys.readouterr().out.splitlines() == [
        "-" * 80,
        "        Layer (type)                                Output Shape         Param #",
        "=" * 80,
        "               Input                                (2, 3, 5, 5)               0",
        "            Conv2D-1                                (2, 4, 3, 3)             112",
        "         BatchNorm-2                                (2, 4, 3, 3)              16",
        "           Flatten-3                                     (2, 36)               0",
        "             Dense-4                                      (2, 2)              74",
        "=" * 80,
        "Parameters in forward computation graph, duplicate included",
        "   Total params: 202",
        "   Trainable params: 194",
        "   Non-trainable params: 8",
        "Shared params in forward computation graph: 0",
        "Unique parameters in model: 202",
        "-" * 80,
    ]
    assert not net[0]._forward_hooks
    net.hybridize()
    with pytest.raises(AssertionError, match="is hybridized; summary"):
        net.summary(nd.ones((2, 3, 5, 5)))
