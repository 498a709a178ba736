"""Records of operators that rearrange elements: reshaping, joining, cutting, padding, repeating.

None computes: every result holds copies of input elements (or a fill value), and every gradient puts the incoming
gradient back where the elements came from. Operators named ``_x_backward`` do that for ``x``; each is linear, and
its own gradient is ``x`` again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Choice, Float, Int, IntOrShape, Shape
from .elementwise import same
from .record import ZERO_GRADIENT, Joint, Spec, error, sample
from .reduction import one_axis
from .registry import operator

_INT64 = np.dtype(np.int64)

# ---------------------------------------------------------------------------------------------------------------
# Reshaping


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

# ---------------------------------------------------------------------------------------------------------------
# Joining and splitting


def _concat(a: Any, *specs: Spec) -> Spec:
    if not specs:
        raise ParameterError("operator 'Concat' needs at least one array.", operator="Concat")
    first = specs[0].shape
    axis = one_axis("Concat", a["dim"], len(first), "dim")
    length = 0
    for s in specs:
        if len(s.shape) != len(first) or any(n != m for i, (n, m) in enumerate(zip(s.shape, first)) if i != axis):
            raise ShapeError(
                f"operator 'Concat' along dim={a['dim']} wants arrays that differ in that axis only but got shapes "
                f"{', '.join(str(t.shape) for t in specs)}.",
                operator="Concat",
                shapes=[t.shape for t in specs],
            )
        length += s.shape[axis]
    return Spec(first[:axis] + (length,) + first[axis + 1 :], specs[0].dtype)


def _concat_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    (g,), dim = gs, a["dim"]
    if len(inputs) == 1:
        return [g]
    if F.symbolic or F.recorded:
        return F._concat_backward(g, *inputs, dim=dim, count=len(inputs))
    # Raw arrays: views of g, cut without a copy.
    lead = (slice(None),) * (dim % g.ndim)
    parts, begin = [], 0
    for x, need in zip(inputs, needs):
        end = begin + x.shape[dim]
        parts.append(g[(*lead, slice(begin, end))] if need else None)
        begin = end
    return parts


def _filled(F: Any, gs: Any, outputs: Any) -> list[Any]:
    """Return gradients of all outputs: zeros where none arrived."""
    return [F.zeros_like(y) if g is None else g for g, y in zip(gs, outputs)]


operator(
    "Concat",
    "*data",
    {"dim": Int(1)},
    aliases=("concat",),
    infer=_concat,
    gradient=Joint(_concat_back),
    saves="",
    reference=lambda *xs, dim=1: np.concatenate(xs, axis=dim),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), rng.standard_normal((2, 1)), rng.standard_normal((2, 2))),
        sample(rng.standard_normal((2, 3)), rng.standard_normal((4, 3)), dim=0),
        sample(rng.standard_normal((2, 1, 3)), rng.standard_normal((2, 1, 2)), dim=-1),
        sample(rng.standard_normal((2, 3))),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones((3, 3), "float32"), match="differ in that axis only"),
        error(np.ones(3, "float32"), np.ones(3, "float32"), match="dim=1 is out of range"),
        error(np.ones((2, 3), "float32"), np.ones((2, 3), "int32"), match="one dtype"),
    ],
    doc="""Join arrays along an existing axis.

Parameters
----------
*data : NDArray
    Equal shapes but for axis ``dim``; one dtype.
dim : int

Returns
-------
NDArray

Raises
------
ShapeError
    If the other axes differ.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.concat(mx.nd.array([[1], [2]]), mx.nd.array([[3], [4]]), dim=1).asnumpy().tolist()
