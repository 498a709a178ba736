"""Backward: walk the recorded nodes from the heads and run each one's pullback.

Nodes are numbered as they are recorded, and a call is numbered after its inputs, so descending numbers are a
reverse topological order. Rules run on raw arrays, or on recorded arrays with ``create_graph``; either way a node's
gradient is complete before its pullback runs. (The scheme is HIPS autograd's; its recursion is avoided, so depth
is not limited.)
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dispatch import runtime
from ..dispatch.array import Array, cell_of, dtype_of, settled, shape_of, wrap
from ..dispatch.call import Promised
from ..dispatch.functions import recorded
from ..dispatch.raw import Raw
from ..dispatch.recording import Leaf, Node, set_recording, set_training
from ..dispatch.writes import last_write
from ..spec import AutogradError, MXCoreError, OperatorError, ShapeError, StaleValueError

_raw: dict[Any, Raw] = {}


def _count_alone() -> int:
    d = object()
    return sys.getrefcount(d)


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
        if cell.version != before and (saved is None or i in saved) and i not in node.bound.operator.mutates:
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


def _collect(tapes: Sequence[Any]) -> list[Node]:
    """Return all nodes reachable from ``tapes``, latest first."""
    seen: set[Any] = set()
    add = seen.add
    stack = [t.node for t in tapes if t.__class__ is not Leaf]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        add(node)
        inputs = node.inputs
        if inputs is None:
            raise AutogradError(
                f"the graph of operator '{node.bound.operator.name}' was freed by an earlier backward. Pass "
                f"retain_graph=True to the first backward to go through it again.",
                operator=node.bound.operator.name,
            )
        for x in inputs:
            if x is not None:
                t = x._tape
                if t is not None and t.__class__ is not Leaf:
                    stack.append(t.node)
    return sorted(seen, key=_seq, reverse=True)


def _seq(node: Node) -> int:
    return node.seq


def _add(tape: Any, d: Any) -> None:
    """Add a gradient to what arrived at a tape entry so far."""
    if tape.__class__ is Node or tape.__class__ is Leaf:
        tape.g = d if tape.g is None else tape.g + d
        return
    node, i = tape.node, tape.index
    if node.g is None:
        node.g = [None] * node.bound.outputs
    node.g[i] = d if node.g[i] is None else node.g[i] + d


def run(
    heads: Sequence[Any],
    head_grads: Sequence[Any] | None,
    retain_graph: bool,
    train_mode: bool,
    create_graph: bool = False,
    leaves: Sequence[Leaf] | None = None,
) -> list[Leaf]:
    """Run backward from ``heads``; return the leaves reached, each with its gradient in ``g``.

    With ``leaves`` given only those keep theirs. Gradients are raw arrays, or arrays with ``create_graph``.
    """
    now = runtime.current()
    # A deferred engine may still owe values, so rules run on arrays there and are pushed like any other call.
    on_arrays = create_graph or not now.inline
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
            from ..dispatch.functions import call

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

    before_recording = set_recording(create_graph)
    before_training = set_training(train_mode)
    nodes: list[Node] = []
    reached: dict[int, Leaf] = {}
    scope = _tracking.scope if leaves is not None else None
    try:
        nodes = _collect(tapes)
        for tape, g in zip(tapes, seeds):
            _add(tape, g)
            if tape.__class__ is Leaf:
                reached[id(tape)] = tape
        for node in nodes:
            g = node.g
            if g is None:
                continue
            node.g = None
            if scope is not None:
                scope.see_node(node, g)
            inputs = node.inputs
            if node.cells is not None or node.versions is not None or _any_cell(inputs):
                check_fresh(node)
            needs = [x is not None and x._tape is not None for x in inputs]
            if on_arrays:
                ds = _pull_arrays(node, g, inputs, needs)
            else:
                ds = _pull_raw(node, g, inputs, needs)
            for x, need, d in zip(inputs, needs, ds):
                if need and d is not None:
                    t = x._tape
                    kind = t.__class__
                    if kind is Node:
                        t.g = d if t.g is None else t.g + d
                    elif kind is Leaf:
                        if t.req != "null" or leaves is not None:
                            t.g = d if t.g is None else t.g + d
                            reached[id(t)] = t
                    else:
                        _add(t, d)
            if not retain_graph:
                node.inputs = None  # type: ignore[assignment]
                node.out = None
        if scope is not None:
            scope.see_leaves()
            for leaf in reached.values():
                leaf.g = None
    except BaseException:
        for node in nodes:
            node.g = None
        for leaf in reached.values():
            leaf.g = None
        raise
    finally:
        set_recording(before_recording)
        set_training(before_training)
    return list(reached.values())


class tracked:
    """Scope that collects the gradients arriving at given arrays, leaves or not.

    ``with tracked(arrays) as taken`` gives a list that :func:`run` fills when a node's gradient is complete.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.tapes = [x._tape for x in arrays]
        self.taken: list[Any] = [None] * len(self.tapes)

    def __enter__(self) -> list[Any]:
        self.before = getattr(_tracking, "scope", None)
        _tracking.scope = self
        return self.taken

    def __exit__(self, *exc: Any) -> None:
        _tracking.scope = self.before

    def see_node(self, node: Node, g: Any) -> None:
        """Take the complete gradient of a node."""
        for i, t in enumerate(self.tapes):
            if t.__class__ is not Leaf and t.node is node:
                self.taken[i] = g if t is node else g[t.index]

    def see_leaves(self) -> None:
        """Take what arrived at leaves, and leave them clean."""
        for i, t in enumerate(self.tapes):
            if t.__class__ is Leaf:
                self.taken[i] = t.g
        for t in self.tapes:
            if t.__class__ is Leaf:
                t.g = None


