"""A call of an operator: check, run the kernel (or push it), wrap the results, record.

Order of a call: unwrap the inputs; look up their signature (shapes and dtypes), which runs the record's inference
once per signature and so validates; run the kernel in the caller, or push it (:mod:`mxcore.dispatch.deferred`); wrap; leave a
tape node if this thread records and an input is in the graph. Infix arithmetic has a shorter way for the common
case (:mod:`mxcore.dispatch.fast`); everything it does not handle comes here. ``benchmarks/hotpath.py`` guards both.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from ..instruments import instruments
from ..operators import NO_GRADIENT, ZERO_GRADIENT, Broadcasting, Joint, Operator, Spec
from ..spec import AutogradError, DTypeError, MXCoreError, OperatorError, ParameterError, ShapeError
from . import rng, runtime
from .array import Array, dtype_of, settled, shape_of, wrap
from .context import current_context
from .deferred import fail_call, push_call, runs_here, store
from .faults import AT_THE_CALL, bad_input, check_same_dtype, describe, failed
from .observed import begun
from .recording import Output, new_node, recorders, state
from .writes import touched

#: Signatures kept per bound operator before the cache is cleared.
SIGNATURES = 4096


class Storage:
    """What storage types other than dense have to say about a call; nothing until their classes are imported.

    Attributes
    ----------
    adapt : callable or None
        ``adapt(bound, inputs, cls) -> (bound, cls)``: what to call, and the class of the results.
    """

    __slots__ = ("adapt",)

    def __init__(self) -> None:
        self.adapt: Callable[[Bound, Sequence[Any], Any], tuple[Bound, Any]] | None = None


storage = Storage()


def pullback_of(operator: Operator, attributes: dict[str, Any]) -> Any:
    """Return ``pullback(F, g, inputs, out, needs) -> sequence`` for an operator with fixed attributes.

    ``g`` and ``out`` are single values for one output, sequences for several.
    """
    gradient = operator.gradient
    if gradient is NO_GRADIENT:

        def none(F: Any, g: Any, inputs: Any, out: Any, needs: Any) -> Any:
            raise AutogradError(
                f"operator '{operator.name}' has no gradient, and backward reached it. Stop the gradient before it "
                f"with BlockGrad, or compute it outside autograd.record().",
                operator=operator.name,
            )

        return none
    if gradient is ZERO_GRADIENT:
        return lambda F, g, inputs, out, needs: [
            F.zeros_like(x) if need and x is not None else None for x, need in zip(inputs, needs)
        ]
    several = operator.count(operator.outputs, attributes) > 1
    if isinstance(gradient, Joint):
        fn = gradient.fn
        if several:
            return lambda F, g, inputs, out, needs: fn(F, g, inputs, out, attributes, needs)
        return lambda F, g, inputs, out, needs: fn(F, (g,), inputs, (out,), attributes, needs)
    if isinstance(gradient, Broadcasting):
        left, right = gradient
        return lambda F, g, inputs, out, needs: (
            F._sum_like(left(F, g, out, *inputs), inputs[0]) if needs[0] else None,
            F._sum_like(right(F, g, out, *inputs), inputs[1]) if needs[1] else None,
        )
    rules = tuple(gradient)
    if several:
        # Rules per input see the first output and its gradient.
        def first(F: Any, g: Any, inputs: Any, out: Any, needs: Any) -> Any:
            return [
                r(F, g[0], out[0], *inputs, **attributes) if need and r is not None else None
                for r, need in zip(rules, needs)
            ]

        return first
    return lambda F, g, inputs, out, needs: [
        r(F, g, out, *inputs, **attributes) if need and r is not None else None for r, need in zip(rules, needs)
    ]


def short_rules(operator: Operator, attributes: dict[str, Any]) -> Any:
    """Return the rules of an operator of one or two arrays with one output, attributes filled in; else None.

    ``(rule,)``, or ``(left, right, broadcasts)``: what backward's short way runs without building lists.
    """
    gradient = operator.gradient
    if operator.variadic or operator.count(operator.outputs, attributes) != 1:
        return None
    if isinstance(gradient, Broadcasting):
        return (gradient.left, gradient.right, True)
    if not isinstance(gradient, tuple) or isinstance(gradient, Joint) or len(gradient) != len(operator.inputs):
        return None
    if len(gradient) > 2 or any(i.optional for i in operator.inputs):
        return None
    rules = tuple(functools.partial(r, **attributes) if r is not None and attributes else r for r in gradient)
    return rules if len(rules) == 1 else (*rules, False)


class Signature:
    """What is known about calls with inputs of certain shapes and dtypes.

    Attributes
    ----------
    specs : tuple of Spec or None
        Of the outputs; None where the shape depends on values.
    nbytes : int
        Of the outputs.
    estimate : Estimate or None
        What ``engine`` has learned about the cost.
    """

    __slots__ = ("engine", "estimate", "nbytes", "specs")

    def __init__(self, specs: tuple[Spec, ...] | None) -> None:
        self.specs = specs
        self.nbytes = sum(math.prod(s.shape) * s.dtype.itemsize for s in specs or ())
        self.engine: Any = None
        self.estimate: Any = None

    def learn(self, now: Any, bound: Bound, key: tuple[Any, ...], ctx: Any) -> Any:
        """Return the estimate of the engine in use, asking for it at the first call."""
        self.engine = now.engine
        self.estimate = now.engine.estimate(
            ("call", bound.operator.name, repr(bound.attributes), repr(key), str(ctx), bound.library.name)
        )
        return self.estimate


class Bound:
    """An operator with its attributes parsed: what is the same for every call with these attributes.

    Attributes
    ----------
    operator : Operator
    attributes : dict
    library : OperatorLibrary or None
        The library ``kernel`` belongs to; :meth:`rebind` changes both.
    kernel : callable
        ``kernel(*arrays) -> array or tuple of arrays``.
    pullback : callable
        See :func:`pullback_of`.
    rules : tuple or None
        See :func:`short_rules`.
    writes : tuple of int
        Inputs that the kernel changes, known in advance.
    separate : bool
        The gradients of several inputs are computed each by itself, and may be asked for one by one.
    backward : dict
        What autograd has learned about the rules, by shapes.
    saved : (tuple of int, bool)
        Which inputs, and whether the outputs, are read by value in backward.
    """

    __slots__ = (
        "arity",
        "attributes",
        "backward",
        "kernel",
        "library",
        "operator",
        "outputs",
        "plain",
        "pullback",
        "rules",
        "saved",
        "separate",
        "signatures",
        "takes_out",
        "visible",
        "writes",
    )

    def __init__(self, operator: Operator, attributes: dict[str, Any]) -> None:
        self.operator = operator
        self.attributes = attributes
        self.library: Any = None
        self.kernel: Any = None
        self.takes_out = False
        self.signatures: dict[Any, Any] = {}
        self.outputs = operator.count(operator.outputs, attributes)
        self.visible = self.outputs if operator.visible is None else operator.count(operator.visible, attributes)
        self.pullback = pullback_of(operator, attributes)
        self.rules = short_rules(operator, attributes)
        gradient = operator.gradient
        several = len(operator.inputs) > 1 and not operator.variadic
        self.separate = several and (
            gradient.separate
            if isinstance(gradient, Joint)
            else isinstance(gradient, tuple) and not isinstance(gradient, Broadcasting)
        )
        self.backward: dict[Any, Any] = {}
        self.arity = len(operator.inputs)
        self.writes = () if callable(operator.mutates) else operator.mutates
        # Nothing beyond "run the kernel, wrap one result": the common case has a shorter way.
        self.plain = not (operator.random or operator.training or operator.mutates or operator.composed)
        names = operator.saves
        self.saved: tuple[tuple[int, ...] | None, bool] = (None, True)
        if names is not None:
            wanted = names.split()
            self.saved = (tuple(i for i, x in enumerate(operator.inputs) if x.name in wanted), "output" in wanted)

    def rebind(self, library: Any) -> None:
        """Resolve the kernel in ``library``."""
        kernel = library.kernel(self.operator.name)
        self.kernel = functools.partial(kernel, **self.attributes) if self.attributes else kernel
        self.takes_out = library.takes_out(self.operator.name)
        self.library = library

    def infer(self, inputs: Sequence[Any]) -> tuple[Spec, ...] | None:
        """Return the specs of the outputs, validating the inputs; None where the shape depends on values.

        Raises
        ------
        ShapeError, DTypeError
        """
        specs = [None if x is None else Spec(shape_of(x), dtype_of(x)) for x in inputs]
        operator = self.operator
        if operator.same_dtype:
            check_same_dtype(operator, specs)
        if operator.infer is None:
            return None
        try:
            result = operator.infer(self.attributes, *specs)
        except MXCoreError:
            raise
        except (ValueError, TypeError, IndexError) as e:
            raise ShapeError(
                f"operator '{operator.name}' cannot work on {describe(operator, specs, self.attributes)}: {e}",
                operator=operator.name,
                shapes=[s.shape for s in specs if s],
            ) from e
        return (result,) if isinstance(result, Spec) else tuple(result)


def invoke(bound: Bound, inputs: Sequence[Any], out: Any = None, cls: Any = None, ctx: Any = None) -> Any:
    """Call an operator.

    Parameters
    ----------
    bound : Bound
    inputs : sequence of Array or None
    out : Array, sequence of Array, or None
        Where to put the visible outputs; mutated.
    cls, ctx : type, Context
        Class and device of the outputs where no input tells.

    Returns
    -------
    Array, or list of Array for several visible outputs

    Raises
    ------
    ShapeError, DTypeError
        At the call, whatever the engine.
    OperatorError
        The kernel failed, with an INLINE engine; with others the outputs fail and raise it when they are read.
    """
    operator = bound.operator
    signature: list[Any] = []
    arrays: list[Any] = []
    found = None
    for position, x in enumerate(inputs):
        if x is None:
            arrays.append(None)
            signature.append(None)
            continue
        if not isinstance(x, Array):
            raise bad_input(operator, position, x)
        if found is None:
            found = x._ctx
            if cls is None:
                cls = x.__class__
        elif x._ctx is not found:
            raise OperatorError(
                f"operator '{operator.name}': all inputs must be on one device, but input {position} is on {x._ctx} "
                f"and an earlier one on {found}. Move it with as_in_context({found}).",
                operator=operator.name,
            )
        data = x._data
        arrays.append(data)
        if data is not None:
            signature.append(data.shape)
            signature.append(data.dtype.char)
        else:
            signature.append(shape_of(x))
            signature.append(dtype_of(x).char)
    ctx = found or ctx or current_context()
    if storage.adapt is not None:
        bound, cls = storage.adapt(bound, inputs, cls)
    key = tuple(signature)
    entry = bound.signatures.get(key)
    if entry is None:
        entry = Signature(bound.infer(inputs))
        if len(bound.signatures) >= SIGNATURES:
            bound.signatures.clear()
        bound.signatures[key] = entry
    specs = entry.specs

    now = runtime.current()
    library = now.library(ctx)
    if bound.library is not library:
        bound.rebind(library)

    recording = bool(recorders.count) and state.recording
    if recording:
        recording = False
        for x in inputs:
            if x is not None and x._tape is not None:
                recording = True
                break
    extra: dict[str, Any] | None = None
    if not bound.plain:
        if recording and operator.composed is not None and operator.gradient is NO_GRADIENT:
            return _composed(bound, inputs, out)
        extra = {}
        if operator.random:
            extra["rng"] = rng.generator(ctx)
        if operator.training:
            extra["training"] = state.training

    outs = None
    if out is not None:
        outs = _check_out(bound, out, specs, recording)
    estimate: Any = None
    if now.inline:
        for position, x in enumerate(inputs):
            if x is not None and (cell := x._cell) is not None and cell.var is not None:
                arrays[position] = settled(x)  # it came from another engine, and may have failed there
    else:
        if not now.first:
            return push_call(now, bound, inputs, extra, specs, outs, cls, ctx, recording, {})
        estimate = entry.estimate if entry.engine is now.engine else entry.learn(now, bound, key, ctx)
        for x in inputs if outs is None else (*inputs, *outs):
            # Nearly always the engine knows none of them, and then nothing can be pending.
            if x is not None and (cell := x._cell) is not None and cell.var is not None:
                written = outs or ()
                if operator.mutates:
                    written = [*written, *[inputs[p] for p in operator.written(bound.attributes, len(inputs))]]
                if not runs_here(now.engine, inputs, written, estimate):
                    hints = {"nbytes": entry.nbytes, "estimate": estimate}
                    return push_call(now, bound, inputs, extra, specs, outs, cls, ctx, recording, hints)
                arrays = [None if x is None else x._data for x in inputs]  # a wait may have brought them
                break

    kernel = bound.kernel
    direct = outs is not None and len(outs) == 1 and bound.takes_out and bound.outputs == 1
    told = begun(operator.name, ctx, inputs, outs, bound.visible) if instruments.begin else None
    began = perf_counter_ns() if estimate is not None and estimate.countdown <= 0 else 0
    try:
        if direct:
            result = kernel(*arrays, out=outs[0]._data, **(extra or {}))  # type: ignore[index]
        elif extra:
            result = kernel(*arrays, **extra)
        else:
            result = kernel(*arrays)
    except Exception as e:
        error = e
        if not isinstance(e, MXCoreError):
            error = failed(bound, inputs, ctx, e)
            error.__cause__ = e
        if told is not None:
            told.ended((), error)
        if now.inline or specs is None or isinstance(error, AT_THE_CALL):
            raise error  # noqa: B904 (chained already)
        return fail_call(now, bound, inputs, specs, outs, cls, ctx, recording, error)
    if began:
        took = perf_counter_ns() - began
        now.engine.note(operator.name, estimate.ns, took, "caller", "nothing pending")
        estimate.record(took)
    elif estimate is not None:
        estimate.countdown -= 1

    if operator.mutates:
        for position in operator.written(bound.attributes, len(inputs)):
            if inputs[position] is not None:
                touched(inputs[position])
    if bound.outputs == 1:
        if outs is None:
            y = wrap(cls, result, ctx)
        else:
            y = outs[0]
            if not direct:
                store(library, y, result)
            touched(y)
        if recording:
            own = new_node(bound, tuple(inputs), y._data)
            y._tape = own
            if y._cell is not None:
                own.watch(y._cell)
        if told is not None:
            told.ended((y,))
        return y
    ys = []
    node: Any = None
    if recording:
        node = new_node(bound, tuple(inputs), result)
    for i in range(bound.visible):
        if outs is None:
            y = wrap(cls, result[i], ctx)
        else:
            y = outs[i]
            store(library, y, result[i])
            touched(y)
        if node is not None:
            y._tape = Output(node, i)
            if y._cell is not None:
                node.watch(y._cell)
        ys.append(y)
    if told is not None:
        told.ended(ys)
    return ys[0] if bound.visible == 1 else ys


def _check_out(bound: Bound, out: Any, specs: Any, recording: bool) -> list[Any]:
    outs = list(out) if isinstance(out, list | tuple) else [out]
    operator = bound.operator
    if len(outs) != bound.visible:
        raise ParameterError(
            f"operator '{operator.name}' has {bound.visible} output(s) but out= holds {len(outs)} array(s).",
            operator=operator.name,
        )
    for i, y in enumerate(outs):
        if not isinstance(y, Array):
            raise DTypeError(f"operator '{operator.name}': out= must be an NDArray but is {type(y).__name__}.")
        if specs is not None and tuple(specs[i].shape) != tuple(shape_of(y)):
            raise ShapeError(
                f"operator '{operator.name}': out= has shape {shape_of(y)} but the result has {specs[i].shape}.",
                operator=operator.name,
            )
        if recording or (state.recording and y._tape is not None):
            refuse_inplace(y, operator.name)
    return outs


def refuse_inplace(y: Any, what: str) -> None:
    """Raise AutogradError if ``y`` is in the graph while this thread records."""
    if y._tape is not None and state.recording:
        raise inplace_refused(what)


def inplace_refused(what: str) -> AutogradError:
    """Return the error for a write into the graph; its first words are MXNet's, which programs look for."""
    return AutogradError(
        f"Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd: {what} would overwrite "
        f"an array of the graph, or part of one with a value of the graph. Write y = x + ... in place of x += ..., build "
        f"arrays with concat, where or scatter_nd, or leave autograd.record() first.",
        operator=what,
    )


def _composed(bound: Bound, inputs: Sequence[Any], out: Any) -> Any:
    from .functions import recorded

    result = bound.operator.composed(recorded, *inputs, **bound.attributes)  # type: ignore[misc]
    if out is not None:
        raise ParameterError(f"operator '{bound.operator.name}' takes no out= while gradients of gradients are taken.")
    return result
