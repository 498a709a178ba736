"""Custom operators in Python (``mx.operator``), called as ``nd.Custom(..., op_type="name")``.

A :class:`CustomOpProp` declares inputs, outputs and shapes and makes a :class:`CustomOp`, whose ``forward`` and
``backward`` compute with NDArrays. An exception raised in them reaches the caller as an ``OperatorError`` (an
``MXNetError``) that says so, chained to the original with its traceback, which MXNet loses.
(For an operator that also works symbolically and on every backend, declare a record with
:func:`mxcore.operators.operator`.)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from .. import operators
from ..autograd import Function, is_training
from ..dispatch.array import Array
from ..dispatch.context import current_context
from ..instruments import instruments
from ..operators.attributes import REQUIRED
from ..spec import MXCoreError, OperatorError, ParameterError
from .creation import zeros
from .observed import told

_registered: dict[str, type[CustomOpProp]] = {}


class CustomOp:
    """The computation of a custom operator; subclass it."""

    def forward(self, is_train: bool, req: list[str], in_data: list[Any], out_data: list[Any], aux: list[Any]) -> None:
        """Compute ``out_data`` from ``in_data`` with :meth:`assign`. Mutates ``out_data``."""

    def backward(
        self,
        req: list[str],
        out_grad: list[Any],
        in_data: list[Any],
        out_data: list[Any],
        in_grad: list[Any],
        aux: list[Any],
    ) -> None:
        """Compute ``in_grad`` with :meth:`assign`. Mutates ``in_grad``."""

    def assign(self, dst: Any, req: str, src: Any) -> None:
        """Write ``src`` to ``dst`` as ``req`` says: null, write, inplace or add."""
        if req == "null":
            return
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src


class CustomOpProp:
    """The declaration of a custom operator; subclass it.

    Parameters
    ----------
    need_top_grad : bool
        Whether backward needs the gradients of the outputs; False for a loss.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of states that the operator keeps and changes."""
        return []

    def infer_shape(self, in_shape: list[Any]) -> Any:
        """Return shapes of inputs, outputs and states; the default gives every output the first input's."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: list[Any]) -> Any:
        """Return dtypes of inputs, outputs and states; the default gives all the first input's."""
        first = in_type[0]
        return in_type, [first] * len(self.list_outputs()), [first] * len(self.list_auxiliary_states())

    def infer_storage_type(self, in_stype: list[str]) -> Any:
        """Return storage types; dense."""
        return in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())

    def declare_backward_dependency(self, out_grad: list[Any], in_data: list[Any], out_data: list[Any]) -> list[Any]:
        """Say what backward reads. Everything is kept here, so the answer is not used."""
        return [*(out_grad if self.need_top_grad_ else []), *in_data, *out_data]

    def create_operator(self, ctx: Any, in_shapes: list[Any], in_dtypes: list[Any]) -> CustomOp:
        """Return the computation."""
        return CustomOp()


def register(reg_name: str) -> Callable[[type[CustomOpProp]], type[CustomOpProp]]:
    """Return a class decorator that enters a :class:`CustomOpProp` under ``reg_name``.

    Examples
    --------
    >>> import mxcore as mx
    >>> class Double(mx.operator.CustomOp):
    ...     def forward(self, is_train, req, in_data, out_data, aux):
    ...         self.assign(out_data[0], req[0], in_data[0] * 2)
    ...     def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    ...         self.assign(in_grad[0], req[0], out_grad[0] * 2)
    >>> @mx.operator.register("double_example")
    ... class DoubleProp(mx.operator.CustomOpProp):
    ...     def create_operator(self, ctx, shapes, dtypes):
    ...         return Double()
    >>> mx.nd.Custom(mx.nd.array([1, 2]), op_type="double_example").asnumpy().tolist()
    [2.0, 4.0]
    """

    def enter(cls: type[CustomOpProp]) -> type[CustomOpProp]:
        if not (isinstance(cls, type) and issubclass(cls, CustomOpProp)):
            raise TypeError(f"mx.operator.register: {cls!r} is not a subclass of CustomOpProp.")
        _registered[reg_name] = cls
        return cls

    return enter


def get_all_registered_operators() -> list[str]:
    """Names and aliases of all operators."""
    return operators.names()


class OperatorArguments:
    """Arguments of an operator: ``narg``, ``names``, ``types``."""

    def __init__(self, names: list[str], types: list[str]) -> None:
        self.narg = len(names)
        self.names = names
        self.types = types


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Return names and types of an operator's inputs and attributes."""
    record = operators.get(op_name)
    names = [i.name for i in record.inputs] + list(record.attributes)
    types = ["NDArray-or-Symbol" + ("[]" if i.variadic else "") for i in record.inputs]
    for a in record.attributes.values():
        types.append(a.accepted() + (", required" if a.default is REQUIRED else f", optional, default={a.default!r}"))
    return OperatorArguments(names, types)


