"""Records of image operators (``mx.nd.image``), bounding boxes, regions of interest and spatial sampling.

Images are ``(H, W, C)`` or batches of them; feature maps are ``(N, C, H, W)``. Boxes are ``(xmin, ymin, xmax, ymax)``
(format "corner") or ``(x, y, width, height)`` around the centre (format "center").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..spec.errors import DTypeError, ParameterError, ShapeError
from .attributes import Bool, Choice, Float, Floats, Int, Shape
from .record import NO_GRADIENT, ZERO_GRADIENT, Joint, Spec, error, sample
from .registry import operator

_float32 = np.dtype(np.float32)


def _refuse(name: str, why: str, *specs: Spec) -> ShapeError:
    shapes = [s.shape for s in specs]
    return ShapeError(
        f"operator '{name}': {why}, but got {' and '.join(map(str, shapes))}.", operator=name, shapes=shapes
    )


def _image(name: str, x: Spec, batch: bool = True) -> None:
    if len(x.shape) not in ((3, 4) if batch else (3,)):
        raise _refuse(name, "an image must be (H, W, C)" + (" or (N, H, W, C)" if batch else ""), x)


def _doc(text: str, parameters: str, returns: str, example: str) -> str:
    return (
        f"{text}\n\nParameters\n----------\n{parameters}\n\nReturns\n-------\n{returns}\n\nExamples\n--------\n"
        f">>> import mxcore as mx\n{example}\n"
    )


# ---------------------------------------------------------------------------------------------------------------
# Images


def _to_tensor(a: Any, x: Spec) -> Spec:
    _image("_image_to_tensor", x)
    h, w, c = x.shape[-3:]
    return Spec((*x.shape[:-3], c, h, w), _float32)


operator(
    "_image_to_tensor",
    "data",
    infer=_to_tensor,
    gradient=NO_GRADIENT,
    reference=lambda x: (np.moveaxis(x, -1, -3) / 255).astype(np.float32),
    samples=lambda rng: [
        sample(rng.integers(0, 256, (4, 5, 3), np.uint8), check_gradient=False),
        sample(rng.integers(0, 256, (2, 4, 5, 1), np.uint8), check_gradient=False),
    ],
    errors=lambda: [error(np.ones((2, 3), "uint8"), match="must be (H, W, C)")],
    doc=_doc(
        "Turn images of 0 ... 255 into tensors of 0 ... 1.",
        "data : NDArray\n    (H, W, C) or (N, H, W, C).",
        "NDArray\n    (C, H, W) or (N, C, H, W), float32. It has no gradient.",
        ">>> mx.nd.image.to_tensor(mx.nd.full((2, 4, 3), 255, dtype='uint8')).shape\n(3, 2, 4)",
    ),
)


def _normalize(a: Any, x: Spec) -> Spec:
    name = "_image_normalize"
    if len(x.shape) not in (3, 4) or x.shape[-3] not in (1, 3):
        raise _refuse(name, "a tensor must be (C, H, W) or (N, C, H, W) with C 1 or 3", x)
    if x.dtype.kind != "f":
        raise DTypeError(
            f"operator '{name}': data is {x.dtype} but must be of floats; use to_tensor first.", operator=name
        )
    for key in ("mean", "std"):
        if len(a[key]) not in (1, x.shape[-3]):
            raise ParameterError(
                f"operator '{name}': {key} has {len(a[key])} numbers for {x.shape[-3]} channels; give 1 or {x.shape[-3]}.",
                operator=name,
            )
    return x


operator(
    "_image_normalize",
    "data",
    # MXNet's defaults are four numbers, which its own check refuses.
    {"mean": Floats((0.0,)), "std": Floats((1.0,))},
    infer=_normalize,
    gradient=(lambda F, g, y, x, mean, std: F._image_normalize(g, std=std),),
    saves="",
    reference=lambda x, mean=(0.0,), std=(1.0,): (x - np.reshape(mean, (-1, 1, 1))) / np.reshape(std, (-1, 1, 1)),
    samples=lambda rng: [
        sample(rng.uniform(0, 1, (3, 4, 5)), mean=(0.1, 0.2, 0.3), std=(0.5, 2.0, 1.0)),
        sample(rng.uniform(0, 1, (2, 1, 4, 5)), mean=(0.1,), std=(0.5,)),
        sample(rng.uniform(0, 1, (3, 2, 2)), mean=(0.5,)),
    ],
    errors=lambda: [
        error(np.ones((3, 2, 2), "float32"), mean=(0, 1), match="give 1 or 3"),
        error(np.ones((2, 2, 3), "float32"), match="with C 1 or 3"),
        error(np.ones((3, 2, 2), "uint8"), match="use to_tensor first"),
    ],
    doc=_doc(
        "Subtract a mean and divide by a standard deviation, for each channel.",
        "data : NDArray\n    (C, H, W) or (N, C, H, W).\nmean, std : tuple of float\n    One number, or one for each channel.",
        "NDArray",
        ">>> mx.nd.image.normalize(mx.nd.ones((1, 1, 2)), mean=0.5, std=0.25).asnumpy().ravel().tolist()\n[2.0, 2.0]",
    ),
)


def resized(size: Any, height: int, width: int, keep_ratio: bool) -> tuple[int, int]:
    """Return ``(height, width)`` for the attribute ``size`` of ``_image_resize``."""
    if len(size) not in (1, 2) or min(size) <= 0:
        raise ParameterError(
            f"operator '_image_resize': size={size} must be one number or (width, height), greater than 0.",
            operator="_image_resize",
        )
    if len(size) == 2:
        return size[1], size[0]
    if not keep_ratio:
        return size[0], size[0]
    return (height * size[0] // width, size[0]) if height > width else (size[0], width * size[0] // height)


def _resize(a: Any, x: Spec) -> Spec:
    _image("_image_resize", x)
    if (x.dtype.kind == "i" and x.dtype.itemsize > 2) or x.dtype == np.float16:
        raise DTypeError(
            f"operator '_image_resize': data is {x.dtype} but must be uint8, float32 or float64.",
            operator="_image_resize",
        )
    h, w, c = x.shape[-3:]
    return Spec((*x.shape[:-3], *resized(a["size"], h, w, a["keep_ratio"]), c), x.dtype)


operator(
    "_image_resize",
    "data",
    {"size": Shape(()), "keep_ratio": Bool(False), "interp": Int(1)},
    infer=_resize,
    gradient=NO_GRADIENT,
    samples=lambda rng: [
        sample(rng.integers(0, 256, (4, 6, 3), np.uint8), size=(3, 2), check_gradient=False),
        sample(rng.integers(0, 256, (2, 4, 6, 3), np.uint8), size=(5,), keep_ratio=True, check_gradient=False),
        sample(rng.uniform(0, 1, (4, 6, 1)), size=(7,), interp=0, check_gradient=False),
    ],
    errors=lambda: [
        error(np.ones((2, 2, 3), "uint8"), size=(1, 2, 3), match="(width, height)"),
        error(np.ones((2, 2, 3), "int32"), size=(1, 2), match="must be uint8"),
    ],
    doc=_doc(
        "Resize images.",
        "data : NDArray\n    (H, W, C) or (N, H, W, C).\nsize : tuple of int\n    (width, height), or one number for both.\n"
        "keep_ratio : bool\n    With one number: that is the shorter side, and the proportions stay.\ninterp : int\n"
        "    0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.",
        "NDArray\n    Of the same dtype. It has no gradient.",
        ">>> mx.nd.image.resize(mx.nd.zeros((4, 8, 3)), size=2, keep_ratio=True).shape\n(2, 4, 3)",
    ),
)


def _crop(a: Any, x: Spec) -> Spec:
    name = "_image_crop"
    _image(name, x)
    h, w, c = x.shape[-3:]
    if a["width"] <= 0 or a["height"] <= 0:
        raise ParameterError(
            f"operator '{name}': width={a['width']} and height={a['height']} must be greater than 0.", operator=name
        )
    if a["x"] < 0 or a["y"] < 0 or a["x"] + a["width"] > w or a["y"] + a["height"] > h:
        raise ParameterError(
            f"operator '{name}': columns {a['x']} to {a['x'] + a['width']} and rows {a['y']} to {a['y'] + a['height']} do "
            f"not lie within an image of width {w} and height {h}.",
            operator=name,
        )
    return Spec((*x.shape[:-3], a["height"], a["width"], c), x.dtype)


_CROP = {"x": Int(), "y": Int(), "width": Int(), "height": Int()}

operator(
    "_image_crop",
    "data",
    _CROP,
    infer=_crop,
    gradient=(lambda F, g, y_, data, **kw: F._backward_image_crop(g, data, **kw),),
    saves="",
    reference=lambda data, x, y, width, height: data[..., y : y + height, x : x + width, :],
    samples=lambda rng: [
        sample(rng.uniform(0, 1, (4, 5, 3)), x=1, y=2, width=3, height=1),
        sample(rng.uniform(0, 1, (2, 4, 5, 3)), x=0, y=0, width=5, height=4),
    ],
    errors=lambda: [
        error(np.ones((2, 2, 3), "uint8"), x=1, y=0, width=2, height=1, match="do not lie within"),
        error(np.ones((2, 2, 3), "uint8"), x=1, y=0, width=0, height=1, match="greater than 0"),
    ],
    doc=_doc(
        "Cut out a rectangle.",
        "data : NDArray\n    (H, W, C) or (N, H, W, C).\nx, y : int\n    Column and row where it starts.\n"
        "width, height : int",
        "NDArray\n    (height, width, C) or (N, height, width, C).",
        ">>> mx.nd.image.crop(mx.nd.zeros((4, 8, 3)), 1, 0, 5, 2).shape\n(2, 5, 3)",
    ),
)
operator(
    "_backward_image_crop",
    "grad like",
    _CROP,
    infer=lambda a, g, x: x,
    gradient=(lambda F, h, y_, g, x_, **kw: F._image_crop(h, **kw), None),
    saves="",
    doc="Zeros like ``like`` with ``grad`` in the rectangle; the gradient of ``_image_crop``.",
)

for _name, _axis, _text in (("left_right", -2, "left to right"), ("top_bottom", -3, "upside down")):

    def _flip(a: Any, x: Spec, name: str = f"_image_flip_{_name}") -> Spec:
        _image(name, x)
        return x

    operator(
        f"_image_flip_{_name}",
        "data",
        infer=_flip,
        gradient=((lambda op: lambda F, g, y, x: getattr(F, op)(g))(f"_image_flip_{_name}"),),
        saves="",
        reference=(lambda axis: lambda x: np.flip(x, axis))(_axis),
        samples=lambda rng: [sample(rng.uniform(0, 1, (4, 5, 3))), sample(rng.uniform(0, 1, (2, 4, 5, 1)))],
        doc=_doc(
            f"Turn images {_text}.",
            "data : NDArray\n    (H, W, C) or (N, H, W, C).",
            "NDArray",
            f">>> mx.nd.image.flip_{_name}(mx.nd.arange(4).reshape((2, 2, 1))).asnumpy().ravel().tolist()\n"
            f"{np.flip(np.arange(4.0).reshape(2, 2, 1), _axis).ravel().tolist()}",
        ),
    )
    operator(
        f"_image_random_flip_{_name}",
        "data",
        infer=_flip,
        gradient=NO_GRADIENT,
        random=True,
        doc=f"Turn images {_text} with probability 1/2. ``data`` is (H, W, C) or (N, H, W, C); a batch is turned as a whole.",
    )


def _colours(name: str, check: Callable[[Mapping[str, Any]], str | None] = lambda a: None) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec) -> Spec:
        _image(name, x, batch=False)
        if x.shape[2] not in (1, 3):
            raise _refuse(name, "an image must have 1 or 3 channels", x)
        wrong = check(a)
        if wrong:
            raise ParameterError(f"operator '{name}': {wrong}", operator=name)
        return x

    return infer


def _ordered(a: Mapping[str, Any]) -> str | None:
    if 0 <= a["min_factor"] <= a["max_factor"]:
        return None
    return f"0 <= min_factor <= max_factor is wanted, but got {a['min_factor']} and {a['max_factor']}."


for _name, _text in (
    ("brightness", "Multiply an image by a random factor"),
    ("contrast", "Blend an image with its mean grey by a random factor"),
    ("saturation", "Blend an image with grey by a random factor"),
    ("hue", "Turn the hue of an image by a random share of the colour circle"),
):
    operator(
        f"_image_random_{_name}",
        "data",
        {"min_factor": Float(), "max_factor": Float()},
        infer=_colours(f"_image_random_{_name}", _ordered),
        gradient=NO_GRADIENT,
        random=True,
        errors=lambda: [
            error(np.ones((2, 2, 3), "uint8"), min_factor=2, max_factor=1, match="min_factor <= max_factor")
        ],
        doc=f"{_text}, drawn between ``min_factor`` and ``max_factor``. ``data`` is (H, W, C); whole numbers stay in range.",
    )
operator(
    "_image_random_color_jitter",
    "data",
    {"brightness": Float(), "contrast": Float(), "saturation": Float(), "hue": Float()},
    infer=_colours("_image_random_color_jitter"),
    gradient=NO_GRADIENT,
    random=True,
    doc="Change brightness, contrast and saturation by factors between ``1 - p`` and ``1 + p``, and hue by a turn between "
    "``-p`` and ``p``, in random order, where ``p`` is the attribute of that name. ``data`` is (H, W, C).",
)


def _three(a: Mapping[str, Any]) -> str | None:
    return None if len(a["alpha"]) == 3 else f"alpha={a['alpha']} must be three numbers."


operator(
    "_image_adjust_lighting",
    "data",
    {"alpha": Floats()},
    infer=_colours("_image_adjust_lighting", _three),
    gradient=NO_GRADIENT,
    samples=lambda rng: [sample(rng.uniform(0, 255, (4, 5, 3)), alpha=(0.1, 0.2, 0.3), check_gradient=False)],
    errors=lambda: [error(np.ones((2, 2, 3), "uint8"), alpha=(1, 2), match="three numbers")],
    doc="Shift an image (H, W, C) along the principal axes of natural colours by ``alpha``, three numbers.",
)
operator(
    "_image_random_lighting",
    "data",
    {"alpha_std": Float(0.05)},
    infer=_colours("_image_random_lighting"),
    gradient=NO_GRADIENT,
    random=True,
    doc="``_image_adjust_lighting`` with normally distributed numbers of standard deviation ``alpha_std``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Positions computed by a kernel, as arrays: what gradients of selections are made of

operator(
    "_pick_flat",
    "data index",
    infer=lambda a, x, i: Spec(i.shape, x.dtype),
    same_dtype=False,
    gradient=(lambda F, g, y, x, i: F._put_flat(g, i, x), None),
    saves="index",
    reference=lambda x, i: np.where(i >= 0, x.reshape(-1)[i], 0),
    samples=lambda rng: [sample(rng.standard_normal((2, 3)), np.array([[5, -1], [0, 0]], np.int64))],
    doc="Elements of the flattened ``data`` at ``index``; 0 where it is -1.",
)
operator(
    "_put_flat",
    "grad index like",
    infer=lambda a, g, i, x: x,
    same_dtype=False,
    gradient=(lambda F, h, y, g, i, x: F._pick_flat(h, i), None, None),
    saves="index",
    doc="Zeros like ``like`` with ``grad`` added at the flat positions ``index``; the gradient of ``_pick_flat``.",
)


def _by_position(F: Any, gs: Any, inputs: Any, outputs: Any, attributes: Any, needs: Any) -> Any:
    """Gradient of operators whose second, hidden output says where each element of the first came from."""
    g = F._put_flat(gs[0], outputs[1], inputs[0])
    return (g, *(F.zeros_like(x) for x in inputs[1:]))


# ---------------------------------------------------------------------------------------------------------------
# Boxes

_FORMAT = Choice("corner", choices=("corner", "center"))


def _boxes(name: str, *specs: Spec) -> None:
    for s in specs:
        if len(s.shape) < 2 or s.shape[-1] != 4:
            raise _refuse(name, "boxes must be (..., N, 4)", *specs)


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
    doc=_doc(
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
        raise _refuse(name, f"data must be (..., N, K) with K >= {need} for the given indices", x)
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
    gradient=Joint(_by_position),
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
    doc=_doc(
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
        raise _refuse("_contrib_bipartite_matching", "scores must be (..., M, N)", x)
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
    doc=_doc(
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
        raise _refuse(name, "anchors and refs must be (B, N, 4) and (B, M, 4)", anchors, refs)
    if samples.shape != anchors.shape[:2] or matches.shape != anchors.shape[:2]:
        raise _refuse(name, f"samples and matches must be {anchors.shape[:2]}", samples, matches)
    if means.shape != (4,) or stds.shape != (4,):
        raise _refuse(name, "means and stds must be (4,)", means, stds)
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
    doc=_doc(
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
        raise _refuse("_contrib_box_decode", "data and anchors must be (B, N, 4) and (1, N, 4)", x, anchors)
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
    doc=_doc(
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
        raise _refuse(name, "data must be (N, C, H, W)", x)
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
    doc=_doc(
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
        raise _refuse(name, "anchor must be (1, N, 4)", anchor)
    if len(label.shape) != 3 or label.shape[2] < 5 or len(pred.shape) != 3 or pred.shape[2] != anchor.shape[1]:
        raise _refuse(name, f"label and cls_pred must be (B, M, 5) and (B, classes, {anchor.shape[1]})", label, pred)
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
        raise _refuse(
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

# ---------------------------------------------------------------------------------------------------------------
# Regions of interest


def _rois(name: str, columns: tuple[int, ...]) -> Callable[..., Any]:
    def infer(a: Any, x: Spec, rois: Spec) -> Spec:
        if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] not in columns:
            raise _refuse(name, f"data and rois must be (N, C, H, W) and (R, {columns[-1]})", x, rois)
        if len(a["pooled_size"]) != 2 or min(a["pooled_size"]) <= 0:
            raise ParameterError(
                f"operator '{name}': pooled_size={a['pooled_size']} must be two numbers greater than 0.", operator=name
            )
        channels = x.shape[1]
        if a.get("position_sensitive"):
            channels //= a["pooled_size"][0] * a["pooled_size"][1]
        return Spec((rois.shape[0], channels, *a["pooled_size"]), x.dtype)

    return infer


_ALIGN = {
    "pooled_size": Shape(),
    "spatial_scale": Float(),
    "sample_ratio": Int(-1),
    "position_sensitive": Bool(False),
    "aligned": Bool(False),
}


def _some_rois(rng: Any, batch: int, n: int) -> Any:
    low = rng.uniform(0, 5, (n, 2))
    return np.concatenate([rng.integers(0, batch, (n, 1)), low, low + rng.uniform(2, 6, (n, 2))], 1)


operator(
    "_contrib_ROIAlign",
    "data rois",
    _ALIGN,
    infer=_rois("_contrib_ROIAlign", (4, 5)),
    gradient=(
        lambda F, g, y, x, rois, **kw: F._backward_ROIAlign(g, rois, x, **kw),
        lambda F, g, y, x, rois, **kw: F.zeros_like(rois),
    ),
    saves="rois",
    samples=lambda rng: [
        # The gradient of the regions is 0 by definition: tests/operators/test_vision.py looks at that of data.
        sample(rng.standard_normal((2, c, 7, 8)), _some_rois(rng, 2, 3), check_gradient=False, **kw)
        for c, kw in (
            (2, {"pooled_size": (2, 3), "spatial_scale": 1.0}),
            (2, {"pooled_size": (2, 2), "spatial_scale": 0.5, "sample_ratio": 2, "aligned": True}),
            (8, {"pooled_size": (2, 2), "spatial_scale": 0.9, "position_sensitive": True}),
        )
    ],
    errors=lambda: [
        error(
            np.ones((1, 2, 3, 3), "float32"),
            np.ones((1, 3), "float32"),
            pooled_size=(2, 2),
            spatial_scale=1.0,
            match="(R, 5)",
        )
    ],
    doc=_doc(
        "Average regions over a grid of bins, at bilinear samples (https://arxiv.org/abs/1703.06870).",
        "data : NDArray\n    (N, C, H, W).\nrois : NDArray\n    (R, 5): index in the batch, xmin, ymin, xmax, ymax; without "
        "the index (R, 4).\npooled_size : tuple of int\n    (PH, PW).\nspatial_scale : float\n    Factor from coordinates to "
        "pixels of data.\nsample_ratio : int\n    Samples along each side of a bin; by its size if not positive.\n"
        "position_sensitive : bool\n    Each bin reads a channel of its own.\naligned : bool\n    Pixel centres lie at halves.",
        "NDArray\n    (R, C, PH, PW), or (R, C / (PH PW), PH, PW) if position-sensitive. The gradient of rois is 0.",
        ">>> rois = mx.nd.array([[0, 0, 0, 4, 4]])\n"
        ">>> mx.nd.contrib.ROIAlign(mx.nd.ones((1, 2, 5, 5)), rois, pooled_size=(3, 3), spatial_scale=1).shape\n(1, 2, 3, 3)",
    ),
)
operator(
    "_backward_ROIAlign",
    "grad rois like",
    _ALIGN,
    infer=lambda a, g, rois, x: x,
    gradient=(lambda F, h, y, g, rois, x, **kw: F._contrib_ROIAlign(h, rois, **kw), None, None),
    saves="rois",
    doc="The gradient of ``_contrib_ROIAlign`` for ``data``, of the shape of ``like``.",
)


def _roi_pooling(a: Any, x: Spec, rois: Spec) -> Any:
    out = _rois("ROIPooling", (5,))(a, x, rois)
    return out, Spec(out.shape, np.dtype(np.int64))


operator(
    "ROIPooling",
    "data rois",
    {"pooled_size": Shape(), "spatial_scale": Float()},
    infer=_roi_pooling,
    outputs=2,
    visible=1,
    gradient=Joint(_by_position),
    saves="output",
    samples=lambda rng: [
        sample(
            rng.standard_normal((2, 2, 7, 8)),
            _some_rois(rng, 2, 3),
            pooled_size=(2, 3),
            spatial_scale=0.7,
            check_gradient=False,
        )
    ],
    errors=lambda: [
        error(
            np.ones((1, 2, 3, 3), "float32"),
            np.ones((1, 4), "float32"),
            pooled_size=(2, 2),
            spatial_scale=1.0,
            match="(R, 5)",
        )
    ],
    doc=_doc(
        "Maximum of regions over a grid of bins.",
        "data : NDArray\n    (N, C, H, W).\nrois : NDArray\n    (R, 5): index in the batch, xmin, ymin, xmax, ymax.\n"
        "pooled_size : tuple of int\n    (PH, PW).\nspatial_scale : float\n    Factor from coordinates to pixels of data.",
        "NDArray\n    (R, C, PH, PW). The gradient of rois is 0.",
        ">>> x = mx.nd.arange(16).reshape((1, 1, 4, 4))\n"
        ">>> mx.nd.ROIPooling(x, mx.nd.array([[0, 0, 0, 3, 3]]), (2, 2), 1).asnumpy().ravel().tolist()\n"
        "[5.0, 7.0, 13.0, 15.0]",
    ),
)

# ---------------------------------------------------------------------------------------------------------------
# Spatial sampling


def _grid(a: Any, x: Spec) -> Spec:
    name = "GridGenerator"
    if a["transform_type"] == "affine":
        if len(x.shape) != 2 or x.shape[1] != 6:
            raise _refuse(name, "affine transformations must be (N, 6)", x)
        return Spec((x.shape[0], 2, *_size(name, a["target_shape"])), x.dtype)
    if len(x.shape) != 4 or x.shape[1] != 2:
        raise _refuse(name, "a flow must be (N, 2, H, W)", x)
    return x


def _size(name: str, size: Any) -> Any:
    if len(size) != 2 or min(size) <= 0:
        raise ParameterError(
            f"operator '{name}': target_shape={size} must be two numbers (H, W) greater than 0.", operator=name
        )
    return size


_GRID = {"transform_type": Choice(choices=("affine", "warp")), "target_shape": Shape((0, 0))}


def _grid_reference(x: Any, transform_type: str, target_shape: Any = (0, 0)) -> Any:
    if transform_type == "warp":
        h, w = x.shape[2:]
        at = np.stack(np.meshgrid(np.arange(w), np.arange(h)))
        return (x + at) * 2 / np.array([w - 1, h - 1]).reshape(1, 2, 1, 1) - 1
    h, w = target_shape
    px, py = np.meshgrid(np.linspace(-1, 1, w), np.linspace(-1, 1, h))
    return np.einsum("nij,jhw->nihw", x.reshape(-1, 2, 3), np.stack([px, py, np.ones((h, w))]))


operator(
    "GridGenerator",
    "data",
    _GRID,
    infer=_grid,
    gradient=(lambda F, g, y, x, **kw: F._backward_GridGenerator(g, **kw),),
    saves="",
    reference=_grid_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 6)), transform_type="affine", target_shape=(3, 4)),
        sample(rng.standard_normal((2, 2, 3, 4)), transform_type="warp"),
    ],
    errors=lambda: [
        error(np.ones((2, 5), "float32"), transform_type="affine", target_shape=(2, 2), match="(N, 6)"),
        error(np.ones((2, 6), "float32"), transform_type="affine", match="greater than 0"),
    ],
    doc=_doc(
        "Positions to sample at, for ``BilinearSampler``: -1 is the left or upper edge, 1 the right or lower.",
        "data : NDArray\n    (N, 6), rows of 2 x 3 matrices applied to ``(x, y, 1)``, or a flow (N, 2, H, W) in pixels.\n"
        "transform_type : {'affine', 'warp'}\ntarget_shape : tuple of int\n    (H, W), for affine.",
        "NDArray\n    (N, 2, H, W): x and y.",
        ">>> same = mx.nd.array([[1, 0, 0, 0, 1, 0]])\n"
        ">>> mx.nd.GridGenerator(same, transform_type='affine', target_shape=(2, 3))[0, 0, 0].asnumpy().tolist()\n"
        "[-1.0, 0.0, 1.0]",
    ),
)


def _backward_grid(a: Any, g: Spec) -> Spec:
    return Spec((g.shape[0], 6), g.dtype) if a["transform_type"] == "affine" else g


operator(
    "_backward_GridGenerator",
    "grad",
    _GRID,
    infer=_backward_grid,
    gradient=(
        lambda F, h, y, g, transform_type, target_shape: (
            F.GridGenerator(h, transform_type="affine", target_shape=target_shape)
            if transform_type == "affine"
            else F._backward_GridGenerator(h, transform_type="warp")
        ),
    ),
    saves="",
    doc="The gradient of ``GridGenerator``.",
)


def _sampler(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec, grid: Spec) -> Spec:
        if len(x.shape) != 4 or len(grid.shape) != 4 or grid.shape[:2] != (x.shape[0], 2):
            raise _refuse(name, "data and grid must be (N, C, H, W) and (N, 2, Ho, Wo)", x, grid)
        return Spec((*x.shape[:2], *grid.shape[2:]), x.dtype)

    return infer


def _of_grid(F: Any, g: Any, data: Any, grid: Any, dx: int, dy: int) -> Any:
    x = F.sum(g * F._bilinear_samples(data, grid, dx=dx + 1, dy=dy), axis=1, keepdims=True)
    y = F.sum(g * F._bilinear_samples(data, grid, dx=dx, dy=dy + 1), axis=1, keepdims=True)
    return F.concat(x, y, dim=1)


_ORDERS = {"dx": Int(0), "dy": Int(0)}

operator(
    "_bilinear_samples",
    "data grid",
    _ORDERS,
    infer=_sampler("_bilinear_samples"),
    gradient=(
        lambda F, g, y, data, grid, dx, dy: F._bilinear_spread(g, grid, data, dx=dx, dy=dy),
        lambda F, g, y, data, grid, dx, dy: _of_grid(F, g, data, grid, dx, dy),
    ),
    saves="data grid",
    samples=lambda rng: [
        sample(rng.standard_normal((2, 2, 4, 5)), rng.uniform(-0.9, 0.9, (2, 2, 3, 3)), dx=dx, dy=dy)
        for dx in (0, 1)
        for dy in (0, 1)
    ],
    doc="Derivative of order ``dx`` and ``dy`` of ``BilinearSampler`` with respect to the coordinates of ``grid``.",
)
operator(
    "_bilinear_spread",
    "grad grid like",
    _ORDERS,
    infer=lambda a, g, grid, x: x,
    gradient=(
        lambda F, h, y, g, grid, like, dx, dy: F._bilinear_samples(h, grid, dx=dx, dy=dy),
        lambda F, h, y, g, grid, like, dx, dy: _of_grid(F, g, h, grid, dx, dy),
        None,
    ),
    saves="grad grid",
    doc="The gradient of ``_bilinear_samples`` for ``data``, of the shape of ``like``.",
)

operator(
    "BilinearSampler",
    "data grid",
    {"cudnn_off": Bool(False)},
    infer=_sampler("BilinearSampler"),
    gradient=(
        lambda F, g, y, data, grid, cudnn_off: F._bilinear_spread(g, grid, data),
        lambda F, g, y, data, grid, cudnn_off: _of_grid(F, g, data, grid, 0, 0),
    ),
    saves="data grid",
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 4, 5)), rng.uniform(-0.9, 0.9, (2, 2, 3, 3))),
        sample(rng.standard_normal((1, 1, 3, 3)), rng.uniform(1.1, 1.6, (1, 2, 2, 2))),
    ],
    errors=lambda: [error(np.ones((2, 1, 3, 3), "float32"), np.ones((1, 2, 3, 3), "float32"), match="(N, 2, Ho, Wo)")],
    doc=_doc(
        "Sample feature maps at given positions, between pixels bilinearly; 0 outside.",
        "data : NDArray\n    (N, C, H, W).\ngrid : NDArray\n    (N, 2, Ho, Wo): x and y, from -1 to 1 across the map.\n"
        "cudnn_off : bool\n    Without effect.",
        "NDArray\n    (N, C, Ho, Wo).",
        ">>> x = mx.nd.array([[[[0, 1], [2, 3]]]])\n"
        ">>> mx.nd.BilinearSampler(x, mx.nd.zeros((1, 2, 1, 1))).asnumpy().ravel().tolist()\n[1.5]",
    ),
)


def _transformer(a: Any, x: Spec, loc: Spec) -> Spec:
    name = "SpatialTransformer"
    if len(x.shape) != 4 or loc.shape != (x.shape[0], 6):
        raise _refuse(name, "data and loc must be (N, C, H, W) and (N, 6)", x, loc)
    return Spec((*x.shape[:2], *_size(name, a["target_shape"])), x.dtype)


def _transformer_grid(F: Any, loc: Any, target_shape: Any) -> Any:
    return F.GridGenerator(loc, transform_type="affine", target_shape=target_shape)


operator(
    "SpatialTransformer",
    "data loc",
    {
        "target_shape": Shape((0, 0)),
        "transform_type": Choice(choices=("affine",)),
        "sampler_type": Choice(choices=("bilinear",)),
        "cudnn_off": Bool(False),
    },
    infer=_transformer,
    gradient=(
        lambda F, g, y, x, loc, target_shape, **_: F._bilinear_spread(g, _transformer_grid(F, loc, target_shape), x),
        lambda F, g, y, x, loc, target_shape, **_: F._backward_GridGenerator(
            _of_grid(F, g, x, _transformer_grid(F, loc, target_shape), 0, 0),
            transform_type="affine",
            target_shape=target_shape,
        ),
    ),
    saves="data loc",
    samples=lambda rng: [
        sample(
            rng.standard_normal((2, 2, 4, 5)),
            np.array([[0.7, 0.1, 0.05, -0.1, 0.6, 0.02], [0.5, 0.0, -0.2, 0.1, 0.55, 0.13]]),
            target_shape=(3, 4),
            transform_type="affine",
            sampler_type="bilinear",
        )
    ],
    errors=lambda: [
        error(
            np.ones((2, 1, 3, 3), "float32"),
            np.ones((2, 5), "float32"),
            target_shape=(2, 2),
            transform_type="affine",
            sampler_type="bilinear",
            match="(N, 6)",
        )
    ],
    doc=_doc(
        "Transform feature maps by affine maps of their coordinates (https://arxiv.org/abs/1506.02025).",
        "data : NDArray\n    (N, C, H, W).\nloc : NDArray\n    (N, 6), see ``GridGenerator``.\ntarget_shape : tuple of int\n"
        "    (Ho, Wo).\ntransform_type : {'affine'}\nsampler_type : {'bilinear'}\ncudnn_off : bool\n    Without effect.",
        "NDArray\n    (N, C, Ho, Wo).",
        ">>> x, same = mx.nd.ones((1, 1, 4, 4)), mx.nd.array([[1, 0, 0, 0, 1, 0]])\n"
        ">>> mx.nd.SpatialTransformer(x, same, (2, 2), 'affine', 'bilinear').asnumpy().ravel().tolist()\n"
        "[1.0, 1.0, 1.0, 1.0]",
    ),
)
