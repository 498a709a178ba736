"""Records of operators on positions in several axes: gather and scatter by them, and arrays of them.

As in :mod:`.indexing`, positions may have any number dtype, gradients flow to the values only, and add up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Float, Int, Shape, String
from .checks import one_axis
from .record import ZERO_GRADIENT, Spec, error, sample
from .references import written
from .registry import operator

_INT64 = np.dtype(np.int64)


def _gathered(name: str, x: tuple[int, ...], indices: tuple[int, ...]) -> tuple[int, ...]:
    if len(indices) < 2 or indices[0] > len(x):
        raise ShapeError(
            f"operator '{name}' wants indices (M, ...) with M at most the {len(x)} axes of {x}, and at least two axes, "
            f"but got {indices}.",
            operator=name,
            shapes=[x, indices],
        )
    return indices[1:] + x[indices[0] :]


def _gather_nd(a: Any, x: Spec, indices: Spec) -> Spec:
    return Spec(_gathered("gather_nd", x.shape, indices.shape) or (1,), x.dtype)


def _scattered(name: str) -> Any:
    def infer(a: Any, x: Spec, indices: Spec) -> Spec:
        wanted = _gathered(name, a["shape"], indices.shape)
        if x.shape != wanted:
            raise ShapeError(
                f"operator '{name}' into shape={a['shape']} with indices {indices.shape} wants data {wanted} but got "
                f"{x.shape}.",
                operator=name,
                shapes=[x.shape, indices.shape],
            )
        return Spec(a["shape"], x.dtype)

    return infer


def _scattered_reference(add: bool) -> Any:
    def reference(x: np.ndarray, indices: np.ndarray, shape: Any) -> np.ndarray:
        out = np.zeros(shape)
        for place in np.ndindex(indices.shape[1:]):
            key = tuple(int(i) for i in indices[(slice(None), *place)])
            out[key] = out[key] + x[place] if add else x[place]
        return out

    return reference


operator(
    "gather_nd",
    "data indices",
    same_dtype=False,
    infer=_gather_nd,
    gradient=(
        lambda F, g, y, x, indices: F._gather_nd_backward(g, indices, x),
        lambda F, g, y, x, indices: F.zeros_like(indices),
    ),
    saves="indices",
    reference=lambda x, indices: x[tuple(indices.astype(int))],
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), np.array([[0, 2, 2], [1, 3, 3]])),
        sample(rng.standard_normal((3, 4)), np.array([[0, 2, 0]], "float32")),
        sample(rng.standard_normal((3, 2, 4)), np.array([[[0], [-1]], [[1], [1]]], "int32")),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.array([[0], [0], [0]]), match="M at most the 2 axes"),
        error(np.ones((2, 3), "float32"), np.array([0, 1]), match="at least two axes"),
        error(np.ones((2, 3), "float32"), np.array([[0, 2]]), match="position 2"),
    ],
    doc="""Gather elements or slices at positions in the first axes.

Parameters
----------
data : NDArray
indices : NDArray
    Shape ``(M, ...)``: ``indices[i]`` are positions in axis ``i`` of ``data``; negative ones count from the end.

Returns
-------
NDArray
    Shape of ``indices`` without its first axis, then the other axes of ``data``.

Raises
------
ShapeError
    If ``M`` exceeds the number of axes.
IndexError
    For a position outside; it is an OperatorError too.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.gather_nd(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([[0, 1], [1, 0]])).asnumpy().tolist()
[2.0, 3.0]
""",
)

operator(
    "_gather_nd_backward",
    "grad indices data",
    same_dtype=False,
    infer=lambda a, g, indices, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, indices, x: F.gather_nd(g, indices), None, None),
    saves="indices",
    doc="Add ``grad`` to zeros of the shape of ``data`` where ``gather_nd`` took it from.",
)

for _name, _add, _what in (
    ("scatter_nd", False, "Put ``data`` into zeros at positions. Where one occurs twice, the last value stays."),
    ("_backward_gather_nd", True, "Add ``data`` to zeros at positions."),
):
    operator(
        _name,
        "data indices",
        {"shape": Shape()},
        same_dtype=False,
        infer=_scattered(_name),
        gradient=(
            lambda F, g, y, x, indices, shape: F.gather_nd(g, indices),
            lambda F, g, y, x, indices, shape: F.zeros_like(indices),
        ),
        saves="indices",
        reference=_scattered_reference(_add),
        samples=lambda rng: [
            sample(rng.standard_normal(3), np.array([[0, 1, 2], [1, 0, 1]]), shape=(3, 2)),
            sample(rng.standard_normal((2, 4)), np.array([[2, 0]], "float32"), shape=(3, 4)),
        ],
        errors=(
            lambda name: (
                lambda: [
                    error(np.ones(3, "float32"), np.array([[0, 1], [0, 1]]), shape=(2, 2), match="wants data (2,)"),
                    error(np.ones(1, "float32"), np.array([[5]]), shape=(2,), match="position 5"),
                ]
            )
        )(_name),
        doc=f"""{_what}

