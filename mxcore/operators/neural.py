"""Records of the neural operators: fully connected layers, activations, softmax, dropout.

A fully connected layer is bilinear, and so are the two gradients it has: the three operators are each other's
derivatives and close the system for every order. Softmax and its like have fused backward kernels and, for
derivatives of derivatives, the same formula in other operators (``composed``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Choice, DType, Float, Int, Shape
from .checks import check_axis, check_bias, check_floats
from .elementwise import same
from .record import NO_GRADIENT, Joint, Spec, error, sample
from .registry import operator

# ---------------------------------------------------------------------------------------------------------------
# Fully connected layer


def _fully_connected(a: Any, x: Spec, w: Spec, b: Spec | None) -> Spec:
    n = a["num_hidden"]
    if not x.shape:
        raise ShapeError("operator 'FullyConnected': data must have at least one axis.", operator="FullyConnected")
    depth = math.prod(x.shape[1:]) if a["flatten"] else x.shape[-1]
    if w.shape != (n, depth):
        raise ShapeError(
            f"operator 'FullyConnected': data {x.shape} with num_hidden={n}, flatten={a['flatten']} wants a weight of "
            f"shape {(n, depth)} but got {w.shape}.",
            operator="FullyConnected",
            shapes=[x.shape, w.shape],
        )
    check_bias("FullyConnected", a["no_bias"], b, n)
    return Spec((x.shape[0], n) if a["flatten"] else (*x.shape[:-1], n), x.dtype)


def _dense(x: np.ndarray, w: np.ndarray, b: Any = None, *, flatten: bool = True, **_: Any) -> np.ndarray:
    x = x.reshape(len(x), -1) if flatten else x
    return np.einsum("...i,oi->...o", x, w) + (0 if b is None else b)


operator(
    "FullyConnected",
    "data weight bias?",
    {"num_hidden": Int(), "no_bias": Bool(False), "flatten": Bool(True)},
    infer=_fully_connected,
    gradient=(
        lambda F, g, y, x, w, b, num_hidden, no_bias, flatten: F._backward_FullyConnected_data(
            g, w, x, flatten=flatten
        ),
        lambda F, g, y, x, w, b, num_hidden, no_bias, flatten: F._backward_FullyConnected_weight(g, x, flatten=flatten),
        lambda F, g, y, x, w, b, num_hidden, no_bias, flatten: F._sum_like(g, b),
    ),
    saves="data weight",
    reference=_dense,
    samples=lambda rng: [
        sample(rng.standard_normal((4, 3)), rng.standard_normal((5, 3)), rng.standard_normal(5), num_hidden=5),
        sample(rng.standard_normal((4, 3)), rng.standard_normal((5, 3)), None, num_hidden=5, no_bias=True),
        sample(rng.standard_normal((2, 3, 2)), rng.standard_normal((5, 6)), rng.standard_normal(5), num_hidden=5),
        sample(
            rng.standard_normal((2, 3, 4)),
            rng.standard_normal((5, 4)),
            rng.standard_normal(5),
            num_hidden=5,
            flatten=False,
        ),
        sample(rng.standard_normal((1, 1)), rng.standard_normal((1, 1)), rng.standard_normal(1), num_hidden=1),
    ],
    errors=lambda: [
        error(
            np.ones((2, 3), "float32"),
            np.ones((5, 4), "float32"),
            np.ones(5, "float32"),
            num_hidden=5,
            match="wants a weight of shape (5, 3)",
        ),
        error(np.ones((2, 3), "float32"), np.ones((5, 3), "float32"), None, num_hidden=5, match="no bias was given"),
        error(
            np.ones((2, 3), "float32"),
            np.ones((5, 3), "float32"),
            np.ones(4, "float32"),
            num_hidden=5,
            match="bias must have shape (5,)",
        ),
        error(
            np.ones((2, 3), "float32"),
            np.ones((5, 3), "float64"),
            np.ones(5, "float32"),
            num_hidden=5,
            match="one dtype",
        ),
    ],
    doc="""Multiply by a weight matrix and add a bias: ``y = x W^T + b``.

