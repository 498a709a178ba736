"""Kernels of operators of an array and a number, which is first taken in the dtype of the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..table import kernel
from ..threads import LARGE, LARGE_PLAIN, mapped
from .broadcast import COMPARISONS, divide, hypot, mod
from .sharing import call_binary, call_ufunc


def number(x: Any, s: Any) -> Any:
    """Return ``s`` as an array without axes, in the dtype of ``x``; fractions are cut off for whole numbers."""
    return np.asarray(s).astype(x.dtype)


def scalar(fn: Callable[..., Any], reverse: bool = False) -> Callable[..., Any]:
    """Turn a kernel of two arrays into one of an array and a number."""

    floats = fn if isinstance(fn, np.ufunc) else np.true_divide if fn is divide else None

    def run(x: Any, *, scalar: Any, is_int: Any = None, out: Any = None) -> Any:
        if x.size >= LARGE_PLAIN and floats is not None and x.dtype.kind == "f":
            return call_binary(floats, x, number(x, scalar), out)
        if out is not None:
            return fn(x, number(x, scalar), out=out)
        return fn(x, number(x, scalar))

    def run_reverse(x: Any, *, scalar: Any, is_int: Any = None) -> Any:
        if x.size >= LARGE_PLAIN and floats is not None and x.dtype.kind == "f":
            return call_binary(floats, number(x, scalar), x)
        return fn(number(x, scalar), x)

    return run_reverse if reverse else run


def _power(x: Any, s: Any, out: Any = None) -> Any:
    if x.dtype.kind != "f":
        return np.power(x.astype(np.float64), s).astype(x.dtype)
    if x.size >= LARGE and x.flags.c_contiguous:
        return call_ufunc(lambda x, out: _float_power(x, s, out), x, out)
    return _float_power(x, s, out)


def _float_power(x: Any, s: Any, out: Any = None) -> Any:
    # NumPy's pow is slow; the commonest exponents are products.
    if s == 2:
        return np.multiply(x, x, out=out)
    if s == 1:
        return np.positive(x, out=out)
    if s == 0.5:
        return np.sqrt(x, out=out)
    if s == -1:
        return np.reciprocal(x, out=out)
    if s == 3:
        y = x * x
        return np.multiply(y, x, out=out)
    return np.power(x, s, out=out)


def _exact_power(x: Any, *, scalar: Any, is_int: Any = None, out: Any = None) -> Any:
    if x.dtype.kind != "f":
        # The exponent keeps its fraction here: int32 ** 0.5 is a root.
        r = np.power(x.astype(np.float64), scalar).astype(x.dtype)
        if out is not None:
            out[...] = r
            return out
        return r
    return _power(x, scalar, out)


for _name, _fn in (
    ("_plus_scalar", np.add),
    ("_minus_scalar", np.subtract),
    ("_mul_scalar", np.multiply),
    ("_div_scalar", divide),
    ("_maximum_scalar", np.maximum),
    ("_minimum_scalar", np.minimum),
):
    kernel(_name, numpy=True, out=True)(scalar(_fn))
kernel("_power_scalar", numpy=True, out=True)(_exact_power)
kernel("_mod_scalar", numpy=True)(scalar(mod))
kernel("_hypot_scalar", numpy=True)(scalar(hypot))
kernel("_rminus_scalar", numpy=True)(scalar(np.subtract, reverse=True))
kernel("_rdiv_scalar", numpy=True)(scalar(divide, reverse=True))
kernel("_rmod_scalar", numpy=True)(scalar(mod, reverse=True))


@kernel("_rpower_scalar", numpy=True)
def rpower(x: Any, *, scalar: Any, is_int: Any = None) -> Any:
    if x.dtype.kind == "f":
        return call_binary(np.power, number(x, scalar), x)
    return np.power(float(scalar), x).astype(x.dtype)


def _comparison(compare: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, *, scalar: Any, is_int: Any = None) -> Any:
        s = np.asarray(scalar)
        if x.size < LARGE_PLAIN:
            return compare(x, s).astype(x.dtype)
        return mapped(lambda x: compare(x, s).astype(x.dtype), x)

    return run


for _name, _compare in COMPARISONS.items():
    kernel(f"_{_name}_scalar", numpy=True)(_comparison(_compare))
