"""Backward: walk the recorded nodes from the heads and run each one's pullback.

Nodes are numbered as they are recorded, and a call is numbered after its inputs, so taking the latest node whose
gradient has begun to arrive is a reverse topological order: a heap of started nodes is all the bookkeeping, and a
node's gradient is complete when it leaves the heap. Rules run on raw arrays, or on recorded arrays with
``create_graph``. (The rules are HIPS autograd's idea; there is no recursion, so depth is not limited.)
The loop in :func:`run` treats operators of one and two arrays without building lists; ``benchmarks/hotpath.py``
guards it (bar: a chain of 20 operators on 4x4 arrays, forward and backward, in half of PyTorch's time).
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..dispatch import runtime
from ..dispatch.array import Array, cell_of, dtype_of, settled, shape_of, wrap, writable_data
from ..dispatch.deferred import NEVER_MEASURED, Promised, runs_here, tied
from ..dispatch.faults import AT_THE_CALL
from ..dispatch.functions import call, recorded
from ..dispatch.observed import begun
from ..dispatch.raw import Raw
from ..dispatch.recording import Leaf, Node, Output, set_recording, set_training
from ..dispatch.writes import last_write
from ..instruments import instruments
from ..spec import AutogradError, MXCoreError, OperatorError, ShapeError, StaleValueError
from .owed import Owed, Owing, backward_name, deliver_owed, settled_value

_raw: dict[Any, Raw] = {}


def _count_alone() -> int:
    d = object()
    return sys.getrefcount(d)


#: Gradients of so few numbers are computed where they are wanted, without asking what it costs.
_SMALL = 16384

#: Reference count of an object that only one local name holds, on this interpreter.
_ALONE = _count_alone()


def raw_namespace(library: Any) -> Raw:
    """Return the raw namespace of an op library."""
    found = _raw.get(library)
    if found is None:
        found = _raw[library] = Raw(library)
    return found


def check_fresh(node: Node) -> None:
    """Raise StaleValueError if a value that the node's rule reads was overwritten since it was recorded."""
    inputs, versions = node.inputs, node.versions
    saved, output = node.bound.saved
    for i, x in enumerate(inputs):
        if x is None:
            continue
        cell = x._cell
        if cell is None:
            continue
        before = 0 if versions is None else versions[i]
        if cell.version != before and (saved is None or i in saved) and i not in node.bound.writes:
            operator = node.bound.operator
            name = operator.inputs[min(i, len(operator.inputs) - 1)].name
            raise StaleValueError(
                f"backward of operator '{operator.name}' needs its input '{name}' {shape_of(x)} {dtype_of(x)}, but the "
                f"array was overwritten after it was recorded (version {cell.version}, recorded at {before})"
                f"{_where(cell)}. Overwrite it after backward, or record a copy: x.copy().",
                operator=operator.name,
                input=name,
            )
    if output and node.cells is not None:
        for cell, before in node.cells:
            if cell.version != before:
                raise StaleValueError(
                    f"backward of operator '{node.bound.operator.name}' needs its own output, but that array was "
                    f"overwritten after it was recorded{_where(cell)}. Overwrite it after backward, or work on a copy.",
                    operator=node.bound.operator.name,
                )


def _where(cell: Any) -> str:
    place = last_write(cell)
    return f" by {place}" if place else ""


