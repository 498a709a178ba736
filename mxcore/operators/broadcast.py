"""Records of operators of two arrays, broadcast against each other, and of those that want equal shapes.

Comparisons and logical operators give 0 and 1 in the dtype of their inputs (MXNet 1.9.1's behaviour).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import ShapeError
from .attributes import IntOrShape, Shape
from .documentation import documentation
from .record import ZERO_GRADIENT, Broadcasting, Joint, Spec, error, sample
from .registry import operator


def broadcast(name: str) -> Callable[..., Spec]:
    """Inference of a broadcasting operator; its error names the operator and both shapes."""

    def infer(a: Any, x: Spec, y: Spec) -> Spec:
        if x.shape == y.shape:
            return x
        try:
            return Spec(np.broadcast_shapes(x.shape, y.shape), x.dtype)
        except ValueError:
            raise ShapeError(
                f"operator '{name}': shapes {x.shape} and {y.shape} cannot be broadcast together: from the right, each "
                f"pair of axes must be equal or one of them 1.",
                operator=name,
                shapes=[x.shape, y.shape],
            ) from None

    return infer


def equal_shapes(name: str) -> Callable[..., Spec]:
    """Inference of an operator that wants equal shapes."""

    def infer(a: Any, *specs: Spec) -> Spec:
        first = specs[0]
        for s in specs[1:]:
            if s.shape != first.shape:
                raise ShapeError(
                    f"operator '{name}' wants equal shapes but got {' and '.join(str(t.shape) for t in specs)}. "
                    f"Use the broadcast_* operator to broadcast.",
                    operator=name,
                    shapes=[t.shape for t in specs],
                )
        return first

    return infer


def _doc(formula: str, name: str, example: tuple[Any, Any, str], shapes: str) -> str:
    a, b, result = example
    return documentation(
        f"Compute ``{formula}`` for each pair of elements.",
        f"lhs, rhs : NDArray\n    {shapes}, of one dtype.",
        "NDArray",
        f">>> mx.nd.{name}(mx.nd.array({a}), mx.nd.array({b})).astype('float64').asnumpy().round(4).tolist()\n{result}",
        raises="ShapeError\n    If the shapes do not fit.\nDTypeError\n    If the dtypes differ.",
    )


def binary(
    name: str,
    formula: str,
    left: Any,
    right: Any,
    reference: Callable[..., Any],
    *,
    aliases: tuple[str, ...] = (),
    saves: str = "lhs rhs",
    low: float = -2.0,
    high: float = 2.0,
    example: tuple[Any, Any, str],
    elementwise: tuple[str, ...] = (),
) -> None:
    """Declare a broadcasting operator and, under the names in ``elementwise``, its form for equal shapes.

    Parameters
    ----------
    left, right : callable or ZERO_GRADIENT
        ``rule(F, g, y, a, b)``, gradients before they are summed to each input's shape.
    """

    def samples(rng: np.random.Generator) -> Any:
        # Distinct magnitudes: maximum and comparisons have a kink at ties.
        yield sample(rng.uniform(low, high, (3, 4)), rng.uniform(low, high, (3, 4)) + 0.01)
        yield sample(rng.uniform(low, high, (2, 3, 4)), rng.uniform(low, high, (2, 1, 4)))
        yield sample(rng.uniform(low, high, (1, 3)), rng.uniform(low, high, (2, 1)))
        yield sample(rng.uniform(low, high, (3,)), rng.uniform(low, high, (2, 3)))

    def equal(rng: np.random.Generator) -> Any:
        yield sample(rng.uniform(low, high, (3, 4)), rng.uniform(low, high, (3, 4)) + 0.01)

    gradient: Any = ZERO_GRADIENT
    plain: Any = ZERO_GRADIENT
    if left is not ZERO_GRADIENT:
        gradient = Broadcasting(left, right)
        plain = (left, right)
    operator(
        name,
        "lhs rhs",
        aliases=aliases,
        infer=broadcast(name),
        gradient=gradient,
        saves=saves,
        reference=reference,
        samples=samples,
        errors=lambda: [
            error(np.ones((2, 3), "float32"), np.ones((2, 4), "float32"), match="cannot be broadcast"),
            error(np.ones((2, 3), "float32"), np.ones((2, 3), "int32"), match="one dtype"),
        ],
        doc=_doc(formula, name, example, "Shapes that broadcast"),
    )
    if elementwise:
        operator(
            elementwise[0],
            "lhs rhs",
            aliases=elementwise[1:],
            infer=equal_shapes(elementwise[0]),
            gradient=plain,
            saves=saves,
            reference=reference,
            samples=equal,
            errors=lambda: [
                error(np.ones((2, 3), "float32"), np.ones((1, 3), "float32"), match="equal shapes"),
            ],
            doc=_doc(
                formula,
                elementwise[0],
                (example[0], example[1] * (len(example[0]) // len(example[1])), example[2]),
                "Equal shapes",
            ),
        )


binary(
    "broadcast_add",
    "lhs + rhs",
    lambda F, g, y, a, b: g,
    lambda F, g, y, a, b: g,
    np.add,
    aliases=("broadcast_plus",),
    saves="",
    example=([1, 2], [10], "[11.0, 12.0]"),
    elementwise=("elemwise_add", "_plus", "_add", "_Plus"),
)
binary(
    "broadcast_sub",
    "lhs - rhs",
    lambda F, g, y, a, b: g,
    lambda F, g, y, a, b: -g,
    np.subtract,
    aliases=("broadcast_minus",),
    saves="",
    example=([1, 2], [10], "[-9.0, -8.0]"),
    elementwise=("elemwise_sub", "_minus", "_sub", "_Minus"),
)
binary(
    "broadcast_mul",
    "lhs * rhs",
    lambda F, g, y, a, b: g * b,
    lambda F, g, y, a, b: g * a,
    np.multiply,
    example=([1, 2], [10], "[10.0, 20.0]"),
    elementwise=("elemwise_mul", "_mul", "_Mul"),
)
binary(
    "broadcast_div",
    "lhs / rhs",
    lambda F, g, y, a, b: g / b,
    lambda F, g, y, a, b: -(g * a / (b * b)),
    np.divide,
    low=0.5,
    high=3,
    example=([1, 2], [10], "[0.1, 0.2]"),
    elementwise=("elemwise_div", "_div", "_Div"),
)
binary(
    "broadcast_power",
    "lhs ** rhs",
    lambda F, g, y, a, b: g * b * F.broadcast_power(a, b - 1.0),
    lambda F, g, y, a, b: g * F.log(a) * F.broadcast_power(a, b),
    np.power,
    low=0.5,
    high=2,
    example=([1, 3], [2], "[1.0, 9.0]"),
    elementwise=("_power", "_Power"),
)
binary(
    "broadcast_maximum",
    "max(lhs, rhs)",
    lambda F, g, y, a, b: g * (F.broadcast_greater_equal(a, b)),
    lambda F, g, y, a, b: g * (F.broadcast_lesser(a, b)),
    np.maximum,
    example=([1, 3], [2], "[2.0, 3.0]"),
    elementwise=("_maximum", "_Maximum"),
)
binary(
    "broadcast_minimum",
    "min(lhs, rhs)",
    lambda F, g, y, a, b: g * (F.broadcast_lesser_equal(a, b)),
    lambda F, g, y, a, b: g * (F.broadcast_greater(a, b)),
    np.minimum,
    example=([1, 3], [2], "[1.0, 2.0]"),
    elementwise=("_minimum", "_Minimum"),
)
binary(
    "broadcast_mod",
    "lhs mod rhs, with the sign of rhs",
    lambda F, g, y, a, b: g * F.ones_like(y),
    lambda F, g, y, a, b: -(g * F.floor(F.broadcast_div(a, b))),
    np.mod,
    low=0.6,
    high=3,
    example=([5, -5], [3], "[2.0, 1.0]"),
    elementwise=("_mod", "_Mod"),
)
binary(
    "broadcast_hypot",
    "sqrt(lhs**2 + rhs**2)",
    lambda F, g, y, a, b: g * a / y,
    lambda F, g, y, a, b: g * b / y,
    np.hypot,
    saves="lhs rhs output",
    low=0.5,
    example=([3, 5], [4, 12], "[5.0, 13.0]"),
    elementwise=("_hypot",),
)

for _name, _sign, _fn, _result, _elementwise in (
    ("equal", "==", np.equal, "[0.0, 1.0, 0.0]", ("_equal", "_Equal")),
    ("not_equal", "!=", np.not_equal, "[1.0, 0.0, 1.0]", ("_not_equal", "_Not_Equal")),
    ("greater", ">", np.greater, "[0.0, 0.0, 1.0]", ("_greater", "_Greater")),
    ("greater_equal", ">=", np.greater_equal, "[0.0, 1.0, 1.0]", ("_greater_equal", "_Greater_Equal")),
    ("lesser", "<", np.less, "[1.0, 0.0, 0.0]", ("_lesser", "_Lesser")),
    ("lesser_equal", "<=", np.less_equal, "[1.0, 1.0, 0.0]", ("_lesser_equal", "_Lesser_Equal")),
    ("logical_and", "and", np.logical_and, "[1.0, 1.0, 1.0]", ("_logical_and", "_Logical_And")),
    ("logical_or", "or", np.logical_or, "[1.0, 1.0, 1.0]", ("_logical_or", "_Logical_Or")),
    ("logical_xor", "xor", np.logical_xor, "[0.0, 0.0, 0.0]", ("_logical_xor", "_Logical_Xor")),
):
    binary(
        f"broadcast_{_name}",
        f"1 where lhs {_sign} rhs, else 0",
        ZERO_GRADIENT,
        ZERO_GRADIENT,
        (lambda fn: lambda a, b: fn(a, b).astype(a.dtype))(_fn),
        saves="",
        example=([1, 2, 3], [2], _result),
        elementwise=_elementwise,
    )

operator(
    "_sum_like",
    "data like",
    infer=lambda a, x, like: Spec(like.shape, x.dtype),
    gradient=(lambda F, g, y, x, like: F.broadcast_like(g, x), None),
    saves="",
    doc="Sum ``data`` over the axes along which ``like`` was broadcast to it; the gradient of broadcasting.",
)

operator(
    "add_n",
    "*args",
    aliases=("ElementWiseSum",),
    infer=equal_shapes("add_n"),
    gradient=Joint(lambda F, gs, inputs, outputs, attributes, needs: [gs[0]] * len(inputs)),
    saves="",
    reference=lambda *xs: sum(xs),
    samples=lambda rng: [sample(*[rng.standard_normal((2, 3)) for _ in range(3)]), sample(rng.standard_normal((2, 3)))],
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones((1, 3), "float32"), match="equal shapes")],
    doc="""Add any number of arrays of equal shape.

