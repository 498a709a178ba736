"""Records of region proposals: from scores and offsets of anchors to the regions that a second network looks at.

Boxes are ``(xmin, ymin, xmax, ymax)`` in pixels of the image, the last pixel included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import ParameterError
from .attributes import Bool, Float, Floats, Int
from .checks import check_floats, refused
from .record import ZERO_GRADIENT, Sample, Spec, error, sample
from .registry import operator

_ATTRIBUTES = {
    "rpn_pre_nms_top_n": Int(6000),
    "rpn_post_nms_top_n": Int(300),
    "threshold": Float(0.7),
    "rpn_min_size": Int(16),
    "scales": Floats((4.0, 8.0, 16.0, 32.0)),
    "ratios": Floats((0.5, 1.0, 2.0)),
    "feature_stride": Int(16),
    "output_score": Bool(False),
    "iou_loss": Bool(False),
}


def _infer(name: str, single: bool) -> Callable[..., Any]:
    def infer(a: Any, prob: Spec, deltas: Spec, info: Spec) -> Any:
        for key in ("rpn_post_nms_top_n", "feature_stride"):
            if a[key] < 1:
                raise ParameterError(
                    f"operator '{name}': {key}={a[key]} must be at least 1.", operator=name, attribute=key
                )
        check_floats(name, prob)
        count = len(a["scales"]) * len(a["ratios"])
        if len(prob.shape) != 4 or prob.shape[1] != 2 * count:
            raise refused(
                name, f"cls_prob must be (N, {2 * count}, H, W) for {count} anchors (scales times ratios)", prob
            )
        batch, _, h, w = prob.shape
        if single and batch != 1:
            raise refused(name, "cls_prob must be of one image; MultiProposal takes several", prob)
        if deltas.shape != (batch, 4 * count, h, w) or info.shape != (batch, 3):
            raise refused(
                name, f"bbox_pred and im_info must be {(batch, 4 * count, h, w)} and {(batch, 3)}", deltas, info
            )
        n = batch * a["rpn_post_nms_top_n"]
        return Spec((n, 5), prob.dtype), Spec((n, 1), prob.dtype)

    return infer


def _samples(rng: Any, batch: int) -> list[Sample]:
    small: dict[str, Any] = {"scales": (1.0, 2.0), "ratios": (0.5, 1.0), "feature_stride": 4, "rpn_min_size": 2}
    return [
        sample(
            rng.uniform(0, 1, (batch, 8, 5, 6)),
            rng.standard_normal((batch, 16, 5, 6)) / 4,
            np.array([[18.0, 24, 1]] * batch),
            check_gradient=False,
            **small,
            **kw,
        )
        for kw in (
            {"rpn_post_nms_top_n": 7},
            {"rpn_pre_nms_top_n": 20, "rpn_post_nms_top_n": 30, "output_score": True},
            {"rpn_pre_nms_top_n": 0, "rpn_post_nms_top_n": 5, "threshold": 0.3, "iou_loss": True},
        )
    ]


def _ones(*shapes: tuple[int, ...]) -> list[Any]:
    return [np.ones(s, "float32") for s in shapes]


_DOC = """{summary}

Anchors of every scale and ratio lie around every cell of a feature map. They are moved by their offsets and cut at the
border of the image. Then the ``rpn_pre_nms_top_n`` with the best scores go through non-maximum suppression, and the
best ``rpn_post_nms_top_n`` of what is left are returned.

Parameters
----------
cls_prob : NDArray
    ({batch}, 2 A, H, W) for A = len(scales) len(ratios) anchors per cell: probabilities of background, then of objects.
bbox_pred : NDArray
    ({batch}, 4 A, H, W), offsets of each anchor.
im_info : NDArray
    ({batch}, 3): height and width of the image in pixels, and its scale.
rpn_pre_nms_top_n : int
    All boxes, if not positive.
rpn_post_nms_top_n : int
threshold : float
    Intersection over union above which a box is dropped.
rpn_min_size : int
    Boxes with a side below this, times the scale of the image, get the score -1, and are enlarged by it.
scales, ratios : tuple of float
    Sides of anchors in units of ``feature_stride``, and height by width.
feature_stride : int
    Pixels from one cell to the next. Cells outside the image get the score -1.
output_score : bool
    Return the scores too.
iou_loss : bool
    Offsets are pixels to add to the corners; otherwise as of ``box_decode``: shifts of the centre in units of the
    anchor's size, and logarithms of the change of size.

Returns
-------
NDArray or list of NDArray
    Regions ({rows}, 5), each the index of its image and a box; with ``output_score`` scores
    ({rows}, 1) too. Where fewer boxes are left they are repeated in turn. The gradient is 0.

Raises
------
ShapeError
    If shapes do not fit, or an image has more cells than the feature map.

Examples
--------
>>> import mxcore as mx
>>> prob = mx.nd.array([0, 0, 0.2, 0.9]).reshape((1, 2, 1, 2))
>>> regions = mx.nd.contrib.{call}(prob, mx.nd.zeros((1, 4, 1, 2)), mx.nd.array([[16, 32, 1]]),
...                                scales=(1,), ratios=(1,), rpn_post_nms_top_n=2)
>>> regions.asnumpy().tolist()
[[0.0, 16.0, 0.0, 31.0, 15.0], [0.0, 0.0, 0.0, 15.0, 15.0]]
"""


def _declare(call: str, single: bool, summary: str) -> None:
    name = f"_contrib_{call}"
    maps, offsets, info = (1, 2, 3, 3), (1, 4, 3, 3), (1, 3)
    one: dict[str, Any] = {"scales": (1.0,), "ratios": (1.0,)}
    refusals = [
        error(*_ones(maps, offsets, info), match="(N, 24, H, W) for 12 anchors"),
        error(*_ones(maps, maps, info), match="must be (1, 4, 3, 3) and (1, 3)", **one),
        error(*_ones(maps, offsets, info), match="rpn_post_nms_top_n=0", rpn_post_nms_top_n=0, **one),
        error(*_ones(maps, offsets, info), match="feature_stride=0", feature_stride=0, **one),
        error(*(x.astype("int32") for x in _ones(maps, offsets, info)), match="works on floats", **one),
        error(*_ones(maps, offsets), np.array([[64, 16, 1]], "float32"), match="has 4 x 1 cells", **one),
    ]
    if single:
        refusals.append(error(*_ones((2, 2, 3, 3), (2, 4, 3, 3), (2, 3)), match="of one image", **one))
    operator(
        name,
        "cls_prob bbox_pred im_info",
        _ATTRIBUTES,
        infer=_infer(name, single),
        outputs=2,
        visible=lambda a: 2 if a["output_score"] else 1,
        gradient=ZERO_GRADIENT,
        saves="",
        samples=lambda rng: _samples(rng, 1 if single else 2),
        errors=lambda: refusals,
        doc=_DOC.format(
            summary=summary,
            call=call,
            batch="1" if single else "N",
            rows="rpn_post_nms_top_n" if single else "N rpn_post_nms_top_n",
        ),
    )


_declare("Proposal", True, "Regions of one image that may hold an object, from what a region proposal network returns.")
_declare("MultiProposal", False, "Regions that may hold an object, of several images: ``Proposal`` of each.")
