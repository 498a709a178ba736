"""Records of optimizer steps: ``update(weight, grad, *states, lr=..., out=weight)``.

States are changed in place; the new weight is the result, which ``out=weight`` puts in place too. Operators whose
names start with ``mp_`` keep a float32 master copy of a weight of low precision. None of them has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .attributes import Bool, Float, Int
from .documentation import documentation
from .record import NO_GRADIENT, Spec, sample
from .registry import operator
from .update_rule import LAZY, RESCALE, alike, clipped, example_of, parameters_of, rule, step_doc

# ---------------------------------------------------------------------------------------------------------------
# References, each the formula of its documentation


def _sgd(w: Any, g: Any, *, lr: float, wd: float, rescale_grad: float, clip_gradient: float, **_: Any) -> Any:
    return w - lr * (clipped(rescale_grad * g, clip_gradient) + wd * w)


def _sgd_mom(
    w: Any,
    g: Any,
    m: Any,
    *,
    lr: float,
    momentum: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    **_: Any,
) -> Any:
    m[...] = momentum * m - lr * (clipped(rescale_grad * g, clip_gradient) + wd * w)
    return w + m


def _nag(
    w: Any, g: Any, m: Any, *, lr: float, momentum: float, wd: float, rescale_grad: float, clip_gradient: float
) -> Any:
    d = lr * (clipped(rescale_grad * g, clip_gradient) + wd * w)
    m[...] = momentum * m - d
    return w + momentum * m - d


def _signsgd(w: Any, g: Any, *, lr: float, wd: float, **_: Any) -> Any:
    return w - lr * (np.sign(g) + wd * w)


def _signum(
    w: Any,
    g: Any,
    m: Any,
    *,
    lr: float,
    momentum: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    wd_lh: float,
) -> Any:
    m[...] = momentum * m - (1 - momentum) * (clipped(rescale_grad * g, clip_gradient) + wd * w)
    return w * (1 - lr * wd_lh) + lr * np.sign(m)


def _adam(
    w: Any,
    g: Any,
    m: Any,
    v: Any,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    **_: Any,
) -> Any:
    g = clipped(rescale_grad * g + wd * w, clip_gradient)
    m[...] = beta1 * m + (1 - beta1) * g
    v[...] = beta2 * v + (1 - beta2) * g**2
    return w - lr * m / (np.sqrt(v) + epsilon)


def _rmsprop(
    w: Any,
    g: Any,
    n: Any,
    *,
    lr: float,
    gamma1: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    clip_weights: float,
) -> Any:
    g = clipped(rescale_grad * g + wd * w, clip_gradient)
    n[...] = gamma1 * n + (1 - gamma1) * g**2
    return clipped(w - lr * g / np.sqrt(n + epsilon), clip_weights)


def _rmspropalex(
    w: Any,
    grad: Any,
    n: Any,
    g: Any,
    delta: Any,
    *,
    lr: float,
    gamma1: float,
    gamma2: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    clip_weights: float,
) -> Any:
    grad = clipped(rescale_grad * grad + wd * w, clip_gradient)
    n[...] = gamma1 * n + (1 - gamma1) * grad**2
    g[...] = gamma1 * g + (1 - gamma1) * grad
    delta[...] = gamma2 * delta - lr * grad / np.sqrt(n - g**2 + epsilon)
    return clipped(w + delta, clip_weights)


def _ftrl(
    w: Any,
    g: Any,
    z: Any,
    n: Any,
    *,
    lr: float,
    lamda1: float,
    beta: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> Any:
    g = clipped(rescale_grad * g, clip_gradient)
    z[...] = z + g - (np.sqrt(n + g**2) - np.sqrt(n)) * w / lr
    n[...] = n + g**2
    return np.where(np.abs(z) > lamda1, (np.sign(z) * lamda1 - z) / ((beta + np.sqrt(n)) / lr + wd), 0)


def _ftml(
    w: Any,
    g: Any,
    d: Any,
    v: Any,
    z: Any,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    t: int,
    wd: float,
    rescale_grad: float,
    clip_grad: float,
) -> Any:
    g = clipped(rescale_grad * g + wd * w, clip_grad)
    v[...] = beta2 * v + (1 - beta2) * g**2
    new = (1 - beta1**t) / lr * (np.sqrt(v / (1 - beta2**t)) + epsilon)
    z[...] = beta1 * z + (1 - beta1) * g - (new - beta1 * d) * w
    d[...] = new
    return -z / d


def _adagrad(
    w: Any, g: Any, h: Any, *, lr: float, epsilon: float, wd: float, rescale_grad: float, clip_gradient: float
) -> Any:
    g = clipped(rescale_grad * g, clip_gradient)
    h += g**2
    return w - lr * (g / np.sqrt(h + epsilon) + wd * w)


# ---------------------------------------------------------------------------------------------------------------
# Rules

_SETTINGS: tuple[dict[str, Any], ...] = (
    {"lr": 0.1},
    {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5},
    {"lr": 0.1, "wd": 0.01, "rescale_grad": 2.0, "clip_gradient": 0.7},
)
_MOMENTUM_SETTINGS = tuple({**s, "momentum": 0.9} for s in _SETTINGS)

rule(
    "sgd_update",
    "",
    {"lr": Float(), "wd": Float(0.0), **RESCALE, **LAZY},
    "Gradient descent: ``w - lr * (clip(rescale_grad * grad) + wd * w)``.",
    _sgd,
    example_of("sgd_update(w, g, lr=0.5)", "[0.5, 2.5]", 0),
    mixed="mp_sgd_update",
    settings=_SETTINGS,
)
rule(
    "sgd_mom_update",
    "mom",
    {"lr": Float(), "momentum": Float(0.0), "wd": Float(0.0), **RESCALE, **LAZY},
    "Gradient descent with momentum::\n\n    mom = momentum * mom - lr * (clip(rescale_grad * grad) + wd * w)\n    w + mom",
    _sgd_mom,
    example_of("sgd_mom_update(w, g, *states, lr=0.5, momentum=0.9)", "[0.5, 2.5]", 1),
    mixed="mp_sgd_mom_update",
    settings=_MOMENTUM_SETTINGS,
)
rule(
    "nag_mom_update",
    "mom",
    {"lr": Float(), "momentum": Float(0.0), "wd": Float(0.0), **RESCALE},
    "Nesterov's accelerated gradient::\n\n    d = lr * (clip(rescale_grad * grad) + wd * w)\n"
    "    mom = momentum * mom - d\n    w + momentum * mom - d",
    _nag,
    example_of("nag_mom_update(w, g, *states, lr=0.5, momentum=0.5)", "[0.25, 2.75]", 1),
    mixed="mp_nag_mom_update",
    settings=_MOMENTUM_SETTINGS,
)
rule(
    "signsgd_update",
    "",
    {"lr": Float(), "wd": Float(0.0), **RESCALE},
    "Descent by signs: ``w - lr * (sign(grad) + wd * w)``. ``rescale_grad`` and ``clip_gradient`` have no effect.",
    _signsgd,
    example_of("signsgd_update(w, g, lr=0.5)", "[0.5, 2.5]", 0),
    settings=_SETTINGS,
)
rule(
    "signum_update",
    "mom",
    {"lr": Float(), "momentum": Float(0.0), "wd": Float(0.0), **RESCALE, "wd_lh": Float(0.0)},
    "Descent by signs of the momentum::\n\n"
    "    mom = momentum * mom - (1 - momentum) * (clip(rescale_grad * grad) + wd * w)\n"
    "    (1 - lr * wd_lh) * w + lr * sign(mom)",
    _signum,
    example_of("signum_update(w, g, *states, lr=0.5)", "[0.5, 2.5]", 1),
    settings=(*_MOMENTUM_SETTINGS, {"lr": 0.1, "wd_lh": 0.05}),
)
ADAM = {"beta1": Float(0.9), "beta2": Float(0.999), "epsilon": Float(1e-8)}
rule(
    "adam_update",
    "mean var",
    {"lr": Float(), **ADAM, "wd": Float(0.0), **RESCALE, **LAZY},
    "Adam, without its bias correction, which goes into ``lr``::\n\n    g = clip(rescale_grad * grad + wd * w)\n"
    "    mean = beta1 * mean + (1 - beta1) * g\n    var = beta2 * var + (1 - beta2) * g**2\n"
    "    w - lr * mean / (sqrt(var) + epsilon)",
    _adam,
    example_of("adam_update(w, g, *states, lr=0.5, beta2=0.96)", "[0.75, 2.25]", 2),
    positive=("var",),
    settings=(*_SETTINGS, {"lr": 0.3, "beta1": 0.5, "beta2": 0.9, "epsilon": 0.1}),
)
rule(
    "rmsprop_update",
    "n",
    {
        "lr": Float(),
        "gamma1": Float(0.95),
        "epsilon": Float(1e-8),
        "wd": Float(0.0),
        **RESCALE,
        "clip_weights": Float(-1.0),
    },
    "RMSProp::\n\n    g = clip(rescale_grad * grad + wd * w)\n    n = gamma1 * n + (1 - gamma1) * g**2\n"
    "    clip(w - lr * g / sqrt(n + epsilon), clip_weights)",
    _rmsprop,
    example_of("rmsprop_update(w, g, *states, lr=0.5, gamma1=0.75)", "[0.0, 3.0]", 1),
    positive=("n",),
    settings=(*_SETTINGS, {"lr": 0.3, "clip_weights": 0.5}),
)
rule(
    "rmspropalex_update",
    "n g delta",
    {
        "lr": Float(),
        "gamma1": Float(0.95),
        "gamma2": Float(0.9),
        "epsilon": Float(1e-8),
        "wd": Float(0.0),
        **RESCALE,
        "clip_weights": Float(-1.0),
    },
    "RMSProp after Graves (https://arxiv.org/abs/1308.0850)::\n\n    d = clip(rescale_grad * grad + wd * w)\n"
    "    n = gamma1 * n + (1 - gamma1) * d**2\n    g = gamma1 * g + (1 - gamma1) * d\n"
    "    delta = gamma2 * delta - lr * d / sqrt(n - g**2 + epsilon)\n    clip(w + delta, clip_weights)",
    _rmspropalex,
    example_of("rmspropalex_update(w, g, *states, lr=0.4, gamma1=0.8)", "[0.0, 3.0]", 3),
    positive=("n",),
    settings=(*({**s, "epsilon": 5.0} for s in _SETTINGS), {"lr": 0.3, "clip_weights": 0.5, "epsilon": 5.0}),
)
rule(
    "ftrl_update",
    "z n",
    {"lr": Float(), "lamda1": Float(0.01), "beta": Float(1.0), "wd": Float(0.0), **RESCALE},
    "Follow the regularized leader (McMahan et al., 2013)::\n\n    g = clip(rescale_grad * grad)\n"
    "    z = z + g - (sqrt(n + g**2) - sqrt(n)) * w / lr\n    n = n + g**2\n"
    "    (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) where |z| > lamda1, else 0",
    _ftrl,
    example_of("ftrl_update(w, g, *states, lr=0.5, lamda1=0)", "[0.25, 1.25]", 2),
    positive=("n",),
    settings=(*_SETTINGS, {"lr": 0.3, "lamda1": 1.0, "beta": 0.5}),
)
rule(
    "ftml_update",
    "d v z",
    {
        "lr": Float(),
        "beta1": Float(0.6),
        "beta2": Float(0.999),
        "epsilon": Float(1e-8),
        "t": Int(),
        "wd": Float(0.0),
        "rescale_grad": Float(1.0),
        "clip_grad": Float(-1.0),
    },
    "Follow the moving leader (Zheng and Kwok, 2017)::\n\n    g = clip(rescale_grad * grad + wd * w)\n"
    "    v = beta2 * v + (1 - beta2) * g**2\n"
    "    d' = (1 - beta1**t) / lr * (sqrt(v / (1 - beta2**t)) + epsilon)\n"
    "    z = beta1 * z + (1 - beta1) * g - (d' - beta1 * d) * w\n    d = d'\n    -z / d",
    _ftml,
    example_of("ftml_update(w, g, *states, lr=0.5, t=1)", "[0.5, 2.5]", 3),
    positive=("d", "v"),
    settings=(
        {"lr": 0.1, "t": 1},
        {"lr": 0.1, "t": 3, "wd": 0.01, "rescale_grad": 0.5},
        {"lr": 0.1, "t": 2, "wd": 0.01, "rescale_grad": 2.0, "clip_grad": 0.7},
    ),
)
rule(
    "_adagrad_update",
    "history",
    {"lr": Float(), "epsilon": Float(1e-7), "wd": Float(0.0), **RESCALE},
    "AdaGrad::\n\n    g = clip(rescale_grad * grad)\n    history = history + g**2\n"
    "    w - lr * (g / sqrt(history + epsilon) + wd * w)",
    _adagrad,
    example_of("_adagrad_update(w, g, *states, lr=0.5)", "[0.5, 2.5]", 1),
    positive=("history",),
    settings=_SETTINGS,
)

# ---------------------------------------------------------------------------------------------------------------
# AdamW: the scale of the gradient is an array, which loss scaling computes


def _adamw(w: Any, g: Any, m: Any, v: Any, scale: Any, *, eta: float, wd: float = 0.0, lr: float, **kw: Any) -> Any:
    kw = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "clip_gradient": -1.0, **kw}
    if not np.isfinite(scale) or scale == 0:
        return w
    return (1 - eta * wd) * w + _adam(w, g, m, v, lr=eta * lr, wd=0.0, rescale_grad=float(scale[0]), **kw) - w


_ADAMW = {"lr": Float(), **ADAM, "wd": Float(0.0), "eta": Float(), "clip_gradient": Float(-1.0)}
_ADAMW_TEXT = (
    "AdamW (https://arxiv.org/abs/1711.05101), without its bias correction, which goes into ``lr``::\n\n"
    "    g = clip(rescale_grad * grad)\n    mean = beta1 * mean + (1 - beta1) * g\n"
    "    var = beta2 * var + (1 - beta2) * g**2\n    w - eta * (lr * mean / (sqrt(var) + epsilon) + wd * w)\n\n"
    "``rescale_grad`` is an array of one number; if it is 0, infinite or not a number, nothing changes."
)


def _adamw_samples(mixed: bool) -> Callable[[Any], Any]:
    def samples(rng: np.random.Generator) -> Any:
        low = np.float16 if mixed else np.float64
        high = np.float32 if mixed else np.float64
        for scale, kw in (
            (1.0, {"lr": 0.1, "eta": 1.0}),
            (0.5, {"lr": 0.1, "eta": 0.5, "wd": 0.1, "clip_gradient": 0.3}),
            (np.inf, {"lr": 0.1, "eta": 1.0}),
            (0.0, {"lr": 0.1, "eta": 1.0}),
        ):
            w, g, m, v = (rng.standard_normal((3, 4)) for _ in range(4))
            arrays = [w.astype(low), g.astype(low), m.astype(high), np.abs(v).astype(high)]
            if mixed:
                arrays.append(w.astype(high))
            yield sample(*arrays, np.array([scale], np.float32), check_gradient=False, **kw)

    return samples


for _name, _is_mixed in (("_adamw_update", False), ("_mp_adamw_update", True)):
    _names = ["weight", "grad", "mean", "var", *(["weight32"] if _is_mixed else []), "rescale_grad"]
    operator(
        _name,
        " ".join(_names),
        _ADAMW,
        infer=alike(_name, _names, mixed=_is_mixed, free=1),
        same_dtype=False,
        gradient=NO_GRADIENT,
        mutates=tuple(range(2, len(_names) - 1)),
        reference=None if _is_mixed else _adamw,
        samples=_adamw_samples(_is_mixed),
        doc=documentation(_ADAMW_TEXT, parameters_of(" ".join(_names), _ADAMW), "NDArray\n    The new weight."),
    )

# ---------------------------------------------------------------------------------------------------------------
# LAMB (https://arxiv.org/abs/1904.00962)

_LAMB = {
    "beta1": Float(0.9),
    "beta2": Float(0.999),
    "epsilon": Float(1e-6),
    "t": Int(),
    "bias_correction": Bool(True),
    "wd": Float(),
    **RESCALE,
}


def _lamb(
    w: Any,
    g: Any,
    m: Any,
    v: Any,
    *,
    t: int,
    wd: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    bias_correction: bool = True,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
) -> Any:
    g = clipped(rescale_grad * g, clip_gradient)
    m[...] = beta1 * m + (1 - beta1) * g
    v[...] = beta2 * v + (1 - beta2) * g**2
    a, b = (1 - beta1**t, 1 - beta2**t) if bias_correction else (1.0, 1.0)
    return m / a / (np.sqrt(v / b) + epsilon) + wd * w


def _lamb_step(
    w: Any, g: Any, r1: Any, r2: Any, *, lr: float, lower_bound: float = -1.0, upper_bound: float = -1.0
) -> Any:
    norm = r1[0]
    norm = max(norm, lower_bound) if lower_bound >= 0 else norm
    norm = min(norm, upper_bound) if upper_bound >= 0 else norm
    return w - lr * (1.0 if norm == 0 or r2[0] == 0 else norm / r2[0]) * g


_LAMB_SETTINGS: tuple[dict[str, Any], ...] = (
    {"t": 1, "wd": 0.0},
    {"t": 3, "wd": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.4},
    {"t": 3, "wd": 0.1, "bias_correction": False},
)


def _lamb_samples(mixed: bool) -> Callable[[Any], Any]:
    def samples(rng: np.random.Generator) -> Any:
        for kw in _LAMB_SETTINGS:
            w, g, m, v = (rng.standard_normal((3, 4)) for _ in range(4))
            if mixed:
                single = [x.astype(np.float32) for x in (m, np.abs(v), w)]
                yield sample(w.astype(np.float16), g.astype(np.float16), *single, check_gradient=False, **kw)
            else:
                yield sample(w, g, m, np.abs(v), check_gradient=False, **kw)

    return samples


_LAMB_TEXT = (
    "First phase of LAMB, the direction::\n\n    g = clip(rescale_grad * grad)\n"
    "    mean = beta1 * mean + (1 - beta1) * g\n    var = beta2 * var + (1 - beta2) * g**2\n"
    "    mean / (1 - beta1**t) / (sqrt(var / (1 - beta2**t)) + epsilon) + wd * w"
)
_LAMB_EXAMPLE = example_of("lamb_update_phase1(w, g, *states, t=1, wd=1)", "[2.0, 1.0]", 2)

operator(
    "lamb_update_phase1",
    "weight grad mean var",
    _LAMB,
    infer=alike("lamb_update_phase1", ["weight", "grad", "mean", "var"]),
    gradient=NO_GRADIENT,
    mutates=(2, 3),
    reference=_lamb,
    samples=_lamb_samples(False),
    doc=step_doc(_LAMB_TEXT, "weight grad mean var", _LAMB, _LAMB_EXAMPLE, returns="The direction."),
)


def _mp_lamb(a: Any, *specs: Spec) -> Spec:
    alike("mp_lamb_update_phase1", ["weight", "grad", "mean", "var", "weight32"], mixed=True)(a, *specs)
    return Spec(specs[0].shape, np.dtype(np.float32))


operator(
    "mp_lamb_update_phase1",
    "weight grad mean var weight32",
    _LAMB,
    infer=_mp_lamb,
    same_dtype=False,
    gradient=NO_GRADIENT,
    mutates=(2, 3),
    samples=_lamb_samples(True),
    doc=documentation(
        "Like ``lamb_update_phase1``, from the float32 master copy ``weight32``.",
        parameters_of("weight grad mean var weight32", _LAMB),
        "NDArray\n    The direction, float32.",
    ),
)

_PHASE2 = {"lr": Float(), "lower_bound": Float(-1.0), "upper_bound": Float(-1.0)}
_PHASE2_SETTINGS: tuple[dict[str, Any], ...] = (
    {"lr": 0.1},
    {"lr": 0.1, "lower_bound": 5.0},
    {"lr": 0.1, "upper_bound": 0.5},
)
operator(
    "lamb_update_phase2",
    "weight g r1 r2",
    _PHASE2,
    infer=alike("lamb_update_phase2", ["weight", "g"], free=2),
    gradient=NO_GRADIENT,
    reference=_lamb_step,
    samples=lambda rng: [
        sample(
            rng.standard_normal((3, 4)),
            rng.standard_normal((3, 4)),
            np.array([r1]),
            np.array([2.0]),
            check_gradient=False,
            **kw,
        )
        for kw in _PHASE2_SETTINGS
        for r1 in (3.0, 0.0)
    ],
    doc="""Second phase of LAMB: ``w - lr * r1 / r2 * g``, where ``r1`` is kept within the bounds; the ratio of zeros is 1.

