"""``mx.nd.sparse``: arrays of storage type ``row_sparse`` and ``csr``, as MXNet 1.x users know them.

The classes behave as MXNet's do (what they hold, which class results have, what they refuse), but the buffer of each
is a dense array: they save no memory, and ``data``, ``indices`` and ``indptr`` are computed when asked for. A value
is stored if it is not 0, a row if any of its values is not 0; an array made from given ``indices`` keeps those as
they were given until it is written.
"""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from .. import operators
from ..base import NotSupportedForSparseNDArray
from ..dispatch import fast, runtime
from ..dispatch.array import Array, Cell, cell_of, dtype_of, shape_of, wrap
from ..dispatch.call import Bound, invoke, storage
from ..dispatch.context import Context, current_context
from ..dispatch.functions import call, resolve
from ..spec import ParameterError
from . import creation, lazy_rows, storage_types
from .namespace import prefixed
from .ndarray import NDArray

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "add",
    "array",
    "cast_storage",
    "csr_matrix",
    "divide",
    "empty",
    "multiply",
    "row_sparse_array",
    "subtract",
    "zeros",
]

_NUMBERS = (int, float, np.generic)

#: Cell -> its version when made, and ``(data, indices, ...)`` as they were given, where that says more than the values.
_given: WeakKeyDictionary[Cell, tuple[int, tuple[np.ndarray, ...]]] = WeakKeyDictionary()


def _given_parts(x: Any) -> tuple[np.ndarray, ...] | None:
    """Return the parts that ``x`` was made from, if they are known and it was not written since."""
    cell = x._cell
    given = None if cell is None else _given.get(cell)
    return given[1] if given is not None and given[0] == cell.version else None


