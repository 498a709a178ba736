"""``autograd.Function``: a differentiable function whose backward the user writes."""

from __future__ import annotations

from typing import Any

from ..dispatch import runtime
from ..dispatch.array import Array, settled, wrap
from ..dispatch.recording import Output, new_node, set_recording, state
from ..spec import AutogradError


class _FunctionOperator:
    """What a node needs to know of an operator, for a user's function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: tuple[Any, ...] = ()


class _Pullback:
    """Stands for a bound operator in the node of a user's function."""

    def __init__(self, function: Function, outputs: int, library: Any, cls: type, ctx: Any) -> None:
        self.function = function
        self.outputs = outputs
        self.rules = None
        self.separate = False
        self.writes = ()
        self.library = library
        self.operator = _FunctionOperator(type(function).__name__)
        # The user keeps what backward needs; there is nothing of ours to guard.
        self.saved = ((), False)
        self._cls = cls
        self._ctx = ctx

    def pullback(self, F: Any, g: Any, inputs: Any, out: Any, needs: Any) -> Any:
        grads = list(g) if self.outputs > 1 else [g]
        outs = out if self.outputs > 1 else (out,)
        raw = not F.recorded
        for i, d in enumerate(grads):
            if d is None:
                d = F.zeros_like(outs[i])
            grads[i] = wrap(self._cls, d, self._ctx) if raw and not isinstance(d, Array) else d
        result = self.function.backward(*grads)
        if isinstance(result, Array):
            result = (result,)
        result = list(result)
        if len(result) != len(inputs):
            raise AutogradError(
                f"{self.operator.name}.backward must return one gradient per input ({len(inputs)}) but returned "
                f"{len(result)}."
            )
        return [d._data if raw and isinstance(d, Array) else d for d in result]


class Function:
    """A differentiable function with a backward of its own.

    Subclass it, write ``forward(*inputs)`` and ``backward(*output_grads)`` with NDArrays, and call an instance.
    An instance is for one call.

    Examples
    --------
    >>> import mxcore as mx
    >>> class Sigmoid(mx.autograd.Function):
    ...     def forward(self, x):
    ...         y = 1 / (1 + mx.nd.exp(-x))
    ...         self.save_for_backward(y)
    ...         return y
    ...     def backward(self, dy):
    ...         (y,) = self.saved_tensors
    ...         return dy * y * (1 - y)
    >>> x = mx.nd.zeros(1)
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = Sigmoid()(x)
    >>> y.backward()
    >>> x.grad.asscalar().item()
    0.25
    """

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *args: Any) -> None:
        """Keep arrays for :meth:`backward`, where they are ``self.saved_tensors``."""
        self.saved_tensors = args

    def __call__(self, *inputs: Any) -> Any:
        if getattr(self, "_used", False):
            raise AutogradError(f"each {type(self).__name__} instance can be called only once; make a new one.")
        self._used = True
        recording = set_recording(False)
        try:
            outputs = self.forward(*inputs)
        finally:
            set_recording(recording)
        if not (state.recording and any(x._tape is not None for x in inputs)):
            return outputs
        single = isinstance(outputs, Array)
        ys = [outputs] if single else list(outputs)
        first = ys[0]
        library = runtime.current().library(first._ctx)
        bound = _Pullback(self, len(ys), library, first.__class__, first._ctx)
        raws = tuple(settled(y) for y in ys)
        node = new_node(bound, tuple(inputs), raws[0] if len(ys) == 1 else raws)
        results = []
        for i, y in enumerate(ys):
            # A fresh wrapper, so that returning an input does not turn the input itself into an output.
            z = wrap(y.__class__, y._data, y._ctx)
            z._cell = y._cell
            z._tape = node if len(ys) == 1 else Output(node, i)
            results.append(z)
        return results[0] if single else results

    def forward(self, *inputs: Any) -> Any:
        """Compute the outputs. Runs without recording."""
        raise NotImplementedError(f"{type(self).__name__} must define forward().")

    def backward(self, *output_grads: Any) -> Any:
        """Return one gradient per input."""
        raise NotImplementedError(f"{type(self).__name__} must define backward().")
