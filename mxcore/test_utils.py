"""Helpers for tests of code that uses mxcore, under the names of ``mx.test_utils``.

Comparison with tolerances by dtype; random arrays and shapes; numeric gradients and cross-device checks of symbols;
statistical checks of generators. The checks of symbols use the Symbol interface alone (``bind``, ``simple_bind``,
``list_arguments``, ...), so that this module needs no symbols itself.

There is no ``__all__``: test suites written for MXNet rely on ``from mxnet.test_utils import *`` for names such as
``np``, ``os`` and ``array`` too.
"""

from __future__ import annotations

import bz2
import logging
import numbers
import os
import platform
import sys
import time
import traceback
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

from . import context as _context
from . import io as _io
from . import ndarray as nd
from . import random as _random
from .context import Context, current_context
from .ndarray import array
from .spec.errors import MXCoreError

# -- context and dtype --------------------------------------------------------------------------------------------


def default_context() -> Context:
    """Return the context that tests run on: the current one."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make `ctx` the context of everything that names none."""
    Context.default_ctx = ctx


def default_dtype() -> Any:
    """Return ``numpy.float32``."""
    return np.float32


def list_gpus() -> range:
    """Return the ids of the GPUs here."""
    return range(_context.num_gpus())


def is_op_runnable() -> bool:
    """Return True: every operator runs on every device that its library serves."""
    return True


def has_tvm_ops() -> bool:
    """Return False: there are no operators built by TVM."""
    return False


def is_cd_run() -> bool:
    """Return whether MXNet's release jobs run this (``CD_JOB=1``)."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run() -> bool:
    """Return whether this is a 64-bit ARM machine."""
    return platform.machine() == "aarch64"


def effective_dtype(dat: Any) -> np.dtype:
    """Return the dtype whose precision the values of `dat` have."""
    return np.dtype(dat.dtype)


# -- tolerances ---------------------------------------------------------------------------------------------------

_RTOLS = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-5}
_ATOLS = {"float16": 1e-1, "float32": 1e-3, "float64": 1e-20}
_EXACT = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _by_dtype(floats: dict[str, float]) -> dict[np.dtype, float]:
    return {**{np.dtype(k): v for k, v in floats.items()}, **{np.dtype(k): 0 for k in _EXACT}}


def default_rtols() -> dict[np.dtype, float]:
    """Return the relative tolerance for each dtype."""
    return _by_dtype(_RTOLS)


def default_atols() -> dict[np.dtype, float]:
    """Return the absolute tolerance for each dtype."""
    return _by_dtype(_ATOLS)


def default_numeric_eps() -> dict[np.dtype, float]:
    """Return the step of numeric gradients for each dtype."""
    return {np.dtype(np.float16): 2.0**-6, np.dtype(np.float32): 2.0**-9, np.dtype(np.float64): 2.0**-14}


def get_tolerance(dat: Any, tol: Any, default_tol: dict[np.dtype, float]) -> float:
    """Return the tolerance for `dat`.

    Parameters
    ----------
    dat : array
        Its dtype decides.
    tol : float, dict or None
        One number for all, or numbers by dtype.
    default_tol : dict
        For dtypes that `tol` lacks.
    """
    if isinstance(tol, numbers.Number):
        return tol  # type: ignore[return-value]
    dtype = effective_dtype(dat)
    return (tol or {}).get(dtype, default_tol[dtype])


def get_tols(x: Any, y: Any, rtol: Any, atol: Any) -> tuple[float, float]:
    """Return ``(rtol, atol)``, the larger of what `x` and `y` ask for."""
    pair = [np.array(v) if isinstance(v, numbers.Number) else v for v in (x, y)]
    rtols, atols = default_rtols(), default_atols()
    return (
        max(get_tolerance(v, rtol, rtols) for v in pair),
        max(get_tolerance(v, atol, atols) for v in pair),
    )


def get_atol(atol: float | None = None, dtype: Any = np.float64) -> float:
    """Return `atol`, or the default of `dtype`."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: Any = np.float64) -> float:
    """Return `rtol`, or the default of `dtype`."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """Return `etol`, the share of elements that may differ, 0 by default."""
    return 0 if etol is None else etol


# -- comparison ---------------------------------------------------------------------------------------------------


def _to_numpy(a: Any) -> Any:
    return a.asnumpy() if isinstance(a, nd.NDArray) else a


def same(a: Any, b: Any) -> bool:
    """Return whether shapes and all elements are equal."""
    return np.array_equal(_to_numpy(a), _to_numpy(b))


def checkShapes(a: Any, b: Any) -> None:
    """Raise ``AssertionError`` unless the shapes are equal."""
    if a.shape != b.shape:
        raise AssertionError(
            npt.build_err_msg([a, b], err_msg=f"a.shape = {a.shape} and b.shape = {b.shape} are not equal")
        )


def almost_equal(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """Return whether ``|a - b| <= atol + rtol * |b|`` everywhere."""
    if not use_broadcast:
        checkShapes(a, b)
    return np.allclose(_to_numpy(a), _to_numpy(b), rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan)


def _violation(a: np.ndarray, b: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    """Return ``|a - b|`` in units of the tolerance, nan where only one is nan or neither may be."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide_a, wide_b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        fine = wide_a == wide_b
        if equal_nan:
            fine |= np.isnan(wide_a) & np.isnan(wide_b)
        return np.where(fine, 0.0, np.abs(wide_a - wide_b) / (atol + rtol * np.abs(wide_b) + 1e-20))


