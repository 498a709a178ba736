"""Records of functions applied to each element.

One row a function: its name, its derivative written in operators, an independent reference, and where to test it.
The output has the input's dtype, integers included (MXNet 1.9.1's behaviour).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .attributes import Choice, DType, Float
from .record import ZERO_GRADIENT, Spec, sample
from .registry import operator


def same(a: Any, x: Spec, *rest: Any) -> Spec:
    """Inference: the output is like the first input."""
    return x


def unary(
    name: str,
    formula: str,
    gradient: Any,
    reference: Callable[[np.ndarray], np.ndarray],
    *,
    low: float = -2.0,
    high: float = 2.0,
    aliases: tuple[str, ...] = (),
    saves: str = "data",
    example: tuple[Any, str] | None = None,
    rtol: float = 1e-5,
) -> None:
    """Declare one function of each element.

    Parameters
    ----------
    formula : str
        What it computes, for the documentation.
    gradient : callable or marker
        ``rule(F, g, y, x)``.
    low, high : float
        Samples are drawn from here, away from kinks and poles.
    """

    def samples(rng: np.random.Generator) -> Any:
        yield sample(rng.uniform(low, high, (3, 4)))
        yield sample(rng.uniform(low, high, (2, 1, 3)))
        yield sample(rng.uniform(low, high, (1,)))

    value, shown = example if example is not None else (None, "")
    text = (
        f"Compute ``{formula}`` for each element.\n\nParameters\n----------\ndata : NDArray\n    Any shape. "
        "Integer arrays give integers.\n\nReturns\n-------\nNDArray\n    Same shape and dtype as ``data``."
    )
    if example is not None:
        shown_name = aliases[0] if name.startswith("_") and aliases else name
        text += (
            f"\n\nExamples\n--------\n>>> import mxcore as mx\n>>> mx.nd.{shown_name}"
            f"(mx.nd.array({value})).astype('float64').asnumpy().round(4).tolist()\n{shown}"
        )
    operator(
        name,
        "data",
        aliases=aliases,
        infer=same,
        gradient=(gradient,) if callable(gradient) else gradient,
        saves=saves,
        reference=reference,
        samples=samples,
        rtol=rtol,
        doc=text,
    )


_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
_LN2, _LN10 = math.log(2.0), math.log(10.0)

unary("exp", "e**x", lambda F, g, y, x: g * y, np.exp, saves="output", example=([0, 1], "[1.0, 2.7183]"))
unary("log", "ln(x)", lambda F, g, y, x: g / x, np.log, low=0.2, high=3, example=([1, 2], "[0.0, 0.6931]"))
unary("log2", "log2(x)", lambda F, g, y, x: g / (x * _LN2), np.log2, low=0.2, high=3, example=([1, 8], "[0.0, 3.0]"))
unary(
    "log10", "log10(x)", lambda F, g, y, x: g / (x * _LN10), np.log10, low=0.2, high=3, example=([1, 100], "[0.0, 2.0]")
)
unary(
    "log1p",
    "ln(1 + x)",
    lambda F, g, y, x: g / (x + 1.0),
    np.log1p,
    low=-0.7,
    high=3,
    example=([0, 1], "[0.0, 0.6931]"),
)
unary(
    "expm1", "e**x - 1", lambda F, g, y, x: g * (y + 1.0), np.expm1, saves="output", example=([0, 1], "[0.0, 1.7183]")
)
unary(
    "sqrt",
    "x**0.5",
    lambda F, g, y, x: g * 0.5 / y,
    np.sqrt,
    low=0.3,
    high=4,
    saves="output",
    example=([4, 9], "[2.0, 3.0]"),
)
unary(
    "rsqrt",
    "x**-0.5",
    lambda F, g, y, x: g * -0.5 * y / x,
    lambda x: 1 / np.sqrt(x),
    low=0.3,
    high=4,
    saves="data output",
    example=([4, 16], "[0.5, 0.25]"),
)
unary(
    "cbrt",
    "x**(1/3)",
    lambda F, g, y, x: g / (3.0 * y * y),
    np.cbrt,
    low=0.3,
    high=4,
    saves="output",
    example=([8, 27], "[2.0, 3.0]"),
)
unary(
    "rcbrt",
    "x**(-1/3)",
    lambda F, g, y, x: g * (-1.0 / 3.0) * y / x,
    lambda x: 1 / np.cbrt(x),
    low=0.3,
    high=4,
    saves="data output",
    example=([8, 1], "[0.5, 1.0]"),
)
unary("square", "x**2", lambda F, g, y, x: g * (2.0 * x), np.square, example=([2, -3], "[4.0, 9.0]"))
unary(
    "reciprocal",
    "1 / x",
    lambda F, g, y, x: -(g * y * y),
    lambda x: 1 / x,
    low=0.3,
    high=3,
    saves="output",
    example=([2, 4], "[0.5, 0.25]"),
)
unary(
    "negative",
    "-x",
    lambda F, g, y, x: -g,
    np.negative,
    aliases=("_np_negative",),
    saves="",
    example=([1, -2], "[-1.0, 2.0]"),
)
unary("abs", "|x|", lambda F, g, y, x: g * F.sign(x), np.abs, low=0.1, example=([1, -2], "[1.0, 2.0]"))
unary("sign", "-1, 0 or 1", ZERO_GRADIENT, np.sign, low=0.1, saves="", example=([-2, 0, 3], "[-1.0, 0.0, 1.0]"))
unary(
    "round",
    "x rounded, halves away from zero",
    ZERO_GRADIENT,
    lambda x: np.trunc(x + np.copysign(0.5, x)),
    saves="",
    example=([-1.5, 0.5, 2.4], "[-2.0, 1.0, 2.0]"),
)
unary(
    "rint",
    "x rounded, halves towards zero or down as the C library's rint of MXNet",
    ZERO_GRADIENT,
    lambda x: np.ceil(x - 0.5),
    saves="",
    example=([-1.4, 0.6, 2.4], "[-1.0, 1.0, 2.0]"),
)
unary("fix", "x rounded towards zero", ZERO_GRADIENT, np.trunc, saves="", example=([-1.5, 1.7], "[-1.0, 1.0]"))
unary("trunc", "x without its fraction", ZERO_GRADIENT, np.trunc, saves="", example=([-1.5, 1.7], "[-1.0, 1.0]"))
unary(
    "ceil", "the least whole number not below x", ZERO_GRADIENT, np.ceil, saves="", example=([-1.5, 1.2], "[-1.0, 2.0]")
)
unary(
    "floor",
    "the greatest whole number not above x",
    ZERO_GRADIENT,
    np.floor,
    saves="",
    example=([-1.5, 1.7], "[-2.0, 1.0]"),
)
unary("sin", "sin(x)", lambda F, g, y, x: g * F.cos(x), np.sin, example=([0, 1], "[0.0, 0.8415]"))
unary("cos", "cos(x)", lambda F, g, y, x: -(g * F.sin(x)), np.cos, example=([0, 1], "[1.0, 0.5403]"))
unary(
    "tan",
    "tan(x)",
    lambda F, g, y, x: g * (y * y + 1.0),
    np.tan,
    low=-1,
    high=1,
    saves="output",
    example=([0, 1], "[0.0, 1.5574]"),
)
unary(
    "arcsin",
    "arcsin(x)",
    lambda F, g, y, x: g / F.sqrt(1.0 - x * x),
    np.arcsin,
    low=-0.8,
    high=0.8,
    example=([0, 1], "[0.0, 1.5708]"),
)
unary(
    "arccos",
    "arccos(x)",
    lambda F, g, y, x: -(g / F.sqrt(1.0 - x * x)),
    np.arccos,
    low=-0.8,
    high=0.8,
    example=([1, 0], "[0.0, 1.5708]"),
)
unary("arctan", "arctan(x)", lambda F, g, y, x: g / (x * x + 1.0), np.arctan, example=([0, 1], "[0.0, 0.7854]"))
unary("sinh", "sinh(x)", lambda F, g, y, x: g * F.cosh(x), np.sinh, example=([0, 1], "[0.0, 1.1752]"))
unary("cosh", "cosh(x)", lambda F, g, y, x: g * F.sinh(x), np.cosh, example=([0, 1], "[1.0, 1.5431]"))
unary(
    "tanh", "tanh(x)", lambda F, g, y, x: g * (1.0 - y * y), np.tanh, saves="output", example=([0, 1], "[0.0, 0.7616]")
)
unary(
    "arcsinh", "arcsinh(x)", lambda F, g, y, x: g / F.sqrt(x * x + 1.0), np.arcsinh, example=([0, 1], "[0.0, 0.8814]")
)
unary(
    "arccosh",
    "arccosh(x)",
    lambda F, g, y, x: g / F.sqrt(x * x - 1.0),
    np.arccosh,
    low=1.3,
    high=3,
    example=([1, 2], "[0.0, 1.317]"),
)
unary(
    "arctanh",
    "arctanh(x)",
    lambda F, g, y, x: g / (1.0 - x * x),
    np.arctanh,
    low=-0.8,
    high=0.8,
    example=([0, 0.5], "[0.0, 0.5493]"),
)
unary(
    "degrees",
    "180 x / pi",
    lambda F, g, y, x: g * (180.0 / math.pi),
    np.degrees,
    saves="",
    example=([0, math.pi], "[0.0, 180.0]"),
)
unary(
    "radians",
    "pi x / 180",
    lambda F, g, y, x: g * (math.pi / 180.0),
    np.radians,
    saves="",
    example=([0, 180], "[0.0, 3.1416]"),
)
unary(
    "relu",
    "max(x, 0)",
    lambda F, g, y, x: F._relu_backward(g, y),
    lambda x: np.maximum(x, 0),
    low=0.1,
    saves="output",
    example=([-1, 2], "[0.0, 2.0]"),
)
unary(
    "sigmoid",
    "1 / (1 + e**-x)",
    lambda F, g, y, x: g * (y * (1.0 - y)),
    lambda x: 1 / (1 + np.exp(-x)),
    saves="output",
    example=([0, 1], "[0.5, 0.7311]"),
)
unary(
    "softsign",
    "x / (1 + |x|)",
    lambda F, g, y, x: g / F.square(F.abs(x) + 1.0),
    lambda x: x / (1 + np.abs(x)),
    low=0.1,
    example=([1, -1], "[0.5, -0.5]"),
)
unary(
    "softrelu",
    "ln(1 + e**x)",
    lambda F, g, y, x: g * F.sigmoid(x),
    lambda x: np.log1p(np.exp(x)),
    aliases=("_softrelu",),
    example=([0, 1], "[0.6931, 1.3133]"),
)
unary(
    "erf",
    "erf(x), the error function",
    lambda F, g, y, x: g * F.exp(-(x * x)) * _TWO_OVER_SQRT_PI,
    lambda x: np.vectorize(math.erf)(x),
    example=([0, 1], "[0.0, 0.8427]"),
)
unary(
    "logical_not",
    "1 where x is 0, else 0",
    ZERO_GRADIENT,
    lambda x: (x == 0).astype(x.dtype),
    low=0.1,
    saves="",
    example=([0, 2], "[1.0, 0.0]"),
)

operator(
    "_relu_backward",
    "grad output",
    infer=same,
    gradient=(lambda F, g, y, gg, out: F._relu_backward(g, out), None),
    saves="output",
    doc="``grad`` where ``output`` is positive, else 0; the gradient of ``relu``.",
)

operator(
    "hard_sigmoid",
    "data",
    {"alpha": Float(0.2), "beta": Float(0.5)},
    infer=same,
    gradient=(lambda F, g, y, x, alpha, beta: g * alpha * ((x * alpha + beta > 0.0) * (x * alpha + beta < 1.0)),),
    saves="data",
    reference=lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    samples=lambda rng: [
        sample(rng.uniform(-2, 2, (3, 4))),
        sample(rng.uniform(-0.5, 0.5, (2, 3)), alpha=0.3, beta=0.4),
    ],
    doc="""Compute ``min(max(alpha * x + beta, 0), 1)`` for each element.

