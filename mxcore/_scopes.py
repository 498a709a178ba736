"""``ScopeType``: the type of scope classes whose ``current`` is this thread's scope, to be read and to be set."""

from __future__ import annotations

import threading
from typing import Any


class ScopeType(type):
    """Metaclass that gives a class and its subclasses one ``current`` per thread.

    A thread starts with an instance made without arguments of the class that names this metaclass.
    ``_current.value`` is the same scope, under the name by which MXNet's own code reaches it.
    """

    _current: threading.local
    _first: ScopeType

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        if not any(isinstance(base, ScopeType) for base in bases):
            cls._current = threading.local()
            cls._first = cls

    @property
    def current(cls) -> Any:
        """This thread's scope."""
        found = getattr(cls._current, "value", None)
        if found is None:
            found = cls._current.value = cls._first()
        return found

    @current.setter
    def current(cls, scope: Any) -> None:
        cls._current.value = scope
