"""``mx.util``: the NumPy-semantics switches and small helpers that MXNet code imports from here.

Arrays without axes and the ``mx.np`` front end are not part of this version, so the switches are off and turning
them on is an error that says so; asking is always allowed.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from .context import num_gpus
from .spec.errors import MXCoreError


class _NumpyArrayScope:
    """Scope of :func:`np_array`. It can be made either way, but entered only with ``is_np_array=False``.

    ``_current.value`` is this thread's scope, if it has entered one.
    """

    _current: Any = threading.local()

    def __init__(self, is_np_array: bool) -> None:
        self._is_np_array = is_np_array
        self._old: list[_NumpyArrayScope] = []

    def __enter__(self) -> _NumpyArrayScope:
        if self._is_np_array:
            raise _refusal("np_array")
        self._old.append(getattr(_NumpyArrayScope._current, "value", None) or _NumpyArrayScope(False))
        _NumpyArrayScope._current.value = self
        return self

    def __exit__(self, *exc: Any) -> None:
        _NumpyArrayScope._current.value = self._old.pop()


def _refusal(what: str) -> MXCoreError:
    return MXCoreError(
        f"NumPy semantics ({what}) are not part of this version of mxcore. Use mx.nd arrays, which have the same "
        "operators under MXNet 1.x names."
    )


def is_np_shape() -> bool:
    """Whether arrays without axes are allowed; False in this version."""
    return False


def is_np_array() -> bool:
    """Whether Gluon makes ``mx.np`` arrays: what this thread's :func:`np_array` scope says, False without one."""
    scope = getattr(_NumpyArrayScope._current, "value", None)
    return bool(scope is not None and scope._is_np_array)


def set_np_shape(active: bool) -> bool:
    """Switch NumPy shape semantics; only off in this version. Returns what it was."""
    if active:
        raise _refusal("set_np_shape")
    return False


@contextmanager
def np_shape(active: bool = True) -> Any:
    """Scope of NumPy shape semantics; only ``active=False`` in this version."""
    set_np_shape(active)
    yield


def np_array(active: bool = True) -> _NumpyArrayScope:
    """Return a scope in which Gluon makes ``mx.np`` arrays; only ``active=False`` can be entered in this version.

    Examples
    --------
    >>> import mxcore as mx
    >>> with mx.np_array(False):
    ...     mx.is_np_array()
    False
    """
    return _NumpyArrayScope(active)


def set_np(shape: bool = True, array: bool = True) -> None:
    """Switch NumPy semantics; only off in this version."""
    if shape or array:
        raise _refusal("set_np")


def reset_np() -> None:
    """Switch NumPy semantics off, which they are."""


def use_np(func: Any) -> Any:
    """Mark a function or class as using NumPy semantics; calling it is refused in this version."""
    name = getattr(func, "__qualname__", repr(func))

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise MXCoreError(f"{name} is marked with use_np, and NumPy semantics are not part of this version of mxcore.")

    return wraps_safely(func)(refuse)


use_np_shape = use_np_array = use_np


def wraps_safely(wrapped: Callable[..., Any]) -> Any:
    """``functools.wraps`` that survives callables without the usual attributes."""
    return functools.wraps(wrapped, [a for a in functools.WRAPPER_ASSIGNMENTS if hasattr(wrapped, a)])


def makedirs(d: str) -> None:
    """Make a folder and its parents; no error if it exists."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def get_gpu_count() -> int:
    """How many GPUs there are."""
    return num_gpus()


def getenv(name: str) -> str | None:
    """Return an environment variable."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def get_max_supported_compute_capability() -> int:
    """Greatest CUDA compute capability; 0 without GPUs."""
    return 0


def set_module(module: str) -> Callable[[Any], Any]:
    """Decorator that sets ``__module__``."""

    def decorate(obj: Any) -> Any:
        obj.__module__ = module
        return obj

    return decorate
