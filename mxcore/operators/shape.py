"""Records of operators that give the same elements another shape: reshaping, permuting axes, telling the shape.

None computes, and every gradient is the incoming gradient in the shape it came from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Int, IntOrShape, Shape
from .checks import one_axis
from .elementwise import same
from .record import ZERO_GRADIENT, Spec, error, sample
from .registry import operator

_INT64 = np.dtype(np.int64)


def reshaped(shape: tuple[int, ...], spec: Sequence[int], reverse: bool = False) -> tuple[int, ...]:
    """Return the shape that ``spec`` means for an array of ``shape``.

    Parameters
    ----------
    shape : tuple of int
    spec : sequence of int
        Lengths, and: 0 copies an axis, -1 infers one length, -2 copies all remaining axes, -3 merges two axes,
        -4 splits an axis into the next two numbers (of which one may be -1).
    reverse : bool
        Read ``shape`` and ``spec`` from the right.

    Raises
    ------
    ShapeError
        If the numbers of elements differ, or a special value has no axis to work on.

    Examples
    --------
    >>> reshaped((2, 3, 4), (0, -1)), reshaped((2, 3, 4), (-4, 1, 2, -3)), reshaped((10, 5, 4), (-1, 0), reverse=True)
    ((2, 12), (1, 2, 12), (50, 4))
    """
    source = tuple(shape)[::-1] if reverse else tuple(shape)
    codes = tuple(int(n) for n in spec)
    codes = codes[::-1] if reverse else codes

    def wrong(why: str) -> ShapeError:
        return ShapeError(
            f"operator 'Reshape': data {tuple(shape)} cannot have shape={tuple(spec)}"
            f"{' read from the right' if reverse else ''}: {why}.",
            operator="Reshape",
            shapes=[tuple(shape)],
        )

    out: list[int] = []
    infer = -1
    i = k = 0
    while k < len(codes):
        code = codes[k]
        k += 1
        if code > 0:
            out.append(code)
            i += 1
        elif code == 0:
            if i >= len(source):
                raise wrong(f"0 copies axis {i}, but there are {len(source)} axes")
            out.append(source[i])
            i += 1
        elif code == -1:
            if infer >= 0:
                raise wrong("only one length can be inferred with -1")
            infer = len(out)
            out.append(1)
            i += 1
        elif code == -2:
            out.extend(source[i:])
            i = len(source)
        elif code == -3:
            if i + 1 >= len(source):
                raise wrong(f"-3 merges axes {i} and {i + 1}, but there are {len(source)} axes")
            out.append(source[i] * source[i + 1])
            i += 2
        elif code == -4:
            if k + 1 >= len(codes):
                raise wrong("-4 must be followed by the two lengths it splits an axis into")
            if i >= len(source):
                raise wrong(f"-4 splits axis {i}, but there are {len(source)} axes")
            a, b = codes[k], codes[k + 1]
            k += 2
            n = source[i]
            i += 1
            if a == -1 and b == -1:
                raise wrong("only one of the two lengths after -4 can be -1")
            if a == -1:
                a = n // b if b > 0 else 0
            elif b == -1:
                b = n // a if a > 0 else 0
            if a < 0 or b < 0 or a * b != n:
                raise wrong(f"-4 cannot split an axis of length {n} into {a} and {b}")
            out += [a, b]
        else:
            raise wrong(f"{code} has no meaning; special values are 0, -1, -2, -3 and -4")
    size = math.prod(source)
    if infer >= 0:
        known = math.prod(out)
        if known == 0 or size % known:
            raise wrong(f"{size} elements cannot be divided into parts of {known}")
        out[infer] = size // known
    if math.prod(out) != size:
        raise wrong(f"it has {size} elements, the new shape {math.prod(out)}")
    return tuple(out[::-1]) if reverse else tuple(out)


def legacy_target(shape: tuple[int, ...], target: Sequence[int], keep_highest: bool) -> tuple[int, ...]:
    """Return what the old ``target_shape`` means: one 0 is inferred, ``keep_highest`` keeps axis 0."""
    out = list(target)
    if keep_highest:
        out[0] = shape[0]
    holes = [i for i, n in enumerate(out) if n == 0]
    if len(holes) > 1:
        raise ShapeError(
            f"operator 'Reshape': target_shape={tuple(target)} holds more than one 0, so no length can be inferred. "
            f"Use shape= in place of target_shape=.",
            operator="Reshape",
        )
    return reshaped(shape, tuple(-1 if i in holes else n for i, n in enumerate(out)))


def _reshape(a: Any, x: Spec) -> Spec:
    if a["shape"]:
        return Spec(reshaped(x.shape, a["shape"], a["reverse"]), x.dtype)
    if a["target_shape"]:
        return Spec(legacy_target(x.shape, a["target_shape"], a["keep_highest"]), x.dtype)
    raise ParameterError(f"operator 'Reshape' needs shape; data has shape {x.shape}.", operator="Reshape")


def back_to(F: Any, g: Any, like: Any) -> Any:
    """Return ``g`` in the shape of ``like``: on raw arrays a view, else an operator."""
    if F.symbolic or F.recorded:
        return F.reshape_like(g, like)
    return g.reshape(like.shape)


def _unshape(F: Any, g: Any, y: Any, x: Any, **_: Any) -> Any:
    return back_to(F, g, x)


operator(
    "Reshape",
    "data",
    {
        "shape": Shape(()),
        "reverse": Bool(False),
        "target_shape": Shape(()),
        "keep_highest": Bool(False),
    },
    aliases=("reshape",),
    infer=_reshape,
    gradient=(_unshape,),
    saves="",
    reference=lambda x, shape, reverse=False: x.reshape(
        reshaped(x.shape, shape if isinstance(shape, tuple) else (shape,), reverse)
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), shape=(2, 6)),
        sample(rng.standard_normal((2, 3, 4)), shape=(0, -1)),
        sample(rng.standard_normal((2, 3, 4)), shape=(-4, 1, -1, -3)),
        sample(rng.standard_normal((2, 3, 4)), shape=(-1, 0), reverse=True),
        sample(rng.standard_normal((2, 3)), shape=-1),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), shape=(4, 2), match="it has 6 elements, the new shape 8"),
        error(np.ones((2, 3), "float32"), shape=(-1, -1), match="only one length"),
        error(np.ones((2, 3), "float32"), shape=(0, 0, 0), match="0 copies axis 2"),
        error(np.ones((2, 3), "float32"), shape=(-4, 5, -1, 0), match="cannot split an axis of length 2"),
        error(np.ones((2, 3), "float32"), shape=(-7,), match="-7 has no meaning"),
        error(np.ones((2, 3), "float32"), match="needs shape"),
    ],
    doc="""Return the elements in another shape.

