"""Kernels that sample feature maps in regions of interest and at the points of a grid, for NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..table import kernel

# ---------------------------------------------------------------------------------------------------------------
# Regions of interest


def _weights(start: float, length: float, bins: int, samples: int, size: int, dtype: Any) -> Any:
    """Return (bins, size): how much of each pixel along one axis goes into each bin.

    Bilinear interpolation at equidistant samples is a product of the two axes, so two such matrices do all of it.
    """
    step = length / bins
    at = start + np.arange(bins)[:, None] * step + (np.arange(samples) + 0.5) * step / samples
    inside = (at >= -1.0) & (at <= size)
    at = np.clip(at, 0.0, size - 1)
    low = np.minimum(at.astype(np.int64), max(size - 2, 0))
    share = at - low
    w = np.zeros((bins, size))
    row = np.broadcast_to(np.arange(bins)[:, None], at.shape)
    np.add.at(w, (row, low), np.where(inside, 1.0 - share, 0.0))
    np.add.at(w, (row, np.minimum(low + 1, size - 1)), np.where(inside, share, 0.0))
    return (w / samples).astype(dtype)


def _regions(rois: Any, shape: Any, pooled: Any, scale: float, sample_ratio: int, aligned: bool, dtype: Any) -> Any:
    """Yield ``(index in rois, index in batch, rows, columns)`` with the weights of each region."""
    h, w = shape
    for r, roi in enumerate(np.asarray(rois, np.float64)):
        batch = int(roi[0]) if len(roi) == 5 else 0
        if batch < 0:
            continue
        x0, y0, x1, y1 = roi[-4:] * scale - (0.5 if aligned else 0.0)
        width, height = x1 - x0, y1 - y0
        if aligned:
            if width <= 0 or height <= 0:
                raise ValueError(f"region {r} is empty: {roi.tolist()}; with aligned=True it must have an area")
        else:
            width, height = max(width, 1.0), max(height, 1.0)
        ny = sample_ratio if sample_ratio > 0 else math.ceil(height / pooled[0])
        nx = sample_ratio if sample_ratio > 0 else math.ceil(width / pooled[1])
        yield (
            r,
            batch,
            _weights(y0, height, pooled[0], ny, h, dtype),
            _weights(x0, width, pooled[1], nx, w, dtype),
        )


@kernel("_contrib_ROIAlign", numpy=True)
def roi_align(
    x: Any,
    rois: Any,
    *,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int,
    position_sensitive: bool,
    aligned: bool,
) -> Any:
    ph, pw = pooled_size
    channels = x.shape[1] // (ph * pw) if position_sensitive else x.shape[1]
    out = np.zeros((len(rois), channels, ph, pw), x.dtype)
    for r, b, wy, wx in _regions(rois, x.shape[2:], pooled_size, spatial_scale, sample_ratio, aligned, x.dtype):
        if position_sensitive:
            parts = x[b].reshape(channels, ph, pw, *x.shape[2:])
            out[r] = np.einsum("ph,cpqhw,qw->cpq", wy, parts, wx, optimize=True)
        else:
            out[r] = wy @ x[b] @ wx.T
    return out


@kernel("_backward_ROIAlign", numpy=True)
def backward_roi_align(
    g: Any,
    rois: Any,
    like: Any,
    *,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int,
    position_sensitive: bool,
    aligned: bool,
) -> Any:
    d = np.zeros(like.shape, g.dtype)
    for r, b, wy, wx in _regions(rois, like.shape[2:], pooled_size, spatial_scale, sample_ratio, aligned, g.dtype):
        if position_sensitive:
            d[b] += np.einsum("ph,cpq,qw->cpqhw", wy, g[r], wx, optimize=True).reshape(like.shape[1:])
        else:
            d[b] += wy.T @ g[r] @ wx
    return d


@kernel("ROIPooling", numpy=True)
def roi_pooling(x: Any, rois: Any, *, pooled_size: Any, spatial_scale: float) -> Any:
    batch, channels, height, width = x.shape
    ph, pw = pooled_size
    out = np.zeros((len(rois), channels, ph, pw), x.dtype)
    where = np.full(out.shape, -1, np.int64)
    plane = np.arange(channels)[:, None] * (height * width)
    for r, roi in enumerate(np.asarray(rois, np.float64)):
        b = int(roi[0])
        if not 0 <= b < batch:
            continue
        scaled = roi[1:] * spatial_scale
        x0, y0, x1, y1 = np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64)
        rows, columns = _bins(y0, y1, ph, height), _bins(x0, x1, pw, width)
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                if bottom <= top or right <= left:
                    continue
                part = x[b, :, top:bottom, left:right].reshape(channels, -1)
                at = part.argmax(1)
                out[r, :, i, j] = part[np.arange(channels), at]
                y, c = np.divmod(at, right - left)
                where[r, :, i, j] = b * channels * height * width + plane[:, 0] + (top + y) * width + left + c
    return out, where


def _bins(start: int, end: int, bins: int, size: int) -> list[tuple[int, int]]:
    step = max(end - start + 1, 1) / bins
    edges = [(math.floor(i * step) + start, math.ceil((i + 1) * step) + start) for i in range(bins)]
    return [(min(max(int(a), 0), size), min(max(int(b), 0), size)) for a, b in edges]


# ---------------------------------------------------------------------------------------------------------------
# Spatial sampling


def _base(shape: Any, dtype: Any) -> Any:
    """Return (3, H * W): x and y from -1 to 1, and 1."""
    h, w = shape
    y, x = np.meshgrid(_line(h), _line(w), indexing="ij")
    return np.stack([x.ravel(), y.ravel(), np.ones(h * w)]).astype(dtype)


def _line(n: int) -> Any:
    return np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)


def _pixels_of_flow(shape: Any, dtype: Any) -> Any:
    h, w = shape
    return np.array([max(w - 1, 1) / 2, max(h - 1, 1) / 2], dtype).reshape(1, 2, 1, 1)


@kernel("GridGenerator", numpy=True)
def grid_generator(x: Any, *, transform_type: str, target_shape: Any) -> Any:
    if transform_type == "affine":
        return (x.reshape(-1, 3) @ _base(target_shape, x.dtype)).reshape(len(x), 2, *target_shape)
    h, w = x.shape[2:]
    at = np.stack(np.meshgrid(np.arange(w), np.arange(h))).astype(x.dtype)
    return (x + at) / _pixels_of_flow((h, w), x.dtype) - x.dtype.type(1)


@kernel("_backward_GridGenerator", numpy=True)
def backward_grid_generator(g: Any, *, transform_type: str, target_shape: Any) -> Any:
    if transform_type == "affine":
        return (g.reshape(2 * len(g), -1) @ _base(target_shape, g.dtype).T).reshape(len(g), 6)
    return g / _pixels_of_flow(g.shape[2:], g.dtype)


def _taps(grid: Any, axis: int, size: int, order: int) -> Any:
    """Yield ``(position, weight)`` of the two pixels along one axis; weights are derivatives of the given order."""
    scale = grid.dtype.type((size - 1) / 2)
    at = (grid[:, axis] + 1) * scale
    low = np.floor(at)
    share = at - low
    low = low.astype(np.int64)
    if order == 0:
        weights = (1 - share, share)
    elif order == 1:
        weights = (np.full_like(share, -scale), np.full_like(share, scale))
    else:
        return
    for position, weight in zip((low, low + 1), weights):
        inside = (position >= 0) & (position < size)
        yield np.where(inside, position, 0), np.where(inside, weight, 0)


@kernel("_bilinear_samples", numpy=True)
def bilinear_samples(x: Any, grid: Any, *, dx: int, dy: int) -> Any:
    n, channels, height, width = x.shape
    out = np.zeros((n, channels, *grid.shape[2:]), x.dtype)
    batch = np.arange(n)[:, None, None]
    for row, wy in _taps(grid, 1, height, dy):
        for column, wx in _taps(grid, 0, width, dx):
            # (N, Ho, Wo, C): the channels follow the indexed axes.
            values = x[batch, :, row, column]
            values *= (wy * wx)[..., None]
            out += np.moveaxis(values, -1, 1)
    return out


@kernel("_bilinear_spread", numpy=True)
def bilinear_spread(g: Any, grid: Any, like: Any, *, dx: int, dy: int) -> Any:
    n, channels, height, width = like.shape
    d = np.zeros((n * height * width, channels), g.dtype)
    values = np.moveaxis(g, 1, -1)
    batch = np.arange(n)[:, None, None] * (height * width)
    for row, wy in _taps(grid, 1, height, dy):
        for column, wx in _taps(grid, 0, width, dx):
            at = (batch + row * width + column).reshape(-1)
            np.add.at(d, at, (values * (wy * wx)[..., None]).reshape(-1, channels))
    return np.ascontiguousarray(np.moveaxis(d.reshape(n, height, width, channels), -1, 1))


@kernel("BilinearSampler", numpy=True)
def bilinear_sampler(x: Any, grid: Any, *, cudnn_off: Any) -> Any:
    return bilinear_samples(x, grid, dx=0, dy=0)


@kernel("SpatialTransformer", numpy=True)
def spatial_transformer(
    x: Any, loc: Any, *, target_shape: Any, transform_type: str, sampler_type: str, cudnn_off: Any
) -> Any:
    grid = grid_generator(loc, transform_type="affine", target_shape=target_shape)
    return bilinear_samples(x, grid, dx=0, dy=0)
