"""Records of operators on bounding boxes, and of single shot detection with them.

Boxes are ``(xmin, ymin, xmax, ymax)`` (format "corner") or ``(x, y, width, height)`` around the centre (format "center").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec.errors import ParameterError
from .attributes import Bool, Choice, Float, Floats, Int
from .checks import refused
from .documentation import documentation
from .record import ZERO_GRADIENT, Joint, Spec, error, sample
from .registry import operator
from .selection import by_position

# ---------------------------------------------------------------------------------------------------------------
# Boxes

_FORMAT = Choice("corner", choices=("corner", "center"))


def _boxes(name: str, *specs: Spec) -> None:
    for s in specs:
        if len(s.shape) < 2 or s.shape[-1] != 4:
            raise refused(name, "boxes must be (..., N, 4)", *specs)


def _box_iou(a: Any, x: Spec, y: Spec) -> Spec:
    _boxes("_contrib_box_iou", x, y)
    return Spec(x.shape[:-1] + y.shape[:-1], x.dtype)


def _iou_reference(a: Any, b: Any, format: str = "corner") -> Any:
    def corners(box: Any) -> Any:
        if format == "corner":
            return box
        x, y, w, h = box
        return x - w / 2, y - h / 2, x + w / 2, y + h / 2

    out = np.zeros((len(a), len(b)))
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            p1, q1 = corners(p), corners(q)
            w = max(min(p1[2], q1[2]) - max(p1[0], q1[0]), 0)
            h = max(min(p1[3], q1[3]) - max(p1[1], q1[1]), 0)
            areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (p1, q1)]
            out[i, j] = w * h / (sum(areas) - w * h) if w * h else 0
    return out


def _some_boxes(rng: Any, n: int) -> Any:
    low = rng.uniform(0, 1, (n, 2))
    return np.concatenate([low, low + rng.uniform(0.2, 1, (n, 2))], 1)


operator(
    "_contrib_box_iou",
    "lhs rhs",
    {"format": _FORMAT},
    infer=_box_iou,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=_iou_reference,
    samples=lambda rng: [
        sample(_some_boxes(rng, 3), _some_boxes(rng, 4), check_gradient=False),
        sample(_some_boxes(rng, 3), _some_boxes(rng, 4), format="center", check_gradient=False),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones((2, 4), "float32"), match="(..., N, 4)")],
    doc=documentation(
        "Intersection over union of every box on the left with every box on the right.",
        "lhs, rhs : NDArray\n    (M..., 4) and (N..., 4).\nformat : {'corner', 'center'}",
        "NDArray\n    (M..., N...). Its gradient is 0.",
        ">>> mx.nd.contrib.box_iou(mx.nd.array([[0, 0, 2, 2]]), mx.nd.array([[0, 0, 1, 1], [5, 5, 6, 6]])).asnumpy().tolist()\n"
        "[[0.25, 0.0]]",
    ),
)


def _box_nms(a: Any, x: Spec) -> Any:
    name = "_contrib_box_nms"
    width = x.shape[-1] if x.shape else 0
    need = max(a["coord_start"] + 4, a["score_index"] + 1, a["id_index"] + 1)
    if len(x.shape) < 2 or width < need:
        raise refused(name, f"data must be (..., N, K) with K >= {need} for the given indices", x)
    return x, Spec(x.shape, np.dtype(np.int64))


operator(
    "_contrib_box_nms",
    "data",
    {
        "overlap_thresh": Float(0.5),
        "valid_thresh": Float(0.0),
        "topk": Int(-1),
        "coord_start": Int(2),
        "score_index": Int(1),
        "id_index": Int(-1),
        "background_id": Int(-1),
        "force_suppress": Bool(False),
        "in_format": _FORMAT,
        "out_format": _FORMAT,
    },
    aliases=("_contrib_box_non_maximum_suppression",),
    infer=_box_nms,
    outputs=2,
    visible=1,
    gradient=Joint(by_position),
    saves="output",
    samples=lambda rng: [
        sample(
            np.concatenate([rng.integers(0, 2, (5, 1)), rng.uniform(0.1, 1, (5, 1)), _some_boxes(rng, 5)], 1).astype(
                float
            ),
            # Differences would make all classes different.
            check_gradient="id_index" not in kw,
            **kw,
        )
        for kw in ({}, {"topk": 2}, {"id_index": 0, "overlap_thresh": 0.1}, {"valid_thresh": 2.0})
    ],
    errors=lambda: [error(np.ones((2, 5), "float32"), match="K >= 6")],
    doc=documentation(
        "Non-maximum suppression: of boxes that overlap by more than a threshold, keep the one with the best score.",
        "data : NDArray\n    (..., N, K), a row of class, score and coordinates for each box.\noverlap_thresh : float\n"
        "    Intersection over union above which a box is dropped.\nvalid_thresh : float\n    Boxes of this score or less "
        "are dropped.\ntopk : int\n    How many of the best boxes are looked at; all if negative.\ncoord_start, score_index, "
        "id_index : int\n    Where coordinates, score and class are in a row; no classes if negative.\nbackground_id : int\n"
        "    Boxes of this class are dropped.\nforce_suppress : bool\n    Boxes of different classes suppress each other "
        "too.\nin_format, out_format : {'corner', 'center'}",
        "NDArray\n    The kept rows, best first, then rows of -1.",
        ">>> boxes = mx.nd.array([[0, 0.5, 0, 0, 1, 1], [0, 0.9, 0, 0, 1, 1]])\n"
        ">>> mx.nd.contrib.box_nms(boxes)[:, 2:].asnumpy().tolist()\n[[0.0, 0.0, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]]",
    ),
)


def _bipartite(a: Any, x: Spec) -> Any:
    if len(x.shape) < 2:
        raise refused("_contrib_bipartite_matching", "scores must be (..., M, N)", x)
    return Spec(x.shape[:-1], x.dtype), Spec((*x.shape[:-2], x.shape[-1]), x.dtype)


operator(
    "_contrib_bipartite_matching",
    "data",
    {"is_ascend": Bool(False), "threshold": Float(), "topk": Int(-1)},
    infer=_bipartite,
    outputs=2,
    gradient=ZERO_GRADIENT,
    saves="",
    samples=lambda rng: [
        sample(rng.uniform(0, 1, (3, 4)), threshold=0.1, check_gradient=False),
        sample(rng.uniform(0, 1, (2, 3, 2)), threshold=0.8, is_ascend=True, topk=1, check_gradient=False),
    ],
    errors=lambda: [error(np.ones(3, "float32"), threshold=0.1, match="(..., M, N)")],
    doc=documentation(
        "Match rows and columns greedily by their scores.",
        "data : NDArray\n    Scores (..., M, N).\nis_ascend : bool\n    Small scores are good.\nthreshold : float\n    Worse "
        "scores do not match.\ntopk : int\n    Matching stops after more than this many matches; no limit if not positive.",
        "list of NDArray\n    For each row its column (..., M), for each column its row (..., N), -1 where there is none.",
        ">>> rows, columns = mx.nd.contrib.bipartite_matching(mx.nd.array([[0.5, 0.6], [0.1, 0.2]]), threshold=0.05)\n"
        ">>> rows.asnumpy().tolist(), columns.asnumpy().tolist()\n([1.0, 0.0], [1.0, 0.0])",
    ),
)


def _box_encode(a: Any, samples: Spec, matches: Spec, anchors: Spec, refs: Spec, means: Spec, stds: Spec) -> Any:
    name = "_contrib_box_encode"
    if len(anchors.shape) != 3 or len(refs.shape) != 3 or anchors.shape[2] != 4 or refs.shape[2] != 4:
        raise refused(name, "anchors and refs must be (B, N, 4) and (B, M, 4)", anchors, refs)
    if samples.shape != anchors.shape[:2] or matches.shape != anchors.shape[:2]:
        raise refused(name, f"samples and matches must be {anchors.shape[:2]}", samples, matches)
    if means.shape != (4,) or stds.shape != (4,):
        raise refused(name, "means and stds must be (4,)", means, stds)
    return anchors, anchors


def _box_encode_reference(samples: Any, matches: Any, anchors: Any, refs: Any, means: Any, stds: Any) -> Any:
    targets, masks = np.zeros(anchors.shape), np.zeros(anchors.shape)
    for b, n in np.argwhere(samples > 0.5):
        r, a = refs[b, int(matches[b, n])], anchors[b, n]
        (aw, ah), (rw, rh) = a[2:] - a[:2], r[2:] - r[:2]
        d = ((r[:2] + r[2:]) - (a[:2] + a[2:])) / 2
        targets[b, n] = (np.array([d[0] / aw, d[1] / ah, np.log(rw / aw), np.log(rh / ah)]) - means) / stds
        masks[b, n] = 1
    return targets, masks


operator(
    "_contrib_box_encode",
    "samples matches anchors refs means stds",
    infer=_box_encode,
    outputs=2,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=_box_encode_reference,
    samples=lambda rng: [
        sample(
            np.array([[1.0, -1, 1]]),
            np.array([[1.0, 0, 0]]),
            _some_boxes(rng, 3)[None],
            _some_boxes(rng, 2)[None],
            np.array([0.1, 0.2, 0.3, 0.4]),
            np.array([0.1, 0.1, 0.2, 0.2]),
            check_gradient=False,
        )
    ],
    doc=documentation(
        "Targets of box regression: normalized offsets of matched boxes from anchors.",
        "samples : NDArray\n    (B, N), above 0.5 for the anchors that count.\nmatches : NDArray\n    (B, N), which box of "
        "refs each anchor is matched with.\nanchors, refs : NDArray\n    (B, N, 4) and (B, M, 4), format corner.\n"
        "means, stds : NDArray\n    (4,).",
        "list of NDArray\n    Targets and masks, (B, N, 4).",
        ">>> one = mx.nd.ones((1, 1))\n>>> box = mx.nd.array([[[0, 0, 2, 2]]])\n"
        ">>> targets, masks = mx.nd.contrib.box_encode(one, one * 0, box, box, mx.nd.zeros((4,)), mx.nd.ones((4,)))\n"
        ">>> targets.asnumpy().ravel().tolist()\n[0.0, 0.0, 0.0, 0.0]",
    ),
)


def _box_decode(a: Any, x: Spec, anchors: Spec) -> Spec:
    if len(x.shape) != 3 or len(anchors.shape) != 3 or anchors.shape[1:] != (x.shape[1], 4) or x.shape[2] != 4:
        raise refused("_contrib_box_decode", "data and anchors must be (B, N, 4) and (1, N, 4)", x, anchors)
    return x


def _box_decode_reference(
    x: Any,
    anchors: Any,
    std0: float = 1.0,
    std1: float = 1.0,
    std2: float = 1.0,
    std3: float = 1.0,
    clip: float = -1.0,
    format: str = "center",
) -> Any:
    a = anchors[0]
    if format == "corner":
        a = np.concatenate([(a[:, :2] + a[:, 2:]) / 2, a[:, 2:] - a[:, :2]], 1)
    centre = x[..., :2] * [std0, std1] * a[:, 2:] + a[:, :2]
    size = x[..., 2:] * [std2, std3]
    size = np.exp(np.minimum(size, clip) if clip > 0 else size) * a[:, 2:] / 2
    return np.concatenate([centre - size, centre + size], -1)


operator(
    "_contrib_box_decode",
    "data anchors",
    {
        "std0": Float(1.0),
        "std1": Float(1.0),
        "std2": Float(1.0),
        "std3": Float(1.0),
        "clip": Float(-1.0),
        "format": Choice("center", choices=("corner", "center")),
    },
    infer=_box_decode,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=_box_decode_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 4)), _some_boxes(rng, 3)[None], check_gradient=False, **kw)
        for kw in ({}, {"format": "corner", "std0": 0.1, "std3": 0.2}, {"clip": 0.2})
    ],
    errors=lambda: [error(np.ones((2, 3, 4), "float32"), np.ones((1, 2, 4), "float32"), match="(1, N, 4)")],
    doc=documentation(
        "Boxes from regression outputs: the inverse of ``box_encode``.",
        "data : NDArray\n    (B, N, 4).\nanchors : NDArray\n    (1, N, 4).\nstd0, std1, std2, std3 : float\nclip : float\n"
        "    Bound of the logarithms of the sizes, if positive.\nformat : {'center', 'corner'}\n    Of the anchors.",
        "NDArray\n    (B, N, 4), format corner.",
        ">>> anchor = mx.nd.array([[[1, 1, 2, 2]]])\n"
        ">>> mx.nd.contrib.box_decode(mx.nd.zeros((1, 1, 4)), anchor).asnumpy().ravel().tolist()\n[0.0, 0.0, 2.0, 2.0]",
    ),
)

# ---------------------------------------------------------------------------------------------------------------
# Single shot detection


def _prior(a: Any, x: Spec) -> Spec:
    name = "_contrib_MultiBoxPrior"
    if len(x.shape) != 4:
        raise refused(name, "data must be (N, C, H, W)", x)
    if len(a["steps"]) != 2 or len(a["offsets"]) != 2:
        raise ParameterError(f"operator '{name}': steps and offsets must be two numbers (y, x).", operator=name)
    count = x.shape[2] * x.shape[3] * (len(a["sizes"]) + len(a["ratios"]) - 1)
    return Spec((1, count, 4), x.dtype)


operator(
    "_contrib_MultiBoxPrior",
    "data",
    {
        "sizes": Floats((1.0,)),
        "ratios": Floats((1.0,)),
        "clip": Bool(False),
        "steps": Floats((-1.0, -1.0)),
        "offsets": Floats((0.5, 0.5)),
    },
    infer=_prior,
    gradient=ZERO_GRADIENT,
    saves="",
    samples=lambda rng: [
        sample(np.zeros((1, 2, 2, 3)), sizes=(0.5, 0.2), ratios=(1.0, 2.0), check_gradient=False),
        sample(np.zeros((1, 2, 2, 3)), sizes=(0.9,), clip=True, steps=(0.3, 0.4), check_gradient=False),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), match="(N, C, H, W)")],
    doc=documentation(
        "Anchor boxes around every position of a feature map, in units of the image.",
        "data : NDArray\n    (N, C, H, W); only its shape matters.\nsizes, ratios : tuple of float\n    Boxes of every size "
        "with the first ratio, and of the first size with the other ratios.\nclip : bool\n    Keep boxes in the image.\n"
        "steps, offsets : tuple of float\n    Distance of positions, (y, x), 1 / H and 1 / W if negative, and where in a cell "
        "the centre is.",
        "NDArray\n    (1, H W (len(sizes) + len(ratios) - 1), 4).",
        ">>> mx.nd.contrib.MultiBoxPrior(mx.nd.zeros((1, 1, 1, 1)), sizes=(0.5,)).asnumpy().ravel().tolist()\n"
        "[0.25, 0.25, 0.75, 0.75]",
    ),
)

_VARIANCES = Floats((0.1, 0.1, 0.2, 0.2))


def _target(a: Any, anchor: Spec, label: Spec, pred: Spec) -> Any:
    name = "_contrib_MultiBoxTarget"
    if len(anchor.shape) != 3 or anchor.shape[0] != 1 or anchor.shape[2] != 4:
        raise refused(name, "anchor must be (1, N, 4)", anchor)
    if len(label.shape) != 3 or label.shape[2] < 5 or len(pred.shape) != 3 or pred.shape[2] != anchor.shape[1]:
        raise refused(name, f"label and cls_pred must be (B, M, 5) and (B, classes, {anchor.shape[1]})", label, pred)
    n, b = anchor.shape[1], label.shape[0]
    return Spec((b, 4 * n), anchor.dtype), Spec((b, 4 * n), anchor.dtype), Spec((b, n), anchor.dtype)


def _some_labels(rng: Any, b: int, m: int) -> Any:
    labels = np.stack([np.concatenate([rng.integers(0, 3, (m, 1)), _some_boxes(rng, m)], 1) for _ in range(b)])
    labels[-1, -1] = -1
    return labels


operator(
    "_contrib_MultiBoxTarget",
    "anchor label cls_pred",
    {
        "overlap_threshold": Float(0.5),
        "ignore_label": Float(-1.0),
        "negative_mining_ratio": Float(-1.0),
        "negative_mining_thresh": Float(0.5),
        "minimum_negative_samples": Int(0),
        "variances": _VARIANCES,
    },
    infer=_target,
    outputs=3,
    gradient=ZERO_GRADIENT,
    saves="",
    samples=lambda rng: [
        sample(
            _some_boxes(rng, 6)[None],
            _some_labels(rng, 2, 3),
            rng.standard_normal((2, 4, 6)),
            check_gradient=False,
            **kw,
        )
        for kw in ({}, {"negative_mining_ratio": 1.0, "negative_mining_thresh": 0.9})
    ],
    errors=lambda: [error(*(np.ones(s, "float32") for s in ((2, 3, 4), (1, 2, 5), (1, 2, 3))), match="(1, N, 4)")],
    doc="""Training targets of anchors: offsets of matched boxes, masks, classes.

