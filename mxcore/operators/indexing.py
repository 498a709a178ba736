"""Records of operators that read or write slices and elements by position: take, pick, masks, embeddings, one-hot.

Positions may have any number dtype (MXNet's index results are float32); fractions are cut off. Gradients flow to the
values, never to positions: those get zeros. Where a position occurs twice, gradients add up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..spec.errors import DTypeError, ParameterError, ShapeError
from .attributes import Bool, Choice, DType, Float, Int
from .checks import one_axis
from .record import ZERO_GRADIENT, Spec, error, sample
from .references import written
from .registry import operator

_INT64 = np.dtype(np.int64)


# ---------------------------------------------------------------------------------------------------------------
# Whole slices


def _take(a: Any, x: Spec, indices: Spec) -> Spec:
    axis = one_axis("take", a["axis"], len(x.shape))
    return Spec(x.shape[:axis] + indices.shape + x.shape[axis + 1 :], x.dtype)


def _wrapped(indices: np.ndarray, n: int, mode: str) -> np.ndarray:
    indices = indices.astype(np.int64)
    return indices % n if mode == "wrap" else np.clip(indices, 0, n - 1)


_TAKE = {"axis": Int(0), "mode": Choice("clip", choices=("clip", "raise", "wrap"))}

operator(
    "take",
    "a indices",
    _TAKE,
    same_dtype=False,
    infer=_take,
    gradient=(
        lambda F, g, y, x, indices, **a: F._take_backward(g, indices, x, **a),
        lambda F, g, y, x, indices, **a: F.zeros_like(indices),
    ),
    saves="indices",
    reference=lambda x, indices, axis=0, mode="clip": np.take(x, _wrapped(indices, x.shape[axis], mode), axis),
    samples=lambda rng: [
        sample(rng.standard_normal((4, 3)), np.array([0, 3, 3, 9, -2])),
        sample(rng.standard_normal((4, 3)), np.array([[0, 4], [-1, 1]], "int32"), axis=-1, mode="wrap"),
        sample(rng.standard_normal((2, 4, 3)), np.array([[3.0, 0.0, 0.0]], "float32"), axis=1, mode="raise"),
        sample(rng.standard_normal(4), np.array([1, 1, 2], "uint8")),
        sample(rng.standard_normal((50, 4)), rng.integers(0, 50, 60)),
        sample(rng.standard_normal((5, 40)), rng.integers(0, 5, 70)),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.array([2.0], "float32"), mode="raise", match="position 2"),
        error(np.ones((2, 3), "float32"), np.array([0.0], "float32"), axis=2, match="axis=2 is out of range"),
        error(np.ones((2, 3), "float32"), np.array([0.0], "float32"), mode="x", match="one of 'clip'"),
    ],
    doc="""Select slices along an axis by position.

Parameters
----------
a : NDArray
indices : NDArray
    Positions, of any shape and dtype.
axis : int
mode : {"clip", "wrap", "raise"}
    Positions outside are moved to the nearest end, counted round, or refused.

Returns
-------
NDArray
    Shape of ``a`` with ``axis`` replaced by the shape of ``indices``.

Raises
------
ShapeError
    If the axis does not exist.
IndexError
    With ``mode="raise"``, for a position outside; it is an OperatorError too.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.take(mx.nd.array([[1, 2], [3, 4], [5, 6]]), mx.nd.array([2, 0])).asnumpy().tolist()
