"""Records of the normalizations.

Each has one fused backward kernel, and for derivatives of derivatives the same formula in other operators
(``composed``). The statistics a forward pass computed are outputs of their own: their gradients count too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import ShapeError
from .attributes import Bool, Choice, Float, Int, String
from .checks import check_axis, check_floats
from .elementwise import same
from .record import NO_GRADIENT, Joint, Spec, error, sample
from .registry import operator


def _check_vectors(name: str, channels: int, axis: int, data: Spec, **vectors: Spec) -> None:
    """Raise ShapeError unless every vector has one number per channel."""
    for key, v in vectors.items():
        if v.shape != (channels,):
            raise ShapeError(
                f"operator '{name}': {key} must have shape {(channels,)}, the length of axis {axis} of data {data.shape}, "
                f"but has {v.shape}.",
                operator=name,
                shapes=[data.shape, v.shape],
            )


def _total(x: Any) -> int:
    return math.prod(x.shape)


# ---------------------------------------------------------------------------------------------------------------
# Batch normalization


def _batch_norm(name: str) -> Callable[..., Any]:
    def infer(a: Any, x: Spec, gamma: Spec, beta: Spec, mean: Spec, var: Spec) -> Any:
        check_floats(name, x)
        axis = a.get("axis", 1)
        check_axis(name, axis, x.shape)
        channels = x.shape[axis]
        _check_vectors(name, channels, axis, x, gamma=gamma, beta=beta, moving_mean=mean, moving_var=var)
        statistics = Spec((channels,), mean.dtype)
        return x, statistics, statistics, Spec((1,), mean.dtype)

    return infer


def _batch_norm_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    x, gamma = inputs[:2]
    _, mean, invstd, batch = outputs
    axis = a.get("axis", 1)
    dx = dgamma = dbeta = None
    if gs[0] is not None:
        dx, dgamma, dbeta = F._backward_BatchNorm(
            gs[0], x, gamma, mean, invstd, batch, fix_gamma=a["fix_gamma"], axis=axis
        )
    # (A graph does not know how many numbers there are; MXNet never lets these gradients through.)
    if (gs[1] is not None or gs[2] is not None) and not F.symbolic:
        # Gradients that arrive at the statistics: of the second order, or of a loss that reads them.
        share = _statistics_gradient(F, gs[1], gs[2], x, mean, invstd, batch, axis)
        dx = share if dx is None else dx + share
    return dx, dgamma, dbeta, None, None


def _statistics_gradient(
    F: Any, gmean: Any, ginvstd: Any, x: Any, mean: Any, invstd: Any, batch: Any, axis: int
) -> Any:
    count = float(_total(x) // x.shape[axis])
    total = None
    if gmean is not None:
        total = F._channel_spread(gmean * batch * (1.0 / count), x, axis=axis)
    if ginvstd is not None:
        # d(1 / std) = -std**-3 dvar / 2, dvar = 2 (x - mean) / count
        slope = ginvstd * batch * invstd * invstd * invstd * (-1.0 / count)
        part = F._channel_spread(slope, x, axis=axis) * (x - F._channel_spread(mean, x, axis=axis))
        total = part if total is None else total + part
    return total


def _batch_norm_composed(
    F: Any, g: Any, x: Any, gamma: Any, mean: Any, invstd: Any, batch: Any, fix_gamma: bool, axis: int
) -> Any:
    count = float(_total(x) // x.shape[axis])

    def spread(v: Any) -> Any:
        return F._channel_spread(v, x, axis=axis)

    xhat = (x - spread(mean)) * spread(invstd)
    dbeta = F._channel_sum(g, axis=axis)
    dgamma = F._channel_sum(g * xhat, axis=axis)
    scale = invstd if fix_gamma else invstd * gamma
    share = batch * (1.0 / count)
    dx = spread(scale) * (g - spread(dbeta * share) - xhat * spread(dgamma * share))
    return dx, F.zeros_like(dgamma) if fix_gamma else dgamma, dbeta


def _normalized(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, eps: float, axis: int, fix_gamma: bool) -> Any:
    shape = [1] * x.ndim
    shape[axis] = -1
    gamma, beta, mean, var = (v.reshape(shape) for v in (gamma, beta, mean, var))
    return (x - mean) / np.sqrt(var + eps) * (1 if fix_gamma else gamma) + beta


def _batch_norm_reference(relu: bool = False) -> Callable[..., Any]:
    def reference(
        x: Any,
        gamma: Any,
        beta: Any,
        mean: Any,
        var: Any,
        *,
        eps: float = 1e-3,
        axis: int = 1,
        fix_gamma: bool = True,
        **a: Any,
    ) -> Any:
        y = _normalized(x, gamma, beta, mean, var, eps, axis, fix_gamma)
        y = np.maximum(y, 0) if relu else y
        return [y, mean, 1 / np.sqrt(var + eps)] if a.get("output_mean_var") else y

    return reference


def _batch_norm_samples(with_axis: bool, **more: Any) -> Callable[..., Any]:
    def samples(rng: np.random.Generator) -> Any:
        def vectors(n: int) -> Any:
            return [rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal(n), rng.uniform(0.5, 2, n)]

        # Outside of training, and with global statistics, the moving statistics are used. Training is tested in
        # tests/operators/test_normalization_operators.py.
        yield sample(rng.standard_normal((2, 3, 4, 3)), *vectors(3), check_gradient=False, **more)
        yield sample(rng.standard_normal((4, 3)), *vectors(3), use_global_stats=True, fix_gamma=False, **more)
        yield sample(rng.standard_normal((2, 3, 9, 8)), *vectors(3), use_global_stats=True, eps=0.1, **more)
        yield sample(rng.standard_normal((2, 3, 5)), *vectors(3), output_mean_var=True, check_gradient=False, **more)
        if with_axis:
            yield sample(rng.standard_normal((2, 4, 3)), *vectors(3), axis=-1, use_global_stats=True, fix_gamma=False)

    return samples


_BATCH_NORM = {
    "eps": Float(0.001),
    "momentum": Float(0.899999976),
    "fix_gamma": Bool(True),
    "use_global_stats": Bool(False),
    "output_mean_var": Bool(False),
}
_BATCH_NORM_AXIS = {
    **_BATCH_NORM,
    "axis": Int(1),
    "cudnn_off": Bool(False, doc="Without effect."),
    "min_calib_range": Float(None, doc="Without effect."),
    "max_calib_range": Float(None, doc="Without effect."),
}
_BATCH_NORM_DOC = """Normalize each channel over the batch{also}: ``y = gamma (x - mean) / sqrt(var + eps) + beta``.