Parameters
----------
data : NDArray
alpha, beta : float

Returns
-------
NDArray
    Same shape and dtype.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.hard_sigmoid(mx.nd.array([-5, 0, 5])).asnumpy().tolist()
[0.0, 0.5, 1.0]
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Copies, constants of the same shape, casts

operator(
    "_copy",
    "data",
    aliases=("identity", "_np_copy"),
    infer=same,
    gradient=(lambda F, g, y, x: g,),
    saves="",
    reference=lambda x: x,
    samples=lambda rng: [sample(rng.standard_normal((3, 4)))],
    doc="""Return a new array with the same values.

Parameters
----------
data : NDArray

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.identity(mx.nd.array([1, 2])).asnumpy().tolist()
[1.0, 2.0]
""",
)

operator(
    "BlockGrad",
    "data",
    aliases=("stop_gradient",),
    infer=same,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=lambda x: x,
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), check_gradient=False)],
    doc="""Return the values; gradients stop here.

Parameters
----------
data : NDArray

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([2.0])
>>> x.attach_grad()
>>> with mx.autograd.record():
...     y = mx.nd.stop_gradient(x * x) * x
>>> y.backward()
>>> x.grad.asnumpy().tolist()
[4.0]
""",
)

operator(
    "MakeLoss",
    "data",
    {
        "grad_scale": Float(1.0),
        "valid_thresh": Float(0.0),
        "normalization": Choice("null", choices=("null", "batch", "valid")),
    },
    infer=same,
    gradient=(lambda F, g, y, x, **a: F._make_loss_backward(x, **a),),
    saves="data",
    reference=lambda x, **a: x,
    samples=lambda rng: [sample(rng.uniform(0.1, 1, (3, 4)), check_gradient=False)],
    doc="""Mark ``data`` as a loss: its gradient is ``grad_scale`` whatever arrives from above.

Parameters
----------
data : NDArray
grad_scale : float
valid_thresh : float
    With ``normalization="valid"``, elements above it are counted.
normalization : {"null", "batch", "valid"}
    Divide the gradient by nothing, by the length of the first axis, or by the number of valid elements.

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([1.0, 2.0])
>>> x.attach_grad()
>>> with mx.autograd.record():
...     y = mx.nd.MakeLoss(x * 3, grad_scale=0.5)
>>> y.backward()
>>> x.grad.asnumpy().tolist()
[1.5, 1.5]
""",
)