Parameters
----------
data : NDArray
    ``(N, ...)``; with ``flatten=True`` all axes but the first count as one.
weight : NDArray
    ``(num_hidden, I)``, ``I`` the number of inputs.
bias : NDArray, optional
    ``(num_hidden,)``; left out with ``no_bias=True``.
num_hidden : int
no_bias : bool
flatten : bool
    False: the layer works on the last axis, and the others stay.

Returns
-------
NDArray
    ``(N, num_hidden)``, or ``(..., num_hidden)`` with ``flatten=False``.

Raises
------
ShapeError
    If weight or bias do not fit.
ParameterError
    If a bias is missing, or given although ``no_bias=True``.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[1, 2]])
>>> mx.nd.FullyConnected(x, mx.nd.array([[1, 0], [1, 1]]), mx.nd.array([0, 10]), num_hidden=2).asnumpy().tolist()
[[1.0, 13.0]]
""",
)

operator(
    "_backward_FullyConnected_data",
    "grad weight like",
    {"flatten": Bool(True)},
    infer=lambda a, g, w, like: Spec(like.shape, g.dtype),
    gradient=(
        lambda F, g, y, grad, w, like, flatten: F.FullyConnected(
            g, w, num_hidden=w.shape[0], no_bias=True, flatten=flatten
        ),
        lambda F, g, y, grad, w, like, flatten: F._backward_FullyConnected_weight(grad, g, flatten=flatten),
        None,
    ),
    saves="grad weight",
    doc="Gradient of ``FullyConnected`` for ``data``, in the shape of ``like``.",
)


def _weight_spec(a: Any, g: Spec, x: Spec) -> Spec:
    depth = math.prod(x.shape[1:]) if a["flatten"] else x.shape[-1]
    return Spec((g.shape[-1], depth), g.dtype)


operator(
    "_backward_FullyConnected_weight",
    "grad data",
    {"flatten": Bool(True)},
    infer=_weight_spec,
    gradient=(
        lambda F, g, y, grad, x, flatten: F.FullyConnected(
            x, g, num_hidden=grad.shape[-1], no_bias=True, flatten=flatten
        ),
        lambda F, g, y, grad, x, flatten: F._backward_FullyConnected_data(grad, g, x, flatten=flatten),
    ),
    saves="grad data",
    doc="Gradient of ``FullyConnected`` for ``weight``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Activations

_ACTIVATIONS = ("relu", "sigmoid", "softrelu", "softsign", "tanh")
_ACTIVATION_REFERENCES: dict[str, Any] = {
    "relu": lambda x: np.where(x > 0, x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softrelu": lambda x: np.log1p(np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanh": np.tanh,
}


def _curvature(F: Any, y: Any, act_type: str) -> Any:
    """Return the derivative, by ``y``, of the slope written in terms of ``y``; None where it is 0."""
    if act_type == "relu":
        return None
    if act_type == "sigmoid":
        return 1.0 - 2.0 * y
    if act_type == "tanh":
        return -2.0 * y
    if act_type == "softrelu":
        return F.exp(-y)
    return -2.0 * (F.sign(y) - y)


def _backward_activation_output(F: Any, g: Any, y: Any, grad: Any, out: Any, act_type: str) -> Any:
    bend = _curvature(F, out, act_type)
    return F.zeros_like(out) if bend is None else g * grad * bend


operator(
    "Activation",
    "data",
    {"act_type": Choice(choices=_ACTIVATIONS)},
    infer=same,
    gradient=(lambda F, g, y, x, act_type: F._backward_Activation(g, y, act_type=act_type),),
    saves="output",
    reference=lambda x, act_type: _ACTIVATION_REFERENCES[act_type](x),
    samples=lambda rng: [
        sample(rng.uniform(0.1, 2, (3, 4)) * rng.choice([-1, 1], (3, 4)), act_type=t) for t in _ACTIVATIONS
    ],
    errors=lambda: [error(np.ones(3, "float32"), act_type="swish", match="'relu'")],
    doc="""Apply an activation function to each element.

