"""Records of operators that order elements along an axis: sort, argsort, topk.

Equal elements keep their order, also when sorting downwards. Positions are float32 unless asked otherwise
(MXNet's behaviour). NaN counts as the largest element.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..spec.errors import ParameterError
from .attributes import Bool, Choice, Int
from .checks import one_axis
from .record import ZERO_GRADIENT, Joint, Spec, error, sample
from .references import distinct
from .registry import operator

_INT64 = np.dtype(np.int64)


class IntOrNone(Int):
    """A whole number or None, where None is not the default."""

    __slots__ = ()

    def accepted(self) -> str:
        return "a whole number or None"

    def convert(self, value: Any) -> Any:
        return None if value is None or value == "None" else super().convert(value)


_AXIS = IntOrNone(-1)
_POSITIONS = Choice("float32", choices=("float16", "float32", "float64", "int32", "int64", "uint8"))


def _ordered(name: str, a: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the result: flat where ``axis`` is None."""
    if a["axis"] is None:
        return (math.prod(shape),)
    one_axis(name, a["axis"], len(shape))
    return shape


def _descending(x: np.ndarray, axis: Any, is_ascend: bool) -> np.ndarray:
    """Reference: positions in order, by Python's sort, which is stable both ways."""
    x = x.reshape(-1) if axis is None else x
    axis = 0 if axis is None else axis

    def order(row: np.ndarray) -> np.ndarray:
        return np.array(sorted(range(len(row)), key=lambda i: row[i] if is_ascend else -row[i]), dtype=np.int64)

    return np.apply_along_axis(order, axis, x)


def _values(x: np.ndarray, axis: Any = -1, is_ascend: bool = True) -> np.ndarray:
    flat = x.reshape(-1) if axis is None else x
    return np.take_along_axis(flat, _descending(x, axis, is_ascend), 0 if axis is None else axis)


def _sort_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if gs[0] is None:
        return [None]
    return [F._take_along_backward(gs[0], outputs[1], inputs[0], axis=a["axis"])]


_TIES = np.array([[2.0, 1, 2, 1, 1], [0, 5, 5, 0, 3]])

