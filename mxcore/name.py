"""Automatic names: ``NameManager`` numbers them per hint, ``Prefix`` puts a prefix before each. Thread-local."""

from __future__ import annotations

from typing import Any

from ._scopes import ScopeType


class NameManager(metaclass=ScopeType):
    """Gives names to objects that were not named; a context manager.

    ``NameManager.current`` is this thread's manager; it may be set.

    Examples
    --------
    >>> import mxcore as mx
    >>> with mx.name.NameManager() as names:
    ...     names.get(None, "fc"), names.get(None, "fc"), names.get("mine", "fc")
    ('fc0', 'fc1', 'mine')
    """

    def __init__(self) -> None:
        self._counter: dict[str, int] = {}
        self._old: list[Any] = []

    def get(self, name: str | None, hint: str) -> str:
        """Return ``name``, or the next name for ``hint``."""
        if name:
            return name
        n = self._counter.get(hint, 0)
        self._counter[hint] = n + 1
        return f"{hint}{n}"

    def __enter__(self) -> NameManager:
        self._old.append(NameManager.current)
        NameManager.current = self
        return self

    def __exit__(self, *exc: Any) -> None:
        NameManager.current = self._old.pop()


class Prefix(NameManager):
    """A name manager that puts ``prefix`` before every name, given ones too."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """Return the prefixed name."""
        return self._prefix + super().get(name, hint)


def current() -> NameManager:
    """Return this thread's current name manager."""
    return NameManager.current