operator(
    "_make_loss_backward",
    "data",
    {
        "grad_scale": Float(1.0),
        "valid_thresh": Float(0.0),
        "normalization": Choice("null", choices=("null", "batch", "valid")),
    },
    infer=same,
    gradient=ZERO_GRADIENT,
    saves="",
    doc="The gradient of ``MakeLoss``.",
)

operator(
    "make_loss",
    "data",
    infer=same,
    gradient=(lambda F, g, y, x: F.ones_like(x),),
    saves="",
    reference=lambda x: x,
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), check_gradient=False)],
    doc="""Mark ``data`` as a loss: its gradient is 1 whatever arrives from above.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.make_loss(mx.nd.array([1, 2])).asnumpy().tolist()
[1.0, 2.0]
""",
)

for _name, _value in (("zeros_like", 0), ("ones_like", 1)):
    operator(
        _name,
        "data",
        aliases=(f"_np_{_name}",),
        infer=same,
        gradient=ZERO_GRADIENT,
        saves="",
        reference=(lambda v: lambda x: np.full_like(x, v))(_value),
        samples=lambda rng: [sample(rng.standard_normal((3, 4)))],
        doc=f"""Return an array of {_value} of the shape and dtype of ``data``.

Parameters
----------
data : NDArray

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.{_name}(mx.nd.array([5, 6])).asnumpy().tolist()
[{_value}.0, {_value}.0]
""",
    )

