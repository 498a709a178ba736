"""Records of the windowed operators: convolution, its transpose, pooling, resizing.

A convolution is bilinear: it, the gradient of its data and the gradient of its weight are three operators of which
each two give the derivative of the third, so every order of derivative is one of them. The same holds for
deconvolution. Pooling is linear for a given choice of positions, with ``_pooling_backward`` (scatter) and
``_pooling_gather`` as each other's transposes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..oplib.kernels.convolution import convolution_output_shape
from ..oplib.kernels.pooling import pooling_output_shape
from ..oplib.kernels.windowed import (
    bilinear_upsampling,
    deconvolution_geometry,
    geometry,
    pooling_geometry,
    resized,
)
from ..spec.errors import DTypeError, ParameterError, ShapeError
from .attributes import Bool, Choice, Float, Int, Shape
from .neural import check_bias
from .record import Joint, Spec, error, sample
from .registry import operator

_LAYOUTS = ("NCDHW", "NCHW", "NCW", "NDHWC", "NHWC")
_TUNING = ("fastest", "limited_workspace", "off")
#: What determines which positions a convolution reads.
_GEOMETRY = ("kernel", "stride", "dilate", "pad", "num_group", "layout")
_WINDOWS = {
    "kernel": Shape(),
    "stride": Shape(()),
    "dilate": Shape(()),
    "pad": Shape(()),
    "num_group": Int(1),
    "layout": Choice(None, choices=_LAYOUTS),
}


def _floats(name: str, x: Spec) -> None:
    if x.dtype.kind != "f":
        raise DTypeError(
            f"operator '{name}' works on floats but data is {x.dtype}. Cast it with astype('float32').",
            operator=name,
            dtypes=[x.dtype],
        )


def _check_lengths(name: str, a: Any, names: tuple[str, ...], n: int) -> None:
    """Raise ShapeError unless each of the tuples named has one entry per spatial axis, or none at all."""
    for key in names:
        if a[key] and len(a[key]) != n:
            raise ShapeError(
                f"operator '{name}': {key}={a[key]} must have {n} entries, one per spatial axis.", operator=name
            )


def _check_kernel(name: str, a: Any, x: Spec) -> None:
    n = len(a["kernel"])
    if not 1 <= n <= 3 or len(x.shape) != n + 2:
        raise ShapeError(
            f"operator '{name}': kernel={a['kernel']} has {n} axes, which wants data of {n + 2} axes, but data has shape "
            f"{x.shape}. Give one kernel length per spatial axis (1 to 3 of them).",
            operator=name,
            shapes=[x.shape],
        )
    _check_lengths(name, a, ("stride", "dilate", "pad"), n)
    if a["layout"] is not None and len(a["layout"]) != n + 2:
        raise ShapeError(f"operator '{name}': layout={a['layout']!r} does not fit data {x.shape}.", operator=name)


def _of(attributes: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {k: attributes[k] for k in names}


def _named(name: str, e: ShapeError) -> ShapeError:
    """Return an error of the kernel room, which knows the family only, under the operator's own name."""
    return ShapeError(f"operator '{name}': {str(e).partition(': ')[2]}", **{**e.fields, "operator": name})


def _channel_axis(layout: str | None) -> int:
    return -1 if layout and layout.endswith("C") else 1


# ---------------------------------------------------------------------------------------------------------------
# Convolution


def _convolution(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec, w: Spec, b: Spec | None = None) -> Spec:
        _floats(name, x)
        _check_kernel(name, a, x)
        try:
            shape = convolution_output_shape(x.shape, w.shape, **geometry(**_of(a, _GEOMETRY)))
        except ShapeError as e:
            raise _named(name, e) from None
        if w.shape[0] != a["num_filter"]:
            raise ShapeError(
                f"operator '{name}': num_filter={a['num_filter']} but weight {w.shape} has {w.shape[0]} filters.",
                operator=name,
                shapes=[w.shape],
            )
        check_bias(name, a["no_bias"], b, a["num_filter"])
        return Spec(shape, x.dtype)

    return infer


def _convolution_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    x, w, _ = inputs
    how = _of(a, _GEOMETRY)
    return (
        F._conv_backward_data(gs[0], w, x, **how) if needs[0] else None,
        F._conv_backward_weight(gs[0], x, w, **how) if needs[1] else None,
        F._channel_sum(gs[0], axis=_channel_axis(a["layout"])) if needs[2] else None,
    )


def _padded(x: np.ndarray, pad: Any) -> np.ndarray:
    return np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])


def _filled(a: Any, n: int) -> Any:
    return (
        a.get("stride") or (1,) * n,
        a.get("dilate") or (1,) * n,
        a.get("pad") or (0,) * n,
        a.get("num_group", 1),
    )


def _convolution_reference(x: Any, w: Any, b: Any = None, *, kernel: Any, layout: Any = None, **a: Any) -> Any:
    """Loop over outputs and groups."""
    if layout and layout.endswith("C"):
        y = _convolution_reference(np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1), b, kernel=kernel, **a)
        return np.moveaxis(y, 1, -1)
    n = len(kernel)
    stride, dilate, pad, group = _filled(a, n)
    x = _padded(x, pad)
    out = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(x.shape[2:], kernel, stride, dilate)]
    filters, depth = w.shape[:2]
    y = np.zeros((len(x), filters, *out))
    for o in range(filters):
        first = o // (filters // group) * depth
        for at in np.ndindex(*out):
            window = tuple(slice(i * s, i * s + d * (k - 1) + 1, d) for i, s, d, k in zip(at, stride, dilate, kernel))
            part = x[(slice(None), slice(first, first + depth), *window)]
            y[(slice(None), o, *at)] = (part * w[o]).reshape(len(x), -1).sum(1) + (0 if b is None else b[o])
    return y


