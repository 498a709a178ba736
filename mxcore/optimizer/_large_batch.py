"""Optimizers for large batches, which scale the step of each layer: LARS, LBSGD, LAMB."""

from __future__ import annotations

import logging
import math
from typing import Any

from .. import ndarray as nd
from ._base import Optimizer, aggregation_size, float16, register, zeros_state
from ._momentum import MomentumOptimizer, sgd_step


@register
class LARS(MomentumOptimizer):
    """SGD whose rate in each layer is scaled by ``eta * |w| / (|g| + wd * |w| + eps)`` (https://arxiv.org/abs/1708.03888).

    Parameters whose names end in ``gamma``, ``beta`` or ``bias`` are not scaled.

    Parameters
    ----------
    momentum : float
        As for :class:`SGD`.
    lazy_update : bool
        As for :class:`SGD`.
    eta, eps : float
        See the formula.
    momentum_correction : bool
        Multiply the momentum by the change of the learning rate.
    **kwargs
        See :class:`Optimizer`.
    """

    _decaying = ("_weight",)

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.momentum_correction = momentum_correction
        self.lazy_update = lazy_update
        self.aggregate_num = aggregation_size(4)
        self.eta = eta
        self.eps = eps
        self.skip = 0
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def _get_lrs(self, indices: Any) -> list[float]:
        lr = self.learning_rate
        self.last_lr = lr if self.cur_lr is None else self.cur_lr
        self.cur_lr = lr
        return super()._get_lrs(indices)

    def _update_one(self, index: Any, weight: Any, grad: Any, state: Any, mixed: bool, lr: float, wd: float) -> None:
        momentum = self.momentum if self.momentum > 0 else 0.0
        if self.momentum_correction and self.last_lr:
            # Rates are looked up once for a whole group: the correction compares with the group before.
            assert self.cur_lr is not None
            momentum *= self.cur_lr / self.last_lr
        lr = self._get_lars(index, weight, grad, lr, wd)
        sgd_step(weight, grad, state, mixed, momentum, lr, wd, rescale_grad=self.rescale_grad, clip_gradient=self._clip)

    def _l2norm(self, array: Any, rescale: bool = False) -> float:
        array = array.astype("float32")
        return float(nd.norm(array * self.rescale_grad if rescale else array).asscalar())

    def _get_lars(self, i: Any, weight: Any, g: Any, lr: float, wd: float) -> float:
        """Return the scaled rate of parameter `i`; blocks until its norms are known."""
        name = self.idx2name.get(i, str(i))
        if name.endswith(("gamma", "beta", "bias")):
            return lr
        w_norm = self._l2norm(weight)
        g_norm = self._l2norm(g, rescale=True)
        if w_norm > 0.0 and g_norm > 0.0:
            lr *= self.eta * w_norm / (g_norm + wd * w_norm + self.eps)
        return lr