Parameters
----------
data : NDArray
indices : NDArray
    Shape ``(M, ...)``: ``indices[i]`` are positions in axis ``i`` of the result.
shape : tuple of int
    Shape of the result.

Returns
-------
NDArray

Raises
------
ShapeError
    If the shapes do not fit.
IndexError
    For a position outside; it is an OperatorError too.

Examples
--------
>>> import mxcore as mx
>>> fn = mx.nd.{_name if not _add else "_internal._backward_gather_nd"}
>>> fn(mx.nd.array([5, 6]), mx.nd.array([[1, 0]]), shape=(3,)).asnumpy().tolist()
[6.0, 5.0, 0.0]
""",
    )


def _scatter_set(a: Any, lhs: Spec, rhs: Spec, indices: Spec) -> Spec:
    wanted = _gathered("_scatter_set_nd", lhs.shape, indices.shape)
    if rhs.shape != wanted or lhs.shape != a["shape"]:
        raise ShapeError(
            f"operator '_scatter_set_nd' wants lhs of shape={a['shape']} and rhs {wanted} but got {lhs.shape} and "
            f"{rhs.shape}.",
            operator="_scatter_set_nd",
            shapes=[lhs.shape, rhs.shape, indices.shape],
        )
    return lhs


operator(
    "_scatter_set_nd",
    "lhs rhs indices",
    {"shape": Shape()},
    same_dtype=False,
    infer=_scatter_set,
    gradient=(
        lambda F, g, y, lhs, rhs, indices, shape: F._scatter_set_nd(g, F.zeros_like(rhs), indices, shape=shape),
        lambda F, g, y, lhs, rhs, indices, shape: F.gather_nd(g, indices),
        lambda F, g, y, lhs, rhs, indices, shape: F.zeros_like(indices),
    ),
    saves="indices",
    reference=lambda lhs, rhs, indices, shape: written(lhs, tuple(indices.astype(int)), rhs),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 2)), rng.standard_normal(2), np.array([[0, 2], [1, 0]]), shape=(3, 2)),
        sample(rng.standard_normal((3, 2)), rng.standard_normal((1, 2)), np.array([[2]]), shape=(3, 2)),
    ],
    errors=lambda: [
        error(np.ones((2, 2), "float32"), np.ones(3, "float32"), np.array([[0, 1]]), shape=(2, 2), match="wants lhs"),
    ],
    doc="Return ``lhs`` with the elements at ``indices`` replaced by ``rhs``; arguments as of ``scatter_nd``.",
)


def _index_space(name: str, shape: Any) -> tuple[int, ...]:
    if not shape or any(n < 1 for n in shape[1:]):
        raise ParameterError(
            f"operator '{name}' needs shape, with positive lengths (-1 may stand first), but shape={shape}.",
            operator=name,
        )
    return shape


def _ravel(a: Any, x: Spec) -> Spec:
    shape = _index_space("_ravel_multi_index", a["shape"])
    if x.shape[0] != len(shape):
        raise ShapeError(
            f"operator '_ravel_multi_index': data {x.shape} must have one row for each axis of shape={shape}.",
            operator="_ravel_multi_index",
            shapes=[x.shape],
        )
    return Spec(x.shape[1:] or (1,), x.dtype)


operator(
    "_ravel_multi_index",
    "data",
    {"shape": Shape(None)},
    aliases=("ravel_multi_index",),
    infer=_ravel,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=lambda x, shape: np.ravel_multi_index(tuple(x.astype(int)), (99, *shape[1:])),
    samples=lambda rng: [
        sample(np.array([[1.0, 2.0], [1.0, 3.0]]), shape=(3, 4), check_gradient=False),
        sample(np.array([[[1, 2]], [[1, 3]]]), shape=(-1, 4)),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), shape=(3,), match="one row for each axis"),
        error(np.ones((2, 3), "float32"), match="needs shape"),
    ],
    doc="""Turn positions in several axes into positions in the flattened array.

Parameters
----------
data : NDArray
    Shape ``(M, ...)``: one row for each axis.
