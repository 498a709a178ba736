"""Kernels that join arrays and cut them into parts. Results never share memory with an input."""

from __future__ import annotations

from typing import Any

from ...operators.joining import cuts_of
from ..table import kernel
from .fresh import along, fresh


@kernel("Concat")
def concat(xp: Any, *xs: Any, dim: int) -> Any:
    return xp.concatenate(xs, axis=dim)


@kernel("_concat_backward")
def concat_backward(xp: Any, g: Any, *likes: Any, dim: int, count: int) -> Any:
    parts, begin = [], 0
    for x in likes:
        end = begin + x.shape[dim]
        parts.append(fresh(xp, g[along(g.ndim, dim, slice(begin, end))]))
        begin = end
    return tuple(parts) if count > 1 else parts[0]


@kernel("stack")
def stack(xp: Any, *xs: Any, axis: int) -> Any:
    return xp.stack(xs, axis)


def _parts(xp: Any, x: Any, axis: int, cuts: Any, squeezed: bool) -> Any:
    parts = []
    for begin, end in cuts:
        y = fresh(xp, x[along(x.ndim, axis, slice(begin, end))])
        if squeezed:
            y = y.reshape(x.shape[: axis % x.ndim] + x.shape[axis % x.ndim + 1 :] or (1,))
        parts.append(y)
    return tuple(parts) if len(parts) > 1 else parts[0]


@kernel("SliceChannel")
def slice_channel(xp: Any, x: Any, *, num_outputs: int, axis: int, squeeze_axis: bool) -> Any:
    n = x.shape[axis] // num_outputs
    return _parts(xp, x, axis, [(i * n, (i + 1) * n) for i in range(num_outputs)], squeeze_axis)


@kernel("_split_v2")
def split_v2(xp: Any, x: Any, *, indices: Any, axis: int, squeeze_axis: bool, sections: int) -> Any:
    cuts = cuts_of({"indices": indices, "sections": sections}, x.shape[axis])
    return _parts(xp, x, axis, cuts, squeeze_axis)
