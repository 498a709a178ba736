"""Kernels of space and depth, diagonals and patches. Results never share memory with an input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...operators.blocks import patch_counts
from ..table import kernel
from .fresh import fresh, placed


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