[[5.0, 6.0], [1.0, 2.0]]
""",
)

operator(
    "_take_backward",
    "grad indices a",
    _TAKE,
    same_dtype=False,
    infer=lambda a, g, indices, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, indices, x, **a: F.take(g, indices, **a), None, None),
    saves="indices",
    doc="Add slices of ``grad`` to zeros of the shape of ``a`` where ``take`` took them from.",
)


def _embedding(a: Any, data: Spec, weight: Spec) -> Spec:
    wanted = (a["input_dim"], a["output_dim"])
    if weight.shape != wanted:
        raise ShapeError(
            f"operator 'Embedding': weight must have shape (input_dim, output_dim) = {wanted} but has {weight.shape}.",
            operator="Embedding",
            shapes=[data.shape, weight.shape],
        )
    return Spec((*data.shape, wanted[1]), weight.dtype)


operator(
    "Embedding",
    "data weight",
    {"input_dim": Int(), "output_dim": Int(), "dtype": DType("float32"), "sparse_grad": Bool(False)},
    same_dtype=False,
    infer=_embedding,
    gradient=(
        lambda F, g, y, data, weight, **a: F.zeros_like(data),
        lambda F, g, y, data, weight, **a: F._take_backward(g, data, weight, axis=0, mode="clip"),
    ),
    saves="data",
    reference=lambda data, weight, input_dim, output_dim, **a: weight[_wrapped(data, input_dim, "clip")],
    samples=lambda rng: [
        sample(np.array([[0, 2], [2, 9]], "float32"), rng.standard_normal((4, 3)), input_dim=4, output_dim=3),
        sample(rng.integers(0, 30, (5, 7)), rng.standard_normal((30, 8)), input_dim=30, output_dim=8),
    ],
    errors=lambda: [
        error(
            np.ones(2, "float32"),
            np.ones((4, 3), "float32"),
            input_dim=5,
            output_dim=3,
            match="(input_dim, output_dim) = (5, 3)",
        ),
    ],
    doc="""Look up one row of ``weight`` for each position in ``data``.

Parameters
----------
data : NDArray
    Positions, of any shape and dtype; those outside are moved to the nearest row.
weight : NDArray
    Shape ``(input_dim, output_dim)``.
input_dim, output_dim : int
    Number of rows, and their length.
dtype : str
    Without effect: the result has the dtype of ``weight``.
sparse_grad : bool
    Accepted; gradients are dense.

Returns
-------
NDArray
    Shape of ``data``, then ``output_dim``.

Raises
------
ShapeError
    If ``weight`` has another shape.

Examples
--------
>>> import mxcore as mx
>>> w = mx.nd.array([[1, 2], [3, 4], [5, 6]])
>>> mx.nd.Embedding(mx.nd.array([2, 0]), w, input_dim=3, output_dim=2).asnumpy().tolist()
[[5.0, 6.0], [1.0, 2.0]]
""",
)


def _boolean_mask_doc() -> str:
    return """Keep the slices along axis 0 where ``index`` is not 0. The shape of the result depends on values.

Parameters
----------
data : NDArray
index : NDArray
    Shape ``(N,)`` for data ``(N, ...)``.
axis : int
    Only 0.

Returns
-------
NDArray
    Shape ``(number of slices kept, ...)``. Blocks until ``index`` is known.

Raises
------
ShapeError
    If the lengths differ.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.boolean_mask(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([0, 1])).asnumpy().tolist()
[[3.0, 4.0]]
"""


operator(
    "_contrib_boolean_mask",
    "data index",
    {"axis": Int(0)},
    same_dtype=False,
    infer=None,
    gradient=(
        lambda F, g, y, x, index, axis: F._boolean_mask_backward(g, x, index),
        lambda F, g, y, x, index, axis: F.zeros_like(index),
    ),
    saves="index",
    reference=lambda x, index, axis=0: x[index != 0],
    samples=lambda rng: [
        sample(rng.standard_normal((4, 3)), np.array([1, 0, 0, 1], "float32")),
        sample(rng.standard_normal(3), np.array([0, 1, 1])),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones(3, "float32"), match="one entry for each of the 2"),
        error(np.ones((2, 3), "float32"), np.ones(3, "float32"), axis=1, match="axis=1"),
    ],
    doc=_boolean_mask_doc(),
)

operator(
    "_boolean_mask_backward",
    "grad data index",
    same_dtype=False,
    infer=lambda a, g, x, index: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, index: F._contrib_boolean_mask(g, index, axis=0), None, None),
    saves="index",
    doc="Put the slices of ``grad`` into zeros of the shape of ``data`` where ``index`` is not 0.",
)


def _index_copy(a: Any, old: Spec, index: Spec, new: Spec) -> Spec:
    if len(index.shape) != 1 or new.shape != index.shape + old.shape[1:]:
        raise ShapeError(
            f"operator '_contrib_index_copy' wants an index_vector (K,) and a new_tensor {('K', *old.shape[1:])} for "
            f"old_tensor {old.shape} but got {index.shape} and {new.shape}.",
            operator="_contrib_index_copy",
            shapes=[old.shape, index.shape, new.shape],
        )
    if new.dtype != old.dtype:
        raise DTypeError(
            f"operator '_contrib_index_copy' wants new_tensor in the dtype of old_tensor, {old.dtype}, but it has "
            f"{new.dtype}.",
            operator="_contrib_index_copy",
        )
    return old


operator(
    "_contrib_index_copy",
    "old_tensor index_vector new_tensor",
    same_dtype=False,
    infer=_index_copy,
    gradient=(
        lambda F, g, y, old, index, new: F._contrib_index_copy(g, index, F.zeros_like(new)),
        lambda F, g, y, old, index, new: F.zeros_like(index),
        lambda F, g, y, old, index, new: F.take(g, index, axis=0, mode="clip"),
    ),
    saves="index_vector",
    reference=lambda old, index, new: written(old, index.astype(int), new),
    samples=lambda rng: [
        sample(rng.standard_normal((4, 3)), np.array([2.0, 0.0], "float32"), rng.standard_normal((2, 3))),
        sample(rng.standard_normal(4), np.array([1]), rng.standard_normal(1)),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.array([0]), np.ones((2, 3), "float32"), match="new_tensor"),
        error(np.ones((2, 3), "float32"), np.array([4]), np.ones((1, 3), "float32"), match="position 4"),
    ],
    doc="""Return ``old_tensor`` with the rows at ``index_vector`` replaced by those of ``new_tensor``.

