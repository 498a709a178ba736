"""Evaluation metrics: running values over batches of labels and predictions.

``update(labels, preds)`` takes lists of arrays (or single ones) and reads them on the host, so it blocks until they are
computed. A metric keeps two sums: the local one, cleared by ``reset_local``, and the global one since ``reset``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy

from . import ndarray as nd
from ._class_registry import get_alias_func, get_create_func, get_register_func

__all__ = [
    "EvalMetric",
    "CompositeEvalMetric",
    "Accuracy",
    "TopKAccuracy",
    "F1",
    "MCC",
    "Perplexity",
    "MAE",
    "MSE",
    "RMSE",
    "CrossEntropy",
    "NegativeLogLikelihood",
    "PearsonCorrelation",
    "PCC",
    "Loss",
    "Torch",
    "Caffe",
    "CustomMetric",
    "check_label_shapes",
    "create",
    "register",
    "alias",
    "np",
]

_NAN = float("nan")


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Check that labels and predictions fit.

    Parameters
    ----------
    labels, preds : list of NDArray or NDArray
        What to compare.
    wrap : bool
        Return single arrays as lists of one.
    shape : bool
        Compare shapes instead of lengths.

    Returns
    -------
    tuple
        ``(labels, preds)``, wrapped if asked for.

    Raises
    ------
    ValueError
        If lengths or shapes differ.
    """
    have, want = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if have != want:
        raise ValueError(f"Shape of labels {have} does not match shape of predictions {want}")
    if wrap:
        if isinstance(labels, nd.NDArray):
            labels = [labels]
        if isinstance(preds, nd.NDArray):
            preds = [preds]
    return labels, preds


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class EvalMetric:
    """Base of the metrics; a subclass gives ``update``.

    Parameters
    ----------
    name : str
        Name in reports.
    output_names, label_names : list of str, optional
        What :meth:`update_dict` picks; everything if None.
    **kwargs
        Arguments that re-create the metric, for :meth:`get_config`. ``has_global_stats`` says that the subclass keeps
        the global sum too.
    """

    num_inst: Any
    sum_metric: Any
    global_num_inst: Any
    global_sum_metric: Any

    def __init__(
        self, name: str, output_names: list[str] | None = None, label_names: list[str] | None = None, **kwargs: Any
    ) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Return a dictionary from which :func:`create` makes the metric again."""
        return {
            **self._kwargs,
            "metric": self.__class__.__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def update_dict(self, label: dict[str, Any], pred: dict[str, Any]) -> None:
        """Update from named arrays, those in ``label_names`` and ``output_names``."""
        preds = list(pred.values()) if self.output_names is None else [pred[name] for name in self.output_names]
        labels = list(label.values()) if self.label_names is None else [label[name] for name in self.label_names]
        self.update(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        """Take in one batch.

        Parameters
        ----------
        labels, preds : list of NDArray or NDArray
            One label array for each prediction array.
        """
        raise NotImplementedError()

    def _add(self, value: Any, count: Any) -> None:
        if isinstance(value, numpy.generic):
            value = value.item()  # a NumPy 2 float32 would make the running sum float32, which drifts
        self.sum_metric += value
        self.global_sum_metric += value
        self.num_inst += count
        self.global_num_inst += count

    def reset(self) -> None:
        """Forget everything."""
        self.num_inst = 0
        self.sum_metric = 0.0
        self.global_num_inst = 0
        self.global_sum_metric = 0.0

    def reset_local(self) -> None:
        """Forget the local sum and keep the global one."""
        self.num_inst = 0
        self.sum_metric = 0.0

    def get(self) -> tuple[Any, Any]:
        """Return ``(name, value)``; the value is nan before the first update."""
        return (self.name, self.sum_metric / self.num_inst if self.num_inst != 0 else _NAN)

    def get_global(self) -> tuple[Any, Any]:
        """Return ``(name, value)`` since the last :meth:`reset`."""
        if not self._has_global_stats:
            return self.get()
        return (self.name, self.global_sum_metric / self.global_num_inst if self.global_num_inst != 0 else _NAN)

    def get_name_value(self) -> list[tuple[str, Any]]:
        """Return ``[(name, value), ...]``."""
        name, value = self.get()
        return list(zip(_as_list(name), _as_list(value)))

    def get_global_name_value(self) -> list[tuple[str, Any]]:
        """Return ``[(name, value), ...]`` since the last :meth:`reset`."""
        name, value = self.get_global()
        return list(zip(_as_list(name), _as_list(value)))


register = get_register_func(EvalMetric, "metric")
alias = get_alias_func(EvalMetric, "metric")
_create = get_create_func(EvalMetric, "metric")


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """Return a metric from its description.

    Parameters
    ----------
    metric : str, callable, list, dict or EvalMetric
        A registered name; a function ``(label, pred) -> value`` of NumPy arrays; a list for a composite metric.
    *args, **kwargs
        For the metric's class.

    Examples
    --------
    >>> create("acc").name, create(["mae", "mse"]).get()
    ('accuracy', (['mae', 'mse'], [nan, nan]))
    """
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        composite = CompositeEvalMetric()
        for child in metric:
            composite.add(create(child, *args, **kwargs))
        return composite
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics updated together.

    Parameters
    ----------
    metrics : list, optional
        Descriptions that :func:`create` understands.
    name, output_names, label_names
        As for :class:`EvalMetric`.
    """

    def __init__(
        self,
        metrics: list[Any] | None = None,
        name: str = "composite",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        self.metrics: list[EvalMetric] = []
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)
        self.metrics = [create(metric) for metric in metrics or []]

    def add(self, metric: Any) -> None:
        """Add a metric or a description of one."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> Any:
        """Return the metric at `index`; for an index out of range a ``ValueError`` object, returned as MXNet does."""
        try:
            return self.metrics[index]
        except IndexError:
            return ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}")

    def update_dict(self, label: dict[str, Any], pred: dict[str, Any]) -> None:
        if self.label_names is not None:
            label = OrderedDict((k, v) for k, v in label.items() if k in self.label_names)
        if self.output_names is not None:
            pred = OrderedDict((k, v) for k, v in pred.items() if k in self.output_names)
        for metric in self.metrics:
            metric.update_dict(label, pred)

    def update(self, labels: Any, preds: Any) -> None:
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        for metric in self.metrics:
            metric.reset_local()

    def _collect(self, results: list[tuple[Any, Any]]) -> tuple[list[str], list[Any]]:
        names: list[str] = []
        values: list[Any] = []
        for name, value in results:
            names.extend(_as_list(name))
            values.extend(_as_list(value))
        return names, values

    def get(self) -> tuple[Any, Any]:
        return self._collect([metric.get() for metric in self.metrics])

    def get_global(self) -> tuple[Any, Any]:
        return self._collect([metric.get_global() for metric in self.metrics])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}


@register
@alias("acc")
class Accuracy(EvalMetric):
    """Share of predictions that equal the label.

    Parameters
    ----------
    axis : int
        Axis of the class scores; the largest is the prediction. Predictions of the label's shape count as classes.
    name, output_names, label_names
        As for :class:`EvalMetric`.

    Examples
    --------
    >>> import mxcore as mx
    >>> accuracy = Accuracy()
    >>> accuracy.update(mx.nd.array([0, 1, 1]), mx.nd.array([[0.3, 0.7], [0, 1.0], [0.4, 0.6]]))
    >>> print("%s %.4f" % accuracy.get())
    accuracy 0.6667
    """

    def __init__(
        self,
        axis: int = 1,
        name: str = "accuracy",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, axis=axis, output_names=output_names, label_names=label_names, has_global_stats=True)
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            classes = pred.asnumpy()
            if pred.shape != label.shape:
                classes = classes.argmax(axis=self.axis)
            classes = classes.astype(numpy.int32).ravel()
            truth = label.asnumpy().astype(numpy.int32).ravel()
            check_label_shapes(truth, classes)
            self._add(int((classes == truth).sum()), len(classes))


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """Share of samples whose label is among the `top_k` largest scores.

    Parameters
    ----------
    top_k : int
        More than 1.
    name, output_names, label_names
        As for :class:`EvalMetric`; ``_k`` is appended to the name.
    """

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(name, top_k=top_k, output_names=output_names, label_names=label_names, has_global_stats=True)
        if top_k <= 1:
            raise AssertionError("Please use Accuracy if top_k is no more than 1")
        self.top_k = top_k
        self.name += f"_{top_k}"

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            if len(pred.shape) > 2:
                raise AssertionError(f"Predictions should be no more than 2 dims, got shape {pred.shape}.")
            scores = pred.asnumpy().astype(numpy.float32)
            truth = label.asnumpy().astype(numpy.int32)
            check_label_shapes(truth, scores)
            if scores.ndim == 1:
                # One score per sample ranks the samples; MXNet counts it so, in the local sum only.
                self.sum_metric += int((numpy.argpartition(scores, -self.top_k) == truth.ravel()).sum())
                self._add(0, len(scores))
                continue
            k = min(scores.shape[1], self.top_k)
            best = numpy.argpartition(scores, -k)[:, -k:]
            self._add(int((best == truth.reshape(-1, 1)).sum()), len(scores))


class _Confusion:
    """Counts of a two-class problem: true and false positives and negatives."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.true_positives = self.false_positives = self.true_negatives = self.false_negatives = 0

    def add(self, label: numpy.ndarray, positive: numpy.ndarray) -> None:
        truth = label == 1
        self.true_positives += int((positive & truth).sum())
        self.false_positives += int((positive & ~truth).sum())
        self.false_negatives += int((~positive & truth).sum())
        self.true_negatives += int((~positive & ~truth).sum())

    @property
    def total(self) -> int:
        return self.true_positives + self.false_positives + self.true_negatives + self.false_negatives

    @property
    def fscore(self) -> float:
        found, exist = self.true_positives + self.false_positives, self.true_positives + self.false_negatives
        precision = self.true_positives / found if found else 0.0
        recall = self.true_positives / exist if exist else 0.0
        return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0

    @property
    def matthewscc(self) -> float:
        if not self.total:
            return 0.0
        tp, fp = float(self.true_positives), float(self.false_positives)
        tn, fn = float(self.true_negatives), float(self.false_negatives)
        product = 1.0
        for term in (tp + fp, tp + fn, tn + fp, tn + fn):
            product *= term or 1.0
        return (tp * tn - fp * fn) / math.sqrt(product)


