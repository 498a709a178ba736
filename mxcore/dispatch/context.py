"""Contexts: names of devices. ``mx.cpu()``, ``mx.gpu(1)``, ``with mx.Context("cpu", 1): ...``.

Contexts of one device are one object, so identity is equality on the hot path. The current context is
thread-local and starts as ``cpu(0)``. (MXNet 1.9.1 ``python/mxnet/context.py`` for the behaviour.)
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar

_interned: dict[tuple[int, int], Context] = {}


class _State(threading.local):
    # Class attributes: asking an empty threading.local is five times as slow.
    current: Any = None  # cpu(0), once contexts exist
    outer: Any = None


_state = _State()


class _ContextType(type):
    """Type of :class:`Context`, for an attribute of the class that is one per thread."""

    @property
    def default_ctx(cls) -> Context:
        """This thread's current context; setting it lasts until the ``with`` block around it ends."""
        return _state.current

    @default_ctx.setter
    def default_ctx(cls, ctx: Context) -> None:
        if not isinstance(ctx, Context):
            raise TypeError(
                f"Context.default_ctx must be a Context but got {ctx!r}. Make one with mx.cpu() or mx.gpu()."
            )
        _state.current = ctx


class Context(metaclass=_ContextType):
    """A device type and a device id.

    Parameters
    ----------
    device_type : {"cpu", "gpu", "cpu_pinned", "cpu_shared"} or Context
    device_id : int, default 0

    Raises
    ------
    ValueError
        For an unknown device type.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.Context("cpu", 1)
    cpu(1)
    >>> with mx.cpu(2):
    ...     mx.current_context()
    cpu(2)
    """

    __slots__ = ("__weakref__", "device_id", "device_type", "device_typeid")

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}

    device_type: str
    device_id: int
    device_typeid: int

    def __new__(cls, device_type: Any, device_id: int = 0) -> Context:
        if isinstance(device_type, Context):
            return device_type
        number = cls.devstr2type.get(device_type)
        if number is None:
            raise ValueError(
                f"unknown device type {device_type!r}: device types are {', '.join(map(repr, cls.devstr2type))}."
            )
        key = (number, int(device_id))
        found = _interned.get(key)
        if found is None:
            found = object.__new__(cls)
            found.device_type = device_type
            found.device_id = key[1]
            found.device_typeid = number
            found = _interned.setdefault(key, found)
        return found

    def __reduce__(self) -> Any:
        return (Context, (self.device_type, self.device_id))

    def __copy__(self) -> Context:
        return self

    def __deepcopy__(self, memo: Any) -> Context:
        return self

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    __str__ = __repr__

    def __enter__(self) -> Context:
        if _state.outer is None:
            _state.outer = []
        _state.outer.append(_state.current)
        _state.current = self
        return self

    def __exit__(self, *exc: Any) -> None:
        _state.current = _state.outer.pop()

    def empty_cache(self) -> None:
        """Give cached buffers of this device back to the system."""
        from . import runtime

        runtime.current().storage(self).release_all(self)


def cpu(device_id: int = 0) -> Context:
    """Return the CPU context ``device_id`` (ids name the same memory; they keep arrays apart)."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """Return the context of GPU ``device_id``."""
    return Context("gpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Return the context of page-locked CPU memory."""
    return Context("cpu_pinned", device_id)


def current_context() -> Context:
    """Return this thread's current context."""
    return _state.current


_State.current = Context("cpu", 0)
