"""Which storage type the results of an operator have, given those of its inputs, as MXNet 1.9.1 infers them.

An operator that is not in the table gives dense results. Storage types are written by their first letters:
``d`` (default), ``r`` (row_sparse), ``c`` (csr); the inputs of a call together are a word such as ``"cd"``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["infer"]

Rule = Callable[[str, Mapping[str, Any]], str]

#: f(0) = 0 (or no function at all): the result has the storage type of the first input.
# fmt: off
ZERO_PRESERVING = [
    "abs", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "degrees", "expm1", "fix",
    "floor", "log1p", "negative", "radians", "relu", "rint", "round", "sign", "sin", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc", "_copy", "BlockGrad", "make_loss", "zeros_like", "_mul_scalar",
    "_div_scalar",
]
# fmt: on

#: Both inputs row_sparse or both csr: so is the result.
ALIKE = ["elemwise_add", "elemwise_sub", "_maximum", "_minimum", "_hypot"]

#: Comparisons with a number: the zeros stay zeros where ``0 op number`` is false.
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "_equal_scalar": operator.eq,
    "_not_equal_scalar": operator.ne,
    "_greater_scalar": operator.gt,
    "_greater_equal_scalar": operator.ge,
    "_lesser_scalar": operator.lt,
    "_lesser_equal_scalar": operator.le,
}


def _first(kinds: str, a: Mapping[str, Any]) -> str:
    return kinds[0]


def _alike(kinds: str, a: Mapping[str, Any]) -> str:
    return kinds[0] if kinds[0] == kinds[1] else "d"


def _comparison(compare: Callable[[Any, Any], bool]) -> Rule:
    return lambda kinds, a: "d" if compare(0, a["scalar"]) else kinds[0]


def _shift(kinds: str, a: Mapping[str, Any]) -> str:
    return kinds[0] if a["scalar"] == 0 else "d"


def _product(kinds: str, a: Mapping[str, Any]) -> str:
    return "d" if kinds in ("rc", "cr") else kinds.replace("d", "")[:1] or "d"


def _csr_by_dense(kinds: str, a: Mapping[str, Any]) -> str:
    return "c" if kinds == "cd" else "d"


def _clip(kinds: str, a: Mapping[str, Any]) -> str:
    return kinds[0] if a["a_min"] <= 0 <= a["a_max"] else "d"


def _slice(kinds: str, a: Mapping[str, Any]) -> str:
    steps = a["step"] or ()
    return "c" if kinds == "c" and all(s in (None, 1) for s in steps) else "d"


def _dot(kinds: str, a: Mapping[str, Any]) -> str:
    if a["forward_stype"] is not None:
        return a["forward_stype"][0]
    if kinds in ("cd", "cr") and a["transpose_a"] and not a["transpose_b"]:
        return "r"
    return "c" if kinds == "dc" and not a["transpose_a"] else "d"


def _square_sum(kinds: str, a: Mapping[str, Any]) -> str:
    axis = a["axis"]
    axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
    return "r" if kinds == "r" and axes == (1,) and a["keepdims"] else "d"


RULES: dict[str, Rule] = {
    **dict.fromkeys(ZERO_PRESERVING, _first),
    **dict.fromkeys(ALIKE, _alike),
    **{name: _comparison(compare) for name, compare in COMPARISONS.items()},
    "_plus_scalar": _shift,
    "_minus_scalar": _shift,
    "elemwise_mul": _product,
    "broadcast_mul": _csr_by_dense,
    "broadcast_div": _csr_by_dense,
    "_identity_with_attr_like_rhs": lambda kinds, a: kinds[1],
    "add_n": lambda kinds, a: "r" if set(kinds) == {"r"} else "d",
    "clip": _clip,
    "slice": _slice,
    "take": lambda kinds, a: "c" if kinds == "cd" and a["axis"] == 0 else "d",
    "Concat": lambda kinds, a: "c" if set(kinds) == {"c"} and a["dim"] == 0 else "d",
    "dot": _dot,
    "_square_sum": _square_sum,
    "cast_storage": lambda kinds, a: a["stype"][0],
    "_sparse_retain": _first,
    "_contrib_quadratic": lambda kinds, a: "c" if kinds == "c" and a["c"] == 0 else "d",
}


def infer(name: str, kinds: str, attributes: Mapping[str, Any]) -> str:
    """Return the storage type, as a letter, of the results of operator ``name``.

    Examples
    --------
    >>> infer("elemwise_add", "rr", {}), infer("elemwise_add", "rd", {}), infer("exp", "r", {})
    ('r', 'd', 'd')
    """
    rule = RULES.get(name)
    return "d" if rule is None else rule(kinds, attributes)