While training, mean and variance are those of the batch, and ``moving_mean`` and ``moving_var`` are moved towards
them, by ``moving = momentum moving + (1 - momentum) batch``, in the forward pass. In prediction the moving ones are
used.{note}

Parameters
----------
data : NDArray
    ``(N, C, ...)``, floats{axis}.
gamma, beta : NDArray
    ``(C,)``.
moving_mean, moving_var : NDArray
    ``(C,)``; mutated while training.
eps, momentum : float
fix_gamma : bool
    Take gamma as 1; its gradient is 0.
use_global_stats : bool
    Use the moving statistics while training too.
output_mean_var : bool
    Return also the mean and ``1 / sqrt(var + eps)``.
{others}
    Accepted, without effect.

Returns
-------
NDArray, or list of three
    Same shape and dtype as ``data``; with ``output_mean_var`` also two of shape ``(C,)``.

Raises
------
ShapeError
    If a vector does not have one number per channel.

Examples
--------
>>> import mxcore as mx
>>> x, one, zero = mx.nd.array([[1], [3]]), mx.nd.ones((1,)), mx.nd.zeros((1,))
>>> with mx.autograd.train_mode():
...     y = mx.nd.{name}(x, one, zero, zero.copy(), one.copy(), eps=0{example})
>>> y.asnumpy().tolist()
{result}
"""


def _batch_norm_record(name: str, attributes: Any, *, relu: bool = False, more: Any = None, **doc: Any) -> None:
    gradient: Any = Joint(_batch_norm_gradient)
    if relu:
        gradient = Joint(
            lambda F, gs, inputs, outputs, a, needs: _batch_norm_gradient(
                F,
                [None if gs[0] is None else F._relu_backward(gs[0], outputs[0]), *gs[1:]],
                inputs,
                outputs,
                a,
                needs,
            )
        )
    more = more or {}
    vector = np.ones(3, "float32")
    operator(
        name,
        "data gamma beta moving_mean moving_var",
        attributes,
        same_dtype=False,
        infer=_batch_norm(name),
        gradient=gradient,
        outputs=4,
        visible=lambda a: 3 if a["output_mean_var"] else 1,
        mutates=(3, 4),
        training=True,
        saves="data gamma output",
        reference=_batch_norm_reference(relu),
        samples=_batch_norm_samples("axis" in attributes, **more),
        errors=lambda: [
            error(np.ones((2, 4), "float32"), *[vector] * 4, **more, match="gamma must have shape (4,)"),
            error(np.ones((2, 3), "int32"), *[vector] * 4, **more, match="works on floats"),
            error(np.ones(3, "float32"), *[vector] * 4, **more, match="axis=1 does not exist"),
        ],
        rtol=1e-4,
        atol=1e-5,
        doc=_BATCH_NORM_DOC.format(name=name.replace("_contrib_", "contrib."), **doc),
    )


_OTHERS = "cudnn_off, min_calib_range, max_calib_range"
_batch_norm_record(
    "BatchNorm",
    _BATCH_NORM_AXIS,
    also="",
    note="",
    axis=", or with the channels at ``axis``",
    others="axis : int\n" + _OTHERS,
    example="",
    result="[[-1.0], [1.0]]",
)
_batch_norm_record(
    "_contrib_BatchNormWithReLU",
    _BATCH_NORM_AXIS,
    relu=True,
    also=" and set negative results to 0",
    note="",
    axis=", or with the channels at ``axis``",
    others="axis : int\n" + _OTHERS,
    example="",
    result="[[0.0], [1.0]]",
)
_batch_norm_record(
    "_contrib_SyncBatchNorm",
    {**_BATCH_NORM, "ndev": Int(1, doc="Without effect."), "key": String(doc="Without effect.")},
    more={"key": "a"},
    also="",
    note=" Devices of one process are not synchronized: the statistics are those of the\nbatch at hand.",
    axis="",
    others="ndev, key",
    example=", key='a'",
    result="[[-1.0], [1.0]]",
)
_batch_norm_record(
    "BatchNorm_v1",
    _BATCH_NORM,
    also="",
    note=" Kept for old models; use ``BatchNorm``.",
    axis="",
    others="output_mean_var",
    example="",
    result="[[-1.0], [1.0]]",
)

operator(
    "_backward_BatchNorm",
    "grad data gamma mean invstd batch",
    {"fix_gamma": Bool(True), "axis": Int(1)},
    same_dtype=False,
    infer=lambda a, g, x, gamma, mean, invstd, batch: (x, gamma, gamma),
    outputs=3,
    gradient=NO_GRADIENT,
    composed=_batch_norm_composed,
    doc="Gradients of ``BatchNorm`` for data, gamma and beta.",
)

# ---------------------------------------------------------------------------------------------------------------
# Layer, group and instance normalization


def _xhat(F: Any, x: Any, eps: float, **axes: Any) -> tuple[Any, Any, Any]:
    """Return ``(x - mean) / std``, mean and std over ``axes`` (keywords of ``mean``), in operators."""
    mean = F.mean(x, keepdims=True, **axes)
    centred = x - mean
    std = F.sqrt(F.mean(centred * centred, keepdims=True, **axes) + eps)
    return centred / std, mean, std


def _standardize_composed(F: Any, g: Any, xhat: Any, std: Any, **axes: Any) -> Any:
    return (g - F.mean(g, keepdims=True, **axes) - xhat * F.mean(g * xhat, keepdims=True, **axes)) / std


def _layer_norm(a: Any, x: Spec, gamma: Spec, beta: Spec) -> Any:
    check_floats("LayerNorm", x)
    check_axis("LayerNorm", a["axis"], x.shape)
    axis = a["axis"] % len(x.shape)
    _check_vectors("LayerNorm", x.shape[axis], a["axis"], x, gamma=gamma, beta=beta)
    statistics = Spec((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
    return x, statistics, statistics


def _with_statistics(backward: Callable[..., Any], statistics: Callable[..., Any]) -> Joint:
    """Return the rule of a normalization with outputs (y, mean, std).

    ``backward(F, g, inputs, outputs, a)`` gives the gradients for ``g``; gradients that arrive at mean and std, which
    users see with ``output_mean_var``, go through ``statistics(F, x, a) -> mean, std``, in operators.
    """

    def rule(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
        found = [None, None, None] if gs[0] is None else list(backward(F, gs[0], inputs, outputs, a))
        if (gs[1] is not None or gs[2] is not None) and not F.symbolic:
            share = statistics(F, gs[1], gs[2], inputs[0], outputs, a)
            found[0] = share if found[0] is None else found[0] + share
        return found

    return Joint(rule)


def _moments_gradient(F: Any, gmean: Any, gstd: Any, x: Any, mean: Any, std: Any, count: float) -> Any:
    """Return the gradient of ``x`` for those of its mean and std, all broadcastable against ``x``."""
    slope = gmean * (1.0 / count) if gmean is not None else None
    if gstd is not None:
        part = gstd / std * (1.0 / count) * (x - mean)
        slope = part if slope is None else slope + part
    return F.broadcast_like(slope, x) if gstd is None else slope


operator(
    "LayerNorm",
    "data gamma beta",
    {"axis": Int(-1), "eps": Float(9.99999975e-06), "output_mean_var": Bool(False)},
    infer=_layer_norm,
    gradient=_with_statistics(
        lambda F, g, inputs, outputs, a: F._backward_LayerNorm(
            g, *inputs[:2], *outputs[1:], axis=a["axis"], eps=a["eps"]
        ),
        lambda F, gmean, gstd, x, outputs, a: _moments_gradient(
            F, gmean, gstd, x, outputs[1], outputs[2], float(x.shape[a["axis"]])
        ),
    ),
    outputs=3,
    visible=lambda a: 3 if a["output_mean_var"] else 1,
    saves="data gamma output",
    reference=lambda x, gamma, beta, axis=-1, eps=9.99999975e-06, output_mean_var=False: _normalized_by(
        x, gamma, beta, axis, axis, eps, output_mean_var
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal(5)),
        sample(rng.standard_normal((2, 4, 3)), rng.standard_normal(4), rng.standard_normal(4), axis=1, eps=0.1),
        sample(rng.standard_normal((2, 3)), rng.standard_normal(3), rng.standard_normal(3), output_mean_var=True),
    ],
    errors=lambda: [
        error(
            np.ones((2, 4), "float32"),
            np.ones(3, "float32"),
            np.ones(4, "float32"),
            match="gamma must have shape (4,)",
        ),
        error(
            np.ones((2, 4), "float32"),
            np.ones(4, "float32"),
            np.ones(4, "float32"),
            axis=2,
            match="axis=2 does not exist",
        ),
    ],
    rtol=1e-4,
    atol=1e-5,
    doc="""Normalize along one axis: ``y = gamma (x - mean) / sqrt(var + eps) + beta``.

