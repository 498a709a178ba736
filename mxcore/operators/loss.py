"""Records of the operators that end a network in a loss.

Output layers (``SoftmaxOutput`` and its like) give predictions in the forward pass, and in backward the gradient of
a loss they stand for, whatever arrives from above. That gradient is where a chain begins: it has none of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import AutogradError, ParameterError, ShapeError
from .attributes import Bool, Choice, Float
from .checks import check_floats
from .elementwise import same
from .record import NO_GRADIENT, Joint, Spec, error, sample
from .registry import operator


def _misfit(name: str, data: Spec, label: Spec, want: Any) -> ShapeError:
    return ShapeError(
        f"operator '{name}': data {data.shape} wants a label of shape {want} but got {label.shape}.",
        operator=name,
        shapes=[data.shape, label.shape],
    )


# ---------------------------------------------------------------------------------------------------------------
# Output layers

_SOFTMAX_OUTPUT = {
    "grad_scale": Float(1.0),
    "ignore_label": Float(-1.0),
    "multi_output": Bool(False),
    "use_ignore": Bool(False),
    "preserve_shape": Bool(False),
    "normalization": Choice("null", choices=("batch", "null", "valid")),
    "out_grad": Bool(False),
    "smooth_alpha": Float(0.0),
}


def _softmax_output(a: Any, x: Spec, label: Spec) -> Spec:
    name = "SoftmaxOutput"
    check_floats(name, x)
    if len(x.shape) < 2:
        raise ShapeError(f"operator '{name}' wants data (N, K, ...) but got {x.shape}.", operator=name)
    if label.shape == x.shape:
        return x
    if a["multi_output"]:
        want = (x.shape[0], *x.shape[2:])
        if label.shape[:1] != x.shape[:1] or math.prod(label.shape) != math.prod(want):
            raise _misfit(name, x, label, want)
    else:
        want = x.shape[:-1]
        if label.shape not in (want, x.shape[:1]) or (a["preserve_shape"] and label.shape != want):
            raise _misfit(name, x, label, want)
    return x


def _softmax_output_reference(x: Any, label: Any, **a: Any) -> Any:
    axis = 1 if a.get("multi_output") else -1 if a.get("preserve_shape") else tuple(range(1, x.ndim))
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


operator(
    "SoftmaxOutput",
    "data label",
    _SOFTMAX_OUTPUT,
    aliases=("Softmax",),
    same_dtype=False,
    infer=_softmax_output,
    gradient=(lambda F, g, y, x, label, **a: F._backward_SoftmaxOutput(g, y, label, **a), None),
    saves="label output",
    reference=_softmax_output_reference,
    # The gradient is not that of the output: tests/operators/test_loss_operators.py.
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), np.array([0.0, 3, 1]), check_gradient=False),
        sample(
            rng.standard_normal((2, 3, 4)),
            rng.integers(0, 3, (2, 4)).astype("float32"),
            multi_output=True,
            check_gradient=False,
        ),
        sample(
            rng.standard_normal((2, 3, 4)),
            rng.integers(0, 4, (2, 3)).astype("float32"),
            preserve_shape=True,
            check_gradient=False,
        ),
        sample(rng.standard_normal((2, 3)), rng.uniform(0, 1, (2, 3)), check_gradient=False),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones(3, "float32"), match="wants a label of shape (2,)"),
        error(
            np.ones((2, 3, 4), "float32"),
            np.ones((2, 3), "float32"),
            multi_output=True,
            match="wants a label of shape (2, 4)",
        ),
    ],
    doc="""Compute softmax; in backward, give the gradient of its cross entropy with the label.

The gradient is ``grad_scale (softmax(data) - onehot(label))``, whatever arrives from above.

Parameters
----------
data : NDArray
    ``(N, K)`` or ``(N, K, ...)``, floats.
label : NDArray
    Class numbers, ``(N,)``; ``(N, ...)`` with ``multi_output``; ``(N, ..., )`` without the last axis with
    ``preserve_shape``. Or probabilities, in the shape of ``data``.
