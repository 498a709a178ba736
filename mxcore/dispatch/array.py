"""The array record that dispatch works on: a view on a cell.

``Array`` is the slots that the hot path reads and writes; the front ends subclass it and add the methods.

``_data``
    The backend array, or None while the engine has not made it yet.
``_cell``
    What all views of one buffer share: version, engine variable, inferred shape. Made when first needed: an array
    that nobody views, overwrites or waits for never has one, and its version is 0.
``_ctx``
    Its :class:`~mxcore.dispatch.context.Context`.
``_tape``
    None, or where it stands in the autograd graph (:mod:`mxcore.dispatch.recording`).
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Cell:
    """What the views of one buffer share.

    Attributes
    ----------
    version : int
        Number of overwrites so far.
    var : Variable or None
        The engine variable, with a deferred engine.
    engine : Engine or None
        Whose variable that is.
    shape, dtype : tuple, numpy.dtype or None
        What inference said, while the data is pending.
    exported : bool
        The memory was lent out (a view, DLPack, ``__array_interface__``): the buffer must not be exchanged.
    site : (code, int) or None
        Line of the last overwrite.
    number : int
        For instruments; set when somebody first listened to a call with it.
    """

    __slots__ = ("__weakref__", "dtype", "engine", "exported", "number", "shape", "site", "var", "version")

    number: int

    def __init__(self) -> None:
        self.version = 0
        self.var: Any = None
        self.engine: Any = None
        self.shape: Any = None
        self.dtype: Any = None
        self.exported = False
        self.site: Any = None

    def __del__(self) -> None:
        # The variable dies after everything pushed on it, not with the Python name.
        if self.var is not None:
            try:
                self.engine.delete_variable(self.var)
            except Exception:  # interpreter shutdown, or the engine is gone: nothing left to free
                pass


class Array:
    """Slots of an array; see the module. Made by :func:`wrap`, never called."""

    __slots__ = ("__weakref__", "_cell", "_ctx", "_data", "_tape")

    _cell: Cell | None
    _ctx: Any
    _data: Any
    _tape: Any
    #: Whether the class has a storage type other than dense.
    _sparse = False


_new = object.__new__


def wrap(cls: type, data: Any, ctx: Any) -> Any:
    """Return an array of class ``cls`` around a backend array. No copy."""
    x: Any = _new(cls)
    x._data = data
    x._cell = None
    x._ctx = ctx
    x._tape = None
    return x


def cell_of(x: Any) -> Cell:
    """Return the cell of ``x``, making it if this is the first time one is needed."""
    cell = x._cell
    if cell is None:
        cell = x._cell = Cell()
        tape = x._tape
        if tape is not None:
            # So that a later overwrite of the output is noticed by the node that saved its value.
            tape.watch(cell)
    return cell


def settled(x: Any) -> Any:
    """Return the backend array of ``x``, waiting for it if a deferred engine still owes it or a write to it."""
    cell = x._cell
    if cell is not None and cell.var is not None:
        cell.engine.wait_for_variable(cell.var)
    return x._data


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape without waiting."""
    data = x._data
    return data.shape if data is not None else x._cell.shape


def dtype_of(x: Any) -> np.dtype:
    """Return the dtype without waiting."""
    data = x._data
    return data.dtype if data is not None else x._cell.dtype


def writable_data(x: Any, library: Any) -> Any:
    """Return the backend array to overwrite; a fresh one if the array failed before it had any."""
    data = x._data
    if data is None:
        data = x._data = library.empty(x._cell.shape, x._cell.dtype, x._ctx.device_id)
    return data
