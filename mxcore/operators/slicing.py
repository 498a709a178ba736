"""Records of operators that cut regions out of arrays, and of those that put them back.

Operators named ``_x_backward`` put a gradient back where ``x`` took its elements from; each is linear, and its own
gradient is ``x`` again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Float, Int, Shape
from .checks import one_axis
from .record import Joint, Spec, error, sample
from .references import written
from .registry import operator


def plan_slice(name: str, shape: tuple[int, ...], a: Any) -> tuple[slice, ...]:
    """Return the slices that ``begin``, ``end``, ``step`` mean.

    Raises
    ------
    ParameterError
        If their lengths differ or a step is 0.
    ShapeError
        If there are more of them than axes.
    """
    begin, end, step = a["begin"], a["end"], a["step"] or (None,) * len(a["begin"])
    if not len(begin) == len(end) == len(step):
        raise ParameterError(
            f"operator '{name}': begin={begin}, end={end} and step={a['step']} must be equally long.", operator=name
        )
    if len(begin) > len(shape):
        raise ShapeError(
            f"operator '{name}': begin={begin} names {len(begin)} axes but data {shape} has {len(shape)}.",
            operator=name,
            shapes=[shape],
        )
    if 0 in step:
        raise ParameterError(f"operator '{name}': step={step} must not hold 0.", operator=name)
    return tuple(slice(b, e, s) for b, e, s in zip(begin, end, step))


def _sliced(name: str, x: Spec, a: Any) -> Spec:
    key = plan_slice(name, x.shape, a)
    lengths = tuple(len(range(*k.indices(n))) for k, n in zip(key, x.shape))
    return Spec(lengths + x.shape[len(key) :], x.dtype)


_SLICE = {"begin": Shape(), "end": Shape(), "step": Shape(())}


def _key(a: dict[str, Any]) -> tuple[slice, ...]:
    return plan_slice("reference", (0,) * 9, {"step": (), **a})


operator(
    "slice",
    "data",
    _SLICE,
    aliases=("crop",),
    infer=lambda a, x: _sliced("slice", x, a),
    gradient=(lambda F, g, y, x, **a: F._slice_backward(g, x, **a),),
    saves="",
    reference=lambda x, **a: x[_key(a)],
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), begin=(0, 1), end=(2, 3)),
        sample(rng.standard_normal((3, 4)), begin=(None, -2), end=(None, None)),
        sample(rng.standard_normal((3, 5)), begin=(None, 4), end=(None, 0), step=(-1, -2)),
        sample(rng.standard_normal((2, 3, 4)), begin=(1,), end=(9,)),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), begin=(0, 0, 0), end=(1, 1, 1), match="names 3 axes"),
        error(np.ones((2, 3), "float32"), begin=(0, 0), end=(1,), match="equally long"),
        error(np.ones((2, 3), "float32"), begin=0, end=1, step=0, match="must not hold 0"),
    ],
    doc="""Cut out ``data[begin:end:step]``, axis by axis.

Parameters
----------
data : NDArray
begin, end : tuple of int or None
    As in Python slices; axes beyond their length are kept whole.
step : tuple of int or None
    Negative steps go backwards.

Returns
-------
NDArray

Raises
------
ShapeError
    If more axes are named than there are.
ParameterError
    If a step is 0, or the tuples are not equally long.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.slice(mx.nd.array([[1, 2, 3], [4, 5, 6]]), begin=(0, 1), end=(2, 3)).asnumpy().tolist()