grad_scale : float
ignore_label : float
    Class number that gives no gradient, with ``use_ignore=True``.
multi_output : bool
    Softmax along axis 1, one label per position; the gradient is divided by the number of positions.
use_ignore : bool
preserve_shape : bool
    Softmax along the last axis. Otherwise all axes but the first count as one.
normalization : {"null", "batch", "valid"}
    Divide the gradient by nothing, by ``N``, or by the number of labels that are not ignored.
out_grad : bool
    Multiply the gradient by the one from above.
smooth_alpha : float
    Share of the label's probability spread evenly over the other classes.

Returns
-------
NDArray
    Same shape and dtype as ``data``.

Raises
------
ShapeError
    If the label does not fit.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[0, 0]])
>>> x.attach_grad()
>>> with mx.autograd.record():
...     y = mx.nd.SoftmaxOutput(x, mx.nd.array([1]))
>>> y.backward()
>>> x.grad.asnumpy().tolist()
[[0.5, -0.5]]
""",
)

operator(
    "_backward_SoftmaxOutput",
    "grad output label",
    _SOFTMAX_OUTPUT,
    same_dtype=False,
    infer=lambda a, g, y, label: y,
    gradient=NO_GRADIENT,
    doc="Gradient of ``SoftmaxOutput``.",
)


def _regression(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec, label: Spec) -> Spec:
        check_floats(name, x)
        if label.shape[:1] != x.shape[:1] or math.prod(label.shape) != math.prod(x.shape):
            raise _misfit(name, x, label, x.shape)
        return x

    return infer


for _name, _absolute, _formula, _what, _fn, _shown in (
    ("LinearRegressionOutput", False, "data", "data - label", lambda x: x, "[[3.0]]"),
    (
        "LogisticRegressionOutput",
        False,
        "1 / (1 + e**-data)",
        "output - label",
        lambda x: 1 / (1 + np.exp(-x)),
        "[[0.5]]",
    ),
    ("MAERegressionOutput", True, "data", "sign(data - label)", lambda x: x, "[[3.0]]"),
):
    operator(
        _name,
        "data label",
        {"grad_scale": Float(1.0)},
        same_dtype=False,
        infer=_regression(_name),
        gradient=(
            (
                lambda absolute: (
                    lambda F, g, y, x, label, grad_scale: F._backward_regression(
                        y, label, grad_scale=grad_scale, absolute=absolute
                    )
                )
            )(_absolute),
            None,
        ),
        saves="label output",
        reference=(lambda fn: lambda x, label, **_: fn(x))(_fn),
        samples=lambda rng: [
            sample(rng.standard_normal((3, 2)), rng.standard_normal((3, 2)), check_gradient=False),
            sample(rng.standard_normal((3, 1)), rng.standard_normal(3), grad_scale=2.0, check_gradient=False),
        ],
        errors=lambda: [
            error(np.ones((2, 3), "float32"), np.ones(2, "float32"), match="wants a label of shape (2, 3)")
        ],
        doc=f"""Return ``{_formula}``; in backward, give ``grad_scale / m ({_what})``, ``m`` numbers per instance.

Parameters
----------
data : NDArray
    ``(N, ...)``, floats.
label : NDArray
    As many numbers as ``data``.
grad_scale : float

Returns
-------
NDArray
    Same shape and dtype as ``data``.

