"""Records of operators that reverse, repeat and pad along axes.

Every result holds copies of input elements, or a fill value. Operators named ``_x_backward`` add the gradient up where
``x`` took its elements from; each is linear, and its own gradient is ``x`` again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Choice, Float, Int, Shape
from .checks import one_axis
from .record import Spec, error, sample
from .registry import operator


def _reverse(a: Any, x: Spec) -> Spec:
    for axis in a["axis"]:
        one_axis("reverse", axis, len(x.shape))
    return x


operator(
    "reverse",
    "data",
    {"axis": Shape()},
    aliases=("flip",),
    infer=_reverse,
    gradient=(lambda F, g, y, x, axis: F.reverse(g, axis=axis),),
    saves="",
    reference=lambda x, axis: np.flip(x, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), axis=(0, 1)),
        sample(rng.standard_normal((3, 4)), axis=0),
        sample(rng.standard_normal((2, 3, 4)), axis=(-1,)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range")],
    doc="""Reverse the order of elements along axes.

Parameters
----------
data : NDArray
axis : int or tuple of int

Returns
-------
NDArray

Raises
------
ShapeError
    If an axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.flip(mx.nd.array([[1, 2], [3, 4]]), axis=1).asnumpy().tolist()
[[2.0, 1.0], [4.0, 3.0]]
""",
)


def _tile(a: Any, x: Spec) -> Spec:
    reps = a["reps"]
    if any(r < 1 for r in reps):
        raise ParameterError(f"operator 'tile': reps={reps} must be positive.", operator="tile")
    n = max(len(reps), len(x.shape))
    shape = (1,) * (n - len(x.shape)) + x.shape
    reps = (1,) * (n - len(reps)) + reps
    return Spec(tuple(r * m for r, m in zip(reps, shape)), x.dtype)


operator(
    "tile",
    "data",
    {"reps": Shape()},
    infer=_tile,
    gradient=(lambda F, g, y, x, reps: F._tile_backward(g, x, reps=reps),),
    saves="",
    reference=lambda x, reps: np.tile(x, reps),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), reps=(2, 2)),
        sample(rng.standard_normal((2, 3)), reps=2),
        sample(rng.standard_normal((2, 3)), reps=(2, 1, 3)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), reps=(0, 1), match="must be positive")],
    doc="""Repeat the whole array along axes.

Parameters
----------
data : NDArray
reps : int or tuple of int
    Repetitions for the last axes; more of them than axes add axes in front.

Returns
-------
NDArray

Raises
------
ParameterError
    If a number of repetitions is not positive.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.tile(mx.nd.array([1, 2]), reps=(2, 2)).asnumpy().tolist()
[[1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 1.0, 2.0]]
""",
)

operator(
    "_tile_backward",
    "grad data",
    {"reps": Shape()},
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, reps: F.tile(g, reps=reps), None),
    saves="",
    doc="Add up the repetitions that ``tile`` made of ``data``.",
)


def _repeat(a: Any, x: Spec) -> Spec:
    k = a["repeats"]
    if k < 0:
        raise ParameterError(f"operator 'repeat': repeats={k} must not be negative.", operator="repeat")
    if a["axis"] is None:
        return Spec((k * math.prod(x.shape),), x.dtype)
    axis = one_axis("repeat", a["axis"], len(x.shape))
    return Spec(tuple(n * k if i == axis else n for i, n in enumerate(x.shape)), x.dtype)


operator(
    "repeat",
    "data",
    {"repeats": Int(), "axis": Int(None)},
    infer=_repeat,
    gradient=(lambda F, g, y, x, **a: F._repeat_backward(g, x, **a),),
    saves="",
    reference=lambda x, repeats, axis=None: np.repeat(x, repeats, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), repeats=2),
        sample(rng.standard_normal((2, 3)), repeats=3, axis=-1),
        sample(rng.standard_normal((2, 3)), repeats=2, axis=0),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), repeats=-1, match="must not be negative"),
        error(np.ones((2, 3), "float32"), repeats=2, axis=2, match="axis=2 is out of range"),
    ],
    doc="""Repeat each element.

Parameters
----------
data : NDArray
repeats : int
axis : int or None
    Axis along which elements are repeated; None flattens first.

Returns
-------
NDArray

Raises
------
ShapeError
    If the axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.repeat(mx.nd.array([1, 2]), repeats=2).asnumpy().tolist()