@contextmanager
def _told(prop: CustomOpProp, what: str, inputs: Any) -> Any:
    """Turn an exception of the user's code into one that names the operator; errors of mxcore pass."""
    try:
        yield
    except MXCoreError:
        raise
    except Exception as e:
        raise OperatorError(
            f"operator 'Custom' ({type(prop).__name__}): its {what} raised {type(e).__name__}: {e}. Inputs: "
            + ", ".join(f"{x.dtype.__name__} {x.shape}" for x in inputs),
            operator="Custom",
        ) from e


@contextmanager
def _told_as(name: str, ctx: Any) -> Any:
    """Tell the instruments that the Python code of a custom operator runs, and name what it calls after it."""
    from ..profiler import scopes  # only while somebody listens

    # The code itself reads and writes nothing: what it calls does.
    with scopes.counted_as(scopes.CUSTOM), told(f"{name}::pure_python", ctx), scopes.Scope(f"{name}::"):
        yield


_unheard = nullcontext()


def _observed(name: str, ctx: Any) -> AbstractContextManager[None]:
    return _told_as(name, ctx) if instruments.begin else _unheard


class _Call(Function):
    """One call of a custom operator, recorded as one node."""

    def __init__(
        self, name: str, prop: CustomOpProp, op: CustomOp, shapes: Any, dtypes: Any, aux: list[Any], ctx: Any
    ) -> None:
        super().__init__()
        self._name, self._ctx = name, ctx
        self._prop, self._op, self._aux = prop, op, aux
        self._shapes, self._dtypes = shapes, dtypes
        self._train = is_training()

    def forward(self, *inputs: Any) -> Any:
        ctx = inputs[0].context if inputs else None
        outputs = [zeros(s, ctx, t) for s, t in zip(self._shapes, self._dtypes)]
        with _told(self._prop, "forward", inputs), _observed(self._name, self._ctx):
            self._op.forward(self._train, ["write"] * len(outputs), list(inputs), outputs, self._aux)
        self._in, self._out = list(inputs), outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def backward(self, *grads: Any) -> Any:
        in_grad = [zeros(x.shape, x.context, x.dtype) for x in self._in]
        with _told(self._prop, "backward", self._in), _observed(f"_backward_{self._name}", self._ctx):
            self._op.backward(["write"] * len(in_grad), list(grads), self._in, self._out, in_grad, self._aux)
        return in_grad


def custom(*data: Any, op_type: str, name: str | None = None, out: Any = None, **kwargs: Any) -> Any:
    """Call the custom operator ``op_type`` (``mx.nd.Custom``).

    Parameters
    ----------
    *data : NDArray
        The declared arguments, then the states.
    op_type : str
        The name it was registered under.
    **kwargs
        Declared arguments by name, and parameters of the declaration (handed over as strings, as in MXNet).

    Raises
    ------
    ParameterError
        If no operator of that name is registered.
    OperatorError
        If the number of inputs does not fit the declaration.
    """
    cls: Any = _registered.get(op_type)
    if cls is None:
        raise ParameterError(
            f"operator 'Custom': no custom operator '{op_type}' is registered. Registered: "
            f"{', '.join(sorted(_registered)) or 'none'}. Register it with @mx.operator.register('{op_type}').",
            operator="Custom",
        )
    tensors = {k: v for k, v in kwargs.items() if isinstance(v, Array)}
    prop = cls(**{k: str(v) for k, v in kwargs.items() if k not in tensors})
    names = [*prop.list_arguments(), *prop.list_auxiliary_states()]
    inputs = list(data)
    for n in names[len(inputs) :]:
        if n in tensors:
            inputs.append(tensors.pop(n))
    if len(inputs) != len(names):
        raise OperatorError(
            f"operator 'Custom' ({op_type}): wants {len(names)} inputs ({', '.join(names)}) but got {len(inputs)}.",
            operator="Custom",
        )
    count = len(prop.list_arguments())
    arguments, aux = inputs[:count], inputs[count:]
    shapes = [list(x.shape) for x in arguments]
    _, out_shapes, *_rest = prop.infer_shape(shapes)
    _, out_types, *_rest = prop.infer_type([x.dtype for x in arguments])
    ctx = arguments[0].context if arguments else current_context()
    op = prop.create_operator(ctx, shapes, [x.dtype for x in arguments])
    out_shapes = [tuple(int(n) for n in np.atleast_1d(s)) for s in out_shapes]
    result = _Call(op_type, prop, op, out_shapes, out_types, aux, ctx)(*arguments)
    if out is not None:
        for y, r in zip([out] if isinstance(out, Array) else out, [result] if isinstance(result, Array) else result):
            y[:] = r
        return out
    return result
