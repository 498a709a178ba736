"""``AttrScope``: attributes given to every symbol made inside. Thread-local."""

from __future__ import annotations

from typing import Any

from ._scopes import ScopeType


class AttrScope(metaclass=ScopeType):
    """Attributes for symbols made inside ``with AttrScope(ctx_group="dev1"):``; a context manager.

    ``AttrScope.current`` is this thread's scope; it may be set.

    Raises
    ------
    ValueError
        If a value is not a string.

    Examples
    --------
    >>> import mxcore as mx
    >>> with mx.AttrScope(__group__="4") as scope:
    ...     scope.get({"a": "b"}) == {"__group__": "4", "a": "b"}
    True
    """

    def __init__(self, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"attributes must be strings, but {name}={value!r}.")
        self._attr = kwargs
        self._old: list[Any] = []

    def get(self, attr: dict[str, str] | None) -> dict[str, str]:
        """Return ``attr`` with this scope's attributes added; those given win."""
        merged = dict(self._attr)
        if attr:
            merged.update(attr)
        return merged

    def __enter__(self) -> AttrScope:
        old = AttrScope.current
        self._old.append((old, self._attr))
        self._attr = {**old._attr, **self._attr}
        AttrScope.current = self
        return self

    def __exit__(self, *exc: Any) -> None:
        AttrScope.current, self._attr = self._old.pop()


def current() -> AttrScope:
    """Return this thread's current scope."""
    return AttrScope.current
