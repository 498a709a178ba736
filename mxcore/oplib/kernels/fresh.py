"""Copies that kernels of any array namespace make: in C order, with values placed, along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..threads import LARGE, LARGE_PLAIN, rows


def fresh(xp: Any, view: Any) -> Any:
    """Return a C-ordered copy."""
    if xp is not np or view.size < LARGE:
        return xp.array(view, order="C")
    least = LARGE_PLAIN if view.flags.c_contiguous else LARGE
    cut = next((i for i, n in enumerate(view.shape) if n > 1), 0)
    out = np.empty(view.shape, view.dtype)

    def run(start: int, stop: int) -> None:
        part = along(view.ndim, cut, slice(start, stop))
        out[part] = view[part]

    rows(run, view.shape[cut], view.size // view.shape[cut], least)
    return out


def along(ndim: int, axis: int, part: slice) -> tuple[slice, ...]:
    """Return the key that takes ``part`` of one axis."""
    return (slice(None),) * (axis % ndim) + (part,)


def placed(xp: Any, g: Any, shape: tuple[int, ...], key: Any) -> Any:
    """Return zeros of ``shape`` with ``g`` at ``key``."""
    out = xp.zeros(shape, g.dtype)
    if xp is np:
        out[key] = g
        return out
    return out.at[key].set(g) if hasattr(out, "at") else _set(out, key, g)


def _set(out: Any, key: Any, g: Any) -> Any:
    out[key] = g
    return out


def replaced(xp: Any, x: Any, key: Any, value: Any) -> Any:
    """Return a copy of ``x`` with ``value`` at ``key``."""
    out = fresh(xp, x)
    return out.at[key].set(value) if hasattr(out, "at") else _set(out, key, value)
