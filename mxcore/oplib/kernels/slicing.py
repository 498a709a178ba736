"""Kernels that cut regions out of arrays and put them back. Results never share memory with an input."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.slicing import crop_origin, slice_axis_bounds
from ..table import kernel
from .fresh import along, fresh, placed, replaced


def slices(begin: Any, end: Any, step: Any) -> tuple[slice, ...]:
    """Return the key that ``begin``, ``end`` and ``step`` mean."""
    return tuple(slice(b, e, s) for b, e, s in zip(begin, end, step or (None,) * len(begin)))


@kernel("slice")
def slice_(xp: Any, x: Any, *, begin: Any, end: Any, step: Any) -> Any:
    return fresh(xp, x[slices(begin, end, step)])


@kernel("_slice_backward")
def slice_backward(xp: Any, g: Any, x: Any, *, begin: Any, end: Any, step: Any) -> Any:
    return placed(xp, g, x.shape, slices(begin, end, step))


@kernel("slice_axis")
def slice_axis(xp: Any, x: Any, *, axis: int, begin: int, end: Any) -> Any:
    axis, begin, end = slice_axis_bounds({"axis": axis, "begin": begin, "end": end}, x.shape)
    return fresh(xp, x[along(x.ndim, axis, slice(begin, end))])


@kernel("_slice_axis_backward")
def slice_axis_backward(xp: Any, g: Any, x: Any, *, axis: int, begin: int, end: Any) -> Any:
    axis, begin, end = slice_axis_bounds({"axis": axis, "begin": begin, "end": end}, x.shape)
    return placed(xp, g, x.shape, along(x.ndim, axis, slice(begin, end)))


@kernel("slice_like")
def slice_like(xp: Any, x: Any, like: Any, *, axes: Any) -> Any:
    key = [slice(None)] * x.ndim
    for axis in axes or range(x.ndim):
        key[axis] = slice(like.shape[axis])
    return fresh(xp, x[tuple(key)])


@kernel("_corner_backward")
def corner_backward(xp: Any, g: Any, x: Any) -> Any:
    return placed(xp, g, x.shape, tuple(slice(n) for n in g.shape))


@kernel("_slice_assign")
def slice_assign(xp: Any, x: Any, value: Any, *, begin: Any, end: Any, step: Any) -> Any:
    return replaced(xp, x, slices(begin, end, step), value)


@kernel("_slice_assign_scalar")
def slice_assign_scalar(xp: Any, x: Any, *, scalar: float, begin: Any, end: Any, step: Any) -> Any:
    return replaced(xp, x, slices(begin, end, step), np.asarray(scalar).astype(x.dtype))


def _window(shape: Any, size: Any, offset: Any, center_crop: bool) -> tuple[slice, ...]:
    top, left = crop_origin(shape, size, offset, center_crop)
    return slice(None), slice(None), slice(top, top + size[0]), slice(left, left + size[1])


@kernel("Crop")
def crop(xp: Any, x: Any, *like: Any, offset: Any, h_w: Any, center_crop: bool) -> Any:
    return fresh(xp, x[_window(x.shape, like[0].shape[2:] if like else h_w, offset, center_crop)])


@kernel("_crop_backward")
def crop_backward(xp: Any, g: Any, x: Any, *, offset: Any, center_crop: bool) -> Any:
    return placed(xp, g, x.shape, _window(x.shape, g.shape[2:], offset, center_crop))