Parameters
----------
*args : NDArray

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.add_n(mx.nd.array([1]), mx.nd.array([2]), mx.nd.array([4])).asnumpy().tolist()
[7.0]
""",
)


def _broadcast_to(a: Any, x: Spec) -> Spec:
    wanted = a["shape"]
    if len(wanted) != len(x.shape):
        raise ShapeError(
            f"operator 'broadcast_to': data {x.shape} and shape={wanted} must have the same number of axes. "
            f"Reshape data to {(1,) * max(len(wanted) - len(x.shape), 0) + x.shape} first.",
            operator="broadcast_to",
            shapes=[x.shape],
        )
    out = tuple(w or n for w, n in zip(wanted, x.shape))
    if any(n not in (1, w) for w, n in zip(out, x.shape)):
        raise ShapeError(
            f"operator 'broadcast_to': data {x.shape} cannot be broadcast to {out}: an axis must be equal or 1.",
            operator="broadcast_to",
            shapes=[x.shape],
        )
    return Spec(out, x.dtype)


operator(
    "broadcast_to",
    "data",
    {"shape": Shape(())},
    infer=_broadcast_to,
    gradient=(lambda F, g, y, x, shape: F._sum_like(g, x),),
    saves="",
    reference=lambda x, shape: np.broadcast_to(x, shape),
    samples=lambda rng: [sample(rng.standard_normal((1, 3)), shape=(4, 3))],
    errors=lambda: [error(np.ones((2, 3), "float32"), shape=(4, 3), match="cannot be broadcast to")],
    doc="""Repeat axes of length 1 until the array has ``shape``; 0 keeps an axis.