Raises
------
ShapeError
    If the label does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.{_name}(mx.nd.array([[{3 if _shown == "[[3.0]]" else 0}]]), mx.nd.array([[1]])).asnumpy().tolist()
{_shown}
""",
    )

operator(
    "_backward_regression",
    "output label",
    {"grad_scale": Float(1.0), "absolute": Bool(False)},
    same_dtype=False,
    infer=lambda a, y, label: y,
    gradient=NO_GRADIENT,
    doc="Gradient of the regression outputs.",
)

_SVM = {"margin": Float(1.0), "regularization_coefficient": Float(1.0), "use_linear": Bool(False)}


def _classes(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec, label: Spec) -> Spec:
        check_floats(name, x)
        if len(x.shape) != 2:
            raise ShapeError(f"operator '{name}' wants data (N, K) but got {x.shape}.", operator=name, shapes=[x.shape])
        if label.shape != x.shape[:1]:
            raise _misfit(name, x, label, x.shape[:1])
        return x

    return infer


operator(
    "SVMOutput",
    "data label",
    _SVM,
    same_dtype=False,
    infer=_classes("SVMOutput"),
    gradient=(lambda F, g, y, x, label, **a: F._backward_SVMOutput(x, label, **a), None),
    saves="data label",
    reference=lambda x, label, **_: x,
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), np.array([0.0, 3, 1]), check_gradient=False)],
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones(3, "float32"), match="wants a label of shape (2,)")],
    doc="""Return the scores; in backward, give the gradient of a one-against-all hinge loss.

A score ``s`` costs ``max(0, margin - t s)``, or its square, with ``t`` 1 for the label's class and -1 for the others.

Parameters
----------
data : NDArray
    ``(N, K)``, floats.
label : NDArray
    Class numbers, ``(N,)``.
margin, regularization_coefficient : float
    The coefficient multiplies the gradient.
use_linear : bool
    False: the cost is squared.

Returns
-------
NDArray
    Same shape and dtype as ``data``.

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([[0.5, 0]])
>>> x.attach_grad()
>>> with mx.autograd.record():
...     y = mx.nd.SVMOutput(x, mx.nd.array([0]))
>>> y.backward()
>>> x.grad.asnumpy().tolist()
[[-1.0, 2.0]]
""",
)

operator(
    "_backward_SVMOutput",
    "data label",
    _SVM,
    same_dtype=False,
    infer=lambda a, x, label: x,
    gradient=NO_GRADIENT,
    doc="Gradient of ``SVMOutput``.",
)


def _kl_sparse(a: Any, x: Spec, moving: Spec) -> Any:
    name = "IdentityAttachKLSparseReg"
    check_floats(name, x)
    want = (math.prod(x.shape[1:]),)
    if moving.shape != want:
        raise ShapeError(
            f"operator '{name}': moving_avg must have shape {want}, one number per unit of data {x.shape}, but has "
            f"{moving.shape}.",
            operator=name,
            shapes=[x.shape, moving.shape],
        )
    return x, moving


operator(
    "IdentityAttachKLSparseReg",
    "data moving_avg",
    {"sparseness_target": Float(0.100000001), "penalty": Float(0.00100000005), "momentum": Float(0.899999976)},
    infer=_kl_sparse,
    gradient=Joint(
        lambda F, gs, inputs, outputs, a, needs: (
            F._backward_sparse_regularizer(
                gs[0], outputs[1], sparseness_target=a["sparseness_target"], penalty=a["penalty"]
            ),
            None,
        )
    ),
    outputs=2,
    visible=1,
    mutates=(1,),
    training=True,
    saves="output",
    reference=lambda x, moving, **_: x,
    samples=lambda rng: [sample(rng.uniform(0.1, 0.9, (3, 4)), rng.uniform(0.1, 0.9, 4), check_gradient=False)],
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones(2, "float32"), match="moving_avg must have shape (3,)")],
    doc="""Return the activations; in backward, add the gradient of a penalty for units that are active too often.

The penalty is the Kullback-Leibler divergence of each unit's moving average activation from ``sparseness_target``.

Parameters
----------
data : NDArray
    ``(N, ...)``, activations between 0 and 1.
moving_avg : NDArray
    ``(units,)``; mutated while training.
sparseness_target, penalty, momentum : float

Returns
-------
NDArray
    Same shape and dtype as ``data``.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.IdentityAttachKLSparseReg(mx.nd.array([[0.5]]), mx.nd.array([0.5])).asnumpy().tolist()
