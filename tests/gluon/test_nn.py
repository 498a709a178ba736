"""Layers against MXNet 1.9.1: what they are called, how they are shown, what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore import autograd, gluon, nd
from mxcore.gluon import loss, nn

# Layer, repr, start of its name, shapes of its parameters: as MXNet 1.9.1 gives them.
DESCRIPTIONS = [
    (lambda: nn.Dense(3), "Dense(None -> 3, linear)", "dense", {"weight": (3, 0), "bias": (3,)}),
    (
        lambda: nn.Dense(3, in_units=2, activation="relu", use_bias=False),
        "Dense(2 -> 3, Activation(relu))",
        "dense",
        {"weight": (3, 2)},
    ),
    (lambda: nn.Dropout(0.5), "Dropout(p = 0.5, axes=())", "dropout", {}),
    (
        lambda: nn.BatchNorm(),
        "BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, in_channels=None)",
        "batchnorm",
        {"gamma": (0,), "beta": (0,), "running_mean": (0,), "running_var": (0,)},
    ),
    (
        lambda: nn.BatchNorm(in_channels=4, axis=3),
        "BatchNorm(axis=3, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, in_channels=4)",
        "batchnorm",
        {"gamma": (4,), "beta": (4,), "running_mean": (4,), "running_var": (4,)},
    ),
    (
        lambda: nn.BatchNormReLU(),
        "BatchNormReLU(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, in_channels=None)",
        "batchnormrelu",
        {"gamma": (0,), "beta": (0,), "running_mean": (0,), "running_var": (0,)},
    ),
    (
        lambda: nn.InstanceNorm(),
        "InstanceNorm(eps=1e-05, axis=1, center=True, scale=False, in_channels=0)",
        "instancenorm",
        {"gamma": (0,), "beta": (0,)},
    ),
    (
        lambda: nn.LayerNorm(in_channels=3),
        "LayerNorm(eps=1e-05, axis=-1, center=True, scale=True, in_channels=3)",
        "layernorm",
        {"gamma": (3,), "beta": (3,)},
    ),
    (
        lambda: nn.GroupNorm(2),
        "GroupNorm(eps=1e-05, num_groups=2, center=True, scale=True)",
        "groupnorm",
        {"gamma": (2,), "beta": (2,)},
    ),
    (lambda: nn.Embedding(3, 4), "Embedding(3 -> 4, float32)", "embedding", {"weight": (3, 4)}),
    (lambda: nn.Flatten(), "Flatten", "flatten", {}),
    (lambda: nn.Activation("tanh"), "Activation(tanh)", "tanh", {}),
    (lambda: nn.LeakyReLU(0.1), "LeakyReLU(0.1)", "leakyrelu", {}),
    (lambda: nn.PReLU(), "PReLU(\n\n)", "prelu", {"alpha": (1,)}),
    (lambda: nn.ELU(), "ELU(\n\n)", "elu", {}),
    (lambda: nn.SELU(), "SELU(\n\n)", "selu", {}),
    (lambda: nn.GELU(), "GELU(\n\n)", "gelu", {}),
    (lambda: nn.Swish(), "Swish(\n\n)", "swish", {}),
    (
        lambda: nn.Conv1D(2, 3),
        "Conv1D(None -> 2, kernel_size=(3,), stride=(1,))",
        "conv",
        {"weight": (2, 0, 3), "bias": (2,)},
    ),
    (
        lambda: nn.Conv2D(4, 3, padding=1, strides=2, groups=2, in_channels=4, activation="relu", use_bias=False),
        "Conv2D(2 -> 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2, bias=False, Activation(relu))",
        "conv",
        {"weight": (4, 2, 3, 3)},
    ),
    (
        lambda: nn.Conv2D(4, (3, 2), dilation=2),
        "Conv2D(None -> 4, kernel_size=(3, 2), stride=(1, 1), dilation=(2, 2))",
        "conv",
        {"weight": (4, 0, 3, 2), "bias": (4,)},
    ),
    (
        lambda: nn.Conv3D(2, 2),
        "Conv3D(None -> 2, kernel_size=(2, 2, 2), stride=(1, 1, 1))",
        "conv",
        {"weight": (2, 0, 2, 2, 2), "bias": (2,)},
    ),
    (
        lambda: nn.Conv2DTranspose(4, 3, output_padding=1, strides=2),
        "Conv2DTranspose(4 -> 0, kernel_size=(3, 3), stride=(2, 2))",
        "conv",
        {"weight": (0, 4, 3, 3), "bias": (4,)},
    ),
    (
        lambda: nn.Conv2D(4, 3, layout="NHWC", in_channels=5),
        "Conv2D(3 -> 4, kernel_size=(3, 3), stride=(1, 1))",
        "conv",
        {"weight": (4, 3, 3, 5), "bias": (4,)},
    ),
    (
        lambda: nn.MaxPool2D(2, 2),
        "MaxPool2D(size=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=False, global_pool=False, "
        "pool_type=max, layout=NCHW)",
        "pool",
        {},
    ),
    (
        lambda: nn.AvgPool1D(),
        "AvgPool1D(size=(2,), stride=(2,), padding=(0,), ceil_mode=False, global_pool=False, pool_type=avg, "
        "layout=NCW)",
        "pool",
        {},
    ),
    (
        lambda: nn.GlobalAvgPool2D(),
        "GlobalAvgPool2D(size=(1, 1), stride=(1, 1), padding=(0, 0), ceil_mode=True, global_pool=True, "
        "pool_type=avg, layout=NCHW)",
        "pool",
        {},
    ),
    (
        lambda: nn.MaxPool3D(ceil_mode=True),
        "MaxPool3D(size=(2, 2, 2), stride=(2, 2, 2), padding=(0, 0, 0), ceil_mode=True, global_pool=False, "
        "pool_type=max, layout=NCDHW)",
        "pool",
        {},
    ),
    (
        lambda: nn.GlobalMaxPool1D(),
        "GlobalMaxPool1D(size=(1,), stride=(1,), padding=(0,), ceil_mode=True, global_pool=True, "
        "pool_type=max, layout=NCW)",
        "pool",
        {},
    ),
    (lambda: nn.ReflectionPad2D(2), "ReflectionPad2D(\n\n)", "reflectionpad2d", {}),
    (lambda: nn.Lambda("relu"), "Lambda(relu)", "lambda", {}),
    (lambda: nn.HybridLambda("relu"), "HybridLambda(relu)", "hybridlambda", {}),
    (lambda: nn.HybridLambda(lambda F, x: x), "HybridLambda(<lambda>)", "hybridlambda", {}),
    (lambda: loss.L2Loss(), "L2Loss(batch_axis=0, w=1.0)", "l2loss", {}),
    (lambda: loss.SoftmaxCELoss(), "SoftmaxCrossEntropyLoss(batch_axis=0, w=None)", "softmaxcrossentropyloss", {}),
    (lambda: loss.CTCLoss(), "CTCLoss(batch_axis=0, w=None)", "ctcloss", {}),
]


@pytest.mark.parametrize("make,text,name,shapes", DESCRIPTIONS, ids=[row[1].split("(")[0] for row in DESCRIPTIONS])
def test_description(make, text, name, shapes):
    with mx.name.NameManager():
        layer = make()
    assert repr(layer) == text
    assert layer.name == f"{name}0"
    assert {key[len(layer.prefix) :]: p.shape for key, p in layer.collect_params().items()} == shapes


# Name, layer, shape of the output, and what MXNet 1.9.1 computes for x of (2, 2, 4, 4): output, gradient of
# sum(out * out) in x and in the parameters, each summed with weights cos(0), cos(1), ...
# One figure is ours: MXNet's gradient of SELU below zero is off (-1.50782 here).
VALUES = [
    (
        "conv",
        lambda: nn.Conv2D(3, 3, padding=1, strides=2),
        (2, 3, 2, 2),
        1.1604,
        -2.36345,
        {"weight": 12.24942, "bias": -13.04451},
    ),
    (
        "convg",
        lambda: nn.Conv2D(2, 2, groups=2, dilation=2),
        (2, 2, 2, 2),
        -0.031,
        0.00195,
        {"weight": 3.99309, "bias": -3.44553},
    ),
    (
        "deconv",
        lambda: nn.Conv2DTranspose(2, 3, strides=2, output_padding=1, padding=1),
        (2, 2, 8, 8),
        2.44685,
        -8.03064,
        {"weight": -8.81775, "bias": -114.68816},
    ),
    (
        "dense",
        lambda: nn.Dense(3, activation="tanh"),
        (2, 3),
        -0.57383,
        0.24811,
        {"weight": -12.85077, "bias": -0.95591},
    ),
    (
        "densef",
        lambda: nn.Dense(2, flatten=False),
        (2, 2, 4, 2),
        -0.64246,
        0.76954,
        {"weight": -3.32704, "bias": -13.43336},
    ),
    ("ln", lambda: nn.LayerNorm(), (2, 2, 4, 4), 1.50583, 0.59916, {"gamma": -12.94829, "beta": -23.33036}),
    ("in", lambda: nn.InstanceNorm(), (2, 2, 4, 4), 0.51491, -2e-05, {"beta": -28.32242}),
    ("gn", lambda: nn.GroupNorm(2), (2, 2, 4, 4), 0.51491, -2e-05, {"gamma": -19.67714, "beta": -28.32242}),
    ("bn", lambda: nn.BatchNorm(momentum=0.8), (2, 2, 4, 4), 0.39273, -2e-05, {"gamma": -19.67714, "beta": -28.32242}),
    ("prelu", lambda: nn.PReLU(in_channels=2), (2, 2, 4, 4), 0.49773, 0.04241, {"alpha": -6.74055}),
    ("gelu", lambda: nn.GELU(), (2, 2, 4, 4), -0.08806, 0.34184, {}),
    ("elu", lambda: nn.ELU(0.5), (2, 2, 4, 4), -0.28408, 0.11734, {}),
    ("selu", lambda: nn.SELU(), (2, 2, 4, 4), -1.34082, -1.67251, {}),
    ("swish", lambda: nn.Swish(2.0), (2, 2, 4, 4), -0.0291, 0.35094, {}),
    ("avg", lambda: nn.AvgPool2D(3, 2, 1, count_include_pad=False), (2, 2, 2, 2), -0.82787, 0.01782, {}),
    ("max", lambda: nn.MaxPool2D(3, 2, ceil_mode=True), (2, 2, 2, 2), 1.05379, 0.93461, {}),
    ("gap", lambda: nn.GlobalAvgPool2D(), (2, 2, 1, 1), -0.14143, -0.01266, {}),
    ("rpad", lambda: nn.ReflectionPad2D(1), (2, 2, 6, 6), -0.9866, -0.39917, {}),
]


def weighted(array):
    values = np.asarray(array.asnumpy(), np.float64).ravel()
    return float((values * np.cos(np.arange(values.size))).sum())


def prepared(make):
    """The layer with parameters that are easy to say, and its input."""
    x = nd.array(((np.arange(64) % 7 - 3) / 3).reshape(2, 2, 4, 4))
    layer = make()
    layer.initialize()
    layer(x)
    for k, (name, p) in enumerate(sorted(layer._reg_params.items())):
        if not name.startswith("running"):
            size = int(np.prod(p.shape))
            p.set_data(nd.array((((np.arange(size) * (k + 1)) % 5 - 1.5) / 4).reshape(p.shape)))
    x.attach_grad()
    return layer, x


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name,make,shape,out,dx,dw", VALUES, ids=[row[0] for row in VALUES])
def test_values(name, make, shape, out, dx, dw, hybridize):
    layer, x = prepared(make)
    if hybridize:
        layer.hybridize()
    with autograd.record():
        y = layer(x)
        total = (y * y).sum()
    total.backward()
    assert y.shape == shape
    assert weighted(y) == pytest.approx(out, abs=2e-4)
    assert weighted(x.grad) == pytest.approx(dx, abs=5e-4)
    found = {key: weighted(p.grad()) for key, p in layer._reg_params.items() if p.grad_req != "null"}
    assert found == pytest.approx(dw, abs=2e-3)


def test_moving_averages():
    layer, x = prepared(lambda: nn.BatchNorm(momentum=0.8))
    with autograd.record():
        y = layer(x)
    y.backward()
    assert layer.running_mean.data().asnumpy().tolist() == pytest.approx([-0.0041667, -0.0020833], abs=1e-6)
    assert layer.running_var.data().asnumpy().tolist() == pytest.approx([0.8901910, 0.8909505], abs=1e-6)
    # In inference they are used and stay.
    expected = [0.0207983, -0.1116865, -0.2441713, -0.3766561]
    assert layer(x).asnumpy().ravel()[:4].tolist() == pytest.approx(expected, abs=1e-5)
    assert layer.running_var.data().asnumpy().tolist() == pytest.approx([0.8901910, 0.8909505], abs=1e-6)


@pytest.mark.parametrize(
    "layer,shape,weight",
    [
        (lambda: nn.Conv2D(4, (3, 2), layout="NHWC", groups=2), (1, 5, 5, 6), (4, 3, 2, 3)),
        (lambda: nn.Conv3D(6, 2, layout="NDHWC", groups=2), (1, 3, 3, 3, 4), (6, 2, 2, 2, 2)),
        (lambda: nn.Conv1D(4, 3, groups=2), (1, 6, 9), (4, 3, 3)),
        (lambda: nn.Conv3DTranspose(6, 2, groups=2), (1, 4, 3, 3, 3), (4, 3, 2, 2, 2)),
        (lambda: nn.Conv1DTranspose(6, 2), (1, 4, 3), (4, 6, 2)),
    ],
)
def test_deferred_weight_shapes(layer, shape, weight):
    net = layer()
    net.infer_shape(nd.ones(shape))
    assert net.weight.shape == weight


@pytest.mark.parametrize("name", ["Conv1D", "Conv2D", "Conv3D", "MaxPool1D", "AvgPool2D", "GlobalAvgPool3D"])
def test_layouts_are_checked(name):
    arguments = (1, 1) if name.startswith("Conv") else ()
    with pytest.raises(AssertionError, match=f"{name} takes layout 'NC"):
        getattr(nn, name)(*arguments, layout="CN")


def test_sizes_are_checked():
    with pytest.raises(AssertionError, match=r"kernel_size must be a number or 2 of them, got \(3,\)"):
        nn.Conv2D(1, (3,))
    with pytest.raises(AssertionError, match=r"pool_size must be a number or 1 of them, got \(2, 2\)"):
        nn.MaxPool1D((2, 2))


@pytest.mark.parametrize("layout,shape", [("NCHW", (2, 2, 10, 10)), ("NHWC", (2, 10, 10, 2))])
def test_ceil_mode(layout, shape):
    x = nd.zeros(shape)
    sizes = [nn.MaxPool2D(3, ceil_mode=ceil, layout=layout)(x).shape for ceil in (False, True)]
    axis = layout.index("H")
    assert [size[axis] for size in sizes] == [3, 4]


def test_dense_without_flatten_and_dtype():
    layer = nn.Dense(4, flatten=False, dtype="float64")
    layer.initialize()
    out = layer(nd.ones((2, 3, 5), dtype="float64"))
    assert out.shape == (2, 3, 4) and out.dtype == np.float64


def test_embedding_gradient():
    layer = nn.Embedding(10, 3)
    layer.initialize()
    with autograd.record():
        y = layer(nd.array([3, 4, 2, 0, 1, 1]))
    y.backward()
    assert layer.weight.grad().asnumpy()[:, 0].tolist() == [1, 2, 1, 1, 1, 0, 0, 0, 0, 0]


def test_dropout_only_while_training():
    x = nd.ones((20, 20))
    layer = nn.Dropout(0.5, axes=(1,))
    assert (layer(x).asnumpy() == 1).all()
    with autograd.train_mode():
        out = layer(x).asnumpy()
    assert set(np.unique(out)) == {0.0, 2.0}
    assert (out == out[:, :1]).all()
    with autograd.train_mode():
        assert (nn.Dropout(0)(x).asnumpy() == 1).all()


def test_leaky_relu_slope():
    assert nn.LeakyReLU(0.25)(nd.array([-4.0, 2.0])).asnumpy().tolist() == [-1, 2]
    with pytest.raises(AssertionError, match="at least 0, got -1"):
        nn.LeakyReLU(-1)


def test_norm_of_wrong_size():
    layer = nn.LayerNorm(in_channels=10)
    layer.initialize()
    with pytest.raises(mx.MXNetError):
        layer(nd.ones((2, 11)))


@pytest.mark.parametrize("kind", [nn.Sequential, nn.HybridSequential])
def test_stacks(kind):
    net = kind()
    assert len(net) == 0 and bool(net)
    layers = [nn.Dense(3) for _ in range(3)]
    net.add(*layers)
    assert net[1] is layers[1] and net[-1] is layers[2]
    part = net[1:3]
    assert type(part) is kind and len(part) == 2 and part[0] is layers[1]
    assert part.prefix == net.prefix
    assert list(net) == layers


def test_hybridizing_a_plain_stack_warns():
    net = nn.Sequential()
    net.add(nn.Dense(2))
    with pytest.warns(UserWarning, match="HybridSequential would hybridize them as one"):
        net.hybridize()
    assert net[0]._active


def test_lambda_layers():
    x = nd.array([[-1.0, 2.0]])
    expected = np.tanh([[-1.0, 2.0]])
    for layer in (nn.Lambda("tanh"), nn.HybridLambda("tanh"), nn.HybridLambda(lambda F, x: F.tanh(x))):
        np.testing.assert_allclose(layer(x).asnumpy(), expected, rtol=1e-6)
    for kind in (nn.Lambda, nn.HybridLambda):
        with pytest.raises(AssertionError, match="no operator 'nothing'"):
            kind("nothing")
        with pytest.raises(ValueError, match="takes the name of an operator or a function, got 3"):
            kind(3)


def test_convolutional_net_trains():
    net = nn.Sequential()
    with net.name_scope():
        net.add(nn.Conv2D(channels=8, kernel_size=3, activation="relu"))
        net.add(nn.MaxPool2D(pool_size=2, strides=2))
        net.add(nn.Flatten(), nn.Dense(16, activation="relu"), nn.Dense(2))
    net.collect_params().initialize(mx.init.Xavier(magnitude=2.24), ctx=mx.cpu())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 1, 8, 8)).astype("float32")
    labels = (x[:, 0, :, :4].sum((1, 2)) > x[:, 0, :, 4:].sum((1, 2))).astype("float32")
    data, label = nd.array(x), nd.array(labels)
    entropy = loss.SoftmaxCrossEntropyLoss()
    history = []
    for _ in range(30):
        with autograd.record():
            value = entropy(net(data), label)
        value.backward()
        trainer.step(32)
        history.append(float(value.mean().asscalar()))
    assert history[-1] < 0.2 * history[0]
    assert (net(data).asnumpy().argmax(1) == labels).all()


def test_group_norm_scales_per_group():
    """MXNet 1.9.1 has one gamma and beta per group, not per channel."""
    layer = nn.GroupNorm(2)
    layer.initialize()
    layer.gamma.set_data(nd.array([2, 3]))
    out = layer(nd.arange(24).reshape((2, 4, 3))).asnumpy()
    np.testing.assert_allclose(out[0, :, 0], [-2.9276953, 0.58553904, -4.391543, 0.87830853], rtol=1e-5)