Parameters
----------
old_tensor : NDArray
    Shape ``(N, ...)``.
index_vector : NDArray
    Shape ``(K,)``, each position once.
new_tensor : NDArray
    Shape ``(K, ...)``.

Returns
-------
NDArray
    Shape of ``old_tensor``.

Raises
------
ShapeError
    If the shapes do not fit.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.contrib.index_copy(mx.nd.zeros((3, 1)), mx.nd.array([2]), mx.nd.ones((1, 1)))
>>> x.asnumpy().tolist()
[[0.0], [0.0], [1.0]]
""",
)

# ---------------------------------------------------------------------------------------------------------------
# One element of each row


def _pick(name: str) -> Any:
    def infer(a: Any, x: Spec, index: Spec) -> Spec:
        axis = one_axis(name, a["axis"], len(x.shape))
        removed = x.shape[:axis] + x.shape[axis + 1 :] or (1,)
        kept = x.shape[:axis] + (1,) + x.shape[axis + 1 :]
        if index.shape not in (removed, kept):
            raise ShapeError(
                f"operator '{name}' along axis {axis} of data {x.shape} wants index {removed} or {kept} but got "
                f"{index.shape}.",
                operator=name,
                shapes=[x.shape, index.shape],
            )
        return Spec(kept if a["keepdims"] else removed, x.dtype)

    return infer


def _picked(x: np.ndarray, index: np.ndarray, axis: int = -1, keepdims: bool = False, mode: str = "clip") -> Any:
    kept = tuple(1 if i == axis % x.ndim else n for i, n in enumerate(x.shape))
    y = np.take_along_axis(x, _wrapped(index, x.shape[axis], mode).reshape(kept), axis)
    return y if keepdims else y.squeeze(axis)


_PICK = {"axis": Int(-1), "keepdims": Bool(False), "mode": Choice("clip", choices=("clip", "wrap"))}

operator(
    "pick",
    "data index",
    _PICK,
    aliases=("choose_element_0index",),
    same_dtype=False,
    infer=_pick("pick"),
    gradient=(
        lambda F, g, y, x, index, axis, keepdims, mode: F._pick_backward(g, index, x, axis=axis, mode=mode),
        lambda F, g, y, x, index, **a: F.zeros_like(index),
    ),
    saves="index",
    reference=_picked,
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), np.array([0, 3, 9], "float32")),
        sample(rng.standard_normal((3, 4)), np.array([0, -1, 2, 1]), axis=0, keepdims=True, mode="wrap"),
        sample(rng.standard_normal((2, 3, 4)), rng.integers(0, 3, (2, 4)), axis=1),
        sample(rng.standard_normal((3, 4)), np.array([[0], [1], [2]], "int32"), axis=1),
        sample(rng.standard_normal(4), np.array([2]), axis=0),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones(3, "float32"), match="wants index (2,) or (2, 1)"),
        error(np.ones((2, 3), "float32"), np.ones(2, "float32"), axis=None, match="it takes a whole number"),
        error(np.ones((2, 3), "float32"), np.ones(2, "float32"), axis=2, match="axis=2 is out of range"),
    ],
    doc="""Pick one element along an axis for each position of the other axes.

