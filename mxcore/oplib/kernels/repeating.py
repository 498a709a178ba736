"""Kernels that reverse, repeat and pad, and their transposes. Results never share memory with an input."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table import kernel
from .fresh import fresh


@kernel("reverse")
def reverse(xp: Any, x: Any, *, axis: Any) -> Any:
    return fresh(xp, xp.flip(x, axis))


@kernel("tile")
def tile(xp: Any, x: Any, *, reps: Any) -> Any:
    return xp.tile(x, reps)


@kernel("_tile_backward")
def tile_backward(xp: Any, g: Any, x: Any, *, reps: Any) -> Any:
    n = max(len(reps), x.ndim)
    shape = (1,) * (n - x.ndim) + x.shape
    reps = (1,) * (n - len(reps)) + reps
    split = tuple(m for pair in zip(reps, shape) for m in pair)
    return g.reshape(split).sum(axis=tuple(range(0, 2 * n, 2)), dtype=g.dtype).reshape(x.shape)


@kernel("repeat")
def repeat(xp: Any, x: Any, *, repeats: int, axis: Any) -> Any:
    return xp.repeat(x, repeats, axis)


@kernel("_repeat_backward")
def repeat_backward(xp: Any, g: Any, x: Any, *, repeats: int, axis: Any) -> Any:
    if axis is None:
        return g.reshape(x.size, repeats).sum(axis=1, dtype=g.dtype).reshape(x.shape)
    i = axis % x.ndim
    split = x.shape[: i + 1] + (repeats,) + x.shape[i + 1 :]
    return g.reshape(split).sum(axis=i + 1, dtype=g.dtype)


@kernel("Pad")
def pad(xp: Any, x: Any, *, mode: str, pad_width: Any, constant_value: float) -> Any:
    pairs = list(zip(pad_width[::2], pad_width[1::2]))
    if mode == "constant":
        if xp is not np:
            return xp.pad(x, pairs, mode, constant_values=constant_value)
        # numpy.pad takes several times as long as the copy itself.
        out = np.full([n + b + a for n, (b, a) in zip(x.shape, pairs)], constant_value, x.dtype)
        out[tuple(slice(b, b + n) for n, (b, _) in zip(x.shape, pairs))] = x
        return out
    return xp.pad(x, pairs, mode)


@kernel("_pad_backward", numpy=True)
def pad_backward(g: Any, x: Any, *, mode: str, pad_width: Any) -> Any:
    owned = False
    for axis, n in enumerate(x.shape):
        before, after = pad_width[2 * axis], pad_width[2 * axis + 1]
        if not before and not after:
            continue
        lead = (slice(None),) * axis

        def part(begin: int, end: int, lead: Any = lead) -> Any:
            return (*lead, slice(begin, end))

        middle = g[part(before, before + n)]
        if mode == "constant":
            g = middle
            continue
        middle = np.array(middle, order="C")
        owned = True
        # Along one axis: what was copied outwards is added back to where it came from.
        if mode == "edge":
            if before:
                middle[part(0, 1)] += g[part(0, before)].sum(axis=axis, keepdims=True, dtype=g.dtype)
            if after:
                middle[part(n - 1, n)] += g[part(before + n, before + n + after)].sum(
                    axis=axis, keepdims=True, dtype=g.dtype
                )
        else:
            if before:
                middle[part(1, before + 1)] += np.flip(g[part(0, before)], axis)
            if after:
                middle[part(n - 1 - after, n - 1)] += np.flip(g[part(before + n, before + n + after)], axis)
        g = middle
    return g if owned else np.array(g, order="C")
