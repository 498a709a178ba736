"""``mx.nd.sparse``: the sparse array classes, for ``isinstance``; every array of this version is dense.

Making a sparse array is an error that says so.
"""

from __future__ import annotations

from typing import Any

from ..spec import MXCoreError
from .namespace import prefixed
from .ndarray import NDArray


class BaseSparseNDArray(NDArray):
    """Base of the sparse array classes. No array is one."""

    __slots__ = ()


class CSRNDArray(BaseSparseNDArray):
    """A compressed-sparse-row matrix. No array is one."""

    __slots__ = ()


class RowSparseNDArray(BaseSparseNDArray):
    """An array with few rows that are not zero. No array is one."""

    __slots__ = ()


def _refuse(what: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise MXCoreError(f"nd.sparse.{what}: sparse arrays are not part of this version of mxcore; use dense ones.")

    function.__name__ = what
    function.__doc__ = f"Refuse: ``{what}`` needs sparse arrays, which this version does not have."
    return function


csr_matrix = _refuse("csr_matrix")
row_sparse_array = _refuse("row_sparse_array")
zeros = _refuse("zeros")
empty = _refuse("empty")
array = _refuse("array")

# Operators that MXNet also offers here work on dense arrays.
__getattr__, __dir__ = prefixed(__name__, "", "_sparse_")
