"""Kernels that rearrange elements. Results are C-ordered copies: they never share memory with an input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...operators.shape import crop_origin, cuts_of, legacy_target, patch_counts, reshaped, slice_axis_bounds
from ..table import kernel


def fresh(xp: Any, view: Any) -> Any:
    """Return a C-ordered copy."""
    return xp.array(view, order="C")


# ---------------------------------------------------------------------------------------------------------------
# Reshaping


@kernel("Reshape")
def reshape(xp: Any, x: Any, *, shape: Any, reverse: bool, target_shape: Any, keep_highest: bool) -> Any:
    new = reshaped(x.shape, shape, reverse) if shape else legacy_target(x.shape, target_shape, keep_highest)
    return fresh(xp, x).reshape(new)


@kernel("Flatten")
def flatten(xp: Any, x: Any) -> Any:
    return fresh(xp, x).reshape(x.shape[0], math.prod(x.shape[1:]))


@kernel("expand_dims")
def expand_dims(xp: Any, x: Any, *, axis: int) -> Any:
    return xp.expand_dims(fresh(xp, x), axis)


@kernel("squeeze")
def squeeze(xp: Any, x: Any, *, axis: Any) -> Any:
    r = xp.squeeze(fresh(xp, x), axis)
    return r if r.ndim else r.reshape(1)


@kernel("transpose")
def transpose(xp: Any, x: Any, *, axes: Any) -> Any:
    if xp is np and x.ndim == 2 and x.size >= 4096 and (not axes or axes[0] % 2 == 1):
        return transposed(x)
    return fresh(xp, x.transpose(axes or None))


def transposed(x: np.ndarray) -> np.ndarray:
    """Return a C-ordered copy of the transpose of a matrix.

    Sixteen rows at a time: a cache line of the result is then filled while it is still in cache, which takes a
    quarter of the time of a plain copy (rows of a power of two in length are the worst case of that).
    """
    out = np.empty(x.shape[::-1], x.dtype)
    for i in range(0, x.shape[0], 16):
        out[:, i : i + 16] = x[i : i + 16].T
    return out


@kernel("SwapAxis")
def swap_axis(xp: Any, x: Any, *, dim1: int, dim2: int) -> Any:
    if xp is np and x.ndim == 2 and x.size >= 4096 and (dim1 - dim2) % 2:
        return transposed(x)
    return fresh(xp, xp.swapaxes(x, dim1, dim2))


@kernel("reshape_like")
def reshape_like(xp: Any, x: Any, like: Any, *, lhs_begin: Any, lhs_end: Any, rhs_begin: Any, rhs_end: Any) -> Any:
    shape = x.shape[: 0 if lhs_begin is None else lhs_begin] + like.shape[rhs_begin:rhs_end]
    if lhs_end is not None:
        shape += x.shape[lhs_end:]
    return fresh(xp, x).reshape(shape)


@kernel("_identity_with_attr_like_rhs")
def identity_with_attr_like_rhs(xp: Any, x: Any, like: Any) -> Any:
    return fresh(xp, x)


@kernel("shape_array")
def shape_array(xp: Any, x: Any) -> Any:
    return xp.asarray(x.shape, dtype=np.int64)


@kernel("size_array")
def size_array(xp: Any, x: Any) -> Any:
    return xp.asarray([x.size], dtype=np.int64)


# ---------------------------------------------------------------------------------------------------------------
# Joining and splitting


def along(ndim: int, axis: int, part: slice) -> tuple[slice, ...]:
    """Return the key that takes ``part`` of one axis."""
    return (slice(None),) * (axis % ndim) + (part,)


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


# ---------------------------------------------------------------------------------------------------------------
# Cutting out, and putting back


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


# ---------------------------------------------------------------------------------------------------------------
# Reversing, repeating, padding


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


# ---------------------------------------------------------------------------------------------------------------
# Blocks, diagonals, patches


@kernel("depth_to_space")
def depth_to_space(xp: Any, x: Any, *, block_size: int) -> Any:
    n, c, h, w = x.shape
    b = block_size
    return fresh(xp, x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)).reshape(
        n, c // (b * b), h * b, w * b
    )


@kernel("space_to_depth")
def space_to_depth(xp: Any, x: Any, *, block_size: int) -> Any:
    n, c, h, w = x.shape
    b = block_size
    return fresh(xp, x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)).reshape(
        n, c * b * b, h // b, w // b
    )


@kernel("diag")
def diag(xp: Any, x: Any, *, k: int, axis1: int, axis2: int) -> Any:
    return fresh(xp, xp.diag(x, k) if x.ndim == 1 else xp.diagonal(x, k, axis1, axis2))


@kernel("_diag_backward")
def diag_backward(xp: Any, g: Any, x: Any, *, k: int, axis1: int, axis2: int) -> Any:
    if x.ndim == 1:
        return fresh(xp, xp.diagonal(g, k))
    i, j = axis1 % x.ndim, axis2 % x.ndim
    steps = xp.arange(g.shape[-1])
    key: list[Any] = [slice(None)] * x.ndim
    key[i], key[j] = steps - min(k, 0), steps + max(k, 0)
    # Index arrays on two neighbouring axes stay in place, on others they come first.
    if abs(i - j) == 1:
        g = xp.moveaxis(g, -1, min(i, j))
    else:
        g = xp.moveaxis(g, -1, 0)
    return placed(xp, g, x.shape, tuple(key))


def _windows(shape: Any, kernel: Any, stride: Any, dilate: Any, pad: Any) -> Iterator[tuple[int, Any, Any]]:
    """Yield, for each kernel element, its number and the padded elements it meets; then padded shape and counts."""
    n = len(kernel)
    stride, dilate = stride or (1,) * n, dilate or (1,) * n
    counts = patch_counts("im2col", shape, {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad})
    for i, place in enumerate(itertools.product(*[range(k) for k in kernel])):
        key = tuple(slice(p * d, p * d + s * (c - 1) + 1, s) for p, d, s, c in zip(place, dilate, stride, counts))
        yield i, (Ellipsis, *key), counts


@kernel("im2col", numpy=True)
def im2col(x: Any, *, kernel: Any, stride: Any, dilate: Any, pad: Any) -> Any:
    spatial = x.shape[2:]
    if any(pad):
        out: Any = np.zeros(x.shape[:2] + tuple(n + 2 * p for n, p in zip(spatial, pad)), x.dtype)
        out[(Ellipsis, *[slice(p, p + n) for n, p in zip(spatial, pad)])] = x
        x = out
    columns: Any = None
    for i, key, counts in _windows(spatial, kernel, stride, dilate, pad):
        if columns is None:
            columns = np.empty((*x.shape[:2], math.prod(kernel), *counts), x.dtype)
        columns[:, :, i] = x[key]
    return columns.reshape(x.shape[0], x.shape[1] * math.prod(kernel), -1)


def _col2im(columns: Any, spatial: Any, kernel: Any, stride: Any, dilate: Any, pad: Any) -> Any:
    pad = pad or (0,) * len(kernel)
    n, k = columns.shape[0], math.prod(kernel)
    c = columns.shape[1] // k
    out: Any = np.zeros((n, c, *[m + 2 * p for m, p in zip(spatial, pad)]), columns.dtype)
    for i, key, counts in _windows(spatial, kernel, stride, dilate, pad):
        out[key] += columns.reshape(n, c, k, *counts)[:, :, i]
    if any(pad):
        out = np.array(out[(Ellipsis, *[slice(p, p + m) for m, p in zip(spatial, pad)])], order="C")
    return out


@kernel("col2im", numpy=True)
def col2im(x: Any, *, output_size: Any, kernel: Any, stride: Any, dilate: Any, pad: Any) -> Any:
    return _col2im(x, output_size, kernel, stride, dilate, pad)


@kernel("_im2col_backward", numpy=True)
def im2col_backward(g: Any, x: Any, *, kernel: Any, stride: Any, dilate: Any, pad: Any) -> Any:
    return _col2im(g, x.shape[2:], kernel, stride, dilate, pad)