Parameters
----------
data : NDArray
    Floats of any shape.
gamma, beta : NDArray
    As long as the axis.
axis : int
eps : float
output_mean_var : bool
    Return also mean and ``sqrt(var + eps)``.

Returns
-------
NDArray, or list of three
    Same shape and dtype as ``data``; the statistics have length 1 along ``axis``.

Raises
------
ShapeError
    If gamma or beta do not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.LayerNorm(mx.nd.array([[1, 3]]), mx.nd.ones((2,)), mx.nd.array([0, 5]), eps=0).asnumpy().tolist()
[[-1.0, 6.0]]
""",
)


def _normalized_by(x: Any, gamma: Any, beta: Any, channel: int, axes: Any, eps: float, statistics: bool) -> Any:
    """Reference: normalize over ``axes``, then scale along ``channel``."""
    mean, std = x.mean(axes, keepdims=True), np.sqrt(x.var(axes, keepdims=True) + eps)
    shape = [1] * x.ndim
    shape[channel] = -1
    y = (x - mean) / std * gamma.reshape(shape) + beta.reshape(shape)
    return [y, mean, std] if statistics else y


def _layer_norm_composed(F: Any, g: Any, x: Any, gamma: Any, mean: Any, std: Any, axis: int, eps: float) -> Any:
    xhat, _, deviation = _xhat(F, x, eps, axis=axis)
    dx = _standardize_composed(F, g * F._channel_spread(gamma, x, axis=axis), xhat, deviation, axis=axis)
    return dx, F._channel_sum(g * xhat, axis=axis), F._channel_sum(g, axis=axis)


operator(
    "_backward_LayerNorm",
    "grad data gamma mean std",
    {"axis": Int(-1), "eps": Float(9.99999975e-06)},
    infer=lambda a, g, x, gamma, mean, std: (x, gamma, gamma),
    outputs=3,
    gradient=NO_GRADIENT,
    composed=_layer_norm_composed,
    doc="Gradients of ``LayerNorm`` for data, gamma and beta.",
)


def _group_norm(a: Any, x: Spec, gamma: Spec, beta: Spec) -> Any:
    check_floats("GroupNorm", x)
    groups = a["num_groups"]
    if len(x.shape) < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(
            f"operator 'GroupNorm' wants data (N, C, ...) of at least 3 axes with C divisible by num_groups={groups}, but "
            f"got {x.shape}.",
            operator="GroupNorm",
            shapes=[x.shape],
        )
    for key, v in (("gamma", gamma), ("beta", beta)):
        if v.shape != (groups,):
            raise ShapeError(
                f"operator 'GroupNorm': {key} must have shape {(groups,)}, one number per group, but has {v.shape}.",
                operator="GroupNorm",
                shapes=[x.shape, v.shape],
            )
    statistics = Spec((x.shape[0], groups), x.dtype)
    return x, statistics, statistics


def _group_norm_composed(F: Any, g: Any, x: Any, gamma: Any, mean: Any, std: Any, num_groups: int, eps: float) -> Any:
    grouped = (x.shape[0], num_groups or x.shape[1], -1)
    xhat, _, deviation = _xhat(F, F.reshape(x, shape=grouped), eps, axis=2)
    grad = F.reshape(g, shape=grouped)
    weighted = grad * F._channel_spread(gamma, grad, axis=1)
    dx = F.reshape(_standardize_composed(F, weighted, xhat, deviation, axis=2), shape=x.shape)
    return dx, F._channel_sum(grad * xhat, axis=1), F._channel_sum(grad, axis=1)


def _group_statistics(F: Any, gmean: Any, gstd: Any, x: Any, outputs: Any, a: Any) -> Any:
    groups = a["num_groups"]

    def column(v: Any) -> Any:
        return None if v is None else F.reshape(v, shape=(0, 0, 1))

    view = F.reshape(x, shape=(x.shape[0], groups, -1))
    count = float(_total(x) // (x.shape[0] * groups))
    slope = _moments_gradient(F, column(gmean), column(gstd), view, column(outputs[1]), column(outputs[2]), count)
    return F.reshape(slope, shape=x.shape)


def _group_norm_reference(
    x: Any, gamma: Any, beta: Any, num_groups: int = 1, eps: float = 9.99999975e-06, output_mean_var: bool = False
) -> Any:
    view = x.reshape(len(x), num_groups, -1)
    y, mean, std = _normalized_by(view, gamma, beta, 1, 2, eps, True)
    shape = (len(x), num_groups)
    return [y.reshape(x.shape), mean.reshape(shape), std.reshape(shape)] if output_mean_var else y.reshape(x.shape)


operator(
    "GroupNorm",
    "data gamma beta",
    {"num_groups": Int(1), "eps": Float(9.99999975e-06), "output_mean_var": Bool(False)},
    infer=_group_norm,
    gradient=_with_statistics(
        lambda F, g, inputs, outputs, a: F._backward_GroupNorm(
            g, *inputs[:2], *outputs[1:], num_groups=a["num_groups"], eps=a["eps"]
        ),
        _group_statistics,
    ),
    outputs=3,
    visible=lambda a: 3 if a["output_mean_var"] else 1,
    saves="data gamma output",
    reference=_group_norm_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 4, 3)), rng.standard_normal(2), rng.standard_normal(2), num_groups=2),
        sample(rng.standard_normal((2, 3, 2, 2)), rng.standard_normal(1), rng.standard_normal(1), eps=0.1),
        sample(
            rng.standard_normal((2, 4, 2)),
            rng.standard_normal(2),
            rng.standard_normal(2),
            num_groups=2,
            output_mean_var=True,
        ),
    ],
    errors=lambda: [
        error(
            np.ones((2, 4, 3), "float32"),
            np.ones(4, "float32"),
            np.ones(4, "float32"),
            num_groups=3,
            match="divisible by num_groups=3",
        ),
        error(
            np.ones((2, 4, 3), "float32"),
            np.ones(4, "float32"),
            np.ones(2, "float32"),
            num_groups=2,
            match="gamma must have shape (2,)",
        ),
    ],
    rtol=1e-4,
    atol=1e-5,
    doc="""Normalize groups of channels of each instance, then scale and shift each group.