Parameters
----------
data : NDArray
index : NDArray
    Shape of ``data`` without ``axis`` (or with length 1 there), any dtype.
axis : int
keepdims : bool
    Keep the axis with length 1.
mode : {"clip", "wrap"}
    Positions outside are moved to the nearest end, or counted round.

Returns
-------
NDArray

Raises
------
ShapeError
    If ``index`` does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.pick(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([1, 0]), axis=1).asnumpy().tolist()
[2.0, 3.0]
""",
)

operator(
    "_pick_backward",
    "grad index data",
    {"axis": _PICK["axis"], "mode": _PICK["mode"]},
    same_dtype=False,
    infer=lambda a, g, index, x: Spec(x.shape, g.dtype),
    gradient=(
        lambda F, g, y, gg, index, x, axis, mode: F.reshape_like(
            F.pick(g, index, axis=axis, mode=mode, keepdims=True), gg
        ),
        None,
        None,
    ),
    saves="index",
    doc="Put ``grad`` into zeros of the shape of ``data`` where ``pick`` took it from.",
)


def _batch_take(a: Any, x: Spec, indices: Spec) -> Spec:
    if len(x.shape) != 2 or math.prod(indices.shape) != x.shape[0]:
        raise ShapeError(
            f"operator 'batch_take' wants a (N, M) and one position for each of its rows but got {x.shape} and "
            f"{indices.shape}.",
            operator="batch_take",
            shapes=[x.shape, indices.shape],
        )
    return Spec(indices.shape, x.dtype)


operator(
    "batch_take",
    "a indices",
    same_dtype=False,
    infer=_batch_take,
    gradient=(
        lambda F, g, y, x, indices: F._pick_backward(g, indices, x, axis=1, mode="clip"),
        lambda F, g, y, x, indices: F.zeros_like(indices),
    ),
    saves="indices",
    reference=lambda x, indices: _picked(x, indices.reshape(-1), 1).reshape(indices.shape),
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), np.array([0, 3, -1], "int32"))],
    errors=lambda: [error(np.ones((2, 3), "float32"), np.array([1], "int32"), match="one position for each")],
    doc="""Take one element of each row.

Parameters
----------
a : NDArray
    Shape ``(N, M)``.
indices : NDArray
    Shape ``(N,)``; positions outside are moved to the nearest end.

Returns
-------
NDArray
    Shape ``(N,)``.

Raises
------
ShapeError
    If there is not one position for each row.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.batch_take(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([1, 0], dtype="int32")).asnumpy().tolist()
[2.0, 3.0]
""",
)


def _fill_element(a: Any, lhs: Spec, mhs: Spec, rhs: Spec) -> Spec:
    if len(lhs.shape) != 2 or mhs.shape != lhs.shape[:1] or rhs.shape != lhs.shape[:1]:
        raise ShapeError(
            f"operator 'fill_element_0index' wants lhs (N, M), mhs (N,) and rhs (N,) but got {lhs.shape}, {mhs.shape} "
            f"and {rhs.shape}.",
            operator="fill_element_0index",
            shapes=[lhs.shape, mhs.shape, rhs.shape],
        )
    return lhs


operator(
    "fill_element_0index",
    "lhs mhs rhs",
    same_dtype=False,
    infer=_fill_element,
    gradient=(
        lambda F, g, y, lhs, mhs, rhs: F.fill_element_0index(g, F.zeros_like(mhs), rhs),
        lambda F, g, y, lhs, mhs, rhs: F.pick(g, rhs, axis=1),
        lambda F, g, y, lhs, mhs, rhs: F.zeros_like(rhs),
    ),
    saves="rhs",
    reference=lambda lhs, mhs, rhs: written(lhs, (np.arange(len(rhs)), rhs.astype(int)), mhs),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), rng.standard_normal(3), np.array([0.0, 3.0, 1.0], "float32"))
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones(3, "float32"), np.ones(2, "float32"), match="wants lhs (N, M)"),
        error(np.ones((1, 3), "float32"), np.ones(1, "float32"), np.array([3], "float32"), match="position 3"),
    ],
    doc="""Return ``lhs`` with ``lhs[i, rhs[i]]`` replaced by ``mhs[i]``.

Parameters
----------
lhs : NDArray
    Shape ``(N, M)``.
mhs, rhs : NDArray
    Shape ``(N,)``.

Returns
-------
NDArray

