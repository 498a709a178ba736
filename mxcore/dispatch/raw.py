"""Operators over raw arrays: what gradient rules run on in an ordinary backward.

``F.name(*arrays, **attributes)`` calls the kernel of operator ``name`` directly: no wrapping, no recording, no
engine. Each operator is resolved once and then is a plain attribute.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import operators


class Raw:
    """Namespace of kernels of one op library; ``symbolic`` and ``recorded`` tell rules what they run on."""

    symbolic = False
    recorded = False

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        operator = operators.get(name)
        kernel = self._library.kernel(operator.name)
        if operator.attributes:
            defaults = {k: a.default for k, a in operator.attributes.items()}
            fn = functools.partial(_call, operator, kernel, defaults)
        else:
            fn = kernel
        setattr(self, name, fn)
        return fn


def _call(operator: Any, kernel: Any, defaults: dict[str, Any], /, *arrays: Any, **attributes: Any) -> Any:
    missing = len(operator.inputs) - len(arrays)
    if missing > 0 and not operator.variadic:
        arrays = arrays + (None,) * missing
    result = kernel(*arrays, **{**defaults, **attributes})
    if isinstance(result, tuple) and operator.visible is not None:
        n = operator.count(operator.visible, {**defaults, **attributes})
        return result[0] if n == 1 else result[:n]
    return result