Parameters
----------
data : NDArray
shape : tuple of int
    As many axes as ``data``.

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.broadcast_to(mx.nd.array([[1, 2]]), shape=(2, 0)).asnumpy().tolist()
[[1.0, 2.0], [1.0, 2.0]]
""",
)


def _like_shape(a: Any, x: Spec, like: Spec) -> Spec:
    left, right = a["lhs_axes"], a["rhs_axes"]
    if left is None and right is None:
        target = like.shape
    else:
        if not left or not right or len(left) != len(right):
            raise ShapeError(
                f"operator 'broadcast_like': lhs_axes={left} and rhs_axes={right} must be given together, equally long and "
                f"not empty.",
                operator="broadcast_like",
            )
        bad = [i for i in left if not -len(x.shape) <= i < len(x.shape)]
        bad += [i for i in right if not -len(like.shape) <= i < len(like.shape)]
        if bad:
            raise ShapeError(
                f"operator 'broadcast_like': axis {bad[0]} is out of range for lhs {x.shape} and rhs {like.shape}.",
                operator="broadcast_like",
                shapes=[x.shape, like.shape],
            )
        out = list(x.shape)
        for i, j in zip(left, right):
            out[i] = like.shape[j]
        target = tuple(out)
    if len(target) != len(x.shape) or any(n not in (1, t) for t, n in zip(target, x.shape)):
        raise ShapeError(
            f"operator 'broadcast_like': lhs {x.shape} cannot be broadcast to {target}, taken from rhs {like.shape}.",
            operator="broadcast_like",
            shapes=[x.shape, like.shape],
        )
    return Spec(target, x.dtype)


operator(
    "broadcast_like",
    "lhs rhs",
    {"lhs_axes": Shape(None), "rhs_axes": Shape(None)},
    same_dtype=False,
    infer=_like_shape,
    gradient=(lambda F, g, y, a, b, **_: F._sum_like(g, a), lambda F, g, y, a, b, **_: F.zeros_like(b)),
    saves="",
    reference=lambda a, b, lhs_axes=None, rhs_axes=None: np.broadcast_to(
        a, b.shape if lhs_axes is None else (b.shape[rhs_axes[0]], *a.shape[1:])
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((1, 3)), rng.standard_normal((4, 3))),
        sample(rng.standard_normal((1, 3)), rng.standard_normal((5, 7)), lhs_axes=(0,), rhs_axes=(1,)),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones((4, 3), "float32"), match="cannot be broadcast to")],
    doc="""Broadcast ``lhs`` to the shape of ``rhs``, or only some axes of it.