Parameters
----------
data : NDArray
shape : tuple of int
    Lengths, and special values: 0 copies an axis of ``data``, -1 infers one length, -2 copies all remaining axes,
    -3 merges two axes into one, -4 splits an axis into the next two numbers (one of which may be -1).
reverse : bool
    Match special values with axes from the right.
target_shape, keep_highest
    Old forms: one 0 in ``target_shape`` is inferred; ``keep_highest`` keeps axis 0.

Returns
-------
NDArray
    A new array; ``NDArray.reshape`` gives a view.

Raises
------
ShapeError
    If the numbers of elements differ.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.zeros((2, 3, 4))
>>> mx.nd.reshape(x, shape=(0, -1)).shape, mx.nd.reshape(x, shape=(-3, 4)).shape
((2, 12), (6, 4))
""",
)

operator(
    "Flatten",
    "data",
    aliases=("flatten",),
    infer=lambda a, x: Spec((x.shape[0], math.prod(x.shape[1:])), x.dtype),
    gradient=(_unshape,),
    saves="",
    reference=lambda x: x.reshape(x.shape[0], -1),
    samples=lambda rng: [sample(rng.standard_normal((2, 3, 4))), sample(rng.standard_normal(3))],
    doc="""Keep the first axis and flatten the others.

Parameters
----------
data : NDArray
    Shape ``(N, ...)``.

Returns
-------
NDArray
    Shape ``(N, rest)``.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.flatten(mx.nd.zeros((2, 3, 4))).shape
(2, 12)
""",
)


def _expand_dims(a: Any, x: Spec) -> Spec:
    n = len(x.shape) + 1
    axis = a["axis"]
    if not -n <= axis < n:
        raise ShapeError(
            f"operator 'expand_dims': axis={axis} is out of range for data {x.shape}; it takes {-n} to {n - 1}.",
            operator="expand_dims",
            shapes=[x.shape],
        )
    axis %= n
    return Spec(x.shape[:axis] + (1,) + x.shape[axis:], x.dtype)


operator(
    "expand_dims",
    "data",
    {"axis": Int()},
    infer=_expand_dims,
    gradient=(_unshape,),
    saves="",
    reference=lambda x, axis: np.expand_dims(x, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), axis=0),
        sample(rng.standard_normal((2, 3)), axis=-1),
        sample(rng.standard_normal((2, 3)), axis=1),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), axis=3, match="axis=3 is out of range"),
        error(np.ones((2, 3), "float32"), match="needs attribute 'axis'"),
    ],
    doc="""Insert an axis of length 1.

Parameters
----------
data : NDArray
axis : int
    Where the new axis stands in the result; negative values count from its end.

Returns
-------
NDArray

Raises
------
ShapeError
    If there is no such place.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.expand_dims(mx.nd.zeros((2, 3)), axis=1).shape
