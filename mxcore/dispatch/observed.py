"""Calls that run in the caller, told to the instruments as the engine tells of its own. Only used while somebody listens.

An array is known by a number that its cell keeps, and that the cell's engine variable shares, so that what an engine
tells of and what is told here fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..instruments import identity, instruments
from .array import cell_of

__all__ = ["Call", "begun"]


def _number(cell: Any) -> int:
    number: int = getattr(cell, "number", 0)
    if not number:
        number = cell.number = identity()
    if cell.var is not None and hasattr(cell.var, "mark"):
        cell.var.mark = number
    return number


class Call:
    """A call that is being told of."""

    __slots__ = ("_ctx", "_name", "_outputs", "_task")

    def __init__(self, name: str, ctx: Any, task: int, outputs: tuple[int, ...]) -> None:
        self._name = name
        self._ctx = ctx
        self._task = task
        self._outputs = outputs

    def ended(self, ys: Sequence[Any], error: BaseException | None = None) -> None:
        """Tell that it ended, with these outputs."""
        for y, number in zip(ys, self._outputs):
            cell_of(y).number = number
        instruments.emit("end", self._task, self._name, self._ctx, error)


def begun(name: str, ctx: Any, inputs: Sequence[Any], outs: Sequence[Any] | None, outputs: int) -> Call:
    """Tell that a call begins in this thread.

    Parameters
    ----------
    outs : sequence of Array or None
        What it overwrites; None: it makes ``outputs`` new arrays.
    """
    task = identity()
    reads = tuple(_number(cell_of(x)) for x in inputs if x is not None)
    if outs is None:
        fresh = tuple(identity() for _ in range(outputs))
        writes = fresh
    else:
        fresh, writes = (), tuple(_number(cell_of(y)) for y in outs)
    instruments.emit("push", task, name, 0, ctx, reads, writes)
    instruments.emit("begin", task, name, ctx)
    return Call(name, ctx, task, fresh)
