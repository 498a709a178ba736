"""Kernels of region proposals, for NumPy.

Boxes hold pixels: one from ``xmin`` to ``xmax`` is ``xmax - xmin + 1`` wide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...spec.errors import ShapeError
from ..table import kernel
from .boxes import suppress


def _anchors(ratios: tuple[float, ...], scales: tuple[float, ...], stride: int) -> Any:
    """Return boxes (len(ratios) len(scales), 4), float32, around the first cell: every scale of the first ratio first."""
    # In float32 as in MXNet, for what is rounded here decides the size in whole pixels.
    ratio, scale = np.array(ratios, np.float32)[:, None], np.array(scales, np.float32)
    width = np.floor(np.sqrt(np.floor(np.float32(stride * stride) / ratio)) + np.float32(0.5)) * scale
    height = np.floor(width / scale * ratio + np.float32(0.5)) * scale
    half = (np.stack([width, height], -1).reshape(-1, 2) - 1) / 2
    centre = np.float32((stride - 1) / 2)
    return np.concatenate([centre - half, centre + half], 1)


def _decoded(anchors: Any, deltas: Any, iou_loss: bool) -> Any:
    if iou_loss:
        return anchors + deltas
    size = anchors[:, 2:] - anchors[:, :2] + 1
    centre = deltas[:, :2] * size + (anchors[:, :2] + (size - 1) / 2)
    with np.errstate(over="ignore"):  # an infinite box ends at the border of the image
        half = (np.exp(deltas[:, 2:]) * size - 1) / 2
    return np.concatenate([centre - half, centre + half], 1)


def _proposals(
    name: str,
    prob: Any,
    deltas: Any,
    info: Any,
    *,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    threshold: float,
    rpn_min_size: int,
    scales: tuple[float, ...],
    ratios: tuple[float, ...],
    feature_stride: int,
    output_score: bool,
    iou_loss: bool,
) -> Any:
    batch, channels, h, w = prob.shape
    count, n = channels // 2, rpn_post_nms_top_n
    dtype = np.result_type(prob.dtype, np.float32)
    cells = np.stack(np.meshgrid(np.arange(w), np.arange(h)), -1) * feature_stride
    anchors = (np.tile(cells, 2)[:, :, None] + _anchors(ratios, scales, feature_stride)).reshape(-1, 4).astype(dtype)
    out, scores = np.empty((batch, n, 5), prob.dtype), np.empty((batch, n), prob.dtype)
    for b, (height, width, zoom) in enumerate(info.astype(dtype)):
        real_h, real_w = int(height / feature_stride), int(width / feature_stride)
        if real_h > h or real_w > w:
            raise ShapeError(
                f"operator '{name}': image {b} of {height:g} x {width:g} pixels has {real_h} x {real_w} cells at "
                f"feature_stride={feature_stride}, but cls_prob {prob.shape} has only {h} x {w}. Check im_info and "
                "feature_stride.",
                operator=name,
                shapes=[prob.shape],
            )
        delta = deltas[b].reshape(count, 4, h, w).transpose(2, 3, 0, 1).reshape(-1, 4).astype(dtype, copy=False)
        border = np.array([width - 1, height - 1] * 2, dtype)
        boxes = np.maximum(np.minimum(_decoded(anchors, delta, iou_loss), border), 0)
        score = prob[b, count:].transpose(1, 2, 0).astype(dtype)  # a copy
        score[real_h:] = -1
        score[:, real_w:] = -1
        score = score.reshape(-1)
        least = rpn_min_size * zoom
        small = ((boxes[:, 2:] - boxes[:, :2] + 1) < least).any(1)
        boxes[small] += np.array([-least / 2, -least / 2, least / 2, least / 2], dtype)
        score[small] = -1
        order = np.argsort(-score, kind="stable")
        if rpn_pre_nms_top_n > 0:
            order = order[:rpn_pre_nms_top_n]
        kept = order[suppress(boxes[order] + np.array([0, 0, 1, 1], dtype), None, threshold, limit=n)][:n]
        rows = np.resize(kept, n)
        out[b, :, 0], out[b, :, 1:], scores[b] = b, boxes[rows], score[rows]
    return out.reshape(-1, 5), scores.reshape(-1, 1)


@kernel("_contrib_Proposal", numpy=True)
def proposal(prob: Any, deltas: Any, info: Any, **attributes: Any) -> Any:
    return _proposals("_contrib_Proposal", prob, deltas, info, **attributes)


@kernel("_contrib_MultiProposal", numpy=True)
def multi_proposal(prob: Any, deltas: Any, info: Any, **attributes: Any) -> Any:
    return _proposals("_contrib_MultiProposal", prob, deltas, info, **attributes)