(2, 1, 3)
""",
)


def _squeeze(a: Any, x: Spec) -> Spec:
    axis = a["axis"]
    if axis is None:
        return Spec(tuple(n for n in x.shape if n != 1) or (1,), x.dtype)
    axes = {one_axis("squeeze", i, len(x.shape)) for i in ((axis,) if isinstance(axis, int) else axis)}
    for i in sorted(axes):
        if x.shape[i] != 1:
            raise ShapeError(
                f"operator 'squeeze': axis {i} of data {x.shape} has length {x.shape[i]}; only axes of length 1 can be "
                f"removed.",
                operator="squeeze",
                shapes=[x.shape],
            )
    return Spec(tuple(n for i, n in enumerate(x.shape) if i not in axes) or (1,), x.dtype)


operator(
    "squeeze",
    "data",
    {"axis": IntOrShape(None)},
    infer=_squeeze,
    gradient=(_unshape,),
    saves="",
    reference=lambda x, axis=None: np.squeeze(x, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((1, 3, 1))),
        sample(rng.standard_normal((1, 3, 1)), axis=0),
        sample(rng.standard_normal((1, 3, 1)), axis=(0, -1)),
        sample(rng.standard_normal((1, 1))),
    ],
    errors=lambda: [
        error(np.ones((2, 1), "float32"), axis=0, match="only axes of length 1"),
        error(np.ones((2, 1), "float32"), axis=2, match="axis=2 is out of range"),
    ],
    doc="""Remove axes of length 1.

Parameters
----------
data : NDArray
axis : int, tuple of int, or None
    Axes to remove; None means all of length 1.

Returns
-------
NDArray
    Shape ``(1,)`` where no axis is left.

Raises
------
ShapeError
    If an axis is longer than 1 or does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.squeeze(mx.nd.zeros((1, 3, 1))).shape, mx.nd.squeeze(mx.nd.zeros((1, 3, 1)), axis=0).shape
((3,), (3, 1))
""",
)


def _permutation(axes: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    return tuple(a % ndim for a in axes) if axes else tuple(range(ndim))[::-1]


def _transpose(a: Any, x: Spec) -> Spec:
    axes, ndim = a["axes"], len(x.shape)
    order = _permutation(axes, ndim)
    if sorted(order) != list(range(ndim)) or any(not -ndim <= i < ndim for i in axes):
        raise ShapeError(
            f"operator 'transpose': axes={axes} must name each of the {ndim} axes of data {x.shape} once.",
            operator="transpose",
            shapes=[x.shape],
        )
    return Spec(tuple(x.shape[i] for i in order), x.dtype)


def _transpose_back(F: Any, g: Any, y: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if not axes:
        return F.transpose(g, axes=())
    order = _permutation(axes, len(axes))
    return F.transpose(g, axes=tuple(order.index(i) for i in range(len(order))))


operator(
    "transpose",
    "data",
    {"axes": Shape(())},
    infer=_transpose,
    gradient=(_transpose_back,),
    saves="",
    reference=lambda x, axes=(): np.transpose(x, axes or None),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3))),
        sample(rng.standard_normal((2, 3, 4)), axes=(2, 0, 1)),
        sample(rng.standard_normal((2, 3, 4)), axes=(0, -1, 1)),
        sample(rng.standard_normal(3), axes=(0,)),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), axes=(0, 0), match="once"),
        error(np.ones((2, 3), "float32"), axes=(0,), match="once"),
    ],
    doc="""Permute axes.

Parameters
----------
data : NDArray
axes : tuple of int
    Which axis of ``data`` each axis of the result is; ``()`` reverses them.

Returns
-------
NDArray

