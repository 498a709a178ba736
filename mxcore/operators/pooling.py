"""Records of pooling.

Pooling is linear for a given choice of positions, with ``_pooling_backward`` (scatter) and ``_pooling_gather`` as each
other's transposes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Choice, Int, Shape
from .checks import check_lengths
from .record import Joint, Spec, error, sample
from .references import distinct, filled, padded
from .registry import operator
from .windows import named, pooling_geometry, pooling_output_shape

_ONES = np.ones((1, 3, 4, 4), "float32")
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
            check_lengths(name, {k: a[k][:n] for k in ("stride", "pad")}, ("stride", "pad"), n)
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
            raise named(name, e) from None

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
    stride, _, pad, _ = filled(a, n)
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


def _spread(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return distinct(rng, shape, step=1 / 7, least=0.2)


def _pooling_v1_samples(rng: np.random.Generator) -> Any:
    yield sample(_spread(rng, 2, 2, 5, 6), kernel=(2, 2), stride=(2, 2))
    yield sample(_spread(rng, 2, 2, 5, 5), kernel=(3, 3), pad=(1, 1), stride=(2, 2), pool_type="avg")
    yield sample(_spread(rng, 1, 2, 5, 5), kernel=(3, 2), stride=(2, 2), pooling_convention="full", pool_type="max")
    yield sample(_spread(rng, 2, 3, 3, 4), kernel=(1, 1), global_pool=True, pool_type="avg")
    yield sample(_spread(rng, 1, 1, 4, 4), kernel=(3, 3), pool_type="sum", stride=(1, 1))


def _pooling_samples(rng: np.random.Generator) -> Any:
    yield from _pooling_v1_samples(rng)
    yield sample(_spread(rng, 1, 2, 4, 4), kernel=(3, 3), pool_type="max", pad=(1, 1))
    yield sample(_spread(rng, 1, 2, 4, 4), kernel=(2, 2), pool_type="lp", p_value=2)
    yield sample(_spread(rng, 1, 2, 4, 4), kernel=(2, 2), pool_type="lp", p_value=3, stride=(2, 2))
    yield sample(_spread(rng, 2, 2, 7), kernel=(3,), stride=(2,), pool_type="max")
    yield sample(_spread(rng, 1, 2, 3, 4, 3), kernel=(2, 2, 2), pool_type="avg", pad=(1, 0, 1), count_include_pad=False)
    yield sample(_spread(rng, 2, 4, 4, 2), kernel=(2, 2), stride=(2, 2), layout="NHWC")
    yield sample(_spread(rng, 2, 2, 3, 3), global_pool=True)
    yield sample(_spread(rng, 2, 2, 7), kernel=(2,), stride=(2,), pad=(0, 0), pooling_convention="same")


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
        x, a = padded(x, pad), {**a, "pad": ()}
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
        sample(_spread(rng, 1, 2, 5, 5) - 3.0, kernel=(3, 2), pad=(1, 0), stride=(2, 2)),
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
