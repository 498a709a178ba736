"""Optimizers that scale each element's step by its past gradients: Adam and its relatives."""

from __future__ import annotations

import math
from typing import Any

from .. import ndarray as nd
from ._base import Optimizer, register, zeros_state


@register
class Adam(Optimizer):
    """Adam (https://arxiv.org/abs/1412.6980).

    With ``g = clip(rescale_grad * grad + wd * w)`` and update number ``t``::

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        w = w - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon : float
        See the formula.
    lazy_update : bool
        Sparse gradients update only the rows they hold.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def create_state(self, index: Any, weight: Any) -> Any:
        return (zeros_state(weight, self.lazy_update), zeros_state(weight, self.lazy_update))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        t = self._index_update_count[index]
        lr *= math.sqrt(1.0 - self.beta2**t) / (1.0 - self.beta1**t)
        mean, var = state
        lazy = {} if self.lazy_update else {"lazy_update": False}
        nd.adam_update(
            weight,
            grad,
            mean,
            var,
            out=weight,
            lr=lr,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            wd=wd,
            rescale_grad=self.rescale_grad,
            clip_gradient=self._clip,
            **lazy,
        )


@register
class AdaGrad(Optimizer):
    """AdaGrad (Duchi et al., 2011).

    With ``g = clip(rescale_grad * grad)``::

        h = h + g^2
        w = w - lr * (g / sqrt(h + eps) + wd * w)

    Parameters
    ----------
    eps : float
        See the formula.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: Any) -> Any:
        return zeros_state(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        if grad.stype == "row_sparse":
            nd.sparse.adagrad_update(
                weight,
                grad,
                state,
                out=weight,
                lr=lr,
                wd=wd,
                epsilon=self.float_stable_eps,
                rescale_grad=self.rescale_grad,
                clip_gradient=self._clip,
            )
            return
        grad = self._clipped(self._rescaled(grad))
        state += nd.square(grad)
        step = grad / nd.sqrt(state + self.float_stable_eps)
        if wd:
            step = step + weight * wd
        weight += step * -lr


@register
class RMSProp(Optimizer):
    """RMSProp after Tieleman and Hinton, or after Graves (https://arxiv.org/abs/1308.0850) if `centered`.

    With ``g = clip(rescale_grad * grad + wd * w)``::

        n = gamma1 * n + (1 - gamma1) * g^2
        w = w - lr * g / sqrt(n + epsilon)

    and centered::

        m = gamma1 * m + (1 - gamma1) * g
        d = gamma2 * d - lr * g / sqrt(n - m^2 + epsilon)
        w = w + d

    Parameters
    ----------
    learning_rate, gamma1, gamma2, epsilon : float
        See the formulas.
    centered : bool
        Which of the two.
    clip_weights : float, optional
        Bound of each weight after the step.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.centered = centered
        self.epsilon = epsilon
        self.clip_weights = clip_weights

    def create_state(self, index: Any, weight: Any) -> Any:
        return tuple(zeros_state(weight) for _ in range(3 if self.centered else 1))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        common = {
            "lr": lr,
            "gamma1": self.gamma1,
            "epsilon": self.epsilon,
            "wd": wd,
            "rescale_grad": self.rescale_grad,
            "clip_gradient": self._clip,
            "clip_weights": self.clip_weights or -1.0,
        }
        if self.centered:
            n, g, delta = state
            nd.rmspropalex_update(weight, grad, n, g, delta, out=weight, gamma2=self.gamma2, **common)
        else:
            nd.rmsprop_update(weight, grad, state[0], out=weight, **common)


@register
class AdaDelta(Optimizer):
    """AdaDelta (https://arxiv.org/abs/1212.5701); it has no learning rate.

    With ``g = clip(rescale_grad * grad)``::

        a = rho * a + (1 - rho) * g^2
        s = sqrt(d + epsilon) / sqrt(a + epsilon) * g
        d = rho * d + (1 - rho) * s^2
        w = w - s - wd * w

    Parameters
    ----------
    rho, epsilon : float
        See the formula.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: Any) -> Any:
        return (zeros_state(weight, False), zeros_state(weight, False))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        _, wd = self._begin(index)
        grad = self._clipped(self._rescaled(grad))
        squares, deltas = state
        squares *= self.rho
        squares += (1.0 - self.rho) * grad * grad
        step = nd.sqrt(deltas + self.epsilon) / nd.sqrt(squares + self.epsilon) * grad
        deltas *= self.rho
        deltas += (1.0 - self.rho) * step * step
        weight -= step + wd * weight


@register
class Ftrl(Optimizer):
    """Follow the regularized leader, proximal (McMahan et al., 2013).

    With ``g = clip(rescale_grad * grad)``::

        z = z + g - (sqrt(n + g^2) - sqrt(n)) * w / lr
        n = n + g^2
        w = (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd)   where |z| > lamda1, else 0

    Parameters
    ----------
    lamda1 : float
        L1 regularization.
    learning_rate, beta : float
        See the formula.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lamda1 = lamda1
        self.beta = beta
        self.lr = learning_rate

    def create_state(self, index: Any, weight: Any) -> Any:
        return (zeros_state(weight), zeros_state(weight))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        z, n = state
        nd.ftrl_update(
            weight,
            grad,
            z,
            n,
            out=weight,
            lr=lr,
            lamda1=self.lamda1,
            beta=self.beta,
            wd=wd,
            rescale_grad=self.rescale_grad,
            clip_gradient=self._clip,
        )


@register
class FTML(Optimizer):
    """Follow the moving leader (Zheng and Kwok, 2017).

    Parameters
    ----------
    beta1, beta2 : float
        Decay of the first and second moment.
    epsilon : float
        Keeps the division finite.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index: Any, weight: Any) -> Any:
        return tuple(zeros_state(weight, False) for _ in range(3))  # d, v, z

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        d, v, z = state
        nd.ftml_update(
            weight,
            grad,
            d,
            v,
            z,
            out=weight,
            lr=lr,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            t=self._index_update_count[index],
            wd=wd,
            rescale_grad=self.rescale_grad,
            clip_grad=self._clip,
        )


