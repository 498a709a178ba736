"""The options of the core, and the words that plugins of one kind share.

A plugin declares further options with ``registrar.option``. What is declared here is either read by the core, or is
vocabulary that every plugin of its kind reads under the same name (``engine.workers``), so that switching between
two threaded engines or two pools keeps the user's settings.
"""

from __future__ import annotations

from ..spec.records import OptionRecord
from .values import Choice

#: Sections whose further options belong to plugins that may not be loaded yet: judged only once one is in use.
PLUGIN_SECTIONS = frozenset({"engine", "pool", "storage", "ops", "kvstore"})

CORE_OPTIONS: tuple[OptionRecord, ...] = (
    OptionRecord("engine", Choice, None, "The engine that schedules operators."),
    OptionRecord("storage", Choice, None, "The storage manager of every device type not named by storage.*."),
    OptionRecord("storage.*", Choice, None, "The storage manager of one device type, as in storage.gpu."),
    OptionRecord("ops", Choice, None, "The op library of every device type that it serves."),
    OptionRecord("ops.*", Choice, None, "The op library of one device type, as in ops.cpu."),
    OptionRecord("kvstore", Choice, None, "The key-value store that kvstore.create() makes."),
    OptionRecord("plugins", list, None, "Only these distributions may be loaded; empty: built-ins only."),
    OptionRecord("plugins.block", list, [], "Distributions never imported.", aliases=("MXCORE_PLUGINS_BLOCK",)),
    OptionRecord("plugins.strict", bool, False, "Any failure of a plugin raises.", aliases=("MXCORE_STRICT_PLUGINS",)),
    OptionRecord(
        "plugins.required",
        list,
        [],
        "Distributions that must be present, each with an optional version: 'mxcore-engine-threaded>=0.1'.",
        aliases=("MXCORE_PLUGINS_REQUIRED",),
    ),
    OptionRecord("engine.workers", int, None, "Worker threads of the CPU."),
    OptionRecord("engine.priority_workers", int, None, "Priority worker threads of the CPU."),
    OptionRecord("engine.gpu_workers", int, None, "Worker threads of each GPU."),
    OptionRecord("engine.copy_workers", int, None, "Copy threads of each GPU."),
    OptionRecord("engine.child_workers", int, None, "Worker threads of the CPU in a forked child."),
    OptionRecord("engine.compute_threads", int, None, "Threads inside one kernel (OpenMP, BLAS)."),
    OptionRecord("engine.max_tasks", int, None, "Pushes that may be pending before a caller sleeps."),
    OptionRecord("engine.max_bytes", int, None, "Bytes of pending results before a caller sleeps."),
    OptionRecord("engine.learn", bool, None, "Whether costs and plans decide where and in which order functions run."),
    OptionRecord(
        "engine.cost_file", str, None, "Where costs are kept; 'none': nowhere. Default: the user's cache directory."
    ),
    OptionRecord(
        "engine.switch_interval", float, None, "Seconds between turns of Python threads while the engine is in use."
    ),
    OptionRecord("pool.reserve", int, None, "Percentage of device memory that a pool leaves alone."),
    OptionRecord("pool.page_size", int, None, "Smallest size class of a pool, in bytes."),
    OptionRecord("pool.large_round", int, None, "Large requests are rounded up to a multiple of this, in bytes."),
    OptionRecord("pool.round_linear_cutoff", int, None, "log2 of the size above which a pool rounds linearly."),
    OptionRecord("profiler.autostart", bool, False, "Profile from the import on (environment only)."),
    OptionRecord("profiler.filename", str, "profile.json", "Where the profiler writes its timeline."),
    OptionRecord("profiler.profile_all", bool, False, "Profile all that the profiler can see."),
    OptionRecord("profiler.profile_symbolic", bool, True, "Profile functions (as profile_imperative)."),
    OptionRecord("profiler.profile_imperative", bool, True, "Profile functions that engines and dispatch run."),
    OptionRecord("profiler.profile_memory", bool, True, "Profile buffers that storage managers hand out."),
    OptionRecord("profiler.profile_api", bool, True, "Profile waits for the engine."),
    OptionRecord("profiler.continuous_dump", bool, False, "Write the timeline again and again, and at exit."),
    OptionRecord("profiler.dump_period", float, 1.0, "Seconds between continuous dumps."),
    OptionRecord("profiler.aggregate_stats", bool, True, "Accepted for MXNet's sake: statistics are always there."),
    OptionRecord("profiler.max_events", int, 1_000_000, "Events that the profiler keeps; it drops later ones."),
)

_ENGINES = {
    "NaiveEngine": "naive",
    "ThreadedEngine": "threaded",
    "ThreadedEnginePerDevice": "threaded_per_device",
}
_POOLS = {"Naive": "naive", "Round": "round", "Unpooled": "unpooled"}

#: MXNet's environment names: option, and how MXNet's values are spelled here (None: as they are).
MXNET_NAMES: dict[str, tuple[str, dict[str, str] | None]] = {
    "MXNET_ENGINE_TYPE": ("engine", _ENGINES),
    "MXNET_CPU_MEM_POOL_TYPE": ("storage.cpu", _POOLS),
    "MXNET_CPU_PINNED_MEM_POOL_TYPE": ("storage.cpu_pinned", _POOLS),
    "MXNET_GPU_MEM_POOL_TYPE": ("storage.gpu", _POOLS),
    "MXNET_CPU_WORKER_NTHREADS": ("engine.workers", None),
    "MXNET_CPU_PRIORITY_NTHREADS": ("engine.priority_workers", None),
    "MXNET_GPU_WORKER_NTHREADS": ("engine.gpu_workers", None),
    "MXNET_GPU_COPY_NTHREADS": ("engine.copy_workers", None),
    "MXNET_MP_WORKER_NTHREADS": ("engine.child_workers", None),
    "MXNET_OMP_MAX_THREADS": ("engine.compute_threads", None),
    "MXNET_GPU_MEM_POOL_RESERVE": ("pool.reserve", None),
    "MXNET_GPU_MEM_POOL_PAGE_SIZE": ("pool.page_size", None),
    "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE": ("pool.large_round", None),
    "MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF": ("pool.round_linear_cutoff", None),
    "MXNET_PROFILER_AUTOSTART": ("profiler.autostart", None),
}

#: Variables with our prefix that are not options.
NOT_OPTIONS = frozenset({"MXCORE_CONFIG"})


def environment_name(option: str) -> str:
    """The variable of an option.

    Examples
    --------
    >>> environment_name("engine"), environment_name("engine.workers")
    ('MXCORE_ENGINE', 'MXCORE_ENGINE__WORKERS')
    """
    return "MXCORE_" + option.upper().replace(".", "__")


def option_name(variable: str) -> str:
    """The option of a variable with our prefix; the inverse of :func:`environment_name`."""
    return variable.removeprefix("MXCORE_").lower().replace("__", ".")