def _mismatch_text(a: Any, b: Any, rtol: float, atol: float, names: Sequence[str], equal_nan: bool, shown: int) -> str:
    """Return the error message for arrays that differ: the worst places and how many there are."""
    a, b = np.broadcast_arrays(a, b)
    violation = _violation(a, b, rtol, atol, equal_nan)
    order = np.argsort(-np.where(np.isnan(violation), np.inf, violation), axis=None, kind="stable")
    wrong = int((~(violation <= 1)).sum())

    def place(flat: int) -> str:
        at = np.unravel_index(flat, violation.shape)
        return (
            f"{tuple(int(i) for i in at)}, {names[0]}={float(a[at]):.8f}, {names[1]}={float(b[at]):.8f}"
            f" (error {float(violation[at]):f})"
        )

    lines = [f"{i + 1:3d}: {place(flat)}" for i, flat in enumerate(order[: min(shown, wrong)])]
    worst = float(violation.ravel()[order[0]])
    text = (
        f"Error {worst:f} exceeds tolerance rtol={rtol:e}, atol={atol:e} "
        f"(mismatch {100 * wrong / max(violation.size, 1):f}%).\n"
        f"Location of maximum error: {place(order[0])}\n"
    )
    with np.printoptions(threshold=4, suppress=True):
        return npt.build_err_msg([a, b], err_msg=text + "\n".join(lines))


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Any = None,
    atol: Any = None,
    names: Sequence[str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Raise ``AssertionError`` unless ``|a - b| <= atol + rtol * |b|`` everywhere.

    Parameters
    ----------
    a, b : array or number
        What to compare.
    rtol, atol : float or dict, optional
        Tolerances, or tolerances by dtype; by default the wider of the two dtypes'.
    names : tuple of str
        What the message calls the arrays.
    equal_nan : bool
        Whether nan equals nan.
    use_broadcast : bool
        Whether shapes may differ.
    mismatches : tuple of int
        How many differing places the message lists.
    """
    if not use_broadcast:
        checkShapes(a, b)
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = _to_numpy(a), _to_numpy(b)
    if getattr(a, "dtype", None) == np.bool_ and getattr(b, "dtype", None) == np.bool_:
        npt.assert_equal(a, b)
        return
    if not almost_equal(a, b, rtol, atol, equal_nan=equal_nan):
        raise AssertionError(_mismatch_text(a, b, rtol, atol, names, equal_nan, mismatches[0]))


def assert_allclose(a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True) -> None:
    """:func:`assert_almost_equal` with NumPy's default tolerances."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Any = None,
    atol: Any = None,
    etol: float | None = None,
    names: Sequence[str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Like :func:`assert_almost_equal`, but a share `etol` of the elements may differ."""
    etol = get_etol(etol)
    if etol <= 0:
        assert_almost_equal(a, b, rtol=rtol, atol=atol, names=names, equal_nan=equal_nan, mismatches=mismatches)
        return
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = _to_numpy(a), _to_numpy(b)
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if 1 - np.count_nonzero(close) / close.size > etol:
        raise AssertionError(_mismatch_text(a, b, rtol, atol, names, equal_nan, mismatches[0]))


def assert_almost_equal_ignore_nan(
    a: Any, b: Any, rtol: Any = None, atol: Any = None, names: Sequence[str] = ("a", "b")
) -> None:
    """:func:`assert_almost_equal` where neither is nan."""
    a, b = np.copy(_to_numpy(a)), np.copy(_to_numpy(b))
    nan = np.isnan(a) | np.isnan(b)
    a[nan] = 0
    b[nan] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def same_array(array1: Any, array2: Any) -> bool:
    """Return whether two arrays share their memory, found out by writing to the first."""
    array1[:] += 1
    shared = same(array1.asnumpy(), array2.asnumpy())
    array1[:] -= 1
    return shared and same(array1.asnumpy(), array2.asnumpy())


def assert_exception(f: Callable[..., Any], exception_type: Any, *args: Any, **kwargs: Any) -> None:
    """Raise ``AssertionError`` unless ``f(*args, **kwargs)`` raises `exception_type`."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} did not raise {exception_type}.")


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Any = None, atol: Any = None) -> None:
    """Compare nested tuples of arrays; None matches anything."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for part1, part2 in zip(t1, t2):
            compare_ndarray_tuple(part1, part2, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: Any,
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Raise ``AssertionError`` unless two optimizers make the same step from the same random weights.

    Parameters
    ----------
    opt1, opt2 : Optimizer
        The optimizers; for several tensors `opt1` is called for each and `opt2` once with lists.
    shape : tuple or list of tuple
        Shape of the weight, or of each of `ntensors` weights.
    dtype : dtype
        Of weights and gradients.
    w_stype, g_stype : str
        Storage types for `opt2`.
    rtol, atol : float
        Tolerances.
    compare_states : bool
        Compare the states too.
    ntensors : int
        Number of weights.
    """
    ctx = default_context()
    if not isinstance(shape, list):
        if ntensors != 1:
            raise AssertionError("compare_optimizer: several tensors need a list of shapes.")

        def twice(stype: str, density: float | None) -> tuple[Any, Any]:
            if stype == "default":
                second = _random.uniform(shape=shape, ctx=ctx, dtype=dtype)
                return second.copyto(ctx), second
            second = rand_ndarray(shape, stype, density=density, dtype=dtype)
            return second.copyto(ctx).tostype("default"), second

        w1, w2 = twice(w_stype, 1)
        g1, g2 = twice(g_stype, None)
        state1 = opt1.create_state_multi_precision(0, w1)
        state2 = opt2.create_state_multi_precision(0, w2)
        if compare_states:
            compare_ndarray_tuple(state1, state2)
        opt1.update_multi_precision(0, w1, g1, state1)
        opt2.update_multi_precision(0, w2, g2, state2)
        if compare_states:
            compare_ndarray_tuple(state1, state2, rtol=rtol, atol=atol)
        assert_almost_equal(w1, w2, rtol=rtol, atol=atol)
        return
    weights1 = [_random.uniform(shape=s, ctx=ctx, dtype=dtype) for s in shape]
    grads1 = [_random.uniform(shape=s, ctx=ctx, dtype=dtype) for s in shape]
    weights2, grads2 = deepcopy(weights1), deepcopy(grads1)
    states2 = [opt2.create_state_multi_precision(0, weights2[i]) for i in range(ntensors)]
    opt2.update_multi_precision(list(range(ntensors)), weights2, grads2, states2)
    for i in range(ntensors):
        state1 = opt1.create_state_multi_precision(i, weights1[i])
        opt1.update_multi_precision(i, weights1[i], grads1[i], state1)
        if compare_states:
            compare_ndarray_tuple(state1, states2[i], rtol, atol)
        compare_ndarray_tuple(weights1[i], weights2[i], rtol, atol)