Parameters
----------
data : NDArray
    Any shape.
act_type : {"relu", "sigmoid", "softrelu", "softsign", "tanh"}
    ``max(x, 0)``, ``1 / (1 + e**-x)``, ``ln(1 + e**x)``, ``x / (1 + |x|)`` or ``tanh(x)``.

Returns
-------
NDArray
    Same shape and dtype.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.Activation(mx.nd.array([-1, 2]), act_type="relu").asnumpy().tolist()
[0.0, 2.0]
""",
)

operator(
    "_backward_Activation",
    "grad output",
    {"act_type": Choice(choices=_ACTIVATIONS)},
    infer=same,
    gradient=(
        lambda F, g, y, grad, out, act_type: F._backward_Activation(g, out, act_type=act_type),
        _backward_activation_output,
    ),
    saves="grad output",
    doc="Gradient of ``Activation``, from its output.",
)

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
_LEAKY = ("elu", "gelu", "leaky", "prelu", "rrelu", "selu")


def _leaky_infer(a: Any, x: Spec, gamma: Spec | None) -> tuple[Spec, Spec]:
    if (gamma is not None) != (a["act_type"] == "prelu"):
        raise ParameterError(
            f"operator 'LeakyReLU': act_type={a['act_type']!r} "
            + ("needs gamma, the slopes." if gamma is None else "takes no gamma; only 'prelu' does."),
            operator="LeakyReLU",
            attribute="act_type",
        )
    if gamma is not None:
        channels = x.shape[1] if len(x.shape) > 1 else x.shape[0]
        try:
            fits = len(gamma.shape) == 1 and gamma.shape[0] in (1, channels)
            fits = fits or np.broadcast_shapes(gamma.shape, x.shape) == x.shape
        except ValueError:
            fits = False
        if not fits:
            raise ShapeError(
                f"operator 'LeakyReLU': gamma {gamma.shape} must have shape (1,) or ({channels},), one slope per channel "
                f"(axis 1) of data {x.shape}.",
                operator="LeakyReLU",
                shapes=[x.shape, gamma.shape],
            )
    return x, x


def _leaky_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    x, gamma = inputs
    g, kind = gs[0], a["act_type"]
    if g is None:  # only the random slopes, which are constants, got a gradient
        return None, None
    if kind == "leaky":
        return F._leaky_backward(g, x, slope=a["slope"]), None
    if kind == "gelu":
        return F._gelu_backward(g, x), None
    if kind == "rrelu":
        return g * outputs[1], None
    if kind == "prelu":
        return F._backward_prelu(g, x, gamma)
    above = x > 0.0
    below = 1.0 - above
    scale, alpha = (1.0, a["slope"]) if kind == "elu" else (_SELU_SCALE, _SELU_ALPHA)
    lower = F.exp(F._minimum_scalar(x, scalar=0.0)) * (scale * alpha)
    return g * (above * scale + below * lower), None


def _leaky_reference(x: Any, gamma: Any = None, *, act_type: str = "leaky", slope: float = 0.25, **_: Any) -> Any:
    from scipy.special import erf

    if act_type == "prelu":
        gamma = (
            gamma.reshape(1, -1, *(1,) * (x.ndim - 2)) if gamma.ndim == 1 and gamma.size > 1 and x.ndim > 1 else gamma
        )
        return np.where(x > 0, x, x * gamma)
    if act_type == "gelu":
        return 0.5 * x * (1 + erf(x / np.sqrt(2)))
    if act_type == "elu":
        return np.where(x > 0, x, slope * (np.exp(x) - 1))
    if act_type == "selu":
        return _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * (np.exp(x) - 1))
    if act_type == "rrelu":
        return np.where(x > 0, x, x * 0.25)
    return np.where(x > 0, x, x * slope)


def _signed(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of both signs, away from 0."""
    return rng.uniform(0.1, 2, shape) * rng.choice([-1, 1], shape)