@register
class Adamax(Optimizer):
    """Adam with the infinity norm (https://arxiv.org/abs/1412.6980, section 7).

    With ``g = clip(rescale_grad * grad + wd * w)`` and update number ``t``::

        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, |g|)
        w = w - lr / (1 - beta1^t) * m / u

    Parameters
    ----------
    learning_rate, beta1, beta2 : float
        See the formula.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def create_state(self, index: Any, weight: Any) -> Any:
        return (zeros_state(weight, False), zeros_state(weight, False))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        lr /= 1.0 - self.beta1 ** self._index_update_count[index]
        grad = self._clipped(grad * self.rescale_grad + wd * weight)
        mean, largest = state
        mean *= self.beta1
        mean += (1.0 - self.beta1) * grad
        largest[:] = nd.maximum(self.beta2 * largest, nd.abs(grad))
        weight -= lr * mean / largest


@register
class Nadam(Optimizer):
    """Adam with Nesterov momentum (Dozat, 2016).

    The momentum schedule ``m_schedule`` is one running product for all parameters, as in MXNet.

    Parameters
    ----------
    learning_rate, beta1, beta2, epsilon : float
        As for :class:`Adam`.
    schedule_decay : float
        Exponent of the momentum schedule.
    **kwargs
        See :class:`Optimizer`.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def create_state(self, index: Any, weight: Any) -> Any:
        return (zeros_state(weight, False), zeros_state(weight, False))

    def _momentum(self, t: int) -> float:
        return self.beta1 * (1.0 - 0.5 * pow(0.96, t * self.schedule_decay))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        t = self._index_update_count[index]
        grad = self._clipped(grad * self.rescale_grad + wd * weight)
        now, after = self._momentum(t), self._momentum(t + 1)
        self.m_schedule *= now
        schedule_after = self.m_schedule * after
        mean, var = state
        mean *= self.beta1
        mean += (1.0 - self.beta1) * grad
        var *= self.beta2
        var += (1.0 - self.beta2) * grad * grad
        lookahead = (1.0 - now) * (grad / (1.0 - self.m_schedule)) + after * (mean / (1.0 - schedule_after))
        weight -= lr * lookahead / (nd.sqrt(var / (1.0 - pow(self.beta2, t))) + self.epsilon)


@register
class Test(Optimizer):
    """Adds the rescaled gradient to the weight and copies the weight to the state; for tests of trainers and kvstores.

    Parameters
    ----------
    **kwargs
        See :class:`Optimizer`.
    """

    __test__ = False  # not a test case for pytest

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def create_state(self, index: Any, weight: Any) -> Any:
        return zeros_state(weight, False)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        weight += grad * self.rescale_grad
        state[:] = weight