# -- random arrays and shapes -------------------------------------------------------------------------------------


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Return NumPy arrays of normal float32 values, or the only one."""
    arrays = [np.asarray(np.random.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(
    *shapes: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: Any = None
) -> list[Any]:
    """Return NumPy arrays of uniform values."""
    return [np.asarray(np.random.uniform(low, high, size=s), dtype=dtype or default_dtype()) for s in shapes]


def random_sample(population: Sequence[Any], k: int) -> Any:
    """Return `k` distinct elements of `population` in random order."""
    if not 0 <= k <= len(population):
        raise AssertionError(f"random_sample: cannot draw {k} of {len(population)} elements.")
    shuffled = list(population)
    np.random.shuffle(shuffled)
    return shuffled[:k]


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, int]:
    """Return a random shape of two axes, each at most as long as said."""
    low = 0 if allow_zero_size else 1
    return int(rnd.randint(low, dim0 + 1)), int(rnd.randint(low, dim1 + 1))


def rand_shape_3d(
    dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
) -> tuple[int, int, int]:
    """Return a random shape of three axes, each at most as long as said."""
    low = 0 if allow_zero_size else 1
    return int(rnd.randint(low, dim0 + 1)), int(rnd.randint(low, dim1 + 1)), int(rnd.randint(low, dim2 + 1))


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Return a random shape of `num_dim` axes, each at most `dim` long."""
    return tuple(int(n) for n in rnd.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim))


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[Any, Any]:
    """Return a random point of a rectangle."""
    return np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64)


def rand_sparse_ndarray(shape: Any, stype: str, *args: Any, **kwargs: Any) -> Any:
    """Raise: sparse arrays are not part of this version."""
    raise MXCoreError(
        f"rand_sparse_ndarray: arrays of storage type {stype!r} are not part of this version of mxcore; "
        f"use stype='default'."
    )


def rand_ndarray(
    shape: tuple[int, ...],
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Context | None = None,
) -> Any:
    """Return an NDArray of normal values on `ctx`; only the storage type 'default' is served so far."""
    if stype != "default":
        return rand_sparse_ndarray(shape, stype, density=density, dtype=dtype)
    return nd.array(random_arrays(shape), dtype=dtype, ctx=ctx if ctx else default_context())


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> Any:
    """Return ``(rows, columns)`` filled with the row numbers."""
    return nd.broadcast_to(nd.arange(0, rows, dtype=dtype).reshape((rows, 1)), shape=(rows, columns))


def create_vector(size: int, dtype: Any = np.int64) -> Any:
    """Return ``0 .. size - 1``."""
    return nd.arange(0, size, dtype=dtype)


def get_identity_mat(size: int) -> Any:
    """Return the identity matrix."""
    return nd.array(np.eye(size))


def get_identity_mat_batch(size: int) -> Any:
    """Return two identity matrices ``(2, size, size)``."""
    return nd.array(np.stack([np.eye(size)] * 2))


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """Return a random ``(n, n)`` matrix with real eigenvalues and well-conditioned eigenvectors."""
    while True:
        diagonal = np.diag(np.random.uniform(-1.0, 1.0, n))
        v = np.random.uniform(-1.0, 1.0, (n, 1))
        v /= np.linalg.norm(v)
        q = (np.eye(n) - 2 * v @ v.T) @ diagonal  # a reflection, scaled
        if np.linalg.cond(q, 2) < 3:
            break
    return np.linalg.inv(q) @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def _stack_of(shape: tuple[int, ...], make: Callable[[int], np.ndarray]) -> np.ndarray:
    count = int(np.prod(shape[:-2])) if len(shape) > 2 else 1
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """Return random matrices ``(..., n, n)`` with real eigenvalues."""
    return _stack_of(shape, new_matrix_with_real_eigvals_2d)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """Return a random orthogonal ``(n, n)`` matrix."""
    x = np.random.randn(n, n)
    return np.linalg.qr(x.T @ x)[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """Return a random symmetric ``(n, n)`` matrix."""
    q = new_orthonormal_matrix_2d(n)
    return q.T @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """Return random symmetric matrices ``(..., n, n)``."""
    return _stack_of(shape, new_sym_matrix_with_real_eigvals_2d)


# -- NumPy references ---------------------------------------------------------------------------------------------


def np_reduce(dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]) -> Any:
    """Reduce with a NumPy function of one axis over several axes (None: all)."""
    axes = [axis] if isinstance(axis, int) else list(range(dat.ndim)) if axis is None else list(axis)
    ret = dat
    for i in sorted(axes, reverse=True):
        ret = numpy_reduce_func(ret, axis=i)
    if keepdims:
        shape = list(dat.shape)
        for i in axes:
            shape[i] = 1
        ret = ret.reshape(tuple(shape))
    return ret


