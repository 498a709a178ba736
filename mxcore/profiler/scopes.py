"""Scopes: a prefix for the names of what is pushed inside a ``with`` block, and the category it is counted under."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar, Token
from typing import Any

#: The scope that MXNet gives to what is in none; nothing is appended to it.
_UNNAMED = "<unk>:"

#: Prefix of the names pushed in this context; empty outside scopes.
current: ContextVar[str] = ContextVar("mxcore.profiler.scope", default="")

#: Category of functions outside custom operators, and MXNet's name for those inside.
OPERATOR, CUSTOM = "operator", "Custom Operator"

#: Category of what is pushed in this context.
category: ContextVar[str] = ContextVar("mxcore.profiler.category", default=OPERATOR)


class Scope:
    """Prefix the names of functions pushed inside the block; a context manager, per thread or task, reusable.

    Parameters
    ----------
    name : str
        The prefix, separator included.
    append_mode : bool
        Put it behind the prefix of the scope around this one (otherwise it stands alone).

    Examples
    --------
    >>> with Scope("encoder:"):
    ...     with Scope("layer0:"):
    ...         current.get()
    ...     with Scope("loss:", append_mode=False):
    ...         current.get()
    'encoder:layer0:'
    'loss:'
    """

    def __init__(self, name: str = _UNNAMED, append_mode: bool = True) -> None:
        self.name = name
        self.append_mode = append_mode
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> Scope:
        outer = current.get() if self.append_mode else ""
        self._tokens.append(current.set(self.name if outer == _UNNAMED else outer + self.name))
        return self

    def __exit__(self, *exc: Any) -> None:
        current.reset(self._tokens.pop())


#: The name under which MXNet has it.
scope = Scope


@contextlib.contextmanager
def counted_as(name: str) -> Iterator[None]:
    """Give what is pushed inside the category ``name``.

    Examples
    --------
    >>> with counted_as(CUSTOM):
    ...     category.get()
    'Custom Operator'
    """
    token = category.set(name)
    try:
        yield
    finally:
        category.reset(token)
