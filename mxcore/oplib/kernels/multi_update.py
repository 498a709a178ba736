"""Kernels on the arrays of many weights: the steps of :mod:`.update` on each, rates, resetting.

Inputs of a step are interleaved, one group of arrays for each weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..table import kernel
from .reduction import sum_of_squares
from .update import (
    Step,
    adamw,
    lamb_phase1,
    mixed_sweep,
    mp_lamb_phase1,
    sgd,
    sgd_mom,
    step_along,
    sweep,
    trust,
    usable,
)


@kernel("multi_lars")
def multi_lars(
    xp: Any, lrs: Any, weights: Any, grads: Any, wds: Any, *, eta: float, eps: float, rescale_grad: float
) -> Any:
    w = xp.sqrt(weights)
    rate = lrs * eta * w / (xp.sqrt(grads) * rescale_grad + wds * w + eps)
    return xp.where((w > 0) & (grads > 0), rate, lrs).astype(lrs.dtype)


@kernel("reset_arrays", numpy=True)
def reset_arrays(*arrays: Any, num_arrays: int) -> Any:
    for a in arrays:
        a[...] = 0
    return np.zeros(1, np.float32)


def _many(
    factory: Callable[..., Step],
    scratch: int,
    arrays: Sequence[Any],
    each: Sequence[dict[str, Any]],
    mixed: bool,
    shared: Any,
) -> Any:
    per = len(arrays) // len(each)
    outs = []
    for i, own in enumerate(each):
        w, g, *states = arrays[i * per : (i + 1) * per]
        step = factory(**own, **shared)
        if mixed:
            outs.append(mixed_sweep(step, g, states[:-1], states[-1], None, scratch, w.dtype))
        else:
            outs.append(sweep(step, w, (g, *states), None, scratch))
    return tuple(outs) if len(outs) > 1 else outs[0]


def _rates(lrs: Sequence[float], wds: Sequence[float]) -> list[dict[str, Any]]:
    return [{"lr": float(lr), "wd": float(wd)} for lr, wd in zip(lrs, wds)]


def _multi_sgd(factory: Callable[..., Step], mixed: bool) -> Callable[..., Any]:
    def run(*arrays: Any, lrs: Any, wds: Any, num_weights: int, **shared: Any) -> Any:
        return _many(factory, 1, arrays, _rates(lrs, wds), mixed, shared)

    return run


def _preloaded(factory: Callable[..., Step], mixed: bool) -> Callable[..., Any]:
    def run(*arrays: Any, num_weights: int, **shared: Any) -> Any:
        *arrays_, lrs, wds = arrays
        return _many(factory, 1, arrays_, _rates(lrs.tolist(), wds.tolist()), mixed, shared)

    return run


for _factory, _name in ((sgd, "sgd"), (sgd_mom, "sgd_mom")):
    for _is_mixed, _prefix in ((False, ""), (True, "mp_")):
        kernel(f"multi_{_prefix}{_name}_update", numpy=True)(_multi_sgd(_factory, _is_mixed))
        kernel(f"preloaded_multi_{_prefix}{_name}_update", numpy=True)(_preloaded(_factory, _is_mixed))


def _multi_adamw(mixed: bool) -> Callable[..., Any]:
    def run(*arrays: Any, lrs: Any, wds: Any, etas: Any, num_weights: int, **shared: Any) -> Any:
        *arrays_, rescale_grad = arrays
        scale = float(rescale_grad.reshape(-1)[0])
        if not usable(scale):
            kept = tuple(np.array(w, order="C") for w in arrays_[:: len(arrays_) // num_weights])
            return kept if num_weights > 1 else kept[0]
        each = [{**r, "eta": eta} for r, eta in zip(_rates(lrs, wds), etas)]
        return _many(adamw, 2, arrays_, each, mixed, {"rescale_grad": scale, **shared})

    return run


kernel("_multi_adamw_update", numpy=True)(_multi_adamw(False))
kernel("_multi_mp_adamw_update", numpy=True)(_multi_adamw(True))


def _norm(x: Any) -> float:
    return float(np.sqrt(sum_of_squares(np, x, tuple(range(x.ndim)), False)))


def _multi_lamb(mixed: bool) -> Callable[..., Any]:
    def run(
        *arrays: Any,
        learning_rates: Any,
        wds: Any,
        step_count: Any,
        lower_bound: float,
        upper_bound: float,
        num_tensors: int,
        **shared: Any,
    ) -> Any:
        per = len(arrays) // num_tensors
        outs = []
        for i in range(num_tensors):
            w, g, mean, var, *master = arrays[i * per : (i + 1) * per]
            attributes = {"t": step_count[i], "wd": wds[i], **shared}
            source = master[0] if mixed else w
            if mixed:
                direction = mp_lamb_phase1(w, g, mean, var, source, **attributes)
            else:
                direction = lamb_phase1(w, g, mean, var, **attributes)
            rate = trust(_norm(source), _norm(direction), learning_rates[i], lower_bound, upper_bound)
            if mixed:
                outs.append(mixed_sweep(step_along(rate), direction, (), source, None, 1, w.dtype))
            else:
                outs.append(sweep(step_along(rate), w, (direction,), None, 1))
        return tuple(outs) if num_tensors > 1 else outs[0]

    return run


kernel("_multi_lamb_update", numpy=True)(_multi_lamb(False))
kernel("_multi_mp_lamb_update", numpy=True)(_multi_lamb(True))