class _BinaryMetric(EvalMetric):
    """Shared part of the scores of a two-class problem: averaged over batches, or one score of all counts."""

    _score: str

    def __init__(self, name: str, output_names: list[str] | None, label_names: list[str] | None, average: str) -> None:
        self.average = average
        self._local = _Confusion()
        self._global = _Confusion()
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            scores = pred.asnumpy()
            truth = label.asnumpy().astype(numpy.int32)
            positive = scores.argmax(axis=1) == 1
            check_label_shapes(truth, scores)
            if len(numpy.unique(truth)) > 2:
                raise ValueError(f"{type(self).__name__} currently only supports binary classification.")
            for counts in (self._local, self._global):
                counts.add(truth.reshape(positive.shape), positive)
        local, all_ = getattr(self._local, self._score), getattr(self._global, self._score)
        if self.average == "macro":
            self.sum_metric += local
            self.global_sum_metric += all_
            self.num_inst += 1
            self.global_num_inst += 1
            self._local.reset()
            self._global.reset()
        else:
            self.num_inst, self.global_num_inst = self._local.total, self._global.total
            self.sum_metric, self.global_sum_metric = local * self.num_inst, all_ * self.global_num_inst

    def reset(self) -> None:
        super().reset()
        self._local.reset()
        self._global.reset()

    def reset_local(self) -> None:
        super().reset_local()
        self._local.reset()