Raises
------
ShapeError
    If the shapes do not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.fill_element_0index(mx.nd.zeros((2, 2)), mx.nd.array([5, 6]), mx.nd.array([1, 0])).asnumpy().tolist()
[[0.0, 5.0], [6.0, 0.0]]
""",
)


def _one_hot(a: Any, indices: Spec) -> Spec:
    if a["depth"] < 0:
        raise ParameterError(f"operator 'one_hot': depth={a['depth']} must not be negative.", operator="one_hot")
    return Spec((*indices.shape, a["depth"]), np.dtype(a["dtype"]))


operator(
    "one_hot",
    "indices",
    {"depth": Int(), "on_value": Float(1.0), "off_value": Float(0.0), "dtype": DType("float32")},
    infer=_one_hot,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=lambda indices, depth, on_value=1.0, off_value=0.0, dtype="float32": np.where(
        indices.astype(int)[..., None] == np.arange(depth), on_value, off_value
    ),
    samples=lambda rng: [
        sample(np.array([0, 2, 5, -1], "float32"), depth=3, check_gradient=False),
        sample(np.array([[0], [1]]), depth=2, on_value=8.0, off_value=1.0, dtype="int32", check_gradient=False),
        sample(np.array([3.0, 1.0]), depth=4),
    ],
    errors=lambda: [error(np.ones(2, "float32"), depth=-1, match="must not be negative")],
    doc="""Return ``on_value`` at each position and ``off_value`` elsewhere, along a new last axis.

Parameters
----------
indices : NDArray
    Positions; one outside gives a row of ``off_value``.
depth : int
    Length of the new axis.
on_value, off_value : float
dtype : str

Returns
-------
NDArray
    Shape of ``indices``, then ``depth``.

Raises
------
ParameterError
    If ``depth`` is negative.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.one_hot(mx.nd.array([1, 0]), 3).asnumpy().tolist()
[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Choosing between two arrays


def _where(a: Any, condition: Spec, x: Spec, y: Spec) -> Spec:
    if x.dtype != y.dtype:
        raise DTypeError(
            f"operator 'where' wants x and y of one dtype but got {x.dtype} and {y.dtype}.",
            operator="where",
            dtypes=[x.dtype, y.dtype],
        )
    if x.shape != y.shape or condition.shape not in (x.shape, x.shape[:1]):
        raise ShapeError(
            f"operator 'where' wants x and y of one shape, and condition of that shape or of the length of its first "
            f"axis, but got condition {condition.shape}, x {x.shape}, y {y.shape}.",
            operator="where",
            shapes=[condition.shape, x.shape, y.shape],
        )
    return x


operator(
    "where",
    "condition x y",
    same_dtype=False,
    infer=_where,
    gradient=(
        lambda F, g, y, c, a, b: F.zeros_like(c),
        lambda F, g, y, c, a, b: F.where(c, g, F.zeros_like(g)),
        lambda F, g, y, c, a, b: F.where(c, F.zeros_like(g), g),
    ),
    saves="condition",
    reference=lambda c, x, y: np.where(c.reshape(c.shape + (1,) * (x.ndim - c.ndim)) != 0, x, y),
    samples=lambda rng: [
        sample(np.array([[1, 0, 2]], "float32"), rng.standard_normal((1, 3)), rng.standard_normal((1, 3))),
        sample(np.array([1, 0], "int32"), rng.standard_normal((2, 3)), rng.standard_normal((2, 3))),
    ],
    errors=lambda: [
        error(np.ones(2, "float32"), np.ones((3, 2), "float32"), np.ones((3, 2), "float32"), match="condition (2,)"),
        error(np.ones(2, "float32"), np.ones(2, "float32"), np.ones(2, "int32"), match="one dtype"),
    ],
    doc="""Return elements of ``x`` where ``condition`` is not 0, else of ``y``.

Parameters
----------
condition : NDArray
    Shape of ``x``, or ``(N,)`` for ``x`` of shape ``(N, ...)``, to choose whole rows; any dtype.
x, y : NDArray
    Equal shapes and dtypes.

Returns
-------
NDArray

Raises
------
ShapeError
    If the shapes do not fit.
DTypeError
    If the dtypes of ``x`` and ``y`` differ.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.where(mx.nd.array([1, 0]), mx.nd.array([1, 2]), mx.nd.array([3, 4])).asnumpy().tolist()
[1.0, 4.0]
""",
)