Parameters
----------
data : NDArray
    ``(N, C, ...)``, floats.
gamma, beta : NDArray
    ``(num_groups,)``.
num_groups : int
    Divides ``C``.
eps : float
output_mean_var : bool
    Return also mean and ``sqrt(var + eps)``.

Returns
-------
NDArray, or list of three
    Same shape and dtype as ``data``; the statistics have shape ``(N, num_groups)``.

Raises
------
ShapeError
    If the channels do not divide into groups, or gamma or beta do not fit.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[[1], [3], [4], [8]]])
>>> mx.nd.GroupNorm(x, mx.nd.ones((2,)), mx.nd.zeros((2,)), num_groups=2, eps=0).asnumpy().ravel().tolist()
[-1.0, 1.0, -1.0, 1.0]
""",
)

operator(
    "_backward_GroupNorm",
    "grad data gamma mean std",
    {"num_groups": Int(1), "eps": Float(9.99999975e-06)},
    infer=lambda a, g, x, gamma, mean, std: (x, gamma, gamma),
    outputs=3,
    gradient=NO_GRADIENT,
    composed=_group_norm_composed,
    doc="Gradients of ``GroupNorm`` for data, gamma and beta; with ``num_groups=0`` each channel is a group.",
)


def _instance_norm(a: Any, x: Spec, gamma: Spec, beta: Spec) -> Any:
    check_floats("InstanceNorm", x)
    if len(x.shape) < 3:
        raise ShapeError(
            f"operator 'InstanceNorm' wants data (N, C, ...) of at least 3 axes but got {x.shape}.",
            operator="InstanceNorm",
            shapes=[x.shape],
        )
    _check_vectors("InstanceNorm", x.shape[1], 1, x, gamma=gamma, beta=beta)
    statistics = Spec(x.shape[:2], x.dtype)
    return x, statistics, statistics


operator(
    "InstanceNorm",
    "data gamma beta",
    {"eps": Float(0.00100000005)},
    infer=_instance_norm,
    # Every channel is a group of its own.
    gradient=Joint(
        lambda F, gs, inputs, outputs, a, needs: F._backward_GroupNorm(
            gs[0], *inputs[:2], *outputs[1:], num_groups=0, eps=a["eps"]
        )
    ),
    outputs=3,
    visible=1,
    saves="data gamma output",
    reference=lambda x, gamma, beta, eps=0.00100000005: _normalized_by(
        x, gamma, beta, 1, tuple(range(2, x.ndim)), eps, False
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 4)), rng.standard_normal(3), rng.standard_normal(3)),
        sample(rng.standard_normal((2, 2, 3, 3)), rng.standard_normal(2), rng.standard_normal(2), eps=0.1),
    ],
    errors=lambda: [
        error(np.ones((2, 4), "float32"), np.ones(4, "float32"), np.ones(4, "float32"), match="at least 3 axes"),
    ],
    rtol=1e-4,
    atol=1e-5,
    doc="""Normalize each channel of each instance, then scale and shift each channel.