[[2.0, 3.0], [5.0, 6.0]]
""",
)

operator(
    "_slice_backward",
    "grad data",
    _SLICE,
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, **a: F.slice(g, **a), None),
    saves="",
    doc="Put ``grad`` into zeros of the shape of ``data`` where ``slice`` took it from.",
)


def slice_axis_bounds(a: Any, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return ``(axis, begin, end)``, all counted from the front.

    Raises
    ------
    ShapeError
        If the range goes beyond the axis or ends before it begins.
    """
    axis = one_axis("slice_axis", a["axis"], len(shape))
    n = shape[axis]
    b = a["begin"] + n if a["begin"] < 0 else a["begin"]
    e = n if a["end"] is None else a["end"] + n if a["end"] < 0 else a["end"]
    if not 0 <= b <= e <= n:
        raise ShapeError(
            f"operator 'slice_axis': begin={a['begin']}, end={a['end']} is no range within axis {axis} of data "
            f"{shape}, which has length {n}.",
            operator="slice_axis",
            shapes=[shape],
        )
    return axis, b, e


def _slice_axis(a: Any, x: Spec) -> Spec:
    axis, b, e = slice_axis_bounds(a, x.shape)
    return Spec(x.shape[:axis] + (e - b,) + x.shape[axis + 1 :], x.dtype)


operator(
    "slice_axis",
    "data",
    {"axis": Int(), "begin": Int(), "end": Int(None)},
    infer=_slice_axis,
    gradient=(lambda F, g, y, x, **a: F._slice_axis_backward(g, x, **a),),
    saves="",
    reference=lambda x, axis, begin, end=None: np.moveaxis(np.moveaxis(x, axis, 0)[begin:end], 0, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), axis=1, begin=1, end=3),
        sample(rng.standard_normal((3, 4)), axis=-2, begin=-2, end=None),
        sample(rng.standard_normal((2, 3, 4)), axis=2, begin=0, end=-1),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), axis=1, begin=0, end=4, match="no range within axis 1"),
        error(np.ones((2, 3), "float32"), axis=1, begin=2, end=1, match="no range within axis 1"),
        error(np.ones((2, 3), "float32"), axis=2, begin=0, end=1, match="axis=2 is out of range"),
    ],
    doc="""Cut out ``begin:end`` along one axis.

Parameters
----------
data : NDArray
axis : int
begin : int
end : int or None
    None means up to the end; negative values count from there.

Returns
-------
NDArray

Raises
------
ShapeError
    If the range goes beyond the axis.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.slice_axis(mx.nd.array([[1, 2, 3], [4, 5, 6]]), axis=1, begin=1, end=None).asnumpy().tolist()
[[2.0, 3.0], [5.0, 6.0]]
""",
)

operator(
    "_slice_axis_backward",
    "grad data",
    {"axis": Int(), "begin": Int(), "end": Int(None)},
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, **a: F.slice_axis(g, **a), None),
    saves="",
    doc="Put ``grad`` into zeros of the shape of ``data`` where ``slice_axis`` took it from.",
)


def _slice_like(a: Any, x: Spec, like: Spec) -> Spec:
    axes = a["axes"]
    if not axes:
        if len(x.shape) != len(like.shape):
            raise ShapeError(
                f"operator 'slice_like' without axes wants data {x.shape} and shape_like {like.shape} to have the same "
                f"number of axes.",
                operator="slice_like",
                shapes=[x.shape, like.shape],
            )
        axes = tuple(range(len(x.shape)))
    out = list(x.shape)
    for axis in axes:
        i = one_axis("slice_like", axis, len(x.shape), "axes")
        j = one_axis("slice_like", axis, len(like.shape), "axes")
        if like.shape[j] > out[i]:
            raise ShapeError(
                f"operator 'slice_like': axis {i} of data {x.shape} is shorter than that of shape_like {like.shape}.",
                operator="slice_like",
                shapes=[x.shape, like.shape],
            )
        out[i] = like.shape[j]
    return Spec(tuple(out), x.dtype)


