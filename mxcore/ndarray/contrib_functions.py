"""Functions of ``mx.nd.contrib`` that are more than one operator: AdamW and LAMB on lists, sampling for sampled softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..dispatch.functions import call
from .creation import full
from .ndarray import NDArray
from .random import uniform

__all__ = [
    "adamw_update",
    "mp_adamw_update",
    "multi_adamw_update",
    "multi_lamb_update",
    "multi_mp_adamw_update",
    "multi_mp_lamb_update",
    "rand_zipfian",
]


def _scale(rescale_grad: Any, weight: NDArray) -> NDArray:
    """Return ``rescale_grad`` as an array on the device of ``weight``."""
    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(weight.context)
    return full((1,), rescale_grad, ctx=weight.context)


def _step(name: str, arrays: Sequence[Any], out: Any, kwargs: dict[str, Any]) -> Any:
    kwargs.pop("name", None)
    return call(name, arrays, kwargs, out, cls=NDArray)


def adamw_update(
    weight: NDArray, grad: NDArray, mean: NDArray, var: NDArray, rescale_grad: Any, lr: float, eta: float, **kwargs: Any
) -> NDArray:
    """Do one step of AdamW.

    Parameters
    ----------
    weight, grad, mean, var : NDArray
        The averages are changed in place, the weight with ``out=weight``.
    rescale_grad : float or NDArray
        Factor on the gradient; with 0, an infinity or no number nothing changes.
    lr, eta : float
        Learning rate, and factor on the whole step.
    **kwargs
        ``beta1``, ``beta2``, ``epsilon``, ``wd``, ``clip_gradient``, ``out``.

    Returns
    -------
    NDArray
        The new weight.

    Examples
    --------
    >>> import mxcore as mx
    >>> from mxcore.ndarray.contrib_functions import adamw_update
    >>> w, zero = mx.nd.ones((1,)), mx.nd.zeros((1,))
    >>> adamw_update(w, zero, zero, zero.copy(), 1.0, lr=0.1, eta=1, wd=0.25).asnumpy().tolist()
    [0.75]
    """
    out = kwargs.pop("out", None)
    arrays = (weight, grad, mean, var, _scale(rescale_grad, weight))
    return _step("_adamw_update", arrays, out, {"lr": lr, "eta": eta, **kwargs})


def mp_adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    weight32: NDArray,
    rescale_grad: Any,
    lr: float,
    eta: float,
    **kwargs: Any,
) -> NDArray:
    """Like :func:`adamw_update`, on the float32 master copy ``weight32``."""
    out = kwargs.pop("out", None)
    arrays = (weight, grad, mean, var, weight32, _scale(rescale_grad, weight))
    return _step("_mp_adamw_update", arrays, out, {"lr": lr, "eta": eta, **kwargs})


def _interleaved(*lists: Sequence[NDArray]) -> list[NDArray]:
    return [x for group in zip(*lists) for x in group]


def multi_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: Any = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """Do :func:`adamw_update` on lists of ``size`` weights, all of them by default."""
    arrays = [*_interleaved(weights, grads, mean, var), _scale(rescale_grad, weights[0])]
    kwargs.update(lrs=tuple(lrs), wds=tuple(wds), etas=tuple(etas), num_weights=size or len(weights))
    return _step("_multi_adamw_update", arrays, out, kwargs)


def multi_mp_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: Any = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """Do :func:`mp_adamw_update` on lists of ``size`` weights, all of them by default."""
    arrays = [*_interleaved(weights, grads, mean, var, weights32), _scale(rescale_grad, weights[0])]
    kwargs.update(lrs=tuple(lrs), wds=tuple(wds), etas=tuple(etas), num_weights=size or len(weights))
    return _step("_multi_mp_adamw_update", arrays, out, kwargs)


def multi_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """Do one step of LAMB on lists of weights, whose numbers of updates so far ``step_count`` holds."""
    kwargs.update(learning_rates=tuple(lrs), wds=tuple(wds), step_count=tuple(step_count))
    kwargs["num_tensors"] = num_tensors or len(weights)
    return _step("_multi_lamb_update", _interleaved(weights, grads, mean, var), out, kwargs)


def multi_mp_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """Like :func:`multi_lamb_update`, on the float32 master copies ``weights32``."""
    kwargs.update(learning_rates=tuple(lrs), wds=tuple(wds), step_count=tuple(step_count))
    kwargs["num_tensors"] = num_tensors or len(weights)
    return _step("_multi_mp_lamb_update", _interleaved(weights, grads, mean, var, weights32), out, kwargs)


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Any = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Draw classes, frequent (small) ones more often: ``P(i) = ln((i + 2) / (i + 1)) / ln(range_max + 1)``.

    Parameters
    ----------
    true_classes : NDArray
        (N,), whose expected counts are wanted too.
    num_sampled : int
    range_max : int
        Classes are below it.
    ctx : Context
        Device, that of ``true_classes`` by default.

    Returns
    -------
    tuple of NDArray
        Classes (num_sampled,), int64; expected counts of ``true_classes`` and of the classes drawn, float64.

    Examples
    --------
    >>> import mxcore as mx
    >>> from mxcore.ndarray.contrib_functions import rand_zipfian
    >>> [x.shape for x in rand_zipfian(mx.nd.array([3]), 4, 5)]
    [(4,), (1,), (4,)]
    """
    ctx = ctx or true_classes.context
    log_range = math.log(range_max + 1)
    drawn: Any = uniform(0, log_range, shape=(num_sampled,), dtype="float64", ctx=ctx)
    classes = (drawn.exp() - 1).astype("int64") % range_max

    def expected(x: Any) -> NDArray:
        x = x.as_in_context(ctx).astype("float64")
        return ((x + 2.0) / (x + 1.0)).log() * (num_sampled / log_range)

    return classes, expected(true_classes), expected(classes)
