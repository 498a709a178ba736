"""What mxcore brings itself, and which distribution brings what else.

Both tables are static, so that using built-ins never scans metadata and a name that is not installed can be
answered with the command that installs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..spec.records import BackendRecord
from ..spec.versions import API

#: The distribution of the built-ins.
DISTRIBUTION = "mxcore"

#: kind, name, where the class is, further fields of the record.
_TABLE: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("engine", "naive", "mxcore.engine.naive:NaiveEngine", {"doc": "Runs every function when it is pushed."}),
    ("storage", "direct", "mxcore.storage.direct:DirectStorage", {"doc": "The op library allocates for itself."}),
    (
        "ops",
        "numpy",
        "mxcore.oplib.numpy_library:NumpyLibrary",
        {"doc": "NumPy kernels.", "device_types": frozenset({"cpu", "cpu_pinned", "cpu_shared"})},
    ),
)

#: (kind, name): the distribution to install.
KNOWN: dict[tuple[str, str], str] = {
    ("engine", "threaded"): "mxcore-engine-threaded",
    ("engine", "threaded_per_device"): "mxcore-engine-threaded",
    ("storage", "naive"): "mxcore-storage-pooled",
    ("storage", "round"): "mxcore-storage-pooled",
    ("storage", "unpooled"): "mxcore-storage-pooled",
    ("storage", "best_fit"): "mxcore-storage-pooled",
    ("ops", "cupy"): "mxcore-ops-cupy",
    ("ops", "jax"): "mxcore-ops-jax",
    ("kvstore", "mpi"): "mxcore-kvstore-mpi",
}

#: Device type: the op libraries of :data:`KNOWN` that serve it.
KNOWN_DEVICES: dict[str, tuple[str, ...]] = {"gpu": ("cupy", "jax"), "tpu": ("jax",)}


def records() -> list[tuple[str, BackendRecord]]:
    """The built-ins as ``(kind, record)``. Nothing is imported before a factory is called."""
    return [(kind, _record(kind, name, target, fields)) for kind, name, target, fields in _TABLE]


def _record(kind: str, name: str, target: str, fields: dict[str, Any]) -> BackendRecord:
    return BackendRecord(name, API[kind], _importing(target), **fields)


def _importing(target: str) -> Callable[..., Any]:
    module, _, attribute = target.partition(":")

    def factory(**options: Any) -> Any:
        return getattr(importlib.import_module(module), attribute)(**options)

    factory.__qualname__ = factory.__name__ = attribute
    return factory
