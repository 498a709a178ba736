"""``mx.engine.bulk`` and ``set_bulk_size``: hints to the engine of the process.

The room above binds the engine; it tells this one where to find it, so that imports keep going one way.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

_find: list[Callable[[], Any]] = []


class _Sizes(threading.local):
    size = 0


_sizes = _Sizes()


def provide(find: Callable[[], Any]) -> None:
    """Say how the engine of the process is found."""
    _find[:] = [find]


def _engine() -> Any:
    if not _find:
        # Named, not imported: the room above brings itself in, and nobody asked for it yet.
        importlib.import_module("mxcore.dispatch.runtime")
    return _find[0]()


def bulk(size: int) -> AbstractContextManager[None]:
    """Return a scope in which up to ``size`` pushes may be grouped into one; never changes results.

    Examples
    --------
    >>> import mxcore as mx
    >>> with mx.engine.bulk(10):
    ...     x = mx.nd.ones(2) + 1
    """
    return _engine().bulk(size)


def set_bulk_size(size: int) -> int:
    """Make ``size`` this thread's grouping hint outside any :func:`bulk` scope; return what it was.

    An engine that has nothing to group (NaiveEngine runs every push at once) ignores it.
    """
    before, _sizes.size = _sizes.size, int(size)
    take = getattr(_engine(), "set_bulk_size", None)
    if take is not None:
        take(int(size))
    return before


def explain() -> str:
    """Return what the engine of the process predicted, what happened, and why each function ran where it did.

    Covers what was timed since the last call. Never blocks.

    Examples
    --------
    >>> import mxcore as mx
    >>> with mx.use(engine="naive"):
    ...     print(mx.engine.explain())
    engine 'naive' runs every function at its push, in the thread that pushes it: there is nothing to predict
    """
    engine = _engine()
    told = getattr(engine, "explain", None)
    if told is None:
        return (
            f"engine '{engine.name}' runs every function at its push, in the thread that pushes it: "
            "there is nothing to predict"
        )
    text: str = told()
    return text
