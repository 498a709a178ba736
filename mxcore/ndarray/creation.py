"""Making arrays, and the few array functions that are not operators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..dispatch import runtime
from ..dispatch.array import Array, cell_of, settled, wrap
from ..dispatch.context import Context, current_context
from ..dispatch.functions import call
from ..instruments import instruments
from ..spec import ParameterError
from .ndarray import NDArray
from .observed import told

_DENSE = (None, "default")


def _shape(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    shape = tuple(int(n) for n in shape)
    if any(n < 0 for n in shape):
        raise ParameterError(f"an array cannot have shape {shape}: lengths must not be negative.")
    return shape


def _make(shape: Any, ctx: Any, dtype: Any, stype: str | None, fill: Any, what: str) -> NDArray:
    if stype not in _DENSE:
        from . import sparse

        return sparse.zeros(stype, shape, ctx, dtype)
    if isinstance(ctx, str):
        kind, _, number = ctx.partition("(")
        ctx = Context(kind, int(number.rstrip(")") or 0))
    ctx = ctx or current_context()
    library = runtime.current().library(ctx)
    dtype = np.dtype(np.float32 if dtype is None else dtype)
    shape = _shape(shape)
    if fill is None:
        data = library.empty(shape, dtype, ctx.device_id)
    elif instruments.begin:
        with told(f"_{what}", ctx):
            data = _filled(library, shape, dtype, fill, ctx)
    else:
        data = _filled(library, shape, dtype, fill, ctx)
    return wrap(NDArray, data, ctx)


def _filled(library: Any, shape: tuple[int, ...], dtype: Any, fill: Any, ctx: Context) -> Any:
    if library.xp is not np:
        return library.from_host(np.full(shape, fill, dtype), ctx.device_id)
    return np.zeros(shape, dtype) if isinstance(fill, int) and fill == 0 else np.full(shape, fill, dtype)


def empty(shape: Any, ctx: Context | None = None, dtype: Any = None, stype: str | None = None) -> NDArray:
    """Return an array whose values are not set.

    Parameters
    ----------
    shape : int or tuple of int
    ctx : Context or None
        None means the current context.
    dtype : dtype or None
        None means float32.
    stype : {"default", "row_sparse", "csr"} or None
        Storage type; sparse arrays are made of zeros.

    Returns
    -------
    NDArray
    """
    return _make(shape, ctx, dtype, stype, None, "empty")


def zeros(
    shape: Any, ctx: Context | None = None, dtype: Any = None, stype: str | None = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return an array of zeros; see :func:`empty`.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.zeros((1, 2)).asnumpy()
    array([[0., 0.]], dtype=float32)
    """
    if out is not None:
        out[:] = 0
        return out
    return _make(shape, ctx, dtype, stype, 0, "zeros")


def ones(shape: Any, ctx: Context | None = None, dtype: Any = None, out: Any = None, **kwargs: Any) -> NDArray:
    """Return an array of ones; see :func:`empty`."""
    if out is not None:
        out[:] = 1
        return out
    return _make(shape, ctx, dtype, None, 1, "ones")


def full(shape: Any, val: Any, ctx: Context | None = None, dtype: Any = np.float32, out: Any = None) -> NDArray:
    """Return an array of one value; see :func:`empty`. With ``out``, fill that array and return it."""
    if out is not None:
        out[:] = val
        return out
    return _make(shape, ctx, dtype, None, val, "full")


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Return a new array with the values of ``source_array``.

    Parameters
    ----------
    source_array : array_like, NDArray or scipy.sparse matrix
        A sparse array gives a sparse array.
    ctx : Context or None
        None means the current context, or the device of an NDArray.
    dtype : dtype or None
        None means the dtype of an NDArray, else float32.

    Returns
    -------
    NDArray

    Raises
    ------
    TypeError
        If the source is not made of numbers.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if isinstance(source_array, Array):
        if source_array._sparse:
            return _sparse(source_array, ctx, dtype)
        dtype = np.dtype(dtype or source_array.dtype)  # type: ignore[attr-defined]
        values = settled(source_array)
        library = runtime.current().library(source_array._ctx)
        values = library.to_host(values)
    else:
        if hasattr(source_array, "tocsr"):
            return _sparse(source_array, ctx, dtype)
        dtype = np.dtype(np.float32 if dtype is None else dtype)
        if isinstance(source_array, list | tuple) and any(isinstance(v, Array) for v in source_array):
            source_array = [v.asnumpy() if isinstance(v, Array) else v for v in source_array]  # type: ignore[attr-defined]
        try:
            values = np.asarray(source_array)
            if values.dtype == object or values.dtype.kind in "USV":
                raise ValueError(f"it has dtype {values.dtype}")
        except ValueError as e:
            raise TypeError(f"nd.array: the source must be an array of numbers, but {e}.") from None
    ctx = ctx or current_context()
    target = runtime.current().library(ctx)
    if values.dtype != dtype:
        with np.errstate(all="ignore"):
            values = values.astype(dtype)
    return wrap(NDArray, target.from_host(values, ctx.device_id), ctx)


