"""Records of operators that resize images: upsampling, adaptive averages, linear interpolation. All are linear."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Choice, Float, Int, Shape
from .checks import check_floats
from .convolution import deconvolution_reference
from .record import Joint, Spec, error, sample
from .registry import operator
from .windows import bilinear_upsampling

_ONES = np.ones((1, 3, 4, 4), "float32")


def _images(name: str, x: Spec) -> None:
    if len(x.shape) != 4:
        raise ShapeError(
            f"operator '{name}' wants data (N, C, H, W) but got {x.shape}.", operator=name, shapes=[x.shape]
        )


def _upsampling(a: Any, *xs: Spec) -> Spec:
    name, scale = "UpSampling", a["scale"]
    for x in xs:
        _images(name, x)
    first = xs[0].shape
    if scale < 1:
        raise ParameterError(f"operator '{name}': scale={scale} must be at least 1.", operator=name)
    h, w = first[2] * scale, first[3] * scale
    if a["sample_type"] == "bilinear":
        k = bilinear_upsampling(scale)["kernel"]
        want = (first[1], 1, *k)
        if len(xs) != 2 or xs[1].shape != want:
            raise ShapeError(
                f"operator '{name}': bilinear sampling of data {first} wants a weight {want} as second input but got "
                f"{[x.shape for x in xs[1:]]}.",
                operator=name,
                shapes=[x.shape for x in xs],
            )
        return Spec((first[0], first[1], h, w), xs[0].dtype)
    for x in xs:
        fits = x.shape[0] == first[0] and h % x.shape[2] == 0 and x.shape[3] * (h // x.shape[2]) == w
        if not fits or (a["multi_input_mode"] == "sum" and x.shape[1] != first[1]):
            raise ShapeError(
                f"operator '{name}': input {x.shape} cannot be scaled to ({h}, {w}), the first one's size times {scale}"
                f"{', with as many channels' if a['multi_input_mode'] == 'sum' else ''}.",
                operator=name,
                shapes=[x.shape for x in xs],
            )
    channels = first[1] if a["multi_input_mode"] == "sum" else sum(x.shape[1] for x in xs)
    return Spec((first[0], channels, h, w), xs[0].dtype)


def _upsampling_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if a["sample_type"] == "bilinear":
        x, w = inputs
        how = {**bilinear_upsampling(a["scale"]), "num_group": a["num_filter"] or x.shape[1]}
        return F._deconv_backward_data(gs[0], w, x, **how), F._deconv_backward_weight(gs[0], x, w, **how)
    how = {"scale": a["scale"], "multi_input_mode": a["multi_input_mode"]}
    return [F._backward_UpSampling(gs[0], *inputs, index=i, **how) if need else None for i, need in enumerate(needs)]


def _upsampling_reference(*xs: Any, scale: int, sample_type: str, multi_input_mode: str = "concat", **_: Any) -> Any:
    if sample_type == "bilinear":
        how = bilinear_upsampling(scale)
        return deconvolution_reference(*xs, num_group=xs[0].shape[1], **how)
    h = xs[0].shape[2] * scale
    parts = [np.repeat(np.repeat(x, h // x.shape[2], 2), h // x.shape[2], 3) for x in xs]
    return np.concatenate(parts, 1) if multi_input_mode == "concat" else sum(parts)


operator(
    "UpSampling",
    "*data",
    {
        "scale": Int(),
        "num_filter": Int(0),
        "sample_type": Choice(choices=("bilinear", "nearest")),
        "multi_input_mode": Choice("concat", choices=("concat", "sum")),
        "workspace": Int(512, doc="Without effect."),
    },
    infer=_upsampling,
    gradient=Joint(_upsampling_gradient),
    saves="data",
    reference=_upsampling_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 2, 3)), scale=2, sample_type="nearest"),
        sample(rng.standard_normal((1, 2, 2, 3)), rng.standard_normal((1, 1, 4, 6)), scale=2, sample_type="nearest"),
        sample(
            rng.standard_normal((1, 2, 2, 2)),
            rng.standard_normal((1, 2, 1, 1)),
            scale=2,
            sample_type="nearest",
            multi_input_mode="sum",
        ),
        sample(
            rng.standard_normal((1, 2, 3, 3)),
            rng.standard_normal((2, 1, 4, 4)),
            scale=2,
            sample_type="bilinear",
            num_filter=2,
        ),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), scale=2, sample_type="nearest", match="wants data (N, C, H, W)"),
        error(_ONES, scale=2, sample_type="bilinear", match="wants a weight (3, 1, 4, 4)"),
        error(_ONES, np.ones((1, 3, 3, 3), "float32"), scale=2, sample_type="nearest", match="cannot be scaled"),
    ],
    doc="""Enlarge images by a whole factor.

Parameters
----------
*data : NDArray
    ``(N, C, H, W)``. With ``sample_type="nearest"`` any number of inputs, each enlarged to the first one's new size;
    with ``"bilinear"`` data and a weight ``(C, 1, k, k)``, ``k = 2 scale - scale % 2``, of a deconvolution.