operator(
    "LeakyReLU",
    "data gamma?",
    {
        "act_type": Choice("leaky", choices=_LEAKY),
        "slope": Float(0.25),
        "lower_bound": Float(0.125),
        "upper_bound": Float(0.333999991),
    },
    infer=_leaky_infer,
    gradient=Joint(_leaky_gradient),
    outputs=2,
    visible=lambda a: 2 if a["act_type"] == "rrelu" else 1,
    random=True,
    training=True,
    saves="data gamma output",
    reference=_leaky_reference,
    # Gradients are tested in tests/operators/test_neural_operators.py: checks of random operators cannot repeat a call.
    samples=lambda rng: [
        sample(_signed(rng, 3, 4), None, check_gradient=False),
        sample(_signed(rng, 3, 4), None, slope=-0.3, check_gradient=False),
        sample(_signed(rng, 3, 4), None, act_type="elu", slope=0.7, check_gradient=False),
        sample(_signed(rng, 3, 4), None, act_type="selu", check_gradient=False),
        sample(_signed(rng, 3, 4) * 3, None, act_type="gelu", check_gradient=False),
        sample(_signed(rng, 2, 3, 4), rng.uniform(0, 1, 3), act_type="prelu", check_gradient=False),
        sample(_signed(rng, 2, 3), rng.uniform(0, 1, 1), act_type="prelu", check_gradient=False),
        sample(_signed(rng, 2, 3), None, act_type="rrelu", lower_bound=0.2, upper_bound=0.3, check_gradient=False),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), None, act_type="prelu", match="needs gamma"),
        error(np.ones((2, 3), "float32"), np.ones(2, "float32"), act_type="prelu", match="one slope per channel"),
    ],
    doc="""Apply a rectifier that lets some of the negative side through.

Parameters
----------
data : NDArray
    ``(N, C, ...)``.
gamma : NDArray, optional
    ``(C,)`` or ``(1,)``: learned slopes, for ``act_type="prelu"`` only.
act_type : {"leaky", "prelu", "elu", "selu", "gelu", "rrelu"}
    For negative ``x``: ``slope * x``; ``gamma * x``; ``slope * (e**x - 1)``; the self-normalising
    ``scale * alpha * (e**x - 1)`` (and ``scale * x`` for positive); for every ``x``, ``x`` times the normal
    distribution function; ``s * x`` with a random ``s`` per element from ``[lower_bound, upper_bound]`` while
    training, their mean otherwise.
slope, lower_bound, upper_bound : float

Returns
-------
NDArray, or list of two
    Same shape and dtype. ``"rrelu"`` also gives the factors.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.LeakyReLU(mx.nd.array([-4, 2]), slope=0.5).asnumpy().tolist()
[-2.0, 2.0]
""",
)

operator(
    "_leaky_backward",
    "grad data",
    {"slope": Float(0.25)},
    infer=same,
    gradient=(lambda F, g, y, grad, x, slope: F._leaky_backward(g, x, slope=slope), None),
    saves="data",
    doc="``grad`` where ``data`` is positive, else ``slope * grad``; the gradient of ``LeakyReLU``.",
)


def _prelu_composed(F: Any, g: Any, x: Any, gamma: Any) -> Any:
    slopes = gamma
    if len(gamma.shape) == 1 and gamma.shape[0] > 1 and len(x.shape) > 2:
        # One slope per channel: the axes after the channels have length 1.
        slopes = F.reshape(gamma, shape=(1, -1) + (1,) * (len(x.shape) - 2))
    above = x > 0.0
    below = 1.0 - above
    dgamma = F._sum_like(g * x * below, slopes)
    return g * (above + below * slopes), dgamma if slopes is gamma else F.reshape(dgamma, shape=(-1,))


operator(
    "_backward_prelu",
    "grad data gamma",
    infer=lambda a, g, x, gamma: (x, gamma),
    outputs=2,
    gradient=NO_GRADIENT,
    composed=_prelu_composed,
    doc="Gradients of ``LeakyReLU`` with ``act_type='prelu'`` for data and gamma.",
)

_ROOT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)

