"""What dispatch writes while autograd records: thread-local flags, and one node per recorded call.

The autograd room reads these nodes; dispatch only makes them. A node holds its input *arrays* (so that their
versions can be compared in backward) and its raw outputs (holding output arrays would be a reference cycle).
"""

from __future__ import annotations

import itertools
import threading
from typing import Any


class State(threading.local):
    """Flags of this thread."""

    recording = False
    training = False


class Recorders:
    """How many threads record now: the hot path looks at thread-local flags only when this is not 0."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()


state = State()
recorders = Recorders()
next_order = itertools.count(-1, -1).__next__


def set_recording(flag: bool) -> bool:
    """Switch recording in this thread; return what it was."""
    before = state.recording
    if flag != before:
        state.recording = flag
        with recorders.lock:
            recorders.count += 1 if flag else -1
    return before


def set_training(flag: bool) -> bool:
    """Switch training mode in this thread; return what it was."""
    before = state.training
    state.training = flag
    return before


class Node:
    """One recorded call. As ``_tape`` of an array it stands for the call's first output.

    Attributes
    ----------
    bound : Bound
        Operator with attributes; its ``pullback`` gives the input gradients.
    inputs : tuple of Array or None
    out : raw array, or tuple of raw arrays
    versions : tuple of int or None
        Versions of the inputs when recorded; None when all were 0.
    cells : list of Cell or None
        Cells that came into being for outputs later: an output was overwritten if one has a version above
        what it had when watched.
    g : raw array, list, or None
        Gradient arrived so far, in backward.
    order : int
        Smaller for later calls, so that a heap gives the latest node first.
    """

    __slots__ = ("bound", "cells", "g", "inputs", "order", "out", "versions")

    # No __init__: the hot path fills the slots itself (a third faster). Everybody else calls new_node().
    bound: Any
    inputs: Any
    out: Any
    order: int
    g: Any
    cells: Any
    versions: Any

    @property
    def index(self) -> int:
        return 0

    @property
    def node(self) -> Node:
        return self

    def watch(self, cell: Any) -> None:
        """Note the cell of an output, to see later whether the output was overwritten."""
        if self.cells is None:
            self.cells = [(cell, cell.version)]
        else:
            self.cells.append((cell, cell.version))


def new_node(bound: Any, inputs: tuple[Any, ...], out: Any) -> Node:
    """Return the node of a call that was just made."""
    node = Node()
    node.bound = bound
    node.inputs = inputs
    node.out = out
    node.order = next_order()
    node.g = None
    node.cells = None
    node.versions = versions_of(inputs)
    return node


class Output:
    """Output ``index`` of a node with several outputs, as ``_tape`` of an array."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

    def watch(self, cell: Any) -> None:
        """See :meth:`Node.watch`."""
        self.node.watch(cell)


class Leaf:
    """``_tape`` of an array with an attached gradient.

    Attributes
    ----------
    grad : Array or None
        Where backward puts the gradient.
    req : {"write", "add", "null"}
    fresh : bool
        Backward wrote the gradient since somebody last used it (``Trainer`` looks).
    """

    __slots__ = ("__weakref__", "fresh", "g", "grad", "req")

    index = 0

    def __init__(self, grad: Any, req: str) -> None:
        self.grad = grad
        self.req = req
        self.fresh = False
        self.g: Any = None

    def watch(self, cell: Any) -> None:
        """Leaves are not computed: nothing to watch."""


def versions_of(inputs: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Return the versions of ``inputs``, or None if all are 0."""
    for x in inputs:
        if x is not None and x._cell is not None and x._cell.version:
            return tuple(0 if x is None or x._cell is None else x._cell.version for x in inputs)
    return None
