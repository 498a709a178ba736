"""TAPE: record computations, differentiate them.

``with autograd.record(): y = f(x)``, then ``y.backward()``. Flags are thread-local. Behaviour as MXNet 1.9.1's
``mxnet.autograd``, but for one thing: overwriting a value that backward needs is an error, not a wrong gradient.
"""

from __future__ import annotations

from typing import Any

from ..dispatch.array import Array, wrap
from ..dispatch.functions import call
from ..dispatch.recording import Leaf, set_recording, set_training, state
from ..spec import AutogradError
from .backward import deliver, run
from .function import Function

__all__ = [
    "Function",
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]


class _Scope:
    """Sets the two flags of this thread and puts them back; may be entered again and nested."""

    __slots__ = ("_before", "_recording", "_training")

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._recording = recording
        self._training = training
        self._before: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        recording, training = self._recording, self._training
        self._before.append(
            (
                None if recording is None else set_recording(recording),
                None if training is None else set_training(training),
            )
        )

    def __exit__(self, *exc: Any) -> None:
        recording, training = self._before.pop()
        if recording is not None:
            set_recording(recording)
        if training is not None:
            set_training(training)


def record(train_mode: bool = True) -> _Scope:
    """Return a scope in which computations are recorded.

    Parameters
    ----------
    train_mode : bool
        Whether operators like Dropout behave as in training.

    Examples
    --------
    >>> import mxcore as mx
    >>> x = mx.nd.array([1.0, 2.0])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.asnumpy().tolist()
    [2.0, 4.0]
    """
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """Return a scope in which nothing is recorded."""
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """Return a scope with training behaviour; recording stays as it is."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """Return a scope with inference behaviour; recording stays as it is."""
    return _Scope(None, False)


def is_recording() -> bool:
    """Whether this thread records."""
    return state.recording


def is_training() -> bool:
    """Whether this thread is in training mode."""
    return state.training


def mark_variables(variables: Any, gradients: Any, grad_reqs: Any = "write") -> None:
    """Attach gradient arrays to variables. Mutates the variables; cuts them from any graph they were in.

    Parameters
    ----------
    variables, gradients : NDArray or list of NDArray
    grad_reqs : {"write", "add", "null"} or list of those
    """
    if isinstance(variables, Array):
        variables, gradients = [variables], [gradients]
    if isinstance(grad_reqs, str):
        grad_reqs = [grad_reqs] * len(variables)
    for x, g, req in zip(variables, gradients, grad_reqs):
        if req not in ("write", "add", "null"):
            raise AutogradError(f"grad_req must be 'write', 'add' or 'null' but is {req!r}.")
        x._tape = Leaf(g, req)


def _as_list(x: Any) -> list[Any]:
    return [x] if isinstance(x, Array) else list(x)


def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Compute the gradients of ``heads`` and put them into the attached gradient arrays.

    Parameters
    ----------
    heads : NDArray or list of NDArray
    head_grads : NDArray, list of NDArray or None, or None
        Gradients of the heads; None means ones.
    retain_graph : bool
        Keep the graph for another backward.
    train_mode : bool
        Whether backward computes as for training.

    Raises
    ------
    AutogradError
        If a head is not in a graph, or the graph was freed.
    StaleValueError
        If a value that backward needs was overwritten.
    """
    heads, head_grads = _heads(heads, head_grads)
    for leaf in run(heads, head_grads, retain_graph, train_mode):
        deliver(leaf)


def _heads(heads: Any, head_grads: Any) -> tuple[list[Any], list[Any] | None]:
    heads = _as_list(heads)
    if head_grads is not None:
        head_grads = _as_list(head_grads)
        if len(head_grads) != len(heads):
            raise AutogradError(f"backward: {len(heads)} head(s) but {len(head_grads)} head gradient(s).")
    return heads, head_grads


def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> Any:
    """Return the gradients of ``heads`` with respect to ``variables``; attached gradient arrays stay untouched.

    Parameters
    ----------
    heads, variables : NDArray or list of NDArray
    head_grads : as in :func:`backward`
    retain_graph : bool or None
        None means the value of ``create_graph``.
    create_graph : bool
        Record the gradient computation, for derivatives of derivatives.
    train_mode : bool

    Returns
    -------
    NDArray, or list of NDArray when ``variables`` is a list

    Raises
    ------
    AutogradError
        If a variable does not take part in the computation of the heads.
    """
    single = isinstance(variables, Array)
    wanted = _as_list(variables)
    if not wanted:
        raise AutogradError("grad: variables must not be empty.")
    heads, head_grads = _heads(heads, head_grads)
    if retain_graph is None:
        retain_graph = create_graph
    tapes = []
    for i, x in enumerate(wanted):
        if x._tape is None:
            raise AutogradError(
                f"grad: variable {i} {x.shape} is not in the graph; call attach_grad() before recording."
            )
        tapes.append(x._tape)
    taken = run(heads, head_grads, retain_graph, train_mode, create_graph, tapes)
    result = []
    # What arrived may be a head gradient, or one array for several variables: everybody gets a copy of their own.
    recording = set_recording(create_graph)
    try:
        for x, g in zip(wanted, taken):
            if g is None:
                result.append(call("zeros_like", (x,)))
            else:
                result.append(call("_copy", (g if isinstance(g, Array) else wrap(x.__class__, g, x._ctx),)))
    finally:
        set_recording(recording)
    return result[0] if single else result


def get_symbol(x: Any) -> Any:
    """Return the recorded history of ``x`` as a symbol.

    Raises
    ------
    AutogradError
        Always, in this version: symbols are not part of it yet.
    """
    raise AutogradError("get_symbol needs the symbol room, which this version of mxcore does not have yet.")
