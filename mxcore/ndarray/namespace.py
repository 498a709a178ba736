"""Operator namespaces: ``nd.linalg.gemm2`` is the operator ``_linalg_gemm2``, and so on.

One small class serves every namespace that is a prefix on operator names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import operators
from ..dispatch.functions import make_function
from .ndarray import NDArray


def prefixed(module: str, *prefixes: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a module whose functions are operators with a prefix.

    The first prefix that, put before the name, gives a known operator wins.
    """

    def getattr_(name: str) -> Any:
        if not name.startswith("__"):
            for prefix in prefixes:
                if operators.known(prefix + name):
                    fn = make_function(operators.get(prefix + name), NDArray, name, module)
                    sys.modules[module].__dict__[name] = fn  # found there from now on
                    return fn
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def dir_() -> list[str]:
        return sorted(n[len(p) :] for p in prefixes for n in operators.names() if p and n.startswith(p))

    return getattr_, dir_
