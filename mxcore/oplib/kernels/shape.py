"""Kernels that give the same elements another shape. Results are C-ordered copies: they never share memory with an input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...operators.shape import legacy_target, reshaped
from ..table import kernel
from ..threads import rows
from .fresh import fresh


@kernel("Reshape")
def reshape(xp: Any, x: Any, *, shape: Any, reverse: bool, target_shape: Any, keep_highest: bool) -> Any:
    new = reshaped(x.shape, shape, reverse) if shape else legacy_target(x.shape, target_shape, keep_highest)
    return fresh(xp, x).reshape(new)


@kernel("Flatten")
def flatten(xp: Any, x: Any) -> Any:
    return fresh(xp, x).reshape(x.shape[0], math.prod(x.shape[1:]))


@kernel("expand_dims")
def expand_dims(xp: Any, x: Any, *, axis: int) -> Any:
    return xp.expand_dims(fresh(xp, x), axis)


@kernel("squeeze")
def squeeze(xp: Any, x: Any, *, axis: Any) -> Any:
    r = xp.squeeze(fresh(xp, x), axis)
    return r if r.ndim else r.reshape(1)


@kernel("transpose")
def transpose(xp: Any, x: Any, *, axes: Any) -> Any:
    if xp is np and x.ndim == 2 and x.size >= 4096 and (not axes or axes[0] % 2 == 1):
        return transposed(x)
    return fresh(xp, x.transpose(axes or None))


def transposed(x: np.ndarray) -> np.ndarray:
    """Return a C-ordered copy of the transpose of a matrix.

    Sixteen rows at a time: a cache line of the result is then filled while it is still in cache, which takes a
    quarter of the time of a plain copy (rows of a power of two in length are the worst case of that).
    """
    out = np.empty(x.shape[::-1], x.dtype)

    def run(first: int, last: int) -> None:
        for i in range(16 * first, min(16 * last, len(x)), 16):
            out[:, i : i + 16] = x[i : i + 16].T

    rows(run, -(-len(x) // 16), 16 * x.shape[1])
    return out


@kernel("SwapAxis")
def swap_axis(xp: Any, x: Any, *, dim1: int, dim2: int) -> Any:
    if xp is np and x.ndim == 2 and x.size >= 4096 and (dim1 - dim2) % 2:
        return transposed(x)
    return fresh(xp, xp.swapaxes(x, dim1, dim2))


@kernel("reshape_like")
def reshape_like(xp: Any, x: Any, like: Any, *, lhs_begin: Any, lhs_end: Any, rhs_begin: Any, rhs_end: Any) -> Any:
    shape = x.shape[: 0 if lhs_begin is None else lhs_begin] + like.shape[rhs_begin:rhs_end]
    if lhs_end is not None:
        shape += x.shape[lhs_end:]
    return fresh(xp, x).reshape(shape)


@kernel("_identity_with_attr_like_rhs")
def identity_with_attr_like_rhs(xp: Any, x: Any, like: Any) -> Any:
    return fresh(xp, x)


@kernel("shape_array")
def shape_array(xp: Any, x: Any) -> Any:
    return xp.asarray(x.shape, dtype=np.int64)


@kernel("size_array")
def size_array(xp: Any, x: Any) -> Any:
    return xp.asarray([x.size], dtype=np.int64)