operator(
    "_gelu_backward",
    "grad data",
    infer=same,
    gradient=(
        lambda F, g, y, grad, x: F._gelu_backward(g, x),
        # (Phi + x phi)' = phi (2 - x**2)
        lambda F, g, y, grad, x: g * grad * (F.exp(x * x * -0.5) * (2.0 - x * x) * (0.5 * _ROOT_TWO_OVER_PI)),
    ),
    saves="grad data",
    doc="Gradient of ``LeakyReLU`` with ``act_type='gelu'``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Softmax


def _softmax_infer(name: str) -> Any:
    def infer(a: Any, x: Spec, length: Spec | None = None) -> Spec:
        check_floats(name, x)
        check_axis(name, a["axis"], x.shape)
        if a["temperature"] == 0:
            raise ParameterError(f"operator '{name}': temperature must not be 0.", operator=name)
        if a["use_length"] != (length is not None):
            raise ParameterError(
                f"operator '{name}': use_length={a['use_length']} but "
                + ("no length is given." if length is None else "a length is given; pass use_length=True."),
                operator=name,
                attribute="use_length",
            )
        if length is not None:
            axis = a["axis"] % len(x.shape)
            want = x.shape[:axis] + x.shape[axis + 1 :]
            if length.shape != want:
                raise ShapeError(
                    f"operator '{name}': length must have the shape of data {x.shape} without axis {axis}, {want}, but "
                    f"has {length.shape}.",
                    operator=name,
                    shapes=[x.shape, length.shape],
                )
        return Spec(x.shape, np.dtype(a["dtype"]) if a["dtype"] else x.dtype)

    return infer


def _softmax_reference(x: Any, length: Any = None, *, axis: int = -1, temperature: Any = None, **_: Any) -> Any:
    e = np.exp(x / (temperature or 1))
    if length is not None:
        shape = [1] * x.ndim
        shape[axis] = -1
        e = e * (np.arange(x.shape[axis]).reshape(shape) < np.expand_dims(length, axis))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)


def _like(F: Any, d: Any, x: Any, dtype: Any) -> Any:
    """Return ``d`` in the dtype of ``x`` where the operator gave its result another."""
    return d if dtype is None else F._cast_like(d, x)


def _scale(sign: float, temperature: float | None) -> float:
    return sign / (temperature or 1.0)


_SOFTMAX = {"axis": Int(-1), "temperature": Float(None), "dtype": DType(None), "use_length": Bool(False)}
_SOFTMAX_DOC = """
Parameters
----------
data : NDArray
    Floats of any shape.
{length}axis : int
temperature : float or None
    ``data`` is divided by it first.
dtype : str or None
    Dtype of the result; that of ``data`` if None.
use_length : bool

Returns
-------
NDArray
    Same shape as ``data``.

Raises
------
ShapeError
    If the axis does not exist.
DTypeError
    If ``data`` does not hold floats.

Examples
--------
>>> import mxcore as mx
"""
_LENGTH_DOC = """length : NDArray, optional
    Integers, of the shape of ``data`` without ``axis``: how many positions count, with ``use_length=True``. The
    others get 0.
"""


def _softmax_errors() -> Any:
    return [
        error(np.ones((2, 3), "float32"), axis=2, match="axis=2 does not exist"),
        error(np.ones((2, 3), "int32"), match="works on floats"),
    ]