Each box takes the anchor that overlaps it best, then every other anchor takes the box it overlaps by more than
``overlap_threshold``.

Parameters
----------
anchor : NDArray
    (1, N, 4), format corner.
label : NDArray
    (B, M, 5): class and box; rows of -1 fill up.
cls_pred : NDArray
    (B, classes, N), looked at by negative mining.
overlap_threshold, ignore_label : float
    Anchors left aside get ``ignore_label``.
negative_mining_ratio, negative_mining_thresh : float
    How many of the anchors without a box, for each with one, count as background: those least sure to be, among those
    that overlap boxes by less than the threshold. All, if the ratio is not positive.
minimum_negative_samples : int
    Without effect, as in MXNet.
variances : tuple of float
    Divide the offsets.

Returns
-------
list of NDArray
    Offsets (B, 4 N), masks (B, 4 N), classes from 1 with 0 for background (B, N). Their gradient is 0.
""",
)


def _detection(a: Any, prob: Spec, loc: Spec, anchor: Spec) -> Spec:
    n = anchor.shape[1] if len(anchor.shape) == 3 else -1
    if n < 0 or anchor.shape[2] != 4 or len(prob.shape) != 3 or prob.shape[2] != n or loc.shape[1:] != (4 * n,):
        raise refused(
            "_contrib_MultiBoxDetection",
            "cls_prob, loc_pred and anchor must be (B, classes, N), (B, 4 N) and (1, N, 4)",
            prob,
            loc,
            anchor,
        )
    return Spec((prob.shape[0], n, 6), prob.dtype)


operator(
    "_contrib_MultiBoxDetection",
    "cls_prob loc_pred anchor",
    {
        "clip": Bool(True),
        "threshold": Float(0.01),
        "background_id": Int(0),
        "nms_threshold": Float(0.5),
        "force_suppress": Bool(False),
        "variances": _VARIANCES,
        "nms_topk": Int(-1),
    },
    infer=_detection,
    gradient=ZERO_GRADIENT,
    saves="",
    samples=lambda rng: [
        sample(
            rng.uniform(0, 1, (2, 3, 6)),
            rng.standard_normal((2, 24)),
            _some_boxes(rng, 6)[None],
            check_gradient=False,
            **kw,
        )
        for kw in ({}, {"nms_topk": 2, "force_suppress": True, "clip": False})
    ],
    errors=lambda: [error(*(np.ones(s, "float32") for s in ((1, 2, 3), (1, 8), (1, 3, 4))), match="(B, 4 N)")],
    doc="""Detections from class probabilities and box offsets: decoding, then non-maximum suppression.

Parameters
----------
cls_prob : NDArray
    (B, classes, N); class 0 is the background.
loc_pred : NDArray
    (B, 4 N).
anchor : NDArray
    (1, N, 4), format corner.
clip : bool
    Keep boxes in the image.
threshold : float
    Less likely boxes are background.
background_id : int
    Without effect, as in MXNet.
nms_threshold, force_suppress, nms_topk
    As ``overlap_thresh``, ``force_suppress`` and ``topk`` of ``box_nms``.
variances : tuple of float
    Multiply the offsets.

Returns
-------
NDArray
    (B, N, 6): class, or -1 for none, probability and box. Its gradient is 0.
""",
)
