"""``mx.operator``: custom operators in Python, and what operators there are."""

from __future__ import annotations

from .ndarray.custom import (
    CustomOp,
    CustomOpProp,
    OperatorArguments,
    get_all_registered_operators,
    get_operator_arguments,
    register,
)

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "OperatorArguments",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
]
