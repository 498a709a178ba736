"""Records of convolution and its transpose.

A convolution is bilinear: it, the gradient of its data and the gradient of its weight are three operators of which
each two give the derivative of the third, so every order of derivative is one of them. The same holds for
deconvolution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import ShapeError
from .attributes import Bool, Choice, Int, Shape
from .checks import check_bias, check_floats, check_lengths
from .record import Joint, Spec, error, sample
from .references import filled, padded
from .registry import operator
from .windows import convolution_output_shape, deconvolution_geometry, geometry, named

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


def _check_kernel(name: str, a: Any, x: Spec) -> None:
    n = len(a["kernel"])
    if not 1 <= n <= 3 or len(x.shape) != n + 2:
        raise ShapeError(
            f"operator '{name}': kernel={a['kernel']} has {n} axes, which wants data of {n + 2} axes, but data has shape "
            f"{x.shape}. Give one kernel length per spatial axis (1 to 3 of them).",
            operator=name,
            shapes=[x.shape],
        )
    check_lengths(name, a, ("stride", "dilate", "pad"), n)
    if a["layout"] is not None and len(a["layout"]) != n + 2:
        raise ShapeError(f"operator '{name}': layout={a['layout']!r} does not fit data {x.shape}.", operator=name)


def _of(attributes: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {k: attributes[k] for k in names}


def _channel_axis(layout: str | None) -> int:
    return -1 if layout and layout.endswith("C") else 1


# ---------------------------------------------------------------------------------------------------------------
# Convolution


def _convolution(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec, w: Spec, b: Spec | None = None) -> Spec:
        check_floats(name, x)
        _check_kernel(name, a, x)
        try:
            shape = convolution_output_shape(x.shape, w.shape, **geometry(**_of(a, _GEOMETRY)))
        except ShapeError as e:
            raise named(name, e) from None
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


def _convolution_reference(x: Any, w: Any, b: Any = None, *, kernel: Any, layout: Any = None, **a: Any) -> Any:
    """Loop over outputs and groups."""
    if layout and layout.endswith("C"):
        y = _convolution_reference(np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1), b, kernel=kernel, **a)
        return np.moveaxis(y, 1, -1)
    n = len(kernel)
    stride, dilate, pad, group = filled(a, n)
    x = padded(x, pad)
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
        gradient=Joint(_convolution_gradient, separate=True),
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


def _adjoints(of: str, prefix: str, attributes: Any, plain: Callable[..., Any]) -> None:
    """Declare the gradients of a bilinear operator for data and weight, whose own gradients are each other and it."""
    data, weight = f"{prefix}_backward_data", f"{prefix}_backward_weight"
    operator(
        data,
        "grad weight like",
        attributes,
        infer=_as_like,
        gradient=(
            lambda F, v, y, g, w, like, **a: plain(F, v, w, a),
            lambda F, v, y, g, w, like, **a: getattr(F, weight)(g, v, w, **a),
            None,
        ),
        saves="grad weight",
        doc=f"Gradient of ``{of}`` for ``data``, in the shape of ``like``.",
    )
    operator(
        weight,
        "grad data like",
        attributes,
        infer=_as_like,
        gradient=(
            lambda F, v, y, g, x, like, **a: plain(F, x, v, a),
            lambda F, v, y, g, x, like, **a: getattr(F, data)(g, v, x, **a),
            None,
        ),
        saves="grad data",
        doc=f"Gradient of ``{of}`` for ``weight``, in the shape of ``like``.",
    )


_adjoints("Convolution", "_conv", _WINDOWS, _plain_convolution)

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
    check_floats("Deconvolution", x)
    _check_kernel("Deconvolution", a, x)
    check_lengths("Deconvolution", a, ("adj", "target_shape"), len(a["kernel"]))
    try:
        shape, _ = deconvolution_geometry(x.shape, w.shape, **_of(a, _TRANSPOSED))
    except ShapeError as e:
        raise named("Deconvolution", e) from None
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


def deconvolution_reference(x: Any, w: Any, b: Any = None, *, kernel: Any, adj: Any = (), **a: Any) -> Any:
    """Add each input's share to the outputs of its window."""
    n = len(kernel)
    stride, dilate, pad, group = filled(a, n)
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
    gradient=Joint(_deconvolution_gradient, separate=True),
    saves="data weight",
    reference=deconvolution_reference,
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

_adjoints("Deconvolution", "_deconv", _TRANSPOSED_WINDOWS, _plain_deconvolution)