def run(
    heads: Sequence[Any],
    head_grads: Sequence[Any] | None,
    retain_graph: bool,
    train_mode: bool,
    create_graph: bool = False,
    wanted: Sequence[Any] | None = None,
) -> list[Any]:
    """Run backward from ``heads``.

    Parameters
    ----------
    wanted : sequence of tape entries or None
        Whose gradients are asked for, leaves or not; attached gradient arrays are then left alone.

    Returns
    -------
    list of Leaf
        The leaves reached, each with its gradient in ``g``; or with ``wanted`` the gradients, None where nothing
        arrived. Gradients are raw arrays, or arrays with ``create_graph`` and with a deferred engine; they may share
        memory with each other and with the head gradients.
    """
    now = runtime.current()
    # A deferred engine may still owe values, so rules run on arrays there and are pushed like any other call.
    on_arrays = create_graph or not (now.inline or now.first)
    tapes = []
    seeds = []
    for k, y in enumerate(heads):
        if not isinstance(y, Array):
            raise AutogradError(f"backward: head {k} must be an NDArray but is {type(y).__name__}.")
        tape = y._tape
        if tape is None:
            raise AutogradError(
                f"backward: head {k} {shape_of(y)} is not in the autograd graph. Compute it inside autograd.record() "
                f"from arrays with attach_grad()."
            )
        tapes.append(tape)
        g = head_grads[k] if head_grads is not None else None
        if g is None:
            g = call("ones_like", (y,)) if on_arrays else np_ones_like(now, y)
        else:
            if shape_of(g) != shape_of(y):
                raise ShapeError(
                    f"backward: the head gradient has shape {shape_of(g)} but its head has {shape_of(y)}.",
                    shapes=[shape_of(g), shape_of(y)],
                )
            if not on_arrays:
                g = settled(g)
        seeds.append(g)

    owing = None
    if now.first and not on_arrays:
        owing = Owing(now.engine, _failed, raw_namespace)
    before_recording = set_recording(create_graph)
    before_training = set_training(train_mode)
    heap: list[tuple[int, Node]] = []
    reached: dict[int, Leaf] = {}
    taken: list[Any] = [None] * len(wanted or ())
    quick = not on_arrays and wanted is None and not instruments.begin
    library: Any = None
    F: Any = None

    plus = operator.add if owing is None else owing.plus

    def deposit(t: Any, d: Any) -> None:
        kind = t.__class__
        if kind is Leaf:
            if t.req != "null" or wanted is not None:
                # An interrupt may have left a gradient of an earlier backward there.
                t.g = plus(t.g, d) if id(t) in reached else d
                reached[id(t)] = t
            return
        node = t.node
        if node.g is None:
            if kind is Node:
                node.g = d
            else:
                node.g = [None] * node.bound.outputs
                node.g[t.index] = d
            heappush(heap, (node.order, node))
        elif kind is Node:
            node.g = plus(node.g, d)
        else:
            i = t.index
            node.g[i] = d if node.g[i] is None else plus(node.g[i], d)

    try:
        for tape, g in zip(tapes, seeds):
            deposit(tape, g)
        while heap:
            node = heappop(heap)[1]
            g = node.g
            node.g = None
            inputs = node.inputs
            if inputs is None:
                raise AutogradError(
                    f"the graph of operator '{node.bound.operator.name}' was freed by an earlier backward. Pass "
                    f"retain_graph=True to the first backward to go through it again.",
                    operator=node.bound.operator.name,
                )
            bound = node.bound
            rules = bound.rules
            short = quick and rules is not None and node.out.__class__ is not Promised
            if short and owing is not None:
                if g.__class__ is Owed or (bound.separate and g.size > _SMALL):
                    short = False
                else:
                    for x in inputs:
                        cell = x._cell
                        if cell is not None and cell.var is not None:
                            short = False
            if short:
                if bound.library is not library:
                    library = bound.library
                    F = raw_namespace(library)
                out = node.out
                try:
                    if bound.arity == 1:
                        a = inputs[0]
                        if a._cell is not None or node.cells is not None:
                            check_fresh(node)
                        t = a._tape
                        if t is not None and rules[0] is not None:
                            d = rules[0](F, g, out, a._data)
                            # What follows is deposit(), without the call.
                            if t.__class__ is Node:
                                if t.g is None:
                                    t.g = d
                                    heappush(heap, (t.order, t))
                                else:
                                    t.g = plus(t.g, d)
                            else:
                                deposit(t, d)
                    else:
                        a, b = inputs
                        if a._cell is not None or b._cell is not None or node.cells is not None:
                            check_fresh(node)
                        x, y = a._data, b._data
                        left, right, broadcasts = rules
                        t = a._tape
                        if t is not None and left is not None:
                            d = left(F, g, out, x, y)
                            if broadcasts and d.shape != x.shape:
                                d = F._sum_like(d, x)
                            if t.__class__ is Node:
                                if t.g is None:
                                    t.g = d
                                    heappush(heap, (t.order, t))
                                else:
                                    t.g = plus(t.g, d)
                            else:
                                deposit(t, d)
                        t = b._tape
                        if t is not None and right is not None:
                            d = right(F, g, out, x, y)
                            if broadcasts and d.shape != y.shape:
                                d = F._sum_like(d, y)
                            deposit(t, d)
                except Exception as e:
                    error = e
                    if not isinstance(e, MXCoreError):
                        error = _failed(node, e)
                        error.__cause__ = e
                    if owing is None or isinstance(e, AT_THE_CALL):
                        raise error  # noqa: B904 (chained already)
                    for t, bad in owing.fail(node, error):
                        deposit(t, bad)
                x = y = d = None
            else:
                for i, t in enumerate(wanted or ()):
                    if t.__class__ is not Leaf and t.node is node:
                        taken[i] = g if t is node else g[t.index]
                if node.cells is not None or _any_cell(inputs):
                    check_fresh(node)
                needs = [x is not None and x._tape is not None for x in inputs]
                if on_arrays:
                    ds = _pull_arrays(node, g, inputs, needs)
                elif owing is not None:
                    ds = owing.pull(node, g, needs)
                else:
                    ds = _pull_raw(node, g, inputs, needs)
                for x, need, d in zip(inputs, needs, ds):
                    if need and d is not None:
                        deposit(x._tape, d)
                ds = d = x = None
            g = None
            if not retain_graph:
                node.inputs = None
                node.out = None
        if wanted is not None:
            for i, t in enumerate(wanted):
                if t.__class__ is Leaf:
                    taken[i] = t.g
                taken[i] = settled_value(taken[i])
            for leaf in reached.values():
                leaf.g = None
        elif owing is not None:
            owing.join(reached.values())
    except BaseException:
        for _, node in heap:
            node.g = None
        for leaf in reached.values():
            leaf.g = None
        raise
    finally:
        set_recording(before_recording)
        set_training(before_training)
    return list(reached.values()) if wanted is None else taken