Parameters
----------
data : NDArray
    ``(N, C, ...)``, floats.
gamma, beta : NDArray
    ``(C,)``.
eps : float

Returns
-------
NDArray
    Same shape and dtype.

Raises
------
ShapeError
    If gamma or beta do not fit.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[[1, 3], [4, 8]]])
>>> mx.nd.InstanceNorm(x, mx.nd.ones((2,)), mx.nd.zeros((2,)), eps=0).asnumpy().tolist()
[[[-1.0, 1.0], [-1.0, 1.0]]]
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Normalization by length and by neighbours

_L2_MODES = ("channel", "instance", "spatial")


def _l2_axes(mode: str) -> dict[str, Any]:
    """Return the axes that the norm is taken over, as keywords of ``sum``."""
    if mode == "channel":
        return {"axis": 1}
    return {"axis": 0 if mode == "instance" else (0, 1), "exclude": True}


def _l2(a: Any, x: Spec) -> Any:
    check_floats("L2Normalization", x)
    least = 2 if a["mode"] == "instance" else 3
    if len(x.shape) < least:
        raise ShapeError(
            f"operator 'L2Normalization': mode={a['mode']!r} wants data of at least {least} axes but got {x.shape}.",
            operator="L2Normalization",
            shapes=[x.shape],
        )
    axes = {"instance": range(1, len(x.shape)), "channel": (1,), "spatial": range(2, len(x.shape))}[a["mode"]]
    return x, Spec(tuple(1 if i in axes else n for i, n in enumerate(x.shape)), x.dtype)


