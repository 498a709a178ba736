"""Operator namespaces: ``nd.linalg.gemm2`` is the operator ``_linalg_gemm2``, and so on.

One small class serves every namespace that is a prefix on operator names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import operators
from ..dispatch.functions import make_function
from ..registry import process_registry
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


def plugin_namespace(name: str) -> ModuleType | None:
    """Return the operators that a plugin offers under ``mxcore.operators`` by this name, as a module; None without one.

    ``mx.nd.vision.nms`` is the operator ``nms``, ``vision_nms`` or ``vision.nms`` of the entry point ``vision``. The
    plugin is imported now.

    Raises
    ------
    BackendError
        If the plugin is there and cannot be loaded.
    """
    registry = process_registry()
    if name not in registry.operator_namespaces():
        return None
    module = ModuleType(f"mxcore.ndarray.{name}", f"Operators of the plugin namespace {name}.")
    for record in registry.operators(name):
        fn = make_function(record, NDArray, record.name, module.__name__)
        for short in (record.name, record.name.removeprefix(f"{name}_").removeprefix(f"{name}.")):
            setattr(module, short, fn)
    return module
