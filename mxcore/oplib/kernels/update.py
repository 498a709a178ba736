"""Kernels of optimizer steps.

A step reads and writes several arrays of one size a few times over. It therefore runs piece by piece, each small
enough to stay in the cache with its temporaries, so that a step over large arrays costs about one pass over memory.
``out`` may be the weight itself; without ``out`` a new array is made. States are written in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..table import kernel
from ..workspace import borrow

#: Elements in a piece: some eight float32 arrays of this size fit a 1 MiB second-level cache.
PIECE = 16384

_multiply, _add, _subtract, _divide = np.multiply, np.add, np.subtract, np.divide


def sweep(
    step: Callable[..., None],
    weight: Any,
    others: Sequence[Any],
    out: Any,
    temporaries: int,
    *,
    dtype: Any = None,
    out_dtype: Any = None,
) -> Any:
    """Run ``step(weight, *others, out, *temporaries)`` piece by piece and return ``out``.

    Parameters
    ----------
    step : callable
        Works on pieces; writes the result to ``out`` and states in place. ``out`` may be ``weight``.
    weight : array
    others : sequence of array
        Of the size of ``weight``.
    out : array or None
        None makes a new one.
    temporaries : int
        How many scratch arrays ``step`` gets.
    dtype : dtype, optional
        Dtype of the scratch arrays, that of ``weight`` by default.
    out_dtype : dtype, optional
        Dtype of a new ``out``, that of ``weight`` by default.
    """
    if out is None:
        out = np.empty(weight.shape, out_dtype or weight.dtype)
    dtype = dtype or weight.dtype
    arrays = (weight, *others, out)
    size = weight.size
    if not all(a.flags.c_contiguous for a in arrays):
        # Pieces of flat views would be copies.
        step(*arrays, *(np.empty(weight.shape, dtype) for _ in range(temporaries)))
        return out
    with borrow("update", (temporaries, min(size, PIECE)), dtype) as scratch:
        if size <= PIECE:
            step(*[a.reshape(-1) for a in arrays], *scratch)
            return out
        flat = [a.reshape(-1) for a in arrays]
        for start in range(0, size, PIECE):
            stop = min(start + PIECE, size)
            step(*[a[start:stop] for a in flat], *scratch[:, : stop - start])
    return out


def _clip(x: Any, bound: float) -> None:
    """Limit ``x`` in place; a negative bound means none."""
    if bound >= 0:
        np.maximum(x, -bound, out=x)
        np.minimum(x, bound, out=x)


def _scaled(grad: Any, rescale_grad: float, clip_gradient: float, t: Any) -> Any:
    """Return the rescaled, clipped gradient: in ``t``, or ``grad`` itself where nothing is to be done."""
    if rescale_grad == 1 and clip_gradient < 0 and grad.dtype == t.dtype:
        return grad
    _multiply(grad, rescale_grad, out=t, casting="same_kind")
    _clip(t, clip_gradient)
    return t


def _with_decay(grad: Any, weight: Any, rescale_grad: float, wd: float, clip_gradient: float, t: Any, s: Any) -> Any:
    """Return ``clip(rescale_grad * grad + wd * weight)``, in ``t`` or as ``grad`` itself; ``s`` is scratch."""
    if wd:
        _multiply(grad, rescale_grad, out=t)
        _multiply(weight, wd, out=s)
        _add(t, s, out=t)
        _clip(t, clip_gradient)
        return t
    return _scaled(grad, rescale_grad, clip_gradient, t)


def _decayed(state: Any, beta: float, g: Any, t: Any) -> None:
    """``state = beta * state + (1 - beta) * g`` in place; ``t`` is scratch and may be ``g``."""
    _multiply(state, beta, out=state)
    _multiply(g, 1.0 - beta, out=t)
    _add(state, t, out=state)


# ---------------------------------------------------------------------------------------------------------------
# SGD


def _sgd(lr: float, wd: float, rescale_grad: float, clip_gradient: float) -> Callable[..., None]:
    def step(w: Any, g: Any, out: Any, t: Any) -> None:
        if clip_gradient >= 0:
            _multiply(_scaled(g, rescale_grad, clip_gradient, t), lr, out=t)
        else:
            _multiply(g, lr * rescale_grad, out=t)
        if wd:
            _multiply(w, 1.0 - lr * wd, out=out)
            _subtract(out, t, out=out)
        else:
            _subtract(w, t, out=out)

    return step


@kernel("sgd_update", numpy=True, out=True)
def sgd(w: Any, g: Any, out: Any = None, *, lr: float, wd: float, rescale_grad: float, clip_gradient: float, **_: Any) -> Any:
    return sweep(_sgd(lr, wd, rescale_grad, clip_gradient), w, (g,), out, 1)


def _momentum(mom: Any, w: Any, g: Any, lr: float, momentum: float, wd: float, rescale_grad: float, clip: float, t: Any) -> None:
    """``mom = momentum * mom - lr * wd * w - lr * clip(rescale_grad * g)`` in place."""
    if momentum:
        _multiply(mom, momentum, out=mom)
    else:
        mom[...] = 0
    if clip >= 0:
        _multiply(_scaled(g, rescale_grad, clip, t), lr, out=t)
    else:
        _multiply(g, lr * rescale_grad, out=t)
    _subtract(mom, t, out=mom)
    if wd:
        _multiply(w, lr * wd, out=t)
        _subtract(mom, t, out=mom)


@kernel("sgd_mom_update", numpy=True, out=True)
def sgd_mom(
    w: Any,
    g: Any,
    mom: Any,
    out: Any = None,
    *,
    lr: float,
    momentum: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    **_: Any,
) -> Any:
    def step(w: Any, g: Any, m: Any, out: Any, t: Any) -> None:
        _momentum(m, w, g, lr, momentum, wd, rescale_grad, clip_gradient, t)
        _add(w, m, out=out)

    return sweep(step, w, (g, mom), out, 1)


def _mixed(step: Callable[..., None]) -> Callable[..., None]:
    """Make of ``step(weight32, grad32, *states, out, *scratch)`` one on a half precision weight and gradient.

    The master copy is the weight that ``step`` reads and writes; the last scratch array holds the gradient.
    """

    def mixed(w32: Any, g: Any, *rest: Any) -> None:
        *states, out, scratch = rest[:-1] if isinstance(rest[-1], list) else rest, None
        raise NotImplementedError

    return mixed


def mixed_sweep(
    step: Callable[..., None], g: Any, states: Sequence[Any], w32: Any, out: Any, temporaries: int, dtype: Any
) -> Any:
    """Like :func:`sweep` for a weight of low precision with the float32 master copy ``w32``.

    ``step`` runs on the master copy, which it overwrites, and on the gradient in float32; ``out`` gets the result.
    """
    count = len(states)

    def mixed(w: Any, g: Any, *rest: Any) -> None:
        states, out, g32, scratch = rest[:count], rest[count], rest[count + 1], rest[count + 2 :]
        if g.dtype != w.dtype:
            g32[...] = g
            g = g32
        step(w, g, *states, w, *scratch)
        out[...] = w

    return sweep(mixed, w32, (g, *states), out, temporaries + 1, out_dtype=dtype)


@kernel("mp_sgd_update", numpy=True, out=True)
def mp_sgd(
    w: Any, g: Any, w32: Any, out: Any = None, *, lr: float, wd: float, rescale_grad: float, clip_gradient: float, **_: Any
) -> Any:
    return mixed_sweep(_sgd(lr, wd, rescale_grad, clip_gradient), g, (), w32, out, 1, w.dtype)


@kernel("mp_sgd_mom_update", numpy=True, out=True)
def mp_sgd_mom(
    w: Any,
    g: Any,
    mom: Any,
    w32: Any,
    out: Any = None,
    *,
    lr: float,
    momentum: float,
    wd: float,
    rescale_grad: float,
    clip_gradient: float,
    **_: Any,
) -> Any:
    def step(w: Any, g: Any, m: Any, out: Any, t: Any) -> None:
        _momentum(m, w, g, lr, momentum, wd, rescale_grad, clip_gradient, t)
        _add(w, m, out=out)

    return mixed_sweep(step, g, (mom,), w32, out, 1, w.dtype)