Parameters
----------
lhs, rhs : NDArray
lhs_axes, rhs_axes : tuple of int or None
    Axes of ``lhs`` that take the lengths of axes of ``rhs``.

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.broadcast_like(mx.nd.ones((1, 2)), mx.nd.zeros((3, 2))).shape
(3, 2)
""",
)


def _axes_of(a: Any, x: Spec) -> Spec:
    axis, size = a["axis"], a["size"]
    axis = (axis,) if isinstance(axis, int) else axis
    size = (size,) if isinstance(size, int) else size
    out = list(x.shape)
    if len(axis) != len(size):
        raise ShapeError(f"operator 'broadcast_axis': axis={axis} and size={size} must be equally long.")
    for i, n in zip(axis, size):
        if out[i] != 1:
            raise ShapeError(
                f"operator 'broadcast_axis': axis {i} of data {x.shape} has length {out[i]}; only axes of length 1 can be "
                f"broadcast.",
                operator="broadcast_axis",
                shapes=[x.shape],
            )
        out[i] = n
    return Spec(tuple(out), x.dtype)


operator(
    "broadcast_axis",
    "data",
    {"axis": IntOrShape(()), "size": IntOrShape(())},
    aliases=("broadcast_axes",),
    infer=_axes_of,
    gradient=(lambda F, g, y, x, **_: F._sum_like(g, x),),
    saves="",
    reference=lambda x, axis, size: np.repeat(x, size, axis),
    samples=lambda rng: [sample(rng.standard_normal((1, 3)), axis=0, size=4)],
    errors=lambda: [error(np.ones((2, 3), "float32"), axis=0, size=4, match="only axes of length 1")],
    doc="""Repeat axes of length 1 ``size`` times.

Parameters
----------
data : NDArray
axis, size : int or tuple of int

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.broadcast_axis(mx.nd.array([[1], [2]]), axis=1, size=2).asnumpy().tolist()
[[1.0, 1.0], [2.0, 2.0]]
""",
)
