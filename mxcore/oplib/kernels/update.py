"""Kernels of optimizer steps.

A step reads and writes several arrays of one size a few times over. It therefore runs piece by piece, each small
enough to stay in the cache with its temporaries, so that a step over large arrays costs about one pass over memory;
the compute threads share the pieces of large ones out.

Each rule is written once, as a factory: attributes in, ``step(weight, grad, *states, out, *scratch)`` out, where
``out`` may be ``weight``, and ``grad`` is left as it is. From it come the operator on one weight, the one that keeps
a float32 master copy of a weight of low precision (``mp_*``), and those on many weights (``multi_*``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..table import kernel
from ..threads import STRETCH, parallel_for, stretch_for
from ..workspace import borrow

#: Elements in a piece, at least; see :func:`..threads.stretch_for`.
PIECE = STRETCH
#: Up to this size fresh temporaries cost less than borrowing.
SMALL = 2048

Step = Callable[..., None]

_multiply, _add, _subtract, _divide, _sqrt = np.multiply, np.add, np.subtract, np.divide, np.sqrt


def sweep(step: Step, weight: Any, others: Sequence[Any], out: Any, scratch: int, out_dtype: Any = None) -> Any:
    """Run ``step(weight, *others, out, *scratch)`` piece by piece and return ``out``.

    Parameters
    ----------
    step : callable
        Writes the result to ``out`` and states in place.
    weight : array
        Its dtype is that of the scratch arrays.
    others : sequence of array
        Of the size of ``weight``.
    out : array or None
        None makes a new one.
    scratch : int
        How many scratch arrays ``step`` gets.
    out_dtype : dtype, optional
        Dtype of a new ``out``, that of ``weight`` by default.
    """
    if out is None:
        out = np.empty(weight.shape, out_dtype or weight.dtype)
    size = weight.size
    if size <= SMALL:
        step(weight, *others, out, *[np.empty(weight.shape, weight.dtype) for _ in range(scratch)])
        return out
    arrays = (weight, *others, out)
    if not all(a.flags.c_contiguous for a in arrays):
        # Flat pieces of a strided view would be copies, and what is written to them lost.
        step(*arrays, *[np.empty(weight.shape, weight.dtype) for _ in range(scratch)])
        return out
    flat = [a.reshape(-1) for a in arrays]

    def run(start: int, stop: int) -> None:
        with borrow("update", (scratch, stop - start), weight.dtype) as temporaries:
            step(*[a[start:stop] for a in flat], *temporaries)

    if size * scratch < 4 * PIECE:  # steps with more scratch arrays compute more
        run(0, size)
    else:
        parallel_for(size, stretch_for(size, PIECE), run)
    return out


def mixed_sweep(step: Step, grad: Any, states: Sequence[Any], master: Any, out: Any, scratch: int, dtype: Any) -> Any:
    """Like :func:`sweep` on the float32 ``master`` copy of a weight: the copy is updated, ``out`` gets it in ``dtype``."""
    n = len(states)

    def mixed(w: Any, g: Any, *rest: Any) -> None:
        # rest: states, out, scratch for the gradient in float32, scratch of the step
        g32 = rest[n + 1]
        g32[...] = g
        step(w, g32, *rest[:n], w, *rest[n + 2 :])
        rest[n][...] = w

    return sweep(mixed, master, (grad, *states), out, scratch + 1, dtype)


def rule(name: str, *, scratch: int, mixed: str | None = None) -> Callable[[Callable[..., Step]], Callable[..., Step]]:
    """Declare the kernels of a rule given as a factory of steps.

    Parameters
    ----------
    name : str
        Operator ``name(weight, grad, *states)``.
    scratch : int
        Scratch arrays a step needs.
    mixed : str, optional
        Operator ``mixed(weight, grad, *states, weight32)``.
    """

    def declare(factory: Callable[..., Step]) -> Callable[..., Step]:
        def run(weight: Any, grad: Any, *states: Any, out: Any = None, **attributes: Any) -> Any:
            return sweep(factory(**attributes), weight, (grad, *states), out, scratch)

        kernel(name, numpy=True, out=True)(run)
        if mixed is not None:

            def run_mixed(weight: Any, grad: Any, *states: Any, out: Any = None, **attributes: Any) -> Any:
                return mixed_sweep(factory(**attributes), grad, states[:-1], states[-1], out, scratch, weight.dtype)

            kernel(mixed, numpy=True, out=True)(run_mixed)
        return factory

    return declare


# ---------------------------------------------------------------------------------------------------------------
# What the rules share. Scratch arrays are called s and t.


def _clip(x: Any, bound: float) -> None:
    """Limit ``x`` in place; a negative bound means none."""
    if bound >= 0:
        np.maximum(x, -bound, out=x)
        np.minimum(x, bound, out=x)


def _scaled(grad: Any, rescale_grad: float, clip_gradient: float, t: Any) -> Any:
    """Return ``clip(rescale_grad * grad)``: in ``t``, or ``grad`` itself where there is nothing to do."""
    if rescale_grad == 1 and clip_gradient < 0:
        return grad
    _multiply(grad, rescale_grad, out=t)
    _clip(t, clip_gradient)
    return t


def _with_decay(w: Any, grad: Any, wd: float, rescale_grad: float, clip_gradient: float, t: Any, s: Any) -> Any:
    """Return ``clip(rescale_grad * grad + wd * w)``: in ``t``, or ``grad`` itself. ``s`` is overwritten."""
    if not wd:
        return _scaled(grad, rescale_grad, clip_gradient, t)
    _multiply(grad, rescale_grad, out=t)
    _multiply(w, wd, out=s)
    _add(t, s, out=t)
    _clip(t, clip_gradient)
    return t


def _average(state: Any, beta: float, value: Any, s: Any) -> None:
    """``state = beta * state + (1 - beta) * value`` in place. ``s`` is overwritten and may be ``value``."""
    _multiply(state, beta, out=state)
    _multiply(value, 1.0 - beta, out=s)
    _add(state, s, out=state)


def _moments(mean: Any, var: Any, g: Any, beta1: float, beta2: float, s: Any) -> None:
    """Running averages of ``g`` and its square, in place. ``s`` is overwritten."""
    _average(mean, beta1, g, s)
    _average(var, beta2, _multiply(g, g, out=s), s)


# ---------------------------------------------------------------------------------------------------------------
# Rules


@rule("sgd_update", mixed="mp_sgd_update", scratch=1)
def sgd(*, lr: float, wd: float, rescale_grad: float, clip_gradient: float, lazy_update: bool = True) -> Step:
    def step(w: Any, g: Any, out: Any, t: Any) -> None:
        if clip_gradient >= 0:
            _multiply(_scaled(g, rescale_grad, clip_gradient, t), lr, out=t)
        else:
            _multiply(g, lr * rescale_grad, out=t)
        if wd:
            _multiply(w, 1.0 - lr * wd, out=out)
            w = out
        _subtract(w, t, out=out)

    return step


@rule("sgd_mom_update", mixed="mp_sgd_mom_update", scratch=1)
def sgd_mom(
    *, lr: float, momentum: float, wd: float, rescale_grad: float, clip_gradient: float, lazy_update: bool = True
) -> Step:
    def step(w: Any, g: Any, mom: Any, out: Any, t: Any) -> None:
        _multiply(mom, momentum, out=mom)
        if clip_gradient >= 0:
            _multiply(_scaled(g, rescale_grad, clip_gradient, t), lr, out=t)
        else:
            _multiply(g, lr * rescale_grad, out=t)
        _subtract(mom, t, out=mom)
        if wd:
            _multiply(w, lr * wd, out=t)
            _subtract(mom, t, out=mom)
        _add(w, mom, out=out)

    return step


@rule("nag_mom_update", mixed="mp_nag_mom_update", scratch=2)
def nag_mom(*, lr: float, momentum: float, wd: float, rescale_grad: float, clip_gradient: float) -> Step:
    def step(w: Any, g: Any, mom: Any, out: Any, s: Any, t: Any) -> None:
        _multiply(_scaled(g, rescale_grad, clip_gradient, t), lr, out=t)
        if wd:
            _multiply(w, lr * wd, out=s)
            _add(t, s, out=t)
        # mom' = momentum * mom - t;  w' = w + momentum * mom' - t
        _multiply(mom, momentum, out=mom)
        _subtract(mom, t, out=mom)
        _multiply(mom, momentum, out=s)
        _subtract(s, t, out=s)
        _add(w, s, out=out)

    return step


@rule("signsgd_update", scratch=1)
def signsgd(*, lr: float, wd: float, rescale_grad: float, clip_gradient: float) -> Step:
    def step(w: Any, g: Any, out: Any, t: Any) -> None:
        np.sign(g, out=t)
        _multiply(t, lr, out=t)
        _multiply(w, 1.0 - lr * wd, out=out)
        _subtract(out, t, out=out)

    return step


@rule("signum_update", scratch=1)
def signum(*, lr: float, momentum: float, wd: float, rescale_grad: float, clip_gradient: float, wd_lh: float) -> Step:
    def step(w: Any, g: Any, mom: Any, out: Any, t: Any) -> None:
        _multiply(mom, momentum, out=mom)
        _multiply(_scaled(g, rescale_grad, clip_gradient, t), 1.0 - momentum, out=t)
        _subtract(mom, t, out=mom)
        if wd:
            _multiply(w, (1.0 - momentum) * wd, out=t)
            _subtract(mom, t, out=mom)
        np.sign(mom, out=t)
        _multiply(t, lr, out=t)
        _multiply(w, 1.0 - lr * wd_lh, out=out)
        _add(out, t, out=out)

    return step


@rule("adam_update", scratch=2)
def adam(
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    lazy_update: bool,
) -> Step:
    def step(w: Any, g: Any, mean: Any, var: Any, out: Any, s: Any, t: Any) -> None:
        _moments(mean, var, _with_decay(w, g, wd, rescale_grad, clip_gradient, t, s), beta1, beta2, s)
        _sqrt(var, out=t)
        _add(t, epsilon, out=t)
        _multiply(mean, lr, out=s)
        _divide(s, t, out=s)
        _subtract(w, s, out=out)

    return step


def adamw(
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    wd: float,
    eta: float,
    rescale_grad: float,
    clip_gradient: float,
) -> Step:
    def step(w: Any, g: Any, mean: Any, var: Any, out: Any, s: Any, t: Any) -> None:
        _moments(mean, var, _scaled(g, rescale_grad, clip_gradient, t), beta1, beta2, s)
        _sqrt(var, out=t)
        _add(t, epsilon, out=t)
        _multiply(mean, eta * lr, out=s)
        _divide(s, t, out=s)
        _multiply(w, 1.0 - eta * wd, out=out)
        _subtract(out, s, out=out)

    return step


def usable(scale: float) -> bool:
    # Loss scaling hands over 0, inf or nan when gradients overflowed: the step is skipped.
    return bool(np.isfinite(scale)) and scale != 0


def _kept(weight: Any, out: Any) -> Any:
    """Return the weight as the result of a skipped step."""
    if out is None:
        return np.array(weight, order="C")
    if out is not weight:
        out[...] = weight
    return out


@kernel("_adamw_update", numpy=True, out=True)
def adamw_update(w: Any, g: Any, mean: Any, var: Any, rescale_grad: Any, out: Any = None, **attributes: Any) -> Any:
    scale = float(rescale_grad.reshape(-1)[0])
    if not usable(scale):
        return _kept(w, out)
    return sweep(adamw(rescale_grad=scale, **attributes), w, (g, mean, var), out, 2)


@kernel("_mp_adamw_update", numpy=True, out=True)
def mp_adamw_update(
    w: Any, g: Any, mean: Any, var: Any, w32: Any, rescale_grad: Any, out: Any = None, **attributes: Any
) -> Any:
    scale = float(rescale_grad.reshape(-1)[0])
    if not usable(scale):
        return _kept(w, out)
    return mixed_sweep(adamw(rescale_grad=scale, **attributes), g, (mean, var), w32, out, 2, w.dtype)


@rule("rmsprop_update", scratch=2)
def rmsprop(
    *,
    lr: float,
    gamma1: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    clip_weights: float,
) -> Step:
    def step(w: Any, g: Any, n: Any, out: Any, s: Any, t: Any) -> None:
        g = _with_decay(w, g, wd, rescale_grad, clip_gradient, t, s)
        _average(n, gamma1, _multiply(g, g, out=s), s)
        _add(n, epsilon, out=s)
        _sqrt(s, out=s)
        _divide(g, s, out=t)
        _multiply(t, lr, out=t)
        _subtract(w, t, out=out)
        _clip(out, clip_weights)

    return step


@rule("rmspropalex_update", scratch=2)
def rmspropalex(
    *,
    lr: float,
    gamma1: float,
    gamma2: float,
    epsilon: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    clip_weights: float,
) -> Step:
    def step(w: Any, grad: Any, n: Any, g: Any, delta: Any, out: Any, s: Any, t: Any) -> None:
        grad = _with_decay(w, grad, wd, rescale_grad, clip_gradient, t, s)
        _moments(g, n, grad, gamma1, gamma1, s)
        _multiply(g, g, out=s)
        _subtract(n, s, out=s)
        _add(s, epsilon, out=s)
        _sqrt(s, out=s)
        _divide(grad, s, out=t)
        _multiply(t, lr, out=t)
        _multiply(delta, gamma2, out=delta)
        _subtract(delta, t, out=delta)
        _add(w, delta, out=out)
        _clip(out, clip_weights)

    return step


@rule("ftrl_update", scratch=3)
def ftrl(*, lr: float, lamda1: float, beta: float, wd: float, rescale_grad: float, clip_gradient: float) -> Step:
    def step(w: Any, g: Any, z: Any, n: Any, out: Any, r: Any, s: Any, t: Any) -> None:
        g = _scaled(g, rescale_grad, clip_gradient, t)
        _add(z, g, out=z)
        _sqrt(n, out=r)
        _multiply(g, g, out=s)
        _add(n, s, out=n)
        _sqrt(n, out=s)
        # s keeps sqrt(n'); z falls by (sqrt(n') - sqrt(n)) * w / lr
        _subtract(s, r, out=r)
        _multiply(r, w, out=r)
        _divide(r, lr, out=r)
        _subtract(z, r, out=z)
        _add(s, beta, out=s)
        _divide(s, lr, out=s)
        _add(s, wd, out=s)
        # sign(z) * lamda1 - z where |z| > lamda1, else 0: minus the soft threshold of z
        np.clip(z, -lamda1, lamda1, out=r)
        _subtract(r, z, out=r)
        _divide(r, s, out=out)

    return step


@rule("ftml_update", scratch=2)
def ftml(
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    t: int,
    wd: float,
    rescale_grad: float,
    clip_grad: float,
) -> Step:
    first, second = (1.0 - beta1**t) / lr, 1.0 - beta2**t

    def step(w: Any, g: Any, d: Any, v: Any, z: Any, out: Any, r: Any, s: Any) -> None:
        g = _with_decay(w, g, wd, rescale_grad, clip_grad, r, s)
        _average(v, beta2, _multiply(g, g, out=s), s)
        _average(z, beta1, g, r)
        _divide(v, second, out=s)
        _sqrt(s, out=s)
        _add(s, epsilon, out=s)
        _multiply(s, first, out=s)
        # s is the new d; z falls by (d' - beta1 * d) * w
        _multiply(d, beta1, out=d)
        _subtract(s, d, out=d)
        _multiply(d, w, out=d)
        _subtract(z, d, out=z)
        d[...] = s
        _divide(z, s, out=out)
        np.negative(out, out=out)

    return step


def lamb(
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    t: int,
    bias_correction: bool,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
) -> Step:
    """The direction of LAMB; ``out`` must not be the weight's memory if the weight is still needed."""

    def step(w: Any, g: Any, mean: Any, var: Any, out: Any, r: Any, s: Any) -> None:
        _moments(mean, var, _scaled(g, rescale_grad, clip_gradient, r), beta1, beta2, s)
        if bias_correction:
            _divide(var, 1.0 - beta2**t, out=s)
            _sqrt(s, out=s)
            _divide(mean, 1.0 - beta1**t, out=r)
        else:
            _sqrt(var, out=s)
            r[...] = mean
        _add(s, epsilon, out=s)
        _divide(r, s, out=r)
        _multiply(w, wd, out=s)
        _add(r, s, out=out)

    return step