[[1.0, 3.0], [2.0, 4.0]]
""",
)

operator(
    "_concat_backward",
    "*data",
    {"dim": Int(), "count": Int()},
    outputs=lambda a: a["count"],
    infer=lambda a, g, *likes: likes if len(likes) > 1 else likes[0],
    gradient=Joint(
        lambda F, gs, inputs, outputs, a, needs: [
            F.Concat(*_filled(F, gs, outputs), dim=a["dim"]),
            *[None] * (len(inputs) - 1),
        ]
    ),
    saves="",
    doc="Cut the first array along ``dim`` into parts as long as the other arrays; the gradient of ``Concat``.",
)


def _stack(a: Any, *specs: Spec) -> Spec:
    if not specs:
        raise ParameterError("operator 'stack' needs at least one array.", operator="stack")
    first = specs[0].shape
    if any(s.shape != first for s in specs):
        raise ShapeError(
            f"operator 'stack' wants arrays of equal shape but got {', '.join(str(s.shape) for s in specs)}.",
            operator="stack",
            shapes=[s.shape for s in specs],
        )
    axis = one_axis("stack", a["axis"], len(first) + 1)
    return Spec(first[:axis] + (len(specs),) + first[axis:], specs[0].dtype)


def _stack_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if len(inputs) == 1:
        return [back_to(F, gs[0], inputs[0])]
    return F.SliceChannel(gs[0], num_outputs=len(inputs), axis=a["axis"], squeeze_axis=True)


operator(
    "stack",
    "*data",
    {"axis": Int(0)},
    infer=_stack,
    gradient=Joint(_stack_back),
    saves="",
    reference=lambda *xs, axis=0: np.stack(xs, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), rng.standard_normal((2, 3))),
        sample(rng.standard_normal((2, 3)), rng.standard_normal((2, 3)), axis=-1),
        sample(rng.standard_normal(3), axis=1),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones((1, 3), "float32"), match="equal shape"),
        error(np.ones((2, 3), "float32"), axis=3, match="axis=3 is out of range"),
    ],
    doc="""Join arrays along a new axis.

Parameters
----------
*data : NDArray
    Equal shapes and dtypes.
axis : int
    Where the new axis stands in the result.

Returns
-------
NDArray

Raises
------
ShapeError
    If the shapes differ.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.stack(mx.nd.array([1, 2]), mx.nd.array([3, 4]), axis=1).asnumpy().tolist()
[[1.0, 3.0], [2.0, 4.0]]
""",
)


def _split(a: Any, x: Spec) -> Any:
    k = a["num_outputs"]
    axis = one_axis("SliceChannel", a["axis"], len(x.shape))
    n = x.shape[axis]
    if k < 1 or n % k or (a["squeeze_axis"] and n != k):
        wanted = (
            f"as long as num_outputs={k}, to be squeezed" if a["squeeze_axis"] else f"a multiple of num_outputs={k}"
        )
        raise ShapeError(
            f"operator 'SliceChannel': axis {axis} of data {x.shape} has length {n}, but it must be {wanted}.",
            operator="SliceChannel",
            shapes=[x.shape],
        )
    rest = () if a["squeeze_axis"] else (n // k,)
    one = Spec(x.shape[:axis] + rest + x.shape[axis + 1 :] or (1,), x.dtype)
    return one if k == 1 else (one,) * k


def _split_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if len(outputs) == 1:
        return [back_to(F, gs[0], inputs[0])]
    parts = _filled(F, gs, outputs)
    if a["squeeze_axis"]:
        # Squeezed parts of an array with one axis have shape (1,), so restore the shape after joining.
        return [back_to(F, F.stack(*parts, axis=a["axis"]), inputs[0])]
    return [F.Concat(*parts, dim=a["axis"])]


operator(
    "SliceChannel",
    "data",
    {"num_outputs": Int(), "axis": Int(1), "squeeze_axis": Bool(False)},
    aliases=("split",),
    outputs=lambda a: a["num_outputs"],
    infer=_split,
    gradient=Joint(_split_back),
    saves="",
    reference=lambda x, num_outputs, axis=1, squeeze_axis=False: [
        np.squeeze(p, axis) if squeeze_axis else p for p in np.split(x, num_outputs, axis)
    ],
    samples=lambda rng: [
        sample(rng.standard_normal((2, 6)), num_outputs=3),
        sample(rng.standard_normal((4, 3)), num_outputs=2, axis=0),
        sample(rng.standard_normal((2, 3, 4)), num_outputs=3, axis=-2, squeeze_axis=True),
        sample(rng.standard_normal(3), num_outputs=3, axis=0, squeeze_axis=True),
        sample(rng.standard_normal((2, 3)), num_outputs=1),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), num_outputs=2, match="a multiple of num_outputs=2"),
        error(np.ones((2, 4), "float32"), num_outputs=2, squeeze_axis=True, match="to be squeezed"),
        error(np.ones((2, 3), "float32"), num_outputs=1, axis=4, match="axis=4 is out of range"),
    ],
    doc="""Cut an array along an axis into equal parts.

Parameters
----------
data : NDArray
num_outputs : int
    How many parts.