def _l2_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    y, norm = outputs
    total = None
    if gs[0] is not None:
        total = (gs[0] - y * F.sum(gs[0] * y, keepdims=True, **_l2_axes(a["mode"]))) / norm
    if gs[1] is not None:  # of the second order only
        part = y * gs[1]
        total = part if total is None else total + part
    return [total]


def _l2_reference(x: Any, eps: float = 1.00000001e-10, mode: str = "instance") -> Any:
    axes = {"instance": tuple(range(1, x.ndim)), "channel": 1, "spatial": tuple(range(2, x.ndim))}[mode]
    return x / np.sqrt((x * x).sum(axes, keepdims=True) + eps)


operator(
    "L2Normalization",
    "data",
    {"eps": Float(1.00000001e-10), "mode": Choice("instance", choices=_L2_MODES)},
    infer=_l2,
    gradient=Joint(_l2_gradient),
    outputs=2,
    visible=1,
    saves="output",
    reference=_l2_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(rng.standard_normal((2, 3, 4)), mode="channel", eps=0.1),
        sample(rng.standard_normal((2, 3, 2, 2)), mode="spatial"),
        sample(rng.standard_normal((2, 3, 2, 2))),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), mode="channel", match="at least 3 axes")],
    doc="""Divide by the Euclidean norm, ``sqrt(sum(x**2) + eps)``.

Parameters
----------
data : NDArray
    ``(N, C, ...)``, floats.
eps : float
mode : {"instance", "channel", "spatial"}
    The norm of each instance, of the channels at each position, or of each channel.

Returns
-------
NDArray
    Same shape and dtype.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.L2Normalization(mx.nd.array([[3, 4]])).asnumpy().round(4).tolist()
[[0.6000000238418579, 0.800000011920929]]
""",
)


