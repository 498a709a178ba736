"""Kernels of bounding boxes and of single shot detection, for NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..table import kernel

# ---------------------------------------------------------------------------------------------------------------
# Boxes


def _corners(boxes: Any, format: str) -> Any:
    if format == "corner":
        return boxes
    half = boxes[..., 2:] / 2
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)


def _overlaps(a: Any, b: Any) -> Any:
    """Intersection over union of corner boxes that broadcast against each other."""
    # Width and height apart: an inner axis of two is slow.
    common, height = (
        np.maximum(np.minimum(a[..., i + 2], b[..., i + 2]) - np.maximum(a[..., i], b[..., i]), 0) for i in (0, 1)
    )
    common *= height
    union = _areas(a) + _areas(b)
    union -= common
    ratio = np.zeros(common.shape, np.result_type(common, np.float16))
    return np.divide(common, union, out=ratio, where=common > 0).astype(a.dtype, copy=False)


def _areas(a: Any) -> Any:
    return np.maximum(a[..., 2] - a[..., 0], 0) * np.maximum(a[..., 3] - a[..., 1], 0)


@kernel("_contrib_box_iou", numpy=True)
def box_iou(a: Any, b: Any, *, format: str) -> Any:
    left, right = _corners(a.reshape(-1, 4), format), _corners(b.reshape(-1, 4), format)
    return _overlaps(left[:, None], right[None]).reshape(a.shape[:-1] + b.shape[:-1])


#: Boxes whose overlaps with all that are left are computed at once.
_BLOCK = 64


def suppress(boxes: Any, classes: Any, threshold: float, inclusive: bool = False, limit: int | None = None) -> Any:
    """Return which of the boxes, sorted by score, are kept; ``classes`` None lets all suppress all.

    Right for the first ``limit`` that are kept: the search may end there.
    """
    kept = np.zeros(len(boxes), bool)
    rest, found = np.arange(len(boxes)), 0
    # Block by block: overlaps of many boxes at once are cheap, those of suppressed boxes are not needed.
    while len(rest) and (limit is None or found < limit):
        head = rest[:_BLOCK]
        hits = _overlaps(boxes[head, None], boxes[None, rest])
        hits = hits >= threshold if inclusive else hits > threshold
        if classes is not None:
            hits &= classes[head, None] == classes[None, rest]
        alive = np.ones(len(rest), bool)
        for i, spared in enumerate(~hits):
            if alive[i]:
                alive[i + 1 :] &= spared[i + 1 :]
        chosen = head[alive[: len(head)]]
        kept[chosen] = True
        found += len(chosen)
        rest = rest[len(head) :][alive[len(head) :]]
    return kept


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
        kept = chosen[suppress(_corners(rows[chosen, coordinates], in_format), classes, overlap_thresh)]
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
            alive = suppress(best[:, 2:], None if force_suppress else best[:, 0], nms_threshold, inclusive=True)
            best[~alive, 0] = -1
        out[b, : len(rows)] = rows
    return out