axis : int
squeeze_axis : bool
    Remove the axis, whose parts must have length 1.

Returns
-------
list of NDArray, or NDArray for one part

Raises
------
ShapeError
    If the axis cannot be divided equally.

Examples
--------
>>> import mxcore as mx
>>> [y.asnumpy().tolist() for y in mx.nd.split(mx.nd.array([[1, 2, 3, 4]]), num_outputs=2)]
[[[1.0, 2.0]], [[3.0, 4.0]]]
""",
)


def cuts_of(a: Any, n: int) -> list[tuple[int, int]]:
    """Return begin and end of every part that ``_split_v2`` makes of an axis of length ``n``."""
    if a["sections"] > 0:
        k = a["sections"]
        return [(i * (n // k), (i + 1) * (n // k)) for i in range(k)]
    begins = a["indices"]
    return list(zip(begins, [*begins[1:], n]))


def _split_v2(a: Any, x: Spec) -> Any:
    axis = one_axis("_split_v2", a["axis"], len(x.shape))
    n, k = x.shape[axis], a["sections"]
    if k > 0 and n % k:
        raise ShapeError(
            f"operator '_split_v2': axis {axis} of data {x.shape} has length {n}, not a multiple of sections={k}.",
            operator="_split_v2",
            shapes=[x.shape],
        )
    cuts = cuts_of(a, n)
    if not cuts or any(not 0 <= b <= e <= n for b, e in cuts):
        raise ShapeError(
            f"operator '_split_v2': indices={a['indices']} must begin with 0, rise, and stay within axis {axis} of "
            f"data {x.shape}.",
            operator="_split_v2",
            shapes=[x.shape],
        )
    specs = []
    for b, e in cuts:
        if a["squeeze_axis"] and e - b != 1:
            raise ShapeError(
                f"operator '_split_v2': a part of length {e - b} along axis {axis} of data {x.shape} cannot be "
                f"squeezed.",
                operator="_split_v2",
                shapes=[x.shape],
            )
        rest = () if a["squeeze_axis"] else (e - b,)
        specs.append(Spec(x.shape[:axis] + rest + x.shape[axis + 1 :] or (1,), x.dtype))
    return specs[0] if len(specs) == 1 else tuple(specs)


def _split_v2_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if len(outputs) == 1 and not a["squeeze_axis"] and (a["sections"] == 1 or a["indices"] == (0,)):
        return [back_to(F, gs[0], inputs[0])]
    return _split_back(F, gs, inputs, outputs, a, needs)


operator(
    "_split_v2",
    "data",
    {"indices": Shape(), "axis": Int(1), "squeeze_axis": Bool(False), "sections": Int(0)},
    outputs=lambda a: a["sections"] if a["sections"] > 0 else len(a["indices"]),
    infer=_split_v2,
    gradient=Joint(_split_v2_back),
    saves="",
    reference=lambda x, indices, axis=1, squeeze_axis=False, sections=0: [
        np.squeeze(p, axis) if squeeze_axis else p for p in np.split(x, sections or indices[1:], axis)
    ],
    samples=lambda rng: [
        sample(rng.standard_normal((2, 5)), indices=(0, 1, 3)),
        sample(rng.standard_normal((4, 3)), indices=(), sections=2, axis=0),
        sample(rng.standard_normal((3, 2)), indices=(0, 1, 2), axis=0, squeeze_axis=True),
        sample(rng.standard_normal((3, 2)), indices=(0,), axis=0),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), indices=(0, 5), match="stay within axis 1"),
        error(np.ones((2, 3), "float32"), indices=(), sections=2, match="not a multiple of sections=2"),
        error(np.ones((2, 3), "float32"), indices=(0, 1), squeeze_axis=True, match="cannot be squeezed"),
    ],
    doc="""Cut an array along an axis at given positions, or into equal parts.

Parameters
----------
data : NDArray
indices : tuple of int
    Where each part begins, 0 first; used where ``sections`` is 0.
axis : int
squeeze_axis : bool
    Remove the axis, whose parts must have length 1.
sections : int
    Number of equal parts.

Returns
-------
list of NDArray, or NDArray for one part
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Cutting out


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
    reference=lambda x, value, **a: _assigned(x, _key(a), value),
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
    reference=lambda x, scalar=0.0, **a: _assigned(x, _key(a), scalar),
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


