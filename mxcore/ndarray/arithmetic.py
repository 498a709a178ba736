"""Functions that take arrays and numbers alike: ``nd.add``, ``nd.maximum``, ``nd.equal``, ...

Two arrays call the broadcasting operator, an array and a number its scalar form, two numbers plain Python.
"""

from __future__ import annotations

import operator as _operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import operators
from ..dispatch.array import Array
from ..dispatch.call import invoke
from ..dispatch.fast import scalar_bound
from ..dispatch.functions import resolve
from ..spec import DTypeError

_NUMBERS = (int, float, np.generic)


def _make(
    name: str, two: str, right: str, left: str, plain: Callable[[Any, Any], Any], formula: str, names: str
) -> Any:
    first, second = names.split()

    def function(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, Array):
            if isinstance(rhs, Array):
                return invoke(resolve(operators.get(two), {}), (lhs, rhs))
            if isinstance(rhs, _NUMBERS):
                return invoke(scalar_bound(operators.get(right), rhs), (lhs,))
        elif isinstance(lhs, _NUMBERS):
            if isinstance(rhs, Array):
                return invoke(scalar_bound(operators.get(left), lhs), (rhs,))
            if isinstance(rhs, _NUMBERS):
                return plain(lhs, rhs)
        bad = rhs if isinstance(lhs, (Array, *_NUMBERS)) else lhs
        raise DTypeError(f"nd.{name}: type {type(bad)} not supported; it takes NDArrays and numbers.", operator=name)

    if first != "lhs":
        scope: dict[str, Any] = {"inner": function}
        exec(f"def function({first}, {second}):\n    return inner({first}, {second})\n", scope)
        function = scope["function"]
    function.__name__ = function.__qualname__ = name
    function.__module__ = "mxcore.ndarray"
    function.__doc__ = f"""Compute ``{formula}`` for each element, broadcasting.

Parameters
----------
{first}, {second} : NDArray or number
    At least one array; arrays of one dtype.

Returns
-------
NDArray

Raises
------
DTypeError
    If an argument is neither an array nor a number, or the dtypes differ.
ShapeError
    If the shapes cannot be broadcast together.
"""
    return function


def _logic(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], float]:
    return lambda a, b: 1.0 if fn(a, b) else 0.0


add = _make("add", "broadcast_add", "_plus_scalar", "_plus_scalar", _operator.add, "lhs + rhs", "lhs rhs")
subtract = _make("subtract", "broadcast_sub", "_minus_scalar", "_rminus_scalar", _operator.sub, "lhs - rhs", "lhs rhs")
multiply = _make("multiply", "broadcast_mul", "_mul_scalar", "_mul_scalar", _operator.mul, "lhs * rhs", "lhs rhs")
divide = _make("divide", "broadcast_div", "_div_scalar", "_rdiv_scalar", _operator.truediv, "lhs / rhs", "lhs rhs")
true_divide = divide
modulo = _make("modulo", "broadcast_mod", "_mod_scalar", "_rmod_scalar", _operator.mod, "lhs mod rhs", "lhs rhs")
power = _make("power", "broadcast_power", "_power_scalar", "_rpower_scalar", pow, "base ** exp", "base exp")
maximum = _make("maximum", "broadcast_maximum", "_maximum_scalar", "_maximum_scalar", max, "max(lhs, rhs)", "lhs rhs")
minimum = _make("minimum", "broadcast_minimum", "_minimum_scalar", "_minimum_scalar", min, "min(lhs, rhs)", "lhs rhs")
equal = _make(
    "equal", "broadcast_equal", "_equal_scalar", "_equal_scalar", _logic(_operator.eq), "lhs == rhs", "lhs rhs"
)
not_equal = _make(
    "not_equal",
    "broadcast_not_equal",
    "_not_equal_scalar",
    "_not_equal_scalar",
    _logic(_operator.ne),
    "lhs != rhs",
    "lhs rhs",
)
greater = _make(
    "greater", "broadcast_greater", "_greater_scalar", "_lesser_scalar", _logic(_operator.gt), "lhs > rhs", "lhs rhs"
)
greater_equal = _make(
    "greater_equal",
    "broadcast_greater_equal",
    "_greater_equal_scalar",
    "_lesser_equal_scalar",
    _logic(_operator.ge),
    "lhs >= rhs",
    "lhs rhs",
)
lesser = _make(
    "lesser", "broadcast_lesser", "_lesser_scalar", "_greater_scalar", _logic(_operator.lt), "lhs < rhs", "lhs rhs"
)
lesser_equal = _make(
    "lesser_equal",
    "broadcast_lesser_equal",
    "_lesser_equal_scalar",
    "_greater_equal_scalar",
    _logic(_operator.le),
    "lhs <= rhs",
    "lhs rhs",
)
logical_and = _make(
    "logical_and",
    "broadcast_logical_and",
    "_logical_and_scalar",
    "_logical_and_scalar",
    _logic(lambda a, b: bool(a) and bool(b)),
    "lhs and rhs",
    "lhs rhs",
)
logical_or = _make(
    "logical_or",
    "broadcast_logical_or",
    "_logical_or_scalar",
    "_logical_or_scalar",
    _logic(lambda a, b: bool(a) or bool(b)),
    "lhs or rhs",
    "lhs rhs",
)
logical_xor = _make(
    "logical_xor",
    "broadcast_logical_xor",
    "_logical_xor_scalar",
    "_logical_xor_scalar",
    _logic(lambda a, b: bool(a) != bool(b)),
    "lhs xor rhs",
    "lhs rhs",
)