def collapse_sum_like(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum `a` over the axes along which `shape` broadcasts to it; the gradient of broadcasting."""
    if len(a.shape) < len(shape):
        raise AssertionError(f"collapse_sum_like: {shape} has more axes than {a.shape}.")
    if np.prod(shape) == 0 or a.size == 0:
        return np.zeros(shape, dtype=a.dtype)
    extra = len(a.shape) - len(shape)
    axes = list(range(extra))
    for i, n in enumerate(shape):
        if n != a.shape[i + extra]:
            if n != 1:
                raise AssertionError(f"collapse_sum_like: {shape} does not broadcast to {a.shape}.")
            axes.append(i + extra)
    return np.sum(a, axis=tuple(axes)).reshape(shape)


def assign_each(the_input: Any, function: Callable[[Any], Any] | None) -> np.ndarray:
    """Return `function` of each element."""
    values = np.array(the_input)
    if function is None:
        return values
    return np.array([function(v) for v in values.ravel()], dtype=np.float64).reshape(values.shape)


def assign_each2(input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None) -> np.ndarray:
    """Return `function` of each pair of elements."""
    first, second = np.array(input1), np.array(input2)
    if function is None:
        return first
    if first.shape != second.shape:
        raise AssertionError(f"assign_each2: shapes {first.shape} and {second.shape} differ.")
    pairs = zip(first.ravel(), second.ravel())
    return np.array([function(u, v) for u, v in pairs], dtype=np.float64).reshape(first.shape)


# -- symbols ------------------------------------------------------------------------------------------------------

_FLOATS = (np.float16, np.float32, np.float64)


def _check_dtype(dtype: Any, or_asnumpy: bool) -> None:
    if not (or_asnumpy and isinstance(dtype, str) and dtype == "asnumpy") and dtype not in _FLOATS:
        raise AssertionError(f"dtype must be float16, float32 or float64, not {dtype!r}.")


def _as_nd(value: Any, ctx: Context, dtype: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    as_it_is = isinstance(dtype, str) and dtype == "asnumpy"
    return nd.array(value, ctx=ctx, dtype=value.dtype if as_it_is else dtype)


def _named(names: Sequence[str], values: Any, what: str) -> dict[str, Any]:
    if isinstance(values, dict):
        if set(values) != set(names):
            raise ValueError(
                f"Symbol {what} and keys of the given values do not match. symbol {what}: {sorted(names)}, "
                f"keys: {sorted(values)}"
            )
        return dict(values)
    return dict(zip(names, values))


def _parse_location(sym: Any, location: Any, ctx: Context, dtype: Any) -> dict[str, Any]:
    named = _named(sym.list_arguments(), location, "arguments")
    return OrderedDict((k, _as_nd(named[k], ctx, dtype)) for k in sorted(named))


def _parse_aux_states(sym: Any, aux_states: Any, ctx: Context, dtype: Any) -> dict[str, Any] | None:
    if aux_states is None:
        return None
    named = _named(sym.list_auxiliary_states(), aux_states, "auxiliary states")
    return {k: _as_nd(np.asarray(_to_numpy(v)), ctx, dtype) for k, v in named.items()}


def simple_forward(sym: Any, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """Return the outputs of a symbol for NumPy inputs given by name, as NumPy arrays (or the only one)."""
    executor = sym.bind(ctx or default_context(), args={k: array(v) for k, v in inputs.items()})
    executor.forward(is_train=is_train)
    outputs = [x.asnumpy() for x in executor.outputs]
    return outputs[0] if len(outputs) == 1 else outputs


def numeric_grad(
    executor: Any,
    location: dict[str, Any],
    aux_states: dict[str, Any] | None = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> dict[str, np.ndarray]:
    """Return central differences of the sum of the executor's first output, by the name of the argument.

    Parameters
    ----------
    executor : Executor
        Its arguments are overwritten and put back.
    location : dict of str to numpy.ndarray
        Where to differentiate; only floating-point arguments are moved.
    aux_states : dict of str to numpy.ndarray, optional
        Auxiliary states, put back before every forward.
    eps : float
        Distance of the two points.
    use_forward_train : bool
        Mode of the forward passes.
    dtype : dtype
        Of the result.
    """
    _check_dtype(dtype, False)
    for name, value in location.items():
        executor.arg_dict[name][:] = nd.array(value, dtype=dtype)

    def total(name: str, values: np.ndarray) -> float:
        executor.arg_dict[name][:] = nd.array(values, dtype=dtype)
        for key, state in (aux_states or {}).items():
            executor.aux_dict[key][:] = nd.array(state, dtype=dtype)
        executor.forward(is_train=use_forward_train)
        return executor.outputs[0].asnumpy().sum(dtype=np.float64)

    grads = {}
    for name, value in location.items():
        values = np.array(value, order="C")
        grad = grads[name] = np.zeros(values.shape, dtype=dtype)
        if values.dtype.kind != "f":
            continue
        flat, flat_grad = values.reshape(-1), grad.reshape(-1)
        for i in range(flat.size):
            here = flat[i]
            flat[i] = here + eps / 2
            above = total(name, values)
            flat[i] = here - eps / 2
            flat_grad[i] = (above - total(name, values)) / eps
            flat[i] = here
        executor.arg_dict[name][:] = nd.array(values, dtype=dtype)
    return grads


def _assert_grad(kind: str, expected: Any, got: Any, before: Any, name: str, tols: Any, labels: Any, nan: bool) -> None:
    """Compare a gradient the way its request asks: written, added to what was there, or left alone."""
    if kind == "write":
        pass
    elif kind == "add":
        got = _to_numpy(got) - before
    elif kind == "null":
        expected = before
    else:
        raise ValueError(f"Invalid grad_req {kind} for argument {name}")
    assert_almost_equal(expected, got, tols[0], tols[1], names=labels, equal_nan=nan)


def check_numeric_gradient(
    sym: Any,
    location: Any,
    aux_states: Any = None,
    numeric_eps: Any = None,
    rtol: Any = None,
    atol: Any = None,
    grad_nodes: Any = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: dict[str, str] | None = None,
    dtype: Any = np.float32,
) -> None:
    """Compare the gradients of a symbol with central differences.

    Parameters
    ----------
    sym : Symbol
        One output; its sum, weighted at random, is differentiated.
    location : list or dict of numpy.ndarray
        Values of the arguments, in order or by name.
    aux_states : list or dict of numpy.ndarray, optional
        Values of the auxiliary states.
    numeric_eps : float or dict, optional
        Step of the differences.
    rtol, atol : float or dict, optional
        Tolerances.
    grad_nodes : list of str or dict of str to str, optional
        Arguments to differentiate by, with their gradient requests; all with 'write' by default.
    use_forward_train : bool
        Mode of the forward passes.
    ctx : Context, optional
        Where to compute.
    grad_stype_dict : dict, optional
        Storage types of gradients; only 'default' is served so far.
    dtype : dtype
        Of all values.

    Raises
    ------
    AssertionError
        If a gradient differs.
    """
    _check_dtype(dtype, False)
    ctx = ctx or default_context()
    location = _parse_location(sym, location, ctx, dtype)
    location_npy = {k: v.asnumpy() for k, v in location.items()}
    aux_states = _parse_aux_states(sym, aux_states, ctx, dtype)
    aux_npy = None if aux_states is None else {k: v.asnumpy() for k, v in aux_states.items()}
    for name, stype in (grad_stype_dict or {}).items():
        if stype != "default":
            rand_sparse_ndarray(location[name].shape, stype)
    if grad_nodes is None:
        grad_nodes = sym.list_arguments()
    grad_req = dict(grad_nodes) if isinstance(grad_nodes, dict) else dict.fromkeys(grad_nodes, "write")
    _, out_shapes, _ = sym.infer_shape(**{k: v.shape for k, v in location.items()})

    from . import symbol

    proj = symbol.Variable("__random_proj")
    if hasattr(sym, "as_nd_ndarray") and type(sym) is not symbol.Symbol:
        out = (sym * proj.as_np_ndarray()).as_nd_ndarray()
    else:
        out = sym * proj
    out = symbol.make_loss(out)
    location["__random_proj"] = nd.array(np.random.rand(*out_shapes[0]) + 0.1, ctx=ctx, dtype=dtype)
    before = {k: np.random.normal(0, 0.01, size=location[k].shape) for k in [*grad_req, "__random_proj"]}
    args_grad = {k: nd.array(v, ctx=ctx, dtype=dtype) for k, v in before.items()}
    executor = out.bind(ctx, grad_req=grad_req, args=location, args_grad=args_grad, aux_states=aux_states)
    if len(executor.arg_arrays) != len(location):
        raise ValueError(
            f"Executor arg_arrays and location len do not match. Got {len(executor.arg_arrays)} inputs and "
            f"{len(location)} locations"
        )
    executor.forward(is_train=True)
    eps = get_tolerance(executor.outputs[0], numeric_eps, default_numeric_eps())
    executor.backward()
    grads = {k: executor.grad_dict[k].asnumpy() for k in grad_req}
    differences = numeric_grad(executor, location_npy, aux_npy, eps, use_forward_train, dtype)
    for name, kind in grad_req.items():
        labels = (f"NUMERICAL_{name}", f"BACKWARD_{name}")
        _assert_grad(kind, differences[name], grads[name], before[name], name, (rtol, atol), labels, False)


def check_symbolic_forward(
    sym: Any,
    location: Any,
    expected: Any,
    rtol: Any = None,
    atol: Any = None,
    aux_states: Any = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[Any]:
    """Compare the outputs of a symbol with NumPy values and return them.

    Parameters
    ----------
    sym : Symbol
        What to run, in inference mode.
    location, aux_states : list or dict of numpy.ndarray
        Values of arguments and auxiliary states.
    expected : list or dict of numpy.ndarray
        The outputs, in order or by name.
    rtol, atol, equal_nan
        As for :func:`assert_almost_equal`.
    ctx : Context, optional
        Where to compute.
    dtype : dtype or 'asnumpy'
        Of all values, or each as it is given.
    """
    _check_dtype(dtype, True)
    ctx = ctx or default_context()
    location = _parse_location(sym, location, ctx, dtype)
    aux_states = _parse_aux_states(sym, aux_states, ctx, dtype)
    if isinstance(expected, dict):
        expected = [expected[k] for k in sym.list_outputs()]
    args_grad = {k: nd.zeros(v.shape, ctx=ctx, dtype=v.dtype) for k, v in location.items()}
    executor = sym.bind(ctx=ctx, args=location, args_grad=args_grad, aux_states=aux_states)
    executor.forward(is_train=False)
    for name, want, got in zip(sym.list_outputs(), expected, executor.outputs):
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan=equal_nan)
    return executor.outputs


def check_symbolic_backward(
    sym: Any,
    location: Any,
    out_grads: Any,
    expected: Any,
    rtol: Any = None,
    atol: Any = None,
    aux_states: Any = None,
    grad_req: Any = "write",
    ctx: Context | None = None,
    grad_stypes: dict[str, str] | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> dict[str, Any]:
    """Compare the gradients of a symbol with NumPy values and return them.

    Parameters
    ----------
    sym : Symbol
        What to run, in training mode.
    location, aux_states : list or dict of numpy.ndarray
        Values of arguments and auxiliary states.
    out_grads : list or dict of numpy.ndarray, or None
        Gradients of the outputs.
    expected : list or dict of numpy.ndarray
        Gradients of the arguments, in order or by name.
    rtol, atol, equal_nan
        As for :func:`assert_almost_equal`.
    grad_req : str, list or dict
        Requests of the gradients.
    ctx : Context, optional
        Where to compute.
    grad_stypes : dict, optional
        Storage types of gradients; only 'default' is served so far.
    dtype : dtype or 'asnumpy'
        Of all values, or each as it is given.
    """
    _check_dtype(dtype, True)
    ctx = ctx or default_context()
    location = _parse_location(sym, location, ctx, dtype)
    aux_states = _parse_aux_states(sym, aux_states, ctx, dtype)
    names = sym.list_arguments()
    if isinstance(expected, (list, tuple)):
        expected = dict(zip(names, expected))
    for name, stype in (grad_stypes or {}).items():
        if stype not in (None, "default"):
            rand_sparse_ndarray(location[name].shape, stype)
    before = {k: np.random.normal(size=expected[k].shape).astype(expected[k].dtype) for k in sorted(expected)}
    args_grad = {k: _as_nd(v, ctx, dtype) for k, v in before.items()}
    if isinstance(grad_req, str):
        grad_req = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, (list, tuple)):
        grad_req = dict(zip(names, grad_req))
    executor = sym.bind(ctx=ctx, args=location, args_grad=args_grad, aux_states=aux_states, grad_req=grad_req)
    executor.forward(is_train=True)
    if isinstance(out_grads, dict):
        out_grads = {k: _as_nd(v, ctx, dtype) for k, v in out_grads.items()}
    elif out_grads is not None:
        out_grads = [_as_nd(v, ctx, dtype) for v in out_grads]
    executor.backward(out_grads)
    for name, want in expected.items():
        labels = (f"EXPECTED_{name}", f"BACKWARD_{name}")
        _assert_grad(grad_req[name], want, args_grad[name], before[name], name, (rtol, atol), labels, equal_nan)
    return args_grad


def check_speed(
    sym: Any,
    location: dict[str, Any] | None = None,
    ctx: Context | None = None,
    N: int = 20,
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """Return the mean seconds of one forward and backward pass (`typ` 'whole') or one forward pass ('forward')."""
    if typ not in ("whole", "forward"):
        raise ValueError('typ can only be "whole" or "forward".')
    ctx = ctx or default_context()
    shapes = kwargs if location is None else {k: v.shape for k, v in location.items()}
    executor = sym.simple_bind(grad_req=grad_req or "write", ctx=ctx, **shapes)
    if location is None:
        location = {k: np.random.normal(size=v.shape, scale=1.0) for k, v in executor.arg_dict.items()}
    for name, value in location.items():
        executor.arg_dict[name][:] = value.astype(executor.arg_dict[name].dtype)

    def once() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(out_grads=executor.outputs)

    once()
    nd.waitall()
    start = time.perf_counter()
    for _ in range(N):
        once()
    nd.waitall()
    return (time.perf_counter() - start) / N


def check_consistency(
    sym: Any,
    ctx_list: list[dict[str, Any]],
    scale: float = 1.0,
    grad_req: Any = "write",
    arg_params: dict[str, Any] | None = None,
    aux_params: dict[str, Any] | None = None,
    rtol: Any = None,
    atol: Any = None,
    raise_on_err: bool = True,
    ground_truth: dict[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """Compare a symbol's outputs and gradients across contexts and dtypes; the widest dtype is the reference.

    Parameters
    ----------
    sym : Symbol or list of Symbol
        One for all, or one for each entry of `ctx_list`.
    ctx_list : list of dict
        Arguments of ``simple_bind``: ``ctx``, ``type_dict`` and shapes.
    scale : float
        Scale of the random arguments.
    grad_req : str or dict
        Requests of the gradients.
    arg_params, aux_params : dict, optional
        Values to use instead of random ones.
    rtol, atol, equal_nan
        As for :func:`assert_almost_equal`.
    raise_on_err : bool
        Raise at a difference, or print it.
    ground_truth : dict, optional
        Outputs and gradients to compare with.
    use_uniform : bool
        Uniform or normal random arguments.
    rand_type : dtype
        Of the random arguments before casting.

    Returns
    -------
    dict
        The reference.
    """
    if len(ctx_list) < 2:
        raise AssertionError("check_consistency compares at least two contexts.")
    syms = list(sym) if isinstance(sym, (list, tuple)) else [sym] * len(ctx_list)
    if len(syms) != len(ctx_list):
        raise AssertionError(f"check_consistency got {len(syms)} symbols for {len(ctx_list)} contexts.")
    output_names, arg_names = syms[0].list_outputs(), syms[0].list_arguments()
    executors = []
    for one, ctx in zip(syms, ctx_list):
        if one.list_arguments() != arg_names or one.list_outputs() != output_names:
            raise AssertionError("check_consistency: the symbols differ in arguments or outputs.")
        executors.append(one.simple_bind(grad_req=grad_req, **ctx))
    arg_params = {} if arg_params is None else arg_params
    aux_params = {} if aux_params is None else aux_params
    for name, value in sorted(executors[0].arg_dict.items()):
        if name not in arg_params:
            if use_uniform:
                drawn = np.random.uniform(low=-0.92 * scale, high=0.92 * scale, size=value.shape)
            else:
                drawn = np.random.normal(size=value.shape, scale=scale)
            arg_params[name] = drawn.astype(rand_type)
    for name in executors[0].aux_dict:
        aux_params.setdefault(name, 0)
    for executor in executors:
        for name, value in executor.arg_dict.items():
            value[:] = arg_params[name]
        for name, value in executor.aux_dict.items():
            value[:] = aux_params[name]
        if grad_req == "add":
            for value in executor.grad_arrays:
                value[:] = np.zeros(value.shape, dtype=value.dtype)
    dtypes = [np.dtype(executor.outputs[0].dtype) for executor in executors]
    reference = max(range(len(dtypes)), key=lambda i: (dtypes[i].itemsize, -i))
    for executor in executors:
        executor.forward(is_train=False)

    def compare(what: str, names: list[str], arrays_of: Callable[[Any], list[Any]], truth: dict[str, Any]) -> None:
        for i, executor in enumerate(executors):
            if i == reference and ground_truth is None:
                continue
            for name, got in zip(names, arrays_of(executor)):
                want = truth[name]
                if want is None or got is None:
                    if want is not got:
                        raise AssertionError(f"check_consistency: only one of the contexts has a gradient of {name}.")
                    continue
                try:
                    narrow = min((dtypes[i], dtypes[reference]), key=lambda d: d.itemsize)
                    rt, at = rtol, atol
                    if narrow.kind == "f":
                        rt, at = get_tols(np.zeros((), narrow), np.zeros((), narrow), rtol, atol)
                    assert_almost_equal(got, want, rtol=rt, atol=at, equal_nan=equal_nan)
                except AssertionError:
                    print(f"{what} Err: ctx {i} vs ctx {reference} at {name}")
                    traceback.print_exc()
                    if raise_on_err:
                        raise

    def truth_now() -> dict[str, Any]:
        if ground_truth is not None:
            return ground_truth
        truth = dict(executors[reference].output_dict)
        if grad_req != "null":
            truth.update(executors[reference].grad_dict)
        return truth

    compare("Predict", output_names, lambda executor: executor.outputs, truth_now())
    if grad_req == "null":
        return truth_now()
    for executor in executors:
        executor.forward(is_train=True)
    narrowest = [
        min((np.dtype(executor.outputs[k].dtype) for executor in executors), key=lambda d: d.itemsize)
        for k in range(len(output_names))
    ]
    golden = [out.astype(d).asnumpy() for out, d in zip(executors[0].outputs, narrowest)]
    for executor in executors:
        ctx = executor.outputs[0].context
        executor.backward([nd.array(g, ctx=ctx, dtype=out.dtype) for g, out in zip(golden, executor.outputs)])
    compare("Train", output_names + arg_names, lambda executor: executor.outputs + executor.grad_arrays, truth_now())
    return truth_now()


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """Return whether two symbols consist of the same operators in the same order."""
    import json

    nodes1, nodes2 = (json.loads(sym.tojson())["nodes"] for sym in (sym1, sym2))
    return all(node1["op"] == node2["op"] for node1, node2 in zip(nodes1, nodes2))


def check_gluon_hybridize_consistency(
    net_builder: Callable[..., Any],
    data_l: list[Any],
    numpy_func: Callable[..., Any] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """Compare a block with itself hybridized, outputs and gradients of the inputs, under NumPy semantics.

    Parameters
    ----------
    net_builder : callable
        ``net_builder(prefix=...)`` returns the block.
    data_l : list
        The inputs.
    numpy_func : callable, optional
        The same function of NumPy arrays.
    test_grad : bool
        Compare gradients too.
    rtol, atol : float
        Tolerances.
    """
    from . import autograd, initializer, util

    class _Fixed(initializer.Initializer):
        def __init__(self, values: dict[str, np.ndarray]) -> None:
            super().__init__()
            self._values = values

        def _init_weight(self, name: str, arr: Any) -> None:
            arr[()] = self._values[name]

    def check() -> None:
        first_out: Any = None
        first_grads: list[np.ndarray] | None = None
        params: Any = None
        for hybridize in (False, True):
            for with_grad in (False, True) if test_grad else (False,):
                net = net_builder(prefix="net_")
                net.initialize() if params is None else net.initialize(params)
                if hybridize:
                    net.hybridize()
                inputs = [value.copy() for value in data_l]
                if with_grad:
                    for value in inputs:
                        value.attach_grad()
                    with autograd.record():
                        out = net(*inputs)
                    out.backward(out)
                else:
                    out = net(*inputs)
                if params is None:
                    params = _Fixed({k: v.data().asnumpy() for k, v in net.collect_params().items()})
                if first_out is None:
                    first_out = out.asnumpy()
                else:
                    assert_almost_equal(out.asnumpy(), first_out, rtol=rtol, atol=atol)
                if with_grad:
                    grads = [value.grad.asnumpy() for value in inputs]
                    if first_grads is None:
                        first_grads = grads
                    for grad, first in zip(grads, first_grads):
                        assert_almost_equal(grad, first, rtol=rtol, atol=atol)
        if numpy_func is not None:
            expected = numpy_func(*[value.asnumpy() for value in data_l])
            assert_almost_equal(first_out, expected, rtol=rtol, atol=atol)

    # Where there are mx.np arrays, the check runs under their semantics.
    use_np = getattr(util, "use_np", None)
    (check if use_np is None else use_np(check))()


# -- generators of random numbers ---------------------------------------------------------------------------------


def gen_buckets_probs_with_ppf(ppf: Callable[[float], Any], nbuckets: int) -> tuple[list[tuple[Any, Any]], list[float]]:
    """Return `nbuckets` intervals of equal probability and these probabilities, from a quantile function."""
    if nbuckets <= 0:
        raise AssertionError(f"nbuckets must be positive, got {nbuckets}.")
    buckets = [(ppf(i / float(nbuckets)), ppf((i + 1) / float(nbuckets))) for i in range(nbuckets)]
    return buckets, [1.0 / nbuckets] * nbuckets


def mean_check(generator: Callable[[int], Any], mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the mean of samples lies within three standard errors of `mu`."""
    mean = np.array(generator(nsamples)).mean()
    return bool(abs(mean - mu) < 3 * sigma / np.sqrt(nsamples))


def var_check(generator: Callable[[int], Any], sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the variance of samples lies within three standard errors of ``sigma**2``."""
    variance = np.array(generator(nsamples)).var(ddof=1)
    return bool(abs(variance - sigma**2) < 3 * np.sqrt(2 * sigma**4 / (nsamples - 1)))


def chi_square_check(
    generator: Callable[[int], Any], buckets: list[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the p-value of a chi-square test of samples, with observed and expected counts. Needs SciPy.

    Parameters
    ----------
    generator : callable
        From a number to that many samples.
    buckets : list
        Intervals ``(low, high)`` in order, or single values.
    probs : sequence of float
        Probability of each bucket.
    nsamples : int
        Number of samples.
    """
    try:
        from scipy import stats
    except ImportError as error:
        raise ImportError("chi_square_check needs SciPy, which is not installed: pip install scipy") from error
    if not isinstance(buckets, list) or len(probs) != len(buckets):
        raise AssertionError(f"chi_square_check: {len(probs)} probabilities for {len(buckets)} buckets (a list).")
    samples = np.array(_to_numpy(generator(nsamples)))
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array([edge for bucket in buckets for edge in bucket], dtype=np.float32)
        if (np.diff(edges) < 0).any():
            raise AssertionError(f"chi_square_check: the buckets {buckets} are not in order.")
        which = np.searchsorted(edges, samples, side="right") // 2
        keys: Any = range(len(buckets))
    else:
        which, keys = samples, buckets
    observed = np.array([(which == key).sum() for key in keys], dtype=np.int64)
    expected = (nsamples * np.array(probs, dtype=np.float32)).astype(np.int32)
    # SciPy insists that both count the same number of samples; expected counts are rounded above.
    scaled = np.asarray(probs, np.float64) / np.sum(probs, dtype=np.float64) * observed.sum()
    return stats.chisquare(f_obs=observed, f_exp=scaled)[1], observed, expected


def verify_generator(
    generator: Callable[[int], Any],
    buckets: list[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """Raise ``AssertionError`` unless enough chi-square tests of a generator pass; return their p-values.

    Parameters
    ----------
    generator, buckets, probs, nsamples
        As for :func:`chi_square_check`.
    nrepeat : int
        Number of tests.
    success_rate : float
        Share of the tests that has to pass.
    alpha : float
        Level above which a p-value passes.
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    p_values = [result[0] for result in results]
    if (np.array(p_values) > alpha).sum() < nrepeat * success_rate:
        raise AssertionError(
            f"Generator test fails, Chi-square p={p_values}, obs_freq={[r[1] for r in results]}, "
            f"expected_freq={[r[2] for r in results]}.\nbuckets={buckets}, probs={probs}"
        )
    return p_values


# -- running tests ------------------------------------------------------------------------------------------------


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Decorator: run a test up to `n` times until no ``AssertionError`` is raised."""
    if n <= 0:
        raise AssertionError(f"retry: n must be positive, got {n}.")

    def decorate(f: Callable[..., Any]) -> Callable[..., None]:
        def wrapper(*args: Any, **kwargs: Any) -> None:
            for left in reversed(range(n)):
                try:
                    f(*args, **kwargs)
                    return
                except AssertionError:
                    if not left:
                        raise
                    nd.waitall()

        wrapper.__name__ = getattr(f, "__name__", "wrapper")
        return wrapper

    return decorate


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Set environment variables within a ``with`` block; a value of None removes one.

    Parameters
    ----------
    *args
        A name and a value, or a dict of them.

    Examples
    --------
    >>> import os
    >>> with environment("MXCORE_EXAMPLE", "1"):
    ...     os.environ["MXCORE_EXAMPLE"]
    '1'
    >>> "MXCORE_EXAMPLE" in os.environ
    False
    """
    if len(args) == 1 and isinstance(args[0], dict):
        wanted = args[0]
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise AssertionError("Expecting one dict arg or two args: env var name and value")

    def apply(values: dict[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    before = {name: os.environ.get(name) for name in wanted}
    apply(wanted)
    try:
        yield
    finally:
        nd.waitall()
        apply(before)


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Throw away what is written to the standard error stream, by other languages' libraries too."""
    try:
        number = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # replaced by an object without a file
        yield
        return
    saved = os.dup(number)
    try:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), number)
        yield
    finally:
        os.dup2(saved, number)
        os.close(saved)


class DummyIter(_io.DataIter):
    """Gives the first batch of another iterator for ever, to time everything but the reading of data.

    Parameters
    ----------
    real_iter : DataIter
        The other iterator.
    """

    def __init__(self, real_iter: Any) -> None:
        super().__init__()
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(real_iter)

    def __iter__(self) -> DummyIter:
        return self

    def next(self) -> Any:
        return self.the_batch


# -- files --------------------------------------------------------------------------------------------------------


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, retries: int = 5
) -> str:
    """Fetch a file unless it is there, and return its path.

    Parameters
    ----------
    url : str
        Where it is.
    fname : str, optional
        What to call it; the last part of the address by default.
    dirname : str, optional
        Where to put it.
    overwrite : bool
        Fetch it even if it is there.
    retries : int
        How often to try again.
    """
    from .gluon import utils

    if retries < 0:
        raise AssertionError(f"Number of retries should be at least 0, got {retries}.")
    name = fname or url.split("/")[-1]
    path = os.path.join(dirname, name) if dirname is not None else name
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    if not overwrite and os.path.exists(path):
        logging.info("%s exists, skipping download", path)
        return path
    return utils.download(url, path=path, overwrite=overwrite, retries=retries)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Fetch a zip archive into `data_dir` and unpack it there, unless it is there."""
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        download(url, dirname=data_dir, overwrite=False)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(path=data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Fetch a bzip2 file into `data_dir` and unpack it to `data_name`, unless that is there."""
    target, packed = os.path.join(data_dir, data_name), os.path.join(data_dir, data_origin_name)
    if not os.path.exists(target):
        download(url, fname=data_origin_name, dirname=data_dir, overwrite=False)
        with bz2.BZ2File(packed, "rb") as source, open(target, "wb") as out:
            out.writelines(source)
        os.remove(packed)


_MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def get_mnist(root: str | None = None) -> dict[str, np.ndarray]:
    """Return MNIST from local files.

    Parameters
    ----------
    root : str, optional
        Folder of the IDX files; ``data`` or the dataset folder of :class:`gluon.data.vision.MNIST` by default.

    Returns
    -------
    dict
        ``train_data``, ``test_data`` ``(N, 1, 28, 28)`` float32 of 0..1; ``train_label``, ``test_label`` int8.
    """
    from .gluon.data.vision import MNIST

    if root is None and os.path.isdir("data"):
        root = "data"
    result = {}
    for part, train in (("train", True), ("test", False)):
        data = MNIST(root=root, train=train)
        images = data._data.asnumpy().transpose(0, 3, 1, 2)
        result[f"{part}_data"] = images.astype(np.float32) / 255
        result[f"{part}_label"] = data._label.astype(np.int8)
    return result


def get_mnist_ubyte() -> None:
    """Raise ``FileNotFoundError`` unless the four files of MNIST lie unpacked in the folder ``data``."""
    missing = [name for name in _MNIST_FILES if not os.path.exists(os.path.join("data", name))]
    if missing:
        raise FileNotFoundError(
            f"MNIST: {', '.join(missing)} missing in {os.path.abspath('data')}. This version reads local files and "
            f"does not download: put the unpacked files there."
        )


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[Any, Any]:
    """Return iterators of MNIST's training and test set, from the files in the folder ``data``."""
    get_mnist_ubyte()
    images, labels = ("data/{}-images-idx3-ubyte", "data/{}-labels-idx1-ubyte")
    train, test = (
        _io.MNISTIter(
            image=images.format(part),
            label=labels.format(part),
            input_shape=input_shape,
            batch_size=batch_size,
            shuffle=part == "train",
            flat=len(input_shape) != 3,
            num_parts=num_parts,
            part_index=part_index,
        )
        for part in ("train", "t10k")
    )
    return train, test