operator(
    "sort",
    "data",
    {"axis": _AXIS, "is_ascend": Bool(True)},
    outputs=2,
    visible=1,
    infer=lambda a, x: (Spec(_ordered("sort", a, x.shape), x.dtype), Spec(_ordered("sort", a, x.shape), _INT64)),
    gradient=Joint(_sort_back),
    saves="output",
    reference=_values,
    samples=lambda rng: [
        sample(distinct(rng, (3, 4))),
        sample(distinct(rng, (3, 4)), axis=0, is_ascend=False),
        sample(distinct(rng, (2, 3)), axis=None),
        sample(distinct(rng, (2, 3, 4)), axis=-2),
        sample(_TIES, is_ascend=False, check_gradient=False),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range")],
    doc="""Sort elements along an axis.

Parameters
----------
data : NDArray
axis : int or None
    None sorts the flattened array.
is_ascend : bool
    Smallest first, or largest first.

Returns
-------
NDArray
    Shape of ``data``, or one axis where ``axis`` is None.

Raises
------
ShapeError
    If the axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.sort(mx.nd.array([[3, 1, 2]]), is_ascend=False).asnumpy().tolist()
[[3.0, 2.0, 1.0]]
""",
)

operator(
    "argsort",
    "data",
    {"axis": _AXIS, "is_ascend": Bool(True), "dtype": _POSITIONS},
    infer=lambda a, x: Spec(_ordered("argsort", a, x.shape), np.dtype(a["dtype"])),
    gradient=ZERO_GRADIENT,
    saves="",
    reference=lambda x, axis=-1, is_ascend=True, dtype="float32": _descending(x, axis, is_ascend),
    samples=lambda rng: [
        sample(distinct(rng, (3, 4))),
        sample(distinct(rng, (3, 4)), axis=0, is_ascend=False, dtype="int32"),
        sample(distinct(rng, (2, 3)), axis=None),
        sample(_TIES, check_gradient=False),
        sample(_TIES, is_ascend=False, check_gradient=False),
        sample(np.array([[3, 1, 2, 1]], "uint8"), is_ascend=False),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range"),
        error(np.ones((2, 3), "float32"), dtype="int8", match="one of 'float16'"),
    ],
    doc="""Return the positions that sort an array along an axis.

Parameters
----------
data : NDArray
axis : int or None
    None sorts the flattened array.
is_ascend : bool
    Smallest first, or largest first.
dtype : str
    dtype of the positions.

Returns
-------
NDArray
    Shape of ``data``, or one axis where ``axis`` is None. Equal elements keep their order.

Raises
------
ShapeError
    If the axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.argsort(mx.nd.array([[3, 1, 2]])).asnumpy().tolist()
[[1.0, 2.0, 0.0]]
""",
)


def chosen(k: int, n: int) -> int:
    """Return how many elements ``topk`` takes of ``n``: all of them for ``k`` below 1."""
    return k if k > 0 else n


def _topk(a: Any, x: Spec) -> Any:
    shape = _ordered("topk", a, x.shape)
    axis = 0 if a["axis"] is None else a["axis"] % len(shape)
    if a["k"] > shape[axis]:
        raise ParameterError(
            f"operator 'topk': k={a['k']} exceeds the {shape[axis]} elements along "
            f"{'the flattened array' if a['axis'] is None else f'axis {axis}'} of data {x.shape}.",
            operator="topk",
        )
    if a["ret_typ"] == "mask":
        return Spec(x.shape, x.dtype)
    shape = shape[:axis] + (chosen(a["k"], shape[axis]),) + shape[axis + 1 :]
    positions = Spec(shape, np.dtype(a["dtype"]))
    if a["ret_typ"] == "indices":
        return positions
    return Spec(shape, x.dtype), positions if a["ret_typ"] == "both" else Spec(shape, _INT64)


def _topk_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    (x,) = inputs
    if a["ret_typ"] in ("indices", "mask") or gs[0] is None:
        return [F.zeros_like(x)]
    return [F._take_along_backward(gs[0], outputs[1], x, axis=a["axis"])]


def _topk_reference(
    x: np.ndarray, axis: Any = -1, k: int = 1, ret_typ: str = "indices", is_ascend: bool = False, dtype: str = "float32"
) -> Any:
    flat = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else axis
    order = _descending(x, axis, is_ascend)
    best = np.take(order, np.arange(chosen(k, flat.shape[along])), along)
    values = np.take_along_axis(flat, best, along)
    if ret_typ == "mask":
        mask = np.zeros(flat.shape)
        np.put_along_axis(mask, best, 1, along)
        return mask.reshape(x.shape)
    return {"indices": best, "value": values, "both": (values, best)}[ret_typ]


operator(
    "topk",
    "data",
    {
        "axis": _AXIS,
        "k": Int(1),
        "ret_typ": Choice("indices", choices=("both", "indices", "mask", "value")),
        "is_ascend": Bool(False),
        "dtype": _POSITIONS,
    },
    outputs=lambda a: 2 if a["ret_typ"] in ("both", "value") else 1,
    visible=lambda a: 2 if a["ret_typ"] == "both" else 1,
    infer=_topk,
    gradient=Joint(_topk_back),
    saves="output",
    reference=_topk_reference,
    samples=lambda rng: [
        sample(distinct(rng, (3, 5)), k=2),
        sample(distinct(rng, (3, 5)), k=2, ret_typ="value"),
        sample(distinct(rng, (3, 5)), k=2, ret_typ="both", axis=0, is_ascend=True, dtype="int32", check_gradient=False),
        sample(distinct(rng, (3, 5)), k=3, ret_typ="mask", check_gradient=False),
        sample(distinct(rng, (2, 5)), k=3, ret_typ="value", axis=None),
        sample(distinct(rng, (2, 3)), k=4, ret_typ="mask", axis=None, check_gradient=False),
        sample(distinct(rng, (2, 3)), k=0, ret_typ="value"),
        sample(_TIES, k=3, check_gradient=False),
        sample(_TIES, k=3, is_ascend=True, ret_typ="both", check_gradient=False),
        sample(rng.integers(0, 40, (3, 2000)), k=50, ret_typ="both", dtype="int32", check_gradient=False),
        sample(rng.integers(0, 40, (2000, 2)) * 0.5, k=5, axis=0, is_ascend=True, check_gradient=False),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), k=4, match="k=4 exceeds the 3 elements along axis 1"),
        error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range"),
        error(np.ones((2, 3), "float32"), ret_typ="x", match="one of 'both'"),
    ],
    doc="""Find the ``k`` largest elements along an axis.

Parameters
----------
data : NDArray
axis : int or None
    None means the flattened array.
k : int
    How many; below 1 means all.
ret_typ : {"indices", "value", "both", "mask"}
    Return positions, elements, a list of elements and positions, or ones at the chosen elements.
is_ascend : bool
    The smallest in place of the largest.
dtype : str
    dtype of the positions.

Returns
-------
NDArray or list of NDArray
    ``k`` along ``axis``, in order, the first of equal elements first; a mask has the shape of ``data``.

Raises
------
ParameterError
    If there are fewer than ``k`` elements.
ShapeError
    If the axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[3, 1, 2], [0, 5, 4]])
>>> mx.nd.topk(x, k=2).asnumpy().tolist()
[[0.0, 2.0], [1.0, 2.0]]
>>> mx.nd.topk(x, k=1, ret_typ="value").asnumpy().tolist()
[[3.0], [5.0]]
""",
)


def _along(a: Any, x: Spec, indices: Spec) -> Spec:
    return Spec(indices.shape, x.dtype)


operator(
    "_take_along",
    "data indices",
    {"axis": _AXIS},
    same_dtype=False,
    infer=_along,
    gradient=(lambda F, g, y, x, indices, axis: F._take_along_backward(g, indices, x, axis=axis), None),
    saves="indices",
    doc="Take the elements at ``indices`` along an axis, for each position of the other axes.",
)

operator(
    "_take_along_backward",
    "grad indices data",
    {"axis": _AXIS},
    same_dtype=False,
    infer=lambda a, g, indices, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, indices, x, axis: F._take_along(g, indices, axis=axis), None, None),
    saves="indices",
    doc="Put ``grad`` into zeros of the shape of ``data`` at ``indices``, each of which occurs once.",
)