def _failed(node: Node, e: Exception) -> MXCoreError:
    shapes = [None if x is None else shape_of(x) for x in node.inputs]
    name = node.bound.operator.name
    return OperatorError(
        f"backward of operator '{name}' failed for inputs of shapes {shapes}: {e}", operator=name, shapes=shapes
    )


def _any_cell(inputs: Any) -> bool:
    for x in inputs:
        if x is not None and x._cell is not None:
            return True
    return False


def np_ones_like(now: Any, y: Any) -> Any:
    """Return raw ones like ``y``."""
    return now.library(y._ctx).xp.ones_like(settled(y))


def _pull_raw(node: Node, g: Any, inputs: Any, needs: Any) -> Any:
    if instruments.begin:
        told = begun(backward_name(node), None, inputs, (), 0)
        try:
            return _pull_untold(node, g, inputs, needs)
        finally:
            told.ended(())
    return _pull_untold(node, g, inputs, needs)


def _pull_untold(node: Node, g: Any, inputs: Any, needs: Any) -> Any:
    bound = node.bound
    F = raw_namespace(bound.library)
    out = node.out
    if out.__class__ is Promised:
        out = out.settle()
    try:
        return bound.pullback(F, g, tuple([None if x is None else x._data for x in inputs]), out, needs)
    except MXCoreError:
        raise
    except Exception as e:
        raise _failed(node, e) from e


def _pull_arrays(node: Node, g: Any, inputs: Any, needs: Any) -> Any:
    bound = node.bound
    first = next((x for x in inputs if x is not None), None)
    out = node.out
    if out.__class__ is Promised:
        out = out.settle()
    cls = first.__class__ if first is not None else Array
    ctx = first._ctx if first is not None else None
    # Wrap the outputs again as what they were: entries of the graph.
    if bound.outputs == 1:
        y = wrap(cls, out, ctx)
        y._tape = node
    else:
        y = []
        for i, o in enumerate(out):
            w = wrap(cls, o, ctx)
            w._tape = Output(node, i)
            y.append(w)
        y = tuple(y)
    return bound.pullback(recorded, g, inputs, y, needs)


def deliver(leaf: Leaf) -> None:
    """Put the gradient that arrived at ``leaf`` where its ``req`` says. Mutates ``leaf.grad``."""
    d, leaf.g = leaf.g, None
    grad = leaf.grad
    if d is None or grad is None or leaf.req == "null":
        return
    leaf.fresh = True
    if isinstance(d, Array):
        if leaf.req == "add":
            call("broadcast_add", (grad, d), out=grad)
        else:
            call("_copy", (d,), out=grad)
        return
    add = leaf.req == "add"
    put = _add if add else _put
    now = runtime.current()
    if now.first and (d.__class__ is Owed or tied(grad)):
        if d.__class__ is Owed or not runs_here(now.engine, (), (grad,), NEVER_MEASURED):
            if d.__class__ is not Owed:
                d = Owed.ready(now.engine, d)
            deliver_owed(now.engine, grad, d, put, add)
            cell_of(grad).version += 1
            return
    elif tied(grad):
        settled(grad)
    if grad._cell is not None or add:
        cell_of(grad).version += 1
    if add:
        _add(grad, d)
        return
    _put(grad, d, 1)


def _add(grad: Any, d: Any) -> None:
    """Add a raw gradient to the array ``grad``."""
    library = runtime.current().library(grad._ctx)
    data = writable_data(grad, library)
    grad._data = library.assign(data, ..., data + d)


def _put(grad: Any, d: Any, held: int = 0) -> None:
    """Write a raw gradient into the array ``grad``, or let it become the gradient where nobody else can see it.

    Parameters
    ----------
    held : int
        Names of the callers that hold ``d``.
    """
    library = runtime.current().library(grad._ctx)
    data, cell = writable_data(grad, library), grad._cell
    if (
        d.__class__ is np.ndarray
        and d.base is None
        and d.dtype is data.dtype
        and d.shape == data.shape
        and d.flags.c_contiguous
        and (cell is None or not cell.exported)
        and data.base is None
        # A copy of all gradients is a tenth of a small model's step.
        and sys.getrefcount(d) <= _ALONE + held
    ):
        grad._data = d
    elif data.__class__ is np.ndarray:
        np.copyto(data, d, casting="unsafe")
    else:
        grad._data = library.assign(data, ..., d)
