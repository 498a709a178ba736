"""The bound Runtime: the engine, storage manager and op libraries in use, as plain objects.

There is one Runtime per process, made at the first array operation. Choosing a backend makes a new one; whoever
resolved something from the old one (fast paths) is told through :func:`on_change`. Swapping drains the old engine.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any

from ..spec import BackendUnavailable, EngineCapability


class Runtime:
    """What calls go to. Immutable once made, but for op libraries of further device types.

    Attributes
    ----------
    engine : Engine
    storage : StorageManager
    inline : bool
        Kernels run in the caller: the engine has :attr:`EngineCapability.INLINE`.
    """

    __slots__ = ("_libraries", "engine", "inline", "names", "storage")

    def __init__(self, engine: Any, storage: Any, libraries: dict[str, Any], names: dict[str, Any]) -> None:
        self.engine = engine
        self.storage = storage
        self.inline = EngineCapability.INLINE in engine.capabilities
        self._libraries = libraries
        self.names = names

    def library(self, ctx: Any) -> Any:
        """Return the op library that serves the device type of ``ctx``.

        Raises
        ------
        BackendUnavailable, BackendNotInstalled
            Saying what serves this device type and why it does not here.
        """
        try:
            return self._libraries[ctx.device_type]
        except KeyError:
            library = _provider.library(ctx.device_type, self.names.get("ops"))
            self._libraries[ctx.device_type] = library
            return library


class Provider:
    """Where backends come from; the plug board in a real process, something smaller in a test."""

    def engine(self, name: Any) -> Any:
        """Return a new engine by name (None: the default)."""
        raise NotImplementedError

    def storage(self, name: Any) -> Any:
        """Return a new storage manager by name (None: the default)."""
        raise NotImplementedError

    def library(self, device_type: str, names: Any) -> Any:
        """Return the op library for a device type."""
        raise NotImplementedError


class _BuiltIns(Provider):
    def engine(self, name: Any) -> Any:
        from ..engine.naive import NaiveEngine

        return NaiveEngine()

    def storage(self, name: Any) -> Any:
        from ..storage.direct import DirectStorage

        return DirectStorage()

    def library(self, device_type: str, names: Any) -> Any:
        from ..oplib.numpy_library import NumpyLibrary

        if device_type in NumpyLibrary.device_types:
            return NumpyLibrary()
        raise BackendUnavailable(
            f"no installed op library serves device type '{device_type}'. Install one with: pip install mxcore-ops-cupy",
            kind="ops",
            name=device_type,
        )


_provider: Provider = _BuiltIns()
_lock = threading.RLock()
_current: Runtime | None = None
_listeners: list[Callable[[Runtime], None]] = []


def on_change(listener: Callable[[Runtime], None]) -> None:
    """Call ``listener(runtime)`` whenever a new Runtime is bound, and now if there is one."""
    _listeners.append(listener)
    if _current is not None:
        listener(_current)


def current() -> Runtime:
    """Return the Runtime, making it at first use."""
    return _current if _current is not None else _first()


def _first() -> Runtime:
    with _lock:
        if _current is None:
            bind()
        return _current  # type: ignore[return-value]


def bind(engine: Any = None, storage: Any = None, libraries: dict[str, Any] | None = None, ops: Any = None) -> Runtime:
    """Bind a new Runtime from backend objects; parts left out come from the provider.

    Blocks until the old engine has finished its work.
    """
    global _current
    with _lock:
        old = _current
        if old is not None:
            old.engine.wait_for_all()
        new = Runtime(
            engine if engine is not None else old.engine if old else _provider.engine(None),
            storage if storage is not None else old.storage if old else _provider.storage(None),
            libraries if libraries is not None else dict(old._libraries) if old else {},
            {"ops": ops},
        )
        _current = new
        for listener in _listeners:
            listener(new)
        return new


def device_count(device_type: str) -> int:
    """How many devices of a type there are; 0 where nothing serves it."""
    try:
        library = current()._libraries.get(device_type) or _provider.library(device_type, None)
    except Exception:
        return 0
    return library.device_count(device_type)


def memory_info(ctx: Any) -> tuple[int, int]:
    """Return free and total bytes of a device, from its op library."""
    library = current().library(ctx)
    return library.memory_info(ctx.device_id)


@atexit.register
def _shutdown() -> None:
    if _current is not None:
        _current.engine.shutdown()
