"""Stochastic gradient descent and its relatives: SGD, NAG, Signum, SGLD, DCASGD."""

from __future__ import annotations

import math
from typing import Any

from .. import ndarray as nd
from .. import random
from ._base import Optimizer, aggregation_size, float16, register, zeros_state


class MomentumOptimizer(Optimizer):
    """Shared part of the optimizers whose state is one momentum array, or nothing without momentum.

    A float16 weight under ``multi_precision`` has the state ``(momentum, float32 weight)``.
    """

    momentum: float
    lazy_update = False

    def create_state(self, index: Any, weight: Any) -> Any:
        return None if self.momentum == 0.0 else zeros_state(weight, self.lazy_update)

    def _with_master(self, master: Any, state: Any) -> tuple[Any, Any]:
        return (state, master)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._update_group(index, weight, grad, state, False)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        first = weight[0] if isinstance(index, (tuple, list)) else weight
        self._update_group(index, weight, grad, state, self.multi_precision and first.dtype == float16)

    def _update_group(self, index: Any, weight: Any, grad: Any, state: Any, mixed: bool) -> None:
        """Update one parameter or lists of them; rates are looked up once for all."""
        if not isinstance(index, (tuple, list)):
            index, weight, grad, state = (index,), (weight,), (grad,), (state,)
        self._update_count(index)
        lrs, wds = self._get_lrs(index), self._get_wds(index)
        step = self._update_one
        for i, w, g, s, lr, wd in zip(index, weight, grad, state, lrs, wds):
            step(i, w, g, s, mixed, lr, wd)

    def _update_one(self, index: Any, weight: Any, grad: Any, state: Any, mixed: bool, lr: float, wd: float) -> None:
        raise NotImplementedError


def sgd_step(
    weight: Any, grad: Any, state: Any, mixed: bool, momentum: float, lr: float, wd: float, **kwargs: Any
) -> None:
    """Apply one SGD step with the operator that fits the state."""
    if mixed:
        mom, master = state
        if mom is None:
            nd.mp_sgd_update(weight, grad, master, out=weight, lr=lr, wd=wd, **kwargs)
        else:
            nd.mp_sgd_mom_update(weight, grad, mom, master, out=weight, lr=lr, momentum=momentum, wd=wd, **kwargs)
    elif state is None:
        nd.sgd_update(weight, grad, out=weight, lr=lr, wd=wd, **kwargs)
    else:
        nd.sgd_mom_update(weight, grad, state, out=weight, lr=lr, momentum=momentum, wd=wd, **kwargs)


@register
class SGD(MomentumOptimizer):
    """Stochastic gradient descent with momentum and weight decay.

    With ``g = clip(rescale_grad * grad)``::

        m = momentum * m - lr * (g + wd * w)
        w = w + m

    Parameters
    ----------
    momentum : float
        0 keeps no state.
    lazy_update : bool
        Sparse gradients update only the rows they hold.
    **kwargs
        See :class:`Optimizer`.

    Examples
    --------
    >>> import mxcore as mx
    >>> sgd = SGD(learning_rate=0.1)
    >>> weight = mx.nd.ones((2,))
    >>> sgd.update(0, weight, mx.nd.ones((2,)), sgd.create_state(0, weight))
    >>> weight.asnumpy().round(3).tolist()
    [0.8999999761581421, 0.8999999761581421]
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        self.aggregate_num = aggregation_size(4)

    def _update_one(self, index: Any, weight: Any, grad: Any, state: Any, mixed: bool, lr: float, wd: float) -> None:
        momentum = self.momentum if self.momentum > 0 else 0.0
        if self.lazy_update or mixed:  # the operators' default
            sgd_step(
                weight, grad, state, mixed, momentum, lr, wd, rescale_grad=self.rescale_grad, clip_gradient=self._clip
            )
        else:
            sgd_step(
                weight,
                grad,
                state,
                mixed,
                momentum,
                lr,
                wd,
                rescale_grad=self.rescale_grad,
                clip_gradient=self._clip,
                lazy_update=False,
            )


@register
class ccSGD(SGD):
    """[Deprecated] The same as :class:`SGD`."""


@register
class NAG(MomentumOptimizer):
    """Nesterov's accelerated gradient.

    With ``g = clip(rescale_grad * grad) + wd * w``::

        m = momentum * m - lr * g
        w = w + momentum * m - lr * g

    Parameters
    ----------
    momentum : float
        0 makes this plain SGD.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def _update_one(self, index: Any, weight: Any, grad: Any, state: Any, mixed: bool, lr: float, wd: float) -> None:
        momentum = self.momentum if self.momentum > 0 else 0.0
        rescale, clip = self.rescale_grad, self._clip
        if not mixed and state is not None:
            nd.nag_mom_update(
                weight,
                grad,
                state,
                out=weight,
                lr=lr,
                momentum=momentum,
                wd=wd,
                rescale_grad=rescale,
                clip_gradient=clip,
            )
        elif mixed and state[0] is not None:
            nd.mp_nag_mom_update(
                weight,
                grad,
                state[0],
                state[1],
                out=weight,
                lr=lr,
                momentum=momentum,
                wd=wd,
                rescale_grad=rescale,
                clip_gradient=clip,
            )
        else:
            sgd_step(weight, grad, state, mixed, 0.0, lr, wd, rescale_grad=rescale, clip_gradient=clip)


@register
class Signum(Optimizer):
    """Step by the sign of the momentum (https://arxiv.org/abs/1802.04434), of the gradient without momentum.

    With ``g = clip(rescale_grad * grad) + wd * w``::

        m = momentum * m - (1 - momentum) * g
        w = (1 - lr * wd_lh) * w + lr * sign(m)

    Parameters
    ----------
    learning_rate : float
        Step size.
    momentum : float
        0 keeps no state (signSGD).
    wd_lh : float
        Decoupled weight decay after Loshchilov and Hutter.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def create_state(self, index: Any, weight: Any) -> Any:
        return None if self.momentum == 0.0 else zeros_state(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        common = {"lr": lr, "wd": wd, "rescale_grad": self.rescale_grad, "clip_gradient": self._clip}
        if state is None:
            nd.signsgd_update(weight, grad, out=weight, **common)
        else:
            momentum = self.momentum if self.momentum > 0 else 0.0
            nd.signum_update(weight, grad, state, out=weight, momentum=momentum, wd_lh=self.wd_lh, **common)


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a gradient step and normal noise of variance ``lr``.

    Parameters
    ----------
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def create_state(self, index: Any, weight: Any) -> Any:
        return None

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        grad = self._clipped(grad * self.rescale_grad)
        weight += -lr / 2 * (grad + wd * weight)
        weight += random.normal(0, math.sqrt(lr), shape=weight.shape, dtype=weight.dtype, ctx=weight.context)


@register
class DCASGD(Optimizer):
    """Asynchronous SGD that compensates for the delay of gradients (https://arxiv.org/abs/1609.08326).

    Parameters
    ----------
    momentum : float
        As for :class:`SGD`.
    lamda : float
        Strength of the compensation.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.weight_previous: dict[Any, Any] = {}
        self.lamda = lamda

    def create_state(self, index: Any, weight: Any) -> Any:
        return (None if self.momentum == 0.0 else zeros_state(weight, False), weight.copy())

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        grad = self._clipped(grad * self.rescale_grad)
        mom, previous = state
        step = -lr * (grad + wd * weight + self.lamda * grad * grad * (weight - previous))
        if mom is not None:
            mom *= self.momentum
            mom += step
            step = mom
        previous[:] = weight
        weight += step