def _assigned(x: np.ndarray, key: Any, value: Any) -> np.ndarray:
    x = x.copy()
    x[key] = value
    return x


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


# ---------------------------------------------------------------------------------------------------------------
# Reversing, repeating, padding


def _reverse(a: Any, x: Spec) -> Spec:
    for axis in a["axis"]:
        one_axis("reverse", axis, len(x.shape))
    return x


operator(
    "reverse",
    "data",
    {"axis": Shape()},
    aliases=("flip",),
    infer=_reverse,
    gradient=(lambda F, g, y, x, axis: F.reverse(g, axis=axis),),
    saves="",
    reference=lambda x, axis: np.flip(x, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), axis=(0, 1)),
        sample(rng.standard_normal((3, 4)), axis=0),
        sample(rng.standard_normal((2, 3, 4)), axis=(-1,)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range")],
    doc="""Reverse the order of elements along axes.

Parameters
----------
data : NDArray
axis : int or tuple of int

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
>>> mx.nd.flip(mx.nd.array([[1, 2], [3, 4]]), axis=1).asnumpy().tolist()
[[2.0, 1.0], [4.0, 3.0]]
""",
)


def _tile(a: Any, x: Spec) -> Spec:
    reps = a["reps"]
    if any(r < 1 for r in reps):
        raise ParameterError(f"operator 'tile': reps={reps} must be positive.", operator="tile")
    n = max(len(reps), len(x.shape))
    shape = (1,) * (n - len(x.shape)) + x.shape
    reps = (1,) * (n - len(reps)) + reps
    return Spec(tuple(r * m for r, m in zip(reps, shape)), x.dtype)


operator(
    "tile",
    "data",
    {"reps": Shape()},
    infer=_tile,
    gradient=(lambda F, g, y, x, reps: F._tile_backward(g, x, reps=reps),),
    saves="",
    reference=lambda x, reps: np.tile(x, reps),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), reps=(2, 2)),
        sample(rng.standard_normal((2, 3)), reps=2),
        sample(rng.standard_normal((2, 3)), reps=(2, 1, 3)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), reps=(0, 1), match="must be positive")],
    doc="""Repeat the whole array along axes.

Parameters
----------
data : NDArray
reps : int or tuple of int
    Repetitions for the last axes; more of them than axes add axes in front.

Returns
-------
NDArray

Raises
------
ParameterError
    If a number of repetitions is not positive.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.tile(mx.nd.array([1, 2]), reps=(2, 2)).asnumpy().tolist()
[[1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 1.0, 2.0]]
""",
)

operator(
    "_tile_backward",
    "grad data",
    {"reps": Shape()},
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, reps: F.tile(g, reps=reps), None),
    saves="",
    doc="Add up the repetitions that ``tile`` made of ``data``.",
)


def _repeat(a: Any, x: Spec) -> Spec:
    k = a["repeats"]
    if k < 0:
        raise ParameterError(f"operator 'repeat': repeats={k} must not be negative.", operator="repeat")
    if a["axis"] is None:
        return Spec((k * math.prod(x.shape),), x.dtype)
    axis = one_axis("repeat", a["axis"], len(x.shape))
    return Spec(tuple(n * k if i == axis else n for i, n in enumerate(x.shape)), x.dtype)


operator(
    "repeat",
    "data",
    {"repeats": Int(), "axis": Int(None)},
    infer=_repeat,
    gradient=(lambda F, g, y, x, **a: F._repeat_backward(g, x, **a),),
    saves="",
    reference=lambda x, repeats, axis=None: np.repeat(x, repeats, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), repeats=2),
        sample(rng.standard_normal((2, 3)), repeats=3, axis=-1),
        sample(rng.standard_normal((2, 3)), repeats=2, axis=0),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), repeats=-1, match="must not be negative"),
        error(np.ones((2, 3), "float32"), repeats=2, axis=2, match="axis=2 is out of range"),
    ],
    doc="""Repeat each element.

Parameters
----------
data : NDArray
repeats : int
axis : int or None
    Axis along which elements are repeated; None flattens first.

Returns
-------
NDArray

Raises
------
ShapeError
    If the axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.repeat(mx.nd.array([1, 2]), repeats=2).asnumpy().tolist()
[1.0, 1.0, 2.0, 2.0]
""",
)

