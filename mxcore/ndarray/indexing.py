"""Indexing plans: what ``x[key]`` means for a given shape, decided before anything is touched.

A plan normalises a key to what NumPy indexing takes, and says whether MXNet 1.9.1 would give a view
(a basic key whose elements lie next to each other in memory) or a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch.array import Array, settled
from ..spec import ShapeError


class Plan:
    """One normalised key.

    Attributes
    ----------
    key : tuple
        For NumPy; ints, slices, Ellipsis-free; index arrays for an advanced key.
    shape : tuple of int
        Shape of the result; a single element has ``(1,)`` where MXNet has no arrays without axes.
    advanced : bool
        Integer or boolean arrays take part.
    contiguous : bool
        A basic key selecting one block of memory.
    whole : bool
        Every element is selected.
    scalar : bool
        One element is selected by integers only: NumPy's result has no axes.
    """

    __slots__ = ("advanced", "contiguous", "key", "scalar", "shape", "whole")

    def __init__(
        self, key: Any, shape: tuple[int, ...], advanced: bool, contiguous: bool, whole: bool, scalar: bool
    ) -> None:
        self.key = key
        self.shape = shape
        self.advanced = advanced
        self.contiguous = contiguous
        self.whole = whole
        self.scalar = scalar

    def __repr__(self) -> str:
        return f"Plan({self.key!r})"


def _index_array(k: Any, axis_length: int | None) -> np.ndarray:
    if isinstance(k, Array):
        a = np.asarray(settled(k))
    else:
        a = np.asarray(k)
        if a.size == 0 and not isinstance(k, np.ndarray):
            a = a.astype(np.int64)
    if a.dtype == bool:
        return a
    if a.dtype.kind == "f":
        # MXNet's own index results (argsort, topk) are float32.
        a = a.astype(np.int64)
    if a.dtype.kind not in "iu":
        raise IndexError(f"arrays used as indices must hold integers or booleans, not {a.dtype}.")
    return a.astype(np.int64, copy=False)


def plan(key: Any, shape: tuple[int, ...]) -> Plan:
    """Return the plan of ``x[key]`` for an array of ``shape``.

    Raises
    ------
    IndexError
        Naming index, axis and length.
    """
    ndim = len(shape)
    keys = list(key) if isinstance(key, tuple) else [key]
    advanced = False
    used = 0
    for i, k in enumerate(keys):
        if k is None or k is Ellipsis:
            continue
        if isinstance(k, bool | np.bool_):
            advanced = True
            keys[i] = np.asarray(k)
            continue
        if isinstance(k, slice):
            keys[i] = slice(_whole(k.start), _whole(k.stop), _whole(k.step))
            used += 1
            continue
        if isinstance(k, int | np.integer):
            keys[i] = int(k)
            used += 1
            continue
        if isinstance(k, Array | np.ndarray | list | tuple | range):
            if isinstance(k, range):
                k = list(k)
            a = _index_array(k, None)
            keys[i] = a
            advanced = True
            used += a.ndim if a.dtype == bool else 1
            continue
        if hasattr(k, "__index__"):
            keys[i] = k.__index__()
            used += 1
            continue
        raise IndexError(
            f"indices must be integers, slices, None, Ellipsis or arrays, not {type(k).__name__} ({str(k)[:30]})."
        )
    if used > ndim:
        raise IndexError(f"too many indices: the array has {ndim} axes but {used} were indexed.")
    places = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can hold only one Ellipsis ('...').")
    if places:
        i = places[0]
        keys[i : i + 1] = [slice(None)] * (ndim - used)
    else:
        keys += [slice(None)] * (ndim - used)
    if advanced:
        return _advanced(tuple(keys), shape)
    return _basic(keys, shape)


def _whole(v: Any) -> Any:
    return None if v is None else v.__index__() if hasattr(v, "__index__") else int(v)


def _basic(keys: list[Any], shape: tuple[int, ...]) -> Plan:
    out: list[int] = []
    axis = 0
    whole = True
    # One block of memory: ints or single steps until one axis is cut, then only full axes.
    contiguous = True
    cut = False
    only_ints = True
    for i, k in enumerate(keys):
        if k is None:
            out.append(1)
            only_ints = False
            continue
        n = shape[axis]
        if isinstance(k, int):
            if not -n <= k < n:
                raise IndexError(f"index {k} is out of bounds for axis {axis} with size {n}")
            if cut and n != 1:
                contiguous = False
            whole = whole and n == 1
        else:
            only_ints = False
            start, stop, step = k.indices(n)
            length = len(range(start, stop, step))
            out.append(length)
            if length != n or step < 0:
                whole = whole and length == n and step > 0
                if cut and n != 1 and length != n:
                    contiguous = False
            if step != 1 and length > 1:
                contiguous = False
            if cut and length != n:
                contiguous = False
            if length > 1:
                cut = True
            if step < 0 and length == n and n > 0:
                keys[i] = slice(None, None, step) if start == n - 1 else k
        axis += 1
    result = tuple(out)
    scalar = only_ints and not result
    return Plan(tuple(keys), result or (1,), False, contiguous, whole, scalar)


def _advanced(keys: tuple[Any, ...], shape: tuple[int, ...]) -> Plan:
    axis = 0
    for k in keys:
        if k is None:
            continue
        n = shape[axis] if axis < len(shape) else 0
        if isinstance(k, np.ndarray):
            if k.dtype == bool:
                if k.shape != shape[axis : axis + k.ndim]:
                    raise IndexError(
                        f"a boolean index must match the indexed axes: it has shape {k.shape}, they have "
                        f"{shape[axis : axis + k.ndim]}."
                    )
                axis += k.ndim
                continue
            if k.size and not (-n <= int(k.min()) and int(k.max()) < n):
                bad = int(k.min()) if int(k.min()) < -n else int(k.max())
                raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {n}")
        elif isinstance(k, int) and not -n <= k < n:
            raise IndexError(f"index {k} is out of bounds for axis {axis} with size {n}")
        axis += 1
    # The shape of the result without the data: index an array that has no memory of its own.
    probe = np.broadcast_to(np.empty((), np.bool_), shape)[keys]
    return Plan(keys, probe.shape or (1,), True, False, False, probe.ndim == 0)


def check_assign(plan: Plan, shape: tuple[int, ...], x: Any) -> None:
    """Raise ShapeError unless a value of ``shape`` can be assigned to the selection of ``plan``."""
    target = plan.shape
    value = shape
    while len(value) > len(target) and value[0] == 1:
        value = value[1:]
    if len(value) > len(target) or any(v not in (1, t) for v, t in zip(value[::-1], target[::-1])):
        raise ShapeError(
            f"cannot assign a value of shape {shape} to a selection of shape {target} of an NDArray of shape "
            f"{x.shape} {x.dtype.__name__}.",
            shapes=[shape, target],
        )
