"""The bound Runtime: the engine, storage managers and op libraries in use, as plain objects.

There is one Runtime per process, made at the first array operation. Choosing a backend (:class:`use`) makes a new
one; whoever resolved something from the old one (fast paths) is told through :func:`on_change`. Swapping drains the
old engine. Nothing here is on the hot path: calls go to the objects that are bound.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..engine import process
from ..instruments import instruments
from ..registry import process_registry
from ..spec import BackendError, ConfigError, EngineCapability


class Runtime:
    """What calls go to.

    Attributes
    ----------
    engine : Engine
    inline : bool
        Kernels run in the caller: the engine has :attr:`EngineCapability.INLINE`.
    first : bool
        Kernels run in the caller where nothing is pending: :attr:`EngineCapability.INLINE_FIRST`.
    choices : dict
        Part (``"engine"``, ``"ops.cpu"``, ...) -> :class:`mxcore.registry.Resolved`, which says who chose it; or a
        string for an object that was handed over.
    """

    __slots__ = ("_libraries", "_names", "_storages", "choices", "engine", "first", "inline")

    def __init__(self, engine: Any, storages: dict[str, Any], libraries: dict[str, Any], names: dict[str, Any]) -> None:
        self.engine = engine
        self.inline = EngineCapability.INLINE in engine.capabilities
        self.first = EngineCapability.INLINE_FIRST in engine.capabilities
        self.choices: dict[str, Any] = {}
        self._storages = storages
        self._libraries = libraries
        self._names = names

    def library(self, ctx: Any) -> Any:
        """Return the op library that serves the device type of ``ctx``.

        Raises
        ------
        BackendError
            Saying what serves this device type and why it does not here.
        """
        try:
            return self._libraries[ctx.device_type]
        except KeyError:
            return self._make("ops", ctx.device_type, self._libraries)

    def storage(self, ctx: Any) -> Any:
        """Return the storage manager of the device type of ``ctx``."""
        try:
            return self._storages[ctx.device_type]
        except KeyError:
            return self._make("storage", ctx.device_type, self._storages)

    def _make(self, kind: str, device_type: str, table: dict[str, Any]) -> Any:
        with _lock:
            if device_type not in table:
                wanted = self._names.get(kind)
                name = wanted.get(device_type) if isinstance(wanted, Mapping) else wanted
                made = _create(kind, name, self.choices, device_type)
                # One object serves all its device types: arrays of cpu and cpu_pinned then share kernels.
                for other in table.values():
                    if type(other) is type(made) and getattr(other, "name", None) == made.name:
                        made = other
                        break
                table[device_type] = made
                if kind == "ops":
                    attach(made, self.engine)
            return table[device_type]


def attach(library: Any, engine: Any) -> None:
    """Tell a library that shares large kernels out between threads whose threads those are."""
    scheduled_by = getattr(library, "scheduled_by", None)
    if scheduled_by is not None:
        scheduled_by(engine)


#: What an object handed to :class:`use` must have at least.
_NEEDS = {
    "engine": ("name", "capabilities", "push", "new_variable", "wait_for_variable", "wait_for_all"),
    "storage": ("name", "capabilities", "alloc", "free", "statistics"),
    "ops": ("name", "xp", "array_type", "kernel", "from_host", "to_host", "assign"),
}


def _create(kind: str, name: Any, choices: dict[str, Any], device_type: str | None = None) -> Any:
    part = kind if device_type is None else f"{kind}.{device_type}"
    if name is not None and not isinstance(name, str | list | tuple):
        lacking = [a for a in _NEEDS[kind] if not hasattr(name, a)]
        if lacking:
            raise ConfigError(
                f"mx.use: {kind}={name!r} is neither a name nor a backend object: it lacks {', '.join(lacking)} of the "
                f"contract in mxcore.spec.",
                kind=kind,
            )
        choices[part] = "object"
        return name
    registry = process_registry()
    serves = device_type
    origin = "mx.use" if name is not None else None
    made = registry.create(kind, name, device_type=serves, origin=origin)
    choices[part] = registry.resolve(kind, name, device_type=serves, origin=origin)
    return made


_lock = threading.RLock()
_current: Runtime | None = None
_listeners: list[Callable[[Runtime], None]] = []


def on_change(listener: Callable[[Runtime], None]) -> None:
    """Call ``listener(runtime)`` whenever a new Runtime is bound, and now if there is one."""
    _listeners.append(listener)
    if _current is not None:
        listener(_current)


def _rebind() -> None:
    """Resolve the fast paths anew: somebody begins or ceases to listen to the instruments."""
    with _lock:
        if _current is not None:
            for listener in _listeners:
                listener(_current)


instruments.watch("begin", _rebind)


def current() -> Runtime:
    """Return the Runtime, making it at first use."""
    return _current if _current is not None else _first()


def _first() -> Runtime:
    with _lock:
        if _current is None:
            _bind(_build(None, {}))
        return _current  # type: ignore[return-value]


def _build(old: Runtime | None, names: dict[str, Any]) -> Runtime:
    """Make a Runtime with the parts in ``names`` new and the others from ``old``. Binds nothing."""
    choices: dict[str, Any] = dict(old.choices) if old else {}
    if names.get("engine") is not None or old is None:
        engine = _create("engine", names.get("engine"), choices)
    else:
        engine = old.engine
    keep_ops = old is not None and names.get("ops") is None
    keep_storage = old is not None and names.get("storage") is None
    merged = {**(old._names if old else {}), **{k: v for k, v in names.items() if v is not None}}
    new = Runtime(
        engine,
        dict(old._storages) if keep_storage and old else {},
        dict(old._libraries) if keep_ops and old else {},
        merged,
    )
    new.choices = choices
    # Ask for what was named now, so that a backend that cannot be used is an error here and not at some later call.
    for kind, make in (("ops", new.library), ("storage", new.storage)):
        wanted = names.get(kind)
        for device_type in wanted if isinstance(wanted, Mapping) else ["cpu"] if wanted is not None else []:
            make(_Device(device_type))
    cpu = _Device("cpu")
    new.library(cpu)
    new.storage(cpu)
    return new


class _Device:
    def __init__(self, device_type: str) -> None:
        self.device_type = device_type


def _bind(new: Runtime) -> None:
    global _current
    with _lock:
        old = _current
        if old is not None and old.engine is not new.engine:
            # Drain it; what failed stays failed, and is raised to whoever reads it, not here.
            old.engine.stop()
            old.engine.start()
        _current = new
        for library in new._libraries.values():
            attach(library, new.engine)
        for listener in _listeners:
            listener(new)


class use:
    """Choose backends: ``mx.use(engine="naive")`` from now on, or for the length of a ``with`` block.

    The choice is the process's, not the thread's: arrays are ordered by one engine at a time. Pending work of the
    engine in use is finished first (this blocks). Nothing changes if a backend cannot be used.

    Parameters
    ----------
    engine : str, list of str, or Engine
        A name, names in order of preference (falling back is allowed only in a list, and warns), or an object.
    storage, ops : str, list, object, or mapping of device type to one of those
        ``{"cpu": "round"}``.

    Raises
    ------
    BackendError
        Saying why a backend cannot be used and what to do.

    Examples
    --------
    >>> import mxcore as mx
    >>> with mx.use(engine="naive", ops={"cpu": "numpy"}):
    ...     (mx.nd.ones(2) + 1).asnumpy().tolist()
    [2.0, 2.0]
    """

    def __init__(self, *, engine: Any = None, storage: Any = None, ops: Any = None) -> None:
        if engine is None and storage is None and ops is None:
            raise ConfigError("mx.use: name what to use: engine=, storage= or ops=.")
        with _lock:
            self._before = _current  # None: the defaults, which are not made for nothing
            _bind(_build(self._before, {"engine": engine, "storage": storage, "ops": ops}))

    def __enter__(self) -> Runtime:
        return current()

    def __exit__(self, *exc: Any) -> None:
        with _lock:
            _bind(self._before if self._before is not None else _build(None, {}))


def device_count(device_type: str) -> int:
    """How many devices of a type there are; 0 where no installed op library serves it."""
    try:
        library = current().library(_Device(device_type))
    except BackendError:
        return 0
    return library.device_count(device_type)


def memory_info(ctx: Any) -> tuple[int, int]:
    """Return free and total bytes of a device, from its op library."""
    return current().library(ctx).memory_info(ctx.device_id)


process.provide(lambda: current().engine)


@atexit.register
def _shutdown() -> None:
    if _current is not None:
        _current.engine.shutdown()
        process_registry().shutdown()
