"""Records of operators that sample feature maps ``(N, C, H, W)``: in regions of interest, and at the points of a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import ParameterError
from .attributes import Bool, Choice, Float, Int, Shape
from .checks import refused
from .documentation import documentation
from .record import Joint, Spec, error, sample
from .registry import operator
from .selection import by_position

# ---------------------------------------------------------------------------------------------------------------
# Regions of interest


def _rois(name: str, columns: tuple[int, ...]) -> Callable[..., Any]:
    def infer(a: Any, x: Spec, rois: Spec) -> Spec:
        if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] not in columns:
            raise refused(name, f"data and rois must be (N, C, H, W) and (R, {columns[-1]})", x, rois)
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
    doc=documentation(
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
    gradient=Joint(by_position),
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
    doc=documentation(
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
            raise refused(name, "affine transformations must be (N, 6)", x)
        return Spec((x.shape[0], 2, *_size(name, a["target_shape"])), x.dtype)
    if len(x.shape) != 4 or x.shape[1] != 2:
        raise refused(name, "a flow must be (N, 2, H, W)", x)
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
    doc=documentation(
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
            raise refused(name, "data and grid must be (N, C, H, W) and (N, 2, Ho, Wo)", x, grid)
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
    doc=documentation(
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
        raise refused(name, "data and loc must be (N, C, H, W) and (N, 6)", x, loc)
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
    doc=documentation(
        "Transform feature maps by affine maps of their coordinates (https://arxiv.org/abs/1506.02025).",
        "data : NDArray\n    (N, C, H, W).\nloc : NDArray\n    (N, 6), see ``GridGenerator``.\ntarget_shape : tuple of int\n"
        "    (Ho, Wo).\ntransform_type : {'affine'}\nsampler_type : {'bilinear'}\ncudnn_off : bool\n    Without effect.",
        "NDArray\n    (N, C, Ho, Wo).",
        ">>> x, same = mx.nd.ones((1, 1, 4, 4)), mx.nd.array([[1, 0, 0, 0, 1, 0]])\n"
        ">>> mx.nd.SpatialTransformer(x, same, (2, 2), 'affine', 'bilinear').asnumpy().ravel().tolist()\n"
        "[1.0, 1.0, 1.0, 1.0]",
    ),
)
