"""Losses: blocks that compare predictions with labels and return one number per sample.

Unless said otherwise a loss takes ``pred`` and ``label`` of any shape with as many elements, an optional
``sample_weight`` that broadcasts to the shape of ``pred``, and returns shape ``(batch_size,)``: all axes but
``batch_axis`` are averaged. ``weight`` is a number that multiplies the loss.
"""

from __future__ import annotations

from math import pi
from typing import Any

from .. import ndarray
from ..base import numeric_types
from .block import HybridBlock

__all__ = [
    "Loss",
    "L2Loss",
    "L1Loss",
    "SigmoidBinaryCrossEntropyLoss",
    "SigmoidBCELoss",
    "SoftmaxCrossEntropyLoss",
    "SoftmaxCELoss",
    "KLDivLoss",
    "CTCLoss",
    "HuberLoss",
    "HingeLoss",
    "SquaredHingeLoss",
    "LogisticLoss",
    "TripletLoss",
    "PoissonNLLLoss",
    "CosineEmbeddingLoss",
    "SDMLLoss",
]


def _apply_weighting(F: Any, loss: Any, weight: float | None = None, sample_weight: Any = None) -> Any:
    """Multiply a loss by per-sample weights (broadcast) and by a number."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        if not isinstance(weight, numeric_types):
            raise AssertionError(f"the weight of a loss must be a number, got {type(weight)}.")
        loss = loss * weight
    return loss


def _reshape_like(F: Any, x: Any, y: Any) -> Any:
    """``x`` in the shape of ``y``."""
    if F is ndarray:
        # Same shape is the usual case, and a reshape is a recorded operator.
        return x if x.shape == y.shape else x.reshape(y.shape)
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """Base of losses.

    Parameters
    ----------
    weight : float or None
        Multiplies the loss.
    batch_axis : int
        The axis of samples.
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _mean(self, F: Any, loss: Any, sample_weight: Any) -> Any:
        """Weighted mean over all axes but the batch axis."""
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)