operator(
    "slice_like",
    "data shape_like",
    {"axes": Shape(())},
    same_dtype=False,
    infer=_slice_like,
    gradient=(
        lambda F, g, y, x, like, axes: F._corner_backward(g, x),
        lambda F, g, y, x, like, axes: F.zeros_like(like),
    ),
    saves="",
    reference=lambda x, like, axes=(): x[
        tuple(slice(n) for n in _slice_like({"axes": axes}, Spec(x.shape, x.dtype), like).shape)
    ],
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), rng.standard_normal((2, 3))),
        sample(rng.standard_normal((3, 4)), rng.standard_normal((2, 3)), axes=(-1,)),
        sample(rng.standard_normal((3, 4, 2)), rng.standard_normal((2, 3)), axes=(0, 1)),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones((2, 4), "float32"), match="shorter"),
        error(np.ones((2, 3), "float32"), np.ones(2, "float32"), match="same number of axes"),
    ],
    doc="""Cut ``data`` to the lengths of another array, from the first element on.

Parameters
----------
data, shape_like : NDArray
axes : tuple of int
    Axes to cut; ``()`` means all.

Returns
-------
NDArray

Raises
------
ShapeError
    If ``data`` is shorter.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.slice_like(mx.nd.zeros((3, 4)), mx.nd.zeros((2, 9)), axes=(0,)).shape
(2, 4)
""",
)

operator(
    "_corner_backward",
    "grad data",
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x: F.slice_like(g, gg), None),
    saves="",
    doc="Put ``grad`` at the first elements of zeros of the shape of ``data``; the gradient of ``slice_like``.",
)


def _slice_assign(a: Any, x: Spec, value: Spec) -> Spec:
    target = _sliced("_slice_assign", x, a)
    if target.shape != value.shape:
        raise ShapeError(
            f"operator '_slice_assign': the slice of lhs {x.shape} has shape {target.shape} but rhs has {value.shape}.",
            operator="_slice_assign",
            shapes=[x.shape, value.shape],
        )
    return x


operator(
    "_slice_assign",
    "lhs rhs",
    _SLICE,
    aliases=("_crop_assign",),
    infer=_slice_assign,
    gradient=(
        lambda F, g, y, x, value, **a: F._slice_assign_scalar(g, scalar=0.0, **a),
        lambda F, g, y, x, value, **a: F.slice(g, **a),
    ),
    saves="",
    reference=lambda x, value, **a: written(x, _key(a), value),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), rng.standard_normal((2, 2)), begin=(0, 1), end=(2, 3)),
        sample(
            rng.standard_normal((3, 4)),
            rng.standard_normal((3, 2)),
            begin=(None, 3),
            end=(None, None),
            step=(None, -2),
        ),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones((1, 2), "float32"), begin=0, end=1, match="but rhs has (1, 2)")
    ],
    doc="""Return ``lhs`` with ``lhs[begin:end:step]`` replaced by ``rhs``.

Parameters
----------
lhs, rhs : NDArray
begin, end, step : tuple of int or None
    As of ``slice``.

Returns
-------
NDArray
    Shape of ``lhs``.
""",
)

operator(
    "_slice_assign_scalar",
    "data",
    {"scalar": Float(0.0), **_SLICE},
    aliases=("_crop_assign_scalar",),
    infer=lambda a, x: (_sliced("_slice_assign_scalar", x, a), x)[1],
    gradient=(lambda F, g, y, x, scalar, **a: F._slice_assign_scalar(g, scalar=0.0, **a),),
    saves="",
    reference=lambda x, scalar=0.0, **a: written(x, _key(a), scalar),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), scalar=2.5, begin=(0, 1), end=(2, 3)),
        sample(rng.standard_normal((3, 4)), begin=(2,), end=(None,), step=(-2,)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), begin=0, end=1, step=0, match="must not hold 0")],
    doc="""Return ``data`` with ``data[begin:end:step]`` replaced by a number.

Parameters
----------
data : NDArray
scalar : float
begin, end, step : tuple of int or None
    As of ``slice``.

Returns
-------
NDArray
    Shape of ``data``.
""",
)


