"""Calls that run in the caller, told to the instruments as the engine tells of its own.

Arrays are known by their cells, which views share. Only used while somebody listens.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..instruments import instruments
from .array import cell_of

# Engines number upwards from 1; these downwards, so that the two never meet.
_numbers = itertools.count(-1, -1).__next__


def begun(name: str, ctx: Any, inputs: Sequence[Any], outs: Sequence[Any] | None) -> int:
    """Tell that a call begins in this thread; return its number."""
    number = _numbers()
    reads = tuple(id(cell_of(x)) for x in inputs if x is not None)
    instruments.emit("push", number, name, 0, ctx, reads, tuple(id(cell_of(y)) for y in outs or ()))
    instruments.emit("begin", number, name, ctx)
    return number


def ended(number: int, name: str, ctx: Any, error: BaseException | None) -> None:
    """Tell that it ended."""
    instruments.emit("end", number, name, ctx, error)
