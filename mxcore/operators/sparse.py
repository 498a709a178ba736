"""Records of the operators about storage types: casting between them, keeping rows, counting values.

Values are those of dense arrays; which class of array a result is, the array room decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec.errors import ShapeError
from .attributes import Choice, Int
from .elementwise import same
from .record import NO_GRADIENT, Spec, error, sample
from .registry import operator

STORAGE_TYPES = ("default", "row_sparse", "csr")

operator(
    "cast_storage",
    "data",
    {"stype": Choice(choices=STORAGE_TYPES)},
    infer=same,
    gradient=(lambda F, g, y, x, stype: g,),
    saves="",
    reference=lambda x, stype: x,
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), stype="row_sparse")],
    doc="""Return the same values in an array of another storage type.

Parameters
----------
data : NDArray
stype : {"default", "row_sparse", "csr"}

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.cast_storage(mx.nd.array([[0, 1], [0, 0]]), stype="csr").stype
'csr'
""",
)


def _retain(a: Any, data: Spec, indices: Spec) -> Spec:
    if len(indices.shape) != 1 or not data.shape:
        raise ShapeError(
            f"operator '_sparse_retain': data needs rows and indices must have 1 axis, but they have shapes "
            f"{data.shape} and {indices.shape}.",
            operator="_sparse_retain",
            shapes=[data.shape, indices.shape],
        )
    return data


def _retain_reference(x: Any, indices: Any) -> Any:
    return np.where(np.isin(np.arange(len(x)), indices).reshape((-1,) + (1,) * (x.ndim - 1)), x, 0)


operator(
    "_sparse_retain",
    "data indices",
    infer=_retain,
    same_dtype=False,
    gradient=(
        lambda F, g, y, x, indices: F._sparse_retain(g, indices),
        lambda F, g, y, x, indices: F.zeros_like(indices),
    ),
    saves="indices",
    reference=_retain_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((5, 3)), np.array([0, 3])),
        sample(rng.standard_normal((4, 2, 2)), np.array([1.0], "float32")),
        sample(rng.standard_normal((4, 2)), np.array([], "int64")),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones((1, 1), "int64"), match="indices must have 1 axis"),
        error(np.ones((2, 3), "float32"), np.array([2]), match="row 2"),
    ],
    doc="""Keep the rows of ``data`` that ``indices`` names; the others become 0.

Parameters
----------
data : RowSparseNDArray
    Shape ``(N, ...)``.
indices : NDArray
    Shape ``(K,)``; row numbers of any dtype.

Returns
-------
RowSparseNDArray
    Shape of ``data``.

Raises
------
ShapeError
    If ``indices`` has not 1 axis.
OperatorError
    If there is no such row.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[1, 2], [3, 4], [5, 6]]).tostype("row_sparse")
>>> mx.nd.sparse.retain(x, mx.nd.array([2])).asnumpy().tolist()
[[0.0, 0.0], [0.0, 0.0], [5.0, 6.0]]
""",
)


def _getnnz(a: Any, x: Spec) -> Spec:
    if len(x.shape) != 2 or a["axis"] not in (None, 0, 1):
        raise ShapeError(
            f"operator '_contrib_getnnz': data must be a matrix and axis None, 0 or 1, but data has shape {x.shape} and "
            f"axis is {a['axis']}.",
            operator="_contrib_getnnz",
            shapes=[x.shape],
        )
    shape = (1,) if a["axis"] is None else (x.shape[1 - a["axis"]],)
    return Spec(shape, np.dtype(np.int64))


operator(
    "_contrib_getnnz",
    "data",
    {"axis": Int(None)},
    infer=_getnnz,
    gradient=NO_GRADIENT,
    reference=lambda x, axis=None: (
        np.count_nonzero(x, axis=axis) if axis is not None else np.array([np.count_nonzero(x)])
    ),
    samples=lambda rng: [
        sample(np.array([[0.0, 1, 2], [0, 0, 3]]), check_gradient=False),
        sample(np.array([[0.0, 1, 2], [0, 0, 3]]), axis=1, check_gradient=False),
        sample(np.array([[0.0, 1, 2], [0, 0, 3]]), axis=0, check_gradient=False),
    ],
    errors=lambda: [error(np.ones(3, "float32"), match="must be a matrix")],
    doc="""Count the values that are not 0.

Parameters
----------
data : CSRNDArray
    Shape ``(M, N)``.
axis : {None, 0, 1}
    Count all, for each column, or for each row.

Returns
-------
NDArray
    Shape ``(1,)``, ``(N,)`` or ``(M,)``; int64.

Raises
------
ShapeError
    If ``data`` is not a matrix or there is no such axis.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[0, 1, 2], [0, 0, 3]]).tostype("csr")
>>> mx.nd.contrib.getnnz(x, axis=1).asnumpy().tolist()
[2, 1]
""",
)