@register
class F1(_BinaryMetric):
    """F1 score of a two-class problem, the harmonic mean of precision and recall.

    Parameters
    ----------
    name, output_names, label_names
        As for :class:`EvalMetric`.
    average : {'macro', 'micro'}
        Mean over the batches, or one score of all samples.
    """

    _score = "fscore"

    def __init__(
        self,
        name: str = "f1",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)


@register
class MCC(_BinaryMetric):
    """Matthews correlation coefficient of a two-class problem.

    Parameters
    ----------
    name, output_names, label_names
        As for :class:`EvalMetric`.
    average : {'macro', 'micro'}
        Mean over the batches, or one coefficient of all samples.
    """

    _score = "matthewscc"

    def __init__(
        self,
        name: str = "mcc",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        super().__init__(name, output_names, label_names, average)


@register
class Perplexity(EvalMetric):
    """``exp`` of the mean negative log likelihood.

    Parameters
    ----------
    ignore_label : int or None
        Label of positions that do not count.
    axis : int
        Axis of the class probabilities.
    name, output_names, label_names
        As for :class:`EvalMetric`.
    """

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(
            name, ignore_label=ignore_label, output_names=output_names, label_names=label_names, has_global_stats=True
        )
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        if len(labels) != len(preds):
            raise AssertionError(f"Perplexity: {len(labels)} label arrays for {len(preds)} predictions.")
        loss, count = 0.0, 0
        for label, pred in zip(labels, preds):
            if label.size != pred.size / pred.shape[-1]:
                raise AssertionError(f"shape mismatch: {label.shape} vs. {pred.shape}")
            probs = numpy.moveaxis(pred.asnumpy(), self.axis, -1)
            classes = label.asnumpy().ravel()
            # Out-of-range classes are clipped, as the pick operator does.
            index = numpy.clip(classes.astype(numpy.int64), 0, probs.shape[-1] - 1)
            picked = probs.reshape(-1, probs.shape[-1])[numpy.arange(len(index)), index]
            if self.ignore_label is not None:
                ignored = classes == self.ignore_label
                picked = numpy.where(ignored, numpy.ones((), picked.dtype), picked)
                count -= int(ignored.sum())
            loss -= float(numpy.log(numpy.maximum(1e-10, picked)).sum())
            count += picked.size
        self._add(loss, count)

    def get(self) -> tuple[Any, Any]:
        return (self.name, math.exp(self.sum_metric / self.num_inst) if self.num_inst != 0 else _NAN)

    def get_global(self) -> tuple[Any, Any]:
        if self.global_num_inst == 0:
            return (self.name, _NAN)
        return (self.name, math.exp(self.global_sum_metric / self.global_num_inst))


class _ErrorMetric(EvalMetric):
    """Shared part of the errors of a regression: the mean over batches of a batch's error."""

    def __init__(self, name: str, output_names: list[str] | None = None, label_names: list[str] | None = None) -> None:
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    @staticmethod
    def _error(difference: numpy.ndarray) -> Any:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth, values = label.asnumpy(), pred.asnumpy()
            if truth.ndim == 1:
                truth = truth.reshape(-1, 1)
            if values.ndim == 1:
                values = values.reshape(-1, 1)
            self._add(self._error(truth - values), 1)


@register
class MAE(_ErrorMetric):
    """Mean absolute error.

    Parameters
    ----------
    name, output_names, label_names
        As for :class:`EvalMetric`.
    """

    def __init__(
        self, name: str = "mae", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names, label_names)

    @staticmethod
    def _error(difference: numpy.ndarray) -> Any:
        return numpy.abs(difference).mean()


@register
class MSE(_ErrorMetric):
    """Mean squared error.

    Parameters
    ----------
    name, output_names, label_names
        As for :class:`EvalMetric`.
    """

    def __init__(
        self, name: str = "mse", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names, label_names)

    @staticmethod
    def _error(difference: numpy.ndarray) -> Any:
        return (difference**2.0).mean()


@register
class RMSE(_ErrorMetric):
    """Root of the mean squared error of a batch.

    Parameters
    ----------
    name, output_names, label_names
        As for :class:`EvalMetric`.
    """

    def __init__(
        self, name: str = "rmse", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names, label_names)

    @staticmethod
    def _error(difference: numpy.ndarray) -> Any:
        return numpy.sqrt((difference**2.0).mean())


class _LikelihoodMetric(EvalMetric):
    """Shared part of the two names of the negative log likelihood of the labels."""

    def __init__(
        self, eps: float, name: str, output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, eps=eps, output_names=output_names, label_names=label_names, has_global_stats=True)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            classes, probs = label.asnumpy().ravel(), pred.asnumpy()
            if len(classes) != len(probs):
                raise AssertionError(f"{type(self).__name__}: {len(classes)} labels for {len(probs)} predictions.")
            picked = probs[numpy.arange(len(classes)), classes.astype(numpy.int64)]
            self._add((-numpy.log(picked + self.eps)).sum(), len(classes))


@register
@alias("ce")
class CrossEntropy(_LikelihoodMetric):
    """Mean cross entropy of predicted probabilities ``(N, C)`` against integer labels ``(N,)``.

    Parameters
    ----------
    eps : float
        Added to a probability before the logarithm.
    name, output_names, label_names
        As for :class:`EvalMetric`.
    """

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "cross-entropy",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
@alias("nll_loss")
class NegativeLogLikelihood(_LikelihoodMetric):
    """Mean negative log likelihood of integer labels ``(N,)`` under predicted probabilities ``(N, C)``.

    Parameters
    ----------
    eps : float
        Added to a probability before the logarithm.
    name, output_names, label_names
        As for :class:`EvalMetric`.
    """

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "nll-loss",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson correlation of predictions and labels of the same shape.

    Parameters
    ----------
    name, output_names, label_names
        As for :class:`EvalMetric`.
    average : {'macro', 'micro'}
        Mean of the batches' correlations, or the correlation of all values (by running moments).
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    def reset_micro(self) -> None:
        """Forget the running moments."""
        self._count = 0
        self._mean_l = self._mean_p = 0.0
        self._sse_l = self._sse_p = self._conv = 0.0

    def reset(self) -> None:
        super().reset()
        self.reset_micro()

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            check_label_shapes(label, pred, False, True)
            truth = label.asnumpy().ravel().astype(numpy.float64)
            values = pred.asnumpy().ravel().astype(numpy.float64)
            if self.average == "macro":
                self._add(numpy.corrcoef(values, truth)[0, 1], 1)
            else:
                self._add(0.0, 1)
                self._merge(truth, values)

    def _merge(self, truth: numpy.ndarray, values: numpy.ndarray) -> None:
        """Merge a batch into the running moments: sums about the batch's own means, then the shift between means."""
        count, both = len(truth), self._count + len(truth)
        mean_l, mean_p = truth.mean(), values.mean()
        shift_l, shift_p = mean_l - self._mean_l, mean_p - self._mean_p
        weight = self._count * count / both
        self._sse_l += ((truth - mean_l) ** 2).sum() + shift_l * shift_l * weight
        self._sse_p += ((values - mean_p) ** 2).sum() + shift_p * shift_p * weight
        self._conv += ((truth - mean_l) * (values - mean_p)).sum() + shift_l * shift_p * weight
        self._mean_l += shift_l * count / both
        self._mean_p += shift_p * count / both
        self._count = both

    def get(self) -> tuple[Any, Any]:
        if self.num_inst == 0 or self.average == "macro":
            return super().get()
        return (self.name, self._conv / (numpy.sqrt(self._sse_p) * numpy.sqrt(self._sse_l)))

    def get_global(self) -> tuple[Any, Any]:
        # The running moments are of everything since reset().
        return super().get_global() if self.average == "macro" or self.global_num_inst == 0 else self.get()


@register
class PCC(EvalMetric):
    """Multiclass Matthews correlation, of the confusion matrix of any number of classes.

    Parameters
    ----------
    name, output_names, label_names
        As for :class:`EvalMetric`.
    has_global_stats : bool
        Whether :meth:`get_global` has a value of its own.
    """

    lcm: numpy.ndarray
    gcm: numpy.ndarray

    def __init__(
        self,
        name: str = "pcc",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        has_global_stats: bool = True,
    ) -> None:
        self.k = 2
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=has_global_stats)

    def _grow(self, inc: int) -> None:
        self.lcm = numpy.pad(self.lcm, ((0, inc), (0, inc)))
        self.gcm = numpy.pad(self.gcm, ((0, inc), (0, inc)))
        self.k += inc

    @staticmethod
    def _calc_mcc(confusion: numpy.ndarray) -> float:
        n = confusion.sum()
        predicted, true = confusion.sum(axis=1), confusion.sum(axis=0)
        cov_pp = numpy.sum(predicted * (n - predicted))
        cov_tt = numpy.sum(true * (n - true))
        if cov_pp == 0 or cov_tt == 0:
            return _NAN
        cov_pt = numpy.sum(confusion.diagonal() * n - predicted * true)
        return cov_pt / (cov_pp * cov_tt) ** 0.5

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            truth = label.asnumpy().astype(numpy.int32)
            classes = pred.asnumpy()
            classes = classes.argmax(axis=1) if classes.shape != truth.shape else classes.astype(numpy.int32)
            largest = int(max(classes.max(), truth.max()))
            if largest >= self.k:
                self._grow(largest + 1 - self.k)
            confusion = numpy.zeros((self.k, self.k))
            numpy.add.at(confusion, (classes.ravel(), truth.ravel()), 1)
            self.lcm += confusion
            self.gcm += confusion
        self.num_inst += 1
        self.global_num_inst += 1

    @property
    def sum_metric(self) -> Any:
        return self._calc_mcc(self.lcm) * self.num_inst

    @property
    def global_sum_metric(self) -> Any:
        return self._calc_mcc(self.gcm) * self.global_num_inst

    def reset(self) -> None:
        self.global_num_inst = 0.0
        self.gcm = numpy.zeros((self.k, self.k))
        self.reset_local()

    def reset_local(self) -> None:
        self.num_inst = 0.0
        self.lcm = numpy.zeros((self.k, self.k))