scale : int
num_filter : int
    The number of channels, for ``"bilinear"``.
sample_type : {"nearest", "bilinear"}
multi_input_mode : {"concat", "sum"}
    Join several inputs along the channels, or add them.
workspace
    Accepted, without effect.

Returns
-------
NDArray
    ``(N, C, scale H, scale W)``.

Raises
------
ShapeError
    If the inputs' sizes do not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.UpSampling(mx.nd.array([[[[1, 2]]]]), scale=2, sample_type="nearest").asnumpy().tolist()
[[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
""",
)


def _upsampling_twice(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    """Upsampling is linear: the gradient for ``grad`` is what ``grad`` would be for this one input."""
    _, *xs = inputs
    alone = [gs[0] if i == a["index"] else F.zeros_like(x) for i, x in enumerate(xs)]
    how = {"scale": a["scale"], "multi_input_mode": a["multi_input_mode"], "sample_type": "nearest"}
    return [F.UpSampling(*alone, **how), *[None] * len(xs)]


operator(
    "_backward_UpSampling",
    "*args",
    {"scale": Int(), "multi_input_mode": Choice("concat", choices=("concat", "sum")), "index": Int(0)},
    infer=lambda a, g, *xs: xs[a["index"]],
    gradient=Joint(_upsampling_twice),
    saves="",
    doc="Gradient of nearest ``UpSampling`` for the input number ``index``; ``args`` are grad and all inputs.",
)


def _adaptive(a: Any, x: Spec) -> Spec:
    name, size = "_contrib_AdaptiveAvgPooling2D", a["output_size"]
    _images(name, x)
    check_floats(name, x)
    if len(size) > 2 or any(n < 1 for n in size):
        raise ParameterError(
            f"operator '{name}': output_size={size} must be one or two lengths of at least 1.", operator=name
        )
    return Spec((*x.shape[:2], size[0] if size else 1, size[-1] if size else 1), x.dtype)


def _adaptive_reference(x: Any, *, output_size: Any = ()) -> Any:
    h, w = (output_size[0], output_size[-1]) if output_size else (1, 1)
    y = np.zeros((*x.shape[:2], h, w))
    for i, j in itertools.product(range(h), range(w)):
        rows = slice(math.floor(i * x.shape[2] / h), math.ceil((i + 1) * x.shape[2] / h))
        columns = slice(math.floor(j * x.shape[3] / w), math.ceil((j + 1) * x.shape[3] / w))
        y[:, :, i, j] = x[:, :, rows, columns].mean((2, 3))
    return y


operator(
    "_contrib_AdaptiveAvgPooling2D",
    "data",
    {"output_size": Shape(())},
    infer=_adaptive,
    gradient=(lambda F, g, y, x, output_size: F._adaptive_pooling_backward(g, x, output_size=output_size),),
    saves="",
    reference=_adaptive_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 5, 7)), output_size=(2, 3)),
        sample(rng.standard_normal((2, 3, 4, 4))),
        sample(rng.standard_normal((1, 2, 3, 5)), output_size=(4,)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), match="wants data (N, C, H, W)")],
    doc="""Average images over a grid of ``output_size`` nearly equal parts.

Parameters
----------
data : NDArray
    ``(N, C, H, W)``, floats.
output_size : int or tuple of int
    Height and width of the result; 1 if left out.

Returns
-------
NDArray
    ``(N, C, *output_size)``.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.AdaptiveAvgPooling2D(mx.nd.array([[[[1, 2, 3, 4]]]]), output_size=(1, 2)).asnumpy().tolist()
[[[[1.5, 3.5]]]]
""",
)

operator(
    "_adaptive_pooling_backward",
    "grad like",
    {"output_size": Shape(())},
    infer=lambda a, g, like: Spec(like.shape, g.dtype),
    gradient=(
        lambda F, v, y, g, like, output_size: F._contrib_AdaptiveAvgPooling2D(v, output_size=output_size),
        None,
    ),
    saves="",
    doc="Gradient of ``_contrib_AdaptiveAvgPooling2D``.",
)


def resized(shape: tuple[int, ...], like: Any, a: Any) -> tuple[int, int]:
    """Return the height and width that a resize gives for data of ``shape``."""
    h, w = shape[2:]
    mode = a["mode"]
    if mode == "like":
        return like[2], like[3]
    if mode == "size":
        if a["scale_height"] is None:
            return a["height"], a["width"]
        return int(a["scale_height"] * h), int(a["scale_width"] * w)
    if mode == "odd_scale":
        # An odd length n keeps its ends: (n - 1) s + 1.
        return tuple(  # type: ignore[return-value]
            int(n * s) if n % 2 == 0 else int((n - 1) * s) + 1
            for n, s in zip((h, w), (a["scale_height"], a["scale_width"]))
        )
    even, step = mode.startswith("to_even"), 1 if mode.endswith("up") else -1
    h, w = (n if (n % 2 == 0) == even else n + step for n in (h, w))
    return h, w


_RESIZE_MODES = ("like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
_RESIZE = {
    "height": Int(1),
    "width": Int(1),
    "scale_height": Float(None),
    "scale_width": Float(None),
    "mode": Choice("size", choices=_RESIZE_MODES),
    "align_corners": Bool(True),
}


def _resize(a: Any, x: Spec, like: Spec | None = None) -> Spec:
    name = "_contrib_BilinearResize2D"
    _images(name, x)
    check_floats(name, x)
    if (like is not None) != (a["mode"] == "like"):
        raise ParameterError(f"operator '{name}': give like exactly with mode='like', not mode={a['mode']!r}.")
    if like is not None:
        _images(name, like)
    if (a["scale_height"] is None) != (a["scale_width"] is None) or (
        a["mode"] == "odd_scale" and a["scale_height"] is None
    ):
        raise ParameterError(f"operator '{name}': give both scale_height and scale_width.", operator=name)
    h, w = resized(x.shape, None if like is None else like.shape, a)
    if h < 1 or w < 1:
        raise ShapeError(f"operator '{name}': the result of data {x.shape} would be {h} x {w}.", operator=name)
    return Spec((*x.shape[:2], h, w), x.dtype)


def _resize_reference(x: Any, like: Any = None, *, align_corners: bool = True, **a: Any) -> Any:
    from scipy.ndimage import map_coordinates

    full = {k: v.default for k, v in _RESIZE.items()} | a
    h, w = resized(x.shape, None if like is None else like.shape, full)

    def at(n: int, m: int) -> np.ndarray:
        if align_corners:
            return np.linspace(0, n - 1, m) if m > 1 else np.zeros(1)
        return np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)

    grid = np.meshgrid(at(x.shape[2], h), at(x.shape[3], w), indexing="ij")
    return np.array([[map_coordinates(c, grid, order=1) for c in image] for image in x])


operator(
    "_contrib_BilinearResize2D",
    "data like?",
    _RESIZE,
    infer=_resize,
    gradient=Joint(
        lambda F, gs, inputs, outputs, a, needs: [
            F._bilinear_resize_backward(gs[0], inputs[0], align_corners=a["align_corners"]),
            None if inputs[1] is None else F.zeros_like(inputs[1]),
        ]
    ),
    saves="",
    reference=_resize_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 2, 5, 6)), None, height=4, width=3),
        sample(rng.standard_normal((1, 2, 5, 6)), None, height=7, width=9, align_corners=False),
        sample(rng.standard_normal((1, 2, 3, 4)), None, scale_height=2.0, scale_width=1.5),
        sample(rng.standard_normal((1, 2, 5, 6)), None, mode="odd_scale", scale_height=2.0, scale_width=1.5),
        sample(rng.standard_normal((1, 2, 5, 6)), None, mode="to_even_up"),
        sample(rng.standard_normal((1, 2, 5, 6)), None, mode="to_odd_down"),
        sample(rng.standard_normal((1, 1, 2, 2)), rng.standard_normal((1, 1, 3, 5)), mode="like"),
        sample(rng.standard_normal((1, 1, 2, 2)), None),
    ],
    errors=lambda: [
        error(_ONES, None, mode="like", match="give like exactly with mode='like'"),
        error(_ONES, None, scale_height=2.0, match="give both scale_height and scale_width"),
    ],
    doc="""Resize images by linear interpolation along both axes.

Parameters
----------
data : NDArray
    ``(N, C, H, W)``, floats.
like : NDArray, optional
    ``(N, C, H', W')``: what to take the size from, with ``mode="like"``.
height, width : int
    Size of the result with ``mode="size"``.
scale_height, scale_width : float, optional
    Factors instead, with ``mode="size"`` or ``"odd_scale"`` (which keeps odd lengths odd: ``(n - 1) s + 1``).
mode : {"size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"}
    The last four change a length by at most one.
align_corners : bool
    Whether the corner pixels keep their place; else pixels are cells of a grid.

Returns
-------
NDArray
    ``(N, C, H', W')``.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.BilinearResize2D(mx.nd.array([[[[0, 2]]]]), height=1, width=3).asnumpy().tolist()
[[[[0.0, 1.0, 2.0]]]]
""",
)


def _bilinear_forward(F: Any, v: Any, g: Any, align_corners: bool) -> Any:
    return F._contrib_BilinearResize2D(v, height=g.shape[2], width=g.shape[3], align_corners=align_corners)


operator(
    "_bilinear_resize_backward",
    "grad like",
    {"align_corners": Bool(True)},
    infer=lambda a, g, like: Spec(like.shape, g.dtype),
    gradient=(lambda F, v, y, g, like, align_corners: _bilinear_forward(F, v, g, align_corners), None),
    saves="",
    doc="Gradient of ``_contrib_BilinearResize2D``.",
)