shape : tuple of int
    Shape of the array that is indexed; the first length may be -1.

Returns
-------
NDArray
    Shape of ``data`` without its first axis.

Raises
------
ShapeError
    If ``data`` does not have one row for each axis.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.ravel_multi_index(mx.nd.array([[1, 2], [1, 3]]), shape=(3, 4)).asnumpy().tolist()
[5.0, 11.0]
""",
)

operator(
    "_unravel_index",
    "data",
    {"shape": Shape(None)},
    aliases=("unravel_index",),
    infer=lambda a, x: Spec((len(_index_space("_unravel_index", a["shape"])), *x.shape), x.dtype),
    gradient=ZERO_GRADIENT,
    saves="",
    reference=lambda x, shape: np.stack(np.unravel_index(x.astype(int), (99, *shape[1:]))),
    samples=lambda rng: [
        sample(np.array([5.0, 11.0]), shape=(3, 4), check_gradient=False),
        sample(np.array([[5, 11], [99, 0]]), shape=(-1, 4)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), match="needs shape")],
    doc="""Turn positions in the flattened array into positions in several axes.

Parameters
----------
data : NDArray
shape : tuple of int
    Shape of the array that is indexed; the first length may be -1.

Returns
-------
NDArray
    Shape ``(number of axes, ...)``.

Raises
------
ParameterError
    If ``shape`` is not given.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.unravel_index(mx.nd.array([5, 11]), shape=(3, 4)).asnumpy().tolist()
[[1.0, 2.0], [1.0, 3.0]]
""",
)


def _index_array(a: Any, x: Spec) -> Spec:
    n = len(x.shape)
    axes = range(n) if a["axes"] is None else [one_axis("_contrib_index_array", i, n, "axes") for i in a["axes"]]
    return Spec((*x.shape, len(axes)), _INT64)


operator(
    "_contrib_index_array",
    "data",
    {"axes": Shape(None)},
    infer=_index_array,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=lambda x, axes=None: np.stack(
        [np.indices(x.shape)[i] for i in (range(x.ndim) if axes is None else axes)], axis=-1
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), check_gradient=False),
        sample(rng.standard_normal((2, 3, 2)), axes=(-1, 0), check_gradient=False),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), axes=(2,), match="axes=2 is out of range")],
    doc="""Return the position of each element.

Parameters
----------
data : NDArray
axes : tuple of int or None
    Axes whose positions are returned; None means all.

Returns
-------
NDArray
    Shape of ``data``, then the number of axes; int64.

Raises
------
ShapeError
    If an axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.index_array(mx.nd.zeros((1, 2))).asnumpy().tolist()
[[[0, 0], [0, 1]]]
""",
)


def _arange_like(a: Any, x: Spec) -> Spec:
    if a["repeat"] < 1:
        raise ParameterError(
            f"operator '_contrib_arange_like': repeat={a['repeat']} must be positive.", operator="_contrib_arange_like"
        )
    if a["axis"] is None:
        return x
    return Spec((x.shape[one_axis("_contrib_arange_like", a["axis"], len(x.shape))],), x.dtype)


def _counted(x: np.ndarray, start: float = 0, step: float = 1, repeat: int = 1, axis: Any = None, **a: Any) -> Any:
    shape = x.shape if axis is None else (x.shape[axis],)
    return (start + step * (np.arange(math.prod(shape)) // repeat)).reshape(shape)


operator(
    "_contrib_arange_like",
    "data",
    {"start": Float(0.0), "step": Float(1.0), "repeat": Int(1), "ctx": String(""), "axis": Int(None)},
    infer=_arange_like,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=_counted,
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), start=1.0, step=0.5, check_gradient=False),
        sample(rng.standard_normal((3, 4)), axis=-1, repeat=2, check_gradient=False),
        sample(rng.standard_normal((3, 4)), repeat=5, check_gradient=False),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range"),
        error(np.ones((2, 3), "float32"), repeat=0, match="must be positive"),
    ],
    doc="""Return evenly spaced numbers in the shape of an array, or along one axis of it.

Parameters
----------
data : NDArray
    Only its shape and dtype matter.
start, step : float
repeat : int
    How often each number is repeated.
ctx : str
    Without effect: the result is where ``data`` is.
axis : int or None
    None fills the shape of ``data``, else the result has one axis of that length.

Returns
-------
NDArray
    The dtype of ``data``.

Raises
------
ShapeError
    If the axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.arange_like(mx.nd.zeros((2, 3)), axis=1).asnumpy().tolist()
[0.0, 1.0, 2.0]
""",
)
