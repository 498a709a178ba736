"""Kernels of image operators, bounding boxes, regions of interest and spatial sampling.

Pixel arithmetic is in :mod:`mxcore.oplib.pixels`. Everything here is for NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import pixels
from ..table import kernel

# ---------------------------------------------------------------------------------------------------------------
# Images


@kernel("_image_to_tensor", numpy=True)
def to_tensor(x: Any) -> Any:
    return pixels.to_tensor(x)


@kernel("_image_normalize", numpy=True)
def normalize(x: Any, *, mean: Any, std: Any) -> Any:
    return pixels.normalize(x, mean, std)


@kernel("_image_resize", numpy=True)
def resize(x: Any, *, size: Any, keep_ratio: bool, interp: int) -> Any:
    height, width = pixels.target_size(x.shape[-3], x.shape[-2], size, keep_ratio)
    y = pixels.resize(x, height, width, interp)
    return y.copy() if np.may_share_memory(x, y) else np.ascontiguousarray(y)


@kernel("_image_crop", numpy=True)
def crop(data: Any, *, x: int, y: int, width: int, height: int) -> Any:
    return data[..., y : y + height, x : x + width, :].copy()


@kernel("_backward_image_crop", numpy=True)
def backward_crop(g: Any, like: Any, *, x: int, y: int, width: int, height: int) -> Any:
    d = np.zeros(like.shape, g.dtype)
    d[..., y : y + height, x : x + width, :] = g
    return d


@kernel("_image_flip_left_right", numpy=True)
def flip_left_right(x: Any) -> Any:
    return x[..., ::-1, :].copy()


@kernel("_image_flip_top_bottom", numpy=True)
def flip_top_bottom(x: Any) -> Any:
    return x[..., ::-1, :, :].copy()


@kernel("_image_random_flip_left_right", numpy=True)
def random_flip_left_right(x: Any, *, rng: Any) -> Any:
    return flip_left_right(x) if rng.random() < 0.5 else x.copy()


@kernel("_image_random_flip_top_bottom", numpy=True)
def random_flip_top_bottom(x: Any, *, rng: Any) -> Any:
    return flip_top_bottom(x) if rng.random() < 0.5 else x.copy()


def _by_factor(change: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *, rng, min_factor, max_factor: change(x, rng.uniform(min_factor, max_factor))


for _change in (pixels.brightness, pixels.contrast, pixels.saturation, pixels.hue):
    kernel(f"_image_random_{_change.__name__}", numpy=True)(_by_factor(_change))


@kernel("_image_random_color_jitter", numpy=True)
def random_color_jitter(x: Any, *, rng: Any, brightness: float, contrast: float, saturation: float, hue: float) -> Any:
    changes = (
        (pixels.brightness, brightness, 1.0),
        (pixels.contrast, contrast, 1.0),
        (pixels.saturation, saturation, 1.0),
        (pixels.hue, hue, 0.0),
    )
    y = x.copy()
    for i in rng.permutation(4):
        change, spread, centre = changes[i]
        if spread > 0:
            y = change(y, centre + rng.uniform(-spread, spread))
    return y


@kernel("_image_adjust_lighting", numpy=True)
def adjust_lighting(x: Any, *, alpha: Any) -> Any:
    return pixels.lighting(x, np.asarray(alpha))


@kernel("_image_random_lighting", numpy=True)
def random_lighting(x: Any, *, rng: Any, alpha_std: float) -> Any:
    return pixels.lighting(x, rng.normal(0.0, alpha_std, 3))


# ---------------------------------------------------------------------------------------------------------------
# Positions as arrays


@kernel("_pick_flat")
def pick_flat(xp: Any, x: Any, index: Any) -> Any:
    return xp.where(index >= 0, x.reshape(-1)[index], xp.zeros((), x.dtype))


@kernel("_put_flat", numpy=True)
def put_flat(g: Any, index: Any, like: Any) -> Any:
    y = np.zeros(like.size, g.dtype)
    known = index >= 0
    np.add.at(y, index[known], g[known])
    return y.reshape(like.shape)


# ---------------------------------------------------------------------------------------------------------------
# Boxes


def _corners(boxes: Any, format: str) -> Any:
    if format == "corner":
        return boxes
    half = boxes[..., 2:] / 2
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)


def _overlaps(a: Any, b: Any) -> Any:
    """Intersection over union of corner boxes that broadcast against each other."""
    size = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    np.maximum(size, 0, out=size)
    common = size[..., 0] * size[..., 1]
    union = _areas(a) + _areas(b) - common
    return np.where(common > 0, common / np.where(common > 0, union, 1), 0).astype(a.dtype, copy=False)


def _areas(a: Any) -> Any:
    return np.maximum(a[..., 2] - a[..., 0], 0) * np.maximum(a[..., 3] - a[..., 1], 0)


@kernel("_contrib_box_iou", numpy=True)
def box_iou(a: Any, b: Any, *, format: str) -> Any:
    left, right = _corners(a.reshape(-1, 4), format), _corners(b.reshape(-1, 4), format)
    return _overlaps(left[:, None], right[None]).reshape(a.shape[:-1] + b.shape[:-1])


#: Boxes whose overlaps with all later ones are computed at once.
_BLOCK = 128


def _suppress(boxes: Any, classes: Any, threshold: float, inclusive: bool = False) -> Any:
    """Return which of the boxes, sorted by score, are kept; ``classes`` None lets all suppress all."""
    n = len(boxes)
    alive = np.ones(n, bool)
    # Block by block: overlaps of many boxes at once are cheap, those of suppressed boxes are not needed.
    for start in range(0, n, _BLOCK):
        rows = start + np.flatnonzero(alive[start : start + _BLOCK])
        hits = _overlaps(boxes[rows, None], boxes[None, start:])
        hits = hits >= threshold if inclusive else hits > threshold
        if classes is not None:
            hits &= classes[rows, None] == classes[None, start:]
        spared = ~hits
        for i, kept in zip(rows.tolist(), spared):
            if alive[i]:
                alive[i + 1 :] &= kept[i + 1 - start :]
    return alive


@kernel("_contrib_box_nms", numpy=True)
def box_nms(
    x: Any,
    *,
    overlap_thresh: float,
    valid_thresh: float,
    topk: int,
    coord_start: int,
    score_index: int,
    id_index: int,
    background_id: int,
    force_suppress: bool,
    in_format: str,
    out_format: str,
) -> Any:
    n, width = x.shape[-2:]
    data = x.reshape(-1, n, width)
    every = np.arange(x.size).reshape(data.shape)
    if topk == 0:
        return x.copy(), every.reshape(x.shape)
    out, index = np.full(data.shape, -1, x.dtype), np.full(data.shape, -1, np.int64)
    coordinates = slice(coord_start, coord_start + 4)
    for rows, positions, y, where in zip(data, every, out, index):
        valid = rows[:, score_index] > valid_thresh
        if id_index >= 0:
            valid &= rows[:, id_index] != background_id
        chosen = np.flatnonzero(valid)
        chosen = chosen[np.argsort(-rows[chosen, score_index], kind="stable")]
        if topk > 0:
            chosen = chosen[:topk]
        classes = rows[chosen, id_index] if id_index >= 0 and not force_suppress else None
        kept = chosen[_suppress(_corners(rows[chosen, coordinates], in_format), classes, overlap_thresh)]
        y[: len(kept)] = rows[kept]
        where[: len(kept)] = positions[kept]
    if in_format != out_format:
        boxes = out[..., coordinates]
        # MXNet takes a negative first coordinate for an empty row, and leaves it.
        full = boxes[..., 0] >= 0
        b = boxes[full]
        if out_format == "center":
            boxes[full] = np.concatenate([(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]], 1)
        else:
            boxes[full] = _corners(b, "center")
    return out.reshape(x.shape), index.reshape(x.shape)


@kernel("_contrib_bipartite_matching", numpy=True)
def bipartite_matching(x: Any, *, is_ascend: bool, threshold: float, topk: int) -> Any:
    m, n = x.shape[-2:]
    scores = x.reshape(-1, m * n)
    rows, columns = np.full((len(scores), m), -1, x.dtype), np.full((len(scores), n), -1, x.dtype)
    for s, r, c in zip(scores, rows, columns):
        matches = 0
        for i in np.argsort(s if is_ascend else -s, kind="stable"):
            row, column = divmod(int(i), n)
            if r[row] >= 0 or c[column] >= 0:
                continue
            if not (s[i] < threshold if is_ascend else s[i] > threshold):
                break
            r[row], c[column] = column, row
            matches += 1
            # One more than topk, as MXNet.
            if (0 < topk < matches) or matches == min(m, n):
                break
    return rows.reshape(x.shape[:-1]), columns.reshape((*x.shape[:-2], n))


@kernel("_contrib_box_encode", numpy=True)
def box_encode(samples: Any, matches: Any, anchors: Any, refs: Any, means: Any, stds: Any) -> Any:
    used = samples > 0.5
    match = np.where(used, matches, 0).astype(np.int64)
    ref = np.take_along_axis(refs, match[..., None], 1)
    size = anchors[..., 2:] - anchors[..., :2]
    target = ref[..., 2:] - ref[..., :2]
    shift = ((ref[..., :2] + target * 0.5) - (anchors[..., :2] + size * 0.5)) / size
    with np.errstate(divide="ignore", invalid="ignore"):
        encoded = (np.concatenate([shift, np.log(target / size)], -1) - means) / stds
    mask = np.broadcast_to(used[..., None], anchors.shape)
    return np.where(mask, encoded, 0).astype(anchors.dtype), mask.astype(anchors.dtype)


@kernel("_contrib_box_decode", numpy=True)
def box_decode(
    x: Any, anchors: Any, *, std0: float, std1: float, std2: float, std3: float, clip: float, format: str
) -> Any:
    if format == "corner":
        size = anchors[..., 2:] - anchors[..., :2]
        centre = anchors[..., :2] + size * 0.5
    else:
        centre, size = anchors[..., :2], anchors[..., 2:]
    scaled = x * np.array([std0, std1, std2, std3], x.dtype)
    at = scaled[..., :2] * size + centre
    log = scaled[..., 2:]
    half = np.exp(np.minimum(log, clip) if clip > 0 else log) * size * 0.5
    return np.concatenate([at - half, at + half], -1).astype(x.dtype, copy=False)


# ---------------------------------------------------------------------------------------------------------------
# Single shot detection


@kernel("_contrib_MultiBoxPrior", numpy=True)
def multibox_prior(x: Any, *, sizes: Any, ratios: Any, clip: bool, steps: Any, offsets: Any) -> Any:
    h, w = x.shape[2:]
    step_y = steps[0] if steps[0] > 0 else 1.0 / h
    step_x = steps[1] if steps[1] > 0 else 1.0 / w
    shapes = [(s, ratios[0]) for s in sizes] + [(sizes[0], r) for r in ratios[1:]]
    half = np.array([(s * h / w * math.sqrt(r) / 2, s / math.sqrt(r) / 2) for s, r in shapes])
    cy, cx = np.meshgrid((np.arange(h) + offsets[0]) * step_y, (np.arange(w) + offsets[1]) * step_x, indexing="ij")
    centre = np.stack([cx, cy], -1)[:, :, None]
    boxes = np.concatenate([centre - half, centre + half], -1).reshape(1, -1, 4)
    return (np.clip(boxes, 0, 1) if clip else boxes).astype(x.dtype)


@kernel("_contrib_MultiBoxTarget", numpy=True)
def multibox_target(
    anchor: Any,
    label: Any,
    pred: Any,
    *,
    overlap_threshold: float,
    ignore_label: float,
    negative_mining_ratio: float,
    negative_mining_thresh: float,
    minimum_negative_samples: int,
    variances: Any,
) -> Any:
    anchors = anchor[0]
    n, batch = len(anchors), len(label)
    offsets, masks = np.zeros((batch, n, 4), anchor.dtype), np.zeros((batch, n, 4), anchor.dtype)
    classes = np.full((batch, n), ignore_label, anchor.dtype)
    size = anchors[:, 2:] - anchors[:, :2]
    centre = (anchors[:, :2] + anchors[:, 2:]) * 0.5
    for b in range(batch):
        ends = np.flatnonzero(label[b, :, 0] == -1)
        truth = label[b, : ends[0] if len(ends) else None]
        if not len(truth):
            continue
        overlap = _overlaps(anchors[:, None], truth[None, :, 1:5])
        match = np.full(n, -1)
        free = overlap.copy()
        for _ in range(len(truth)):
            best, gt = divmod(int(free.argmax()), len(truth))
            if free[best, gt] <= 1e-6:
                break
            match[best] = gt
            free[best], free[:, gt] = -1, -1
        positive = match >= 0
        closest, most = overlap.argmax(1), overlap.max(1)
        if overlap_threshold > 0:
            more = ~positive & (most > overlap_threshold)
            match[more] = closest[more]
            positive |= more
        negative = ~positive
        if negative_mining_ratio > 0:
            wanted = min(int(positive.sum() * negative_mining_ratio), int(negative.sum()))
            candidates = np.flatnonzero(negative & (most < negative_mining_thresh))
            e = np.exp(pred[b] - pred[b].max(0))
            sure = e[0, candidates] / e[:, candidates].sum(0)
            negative = np.zeros(n, bool)
            negative[candidates[np.argsort(sure, kind="stable")[:wanted]]] = True
        classes[b, negative] = 0
        boxes = truth[match[positive], 1:5]
        target = boxes[:, 2:] - boxes[:, :2]
        shift = ((boxes[:, :2] + boxes[:, 2:]) * 0.5 - centre[positive]) / size[positive]
        with np.errstate(divide="ignore"):
            log = np.log(target / size[positive])
        offsets[b, positive] = np.concatenate([shift, log], 1) / np.array(variances, anchor.dtype)
        masks[b, positive] = 1
        classes[b, positive] = truth[match[positive], 0] + 1
    return offsets.reshape(batch, -1), masks.reshape(batch, -1), classes


@kernel("_contrib_MultiBoxDetection", numpy=True)
def multibox_detection(
    prob: Any,
    loc: Any,
    anchor: Any,
    *,
    clip: bool,
    threshold: float,
    background_id: int,
    nms_threshold: float,
    force_suppress: bool,
    variances: Any,
    nms_topk: int,
) -> Any:
    batch, _, n = prob.shape
    boxes = box_decode(
        loc.reshape(batch, n, 4),
        anchor,
        std0=variances[0],
        std1=variances[1],
        std2=variances[2],
        std3=variances[3],
        clip=-1.0,
        format="corner",
    )
    if clip:
        boxes = np.clip(boxes, 0, 1)
    out = np.full((batch, n, 6), -1, prob.dtype)
    for b in range(batch):
        score = prob[b, 1:].max(0)
        found = np.flatnonzero(score >= threshold)
        rows = np.concatenate([prob[b, 1:, found].argmax(1)[:, None], score[found, None], boxes[b, found]], 1)
        if 0 < nms_threshold <= 1 and len(rows):
            order = np.argsort(-rows[:, 1], kind="stable")
            kept = order[:nms_topk] if 0 < nms_topk < len(order) else order
            # Beyond topk MXNet leaves the unsorted rows, without a class.
            rows = np.concatenate([rows[kept], rows[len(kept) :]])
            rows[len(kept) :, 0] = -1
            best = rows[: len(kept)]
            alive = _suppress(best[:, 2:], None if force_suppress else best[:, 0], nms_threshold, inclusive=True)
            best[~alive, 0] = -1
        out[b, : len(rows)] = rows
    return out


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
