"""The light module of the entry points: records only; what is heavy is imported when an engine is made."""

from __future__ import annotations

from typing import Any

from mxcore.registry import hookimpl
from mxcore.spec import BackendRecord, EngineCapability

_CAPABILITIES = frozenset(
    {
        EngineCapability.CONCURRENT,
        EngineCapability.PRIORITY,
        EngineCapability.PARALLEL_FOR,
        EngineCapability.INLINE_FIRST,
    }
)

#: Options of the core's vocabulary, and the arguments that they are.
_OPTIONS = {
    "engine.workers": "workers",
    "engine.priority_workers": "priority_workers",
    "engine.gpu_workers": "gpu_workers",
    "engine.copy_workers": "copy_workers",
    "engine.child_workers": "child_workers",
    "engine.max_tasks": "max_tasks",
    "engine.max_bytes": "max_bytes",
    "engine.learn": "learn",
    "engine.switch_interval": "switch_interval",
}


def _make(name: str) -> Any:
    from mxcore import config

    from .costs import CostTable, default_path
    from .engine import ThreadedEngine, ThreadedEnginePerDevice

    where = config.get("engine.cost_file")
    made = ThreadedEngine if name == "threaded" else ThreadedEnginePerDevice
    given = {argument: config.get(option) for option, argument in _OPTIONS.items()}
    return made(
        costs=None if where == "none" else CostTable(where or default_path()),
        **{argument: value for argument, value in given.items() if value is not None},
    )


@hookimpl
def mxcore_register_engines(registrar: Any) -> None:
    """Offer both engines; the one by device is MXNet's default, and ours once this is installed."""
    for name, priority, doc in (
        ("threaded", 10, "One pool of threads for all devices."),
        ("threaded_per_device", 20, "Threads by device and purpose; the default once installed."),
    ):
        registrar.engine(
            BackendRecord(
                name,
                (1, 1),
                lambda name=name, **_: _make(name),
                capabilities=_CAPABILITIES,
                priority=priority,
                doc=doc,
            )
        )
