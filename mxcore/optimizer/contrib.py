"""Optimizers that MXNet keeps under ``mx.optimizer.contrib``."""

from __future__ import annotations

from typing import Any

from .. import ndarray as nd
from ._base import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one accumulator for each row of a matrix (embeddings); no weight decay.

    With ``g = clip(rescale_grad * grad)``::

        h = h + mean(g^2, axis=1)
        w = w - lr * g / sqrt(h + eps)

    Parameters
    ----------
    eps : float
        See the formula.
    **kwargs
        See :class:`mxcore.optimizer.Optimizer`; ``wd`` has to be 0.
    """

    def __init__(self, eps: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: Any) -> Any:
        if len(weight.shape) != 2:
            raise AssertionError(f"GroupAdaGrad: parameter {index} has shape {weight.shape}, but must be a matrix.")
        return nd.zeros((weight.shape[0], 1), ctx=weight.context, dtype=weight.dtype)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index)
        if wd != 0:
            raise AssertionError(f"Weight decay is not supported for GroupAdaGrad, got {wd} for parameter {index}.")
        if grad.stype == "row_sparse":
            nd.contrib.group_adagrad_update(
                weight,
                grad,
                state,
                out=weight,
                lr=lr,
                epsilon=self.float_stable_eps,
                rescale_grad=self.rescale_grad,
                clip_gradient=self._clip,
            )
            return
        grad = self._clipped(self._rescaled(grad))
        state += nd.mean(nd.square(grad), axis=1, keepdims=True)
        weight -= lr * grad / nd.sqrt(state + self.float_stable_eps)