operator(
    "_repeat_backward",
    "grad data",
    {"repeats": Int(), "axis": Int(None)},
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, **a: F.repeat(g, **a), None),
    saves="",
    doc="Add up the copies that ``repeat`` made of each element of ``data``.",
)

_PAD = {
    "mode": Choice(choices=("constant", "edge", "reflect")),
    "pad_width": Shape(),
    "constant_value": Float(0.0),
}


def _pad(a: Any, x: Spec) -> Spec:
    width = a["pad_width"]
    if len(width) != 2 * len(x.shape) or any(w < 0 for w in width):
        raise ParameterError(
            f"operator 'Pad': pad_width={width} must hold two widths, not negative, for each of the "
            f"{len(x.shape)} axes of data {x.shape}.",
            operator="Pad",
        )
    for i, n in enumerate(x.shape):
        most = max(width[2 * i], width[2 * i + 1])
        if a["mode"] == "reflect" and most >= max(n, 1) and most > 0:
            raise ShapeError(
                f"operator 'Pad': mode='reflect' needs widths smaller than the axis, but axis {i} of data {x.shape} "
                f"gets {most}.",
                operator="Pad",
                shapes=[x.shape],
            )
    return Spec(tuple(n + width[2 * i] + width[2 * i + 1] for i, n in enumerate(x.shape)), x.dtype)


def _padded(x: np.ndarray, mode: str, pad_width: Any, constant_value: float = 0.0) -> np.ndarray:
    pairs = list(zip(pad_width[::2], pad_width[1::2]))
    return np.pad(x, pairs, mode, **({"constant_values": constant_value} if mode == "constant" else {}))  # type: ignore[call-overload]


operator(
    "Pad",
    "data",
    _PAD,
    aliases=("pad",),
    infer=_pad,
    gradient=(
        lambda F, g, y, x, mode, pad_width, constant_value: F._pad_backward(g, x, mode=mode, pad_width=pad_width),
    ),
    saves="",
    reference=_padded,
    samples=lambda rng: [
        sample(
            rng.standard_normal((1, 2, 2, 3)), mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 0, 1), constant_value=3.0
        ),
        sample(rng.standard_normal((1, 2, 2, 3)), mode="edge", pad_width=(0, 0, 0, 0, 1, 3, 2, 0)),
        sample(rng.standard_normal((1, 1, 3, 4)), mode="reflect", pad_width=(0, 0, 0, 0, 2, 1, 3, 2)),
        sample(rng.standard_normal((1, 1, 2, 2, 2)), mode="reflect", pad_width=(0, 0, 0, 0, 1, 1, 1, 0, 0, 1)),
    ],
    errors=lambda: [
        error(np.ones((1, 1, 2, 2), "float32"), mode="edge", pad_width=(1, 1), match="two widths"),
        error(
            np.ones((1, 1, 2, 2), "float32"),
            mode="reflect",
            pad_width=(0, 0, 0, 0, 2, 0, 0, 0),
            match="smaller than the axis",
        ),
        error(np.ones((1, 1, 2, 2), "float32"), mode="wrap", pad_width=(0,) * 8, match="one of 'constant'"),
    ],
    doc="""Add elements at both ends of axes.

Parameters
----------
data : NDArray
    Any number of axes (MXNet: four or five).
mode : {"constant", "edge", "reflect"}
    A fixed value, the outermost element, or the elements mirrored at the outermost one.
pad_width : tuple of int
    Widths ``(before, after)`` of every axis, one after the other.
constant_value : float

Returns
-------
NDArray

Raises
------
ParameterError
    If ``pad_width`` does not hold two widths for every axis.
ShapeError
    If ``mode="reflect"`` and a width is not smaller than its axis.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.pad(mx.nd.ones((1, 1, 1, 2)), mode="constant", pad_width=(0, 0, 0, 0, 0, 0, 1, 1)).asnumpy().tolist()
[[[[0.0, 1.0, 1.0, 0.0]]]]
""",
)

