"""Calls that the caller does not run itself: handed to the engine, or failed without raising.

With an engine that runs everything at its push (``INLINE``) nothing here is used. With an ``INLINE_FIRST`` engine the
caller runs a call itself when nothing that it touches is pending (:func:`runs_here`), and an array that was never handed
over has no engine variable at all. Any other engine gets every call.

Errors of kernels surface where a value is asked for, whoever ran the kernel; shapes and dtypes are checked at the call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ..engine.dependency import FAILED
from ..instruments import instruments
from ..operators import Spec
from ..spec import MXCoreError
from . import runtime
from .array import Cell, cell_of, settled, wrap, writable_data
from .context import Context
from .faults import failed
from .recording import Output, new_node
from .writes import touched

__all__ = [
    "NEVER_MEASURED",
    "WORTH_NS",
    "Promised",
    "fail_call",
    "mutate",
    "push_call",
    "runs_here",
    "store",
    "tied",
    "variable_of",
]

#: Less than this is not worth the way to another thread and back.
WORTH_NS = 160_000


class _NeverMeasured:
    ns = 0


#: The estimate of what nobody has measured.
NEVER_MEASURED = _NeverMeasured()


def store(library: Any, y: Any, value: Any) -> None:
    """Write a raw result into the array ``y``."""
    y._data = library.assign(writable_data(y, library), ..., value)


def variable_of(x: Any, engine: Any) -> Any:
    """Return the engine variable of ``x``, making it if needed; one engine's variables never mix with another's."""
    cell = cell_of(x)
    if cell.var is None or cell.engine is not engine:
        failure = None
        if cell.var is not None:
            with contextlib.suppress(Exception):  # what failed stays failed, under the new engine too
                cell.engine.wait_for_variable(cell.var)
            failure = getattr(cell.var, "failure", None)
        cell.engine = engine
        cell.var = engine.new_variable()
        if failure is not None:
            cell.var.failure = failure
            cell.var.flags |= FAILED
        if instruments.push and hasattr(cell, "number"):
            cell.var.mark = cell.number
    return cell.var


def pending(cls: type, spec: Spec, ctx: Context, engine: Any) -> Any:
    """Return an array whose data the engine still owes."""
    y = wrap(cls, None, ctx)
    cell = y._cell = Cell()
    cell.shape, cell.dtype = tuple(spec.shape), spec.dtype
    cell.engine = engine
    cell.var = engine.new_variable()
    return y


def tied(x: Any) -> bool:
    """Whether the engine knows ``x``: only then can anything be pending on it."""
    cell = x._cell
    return cell is not None and cell.var is not None


def runs_here(engine: Any, inputs: Sequence[Any], written: Sequence[Any], estimate: Any) -> bool:
    """Whether the caller should run a call itself, with an INLINE_FIRST engine. May block.

    Where something is pending, a call that is known to be cheap waits for it: less work than handing it over and waking a
    thread. Everything else is pushed behind it.

    Parameters
    ----------
    inputs, written : sequences of Array or None
        What it reads, and what it writes beyond new arrays.
    """
    known = False
    busy: list[Any] = []
    for x in inputs:
        if x is not None:
            cell = x._cell
            if cell is not None and cell.var is not None:
                known = True
                if cell.var.flags or cell.engine is not engine:
                    busy.append(cell)
    for x in written:
        if x is not None:
            cell = x._cell
            if cell is not None and cell.var is not None:
                known = True
                if cell.var.readers:
                    return False
                if cell.var.flags or cell.engine is not engine:
                    busy.append(cell)
    if not known:
        return True
    engine.here()
    if engine.crowded:
        return False
    if not busy:
        return True
    if not 0 < estimate.ns < WORTH_NS or any(cell.engine is not engine or cell.var.error is not None for cell in busy):
        return False
    engine.settle([cell.var for cell in busy])
    return not any(cell.var.flags or cell.var.readers for cell in busy)


def _written(bound: Any, inputs: Sequence[Any]) -> list[Any]:
    return [inputs[p] for p in bound.operator.written(bound.attributes, len(inputs)) if inputs[p] is not None]


def fail_call(
    now: Any, bound: Any, inputs: Sequence[Any], specs: Any, outs: Any, cls: Any, ctx: Any, recording: bool, error: Any
) -> Any:
    """Return the outputs of a call whose kernel failed in the caller: failed arrays, which raise when they are read."""
    engine = now.engine
    ys = outs if outs is not None else [pending(cls, s, ctx, engine) for s in specs[: bound.visible]]
    engine.fail([variable_of(y, engine) for y in [*ys, *_written(bound, inputs)]], error, bound.operator.name)
    if recording:
        _record(bound, inputs, ys, [None] * bound.outputs)
    return ys[0] if bound.visible == 1 else ys


def push_call(
    now: Any,
    bound: Any,
    inputs: Sequence[Any],
    extra: Any,
    specs: Any,
    outs: Any,
    cls: Any,
    ctx: Context,
    recording: bool,
    hints: dict[str, Any],
) -> Any:
    """Hand a call to the engine; return its outputs, whose data are still to come.

    Parameters
    ----------
    specs : tuple of Spec or None
        None: the shape depends on values. There is nothing to promise then, and this blocks.
    hints : dict
        Further arguments for ``Engine.push``.
    """
    engine, operator, kernel, library = now.engine, bound.operator, bound.kernel, bound.library
    kw = extra or {}
    if specs is None:
        for x in inputs:
            if x is not None:
                settled(x)
        result = kernel(*[None if x is None else x._data for x in inputs], **kw)
        results = result if bound.outputs > 1 else (result,)
        ys = [wrap(cls, r, ctx) for r in results[: bound.visible]]
        held: Any = results
    else:
        overwrite = outs is not None
        ys = outs if overwrite else [pending(cls, s, ctx, engine) for s in specs[: bound.visible]]
        held = [None] * bound.outputs

        def run() -> None:
            try:
                result = kernel(*[None if x is None else x._data for x in inputs], **kw)
            except MXCoreError:
                raise
            except Exception as e:
                raise failed(bound, inputs, ctx, e) from e
            results = result if bound.outputs > 1 else (result,)
            held[:] = results
            for y, r in zip(ys, results):
                if overwrite:
                    store(library, y, r)
                else:
                    y._data = r

        written = [*ys, *_written(bound, inputs)]
        engine.push(
            run,
            [variable_of(x, engine) for x in inputs if x is not None],
            [variable_of(y, engine) for y in written],
            name=operator.name,
            device=ctx,
            **hints,
        )
        for y in written[0 if overwrite else len(ys) :]:
            touched(y)
    if recording:
        _record(bound, inputs, ys, held)
    return ys[0] if bound.visible == 1 else ys


def _record(bound: Any, inputs: Sequence[Any], ys: list[Any], held: Any) -> None:
    node = new_node(bound, tuple(inputs), Promised(ys, held, bound))
    for i, y in enumerate(ys):
        y._tape = node if bound.outputs == 1 else Output(node, i)
        node.watch(y._cell)


class Promised:
    """Outputs of a pushed call, for its tape node: raw arrays once the engine has made them.

    Holds a list that the task fills, not the arrays themselves, which would be a reference cycle; and their cells, whose
    variables would die with the arrays.

    Attributes
    ----------
    cells : list of Cell
        Of the visible outputs.
    """

    __slots__ = ("bound", "cells", "held")

    def __init__(self, ys: list[Any], held: Any, bound: Any) -> None:
        self.held = held
        self.bound = bound
        self.cells = [y._cell for y in ys]

    def settle(self) -> Any:
        """Wait, then return the raw output, or the tuple of raw outputs."""
        for cell in self.cells:
            cell.engine.wait_for_variable(cell.var)
        return self.value()

    def value(self) -> Any:
        """Return the raw output, or the tuple of raw outputs; without waiting."""
        return tuple(self.held) if self.bound.outputs > 1 else self.held[0]


def mutate(x: Any, fn: Any, reads: Sequence[Any] = (), name: str = "", full: bool = False) -> None:
    """Run ``fn()``, which writes the buffer of ``x``, in order with everything else that touches it.

    Parameters
    ----------
    x : Array
        Mutated; its version rises.
    fn : callable without arguments
        Does the writing, reading ``_data`` of ``x`` and ``reads`` when it runs.
    reads : sequence of Array
    full : bool
        ``fn`` overwrites everything: a failed array is healed by it.
    """
    now = runtime.current()
    if now.inline and not tied(x):
        for y in reads:
            if tied(y):
                settled(y)
        fn()
        touched(x)
        return
    engine = now.engine
    if now.first and runs_here(engine, reads, (x,), NEVER_MEASURED):
        try:
            fn()
        except Exception as e:
            engine.fail([variable_of(x, engine)], e, name)
        touched(x)
        return
    own = variable_of(x, engine)
    sources = [variable_of(y, engine) for y in reads]
    engine.push(fn, sources if full else [own, *sources], [own], name=name, device=x._ctx)
    touched(x)