def _convolution_samples(rng: np.random.Generator) -> Any:
    r = rng.standard_normal
    yield sample(r((2, 3, 5, 6)), r((4, 3, 3, 2)), r(4), kernel=(3, 2), num_filter=4)
    yield sample(
        r((2, 2, 6, 5)), r((2, 2, 3, 3)), None, kernel=(3, 3), num_filter=2, no_bias=True, pad=(1, 1), stride=(2, 2)
    )
    yield sample(r((2, 4, 7)), r((6, 2, 2)), r(6), kernel=(2,), num_filter=6, num_group=2, dilate=(2,), pad=(1,))
    yield sample(r((1, 3, 5, 5)), r((3, 1, 3, 3)), r(3), kernel=(3, 3), num_filter=3, num_group=3, pad=(1, 1))
    yield sample(r((1, 2, 3, 4, 3)), r((2, 2, 2, 2, 2)), r(2), kernel=(2, 2, 2), num_filter=2, stride=(1, 2, 1))
    yield sample(r((2, 4, 4, 3)), r((2, 2, 3, 3)), r(2), kernel=(2, 3), num_filter=2, layout="NHWC")
    yield sample(r((2, 3, 4, 4)), r((5, 3, 1, 1)), r(5), kernel=(1, 1), num_filter=5, stride=(2, 2))


_ONES = np.ones((1, 3, 4, 4), "float32")


def _convolution_errors() -> Any:
    return [
        error(_ONES, np.ones((2, 3, 3, 3), "float32"), None, kernel=(3, 3), num_filter=2, match="no bias was given"),
        error(
            _ONES,
            np.ones((2, 2, 3, 3), "float32"),
            np.ones(2, "float32"),
            kernel=(3, 3),
            num_filter=2,
            match="the weight must have shape (2, 3, 3, 3)",
        ),
        error(
            _ONES,
            np.ones((2, 3, 5, 5), "float32"),
            np.ones(2, "float32"),
            kernel=(5, 5),
            num_filter=2,
            match="the kernel spans 5 positions",
        ),
        error(_ONES, np.ones((2, 3, 3), "float32"), None, kernel=(3,), num_filter=2, match="wants data of 3 axes"),
        error(
            _ONES,
            np.ones((2, 3, 3, 3), "float32"),
            np.ones(2, "float32"),
            kernel=(3, 3),
            num_filter=4,
            match="has 2 filters",
        ),
    ]


_CONVOLUTION_DOC = """Correlate the data with filters: each output is the product of a window with a filter, plus a bias.

``y[n, o, i] = bias[o] + sum over c, k of data[n, c, stride i + dilate k - pad] weight[o, c, k]``, where positions
outside the data count as 0.

Parameters
----------
data : NDArray
    ``(N, C, W)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``, or channels last as ``layout`` says.
weight : NDArray
    ``(num_filter, C / num_group, *kernel)``; ``(num_filter, *kernel, C / num_group)`` with channels last.
bias : NDArray, optional
    ``(num_filter,)``; left out with ``no_bias=True``.
kernel, stride, dilate, pad : tuple of int
    One entry per spatial axis; stride and dilate 1 and pad 0 if left out.
num_filter : int
num_group : int
    Channels and filters are cut into groups, each filter sees the channels of its group.
no_bias : bool
layout : {"NCW", "NCHW", "NCDHW", "NHWC", "NDHWC"}, optional
workspace, cudnn_tune, cudnn_off
    Accepted, without effect.

Returns
-------
NDArray
    ``(N, num_filter, ...)`` with ``floor((size + 2 pad - dilate (kernel - 1) - 1) / stride) + 1`` positions an axis.

Raises
------
ShapeError
    If kernel, weight or bias do not fit.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[[1, 2, 3, 4]]])
>>> mx.nd.Convolution(x, mx.nd.array([[[1, -1]]]), mx.nd.array([10]), kernel=(2,), num_filter=1).asnumpy().tolist()
[[[9.0, 9.0, 9.0]]]
"""

for _name, _layouts in (("Convolution", _LAYOUTS), ("Convolution_v1", ("NCDHW", "NCHW", "NDHWC", "NHWC"))):
    operator(
        _name,
        "data weight bias?",
        {
            "kernel": Shape(),
            "stride": Shape(()),
            "dilate": Shape(()),
            "pad": Shape(()),
            "num_filter": Int(),
            "num_group": Int(1),
            "workspace": Int(1024, doc="Without effect."),
            "no_bias": Bool(False),
            "cudnn_tune": Choice(None, doc="Without effect.", choices=_TUNING),
            "cudnn_off": Bool(False, doc="Without effect."),
            "layout": Choice(None, choices=_layouts),
        },
        infer=_convolution(_name),
        gradient=Joint(_convolution_gradient),
        saves="data weight",
        reference=_convolution_reference,
        samples=_convolution_samples,
        errors=_convolution_errors,
        rtol=1e-4,
        atol=1e-5,
        doc=_CONVOLUTION_DOC,
    )


def _as_like(a: Any, first: Spec, second: Spec, like: Spec) -> Spec:
    return Spec(like.shape, first.dtype)


def _plain_convolution(F: Any, x: Any, w: Any, a: Any) -> Any:
    return F.Convolution(x, w, num_filter=w.shape[0], no_bias=True, **a)


operator(
    "_conv_backward_data",
    "grad weight like",
    _WINDOWS,
    infer=_as_like,
    gradient=(
        lambda F, v, y, g, w, like, **a: _plain_convolution(F, v, w, a),
        lambda F, v, y, g, w, like, **a: F._conv_backward_weight(g, v, w, **a),
        None,
    ),
    saves="grad weight",
    doc="Gradient of ``Convolution`` for ``data``, in the shape of ``like``.",
)