Parameters
----------
weight, g : NDArray
    The weight and the direction of the first phase.
r1, r2 : NDArray
    Norms of the weight and of the direction, ``(1,)``.
lr : float
    Learning rate.
lower_bound, upper_bound : float
    Bounds of ``r1``; none if negative.

Returns
-------
NDArray
    The new weight; give ``out=weight`` to have it in place.

Examples
--------
>>> import mxcore as mx
>>> w, g = mx.nd.array([3, 4]), mx.nd.array([1, 0])
>>> mx.nd.lamb_update_phase2(w, g, w.norm(), g.norm(), lr=0.5).asnumpy().tolist()
[0.5, 4.0]
""",
)


operator(
    "mp_lamb_update_phase2",
    "weight g r1 r2 weight32",
    _PHASE2,
    infer=alike("mp_lamb_update_phase2", ["weight", "g"], free=3),
    same_dtype=False,
    gradient=NO_GRADIENT,
    mutates=(4,),
    samples=lambda rng: [
        sample(
            np.ones((3, 4), np.float16),
            rng.standard_normal((3, 4)).astype(np.float32),
            np.array([3.0], np.float32),
            np.array([2.0], np.float32),
            np.ones((3, 4), np.float32),
            check_gradient=False,
            **kw,
        )
        for kw in _PHASE2_SETTINGS
    ],
    doc="Like ``lamb_update_phase2``, on the float32 master copy ``weight32``; the result is that copy in the dtype of "
    "``weight``.",
)


def _group_adagrad(
    w: Any, g: Any, h: Any, *, lr: float, rescale_grad: float = 1.0, clip_gradient: float = -1.0, epsilon: float = 1e-5
) -> Any:
    g = clipped(rescale_grad * g, clip_gradient)
    h += (g**2).mean(1, keepdims=True)
    return w - lr * g / np.sqrt(h + epsilon)


operator(
    "_contrib_group_adagrad_update",
    "weight grad history",
    {"lr": Float(), **RESCALE, "epsilon": Float(1e-5)},
    infer=alike("_contrib_group_adagrad_update", ["weight", "grad"], free=1),
    gradient=NO_GRADIENT,
    mutates=(2,),
    reference=_group_adagrad,
    samples=lambda rng: [
        sample(
            rng.standard_normal((3, 4)),
            rng.standard_normal((3, 4)),
            rng.uniform(0, 1, (3, 1)),
            check_gradient=False,
            **kw,
        )
        for kw in ({"lr": 0.1}, {"lr": 0.1, "rescale_grad": 2.0, "clip_gradient": 0.5, "epsilon": 0.1})
    ],
    doc="AdaGrad with one accumulator for each row: ``history += mean(g**2, axis=1)``, then ``w - lr * g / "
    "sqrt(history + epsilon)`` with ``g = clip(rescale_grad * grad)``.",
)
