"""Random arrays of the sparse storage types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..context import Context
from ._arrays import assign_each
from ._context import default_context, default_dtype


def shuffle_csr_column_indices(csr: Any) -> None:
    """Put the column indices of each row of a SciPy csr matrix in random order. Mutates ``csr``, and its values."""
    for begin, end in zip(csr.indptr[:-1], csr.indptr[1:]):
        part = np.array(csr.indices[begin:end])
        np.random.shuffle(part)
        csr.indices[begin:end] = part


def _counts(rows: int, columns: int, stored: int) -> np.ndarray:
    """Return values per row that double from row to row, as far as ``stored`` of them reach; at least one each."""
    if stored < 2 * rows:
        raise ValueError(
            f"a power law of density {stored / (rows * columns):.3g} is not possible for shape {(rows, columns)}: it "
            f"needs at least 2 values per row."
        )
    counts = np.ones(rows, np.int64)
    left = stored - rows
    for row in range(rows):
        more = min(left, min(columns, 2 ** min(row + 1, 62)) - 1)
        counts[row] += more
        left -= more
    if left:
        raise ValueError(f"a power law of {stored} values does not fit in shape {(rows, columns)}.")
    return counts


def _csr(
    shape: tuple[int, int], density: float, distribution: str, dtype: Any, data_init: Any, shuffled: bool, ctx: Context
) -> Any:
    from ..ndarray import sparse

    rows, columns = (int(n) for n in shape)
    if not 0 <= density <= 1:
        raise ValueError(f"density must be from 0 to 1, not {density}.")
    if rows <= 0 or columns <= 0:
        raise ValueError(f"a random csr array needs rows and columns, not shape {shape}.")
    if distribution == "powerlaw":
        counts = _counts(rows, columns, int(rows * columns * density))
        at = np.concatenate([np.arange(n) for n in counts])
        values = 1 + np.random.uniform(0.001, 2, len(at))
    elif distribution == "uniform":
        stored = round(rows * columns * density)
        flat = np.sort(np.random.permutation(rows * columns)[:stored])
        counts, at = np.bincount(flat // columns, minlength=rows), flat % columns
        # Not 0, so that what is said to be stored is.
        values = np.random.uniform(1e-3, 1, stored)
    else:
        raise AssertionError(f"rand_sparse_ndarray: no distribution {distribution!r}; there are uniform and powerlaw.")
    if data_init is not None:
        values = np.full(len(at), data_init)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    if shuffled:
        for begin, end in zip(indptr[:-1], indptr[1:]):
            np.random.shuffle(at[begin:end])
    return sparse.csr_matrix((values, at, indptr), shape=(rows, columns), dtype=dtype, ctx=ctx)


def rand_sparse_ndarray(
    shape: Any,
    stype: str,
    density: float | None = None,
    dtype: Any = None,
    distribution: str | None = None,
    data_init: Any = None,
    rsp_indices: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    ctx: Context | None = None,
) -> Any:
    """Return a random sparse array and its parts: ``(values, indices)``, or ``(indptr, indices, data)`` of a csr array.

    Parameters
    ----------
    shape : tuple of int
    stype : {"row_sparse", "csr"}
    density : float or None
        Share of the rows (row_sparse) or of the values (csr) that are stored; None draws one.
    dtype : dtype or None
        None means float32.
    distribution : {"uniform", "powerlaw"} or None
        How stored values of a csr array are spread; in a power law, each row has twice as many as the one before.
    data_init : number or None
        Value of all that is stored; None draws them.
    rsp_indices : array_like or None
        The rows stored in a row_sparse array; None draws them.
    modifier_func : callable or None
        Changes each value of a row_sparse array.
    shuffle_csr_indices : bool
        Give the columns of a csr array in random order.
    ctx : Context or None
    """
    from ..ndarray import sparse

    ctx = ctx or default_context()
    density = np.random.rand() if density is None else density
    dtype = default_dtype() if dtype is None else dtype
    distribution = distribution or "uniform"
    if stype == "csr":
        csr = _csr(shape, density, distribution, dtype, data_init, shuffle_csr_indices, ctx)
        return csr, (csr.indptr, csr.indices, csr.data)
    if stype != "row_sparse":
        raise AssertionError(f"rand_sparse_ndarray: no sparse storage type {stype!r}; there are row_sparse and csr.")
    if distribution != "uniform":
        raise AssertionError(f"rand_sparse_ndarray: no distribution {distribution!r} of row_sparse arrays.")
    rows = np.flatnonzero(np.random.rand(shape[0]) < density) if rsp_indices is None else np.asarray(rsp_indices)
    if not rows.size:
        empty = sparse.zeros("row_sparse", shape, ctx, dtype)
        return empty, (np.array([], dtype), np.array([]))
    values = np.random.rand(len(rows), *shape[1:]).astype(dtype)
    if data_init is not None:
        values.fill(data_init)
    if modifier_func is not None:
        values = assign_each(values, modifier_func)
    return sparse.row_sparse_array((values, rows), shape=shape, dtype=dtype, ctx=ctx), (values, rows)


def create_sparse_array(
    shape: Any,
    stype: str,
    data_init: Any = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    density: float = 0.5,
    shuffle_csr_indices: bool = False,
) -> Any:
    """Return a random sparse array; see :func:`rand_sparse_ndarray`. ``rsp_indices`` are sorted."""
    rows = None if rsp_indices is None else np.sort(np.asarray(rsp_indices))
    return rand_sparse_ndarray(
        shape,
        stype,
        density,
        dtype,
        data_init=data_init,
        rsp_indices=rows,
        modifier_func=modifier_func,
        shuffle_csr_indices=shuffle_csr_indices,
    )[0]


def create_sparse_array_zd(shape: Any, stype: str, density: float, rsp_indices: Any = None, **kwargs: Any) -> Any:
    """Return a random sparse array; a row_sparse one stores ``rsp_indices`` only, or nothing."""
    return create_sparse_array(
        shape, stype, rsp_indices=rsp_indices, density=0.0 if stype == "row_sparse" else density, **kwargs
    )