Raises
------
ShapeError
    If ``axes`` is not a permutation.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.transpose(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()
[[1.0, 3.0], [2.0, 4.0]]
""",
)


def _swap(a: Any, x: Spec) -> Spec:
    i, j = (one_axis("SwapAxis", a[d], len(x.shape), d) for d in ("dim1", "dim2"))
    out = list(x.shape)
    out[i], out[j] = out[j], out[i]
    return Spec(tuple(out), x.dtype)


operator(
    "SwapAxis",
    "data",
    {"dim1": Int(0), "dim2": Int(0)},
    aliases=("swapaxes",),
    infer=_swap,
    gradient=(lambda F, g, y, x, dim1, dim2: F.SwapAxis(g, dim1=dim1, dim2=dim2),),
    saves="",
    reference=lambda x, dim1=0, dim2=0: np.swapaxes(x, dim1, dim2),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 4)), dim1=0, dim2=2),
        sample(rng.standard_normal((2, 3)), dim1=1, dim2=-2),
        sample(rng.standard_normal((2, 3)), dim1=1, dim2=1),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), dim1=0, dim2=2, match="dim2=2 is out of range")],
    doc="""Exchange two axes.

Parameters
----------
data : NDArray
dim1, dim2 : int

Returns
-------
NDArray

Raises
------
ShapeError
    If an axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.swapaxes(mx.nd.zeros((2, 3, 4)), 0, 2).shape
(4, 3, 2)
""",
)


def _reshape_like(a: Any, x: Spec, like: Spec) -> Spec:
    def span(side: str, shape: tuple[int, ...]) -> tuple[int, int]:
        n = len(shape)
        b, e = a[f"{side}_begin"], a[f"{side}_end"]
        b, e = 0 if b is None else b, n if e is None else e
        b, e = b + n if b < 0 else b, e + n if e < 0 else e
        if not 0 <= b <= e <= n:
            raise ShapeError(
                f"operator 'reshape_like': {side}_begin={a[f'{side}_begin']}, {side}_end={a[f'{side}_end']} is no "
                f"range of axes of {side} {shape}.",
                operator="reshape_like",
                shapes=[x.shape, like.shape],
            )
        return b, e

    (lb, le), (rb, re) = span("lhs", x.shape), span("rhs", like.shape)
    out = x.shape[:lb] + like.shape[rb:re] + x.shape[le:]
    if math.prod(out) != math.prod(x.shape):
        raise ShapeError(
            f"operator 'reshape_like': lhs {x.shape} has {math.prod(x.shape)} elements, but the shape {out} taken from "
            f"rhs {like.shape} has {math.prod(out)}.",
            operator="reshape_like",
            shapes=[x.shape, like.shape],
        )
    return Spec(out, x.dtype)


operator(
    "reshape_like",
    "lhs rhs",
    {"lhs_begin": Int(None), "lhs_end": Int(None), "rhs_begin": Int(None), "rhs_end": Int(None)},
    same_dtype=False,
    infer=_reshape_like,
    gradient=(
        lambda F, g, y, x, like, **_: back_to(F, g, x),
        lambda F, g, y, x, like, **_: F.zeros_like(like),
    ),
    saves="",
    reference=lambda x, like, **a: x.reshape(_reshape_like(_spans(a), Spec(x.shape, x.dtype), like).shape),
    samples=lambda rng: [
        sample(rng.standard_normal(6), rng.standard_normal((2, 3))),
        sample(
            rng.standard_normal((6, 7)), rng.standard_normal((3, 2, 4)), lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2
        ),
        sample(rng.standard_normal((5, 12)), rng.standard_normal((4, 2, 2, 3)), lhs_begin=-1, rhs_begin=1),
    ],
    errors=lambda: [
        error(np.ones(6, "float32"), np.ones((2, 4), "float32"), match="6 elements"),
        error(np.ones(6, "float32"), np.ones((2, 3), "float32"), lhs_begin=3, match="no range of axes"),
    ],
    doc="""Reshape ``lhs`` like ``rhs``, or some axes of it like some axes of ``rhs``.

Parameters
----------
lhs, rhs : NDArray
    Only the shape of ``rhs`` matters.
lhs_begin, lhs_end, rhs_begin, rhs_end : int or None
    Axes ``lhs_begin:lhs_end`` take the lengths of axes ``rhs_begin:rhs_end``.

Returns
-------
NDArray

Raises
------
ShapeError
    If the numbers of elements differ.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.reshape_like(mx.nd.zeros(6), mx.nd.zeros((2, 3))).shape
(2, 3)
""",
)


def _spans(a: dict[str, Any]) -> dict[str, Any]:
    return {k: a.get(k) for k in ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end")}


operator(
    "_identity_with_attr_like_rhs",
    "lhs rhs",
    same_dtype=False,
    infer=same,
    gradient=(lambda F, g, y, x, like: g, lambda F, g, y, x, like: F.zeros_like(like)),
    saves="",
    reference=lambda x, like: x,
    samples=lambda rng: [sample(rng.standard_normal((2, 3)), rng.standard_normal((2, 3)))],
    doc="Return a copy of ``lhs``; ``rhs`` is not read.",
)

for _name, _what, _value in (
    ("shape_array", "lengths of the axes", lambda x: np.array(x.shape)),
    ("size_array", "number of elements", lambda x: np.array([x.size])),
):
    operator(
        _name,
        "data",
        infer=(lambda shape: lambda a, x: Spec((len(x.shape),) if shape else (1,), _INT64))(_name == "shape_array"),
        gradient=ZERO_GRADIENT,
        saves="",
        reference=_value,
        samples=lambda rng: [sample(rng.standard_normal((2, 3, 4)), check_gradient=False)],
        doc=f"""Return the {_what} as an int64 array.

Parameters
----------
data : NDArray

Returns
-------
NDArray
    One axis, int64.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.{_name}(mx.nd.zeros((2, 3))).asnumpy().tolist()
{"[2, 3]" if _name == "shape_array" else "[6]"}
""",
    )