def _sparse(source: Any, ctx: Any, dtype: Any) -> Any:
    from . import sparse

    return sparse.array(source, ctx, dtype)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: Any = None,
    ctx: Context | None = None,
    dtype: Any = np.float32,
) -> NDArray:
    """Return evenly spaced numbers from ``start`` (or 0) up to, not including, ``stop``.

    Parameters
    ----------
    start, stop, step : float
        As Python's ``range``.
    repeat : int
        How often each number is repeated.
    infer_range : None
        Deprecated by MXNet; ignored there and here.
    ctx : Context or None
    dtype : dtype

    Returns
    -------
    NDArray
    """
    if infer_range is not None:
        warnings.warn("`infer_range` argument has been deprecated", DeprecationWarning, stacklevel=2)
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ParameterError("nd.arange: step must not be 0.")
    values = np.arange(start, stop, step, dtype=np.float64 if np.dtype(dtype).kind == "f" else None)
    if repeat != 1:
        values = np.repeat(values, repeat)
    ctx = ctx or current_context()
    return wrap(NDArray, runtime.current().library(ctx).from_host(values.astype(dtype), ctx.device_id), ctx)


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, ctx: Context | None = None, dtype: Any = np.float32
) -> NDArray:
    """Return ``num`` evenly spaced numbers from ``start`` to ``stop``."""
    ctx = ctx or current_context()
    values = np.linspace(start, stop, num, endpoint=endpoint).astype(dtype)
    return wrap(NDArray, runtime.current().library(ctx).from_host(values, ctx.device_id), ctx)


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Return a matrix ``(N, M or N)`` with ones on diagonal ``k``."""
    ctx = ctx or current_context()
    values = np.eye(int(N), int(M) or None, int(k), dtype=np.float32 if dtype is None else dtype)
    return wrap(NDArray, runtime.current().library(ctx).from_host(values, ctx.device_id), ctx)


def concatenate(arrays: Any, axis: int = 0, always_copy: bool = True) -> NDArray:
    """Return arrays joined along an existing axis (a copy, unless one array and ``always_copy`` is False)."""
    arrays = list(arrays)
    if not arrays:
        raise ParameterError("nd.concatenate needs at least one array.")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return call("Concat", arrays, {"dim": axis})


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """Return the array with axes moved; the others keep their order."""
    source = (source,) if isinstance(source, int) else tuple(source)
    destination = (destination,) if isinstance(destination, int) else tuple(destination)
    n = tensor.ndim
    if len(source) != len(destination):
        raise ValueError("moveaxis: source and destination must have the same number of axes.")
    for axes, what in ((source, "source"), (destination, "destination")):
        for a in axes:
            if not -n <= a < n:
                raise ValueError(f"moveaxis: {what} axis {a} is out of range for an array of {n} axes.")
    source = tuple(a % n for a in source)
    destination = tuple(a % n for a in destination)
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise ValueError("moveaxis: an axis is repeated in source or destination.")
    order = [a for a in range(n) if a not in source]
    for d, s in sorted(zip(destination, source)):
        order.insert(d, s)
    return call("transpose", (tensor,), {"axes": tuple(order)})


def split_v2(ary: NDArray, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> Any:
    """Split an array at positions, or into equal sections.

    Parameters
    ----------
    ary : NDArray
    indices_or_sections : int or tuple of int
        A number of equal parts, or the positions where to cut.
    axis : int
    squeeze_axis : bool
        Remove the axis, where its parts have length 1.

    Returns
    -------
    list of NDArray, or NDArray for one part
    """
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        k = indices_or_sections
        if k <= 0 or n % k:
            raise ValueError(f"split_v2: axis {axis} of length {n} cannot be split into {k} equal parts.")
        cuts = [i * (n // k) for i in range(1, k)]
    elif isinstance(indices_or_sections, list | tuple):
        cuts = [int(i) for i in indices_or_sections]
    else:
        raise ValueError("split_v2: indices_or_sections must be an int or a tuple of ints.")
    bounds = [0, *cuts, n]
    parts = []
    for b, e in zip(bounds[:-1], bounds[1:]):
        part = call("slice_axis", (ary,), {"axis": axis, "begin": b, "end": max(e, b)})
        parts.append(call("squeeze", (part,), {"axis": axis}) if squeeze_axis else part)
    return parts[0] if len(parts) == 1 else parts


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write the one-hot form of ``indices`` into ``out`` ``(N, depth)``; returns ``out``."""
    out[:] = call("one_hot", (indices,), {"depth": out.shape[1], "dtype": np.dtype(out.dtype).name})
    return out


def waitall() -> None:
    """Block until all pending work is done; raise the oldest error that nobody has seen."""
    runtime.current().engine.wait_for_all()


class _Capsule:
    """Gives a bare DLPack capsule the methods that importers ask for."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **kw: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(dlpack: Any) -> NDArray:
    """Return an array on the memory of a DLPack capsule, or of an object with ``__dlpack__``. No copy."""
    source = dlpack if hasattr(dlpack, "__dlpack__") else _Capsule(dlpack)
    y = wrap(NDArray, np.from_dlpack(source), current_context())
    cell_of(y).exported = True
    return y


def to_dlpack_for_read(data: NDArray) -> Any:
    """Return a DLPack capsule for reading. Blocks."""
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> Any:
    """Return a DLPack capsule for writing. Blocks."""
    return data.to_dlpack_for_write()


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True, array_cls: type = NDArray) -> NDArray:
    """Return an array on the memory of a NumPy array, or a copy.

    Parameters
    ----------
    ndarray : numpy.ndarray
        C-ordered. With ``zero_copy`` it is made read-only, since the array now owns its values.
    zero_copy : bool

    Raises
    ------
    ValueError
        If the array is not C-ordered.
    """
    if not zero_copy:
        return array(ndarray, dtype=ndarray.dtype)
    if not ndarray.flags.c_contiguous:
        raise ValueError("from_numpy: the array must be C-ordered; pass zero_copy=False to copy it.")
    if not ndarray.flags.writeable and ndarray.flags.owndata:
        ndarray.flags.writeable = True  # handed over before: the new array shares it with the earlier one
    view = ndarray.view()
    ndarray.flags.writeable = False
    y = wrap(array_cls, view, current_context())
    cell_of(y).exported = True
    return y