class L2Loss(Loss):
    r"""Half the squared error, :math:`\frac12 (label - pred)^2`, averaged.

    Parameters
    ----------
    weight, batch_axis
        See :class:`Loss`.

    Examples
    --------
    >>> import mxcore as mx
    >>> loss = mx.gluon.loss.L2Loss()
    >>> loss(mx.nd.array([1.0, 2.0]), mx.nd.array([3.0, 2.0])).asnumpy().tolist()
    [2.0, 0.0]
    """

    def __init__(self, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        half = 0.5 if self._weight is None else self._weight / 2
        loss = _apply_weighting(F, F.square(label - pred), half, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)


class L1Loss(Loss):
    r"""The absolute error, :math:`|label - pred|`, averaged.

    Parameters
    ----------
    weight, batch_axis
        See :class:`Loss`.
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        return self._mean(F, F.abs(label - pred), sample_weight)


class SigmoidBinaryCrossEntropyLoss(Loss):
    r"""Cross entropy for yes-or-no labels, :math:`-(y \log p \cdot w_{pos} + (1 - y) \log(1 - p))`, averaged.

    Parameters
    ----------
    from_sigmoid : bool
        Whether ``pred`` is :math:`p` itself. By default it is the value before the sigmoid, which is computed
        together with the loss and stable for any size.
    weight, batch_axis
        See :class:`Loss`.

    Notes
    -----
    Takes ``pos_weight`` after ``sample_weight``: weights of the positive examples that broadcast to ``pred``.
    """

    def __init__(
        self, from_sigmoid: bool = False, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None, pos_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        if self._from_sigmoid:
            tiny = 1e-12
            positive = F.log(pred + tiny) * label
            if pos_weight is not None:
                positive = F.broadcast_mul(positive, pos_weight)
            loss = -(positive + F.log(1.0 - pred + tiny) * (1.0 - label))
        else:
            # log(1 + exp(-x)) = max(-x, 0) + log(1 + exp(-|x|)) never overflows.
            softplus = F.Activation(-F.abs(pred), act_type="softrelu")
            if pos_weight is None:
                loss = F.relu(pred) - pred * label + softplus
            else:
                factor = 1 + F.broadcast_mul(label, pos_weight - 1)
                loss = pred - pred * label + factor * (softplus + F.relu(-pred))
        return self._mean(F, loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    r"""Cross entropy over classes, :math:`-\log softmax(pred)_{label}`, averaged.

    Parameters
    ----------
    axis : int
        The axis of classes in ``pred``.
    sparse_label : bool
        Labels are class numbers, in the shape of ``pred`` without ``axis``. Otherwise they are probabilities in the
        shape of ``pred``.
    from_logits : bool
        Whether ``pred`` is logarithms of probabilities already.
    weight, batch_axis
        See :class:`Loss`.

    Notes
    -----
    ``sample_weight`` must broadcast to ``pred`` with ``axis`` of size 1: ``(N, 1)`` for one weight per sample.

    Examples
    --------
    >>> import mxcore as mx
    >>> loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    >>> loss(mx.nd.array([[0, 0], [0, 50]]), mx.nd.array([0, 1])).asnumpy()
    array([0.6931472, 0.       ], dtype=float32)
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis = axis
        self._sparse_label = sparse_label
        self._from_logits = from_logits

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            label = _reshape_like(F, label, pred)
            loss = -F.sum(pred * label, axis=self._axis, keepdims=True)
        return self._mean(F, loss, sample_weight)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    r"""Kullback-Leibler divergence, :math:`label (\log label - pred)`, added up over all axes but the batch's.

    Parameters
    ----------
    from_logits : bool
        Whether ``pred`` is logarithms of probabilities. Otherwise its log-softmax is taken.
    axis : int
        The axis of the softmax.
    weight, batch_axis
        See :class:`Loss`.
    """

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._axis = axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        if not self._from_logits:
            pred = F.log_softmax(pred, axis=self._axis)
        loss = label * (F.log(label + 1e-12) - pred)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class CTCLoss(Loss):
    """Connectionist temporal classification: sequences against shorter label sequences without alignment.

    The last class is the blank. ``pred`` holds values before the softmax.

    Parameters
    ----------
    layout : {'NTC', 'TNC'}
        Axes of ``pred``: batch, time, classes.
    label_layout : {'NT', 'TN'}
        Axes of ``label``, which is padded with -1 unless lengths are given.
    weight : float or None
        See :class:`Loss`.

    Notes
    -----
    Takes ``pred_lengths`` and ``label_lengths`` of shape ``(batch_size,)`` after ``label``.
    """

    def __init__(
        self, layout: str = "NTC", label_layout: str = "NT", weight: float | None = None, **kwargs: Any
    ) -> None:
        if layout not in ("NTC", "TNC"):
            raise AssertionError(f"CTCLoss takes pred in layout 'NTC' or 'TNC', got {layout!r}.")
        if label_layout not in ("NT", "TN"):
            raise AssertionError(f"CTCLoss takes label in layout 'NT' or 'TN', got {label_layout!r}.")
        self._layout = layout
        self._label_layout = label_layout
        super().__init__(weight, label_layout.find("N"), **kwargs)

    def hybrid_forward(
        self,
        F: Any,
        pred: Any,
        label: Any,
        pred_lengths: Any = None,
        label_lengths: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        loss = F.CTCLoss(
            pred,
            label,
            pred_lengths,
            label_lengths,
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None,
            blank_label="last",
        )
        return _apply_weighting(F, loss, self._weight, sample_weight)


class HuberLoss(Loss):
    r"""Squared error near zero, absolute error beyond ``rho``, averaged.

    :math:`\frac{1}{2 \rho} d^2` where :math:`d = |label - pred| \le \rho`, else :math:`d - \rho / 2`.

    Parameters
    ----------
    rho : float
        Where the two parts meet.
    weight, batch_axis
        See :class:`Loss`.
    """

    def __init__(self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        distance = F.abs(label - pred)
        loss = F.where(distance > self._rho, distance - 0.5 * self._rho, (0.5 / self._rho) * F.square(distance))
        return self._mean(F, loss, sample_weight)


class HingeLoss(Loss):
    r"""Hinge loss for labels -1 and 1, :math:`\max(0, margin - pred \cdot label)`, averaged.

    Parameters
    ----------
    margin : float
        Where the loss becomes zero.
    weight, batch_axis
        See :class:`Loss`.
    """

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        return self._mean(F, F.relu(self._margin - pred * label), sample_weight)


class SquaredHingeLoss(Loss):
    r"""Squared hinge loss for labels -1 and 1, :math:`\max(0, margin - pred \cdot label)^2`, averaged.

    Parameters
    ----------
    margin : float
        Where the loss becomes zero.
    weight, batch_axis
        See :class:`Loss`.
    """

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        return self._mean(F, F.square(F.relu(self._margin - pred * label)), sample_weight)


class LogisticLoss(Loss):
    r"""Logistic loss, :math:`\log(1 + \exp(-pred \cdot label))` for labels -1 and 1, averaged.

    Parameters
    ----------
    weight, batch_axis
        See :class:`Loss`.
    label_format : {'signed', 'binary'}
        Labels are -1 and 1, or 0 and 1.
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, label_format: str = "signed", **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format of LogisticLoss must be 'signed' or 'binary', got {label_format!r}.")
        self._label_format = label_format

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._mean(F, loss, sample_weight)


class TripletLoss(Loss):
    r"""Triplet loss, :math:`\max(0, \sum (positive - pred)^2 - (negative - pred)^2 + margin)`.

    Parameters
    ----------
    margin : float
        How much nearer the positive should be than the negative.
    weight, batch_axis
        See :class:`Loss`.

    Notes
    -----
    Takes ``pred``, ``positive`` and ``negative`` of one shape; no ``sample_weight``.
    """

    def __init__(self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, positive: Any, negative: Any) -> Any:
        positive = _reshape_like(F, positive, pred)
        negative = _reshape_like(F, negative, pred)
        difference = F.square(positive - pred) - F.square(negative - pred)
        loss = F.relu(F.sum(difference, axis=self._batch_axis, exclude=True) + self._margin)
        return _apply_weighting(F, loss, self._weight, None)


class PoissonNLLLoss(Loss):
    r"""Negative log likelihood of counts under a Poisson distribution; the mean over all elements.

    :math:`\exp(pred) - target \cdot pred`, or :math:`pred - target \cdot \log(pred + \epsilon)` if not ``from_logits``.

    Parameters
    ----------
    weight : float or None
        See :class:`Loss`.
    from_logits : bool
        Whether ``pred`` is the logarithm of the rate.
    batch_axis : int
        See :class:`Loss`.
    compute_full : bool
        Add Stirling's approximation of the terms that do not depend on ``pred``, for targets above 1.

    Notes
    -----
    Takes ``epsilon`` (default 1e-8) after ``sample_weight``. Returns shape ``(1,)``.
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits = from_logits
        self._compute_full = compute_full

    def hybrid_forward(self, F: Any, pred: Any, target: Any, sample_weight: Any = None, epsilon: float = 1e-08) -> Any:
        target = _reshape_like(F, target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target) - target + 0.5 * F.log(2 * pi * target)
            loss = loss + stirling * (target > 1)
        return F.mean(_apply_weighting(F, loss, self._weight, sample_weight))


class CosineEmbeddingLoss(Loss):
    r"""Cosine distance of pairs: :math:`1 - \cos` for label 1, :math:`\max(0, \cos - margin)` for label -1.

    Parameters
    ----------
    weight, batch_axis
        See :class:`Loss`.
    margin : float
        Pairs of label -1 below it cost nothing.

    Notes
    -----
    Takes ``input1`` and ``input2`` of shape ``(N, C)`` and ``label`` of shape ``(N,)``. Returns shape ``(N, 1)``.
    """

    def __init__(self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, input1: Any, input2: Any, label: Any, sample_weight: Any = None) -> Any:
        input1 = _reshape_like(F, input1, input2)
        label = F.reshape(label, shape=(-1, 1))
        cosine = self._cosine_similarity(F, input1, input2)
        loss = (1 - cosine) * (label == 1) + F.relu((label == -1) * (cosine - self._margin))
        return _apply_weighting(F, loss, self._weight, sample_weight)

    def _cosine_similarity(self, F: Any, x: Any, y: Any, axis: int = -1) -> Any:
        norms = F.norm(x, axis=axis) * F.norm(y, axis=axis)
        similarity = F.sum(x * y, axis=axis) / F.maximum(norms, 1e-12)
        return F.reshape(similarity, shape=(-1, 1))


class SDMLLoss(Loss):
    """Smoothed deep metric learning (Bonadiman et al., arXiv:1905.12786).

    Rows of ``x1`` and ``x2`` belong together; all other rows of the batch serve as negatives. The loss is the
    divergence of the softmax of negative squared distances from a smoothed identity.

    Parameters
    ----------
    smoothing_parameter : float
        Probability spread over the rest of the batch, below 1.
    weight, batch_axis
        See :class:`Loss`.

    Notes
    -----
    Takes ``x1`` and ``x2`` of shape ``(N, C)``.
    """

    def __init__(
        self, smoothing_parameter: float = 0.3, weight: float | None = 1.0, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def _compute_distances(self, x1: Any, x2: Any) -> Any:
        """Squared distances of all pairs, ``(N, N)``."""
        if x1.shape != x2.shape:
            raise AssertionError(f"SDMLLoss takes two inputs of one shape, got {x1.shape} and {x2.shape}.")
        count, size = x1.shape
        left = x1.expand_dims(1).broadcast_to((count, count, size))
        right = x2.expand_dims(0).broadcast_to((count, count, size))
        return ((left - right) ** 2).sum(axis=2)

    def _compute_labels(self, F: Any, batch_size: int, dtype: Any = "float32") -> Any:
        """The smoothed identity, ``(N, N)``."""
        identity = F.eye(batch_size, dtype=dtype)
        share = self.smoothing_parameter / (batch_size - 1)
        return identity * (1 - self.smoothing_parameter) + (1 - identity) * share

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:
        labels = self._compute_labels(F, x1.shape[0], x1.dtype)
        distances = self._compute_distances(x1, x2)
        return self.kl_loss(F.log_softmax(-distances, axis=1), labels.as_in_context(distances.ctx))