[[0.5]]
""",
)

operator(
    "_backward_sparse_regularizer",
    "grad average",
    {"sparseness_target": Float(0.100000001), "penalty": Float(0.00100000005)},
    infer=same,
    gradient=NO_GRADIENT,
    doc="Gradient of ``IdentityAttachKLSparseReg``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Losses


def _cross_entropy(a: Any, x: Spec, label: Spec) -> Spec:
    _classes("softmax_cross_entropy")(a, x, label)
    return Spec((1,), x.dtype)


def _cross_entropy_reference(x: Any, label: Any) -> Any:
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    return -np.log(p[np.arange(len(x)), label.astype(int)]).sum().reshape(1)


operator(
    "softmax_cross_entropy",
    "data label",
    same_dtype=False,
    infer=_cross_entropy,
    gradient=(lambda F, g, y, x, label: F._backward_softmax_cross_entropy(g, x, label), None),
    saves="data label",
    reference=_cross_entropy_reference,
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), np.array([0, 3, 1], "int32"))],
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones(3, "float32"), match="wants a label of shape (2,)")],
    doc="""Compute the sum over the batch of ``-ln softmax(data)[label]``.

Parameters
----------
data : NDArray
    ``(N, K)``, floats.
label : NDArray
    Class numbers, ``(N,)``.

Returns
-------
NDArray
    ``(1,)``.

Raises
------
ShapeError
    If the label does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.softmax_cross_entropy(mx.nd.array([[0, 0]]), mx.nd.array([1])).astype("float64").asnumpy().round(4).tolist()
