"""Kernels of the operators that end a network in a loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..table import kernel
from .neural import log_softmax, sigmoid, softmax_of


def _softmax_layout(shape: tuple[int, ...], multi_output: bool, preserve_shape: bool) -> tuple[int, int, int]:
    """Return the shape ``(N, K, R)`` in which softmax of a loss layer runs over axis 1."""
    if multi_output:
        return shape[0], shape[1], math.prod(shape[2:])
    if preserve_shape:
        return math.prod(shape[:-1]), shape[-1], 1
    return shape[0], math.prod(shape[1:]), 1


@kernel("SoftmaxOutput")
def softmax_output(xp: Any, x: Any, label: Any, *, multi_output: bool, preserve_shape: bool, **_: Any) -> Any:
    layout = _softmax_layout(x.shape, multi_output, preserve_shape)
    return softmax_of(xp, x.reshape(layout), 1).reshape(x.shape)


@kernel("_backward_SoftmaxOutput", numpy=True)
def backward_softmax_output(
    g: Any,
    y: Any,
    label: Any,
    *,
    grad_scale: float,
    ignore_label: float,
    multi_output: bool,
    use_ignore: bool,
    preserve_shape: bool,
    normalization: str,
    out_grad: bool,
    smooth_alpha: float,
) -> Any:
    if label.shape == y.shape:  # probabilities
        d = y - label.astype(y.dtype, copy=False)
        scale = grad_scale
    else:
        n, k, rest = layout = _softmax_layout(y.shape, multi_output, preserve_shape)
        d = np.array(y, order="C").reshape(layout)
        index = label.reshape(-1)[: n * rest].astype(np.int64).reshape(n, rest)
        smooth = 0.0 if multi_output else smooth_alpha
        if smooth:
            d -= smooth / (k - 1)
        rows, columns = np.ogrid[:n, :rest]
        known = (index >= 0) & (index < k)
        hot = np.where(known, 1 - smooth - (smooth / (k - 1) if smooth else 0), 0).astype(d.dtype)
        d[rows, np.where(known, index, 0), columns] -= hot
        if use_ignore:
            d *= (index != int(ignore_label))[:, None, :]
        if normalization == "batch":
            count = label.shape[0] if multi_output or label.ndim else 1
        elif normalization == "valid":
            count = max(1, int((label.astype(np.int64) != int(ignore_label)).sum()))
        else:
            count = 1
        scale = grad_scale / count / (rest if multi_output and normalization != "valid" else 1)
        d = d.reshape(y.shape)
    if scale != 1:
        d *= scale
    if out_grad:
        d *= g
    return d


@kernel("LinearRegressionOutput", "MAERegressionOutput")
def regression_output(xp: Any, x: Any, label: Any, *, grad_scale: float) -> Any:
    return xp.array(x, order="C")


@kernel("LogisticRegressionOutput")
def logistic_output(xp: Any, x: Any, label: Any, *, grad_scale: float) -> Any:
    return sigmoid(xp, x)


@kernel("_backward_regression")
def backward_regression(xp: Any, y: Any, label: Any, *, grad_scale: float, absolute: bool) -> Any:
    d = y - label.reshape(y.shape).astype(y.dtype)
    if absolute:
        d = xp.sign(d)
    d *= grad_scale / max(1, math.prod(label.shape[1:]))
    return d


@kernel("SVMOutput")
def svm_output(xp: Any, x: Any, label: Any, **_: Any) -> Any:
    return xp.array(x, order="C")


@kernel("_backward_SVMOutput")
def backward_svm_output(
    xp: Any, x: Any, label: Any, *, margin: float, regularization_coefficient: float, use_linear: bool
) -> Any:
    # +1 at the label's place, -1 elsewhere; a score s of sign t costs max(0, margin - t s), or its square.
    sign = xp.where(xp.arange(x.shape[1]) == label.astype(np.int64)[:, None], 1.0, -1.0).astype(x.dtype)
    violated = margin - sign * x
    inside = (violated > 0).astype(x.dtype)
    cost = inside if use_linear else 2 * violated * inside
    return (-regularization_coefficient * sign * cost).astype(x.dtype)


@kernel("softmax_cross_entropy")
def softmax_cross_entropy(xp: Any, x: Any, label: Any) -> Any:
    logs = log_softmax(xp, x, axis=1, temperature=None, dtype=None, use_length=False)
    return -logs[xp.arange(x.shape[0]), label.astype(np.int64)].sum(dtype=x.dtype).reshape(1)


@kernel("_backward_softmax_cross_entropy")
def backward_softmax_cross_entropy(xp: Any, g: Any, x: Any, label: Any) -> Any:
    d = softmax_of(xp, x, 1)
    d -= (xp.arange(x.shape[1]) == label.astype(np.int64)[:, None]).astype(x.dtype)
    d *= g
    return d


@kernel("IdentityAttachKLSparseReg", numpy=True)
def sparse_regularizer(
    x: Any, moving: Any, *, sparseness_target: float, penalty: float, momentum: float, training: bool
) -> Any:
    if training:
        moving *= momentum
        moving += (1 - momentum) * x.reshape(x.shape[0], -1).mean(axis=0)
    return np.array(x, order="C"), np.array(moving)


@kernel("_backward_sparse_regularizer")
def backward_sparse_regularizer(xp: Any, g: Any, average: Any, *, sparseness_target: float, penalty: float) -> Any:
    slope = (1 - sparseness_target) / (1 - average) - sparseness_target / average
    return (g + (penalty * slope).reshape(g.shape[1:])).astype(g.dtype)


# ---------------------------------------------------------------------------------------------------------------
# Connectionist temporal classification


def _label_lengths(label: np.ndarray, given: Any, padding: int) -> np.ndarray:
    if given is not None:
        return given.astype(np.int64)
    ends = label == padding
    return np.where(ends.any(axis=1), ends.argmax(axis=1), label.shape[1])


def ctc(
    x: np.ndarray, label: np.ndarray, data_lengths: np.ndarray, label_lengths: np.ndarray, blank: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses ``(N,)`` and their gradient ``(T, N, C)``, in float64.

    Graves et al. 2006, in logarithms, all instances at once. An instance that no path can produce has loss and
    gradient 0.

    Parameters
    ----------
    x : ndarray of ``(T, N, C)``
        Scores before softmax.
    label : ndarray of int, ``(N, L)``
    data_lengths, label_lengths : ndarrays of int, ``(N,)``
    blank : int
    """
    steps, n, _ = x.shape
    size = 2 * label.shape[1] + 1
    x = x.astype(np.float64)
    x -= x.max(axis=2, keepdims=True)
    p = np.exp(x)
    total = np.add.reduce(p, axis=2, keepdims=True)
    p /= total
    # Blanks between labels: position s of a path stands for class path[s].
    path = np.full((n, size), blank)
    path[:, 1::2] = np.where(np.arange(label.shape[1]) < label_lengths[:, None], label, blank)
    logs = np.take_along_axis(x - np.log(total), np.broadcast_to(path, (steps, n, size)), axis=2)
    ends = 2 * label_lengths  # the last position: the blank after the last label
    inside = np.arange(size) <= ends[:, None]
    skips = np.zeros((n, size), bool)  # a label may follow the one before the blank, if it differs
    skips[:, 2:] = (path[:, 2:] != blank) & (path[:, 2:] != path[:, :-2])
    rows = np.arange(n)
    never = -np.inf

    alpha = np.full((steps, n, size), never)
    alpha[0, :, 0] = logs[0, :, 0]
    if size > 1:
        alpha[0, :, 1] = np.where(label_lengths > 0, logs[0, :, 1], never)
    for t in range(1, steps):
        before = alpha[t - 1]
        now = before.copy()
        now[:, 1:] = np.logaddexp(now[:, 1:], before[:, :-1])
        now[:, 2:] = np.logaddexp(now[:, 2:], np.where(skips[:, 2:], before[:, :-2], never))
        alpha[t] = np.where(inside, now + logs[t], never)

    # beta includes the step itself, as alpha does
    beta = np.full((steps, n, size), never)
    for t in range(steps - 1, -1, -1):
        now = np.full((n, size), never)
        if t + 1 < steps:
            after = beta[t + 1]
            now = after.copy()
            now[:, :-1] = np.logaddexp(now[:, :-1], after[:, 1:])
            now[:, :-2] = np.logaddexp(now[:, :-2], np.where(skips[:, 2:], after[:, 2:], never))
        last = data_lengths == t + 1
        if last.any():
            start = np.full((n, size), never)
            start[rows, ends] = 0
            start[rows, np.maximum(ends - 1, 0)] = 0
            now = np.where(last[:, None], start, now)
        beta[t] = np.where(inside & (t < data_lengths)[:, None], now + logs[t], never)

    last = np.maximum(data_lengths - 1, 0)
    score = np.logaddexp(
        alpha[last, rows, ends], np.where(label_lengths > 0, alpha[last, rows, np.maximum(ends - 1, 0)], never)
    )
    possible = np.isfinite(score) & (data_lengths > 0)
    score = np.where(possible, score, 0.0)
    within = (np.arange(steps)[:, None] < data_lengths) & possible
    with np.errstate(invalid="ignore"):
        weights = np.where(within[:, :, None] & inside, np.exp(alpha + beta - logs - score[:, None]), 0.0)
    grad = np.where(within[:, :, None], p, 0.0)
    for s in range(size):
        grad[:, rows, path[:, s]] -= weights[:, :, s]
    return -score, grad


@kernel("CTCLoss", numpy=True)
def ctc_loss(
    x: Any,
    label: Any,
    data_lengths: Any,
    label_lengths: Any,
    *,
    use_data_lengths: bool,
    use_label_lengths: bool,
    blank_label: str,
) -> Any:
    steps, n, classes = x.shape
    blank, padding = (0, 0) if blank_label == "first" else (classes - 1, -1)
    label = label.astype(np.int64)
    lengths = _label_lengths(label, label_lengths if use_label_lengths else None, padding)
    times = data_lengths.astype(np.int64) if use_data_lengths else np.full(n, steps)
    loss, grad = ctc(x, label, times, lengths, blank)
    return loss.astype(x.dtype), grad.astype(x.dtype)