def crop_origin(shape: tuple[int, ...], size: tuple[int, ...], offset: Any, center: bool) -> tuple[int, int]:
    """Return the first row and column that ``Crop`` keeps of an image ``(N, C, H, W)``."""
    if center:
        return (shape[2] - size[0]) // 2, (shape[3] - size[1]) // 2
    return offset[0], offset[1]


def _crop(a: Any, x: Spec, *like: Spec) -> Spec:
    specs = (x, *like)
    if len(specs) > 2 or any(len(s.shape) != 4 for s in specs):
        raise ShapeError(
            f"operator 'Crop' takes one or two arrays (N, C, H, W) but got {', '.join(str(s.shape) for s in specs)}.",
            operator="Crop",
            shapes=[s.shape for s in specs],
        )
    size = like[0].shape[2:] if like else a["h_w"]
    if min(size) < 1:
        raise ParameterError(
            f"operator 'Crop' of one array needs h_w, both at least 1, but h_w={a['h_w']}.", operator="Crop"
        )
    top, left = crop_origin(x.shape, size, a["offset"], a["center_crop"])
    if top < 0 or left < 0 or top + size[0] > x.shape[2] or left + size[1] > x.shape[3]:
        raise ShapeError(
            f"operator 'Crop': a window of {tuple(size)} at offset {(top, left)} does not fit in data {x.shape}.",
            operator="Crop",
            shapes=[s.shape for s in specs],
        )
    return Spec((*x.shape[:2], *size), x.dtype)


def _crop_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    d = F._crop_backward(gs[0], inputs[0], offset=a["offset"], center_crop=a["center_crop"])
    return [d, *[F.zeros_like(x) for x in inputs[1:]]]


operator(
    "Crop",
    "*data",
    {"offset": Shape((0, 0)), "h_w": Shape((0, 0)), "center_crop": Bool(False)},
    same_dtype=False,
    infer=_crop,
    gradient=Joint(_crop_back),
    saves="",
    reference=lambda x, *like, offset=(0, 0), h_w=(0, 0), center_crop=False: _cropped(
        x, like[0].shape[2:] if like else h_w, offset, center_crop
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 1, 4, 5)), offset=(1, 2), h_w=(2, 3)),
        sample(rng.standard_normal((1, 2, 5, 5)), h_w=(3, 2), center_crop=True),
        sample(rng.standard_normal((1, 2, 4, 4)), rng.standard_normal((1, 1, 2, 3)), offset=(1, 0)),
    ],
    errors=lambda: [
        error(np.ones((1, 1, 4, 4), "float32"), match="needs h_w"),
        error(np.ones((1, 1, 4, 4), "float32"), h_w=(3, 3), offset=(2, 0), match="does not fit"),
        error(np.ones((4, 4), "float32"), h_w=(3, 3), match="(N, C, H, W)"),
    ],
    doc="""Cut a window out of images.

Parameters
----------
*data : NDArray
    Images ``(N, C, H, W)``, and optionally an array whose height and width the window takes.
offset : tuple of int
    First row and column.
h_w : tuple of int
    Height and width, where only one array is given.
center_crop : bool
    Take the window from the middle.

Returns
-------
NDArray
    Shape ``(N, C, height, width)``.

Raises
------
ShapeError
    If the window does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.Crop(mx.nd.zeros((1, 3, 8, 8)), h_w=(4, 6), center_crop=True).shape
(1, 3, 4, 6)
""",
)

operator(
    "_crop_backward",
    "grad data",
    {"offset": Shape((0, 0)), "center_crop": Bool(False)},
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(
        lambda F, g, y, gg, x, offset, center_crop: F.Crop(g, gg, offset=offset, h_w=(0, 0), center_crop=center_crop),
        None,
    ),
    saves="",
    doc="Put ``grad`` into zeros of the shape of ``data`` where ``Crop`` took it from.",
)


def _cropped(x: np.ndarray, size: Any, offset: Any, center: bool) -> np.ndarray:
    top, left = crop_origin(x.shape, size, offset, center)
    return x[:, :, top : top + size[0], left : left + size[1]]
