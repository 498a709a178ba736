"""Kernels of functions applied to each element.

Float arrays go straight to the ufunc, large ones in stretches that the compute threads share. Integer arrays keep their
dtype, as in MXNet, so the float result is cast back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..table import kernel
from ..threads import LARGE, LARGE_PLAIN, elementwise
from . import neural
from .fresh import fresh
from .neural import positive_part
from .sharing import by_stretch, call_ufunc


def keep_dtype(ufunc: Callable[..., Any], plain: bool = False) -> Callable[..., Any]:
    """Wrap a function of one array, ``plain`` or costly, so that the result has the array's dtype."""

    def run(x: Any, out: Any = None) -> Any:
        if x.size >= LARGE and x.dtype.kind == "f" and x.flags.c_contiguous and (not plain or x.size >= LARGE_PLAIN):
            return call_ufunc(ufunc, x, out)
        if out is not None and x.dtype.kind == "f":
            return ufunc(x, out=out)
        r = ufunc(x)
        if r.dtype is not x.dtype:
            r = r.astype(x.dtype)
        if out is not None:
            out[...] = r
            return out
        return r

    return run


#: operator -> NumPy function of the same meaning
UFUNCS = {
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "square": np.square,
    "negative": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "trunc": np.trunc,
    "fix": np.trunc,
    "ceil": np.ceil,
    "floor": np.floor,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "arcsin": np.arcsin,
    "arccos": np.arccos,
    "arctan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "arcsinh": np.arcsinh,
    "arccosh": np.arccosh,
    "arctanh": np.arctanh,
    "degrees": np.degrees,
    "radians": np.radians,
}
#: Functions as cheap as moving the numbers, which win less from a second thread.
PLAIN = {"square", "negative", "abs", "sign", "trunc", "fix", "ceil", "floor", "degrees", "radians"}
for _name, _ufunc in UFUNCS.items():
    kernel(_name, numpy=True, out=True)(keep_dtype(_ufunc, _name in PLAIN))


def composite(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a kernel ``fn(xp, x)`` whose float result is cast back to the dtype of ``x``."""

    def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
        shared = by_stretch(fn)

        def run(xp: Any, x: Any) -> Any:
            r = fn(xp, x) if xp is not np or x.size < LARGE else shared(np, x)
            return r if r.dtype == x.dtype else r.astype(x.dtype)

        kernel(*names)(run)
        return fn

    return declare


@composite("rsqrt")
def rsqrt(xp: Any, x: Any) -> Any:
    return 1.0 / xp.sqrt(x)


@composite("rcbrt")
def rcbrt(xp: Any, x: Any) -> Any:
    return 1.0 / xp.cbrt(x)


@kernel("reciprocal")
def reciprocal(xp: Any, x: Any) -> Any:
    return xp.reciprocal(x)


@composite("round")
def round_(xp: Any, x: Any) -> Any:
    return xp.trunc(x + xp.copysign(0.5, x)) if x.dtype.kind == "f" else x + 0


@composite("rint")
def rint(xp: Any, x: Any) -> Any:
    # MXNet takes the nearer of floor and ceil, and the floor when they are equally near.
    lower = xp.floor(x)
    upper = xp.ceil(x)
    return xp.where(x - lower <= upper - x, lower, upper)


@kernel("relu", numpy=True, out=True)
def relu(x: Any, out: Any = None) -> Any:
    return positive_part(np, x, out)


@kernel("_relu_backward")
def relu_backward(xp: Any, g: Any, y: Any) -> Any:
    # Unlike Activation's, this gradient is NaN where the data were (MXNet 1.9.1): clip and ceil keep it.
    if xp is np and g.flags.c_contiguous and y.flags.c_contiguous:
        r = np.empty(g.shape, g.dtype)
        elementwise(_pass_positive, g, y, r)
        return r
    return xp.ceil(xp.clip(y, 0, 1)) * g


def _pass_positive(g: Any, y: Any, to: Any) -> None:
    np.clip(y, 0, 1, out=to)
    np.ceil(to, out=to)
    to *= g


@kernel("sigmoid")
def sigmoid(xp: Any, x: Any) -> Any:
    r = neural.sigmoid(xp, x if x.dtype.kind == "f" else x.astype(np.float32))
    return r if r.dtype == x.dtype else r.astype(x.dtype)


@composite("softsign")
def softsign(xp: Any, x: Any) -> Any:
    return x / (1 + xp.abs(x))


@kernel("softrelu")
def softrelu(xp: Any, x: Any) -> Any:
    r = neural.softrelu(xp, x)
    return r if r.dtype == x.dtype else r.astype(x.dtype)


@kernel("logical_not")
def logical_not(xp: Any, x: Any) -> Any:
    return (x == 0).astype(x.dtype)


@kernel("hard_sigmoid")
def hard_sigmoid(xp: Any, x: Any, *, alpha: float, beta: float) -> Any:
    return by_stretch(lambda xp, x: xp.clip(x * alpha + beta, 0, 1).astype(x.dtype))(xp, x)


@kernel("_copy", "BlockGrad", "make_loss")
def copy(xp: Any, x: Any) -> Any:
    return xp.array(x, order="C") if xp is not np or x.size < LARGE else fresh(np, x)


@kernel("MakeLoss")
def make_loss(xp: Any, x: Any, *, grad_scale: float, valid_thresh: float, normalization: str) -> Any:
    return xp.array(x, order="C")


@kernel("_make_loss_backward")
def make_loss_backward(xp: Any, x: Any, *, grad_scale: float, valid_thresh: float, normalization: str) -> Any:
    scale = grad_scale
    if normalization == "batch":
        scale /= x.shape[0]
    elif normalization == "valid":
        scale /= max(int((x > valid_thresh).sum()), 1)
    return xp.full(x.shape, scale, x.dtype)


@kernel("zeros_like")
def zeros_like(xp: Any, x: Any) -> Any:
    return xp.zeros(x.shape, x.dtype)


@kernel("ones_like")
def ones_like(xp: Any, x: Any) -> Any:
    return xp.ones(x.shape, x.dtype)


@kernel("Cast")
def cast(xp: Any, x: Any, *, dtype: str) -> Any:
    return x.astype(dtype, order="C")


@kernel("_cast_like")
def cast_like(xp: Any, x: Any, like: Any) -> Any:
    return x.astype(like.dtype)


@kernel("clip")
def clip(xp: Any, x: Any, *, a_min: float, a_max: float) -> Any:
    if x.dtype.kind == "f":
        if xp is np and x.size >= LARGE_PLAIN and x.flags.c_contiguous:
            y = np.empty(x.shape, x.dtype)
            elementwise(lambda x, y: np.clip(x, a_min, a_max, out=y), x, y)
            return y
        return xp.clip(x, a_min, a_max)
    return xp.clip(x, *_int_limits(x.dtype, a_min, a_max))


def _int_limits(dtype: Any, low: float, high: float) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(max(low, info.min)), int(min(high, info.max))


@kernel("smooth_l1")
def smooth_l1(xp: Any, x: Any, *, scalar: float) -> Any:
    def run(xp: Any, x: Any) -> Any:
        s2 = scalar * scalar
        a = xp.abs(x)
        return xp.where(a < 1 / s2, 0.5 * s2 * x * x, a - 0.5 / s2).astype(x.dtype)

    return by_stretch(run)(xp, x)