@register
class Loss(EvalMetric):
    """Mean of the predictions themselves, which are losses; labels do not matter.

    Parameters
    ----------
    name, output_names, label_names
        As for :class:`EvalMetric`.

    Examples
    --------
    >>> import mxcore as mx
    >>> loss = Loss()
    >>> loss.update(None, mx.nd.array([1, 2, 6]))
    >>> print("%s %.1f" % loss.get())
    loss 3.0
    """

    def __init__(
        self, name: str = "loss", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    def update(self, labels: Any, preds: Any) -> None:
        for pred in [preds] if isinstance(preds, nd.NDArray) else preds:
            self._add(nd.sum(pred).asscalar(), pred.size)


@register
class Torch(Loss):
    """:class:`Loss` under the name that torch criterions had."""

    def __init__(
        self, name: str = "torch", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names=output_names, label_names=label_names)


@register
class Caffe(Loss):
    """:class:`Loss` under the name that caffe criterions had."""

    def __init__(
        self, name: str = "caffe", output_names: list[str] | None = None, label_names: list[str] | None = None
    ) -> None:
        super().__init__(name, output_names=output_names, label_names=label_names)


@register
class CustomMetric(EvalMetric):
    """A metric from a function.

    Parameters
    ----------
    feval : callable
        ``feval(label, pred)`` of NumPy arrays; returns a value of the batch, or ``(sum, count)``.
    name : str, optional
        ``feval.__name__`` by default.
    allow_extra_outputs : bool
        Do not require as many labels as predictions.
    output_names, label_names
        As for :class:`EvalMetric`.
    """

    def __init__(
        self,
        feval: Callable[[Any, Any], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        if name is None:
            name = feval.__name__
            if "<" in name:
                name = f"custom({name})"
        super().__init__(
            name,
            feval=feval,
            allow_extra_outputs=allow_extra_outputs,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for pred, label in zip(preds, labels):
            value = self._feval(label.asnumpy(), pred.asnumpy())
            self._add(*value) if isinstance(value, tuple) else self._add(value, 1)

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(
    numpy_feval: Callable[[Any, Any], Any], name: str | None = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """Return a :class:`CustomMetric` of a function of NumPy arrays.

    Examples
    --------
    >>> import numpy
    >>> np(lambda label, pred: numpy.abs(label - pred).max(), name="worst").name
    'worst'
    """

    def feval(label: Any, pred: Any) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