@kernel("lamb_update_phase1", numpy=True, out=True)
def lamb_phase1(w: Any, g: Any, mean: Any, var: Any, out: Any = None, **attributes: Any) -> Any:
    return sweep(lamb(**attributes), w, (g, mean, var), out, 2)


@kernel("mp_lamb_update_phase1", numpy=True, out=True)
def mp_lamb_phase1(w: Any, g: Any, mean: Any, var: Any, w32: Any, out: Any = None, **attributes: Any) -> Any:
    step = lamb(**attributes)

    def wide(w: Any, g: Any, mean: Any, var: Any, out: Any, r: Any, s: Any, g32: Any) -> None:
        g32[...] = g
        step(w, g32, mean, var, out, r, s)

    return sweep(wide, w32, (g, mean, var), out, 3)


def trust(r1: float, r2: float, lr: float, lower_bound: float, upper_bound: float) -> float:
    """Return the rate of LAMB's second phase from the norms of weight and direction."""
    if lower_bound >= 0:
        r1 = max(r1, lower_bound)
    if upper_bound >= 0:
        r1 = min(r1, upper_bound)
    return lr if r1 == 0 or r2 == 0 else lr * r1 / r2


def step_along(lr: float) -> Step:
    def step(w: Any, g: Any, out: Any, t: Any) -> None:
        _multiply(g, lr, out=t)
        _subtract(w, t, out=out)

    return step


