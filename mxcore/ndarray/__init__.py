"""ARRAYS: ``mx.nd``, the NDArray class, its creation functions and every operator as a function.

Operator functions are generated from the operator records when their name is first used
(:mod:`mxcore.dispatch.functions`).
"""

from __future__ import annotations

import importlib
from typing import Any

from .. import operators
from ..dispatch.context import current_context
from ..dispatch.functions import make_function
from .arithmetic import (
    add,
    divide,
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    modulo,
    multiply,
    not_equal,
    power,
    subtract,
    true_divide,
)
from .creation import (
    arange,
    array,
    concatenate,
    empty,
    eye,
    from_dlpack,
    from_numpy,
    full,
    linspace,
    moveaxis,
    onehot_encode,
    ones,
    split_v2,
    to_dlpack_for_read,
    to_dlpack_for_write,
    waitall,
    zeros,
)
from .namespace import plugin_namespace
from .ndarray import NDArray

_SUBMODULES = ("random", "linalg", "contrib", "image", "sparse", "op", "_internal", "utils", "files")
#: Functions that live in modules imported only when they are asked for.
_ELSEWHERE = {
    "save": "files",
    "load": "files",
    "load_frombuffer": "files",
    "Custom": "custom",
    "cast_storage": "sparse",
    "histogram": "histograms",
}


def __getattr__(name: str) -> Any:
    value: Any
    if name in _SUBMODULES:
        value = importlib.import_module(f".{name}", __name__)
    elif name in _ELSEWHERE:
        value = getattr(
            importlib.import_module(f".{_ELSEWHERE[name]}", __name__), "custom" if name == "Custom" else name
        )
    elif not name.startswith("__") and operators.known(name):
        value = make_function(operators.get(name), NDArray, name, __name__)
    elif not name.startswith("_") and (value := plugin_namespace(name)) is not None:
        pass
    else:
        raise AttributeError(f"module 'mxcore.ndarray' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, *_ELSEWHERE, *(n for n in operators.names() if not n.startswith("_"))})


__all__ = [
    "NDArray",
    "add",
    "arange",
    "array",
    "concatenate",
    "current_context",
    "divide",
    "empty",
    "equal",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "linspace",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "modulo",
    "moveaxis",
    "multiply",
    "not_equal",
    "onehot_encode",
    "ones",
    "power",
    "split_v2",
    "subtract",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "true_divide",
    "waitall",
    "zeros",
]