[0.6931]
""",
)

operator(
    "_backward_softmax_cross_entropy",
    "grad data label",
    same_dtype=False,
    infer=lambda a, g, x, label: x,
    gradient=NO_GRADIENT,
    composed=lambda F, g, x, label: g * (F.softmax(x, axis=1) - F._cast_like(F.one_hot(label, depth=x.shape[1]), x)),
    doc="Gradient of ``softmax_cross_entropy``.",
)


def _ctc(a: Any, x: Spec, label: Spec, data_lengths: Spec | None = None, label_lengths: Spec | None = None) -> Any:
    name = "CTCLoss"
    check_floats(name, x)
    if len(x.shape) != 3 or len(label.shape) != 2 or label.shape[0] != x.shape[1]:
        raise ShapeError(
            f"operator '{name}' wants data (T, N, C) and label (N, L) but got {x.shape} and {label.shape}.",
            operator=name,
            shapes=[x.shape, label.shape],
        )
    if label.shape[1] > x.shape[0]:
        raise ShapeError(
            f"operator '{name}': {label.shape[1]} labels do not fit the {x.shape[0]} steps of data {x.shape}.",
            operator=name,
            shapes=[x.shape, label.shape],
        )
    for key, lengths in (("data_lengths", data_lengths), ("label_lengths", label_lengths)):
        if not a[f"use_{key}"]:
            continue
        if lengths is None:
            raise ParameterError(f"operator '{name}': use_{key}=True but no {key} are given.", operator=name)
        if lengths.shape != (x.shape[1],):
            raise ShapeError(
                f"operator '{name}': {key} must have shape {(x.shape[1],)}, one per instance, but has {lengths.shape}.",
                operator=name,
                shapes=[lengths.shape],
            )
    return Spec((x.shape[1],), x.dtype), x


def _ctc_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if gs[1] is not None:
        raise AutogradError(
            "operator 'CTCLoss' has first derivatives only; gradients of its gradient are not defined. Take "
            "create_graph=False, or stop the gradient before it with BlockGrad.",
            operator="CTCLoss",
        )
    return F.broadcast_mul(F.expand_dims(F.expand_dims(gs[0], axis=0), axis=2), outputs[1]), None, None, None


def _ctc_reference(x: Any, label: Any, times: Any = None, lengths: Any = None, **a: Any) -> Any:
    """Sum over every path of classes that reads as the label."""
    blank = 0 if a.get("blank_label", "first") == "first" else x.shape[2] - 1
    padding = 0 if blank == 0 else -1
    p = np.exp(x) / np.exp(x).sum(2, keepdims=True)
    losses = []
    for n in range(x.shape[1]):
        steps = int(times[n]) if a.get("use_data_lengths") else x.shape[0]
        want = [int(c) for c in label[n]]
        want = want[: int(lengths[n])] if a.get("use_label_lengths") else [c for c in want if c != padding]
        total = 0.0
        for path in itertools.product(range(x.shape[2]), repeat=steps):
            read = [c for i, c in enumerate(path) if c != blank and (i == 0 or path[i - 1] != c)]
            if read == want:
                total += math.prod(p[t, n, c] for t, c in enumerate(path))
        losses.append(-math.log(total) if total else 0.0)
    return np.array(losses)


operator(
    "CTCLoss",
    "data label data_lengths? label_lengths?",
    {
        "use_data_lengths": Bool(False),
        "use_label_lengths": Bool(False),
        "blank_label": Choice("first", choices=("first", "last")),
    },
    aliases=("ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss"),
    same_dtype=False,
    infer=_ctc,
    gradient=Joint(_ctc_gradient),
    outputs=2,
    visible=1,
    saves="output",
    reference=_ctc_reference,
    # First derivatives are tested in tests/operators/test_loss_operators.py.
    samples=lambda rng: [
        sample(
            rng.standard_normal((4, 2, 4)),
            np.array([[1, 2, 0], [3, 3, 0]], "float32"),
            None,
            None,
            check_gradient=False,
        ),
        sample(
            rng.standard_normal((4, 2, 4)),
            np.array([[0, 1, -1], [2, 2, 2]], "float32"),
            None,
            None,
            blank_label="last",
            check_gradient=False,
        ),
        sample(
            rng.standard_normal((4, 2, 3)),
            np.array([[1, 2], [1, 1]], "float32"),
            np.array([3, 4], "float32"),
            np.array([2, 1], "float32"),
            use_data_lengths=True,
            use_label_lengths=True,
            check_gradient=False,
        ),
        sample(rng.standard_normal((2, 1, 3)), np.zeros((1, 1), "float32"), None, None, check_gradient=False),
    ],
    errors=lambda: [
        error(np.ones((2, 1, 3), "float32"), np.ones((1, 3), "float32"), None, None, match="3 labels do not fit"),
        error(np.ones((2, 3), "float32"), np.ones((1, 3), "float32"), None, None, match="wants data (T, N, C)"),
        error(
            np.ones((4, 1, 3), "float32"),
            np.ones((1, 3), "float32"),
            None,
            None,
            use_label_lengths=True,
            match="no label_lengths are given",
        ),
    ],
    doc="""Compute the connectionist temporal classification loss of sequences of scores.

The loss is ``-ln`` of the probability that a path of classes, with repetitions merged and blanks dropped, reads as the
label (Graves et al. 2006). It and its gradient are 0 where no path can. Softmax is included.

Parameters
----------
data : NDArray
    ``(T, N, C)``, scores before softmax, floats.
label : NDArray
    ``(N, L)``, class numbers, ``L`` at most ``T``. Ends at the first 0 (blank first) or -1 (blank last), unless
    ``label_lengths`` say.
data_lengths, label_lengths : NDArray, optional
    ``(N,)``, used with ``use_data_lengths`` and ``use_label_lengths``.
use_data_lengths, use_label_lengths : bool
blank_label : {"first", "last"}
    Whether class 0 or class ``C - 1`` is the blank.

Returns
-------
NDArray
    ``(N,)``. Has first derivatives only.

Raises
------
ShapeError
    If the shapes do not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.CTCLoss(mx.nd.zeros((1, 1, 2)), mx.nd.array([[1]])).astype("float64").asnumpy().round(4).tolist()
[0.6931]
""",
)