operator(
    "Cast",
    "data",
    {"dtype": DType()},
    aliases=("cast",),
    infer=lambda a, x: Spec(x.shape, np.dtype(a["dtype"])),
    gradient=(lambda F, g, y, x, dtype: F._cast_like(g, x),),
    saves="",
    reference=lambda x, dtype: x.astype(dtype),
    samples=lambda rng: [sample(rng.uniform(0, 9, (3, 4)), dtype="int32", check_gradient=False)],
    doc="""Return a copy with another dtype. Fractions are cut off towards zero for integer dtypes.

Parameters
----------
data : NDArray
dtype : str or numpy.dtype

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.cast(mx.nd.array([1.7, 2.2]), dtype="int32").asnumpy().tolist()
[1, 2]
""",
)

operator(
    "_cast_like",
    "data like",
    same_dtype=False,
    infer=lambda a, x, like: Spec(x.shape, like.dtype),
    gradient=(lambda F, g, y, x, like: F._cast_like(g, x), None),
    saves="",
    doc="Return ``data`` with the dtype of ``like``; the gradient of ``Cast``.",
)

operator(
    "clip",
    "data",
    {"a_min": Float(), "a_max": Float()},
    infer=same,
    gradient=(lambda F, g, y, x, a_min, a_max: g * ((x >= a_min) * (x <= a_max)),),
    saves="data",
    reference=lambda x, a_min, a_max: np.clip(x, a_min, a_max),
    samples=lambda rng: [
        sample(rng.uniform(-0.9, 0.9, (3, 4)), a_min=-1.0, a_max=1.0),
        sample(rng.uniform(1, 5, (3, 4)), a_min=-3.0, a_max=0.5),
    ],
    doc="""Limit each element to ``[a_min, a_max]``. The gradient is 0 outside.

Parameters
----------
data : NDArray
a_min, a_max : float

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.clip(mx.nd.array([-2, 0, 3]), 0, 1).asnumpy().tolist()
[0.0, 0.0, 1.0]
""",
)

operator(
    "smooth_l1",
    "data",
    {"scalar": Float(1.0)},
    infer=same,
    gradient=(lambda F, g, y, x, scalar: g * F.clip(x * (scalar * scalar), a_min=-1.0, a_max=1.0),),
    saves="data",
    reference=lambda x, scalar=1.0: np.where(
        np.abs(x) < 1 / scalar**2, (scalar * x) ** 2 / 2, np.abs(x) - 0.5 / scalar**2
    ),
    samples=lambda rng: [sample(rng.uniform(1.2, 3, (3, 4))), sample(rng.uniform(-0.2, 0.2, (3, 4)), scalar=2.0)],
    doc="""Compute ``0.5 (s x)**2`` where ``|x| < 1 / s**2``, else ``|x| - 0.5 / s**2``.

Parameters
----------
data : NDArray
scalar : float
    ``s``.

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.smooth_l1(mx.nd.array([0.5, 2])).asnumpy().tolist()
[0.125, 1.5]
""",
)