operator(
    "softmax",
    "data length?",
    _SOFTMAX,
    same_dtype=False,
    infer=_softmax_infer("softmax"),
    gradient=(
        lambda F, g, y, x, length, axis, temperature, dtype, use_length: _like(
            F, F._backward_softmax(g, y, axis=axis, scale=_scale(1.0, temperature)), x, dtype
        ),
        None,
    ),
    saves="output",
    reference=_softmax_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), None),
        sample(rng.standard_normal((2, 3, 4)), None, axis=1, temperature=2.5),
        sample(rng.standard_normal((2, 3)), np.array([2, 3], "int32"), use_length=True),
        sample(rng.standard_normal((2, 4, 3)), np.array([[1, 0, 4], [2, 3, 4]], "int32"), axis=1, use_length=True),
        sample(rng.standard_normal((2, 3)), None, dtype="float64", check_gradient=False),
    ],
    errors=lambda: [
        *_softmax_errors(),
        error(np.ones((2, 3), "float32"), None, use_length=True, match="no length is given"),
        error(
            np.ones((2, 3), "float32"), np.ones(3, "int32"), use_length=True, match="without axis 1, (2,), but has (3,)"
        ),
    ],
    doc="Compute ``e**x / sum(e**x)`` along an axis.\n"
    + _SOFTMAX_DOC.format(length=_LENGTH_DOC)
    + """>>> mx.nd.softmax(mx.nd.array([[1, 1], [0, 100]])).asnumpy().round(4).tolist()
[[0.5, 0.5], [0.0, 1.0]]
""",
)

operator(
    "softmin",
    "data",
    _SOFTMAX,
    infer=_softmax_infer("softmin"),
    gradient=(
        lambda F, g, y, x, axis, temperature, dtype, use_length: _like(
            F, F._backward_softmax(g, y, axis=axis, scale=_scale(-1.0, temperature)), x, dtype
        ),
    ),
    saves="output",
    reference=lambda x, **a: _softmax_reference(-x, **a),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(rng.standard_normal((2, 3, 4)), axis=0, temperature=0.7),
    ],
    errors=_softmax_errors,
    doc="Compute ``e**-x / sum(e**-x)`` along an axis.\n"
    + _SOFTMAX_DOC.format(length="")
    + """>>> mx.nd.softmin(mx.nd.array([[1, 1], [0, 100]])).asnumpy().round(4).tolist()
[[0.5, 0.5], [1.0, 0.0]]
""",
)

operator(
    "log_softmax",
    "data",
    _SOFTMAX,
    infer=_softmax_infer("log_softmax"),
    gradient=(
        lambda F, g, y, x, axis, temperature, dtype, use_length: _like(
            F, F._backward_log_softmax(g, y, axis=axis, scale=_scale(1.0, temperature)), x, dtype
        ),
    ),
    saves="output",
    reference=lambda x, **a: np.log(_softmax_reference(x, **a)),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(rng.standard_normal((2, 3, 4)), axis=1, temperature=2.5),
    ],
    errors=_softmax_errors,
    doc="Compute ``x - ln(sum(e**x))`` along an axis, the logarithm of softmax.\n"
    + _SOFTMAX_DOC.format(length="")
    + """>>> mx.nd.log_softmax(mx.nd.array([[0, 0], [0, 100]])).asnumpy().round(4).tolist()
[[-0.6931..., -0.6931...], [-100.0, 0.0]]
""".replace("-0.6931...", "-0.6930999755859375"),
)

operator(
    "_backward_softmax",
    "grad output",
    {"axis": Int(-1), "scale": Float(1.0)},
    infer=same,
    gradient=NO_GRADIENT,
    composed=lambda F, g, y, axis, scale: (g - F.sum(g * y, axis=axis, keepdims=True)) * y * scale,
    doc="Gradient of ``softmax`` and ``softmin``, from the output.",
)

operator(
    "_backward_log_softmax",
    "grad output",
    {"axis": Int(-1), "scale": Float(1.0)},
    infer=same,
    gradient=NO_GRADIENT,
    composed=lambda F, g, y, axis, scale: (g - F.exp(y) * F.sum(g, axis=axis, keepdims=True)) * scale,
    doc="Gradient of ``log_softmax``, from the output.",
)


def _softmax_activation(a: Any, x: Spec) -> Spec:
    if len(x.shape) < 2:
        raise ShapeError(
            f"operator 'SoftmaxActivation' wants data with a batch axis and at least one more, but got {x.shape}.",
            operator="SoftmaxActivation",
            shapes=[x.shape],
        )
    return x


def _softmax_activation_composed(F: Any, g: Any, y: Any, mode: str) -> Any:
    axis = {"axis": 1} if mode == "channel" else {"axis": 0, "exclude": True}
    return (g - F.sum(g * y, keepdims=True, **axis)) * y


