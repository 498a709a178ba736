"""What the array front end runs itself, told to the instruments as dispatch tells of operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..dispatch.observed import begun


@contextmanager
def told(name: str, ctx: Any) -> Iterator[None]:
    """Tell that ``name`` runs on ``ctx`` for the length of the block. Only used while somebody listens."""
    error: BaseException | None = None
    call = begun(name, ctx, (), (), 0)
    try:
        yield
    except BaseException as e:
        error = e
        raise
    finally:
        call.ended((), error)