class _Tracking(threading.local):
    scope: Any = None


_tracking = _Tracking()


def _any_cell(inputs: Any) -> bool:
    for x in inputs:
        if x is not None and x._cell is not None:
            return True
    return False


def np_ones_like(now: Any, y: Any) -> Any:
    """Return raw ones like ``y``."""
    return now.library(y._ctx).xp.ones_like(settled(y))


def _pull_raw(node: Node, g: Any, inputs: Any, needs: Any) -> Any:
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
        shapes = [None if x is None else shape_of(x) for x in inputs]
        raise OperatorError(
            f"backward of operator '{bound.operator.name}' failed for inputs of shapes {shapes}: {e}",
            operator=bound.operator.name,
            shapes=shapes,
        ) from e


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
        from ..dispatch.recording import Output

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
    if isinstance(d, Array):
        from ..dispatch.functions import call

        if leaf.req == "add":
            call("broadcast_add", (grad, d), out=grad)
        else:
            call("_copy", (d,), out=grad)
        return
    data = settled(grad)
    if leaf.req == "add":
        library = runtime.current().library(grad._ctx)
        grad._data = library.assign(data, ..., data + d)
        cell_of(grad).version += 1
        return
    cell = grad._cell
    if (
        d.__class__ is np.ndarray
        and d.base is None
        and d.dtype is data.dtype
        and d.shape == data.shape
        and d.flags.c_contiguous
        and (cell is None or not cell.exported)
        and data.base is None
        # The rule's result, this frame's name and the call's argument: nobody else can see it, so it may become
        # the gradient without a copy (a copy of all gradients is a tenth of a small model's step).
        and sys.getrefcount(d) <= _ALONE
    ):
        grad._data = d
    else:
        np.copyto(data, d, casting="unsafe") if data.__class__ is np.ndarray else _assign(grad, d)
    if cell is not None:
        cell.version += 1


def _assign(grad: Any, d: Any) -> None:
    library = runtime.current().library(grad._ctx)
    grad._data = library.assign(grad._data, ..., d)