operator(
    "_pad_backward",
    "grad data",
    {"mode": _PAD["mode"], "pad_width": _PAD["pad_width"]},
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(
        lambda F, g, y, gg, x, mode, pad_width: F.Pad(g, mode=mode, pad_width=pad_width, constant_value=0.0),
        None,
    ),
    saves="",
    doc="Add each padded element of ``grad`` to the element of ``data`` it copied; the gradient of ``Pad``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Blocks, diagonals, patches


def _blocks(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec) -> Spec:
        b = a["block_size"]
        if len(x.shape) != 4 or b < 1:
            raise ShapeError(
                f"operator '{name}' wants data (N, C, H, W) and a positive block_size but got {x.shape} and {b}.",
                operator=name,
                shapes=[x.shape],
            )
        n, c, h, w = x.shape
        if name == "depth_to_space":
            if c % (b * b):
                raise ShapeError(
                    f"operator '{name}': C of data {x.shape} must be a multiple of block_size**2 = {b * b}.",
                    operator=name,
                    shapes=[x.shape],
                )
            return Spec((n, c // (b * b), h * b, w * b), x.dtype)
        if h % b or w % b:
            raise ShapeError(
                f"operator '{name}': H and W of data {x.shape} must be multiples of block_size={b}.",
                operator=name,
                shapes=[x.shape],
            )
        return Spec((n, c * b * b, h // b, w // b), x.dtype)

    return infer


def _to_space(x: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = x.shape
    out = np.empty((n, c // block_size**2, h * block_size, w * block_size))
    for i in range(block_size):
        for j in range(block_size):
            k = i * block_size + j
            out[:, :, i::block_size, j::block_size] = x[:, k * out.shape[1] : (k + 1) * out.shape[1]]
    return out


def _to_depth(x: np.ndarray, block_size: int) -> np.ndarray:
    cells = [x[:, :, i::block_size, j::block_size] for i in range(block_size) for j in range(block_size)]
    return np.concatenate(cells, axis=1)


operator(
    "depth_to_space",
    "data",
    {"block_size": Int()},
    infer=_blocks("depth_to_space"),
    gradient=(lambda F, g, y, x, block_size: F.space_to_depth(g, block_size=block_size),),
    saves="",
    reference=_to_space,
    samples=lambda rng: [sample(rng.standard_normal((2, 8, 2, 3)), block_size=2)],
    errors=lambda: [
        error(np.ones((1, 3, 2, 2), "float32"), block_size=2, match="multiple of block_size**2"),
        error(np.ones((3, 2, 2), "float32"), block_size=2, match="(N, C, H, W)"),
    ],
    doc="""Move blocks of channels to space.

Parameters
----------
data : NDArray
    Shape ``(N, C, H, W)``.
block_size : int
    ``b``; ``C`` must be a multiple of ``b**2``.

Returns
-------
NDArray
    Shape ``(N, C / b**2, H * b, W * b)``.

Raises
------
ShapeError
    If ``C`` does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.depth_to_space(mx.nd.array([[[[1]], [[2]], [[3]], [[4]]]]), block_size=2).asnumpy().tolist()
[[[[1.0, 2.0], [3.0, 4.0]]]]
""",
)

operator(
    "space_to_depth",
    "data",
    {"block_size": Int()},
    infer=_blocks("space_to_depth"),
    gradient=(lambda F, g, y, x, block_size: F.depth_to_space(g, block_size=block_size),),
    saves="",
    reference=_to_depth,
    samples=lambda rng: [sample(rng.standard_normal((2, 2, 4, 6)), block_size=2)],
    errors=lambda: [error(np.ones((1, 3, 3, 2), "float32"), block_size=2, match="multiples of block_size=2")],
    doc="""Move blocks of space to channels; undoes ``depth_to_space``.

Parameters
----------
data : NDArray
    Shape ``(N, C, H, W)``.
block_size : int
    ``b``; ``H`` and ``W`` must be multiples of it.

Returns
-------
NDArray
    Shape ``(N, C * b**2, H / b, W / b)``.

Raises
------
ShapeError
    If ``H`` or ``W`` does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.space_to_depth(mx.nd.array([[[[1, 2], [3, 4]]]]), block_size=2).asnumpy().tolist()
[[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]
""",
)


def _diag(a: Any, x: Spec) -> Spec:
    k, shape = a["k"], x.shape
    if len(shape) == 1:
        n = shape[0] + abs(k)
        return Spec((n, n), x.dtype)
    i = one_axis("diag", a["axis1"], len(shape), "axis1")
    j = one_axis("diag", a["axis2"], len(shape), "axis2")
    if i == j:
        raise ParameterError(
            f"operator 'diag': axis1={a['axis1']} and axis2={a['axis2']} are the same axis of data {shape}.",
            operator="diag",
        )
    n = min(shape[i] + min(k, 0), shape[j] - max(k, 0))
    if n < 1:
        raise ShapeError(
            f"operator 'diag': data {shape} has no diagonal k={k} between axes {i} and {j}.",
            operator="diag",
            shapes=[shape],
        )
    return Spec(tuple(m for axis, m in enumerate(shape) if axis not in (i, j)) + (n,), x.dtype)


_DIAG = {"k": Int(0), "axis1": Int(0), "axis2": Int(1)}

operator(
    "diag",
    "data",
    _DIAG,
    infer=_diag,
    gradient=(lambda F, g, y, x, **a: F._diag_backward(g, x, **a),),
    saves="",
    reference=lambda x, k=0, axis1=0, axis2=1: np.diag(x, k) if x.ndim == 1 else np.diagonal(x, k, axis1, axis2),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(rng.standard_normal((3, 4)), k=-1),
        sample(rng.standard_normal(3), k=1),
        sample(rng.standard_normal((2, 3, 4)), k=1, axis1=-1, axis2=0),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), k=3, match="no diagonal k=3"),
        error(np.ones((2, 3), "float32"), axis1=1, axis2=-1, match="the same axis"),
    ],
    doc="""Extract a diagonal, or build a matrix from one.

Parameters
----------
data : NDArray
    With one axis, the result is a square matrix with ``data`` on diagonal ``k``.
k : int
    0 is the main diagonal, positive values lie above it.
axis1, axis2 : int
    Axes of the matrices.

Returns
-------
NDArray
    Other axes of ``data``, then the diagonal.

Raises
------
ShapeError
    If there is no such diagonal.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.diag(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()
[1.0, 4.0]
>>> mx.nd.diag(mx.nd.array([1, 2])).asnumpy().tolist()
[[1.0, 0.0], [0.0, 2.0]]
""",
)

operator(
    "_diag_backward",
    "grad data",
    _DIAG,
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, **a: F.diag(g, **a), None),
    saves="",
    doc="Put ``grad`` on the diagonal of zeros of the shape of ``data``; the gradient of ``diag``.",
)

_PATCH = {"kernel": Shape(), "stride": Shape(()), "dilate": Shape(()), "pad": Shape(())}


def patch_counts(name: str, spatial: tuple[int, ...], a: Any) -> tuple[int, ...]:
    """Return how many windows fit along each spatial axis.

    Raises
    ------
    ParameterError
        If an attribute has the wrong length.
    ShapeError
        If no window fits.
    """
    n = len(a["kernel"])
    given = {k: a[k] or (fill,) * n for k, fill in (("stride", 1), ("dilate", 1), ("pad", 0))}
    if len(spatial) != n or any(len(v) != n for v in given.values()):
        raise ParameterError(
            f"operator '{name}': kernel={a['kernel']}, stride={a['stride']}, dilate={a['dilate']} and pad={a['pad']} "
            f"must have one entry for each spatial axis of {spatial}.",
            operator=name,
        )
    counts = []
    for size, k, s, d, p in zip(spatial, a["kernel"], given["stride"], given["dilate"], given["pad"]):
        count = (size + 2 * p - d * (k - 1) - 1) // s + 1 if s > 0 else 0
        if count < 1 or k < 1 or d < 1 or p < 0:
            raise ShapeError(
                f"operator '{name}': no window of kernel={a['kernel']}, stride={a['stride']}, dilate={a['dilate']}, "
                f"pad={a['pad']} fits spatial axes {spatial}.",
                operator=name,
            )
        counts.append(count)
    return tuple(counts)


def _im2col(a: Any, x: Spec) -> Spec:
    if len(x.shape) < 3:
        raise ShapeError(f"operator 'im2col' wants data (N, C, ...spatial) but got {x.shape}.", operator="im2col")
    counts = patch_counts("im2col", x.shape[2:], a)
    return Spec((x.shape[0], x.shape[1] * math.prod(a["kernel"]), math.prod(counts)), x.dtype)


def _col2im(a: Any, x: Spec) -> Spec:
    counts = patch_counts("col2im", a["output_size"], a)
    k = math.prod(a["kernel"])
    if len(x.shape) != 3 or x.shape[1] % k or x.shape[2] != math.prod(counts):
        raise ShapeError(
            f"operator 'col2im' wants data (N, C * {k}, {math.prod(counts)}) for output_size={a['output_size']} and "
            f"kernel={a['kernel']} but got {x.shape}.",
            operator="col2im",
            shapes=[x.shape],
        )
    return Spec((x.shape[0], x.shape[1] // k, *a["output_size"]), x.dtype)


def _patches(x: np.ndarray, kernel: Any, stride: Any = (), dilate: Any = (), pad: Any = ()) -> np.ndarray:
    n = len(kernel)
    stride, dilate, pad = stride or (1,) * n, dilate or (1,) * n, pad or (0,) * n
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilate)]
    windows: Any = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(2, 2 + n)))
    windows = windows[(slice(None), slice(None), *[slice(None, None, s) for s in stride])]
    windows = windows[(..., *[slice(None, None, d) for d in dilate])]
    order = (0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n))
    return windows.transpose(order).reshape(x.shape[0], x.shape[1] * math.prod(kernel), -1)


def _unpatched(x: np.ndarray, output_size: Any, kernel: Any, **a: Any) -> np.ndarray:
    # The transpose of a linear map, built column by column.
    shape = (1, 1, *output_size)
    eye = np.eye(math.prod(output_size))
    matrix = np.stack([_patches(e.reshape(shape), kernel, **a).reshape(-1) for e in eye], axis=1)
    channels = x.reshape(-1, matrix.shape[0])
    return (channels @ matrix).reshape(x.shape[0], -1, *output_size)


operator(
    "im2col",
    "data",
    _PATCH,
    infer=_im2col,
    gradient=(lambda F, g, y, x, **a: F._im2col_backward(g, x, **a),),
    saves="",
    reference=_patches,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 2, 4, 5)), kernel=(2, 3)),
        sample(rng.standard_normal((1, 2, 5, 5)), kernel=(3, 2), stride=(2, 1), dilate=(1, 2), pad=(1, 2)),
        sample(rng.standard_normal((2, 2, 5)), kernel=(2,), pad=(1,)),
    ],
    errors=lambda: [
        error(np.ones((1, 1, 2, 2), "float32"), kernel=(3, 3), match="no window"),
        error(np.ones((1, 1, 2, 2), "float32"), kernel=(3,), match="one entry for each spatial axis"),
    ],
    doc="""Lay out sliding windows as columns, so that a convolution becomes a matrix product.

Parameters
----------
data : NDArray
    Shape ``(N, C, ...spatial)``.
kernel, stride, dilate, pad : tuple of int
    One entry for each spatial axis; zeros are padded.

Returns
-------
NDArray
    Shape ``(N, C * prod(kernel), number of windows)``.

Raises
------
ShapeError
    If no window fits.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.im2col(mx.nd.array([[[[1, 2], [3, 4]]]]), kernel=(1, 2)).asnumpy().tolist()
[[[1.0, 3.0], [2.0, 4.0]]]
""",
)