@register
class LBSGD(Optimizer):
    """SGD for large batches: a warm-up of the learning rate, and gradients summed over `batch_scale` updates.

    Parameters
    ----------
    momentum : float
        As for :class:`SGD`.
    multi_precision : bool
        See :class:`Optimizer`.
    warmup_strategy : {'linear', 'power2', 'sqrt', 'lars'}
        How the rate grows to ``batch_scale`` times itself; 'lars' scales it by the norms of weight and gradient.
    warmup_epochs, updates_per_epoch, begin_epoch : int
        Length of the warm-up and where training starts.
    batch_scale : int
        Number of updates whose gradients make one step.
    num_epochs : int
        Kept for MXNet's interface.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        logging.info(
            "LBSGD: batch_scale=%f, warmup_epochs=%d, warmup_strategy=%s, updates_per_epoch=%d",
            batch_scale,
            warmup_epochs,
            warmup_strategy,
            updates_per_epoch,
        )
        self.momentum = momentum
        self.multi_precision = multi_precision
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.lbmult = 1
        self.cumgrads: dict[Any, dict[str, Any]] = {}
        self.adaptive = False
        self.admult = 1

    def create_state(self, index: Any, weight: Any) -> Any:
        return None if self.momentum == 0.0 else zeros_state(weight)

    def _get_lbmult(self, nup: int) -> float:
        """Return the factor on the learning rate after `nup` updates."""
        length = self.warmup_epochs * self.updates_per_epoch
        largest = float(self.batch_scale)
        if nup >= length:
            return largest
        if length <= 1:
            return 1.0
        progress = nup / length
        shapes = {"linear": progress, "power2": progress * progress, "sqrt": math.sqrt(progress)}
        return 1.0 + (largest - 1) * shapes.get(self.warmup_strategy, 0.0)

    def _get_lars(self, weight: Any, g: Any, wd: float) -> float:
        w2, g2 = (float(nd.sum(a * a).asscalar()) for a in (weight, g))
        return min(max(math.sqrt(w2 / (g2 + wd * w2 + 1e-18)), 0.01), 100)

    def _cumulate_gradient(self, grad: Any, index: Any) -> dict[str, Any]:
        known = self.cumgrads.get(index)
        if known is None or known["num_cums"] <= 0:
            # A copy: the gradient's buffer is filled anew by the next backward.
            total, count = (grad.copy() if self.batch_scale > 1 else grad), self.init_updates + 1
        else:
            total, count = known["cum_grad"] + grad, known["num_cums"] + 1
        self.cumgrads[index] = {"cum_grad": total, "num_cums": count}
        return self.cumgrads[index]

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        summed = self._cumulate_gradient(grad, index)
        if summed["num_cums"] % self.batch_scale:
            return
        grad = summed["cum_grad"] / self.batch_scale
        if self.warmup_strategy == "lars":
            lr *= self._get_lars(weight, grad, wd)
        else:
            lr *= self._get_lbmult(summed["num_cums"])
        momentum = self.momentum if self.momentum > 0 else 0.0
        sgd_step(weight, grad, state, False, momentum, lr, wd, rescale_grad=self.rescale_grad, clip_gradient=self._clip)
        summed["cum_grad"] = 0


@register
class LAMB(Optimizer):
    """Adam whose step in each layer is scaled by the norms of weight and step (https://arxiv.org/abs/1904.00962).

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon : float
        As for :class:`Adam`.
    lower_bound, upper_bound : float, optional
        Bounds of the weight's norm.
    bias_correction : bool
        Correct the moments for their start at zero.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction
        self.aggregate_num = max(1, min(45, aggregation_size(45)))

    def create_state(self, index: Any, weight: Any) -> Any:
        return (zeros_state(weight), zeros_state(weight))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._update_group(index, weight, grad, state, False)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        first = weight[0] if isinstance(index, (tuple, list)) else weight
        self._update_group(index, weight, grad, state, self.multi_precision and first.dtype == float16)

    def _update_group(self, index: Any, weight: Any, grad: Any, state: Any, mixed: bool) -> None:
        if isinstance(index, (tuple, list)):
            for item in zip(index, weight, grad, state):
                self._update_one(*item, mixed)
        else:
            self._update_one(index, weight, grad, state, mixed)

    def _update_one(self, index: Any, weight: Any, grad: Any, state: Any, mixed: bool) -> None:
        lr, wd = self._begin(index)
        moments = {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "t": self._index_update_count[index],
            "bias_correction": self.bias_correction,
            "wd": wd,
            "rescale_grad": self.rescale_grad,
            "clip_gradient": self._clip,
        }
        bounds = {"lower_bound": self.lower_bound or -1.0, "upper_bound": self.upper_bound or -1.0}
        if mixed:
            master, (mean, var) = state
            step = nd.mp_lamb_update_phase1(weight, grad, mean, var, master, **moments)
            # Not mp_lamb_update_phase2: MXNet's leaves the master copy as it was, so that steps do not add up.
            nd.lamb_update_phase2(master, step, nd.norm(master), nd.norm(step), out=master, lr=lr, **bounds)
            nd.cast(master, dtype=weight.dtype, out=weight)
        else:
            mean, var = state
            step = nd.lamb_update_phase1(weight, grad, mean, var, **moments)
            nd.lamb_update_phase2(weight, step, nd.norm(weight), nd.norm(step), out=weight, lr=lr, **bounds)
