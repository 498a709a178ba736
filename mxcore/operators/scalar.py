"""Records of operators of an array and a number: what ``x + 2``, ``2 - x``, ``x > 0`` call.

The number is taken in the dtype of the array (MXNet 1.9.1's behaviour: ``int32 + 1.5`` adds 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .attributes import Bool, Value
from .elementwise import same
from .record import ZERO_GRADIENT, sample
from .registry import operator


def scalar(
    name: str,
    formula: str,
    gradient: Any,
    reference: Callable[..., Any],
    *,
    aliases: tuple[str, ...] = (),
    saves: str = "data",
    low: float = 0.5,
    high: float = 2.5,
    number: float = 1.7,
) -> None:
    """Declare an operator of an array and a number; ``gradient`` is ``rule(F, g, y, x, s)``."""
    rule = gradient
    if callable(gradient):

        def rule(F: Any, g: Any, y: Any, x: Any, scalar: Any, is_int: Any = None) -> Any:
            return gradient(F, g, y, x, scalar)

        rule = (rule,)
    operator(
        name,
        "data",
        {"scalar": Value(1.0), "is_int": Bool(True)},
        aliases=aliases,
        infer=same,
        gradient=rule,
        saves=saves,
        reference=lambda x, scalar: reference(x, scalar),
        samples=lambda rng: [sample(rng.uniform(low, high, (3, 4)), scalar=number)],
        doc=f"Compute ``{formula}`` for each element ``x`` of ``data`` and the number ``s``, in the dtype of ``data``.",
    )


scalar("_plus_scalar", "x + s", lambda F, g, y, x, s: g, np.add, aliases=("_PlusScalar",), saves="")
scalar("_minus_scalar", "x - s", lambda F, g, y, x, s: g, np.subtract, aliases=("_MinusScalar",), saves="")
scalar("_rminus_scalar", "s - x", lambda F, g, y, x, s: -g, lambda x, s: s - x, aliases=("_RMinusScalar",), saves="")
scalar("_mul_scalar", "x * s", lambda F, g, y, x, s: g * s, np.multiply, aliases=("_MulScalar",), saves="")
scalar("_div_scalar", "x / s", lambda F, g, y, x, s: g / s, np.divide, aliases=("_DivScalar",), saves="")
scalar(
    "_rdiv_scalar",
    "s / x",
    lambda F, g, y, x, s: -(g * y / x),
    lambda x, s: s / x,
    aliases=("_RDivScalar",),
    saves="data output",
)
scalar("_mod_scalar", "x mod s", lambda F, g, y, x, s: g, np.mod, aliases=("_ModScalar",), saves="", number=0.37)
scalar(
    "_rmod_scalar",
    "s mod x",
    lambda F, g, y, x, s: -(g * F.floor(s / x)),
    lambda x, s: np.mod(s, x),
    aliases=("_RModScalar",),
)
scalar(
    "_power_scalar",
    "x ** s",
    lambda F, g, y, x, s: g * (s * x ** (s - 1.0)) if s else F.zeros_like(g),
    np.power,
    aliases=("_PowerScalar",),
)
scalar(
    "_rpower_scalar",
    "s ** x",
    lambda F, g, y, x, s: g * (y * float(np.log(s))),
    lambda x, s: np.power(s, x),
    aliases=("_RPowerScalar",),
    saves="output",
)
scalar("_maximum_scalar", "max(x, s)", lambda F, g, y, x, s: g * (x >= s), np.maximum, aliases=("_MaximumScalar",))
scalar("_minimum_scalar", "min(x, s)", lambda F, g, y, x, s: g * (x <= s), np.minimum, aliases=("_MinimumScalar",))
scalar("_hypot_scalar", "sqrt(x**2 + s**2)", lambda F, g, y, x, s: g * x / y, np.hypot, saves="data output")

for _name, _sign, _fn in (
    ("equal", "==", np.equal),
    ("not_equal", "!=", np.not_equal),
    ("greater", ">", np.greater),
    ("greater_equal", ">=", np.greater_equal),
    ("lesser", "<", np.less),
    ("lesser_equal", "<=", np.less_equal),
    ("logical_and", "and", np.logical_and),
    ("logical_or", "or", np.logical_or),
    ("logical_xor", "xor", np.logical_xor),
):
    scalar(
        f"_{_name}_scalar",
        f"1 if x {_sign} s, else 0",
        ZERO_GRADIENT,
        (lambda fn: lambda x, s: fn(x, s).astype(x.dtype))(_fn),
        aliases=("_" + "".join(p.title() for p in _name.split("_")) + "Scalar",),
        saves="",
    )
