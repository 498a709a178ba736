"""Records of image operators (``mx.nd.image``). Images are ``(H, W, C)`` or batches of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..spec.errors import DTypeError, ParameterError
from .attributes import Bool, Float, Floats, Int, Shape
from .checks import refused
from .documentation import documentation
from .record import NO_GRADIENT, Spec, error, sample
from .registry import operator

_float32 = np.dtype(np.float32)


def _image(name: str, x: Spec, batch: bool = True) -> None:
    if len(x.shape) not in ((3, 4) if batch else (3,)):
        raise refused(name, "an image must be (H, W, C)" + (" or (N, H, W, C)" if batch else ""), x)


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
    doc=documentation(
        "Turn images of 0 ... 255 into tensors of 0 ... 1.",
        "data : NDArray\n    (H, W, C) or (N, H, W, C).",
        "NDArray\n    (C, H, W) or (N, C, H, W), float32. It has no gradient.",
        ">>> mx.nd.image.to_tensor(mx.nd.full((2, 4, 3), 255, dtype='uint8')).shape\n(3, 2, 4)",
    ),
)


def _normalize(a: Any, x: Spec) -> Spec:
    name = "_image_normalize"
    if len(x.shape) not in (3, 4) or x.shape[-3] not in (1, 3):
        raise refused(name, "a tensor must be (C, H, W) or (N, C, H, W) with C 1 or 3", x)
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
    doc=documentation(
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
    doc=documentation(
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
    doc=documentation(
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
        doc=documentation(
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
            raise refused(name, "an image must have 1 or 3 channels", x)
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
