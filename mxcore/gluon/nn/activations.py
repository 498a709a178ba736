"""Activation layers."""

from __future__ import annotations

from typing import Any

from ... import initializer
from ..block import HybridBlock

__all__ = ["Activation", "LeakyReLU", "PReLU", "ELU", "SELU", "Swish", "GELU"]


class Activation(HybridBlock):
    """An activation function by name. Input and output have the same shape.

    Parameters
    ----------
    activation : {'relu', 'sigmoid', 'tanh', 'softrelu', 'softsign'}
        Which function.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.gluon.nn.Activation("relu")(mx.nd.array([-1.0, 2.0])).asnumpy().tolist()
    [0.0, 2.0]
    """

    def __init__(self, activation: str, **kwargs: Any) -> None:
        self._act_type = activation  # before the name is made, which is the function's
        super().__init__(**kwargs)

    def _alias(self) -> str:
        return self._act_type

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Activation(x, act_type=self._act_type, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._act_type})"


class LeakyReLU(HybridBlock):
    r"""Leaky rectified linear unit: :math:`x` for :math:`x \ge 0`, else :math:`\alpha x`.

    Parameters
    ----------
    alpha : float
        Slope below zero, at least 0.
    """

    def __init__(self, alpha: float, **kwargs: Any) -> None:
        if alpha < 0:
            raise AssertionError(f"the slope alpha of LeakyReLU must be at least 0, got {alpha}.")
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha, name="fwd")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alpha})"


class PReLU(HybridBlock):
    r"""Leaky rectified linear unit with learned slopes :math:`\alpha` (He et al., arXiv:1502.01852).

    Parameters
    ----------
    alpha_initializer : str or Initializer
        First slopes.
    in_channels : int
        1, or the size of axis 1 of the input for one slope per channel.
    """

    def __init__(
        self,
        alpha_initializer: Any = initializer.Constant(0.25),  # noqa: B008 (keeps no state)
        in_channels: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.alpha = self.params.get("alpha", shape=(in_channels,), init=alpha_initializer)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any) -> Any:
        return F.LeakyReLU(x, gamma=alpha, act_type="prelu", name="fwd")


class ELU(HybridBlock):
    r"""Exponential linear unit (Clevert et al., arXiv:1511.07289): :math:`\alpha (e^x - 1)` below zero.

    Parameters
    ----------
    alpha : float
        Where it saturates, negated.
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """Scaled exponential linear unit (Klambauer et al., arXiv:1706.02515)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="selu", name="fwd")


class GELU(HybridBlock):
    """Gaussian error linear unit (Hendrycks and Gimpel, arXiv:1606.08415)."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.LeakyReLU(x, act_type="gelu", name="fwd")


class Swish(HybridBlock):
    r"""Swish (Ramachandran et al., arXiv:1710.05941): :math:`x \cdot sigmoid(\beta x)`.

    Parameters
    ----------
    beta : float
        How steep the gate is.
    """

    def __init__(self, beta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x * F.sigmoid(self._beta * x, name="fwd")