[1.0, 1.0, 2.0, 2.0]
""",
)

operator(
    "_repeat_backward",
    "grad data",
    {"repeats": Int(), "axis": Int(None)},
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, **a: F.repeat(g, **a), None),
    saves="",
    doc="Add up the copies that ``repeat`` made of each element of ``data``.",
)

_PAD = {
    "mode": Choice(choices=("constant", "edge", "reflect")),
    "pad_width": Shape(),
    "constant_value": Float(0.0),
}


def _pad(a: Any, x: Spec) -> Spec:
    width = a["pad_width"]
    if len(width) != 2 * len(x.shape) or any(w < 0 for w in width):
        raise ParameterError(
            f"operator 'Pad': pad_width={width} must hold two widths, not negative, for each of the "
            f"{len(x.shape)} axes of data {x.shape}.",
            operator="Pad",
        )
    for i, n in enumerate(x.shape):
        most = max(width[2 * i], width[2 * i + 1])
        if a["mode"] == "reflect" and most >= max(n, 1) and most > 0:
            raise ShapeError(
                f"operator 'Pad': mode='reflect' needs widths smaller than the axis, but axis {i} of data {x.shape} "
                f"gets {most}.",
                operator="Pad",
                shapes=[x.shape],
            )
    return Spec(tuple(n + width[2 * i] + width[2 * i + 1] for i, n in enumerate(x.shape)), x.dtype)


def _padded(x: np.ndarray, mode: str, pad_width: Any, constant_value: float = 0.0) -> np.ndarray:
    pairs = list(zip(pad_width[::2], pad_width[1::2]))
    return np.pad(x, pairs, mode, **({"constant_values": constant_value} if mode == "constant" else {}))  # type: ignore[call-overload]


operator(
    "Pad",
    "data",
    _PAD,
    aliases=("pad",),
    infer=_pad,
    gradient=(
        lambda F, g, y, x, mode, pad_width, constant_value: F._pad_backward(g, x, mode=mode, pad_width=pad_width),
    ),
    saves="",
    reference=_padded,
    samples=lambda rng: [
        sample(
            rng.standard_normal((1, 2, 2, 3)), mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 0, 1), constant_value=3.0
        ),
        sample(rng.standard_normal((1, 2, 2, 3)), mode="edge", pad_width=(0, 0, 0, 0, 1, 3, 2, 0)),
        sample(rng.standard_normal((1, 1, 3, 4)), mode="reflect", pad_width=(0, 0, 0, 0, 2, 1, 3, 2)),
        sample(rng.standard_normal((1, 1, 2, 2, 2)), mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 1, 0, 0, 1)),
    ],
    errors=lambda: [
        error(np.ones((1, 1, 2, 2), "float32"), mode="edge", pad_width=(1, 1), match="two widths"),
        error(
            np.ones((1, 1, 2, 2), "float32"),
            mode="reflect",
            pad_width=(0, 0, 0, 0, 2, 0, 0, 0),
            match="smaller than the axis",
        ),
        error(np.ones((1, 1, 2, 2), "float32"), mode="wrap", pad_width=(0,) * 8, match="one of 'constant'"),
    ],
    doc="""Add elements at both ends of axes.

Parameters
----------
data : NDArray
    Any number of axes (MXNet: four or five).
mode : {"constant", "edge", "reflect"}
    A fixed value, the outermost element, or the elements mirrored at the outermost one.
pad_width : tuple of int
    Widths ``(before, after)`` of every axis, one after the other.
constant_value : float

Returns
-------
NDArray

Raises
------
ParameterError
    If ``pad_width`` does not hold two widths for every axis.
ShapeError
    If ``mode="reflect"`` and a width is not smaller than its axis.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.pad(mx.nd.ones((1, 1, 1, 2)), mode="constant", pad_width=(0, 0, 0, 0, 0, 0, 1, 1)).asnumpy().tolist()
[[[[0.0, 1.0, 1.0, 0.0]]]]
""",
)

operator(
    "_pad_backward",
    "grad data",
    {"mode": _PAD["mode"], "pad_width": _PAD["pad_width"]},
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(
        lambda F, g, y, gg, x, mode, pad_width: F.Pad(g, mode=mode, pad_width=pad_width, constant_value=0.0),
        None,
    ),
    saves="",
    doc="Add each padded element of ``grad`` to the element of ``data`` it copied; the gradient of ``Pad``.",
)