def _lrn(a: Any, x: Spec) -> Any:
    check_floats("LRN", x)
    if len(x.shape) != 4 or a["nsize"] % 2 == 0:
        raise ShapeError(
            f"operator 'LRN' wants data (N, C, H, W) and an odd nsize but got {x.shape} and nsize={a['nsize']}.",
            operator="LRN",
            shapes=[x.shape],
        )
    return x, x


def _lrn_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    x, base = inputs[0], outputs[1]
    alpha, beta, nsize = a["alpha"], a["beta"], a["nsize"]
    total = None
    scale = 2.0 * alpha / nsize
    if gs[0] is not None:
        # y = x base**-beta, and base of every channel near reads x
        power = base**-beta
        shares = F._channel_window_sum(gs[0] * x * power / base, nsize=nsize)
        total = gs[0] * power - x * shares * (scale * beta)
    if gs[1] is not None:  # of the second order only
        part = x * F._channel_window_sum(gs[1], nsize=nsize) * scale
        total = part if total is None else total + part
    return [total]


def _lrn_reference(x: Any, *, nsize: int, alpha: float = 9.99999975e-05, beta: float = 0.75, knorm: float = 2) -> Any:
    half = nsize // 2
    sums = [np.square(x[:, max(c - half, 0) : c + half + 1]).sum(1) for c in range(x.shape[1])]
    return x * (knorm + alpha / nsize * np.stack(sums, 1)) ** -beta


