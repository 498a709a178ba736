"""Kernels of the operators about storage types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table import kernel


@kernel("cast_storage")
def cast_storage(xp: Any, x: Any, *, stype: str) -> Any:
    return xp.array(x, copy=True)


@kernel("_sparse_retain")
def sparse_retain(xp: Any, x: Any, indices: Any) -> Any:
    rows = indices.astype("int64")
    for end in (rows.min(), rows.max()) if rows.size else ():
        if not 0 <= end < len(x):
            raise IndexError(f"indices name row {int(end)}, but data has {len(x)} rows")
    y = xp.zeros_like(x)
    y[rows] = x[rows]
    return y


@kernel("_contrib_getnnz")
def getnnz(xp: Any, x: Any, *, axis: int | None) -> Any:
    return xp.asarray(xp.count_nonzero(x, axis=axis), dtype=np.int64).reshape((1,) if axis is None else -1)