operator(
    "_conv_backward_weight",
    "grad data like",
    _WINDOWS,
    infer=_as_like,
    gradient=(
        lambda F, v, y, g, x, like, **a: _plain_convolution(F, x, v, a),
        lambda F, v, y, g, x, like, **a: F._conv_backward_data(g, v, x, **a),
        None,
    ),
    saves="grad data",
    doc="Gradient of ``Convolution`` for ``weight``, in the shape of ``like``.",
)

operator(
    "_channel_sum",
    "data",
    {"axis": Int(1)},
    infer=lambda a, x: Spec((x.shape[a["axis"]],), x.dtype),
    gradient=(lambda F, g, y, x, axis: F._channel_spread(g, x, axis=axis),),
    saves="",
    doc="Sum over all axes but ``axis``; the gradient of a bias per channel.",
)

operator(
    "_channel_spread",
    "data like",
    {"axis": Int(1)},
    same_dtype=False,
    infer=lambda a, v, like: Spec(like.shape, v.dtype),
    gradient=(lambda F, g, y, v, like, axis: F._channel_sum(g, axis=axis), None),
    saves="",
    doc="Repeat a vector of channels in the shape of ``like``; the gradient of ``_channel_sum``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Deconvolution

_TRANSPOSED = ("kernel", "stride", "dilate", "pad", "adj", "target_shape", "num_group", "layout")


def _deconvolution(a: Any, x: Spec, w: Spec, b: Spec | None = None) -> Spec:
    _floats("Deconvolution", x)
    _check_kernel("Deconvolution", a, x)
    _check_lengths("Deconvolution", a, ("adj", "target_shape"), len(a["kernel"]))
    try:
        shape, _ = deconvolution_geometry(x.shape, w.shape, **_of(a, _TRANSPOSED))
    except ShapeError as e:
        raise _named("Deconvolution", e) from None
    filters = shape[_channel_axis(a["layout"])]
    if filters != a["num_filter"]:
        raise ShapeError(
            f"operator 'Deconvolution': num_filter={a['num_filter']} but weight {w.shape} with num_group="
            f"{a['num_group']} gives {filters} channels.",
            operator="Deconvolution",
            shapes=[w.shape],
        )
    check_bias("Deconvolution", a["no_bias"], b, filters)
    return Spec(shape, x.dtype)


def _deconvolution_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    x, w, _ = inputs
    how = _of(a, _TRANSPOSED)
    return (
        F._deconv_backward_data(gs[0], w, x, **how) if needs[0] else None,
        F._deconv_backward_weight(gs[0], x, w, **how) if needs[1] else None,
        F._channel_sum(gs[0], axis=_channel_axis(a["layout"])) if needs[2] else None,
    )


def _plain_deconvolution(F: Any, x: Any, w: Any, a: Any) -> Any:
    per_group = w.shape[-1] if _channel_axis(a["layout"]) == -1 else w.shape[1]
    return F.Deconvolution(x, w, num_filter=per_group * a["num_group"], no_bias=True, **a)


def _deconvolution_reference(x: Any, w: Any, b: Any = None, *, kernel: Any, adj: Any = (), **a: Any) -> Any:
    """Add each input's share to the outputs of its window."""
    n = len(kernel)
    stride, dilate, pad, group = _filled(a, n)
    full = [s * (m - 1) + d * (k - 1) + 1 for m, k, s, d in zip(x.shape[2:], kernel, stride, dilate)]
    target = a.get("target_shape")
    if target:
        extra = [f - t for f, t in zip(full, target)]
        pad, adj = tuple((e + 1) // 2 for e in extra), tuple(e % 2 for e in extra)
    adj = adj or (0,) * n
    depth, per_group = x.shape[1] // group, w.shape[1]
    y = np.zeros((len(x), per_group * group, *[f + e for f, e in zip(full, adj)]))
    for c in range(x.shape[1]):
        first = c // depth * per_group
        for at in np.ndindex(*x.shape[2:]):
            window = tuple(slice(i * s, i * s + d * (k - 1) + 1, d) for i, s, d, k in zip(at, stride, dilate, kernel))
            value = x[(slice(None), c, *at)].reshape(-1, *(1,) * (n + 1))
            y[(slice(None), slice(first, first + per_group), *window)] += value * w[c]
    y = y[(slice(None), slice(None), *[slice(p, m - p) for p, m in zip(pad, y.shape[2:])])]
    return y if b is None else y + b.reshape(-1, *(1,) * n)


def _deconvolution_samples(rng: np.random.Generator) -> Any:
    r = rng.standard_normal
    yield sample(r((2, 3, 3, 4)), r((3, 2, 3, 2)), r(2), kernel=(3, 2), num_filter=2, no_bias=False)
    yield sample(
        r((2, 3, 3, 3)), r((3, 2, 3, 3)), None, kernel=(3, 3), num_filter=2, stride=(2, 2), pad=(1, 1), adj=(1, 1)
    )
    yield sample(r((1, 4, 5)), r((4, 1, 3)), None, kernel=(3,), num_filter=2, num_group=2, stride=(2,), dilate=(2,))
    yield sample(
        r((1, 2, 3, 3)), r((2, 2, 3, 3)), None, kernel=(3, 3), num_filter=2, stride=(2, 2), target_shape=(6, 6)
    )


operator(
    "Deconvolution",
    "data weight bias?",
    {
        "kernel": Shape(),
        "stride": Shape(()),
        "dilate": Shape(()),
        "pad": Shape(()),
        "adj": Shape(()),
        "target_shape": Shape(()),
        "num_filter": Int(),
        "num_group": Int(1),
        "workspace": Int(512, doc="Without effect."),
        "no_bias": Bool(True),
        "cudnn_tune": Choice(None, doc="Without effect.", choices=_TUNING),
        "cudnn_off": Bool(False, doc="Without effect."),
        "layout": Choice(None, choices=_LAYOUTS),
    },
    infer=_deconvolution,
    gradient=Joint(_deconvolution_gradient),
    saves="data weight",
    reference=_deconvolution_reference,
    samples=_deconvolution_samples,
    errors=lambda: [
        error(
            _ONES,
            np.ones((2, 3, 3, 3), "float32"),
            None,
            kernel=(3, 3),
            num_filter=3,
            match="the weight must have shape (3, 3, 3, 3)",
        ),
        error(
            _ONES,
            np.ones((3, 2, 3, 3), "float32"),
            None,
            kernel=(3, 3),
            num_filter=2,
            adj=(1, 1),
            match="adj must be smaller than the stride",
        ),
        error(
            _ONES,
            np.ones((3, 2, 3, 3), "float32"),
            np.ones(2, "float32"),
            kernel=(3, 3),
            num_filter=2,
            match="a bias (2,) was given",
        ),
    ],
    rtol=1e-4,
    atol=1e-5,
    doc="""Spread each input over a window, multiplied by a filter: the transpose of ``Convolution``.

Parameters
----------
data : NDArray
    ``(N, C, W)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``, or channels last as ``layout`` says.
weight : NDArray
    ``(C, num_filter / num_group, *kernel)``.
bias : NDArray, optional
    ``(num_filter,)``, with ``no_bias=False``.
kernel, stride, dilate, pad : tuple of int
    As of the convolution that this is the transpose of.
adj : tuple of int
    Positions added at the end of each axis, fewer than the stride.
target_shape : tuple of int
    Lengths of the result's spatial axes; replaces ``pad`` and ``adj``.
num_filter, num_group : int
no_bias : bool
layout : str, optional
workspace, cudnn_tune, cudnn_off
    Accepted, without effect.

Returns
-------
NDArray
    ``(N, num_filter, ...)`` with ``stride (size - 1) + dilate (kernel - 1) + 1 - 2 pad + adj`` positions an axis.

Raises
------
ShapeError
    If weight, ``adj`` or ``target_shape`` do not fit.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[[1, 2]]])
>>> mx.nd.Deconvolution(x, mx.nd.array([[[1, 10]]]), kernel=(2,), num_filter=1).asnumpy().tolist()
[[[1.0, 12.0, 20.0]]]
""",
)

_TRANSPOSED_WINDOWS = {k: _WINDOWS.get(k, Shape(())) for k in _TRANSPOSED}

operator(
    "_deconv_backward_data",
    "grad weight like",
    _TRANSPOSED_WINDOWS,
    infer=_as_like,
    gradient=(
        lambda F, v, y, g, w, like, **a: _plain_deconvolution(F, v, w, a),
        lambda F, v, y, g, w, like, **a: F._deconv_backward_weight(g, v, w, **a),
        None,
    ),
    saves="grad weight",
    doc="Gradient of ``Deconvolution`` for ``data``, in the shape of ``like``.",
)

operator(
    "_deconv_backward_weight",
    "grad data like",
    _TRANSPOSED_WINDOWS,
    infer=_as_like,
    gradient=(
        lambda F, v, y, g, x, like, **a: _plain_deconvolution(F, x, v, a),
        lambda F, v, y, g, x, like, **a: F._deconv_backward_data(g, v, x, **a),
        None,
    ),
    saves="grad data",
    doc="Gradient of ``Deconvolution`` for ``weight``, in the shape of ``like``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Pooling

_POOLING = {
    "kernel": Shape(()),
    "pool_type": Choice("max", choices=("avg", "lp", "max", "sum")),
    "global_pool": Bool(False),
    "cudnn_off": Bool(False, doc="Without effect."),
    "pooling_convention": Choice("valid", choices=("full", "same", "valid")),
    "stride": Shape(()),
    "pad": Shape(()),
    "p_value": Int(None),
    "count_include_pad": Bool(None),
    "layout": Choice(None, choices=("NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC")),
}
_POOLING_V1 = {
    "kernel": Shape(()),
    "pool_type": Choice("max", choices=("avg", "max", "sum")),
    "global_pool": Bool(False),
    "pooling_convention": Choice("valid", choices=("full", "valid")),
    "stride": Shape(()),
    "pad": Shape(()),
}


def _pooling(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec) -> Spec:
        n = len(x.shape) - 2
        if not 1 <= n <= 3:
            raise ShapeError(
                f"operator '{name}' wants data of 3 to 5 axes, (N, C, ...), but got {x.shape}.",
                operator=name,
                shapes=[x.shape],
            )
        if not a["global_pool"]:
            if len(a["kernel"]) != n:
                raise ShapeError(
                    f"operator '{name}': kernel={a['kernel']} must have {n} entries, one per spatial axis of data "
                    f"{x.shape}; or pass global_pool=True.",
                    operator=name,
                    shapes=[x.shape],
                )
            _check_lengths(name, {k: a[k][:n] for k in ("stride", "pad")}, ("stride", "pad"), n)
            pad = a["pad"][:n] or (0,) * n
            if any(p >= k for p, k in zip(pad, a["kernel"])):
                raise ShapeError(
                    f"operator '{name}': pad={pad} must be smaller than kernel={a['kernel']}, or windows would hold "
                    f"nothing but padding.",
                    operator=name,
                    shapes=[x.shape],
                )
        if a["pool_type"] == "lp" and a["p_value"] not in (1, 2, 3):
            raise ParameterError(
                f"operator '{name}': pool_type='lp' wants p_value 1, 2 or 3 but got {a['p_value']}.", operator=name
            )
        full = {"p_value": None, "count_include_pad": None, "layout": None, **a}
        full.pop("cudnn_off", None)
        try:
            return Spec(pooling_output_shape(x.shape, **pooling_geometry(len(x.shape), **full)), x.dtype)
        except ShapeError as e:
            raise _named(name, e) from None

    return infer


def _pooling_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    """Return the gradients of ``_pooling_backward(grad, x, out)``."""
    v, (grad, x, out) = gs[0], inputs
    kind = a["pool_type"]
    if kind == "max":
        return F._pooling_gather(v, x, out, **a), None, None
    if kind != "lp":
        return F.Pooling(v, **a), None, None
    p = a["p_value"]
    sums = {**a, "pool_type": "sum", "p_value": None}
    if p == 1:
        return F.Pooling(v, **sums), None, None
    gathered = F.Pooling(v * x ** (p - 1.0), **sums)
    spread = F._pooling_backward(grad * out ** (1.0 - p), x, out, **sums)
    return (
        gathered * out ** (1.0 - p),
        v * spread * ((p - 1.0) * x ** (p - 2.0)),
        grad * gathered * ((1.0 - p) * out ** (-1.0 * p)),
    )


def _pooling_reference(x: Any, *, pool_type: str = "max", kernel: Any = (), layout: Any = None, **a: Any) -> Any:
    """Loop over windows."""
    if layout and layout.endswith("C"):
        return np.moveaxis(_pooling_reference(np.moveaxis(x, -1, 1), pool_type=pool_type, kernel=kernel, **a), 1, -1)
    n = x.ndim - 2
    size = x.shape[2:]
    stride, _, pad, _ = _filled(a, n)
    if a.get("global_pool"):
        kernel, stride, pad = size, (1,) * n, (0,) * n
    convention = a.get("pooling_convention", "valid")
    if convention == "same":
        out = [math.ceil(m / s) for m, s in zip(size, stride)]
    else:
        up = math.ceil if convention == "full" else math.floor
        out = [up((m + 2 * p - k) / s) + 1 for m, p, k, s in zip(size, pad, kernel, stride)]
    y = np.zeros((*x.shape[:2], *out))
    p: Any = a.get("p_value")
    for at in np.ndindex(*out):
        starts = [i * s - q for i, s, q in zip(at, stride, pad)]
        window = tuple(slice(max(b, 0), min(b + k, m)) for b, k, m in zip(starts, kernel, size))
        part = x[(slice(None), slice(None), *window)].reshape(*x.shape[:2], -1)
        if pool_type == "max":
            value = part.max(-1)
        elif pool_type == "lp":
            value = (part**p).sum(-1) ** (1 / p)
        else:
            value = part.sum(-1)
            if pool_type == "avg":
                if a.get("count_include_pad", True) is False:
                    value = value / part.shape[-1]
                else:
                    ends = [min(b + k, m + q) for b, k, m, q in zip(starts, kernel, size, pad)]
                    value = value / math.prod(e - b for e, b in zip(ends, starts))
        y[(slice(None), slice(None), *at)] = value
    return y


def _distinct(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers that finite differences do not reorder."""
    return rng.permutation(math.prod(shape)).reshape(shape) / 7 + 0.2


def _pooling_v1_samples(rng: np.random.Generator) -> Any:
    yield sample(_distinct(rng, 2, 2, 5, 6), kernel=(2, 2), stride=(2, 2))
    yield sample(_distinct(rng, 2, 2, 5, 5), kernel=(3, 3), pad=(1, 1), stride=(2, 2), pool_type="avg")
    yield sample(_distinct(rng, 1, 2, 5, 5), kernel=(3, 2), stride=(2, 2), pooling_convention="full", pool_type="max")
    yield sample(_distinct(rng, 2, 3, 3, 4), kernel=(1, 1), global_pool=True, pool_type="avg")
    yield sample(_distinct(rng, 1, 1, 4, 4), kernel=(3, 3), pool_type="sum", stride=(1, 1))


def _pooling_samples(rng: np.random.Generator) -> Any:
    yield from _pooling_v1_samples(rng)
    yield sample(_distinct(rng, 1, 2, 4, 4), kernel=(3, 3), pool_type="max", pad=(1, 1))
    yield sample(_distinct(rng, 1, 2, 4, 4), kernel=(2, 2), pool_type="lp", p_value=2)
    yield sample(_distinct(rng, 1, 2, 4, 4), kernel=(2, 2), pool_type="lp", p_value=3, stride=(2, 2))
    yield sample(_distinct(rng, 2, 2, 7), kernel=(3,), stride=(2,), pool_type="max")
    yield sample(
        _distinct(rng, 1, 2, 3, 4, 3), kernel=(2, 2, 2), pool_type="avg", pad=(1, 0, 1), count_include_pad=False
    )
    yield sample(_distinct(rng, 2, 4, 4, 2), kernel=(2, 2), stride=(2, 2), layout="NHWC")
    yield sample(_distinct(rng, 2, 2, 3, 3), global_pool=True)
    yield sample(_distinct(rng, 2, 2, 7), kernel=(2,), stride=(2,), pad=(0, 0), pooling_convention="same")


def _pooling_v1_gradient(F: Any, g: Any, y: Any, x: Any, **a: Any) -> Any:
    pad = a["pad"]
    if a["pool_type"] != "max" or not any(pad) or a["global_pool"]:
        return F._pooling_backward(g, x, y, **a)
    widths = (0, 0, 0, 0, *itertools.chain.from_iterable((p, p) for p in pad))
    padded = F.Pad(x, mode="constant", pad_width=widths, constant_value=0.0)
    d = F._pooling_backward(g, padded, y, **{**a, "pad": ()})
    none = (None, None)
    return F.slice(d, begin=(*none, *pad), end=(*none, *[-p or None for p in pad]))


def _pooling_v1_reference(x: Any, **a: Any) -> Any:
    pad = a.get("pad", ())
    if a.get("pool_type", "max") == "max" and any(pad):
        x, a = _padded(x, pad), {**a, "pad": ()}
    return _pooling_reference(x, **a)


_POOLING_DOC = """Reduce windows of each channel to their maximum, average, sum or Lp norm.

Parameters
----------
data : NDArray
    ``(N, C, W)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``, or channels last as ``layout`` says.
kernel, stride, pad : tuple of int
    One entry per spatial axis; stride 1 and pad 0 if left out. Padding {padding}.
pool_type : {{"max", "avg", "sum", "lp"}}
global_pool : bool
    One window over everything; kernel, stride and pad are not used.
pooling_convention : {{"valid", "full", "same"}}
    How many windows: only whole ones, also the one that sticks out, or ``ceil(size / stride)`` (one spatial axis).
p_value : int, optional
    1, 2 or 3, for ``pool_type="lp"``: ``sum(x ** p) ** (1 / p)``.
count_include_pad : bool, optional
    Whether averages count padding; they do if None.
layout : str, optional
cudnn_off
    Accepted, without effect.

Returns
-------
NDArray
    ``(N, C, ...)``.

Raises
------
ShapeError
    If the kernel does not fit.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[[1, 3, 2, 0]]])
>>> mx.nd.{name}({data}, kernel={kernel}, stride={kernel}).asnumpy().tolist()
{result}
"""


def _pooling_errors() -> Any:
    return [
        error(_ONES, kernel=(5, 5), match="does not fit"),
        error(_ONES, kernel=(2,), match="must have 2 entries"),
        error(_ONES, kernel=(2, 2), pad=(2, 2), match="must be smaller than kernel"),
        error(_ONES, kernel=(2, 2), stride=(2,), match="stride=(2,) must have 2 entries"),
        error(np.ones((2, 3), "float32"), kernel=(2,), match="3 to 5 axes"),
    ]


operator(
    "Pooling",
    "data",
    _POOLING,
    infer=_pooling("Pooling"),
    gradient=(lambda F, g, y, x, **a: F._pooling_backward(g, x, y, **a),),
    saves="data output",
    reference=_pooling_reference,
    samples=_pooling_samples,
    errors=lambda: [*_pooling_errors(), error(_ONES, kernel=(2, 2), pool_type="lp", match="p_value 1, 2 or 3")],
    doc=_POOLING_DOC.format(
        name="Pooling", padding="is never a maximum", data="x", kernel="(2,)", result="[[[3.0, 2.0]]]"
    ),
)

operator(
    "Pooling_v1",
    "data",
    _POOLING_V1,
    infer=_pooling("Pooling_v1"),
    gradient=(_pooling_v1_gradient,),
    saves="data output",
    reference=_pooling_v1_reference,
    samples=lambda rng: [
        *_pooling_v1_samples(rng),
        sample(_distinct(rng, 1, 2, 5, 5) - 3.0, kernel=(3, 2), pad=(1, 0), stride=(2, 2)),
    ],
    doc=_POOLING_DOC.format(
        name="Pooling_v1",
        padding="counts as 0, for a maximum too",
        data="x.reshape((1, 1, 1, 4))",
        kernel="(1, 2)",
        result="[[[[3.0, 2.0]]]]",
    ),
)

operator(
    "_pooling_backward",
    "grad data output",
    _POOLING,
    infer=lambda a, g, x, y: x,
    gradient=Joint(_pooling_gradient),
    saves="grad data output",
    doc="Gradient of ``Pooling``.",
)

operator(
    "_pooling_gather",
    "data at output",
    _POOLING,
    infer=lambda a, v, x, y: y,
    gradient=(lambda F, g, y, v, x, out, **a: F._pooling_backward(g, x, out, **a), None, None),
    saves="at output",
    doc="Take from ``data`` where max pooling of ``at`` found ``output``; the gradient of ``_pooling_backward``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Resizing


def _images(name: str, x: Spec) -> None:
    if len(x.shape) != 4:
        raise ShapeError(
            f"operator '{name}' wants data (N, C, H, W) but got {x.shape}.", operator=name, shapes=[x.shape]
        )


def _upsampling(a: Any, *xs: Spec) -> Spec:
    name, scale = "UpSampling", a["scale"]
    for x in xs:
        _images(name, x)
    first = xs[0].shape
    if scale < 1:
        raise ParameterError(f"operator '{name}': scale={scale} must be at least 1.", operator=name)
    h, w = first[2] * scale, first[3] * scale
    if a["sample_type"] == "bilinear":
        k = bilinear_upsampling(scale)["kernel"]
        want = (first[1], 1, *k)
        if len(xs) != 2 or xs[1].shape != want:
            raise ShapeError(
                f"operator '{name}': bilinear sampling of data {first} wants a weight {want} as second input but got "
                f"{[x.shape for x in xs[1:]]}.",
                operator=name,
                shapes=[x.shape for x in xs],
            )
        return Spec((first[0], first[1], h, w), xs[0].dtype)
    for x in xs:
        fits = x.shape[0] == first[0] and h % x.shape[2] == 0 and x.shape[3] * (h // x.shape[2]) == w
        if not fits or (a["multi_input_mode"] == "sum" and x.shape[1] != first[1]):
            raise ShapeError(
                f"operator '{name}': input {x.shape} cannot be scaled to ({h}, {w}), the first one's size times {scale}"
                f"{', with as many channels' if a['multi_input_mode'] == 'sum' else ''}.",
                operator=name,
                shapes=[x.shape for x in xs],
            )
    channels = first[1] if a["multi_input_mode"] == "sum" else sum(x.shape[1] for x in xs)
    return Spec((first[0], channels, h, w), xs[0].dtype)


def _upsampling_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if a["sample_type"] == "bilinear":
        x, w = inputs
        how = {**bilinear_upsampling(a["scale"]), "num_group": a["num_filter"] or x.shape[1]}
        return F._deconv_backward_data(gs[0], w, x, **how), F._deconv_backward_weight(gs[0], x, w, **how)
    how = {"scale": a["scale"], "multi_input_mode": a["multi_input_mode"]}
    return [F._backward_UpSampling(gs[0], *inputs, index=i, **how) if need else None for i, need in enumerate(needs)]


def _upsampling_reference(*xs: Any, scale: int, sample_type: str, multi_input_mode: str = "concat", **_: Any) -> Any:
    if sample_type == "bilinear":
        how = bilinear_upsampling(scale)
        return _deconvolution_reference(*xs, num_group=xs[0].shape[1], **how)
    h = xs[0].shape[2] * scale
    parts = [np.repeat(np.repeat(x, h // x.shape[2], 2), h // x.shape[2], 3) for x in xs]
    return np.concatenate(parts, 1) if multi_input_mode == "concat" else sum(parts)


operator(
    "UpSampling",
    "*data",
    {
        "scale": Int(),
        "num_filter": Int(0),
        "sample_type": Choice(choices=("bilinear", "nearest")),
        "multi_input_mode": Choice("concat", choices=("concat", "sum")),
        "workspace": Int(512, doc="Without effect."),
    },
    infer=_upsampling,
    gradient=Joint(_upsampling_gradient),
    saves="data",
    reference=_upsampling_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 2, 3)), scale=2, sample_type="nearest"),
        sample(rng.standard_normal((1, 2, 2, 3)), rng.standard_normal((1, 1, 4, 6)), scale=2, sample_type="nearest"),
        sample(
            rng.standard_normal((1, 2, 2, 2)),
            rng.standard_normal((1, 2, 1, 1)),
            scale=2,
            sample_type="nearest",
            multi_input_mode="sum",
        ),
        sample(
            rng.standard_normal((1, 2, 3, 3)),
            rng.standard_normal((2, 1, 4, 4)),
            scale=2,
            sample_type="bilinear",
            num_filter=2,
        ),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), scale=2, sample_type="nearest", match="wants data (N, C, H, W)"),
        error(_ONES, scale=2, sample_type="bilinear", match="wants a weight (3, 1, 4, 4)"),
        error(_ONES, np.ones((1, 3, 3, 3), "float32"), scale=2, sample_type="nearest", match="cannot be scaled"),
    ],
    doc="""Enlarge images by a whole factor.

Parameters
----------
*data : NDArray
    ``(N, C, H, W)``. With ``sample_type="nearest"`` any number of inputs, each enlarged to the first one's new size;
    with ``"bilinear"`` data and a weight ``(C, 1, k, k)``, ``k = 2 scale - scale % 2``, of a deconvolution.
scale : int
num_filter : int
    The number of channels, for ``"bilinear"``.
sample_type : {"nearest", "bilinear"}
multi_input_mode : {"concat", "sum"}
    Join several inputs along the channels, or add them.
workspace
    Accepted, without effect.

Returns
-------
NDArray
    ``(N, C, scale H, scale W)``.

Raises
------
ShapeError
    If the inputs' sizes do not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.UpSampling(mx.nd.array([[[[1, 2]]]]), scale=2, sample_type="nearest").asnumpy().tolist()
[[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
""",
)


def _upsampling_twice(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    """Upsampling is linear: the gradient for ``grad`` is what ``grad`` would be for this one input."""
    _, *xs = inputs
    alone = [gs[0] if i == a["index"] else F.zeros_like(x) for i, x in enumerate(xs)]
    how = {"scale": a["scale"], "multi_input_mode": a["multi_input_mode"], "sample_type": "nearest"}
    return [F.UpSampling(*alone, **how), *[None] * len(xs)]


operator(
    "_backward_UpSampling",
    "*args",
    {"scale": Int(), "multi_input_mode": Choice("concat", choices=("concat", "sum")), "index": Int(0)},
    infer=lambda a, g, *xs: xs[a["index"]],
    gradient=Joint(_upsampling_twice),
    saves="",
    doc="Gradient of nearest ``UpSampling`` for the input number ``index``; ``args`` are grad and all inputs.",
)


def _adaptive(a: Any, x: Spec) -> Spec:
    name, size = "_contrib_AdaptiveAvgPooling2D", a["output_size"]
    _images(name, x)
    _floats(name, x)
    if len(size) > 2 or any(n < 1 for n in size):
        raise ParameterError(
            f"operator '{name}': output_size={size} must be one or two lengths of at least 1.", operator=name
        )
    return Spec((*x.shape[:2], size[0] if size else 1, size[-1] if size else 1), x.dtype)


def _adaptive_reference(x: Any, *, output_size: Any = ()) -> Any:
    h, w = (output_size[0], output_size[-1]) if output_size else (1, 1)
    y = np.zeros((*x.shape[:2], h, w))
    for i, j in itertools.product(range(h), range(w)):
        rows = slice(math.floor(i * x.shape[2] / h), math.ceil((i + 1) * x.shape[2] / h))
        columns = slice(math.floor(j * x.shape[3] / w), math.ceil((j + 1) * x.shape[3] / w))
        y[:, :, i, j] = x[:, :, rows, columns].mean((2, 3))
    return y


operator(
    "_contrib_AdaptiveAvgPooling2D",
    "data",
    {"output_size": Shape(())},
    infer=_adaptive,
    gradient=(lambda F, g, y, x, output_size: F._adaptive_pooling_backward(g, x, output_size=output_size),),
    saves="",
    reference=_adaptive_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 5, 7)), output_size=(2, 3)),
        sample(rng.standard_normal((2, 3, 4, 4))),
        sample(rng.standard_normal((1, 2, 3, 5)), output_size=(4,)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), match="wants data (N, C, H, W)")],
    doc="""Average images over a grid of ``output_size`` nearly equal parts.

Parameters
----------
data : NDArray
    ``(N, C, H, W)``, floats.
output_size : int or tuple of int
    Height and width of the result; 1 if left out.

Returns
-------
NDArray
    ``(N, C, *output_size)``.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.AdaptiveAvgPooling2D(mx.nd.array([[[[1, 2, 3, 4]]]]), output_size=(1, 2)).asnumpy().tolist()
[[[[1.5, 3.5]]]]
""",
)

operator(
    "_adaptive_pooling_backward",
    "grad like",
    {"output_size": Shape(())},
    infer=lambda a, g, like: Spec(like.shape, g.dtype),
    gradient=(
        lambda F, v, y, g, like, output_size: F._contrib_AdaptiveAvgPooling2D(v, output_size=output_size),
        None,
    ),
    saves="",
    doc="Gradient of ``_contrib_AdaptiveAvgPooling2D``.",
)

_RESIZE_MODES = ("like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
_RESIZE = {
    "height": Int(1),
    "width": Int(1),
    "scale_height": Float(None),
    "scale_width": Float(None),
    "mode": Choice("size", choices=_RESIZE_MODES),
    "align_corners": Bool(True),
}


def _resize(a: Any, x: Spec, like: Spec | None = None) -> Spec:
    name = "_contrib_BilinearResize2D"
    _images(name, x)
    _floats(name, x)
    if (like is not None) != (a["mode"] == "like"):
        raise ParameterError(f"operator '{name}': give like exactly with mode='like', not mode={a['mode']!r}.")
    if like is not None:
        _images(name, like)
    if (a["scale_height"] is None) != (a["scale_width"] is None) or (
        a["mode"] == "odd_scale" and a["scale_height"] is None
    ):
        raise ParameterError(f"operator '{name}': give both scale_height and scale_width.", operator=name)
    h, w = resized(x.shape, None if like is None else like.shape, a)
    if h < 1 or w < 1:
        raise ShapeError(f"operator '{name}': the result of data {x.shape} would be {h} x {w}.", operator=name)
    return Spec((*x.shape[:2], h, w), x.dtype)


def _resize_reference(x: Any, like: Any = None, *, align_corners: bool = True, **a: Any) -> Any:
    from scipy.ndimage import map_coordinates

    full = {k: v.default for k, v in _RESIZE.items()} | a
    h, w = resized(x.shape, None if like is None else like.shape, full)

    def at(n: int, m: int) -> np.ndarray:
        if align_corners:
            return np.linspace(0, n - 1, m) if m > 1 else np.zeros(1)
        return np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)

    grid = np.meshgrid(at(x.shape[2], h), at(x.shape[3], w), indexing="ij")
    return np.array([[map_coordinates(c, grid, order=1) for c in image] for image in x])


operator(
    "_contrib_BilinearResize2D",
    "data like?",
    _RESIZE,
    infer=_resize,
    gradient=Joint(
        lambda F, gs, inputs, outputs, a, needs: [
            F._bilinear_resize_backward(gs[0], inputs[0], align_corners=a["align_corners"]),
            None if inputs[1] is None else F.zeros_like(inputs[1]),
        ]
    ),
    saves="",
    reference=_resize_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 2, 5, 6)), None, height=4, width=3),
        sample(rng.standard_normal((1, 2, 5, 6)), None, height=7, width=9, align_corners=False),
        sample(rng.standard_normal((1, 2, 3, 4)), None, scale_height=2.0, scale_width=1.5),
        sample(rng.standard_normal((1, 2, 5, 6)), None, mode="odd_scale", scale_height=2.0, scale_width=1.5),
        sample(rng.standard_normal((1, 2, 5, 6)), None, mode="to_even_up"),
        sample(rng.standard_normal((1, 2, 5, 6)), None, mode="to_odd_down"),
        sample(rng.standard_normal((1, 1, 2, 2)), rng.standard_normal((1, 1, 3, 5)), mode="like"),
        sample(rng.standard_normal((1, 1, 2, 2)), None),
    ],
    errors=lambda: [
        error(_ONES, None, mode="like", match="give like exactly with mode='like'"),
        error(_ONES, None, scale_height=2.0, match="give both scale_height and scale_width"),
    ],
    doc="""Resize images by linear interpolation along both axes.

Parameters
----------
data : NDArray
    ``(N, C, H, W)``, floats.
like : NDArray, optional
    ``(N, C, H', W')``: what to take the size from, with ``mode="like"``.
height, width : int
    Size of the result with ``mode="size"``.
scale_height, scale_width : float, optional
    Factors instead, with ``mode="size"`` or ``"odd_scale"`` (which keeps odd lengths odd: ``(n - 1) s + 1``).
mode : {"size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"}
    The last four change a length by at most one.
align_corners : bool
    Whether the corner pixels keep their place; else pixels are cells of a grid.

Returns
-------
NDArray
    ``(N, C, H', W')``.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.BilinearResize2D(mx.nd.array([[[[0, 2]]]]), height=1, width=3).asnumpy().tolist()
[[[[0.0, 1.0, 2.0]]]]
""",
)


def _bilinear_forward(F: Any, v: Any, g: Any, align_corners: bool) -> Any:
    return F._contrib_BilinearResize2D(v, height=g.shape[2], width=g.shape[3], align_corners=align_corners)


operator(
    "_bilinear_resize_backward",
    "grad like",
    {"align_corners": Bool(True)},
    infer=lambda a, g, like: Spec(like.shape, g.dtype),
    gradient=(lambda F, v, y, g, like, align_corners: _bilinear_forward(F, v, g, align_corners), None),
    saves="",
    doc="Gradient of ``_contrib_BilinearResize2D``.",
)
