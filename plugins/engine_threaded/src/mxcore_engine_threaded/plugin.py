"""The light module of the entry points: records only; what is heavy is imported when an engine is made."""

from __future__ import annotations

from typing import Any

from mxcore.registry import hookimpl
from mxcore.spec import BackendRecord, EngineCapability, OptionRecord

_CAPABILITIES = frozenset(
    {
        EngineCapability.CONCURRENT,
        EngineCapability.PRIORITY,
        EngineCapability.PARALLEL_FOR,
        EngineCapability.INLINE_FIRST,
    }
)

OPTIONS = (
    OptionRecord("engine.max_tasks", int, 4096, "Pushes that may be pending before a caller sleeps."),
    OptionRecord("engine.max_bytes", int, 1 << 30, "Bytes of pending results before a caller sleeps."),
    OptionRecord("engine.learn", bool, True, "Costs and plans decide where and in which order functions run."),
    OptionRecord(
        "engine.cost_file", str, "", "Where costs are kept; empty: the user's cache directory; 'none': nowhere."
    ),
    OptionRecord(
        "engine.switch_interval",
        float,
        0.0,
        "Seconds after which Python threads take turns (sys.setswitchinterval) while this engine is in use; 0: unchanged.",
    ),
)


def _make(name: str) -> Any:
    from mxcore import config

    from .costs import CostTable, default_path
    from .engine import ThreadedEngine, ThreadedEnginePerDevice

    get = config.get
    where = get("engine.cost_file")
    costs = None if where == "none" else CostTable(where or default_path())
    numbers = {
        "copy_workers": get("engine.copy_workers"),
        "priority_workers": get("engine.priority_workers"),
        "gpu_workers": get("engine.gpu_workers"),
        "child_workers": get("engine.child_workers"),
    }
    made = ThreadedEngine if name == "threaded" else ThreadedEnginePerDevice
    return made(
        workers=get("engine.workers"),
        costs=costs,
        max_tasks=get("engine.max_tasks"),
        max_bytes=get("engine.max_bytes"),
        learn=get("engine.learn"),
        switch_interval=get("engine.switch_interval"),
        **{option: number for option, number in numbers.items() if number is not None},
    )


@hookimpl
def mxcore_register_engines(registrar: Any) -> None:
    """Offer both engines; the one by device is MXNet's default, and ours once this is installed."""
    for option in OPTIONS:
        registrar.option(option)
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
