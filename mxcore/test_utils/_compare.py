"""Comparison of arrays, with tolerances by dtype."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.testing as npt

from .. import ndarray as nd


def effective_dtype(dat: Any) -> np.dtype:
    """Return the dtype whose precision the values of `dat` have."""
    return np.dtype(dat.dtype)


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