class BaseSparseNDArray(NDArray):
    """What the two sparse classes share."""

    __slots__ = ()
    _sparse = True

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Refused, as in MXNet: it could be the number of elements or of stored values."""
        raise NotImplementedError(f"size of a {type(self).__name__} is ambiguous; use shape, or data.size.")

    @property
    def _num_aux(self) -> int:
        """Number of arrays besides ``data``."""
        return len(self._aux_types)

    def _parts(self) -> tuple[np.ndarray, ...]:
        """Return ``data``, then the auxiliary arrays in MXNet's order, as NumPy arrays. Blocks."""
        values = self.asnumpy()
        return _given_parts(self) or self._computed(values)

    def _part(self, i: int) -> NDArray:
        return creation.array(self._parts()[i], ctx=self._ctx, dtype=self._parts()[i].dtype)

    @property
    def data(self) -> NDArray:
        """The stored values, copied. Blocks."""
        return self._part(0)

    def _aux_data(self, i: int) -> NDArray:
        """Auxiliary array ``i``, copied. Blocks."""
        return self._part(1 + i)

    def __repr__(self) -> str:
        return f"\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self._ctx}>"

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")

    def asscalar(self) -> Any:
        """Refused, as in MXNet."""
        raise NotImplementedError(f"asscalar is not for a {type(self).__name__}; use tostype('default') first.")

    # -- copies -------------------------------------------------------------------------------------------------

    def copyto(self, other: Any) -> Any:
        """Copy the values to a dense array, to one of the same class, or onto a device; see ``NDArray.copyto``."""
        if isinstance(other, Array) and other._sparse and not isinstance(other, type(self)):
            raise TypeError(
                f"copyto: a {type(self).__name__} cannot be copied to an array of storage type "
                f"'{other.stype}'; use tostype('default') first."  # type: ignore[attr-defined]
            )
        return super().copyto(other)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """Return a copy with another dtype and the same storage type; see ``NDArray.astype``."""
        if not copy and np.dtype(dtype) == dtype_of(self):
            return self
        y = call("Cast", (self,), {"dtype": np.dtype(np.float32 if dtype is None else dtype).name})
        return cast_storage(y, self.stype)

    # -- indexing -----------------------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        name = type(self).__name__
        if not isinstance(key, slice):
            raise TypeError(f"{name} only supports [:] for assignment.")
        if not (key.start is None and key.stop is None and key.step is None):
            raise ValueError(f"{name} only supports [:] for assignment; a slice cannot be assigned.")
        if isinstance(value, Array):
            if value is not self:
                value.copyto(self)  # type: ignore[attr-defined]
        elif isinstance(value, np.ndarray) or (isinstance(value, _NUMBERS) and self._takes_numbers):
            super().__setitem__(key, value)
        elif isinstance(value, _NUMBERS):
            raise ValueError(f"a number cannot be assigned to a {name}; assign an array.")
        else:
            raise TypeError(f"type {type(value)} not supported: a {name} is assigned arrays.")

    def _refuse_key(self, key: Any) -> Exception:
        name = type(self).__name__
        if isinstance(key, tuple):
            return ValueError(f"Multi-dimension indexing is not supported for a {name}; use tostype('default') first.")
        return ValueError(f"a {name} cannot be indexed with {type(key).__name__}; use tostype('default') first.")

    def _at(self, idx: int) -> Any:
        raise NotSupportedForSparseNDArray(self._at)

    def _slice(self, start: Any, stop: Any) -> Any:
        raise NotSupportedForSparseNDArray(self._slice)

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """Refused, as in MXNet."""
        raise NotSupportedForSparseNDArray(self.reshape)

    # -- subclasses say -----------------------------------------------------------------------------------------

    _takes_numbers = False
    _aux_types: ClassVar[list[Any]] = []

    def _computed(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return what :meth:`_parts` returns, from dense values."""
        raise NotImplementedError

    def _flaw(self, parts: tuple[np.ndarray, ...]) -> str | None:
        """Return what is wrong with the parts, or None."""
        raise NotImplementedError

    def check_format(self, full_check: bool = True) -> None:
        """Check that the auxiliary arrays are sound: sorted, in range, and of fitting lengths. Blocks.

        Raises
        ------
        ParameterError
            If they were given otherwise.
        """
        flaw = self._flaw(self._parts())
        if flaw is not None:
            raise ParameterError(f"the format of a {type(self).__name__} {self.shape} is not sound: {flaw}.")


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed-sparse-row form. Make one with :func:`csr_matrix` or ``tostype("csr")``.

    The columns of row ``i`` are ``indices[indptr[i]:indptr[i + 1]]``, its values ``data[indptr[i]:indptr[i + 1]]``.

    Examples
    --------
    >>> import mxcore as mx
    >>> x = mx.nd.array([[0, 1, 0], [2, 0, 0], [0, 0, 0]]).tostype("csr")
    >>> x.data.asnumpy().tolist(), x.indices.asnumpy().tolist(), x.indptr.asnumpy().tolist()
    ([1.0, 2.0], [1, 0], [0, 1, 2, 2])
    """

    __slots__ = ()
    _aux_types: ClassVar[list[Any]] = [np.int64, np.int64]

    @property
    def stype(self) -> str:
        """``"csr"``."""
        return "csr"

    @property
    def indptr(self) -> NDArray:
        """Where the rows begin in ``indices`` and ``data``, and the end; int64. Blocks."""
        return self._aux_data(0)

    @property
    def indices(self) -> NDArray:
        """The columns of the stored values; int64. Blocks."""
        return self._aux_data(1)

    def _computed(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        rows, columns = np.nonzero(values)
        counts = np.bincount(rows, minlength=len(values))
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return values[rows, columns], indptr, columns.astype(np.int64)

    def _flaw(self, parts: tuple[np.ndarray, ...]) -> str | None:
        data, indptr, indices = parts
        m, n = self.shape
        if len(indptr) != m + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] != len(indices):
            return f"indptr must have {m + 1} numbers that rise from 0 to the number of indices ({len(indices)})"
        if len(data) != len(indices):
            return f"there are {len(data)} values but {len(indices)} indices"
        inner = np.ones(len(indices), bool)
        inner[indptr[:-1][indptr[:-1] < len(indices)]] = False  # where a row begins, no order is wanted
        falls = np.diff(indices, prepend=-1) <= 0
        if (indices < 0).any() or (indices >= n).any() or (falls & inner).any():
            return f"indices must rise in each row and be columns, from 0 to {n - 1}"
        return None

    def __getitem__(self, key: Any) -> Any:
        n = self.shape[0]
        if isinstance(key, int | np.integer):
            if not -n <= key < n:
                raise IndexError(f"index {key} is out of bounds for axis 0 with size {n}")
            begin = int(key) % n
            return call("slice", (self,), {"begin": (begin,), "end": (begin + 1,)})
        if isinstance(key, slice):
            if key.step is not None:
                raise ValueError("CSRNDArray only supports continuous slicing on axis 0; a step cannot be given.")
            if key.start is None and key.stop is None:
                return self
            begin, end, _ = key.indices(n)
            return call("slice", (self,), {"begin": (begin,), "end": (end,)})
        raise self._refuse_key(key)

    def tostype(self, stype: str) -> Any:
        """Return a copy with storage type ``"default"`` or ``"csr"``."""
        if stype == "row_sparse":
            raise ValueError("cast_storage from csr to row_sparse is not supported; go through 'default'.")
        return cast_storage(self, stype)

    def asscipy(self) -> Any:
        """Return the values as a new ``scipy.sparse.csr_matrix``. Blocks; needs SciPy."""
        try:
            from scipy.sparse import csr_matrix
        except ImportError as e:
            raise ImportError("CSRNDArray.asscipy needs SciPy; install it with pip install scipy.") from e
        data, indptr, indices = self._parts()
        return csr_matrix((data, indices, indptr), shape=self.shape, dtype=self.dtype)


class RowSparseNDArray(BaseSparseNDArray):
    """An array with few rows that are not 0. Make one with :func:`row_sparse_array` or ``tostype("row_sparse")``.

    Row ``indices[i]`` is ``data[i]``; other rows are 0.

    Examples
    --------
    >>> import mxcore as mx
    >>> x = mx.nd.array([[1, 2], [0, 0], [3, 0]]).tostype("row_sparse")
    >>> x.indices.asnumpy().tolist(), x.data.asnumpy().tolist()
    ([0, 2], [[1.0, 2.0], [3.0, 0.0]])
    """

    __slots__ = ()
    _takes_numbers = True
    _aux_types: ClassVar[list[Any]] = [np.int64]

    @property
    def stype(self) -> str:
        """``"row_sparse"``."""
        return "row_sparse"

    @property
    def indices(self) -> NDArray:
        """The rows that are stored; int64. Blocks."""
        return self._aux_data(0)

    def _computed(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        rows = np.flatnonzero(_not_zero(values))
        return values[rows], rows.astype(np.int64)

    def _flaw(self, parts: tuple[np.ndarray, ...]) -> str | None:
        data, indices = parts
        n = self.shape[0]
        if len(data) != len(indices):
            return f"there are {len(data)} rows of data but {len(indices)} indices"
        if (indices < 0).any() or (indices >= n).any() or (np.diff(indices) <= 0).any():
            return f"indices must rise and be rows, from 0 to {n - 1}"
        return None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            if not (key.start is None and key.stop is None and key.step is None):
                raise IndexError("RowSparseNDArray only supports [:] for reading; use tostype('default') first.")
            return self
        if isinstance(key, int | np.integer):
            raise IndexError("RowSparseNDArray cannot be read by int; use tostype('default') first.")
        raise self._refuse_key(key)

    def tostype(self, stype: str) -> Any:
        """Return a copy with storage type ``"default"`` or ``"row_sparse"``."""
        if stype == "csr":
            raise ValueError("cast_storage from row_sparse to csr is not supported; go through 'default'.")
        return cast_storage(self, stype)

    def retain(self, indices: Any) -> Any:
        """Return an array with the rows named by ``indices`` only."""
        return call("_sparse_retain", (self, indices))


_CLASS: dict[str, type[NDArray]] = {"d": NDArray, "r": RowSparseNDArray, "c": CSRNDArray}


def _adapt(bound: Bound, inputs: Any, cls: Any) -> tuple[Bound, Any]:
    """Return what to call, and the class of its results."""
    for x in inputs:
        if x is not None and x._sparse:
            break
    else:
        return bound, cls
    name = bound.operator.name
    kinds = "".join([x.stype[0] for x in inputs if x is not None])
    if name in lazy_rows.LAZY and lazy_rows.applies(bound, inputs):
        parts = _given_parts(inputs[1])
        bound = lazy_rows.RowsBound(bound, None if parts is None else parts[-1])
    return bound, _CLASS[storage_types.infer(name, kinds, bound.attributes)]


storage.adapt = _adapt


# ---------------------------------------------------------------------------------------------------------------
# Arithmetic


def _infix(short: str, two: str, scalar: str) -> Any:
    elementwise = {"add": "elemwise_add", "sub": "elemwise_sub", "mul": "elemwise_mul", "truediv": "elemwise_div"}.get(
        short, two
    )

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, Array):
            name = elementwise if shape_of(self) == shape_of(other) else two
            return invoke(resolve(operators.get(name), {}), (self, other))
        return fast._scalar(operators.get(scalar), self, other)

    method.__name__ = f"__{short}__"
    method.__qualname__ = f"BaseSparseNDArray.__{short}__"
    return method


for _short, (_two, _number, _) in fast.INFIX.items():
    setattr(BaseSparseNDArray, f"__{_short}__", _infix(_short, _two, _number))
del _short, _two, _number, _


def _function(short: str, what: str, reflected: str) -> Any:
    def function(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, BaseSparseNDArray):
            return getattr(BaseSparseNDArray, f"__{short}__")(lhs, rhs)
        if isinstance(lhs, Array) and isinstance(rhs, Array) and shape_of(lhs) == shape_of(rhs):
            return call(f"elemwise_{'div' if short == 'truediv' else short}", (lhs, rhs))
        if isinstance(lhs, Array):
            return getattr(lhs, f"__{short}__")(rhs)
        if isinstance(rhs, Array):
            return fast._scalar(operators.get(reflected), rhs, lhs)
        raise TypeError(f"nd.sparse.{function.__name__}: at least one argument must be an NDArray.")

    function.__name__ = function.__qualname__ = what
    function.__doc__ = f"``lhs`` {what} ``rhs`` for each element, broadcasting; arrays or a number. Returns an NDArray."
    return function


add = _function("add", "add", "_plus_scalar")
subtract = _function("sub", "subtract", "_rminus_scalar")
multiply = _function("mul", "multiply", "_mul_scalar")
divide = _function("truediv", "divide", "_rdiv_scalar")


# ---------------------------------------------------------------------------------------------------------------
# Making them


def cast_storage(data: Any, stype: str, out: Any = None, name: str | None = None) -> Any:
    """Return the values of ``data`` in an array of another storage type.

    Parameters
    ----------
    data : NDArray
    stype : {"default", "row_sparse", "csr"}
        csr and row_sparse cannot be cast to each other.
    out : NDArray or None

    Returns
    -------
    NDArray

    Raises
    ------
    ParameterError
        If there is no such storage type, or no such cast.
    """
    bound = resolve(operators.get("cast_storage"), {"stype": stype})
    source = data.stype if isinstance(data, NDArray) else "default"
    if {source, stype} == {"csr", "row_sparse"}:
        raise ParameterError(f"cast_storage from {source} to {stype} is not supported; go through 'default'.")
    if stype == "csr" and len(shape_of(data)) != 2:
        raise ParameterError(f"to convert to a CSR, the NDArray must have 2 axes; its shape is {shape_of(data)}.")
    return invoke(bound, (data,), out, _CLASS[stype[0]])


def _check_stype(stype: Any, what: str) -> type[NDArray]:
    if stype not in ("row_sparse", "csr"):
        raise ParameterError(f"nd.{what}: unknown storage type {stype!r}; there are 'default', 'row_sparse' and 'csr'.")
    return _CLASS[stype[0]]


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> Any:
    """Return an array of zeros.

    Parameters
    ----------
    stype : {"default", "row_sparse", "csr"}
    shape : int or tuple of int
    ctx : Context or None
        None means the current context.
    dtype : dtype or None
        None means float32.

    Returns
    -------
    NDArray

    Raises
    ------
    ParameterError
        If there is no such storage type, or a csr array is not to be a matrix.
    """
    dense = creation.zeros(shape, ctx, dtype)
    if stype == "default":
        return dense
    cls = _check_stype(stype, "sparse.zeros")
    if cls is CSRNDArray and dense.ndim != 2:
        raise ParameterError(f"nd.sparse.zeros: a csr array must have 2 axes, not shape {dense.shape}.")
    return wrap(cls, dense._data, dense._ctx)


def empty(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """Return an array without stored values: zeros; see :func:`zeros`."""
    _check_stype(stype, "sparse.empty")
    return zeros(stype, shape, ctx, dtype)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """Return a new sparse array with the values of a sparse array.

    Parameters
    ----------
    source_array : RowSparseNDArray, CSRNDArray or scipy.sparse matrix
        SciPy matrices become csr; duplicates are summed.
    ctx : Context or None
    dtype : dtype or None
        None means that of the source.

    Returns
    -------
    RowSparseNDArray or CSRNDArray

    Raises
    ------
    ParameterError
        If the source is not sparse.
    """
    if is_scipy(source_array):
        csr = source_array.tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        return _csr_from_parts(csr.data, csr.indices, csr.indptr, csr.shape, ctx, dtype)
    if not isinstance(source_array, BaseSparseNDArray):
        raise ParameterError(
            f"nd.sparse.array makes copies of sparse arrays, but the source is {type(source_array).__name__}. Use "
            f"tostype for an NDArray, csr_matrix or row_sparse_array for others."
        )
    dtype = dtype_of(source_array) if dtype is None else np.dtype(dtype)
    data, *aux = source_array._parts()
    return _make(type(source_array), source_array.asnumpy().astype(dtype), ctx, (data.astype(dtype), *aux))


def is_scipy(x: Any) -> bool:
    """Whether ``x`` is a SciPy sparse matrix; SciPy is not imported for it."""
    return type(x).__module__.startswith("scipy.sparse") and hasattr(x, "tocsr")


def _host(x: Any, dtype: Any = None) -> np.ndarray:
    """Return an array-like of numbers as a NumPy array."""
    if isinstance(x, Array):
        return np.asarray(x.asnumpy() if dtype is None else x.asnumpy().astype(dtype))  # type: ignore[attr-defined]
    try:
        return np.asarray(x, dtype)
    except (TypeError, ValueError) as e:
        raise TypeError(f"values must be an array of numbers, but {e}.") from None


def _dtype(source: Any, dtype: Any) -> np.dtype:
    if dtype is None:
        dtype = source.dtype if isinstance(source, Array | np.ndarray) else np.float32  # type: ignore[union-attr]
    return np.dtype(dtype)


def _agree(found: Any, wanted: Any, what: str) -> None:
    if wanted is not None and tuple(found) != tuple(wanted):
        raise ParameterError(
            f"nd.sparse.{what}: shape mismatch: the source has shape {tuple(found)} but shape={wanted}."
        )


def _not_zero(values: np.ndarray) -> np.ndarray:
    """Whether each entry along the first axis is, or holds, something else than 0."""
    return (values != 0).any(axis=tuple(range(1, values.ndim)))


def _make(cls: type[NDArray], dense: np.ndarray, ctx: Context | None, parts: tuple[np.ndarray, ...]) -> Any:
    """Return an array of dense values, remembering the parts it was given where the values do not tell them."""
    ctx = ctx or current_context()
    library = runtime.current().library(ctx)
    y = wrap(cls, dense if library.xp is np else library.from_host(dense, ctx.device_id), ctx)
    if not _not_zero(parts[0]).all() or y._flaw(parts) is not None:
        cell = cell_of(y)
        _given[cell] = (cell.version, parts)
    return y


def _integers(x: Any) -> np.ndarray:
    return _host(x).astype(np.int64)


def _csr_from_parts(data: Any, indices: Any, indptr: Any, shape: Any, ctx: Any, dtype: Any) -> Any:
    dtype = _dtype(data, dtype)
    values, columns, starts = _host(data).astype(dtype), _integers(indices), _integers(indptr)
    if shape is None:
        if not columns.size:
            raise ParameterError("nd.sparse.csr_matrix: invalid shape: without indices, shape must be given.")
        shape = (len(starts) - 1, int(columns.max()) + 1)
    shape = tuple(int(n) for n in shape)
    if values.ndim != 1 or columns.ndim != 1 or starts.ndim != 1 or not starts.size or len(shape) != 2:
        raise ParameterError(
            f"nd.sparse.csr_matrix: invalid shape: data, indices and indptr must have 1 axis and shape 2 numbers, but "
            f"they have shapes {values.shape}, {columns.shape}, {starts.shape}, and shape is {shape}."
        )
    dense = np.zeros(shape, dtype)
    # Unsound parts are for check_format to tell: what has a place goes there.
    for_row = np.diff(starts).clip(0)
    rows = np.repeat(np.arange(len(for_row)), for_row)[: len(columns)]
    n = min(len(rows), len(values))
    rows, at, kept = rows[:n], columns[:n], values[:n]
    sound = (rows < shape[0]) & (at >= 0) & (at < shape[1])
    dense[rows[sound], at[sound]] = kept[sound]
    return _make(CSRNDArray, dense, ctx, (values, starts, columns))


def csr_matrix(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> CSRNDArray:
    """Return a csr matrix.

    Parameters
    ----------
    arg1 : array_like, CSRNDArray or scipy.sparse matrix, or tuple
        A matrix to copy; or ``(M, N)`` for zeros of that shape; or ``(data, indices, indptr)``; or
        ``(data, (row, column))``, where values of one place are summed.
    shape : (int, int) or None
        Needed only where the source does not tell.
    ctx : Context or None
        None means the current context.
    dtype : dtype or None
        None means that of an array given, else float32.

    Returns
    -------
    CSRNDArray

    Raises
    ------
    ParameterError
        If the shapes do not fit.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.sparse.csr_matrix(([1, 2], [1, 0], [0, 1, 2]), shape=(2, 3)).asnumpy()
    array([[0., 1., 0.],
           [2., 0., 0.]], dtype=float32)
    """
    if isinstance(arg1, tuple):
        if len(arg1) == 3:
            return _csr_from_parts(*arg1, shape, ctx, dtype)
        if len(arg1) != 2:
            raise ParameterError(f"nd.sparse.csr_matrix: a tuple must have 2 or 3 elements, not {len(arg1)}.")
        if isinstance(arg1[1], tuple) and len(arg1[1]) == 2:
            return _csr_from_places(arg1[0], *arg1[1], shape, ctx, dtype)
        _agree(arg1, shape, "csr_matrix")
        return zeros("csr", arg1, ctx, dtype)
    if isinstance(arg1, CSRNDArray) or is_scipy(arg1):
        _agree(arg1.shape, shape, "csr_matrix")
        return array(arg1, ctx, dtype)
    if isinstance(arg1, RowSparseNDArray):
        raise ParameterError(
            "nd.sparse.csr_matrix: a RowSparseNDArray cannot be made csr; use tostype('default') first."
        )
    return _from_dense(arg1, "csr", shape, ctx, dtype)


def _csr_from_places(data: Any, row: Any, column: Any, shape: Any, ctx: Any, dtype: Any) -> Any:
    source = _host(data)
    if dtype is None:
        dtype = source.dtype if isinstance(data, Array | np.ndarray) else np.float32
    rows, columns = _integers(row), _integers(column)
    if shape is None:
        if not rows.size:
            raise ParameterError("nd.sparse.csr_matrix: invalid shape: without places, shape must be given.")
        shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    m, n = (int(k) for k in shape)
    if not source.shape == rows.shape == columns.shape or rows.ndim != 1:
        raise ParameterError(
            f"nd.sparse.csr_matrix: data, row and column must have 1 axis and one length, but have shapes "
            f"{source.shape}, {rows.shape} and {columns.shape}."
        )
    if rows.size and not (min(rows.min(), columns.min()) >= 0 and rows.max() < m and columns.max() < n):
        raise ParameterError(f"nd.sparse.csr_matrix: a row or column is outside of shape {(m, n)}.")
    flat, where = np.unique(rows * n + columns, return_inverse=True)
    values = np.zeros(len(flat), source.dtype)
    np.add.at(values, where, source)
    indptr = np.searchsorted(flat, np.arange(m + 1) * n)
    return _csr_from_parts(values, flat % n if n else flat, indptr, (m, n), ctx, dtype)


def _from_dense(source: Any, stype: str, shape: Any, ctx: Any, dtype: Any) -> Any:
    dense = creation.array(source, ctx=ctx, dtype=_dtype(source, dtype))
    _agree(dense.shape, shape, "csr_matrix" if stype == "csr" else "row_sparse_array")
    return cast_storage(dense, stype)


def row_sparse_array(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> RowSparseNDArray:
    """Return a row_sparse array.

    Parameters
    ----------
    arg1 : array_like, RowSparseNDArray or tuple
        An array to copy; or a shape for zeros; or ``(data, indices)``.
    shape : tuple of int or None
        Needed only where the source does not tell.
    ctx : Context or None
        None means the current context.
    dtype : dtype or None
        None means that of an array given, else float32.

    Returns
    -------
    RowSparseNDArray

    Raises
    ------
    ParameterError
        If the shapes do not fit.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.sparse.row_sparse_array(([[1, 2], [3, 4]], [0, 2]), shape=(3, 2)).asnumpy()
    array([[1., 2.],
           [0., 0.],
           [3., 4.]], dtype=float32)
    """
    if isinstance(arg1, tuple):
        if len(arg1) < 2:
            raise ParameterError(f"nd.sparse.row_sparse_array: a tuple must have 2 elements or more, not {len(arg1)}.")
        if len(arg1) > 2 or all(isinstance(n, int | np.integer) for n in arg1):
            _agree(arg1, shape, "row_sparse_array")
            return zeros("row_sparse", arg1, ctx, dtype)
        return _rows_from_parts(arg1[0], arg1[1], shape, ctx, dtype)
    if isinstance(arg1, RowSparseNDArray):
        _agree(arg1.shape, shape, "row_sparse_array")
        return array(arg1, ctx, dtype)
    if isinstance(arg1, CSRNDArray):
        raise ParameterError(
            "nd.sparse.row_sparse_array: a CSRNDArray cannot be made row_sparse; use tostype('default')."
        )
    return _from_dense(arg1, "row_sparse", shape, ctx, dtype)


def _rows_from_parts(data: Any, indices: Any, shape: Any, ctx: Any, dtype: Any) -> Any:
    dtype = _dtype(data, dtype)
    values, rows = _host(data).astype(dtype), _integers(indices)
    if shape is None:
        if not rows.size:
            raise ParameterError("nd.sparse.row_sparse_array: invalid shape: without indices, shape must be given.")
        shape = (int(rows[-1]) + 1, *values.shape[1:])
    shape = tuple(int(n) for n in shape)
    if not values.size and not rows.size:
        values = values.reshape((0, *shape[1:]))
    if values.shape != (*rows.shape, *shape[1:]) or rows.ndim != 1:
        raise ParameterError(
            f"nd.sparse.row_sparse_array: invalid shape: for shape {shape} and indices {rows.shape}, data must have "
            f"shape {(*rows.shape, *shape[1:])} but has {values.shape}."
        )
    dense = np.zeros(shape, dtype)
    sound = (rows >= 0) & (rows < shape[0])  # the others are for check_format to tell
    dense[rows[sound]] = values[sound]
    return _make(RowSparseNDArray, dense, ctx, (values, rows))


_find, __dir__ = prefixed(__name__, "", "_sparse_")


def __getattr__(name: str) -> Any:
    # Operators that MXNet offers here work on arrays of any class.
    return _find("_adagrad_update" if name == "adagrad_update" else name)