operator(
    "SoftmaxActivation",
    "data",
    {"mode": Choice("instance", choices=("channel", "instance"))},
    infer=_softmax_activation,
    gradient=(lambda F, g, y, x, mode: F._backward_SoftmaxActivation(g, y, mode=mode),),
    saves="output",
    reference=lambda x, mode="instance": (
        _softmax_reference(x, axis=1)
        if mode == "channel"
        else _softmax_reference(x.reshape(len(x), -1), axis=1).reshape(x.shape)
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(rng.standard_normal((2, 3, 2))),
        sample(rng.standard_normal((2, 3, 2)), mode="channel"),
    ],
    errors=lambda: [error(np.ones(3, "float32"), match="at least one more")],
    doc="""Compute softmax of each instance, or along the channels. Kept for old models; use ``softmax``.

Parameters
----------
data : NDArray
    ``(N, C, ...)``.
mode : {"instance", "channel"}
    Over all axes but the first, or over axis 1.

Returns
-------
NDArray
    Same shape and dtype.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.SoftmaxActivation(mx.nd.array([[1, 1]])).asnumpy().tolist()
[[0.5, 0.5]]
""",
)

operator(
    "_backward_SoftmaxActivation",
    "grad output",
    {"mode": Choice("instance", choices=("channel", "instance"))},
    infer=same,
    gradient=NO_GRADIENT,
    composed=_softmax_activation_composed,
    doc="Gradient of ``SoftmaxActivation``, from the output.",
)

# ---------------------------------------------------------------------------------------------------------------
# Dropout


def _dropout(a: Any, x: Spec) -> tuple[Spec, Spec]:
    if not 0 <= a["p"] < 1:
        raise ParameterError(
            f"operator 'Dropout': p={a['p']} must be at least 0 and less than 1; it is the share of elements dropped.",
            operator="Dropout",
            attribute="p",
        )
    for axis in a["axes"]:
        check_axis("Dropout", axis, x.shape)
    return x, Spec(tuple(1 if i in a["axes"] else n for i, n in enumerate(x.shape)), x.dtype)


operator(
    "Dropout",
    "data",
    {
        "p": Float(0.5),
        "mode": Choice("training", choices=("always", "training")),
        "axes": Shape(()),
        "cudnn_off": Bool(False, doc="Without effect."),
    },
    infer=_dropout,
    # The mask is a constant: what arrives there (gradients of gradients) goes no further.
    gradient=Joint(lambda F, gs, inputs, outputs, attributes, needs: [None if gs[0] is None else gs[0] * outputs[1]]),
    outputs=2,
    visible=1,
    random=True,
    training=True,
    saves="output",
    reference=lambda x, **_: x,
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), check_gradient=False)],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), p=1.5, match="less than 1"),
        error(np.ones((2, 3), "float32"), axes=(2,), match="axis=2 does not exist"),
    ],
    doc="""While training, set a random share ``p`` of the elements to 0 and multiply the others by ``1 / (1 - p)``.

Elsewhere a copy. The gradient is multiplied by the same mask.

Parameters
----------
data : NDArray
    Any shape.
p : float
    In ``[0, 1)``.
mode : {"training", "always"}
    ``"always"`` drops in prediction too.
axes : tuple of int
    Axes along which whole slices are dropped: the mask has length 1 there.
cudnn_off : bool
    Accepted, without effect.

Returns
-------
NDArray
    Same shape and dtype.

Raises
------
ParameterError
    If ``p`` is not in ``[0, 1)``.

Examples
--------
>>> import mxcore as mx
>>> with mx.autograd.train_mode():
...     y = mx.nd.Dropout(mx.nd.ones((1000,)), p=0.5)
>>> sorted(set(y.asnumpy().tolist()))
[0.0, 2.0]
>>> mx.nd.Dropout(mx.nd.ones((2,)), p=0.5).asnumpy().tolist()
[1.0, 1.0]
""",
)
