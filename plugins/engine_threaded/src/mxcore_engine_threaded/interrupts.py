"""Ctrl-C that never strikes in the middle of the engine's own lines.

Python raises KeyboardInterrupt between any two instructions of the main thread. Inside the engine that would leave a
variable half granted. The handler installed here looks at the stack that was interrupted: in the engine's own code
it comes back a millisecond later; in a function that the engine calls, in its sleep, or anywhere else it raises as ever.
(trio protects its scheduler in the same way.) It replaces only Python's default handler.

Functions are marked by decorators: :func:`guarded` classes and modules are the engine's own lines, :func:`free`
functions are where an interrupt may come out.
"""

from __future__ import annotations

import inspect
import signal
import threading
import time
from types import CodeType, FrameType, ModuleType
from typing import Any, TypeVar

__all__ = ["call", "free", "guard", "install", "uninstall"]

_F = TypeVar("_F")
#: By identity: comparing code objects looks at all that is in them.
_GUARDED: dict[int, CodeType] = {}
_FREE: dict[int, CodeType] = {}
_AGAIN_S = 0.001

_installed = 0


def free(function: _F) -> _F:
    """Mark a function in which an interrupt may come out, whoever called it."""
    code = function.__code__  # type: ignore[attr-defined]
    _FREE[id(code)] = code
    return function


@free
def call(fn: Any, *arguments: Any) -> None:
    """Call a user's function: where an interrupt may come out while the engine is at work."""
    fn(*arguments)


def guard(holder: type | ModuleType) -> Any:
    """Mark all functions of a class or module, but the free ones, as the engine's own lines."""
    for item in vars(holder).values():
        if isinstance(item, property):
            item = item.fget
        if isinstance(item, staticmethod | classmethod):
            item = item.__func__
        item = (
            inspect.unwrap(item) if inspect.isfunction(item) else item
        )  # the lines of a context manager, not its maker
        if inspect.isfunction(item) and id(item.__code__) not in _FREE:
            _add(item.__code__)
        elif inspect.isclass(item) and isinstance(holder, ModuleType) and item.__module__ == holder.__name__:
            guard(item)
    return holder


def _add(code: CodeType) -> None:
    """Guard a function's code, and that of the functions inside it."""
    _GUARDED[id(code)] = code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add(constant)


def _inside(frame: FrameType | None) -> bool:
    """Whether the innermost marked frame of a stack is the engine's own."""
    while frame is not None:
        code = id(frame.f_code)
        if code in _FREE:
            return False
        if code in _GUARDED:
            return True
        frame = frame.f_back
    return False


def _again() -> None:
    time.sleep(_AGAIN_S)
    if _installed:
        signal.raise_signal(signal.SIGINT)


def _handler(number: int, frame: FrameType | None) -> Any:
    if _inside(frame):
        threading.Thread(target=_again, name="mxcore-interrupt", daemon=True).start()
        return None
    return signal.default_int_handler(number, frame)


def install() -> None:
    """Take the place of Python's default handler, if it is in place and this is the main thread. Counts."""
    global _installed
    _installed += 1
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _handler)


def uninstall() -> None:
    """Undo one :func:`install`; the last one puts Python's handler back."""
    global _installed
    _installed -= 1
    if (
        _installed == 0
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is _handler
    ):
        signal.signal(signal.SIGINT, signal.default_int_handler)