operator(
    "LRN",
    "data",
    {"alpha": Float(9.99999975e-05), "beta": Float(0.75), "knorm": Float(2.0), "nsize": Int()},
    infer=_lrn,
    gradient=Joint(_lrn_gradient),
    outputs=2,
    visible=1,
    saves="data output",
    reference=_lrn_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 5, 2, 2)), nsize=3, alpha=0.7, beta=0.6),
        sample(rng.standard_normal((1, 3, 2, 1)), nsize=5, alpha=1.0, knorm=1.0),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), nsize=3, match="wants data (N, C, H, W)"),
        error(np.ones((1, 1, 1, 1), "float32"), nsize=2, match="odd nsize"),
    ],
    doc="""Divide each element by a power of the squares of its neighbours in the channels around.

``y = x / (knorm + alpha / nsize sum(x**2)) ** beta``, the sum over ``nsize`` channels with this one in the middle.

Parameters
----------
data : NDArray
    ``(N, C, H, W)``, floats.
alpha, beta, knorm : float
nsize : int
    Odd.

Returns
-------
NDArray
    Same shape and dtype.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.LRN(mx.nd.ones((1, 2, 1, 1)), nsize=3, alpha=3, beta=1).asnumpy().ravel().tolist()
[0.25, 0.25]
""",
)

operator(
    "_channel_window_sum",
    "data",
    {"nsize": Int()},
    infer=same,
    gradient=(lambda F, g, y, x, nsize: F._channel_window_sum(g, nsize=nsize),),
    saves="",
    doc="Sum ``nsize`` neighbouring channels, this one in the middle.",
)