@kernel("lamb_update_phase2", numpy=True, out=True)
def lamb_phase2(
    w: Any, g: Any, r1: Any, r2: Any, out: Any = None, *, lr: float, lower_bound: float, upper_bound: float
) -> Any:
    rate = trust(float(r1.reshape(-1)[0]), float(r2.reshape(-1)[0]), lr, lower_bound, upper_bound)
    return sweep(step_along(rate), w, (g,), out, 1)


@kernel("mp_lamb_update_phase2", numpy=True, out=True)
def mp_lamb_phase2(
    w: Any, g: Any, r1: Any, r2: Any, w32: Any, out: Any = None, *, lr: float, lower_bound: float, upper_bound: float
) -> Any:
    rate = trust(float(r1.reshape(-1)[0]), float(r2.reshape(-1)[0]), lr, lower_bound, upper_bound)
    return mixed_sweep(step_along(rate), g, (), w32, out, 1, w.dtype)


@rule("_adagrad_update", scratch=2)
def adagrad(*, lr: float, epsilon: float, wd: float, rescale_grad: float, clip_gradient: float) -> Step:
    def step(w: Any, g: Any, history: Any, out: Any, s: Any, t: Any) -> None:
        g = _scaled(g, rescale_grad, clip_gradient, t)
        _multiply(g, g, out=s)
        _add(history, s, out=history)
        _add(history, epsilon, out=s)
        _sqrt(s, out=s)
        _divide(g, s, out=t)
        if wd:
            _multiply(w, wd, out=s)
            _add(t, s, out=t)
        _multiply(t, lr, out=t)
        _subtract(w, t, out=out)

    return step


@kernel("_contrib_group_adagrad_update", numpy=True, out=True)
def group_adagrad(
    w: Any,
    g: Any,
    history: Any,
    out: Any = None,
    *,
    lr: float,
    rescale_grad: float,
    clip_gradient: float,
    epsilon: float,
) -> Any:
    g = g * rescale_grad
    _clip(g, clip_gradient)
    rows = g.reshape(g.shape[0], -1)
    history += np.square(rows).mean(axis=1, dtype=history.dtype).reshape(history.shape)
    g *= (lr / np.sqrt(history + epsilon)).reshape((-1,) + (1,) * (g.ndim - 1))
    return _subtract(w, g, out=out)