operator(
    "_im2col_backward",
    "grad data",
    _PATCH,
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, **a: F.im2col(g, **a), None),
    saves="",
    doc="Add the columns of ``grad`` to the elements of ``data`` they came from; the gradient of ``im2col``.",
)

operator(
    "col2im",
    "data",
    {"output_size": Shape(), **_PATCH},
    infer=_col2im,
    gradient=(lambda F, g, y, x, output_size, **a: F.im2col(g, **a),),
    saves="",
    reference=_unpatched,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 2 * 4, 9)), output_size=(4, 4), kernel=(2, 2)),
        sample(rng.standard_normal((1, 4, 6)), output_size=(4, 3), kernel=(2, 2), stride=(2, 1), pad=(1, 0)),
    ],
    errors=lambda: [
        error(np.ones((1, 4, 5), "float32"), output_size=(3, 3), kernel=(2, 2), match="wants data (N, C * 4, 4)")
    ],
    doc="""Add columns up to images, each element where ``im2col`` would take it from.

Parameters
----------
data : NDArray
    Shape ``(N, C * prod(kernel), number of windows)``.
output_size : tuple of int
    Spatial shape of the result.
kernel, stride, dilate, pad : tuple of int
    One entry for each spatial axis.

Returns
-------
NDArray
    Shape ``(N, C, *output_size)``.

Raises
------
ShapeError
    If the number of windows does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.col2im(mx.nd.ones((1, 2, 2)), output_size=(1, 3), kernel=(1, 2)).asnumpy().tolist()
[[[[1.0, 2.0, 1.0]]]]
""",
)
