"""A call of an operator: check, run the kernel (or push it), wrap the results, record.

Order of a call: unwrap the inputs; look up their signature (shapes and dtypes), which runs the record's inference
once per signature and so validates; run the kernel in the caller with an inline engine, or push it; wrap; leave a
tape node if this thread records and an input is in the graph. Infix arithmetic has a shorter way for the common
case (:mod:`mxcore.dispatch.fast`); everything it does not handle comes here. ``benchmarks/hotpath.py`` guards both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..operators import NO_GRADIENT, ZERO_GRADIENT, Broadcasting, Joint, Operator, Spec
from ..spec import AutogradError, DTypeError, MXCoreError, OperatorError, OutOfDeviceMemory, ParameterError, ShapeError
from . import rng, runtime
from .array import Array, Cell, cell_of, dtype_of, settled, shape_of, wrap, writable_data
from .context import Context, current_context
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
    saved : (tuple of int, bool)
        Which inputs, and whether the outputs, are read by value in backward.
    """

    __slots__ = (
        "arity",
        "attributes",
        "kernel",
        "library",
        "operator",
        "outputs",
        "plain",
        "pullback",
        "rules",
        "saved",
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


def describe(operator: Operator, specs: Sequence[Any], attributes: dict[str, Any]) -> str:
    """Say what a call got: every input's name, dtype and shape, then the attributes."""
    names = [i.name for i in operator.inputs]
    if operator.variadic:
        names = [f"{names[0]}[{k}]" for k in range(len(specs))]
    parts = [f"{n} {s.dtype} {s.shape}" for n, s in zip(names, specs) if s is not None]
    given = [f"{k}={v!r}" for k, v in attributes.items() if v != getattr(operator.attributes.get(k), "default", None)]
    return (", ".join(parts) or "no inputs") + (" with " + ", ".join(given) if given else "")


def check_same_dtype(operator: Operator, specs: Sequence[Any]) -> None:
    """Raise DTypeError unless all inputs have one dtype."""
    first = None
    for s in specs:
        if s is None:
            continue
        if first is None:
            first = s.dtype
        elif s.dtype != first:
            raise DTypeError(
                f"operator '{operator.name}' wants inputs of one dtype but got {describe(operator, specs, {})}. "
                f"Cast with astype('{first}').",
                operator=operator.name,
                dtypes=[t.dtype for t in specs if t is not None],
            )


def _type_name(x: Any) -> str:
    kind = type(x)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def bad_input(operator: Operator, position: int, x: Any) -> Exception:
    """Return the error for an input that is not an array."""
    name = operator.inputs[0 if operator.variadic else min(position, len(operator.inputs) - 1)].name
    return DTypeError(
        f"operator '{operator.name}': input '{name}' must be an NDArray but is {_type_name(x)} "
        f"({str(x)[:40]}). Make one with mx.nd.array(...).",
        operator=operator.name,
    )


def failed(bound: Bound, inputs: Sequence[Any], ctx: Any, e: BaseException) -> Exception:
    """Return the error for a kernel that raised, to be chained to ``e``."""
    specs = [None if x is None else Spec(shape_of(x), dtype_of(x)) for x in inputs]
    text = (
        f"operator '{bound.operator.name}' failed on {ctx} (op library '{bound.library.name}') for "
        f"{describe(bound.operator, specs, bound.attributes)}: {e}"
    )
    kind: type[MXCoreError] = OutOfDeviceMemory if isinstance(e, MemoryError) else OperatorError
    return kind(text, operator=bound.operator.name, shapes=[s.shape for s in specs if s])


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
        The kernel failed; at the call with an inline engine.
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
    specs = bound.signatures.get(key, False)
    if specs is False:
        specs = bound.infer(inputs)
        if len(bound.signatures) >= SIGNATURES:
            bound.signatures.clear()
        bound.signatures[key] = specs

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
    if not now.inline:
        return _deferred(now, bound, inputs, extra, specs, outs, cls, ctx, recording)

    kernel = bound.kernel
    direct = outs is not None and len(outs) == 1 and bound.takes_out and bound.outputs == 1
    try:
        if direct:
            result = kernel(*arrays, out=outs[0]._data, **(extra or {}))  # type: ignore[index]
        elif extra:
            result = kernel(*arrays, **extra)
        else:
            result = kernel(*arrays)
    except MXCoreError:
        raise
    except Exception as e:
        raise failed(bound, inputs, ctx, e) from e

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
    return ys[0] if bound.visible == 1 else ys


def store(library: Any, y: Any, value: Any) -> None:
    """Write a raw result into the array ``y``."""
    y._data = library.assign(writable_data(y, library), ..., value)


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


# ---------------------------------------------------------------------------------------------------------------
# Deferred engines


def variable_of(x: Any, engine: Any) -> Any:
    """Return the engine variable of ``x``, making it if needed; one engine's variables never mix with another's."""
    cell = cell_of(x)
    if cell.var is None or cell.engine is not engine:
        if cell.var is not None:
            cell.engine.wait_for_variable(cell.var)
        cell.engine = engine
        cell.var = engine.new_variable()
    return cell.var


def pending(cls: type, spec: Spec, ctx: Context, engine: Any) -> Any:
    """Return an array whose data the engine still owes."""
    y = wrap(cls, None, ctx)
    cell = y._cell = Cell()
    cell.shape, cell.dtype = tuple(spec.shape), spec.dtype
    cell.engine = engine
    cell.var = engine.new_variable()
    return y


def _deferred(
    now: Any,
    bound: Bound,
    inputs: Sequence[Any],
    extra: Any,
    specs: Any,
    outs: Any,
    cls: Any,
    ctx: Context,
    recording: bool,
) -> Any:
    engine, operator, kernel, library = now.engine, bound.operator, bound.kernel, bound.library
    kw = extra or {}
    if specs is None:
        # The shape depends on values: there is nothing to promise before they are known.
        for x in inputs:
            if x is not None:
                settled(x)
        result = kernel(*[None if x is None else x._data for x in inputs], **kw)
        results = result if bound.outputs > 1 else (result,)
        ys = [wrap(cls, r, ctx) for r in results[: bound.visible]]
        hidden = results[bound.visible :]
    else:
        overwrite = outs is not None
        ys = outs if overwrite else [pending(cls, s, ctx, engine) for s in specs[: bound.visible]]
        held = [None] * bound.outputs

        def run() -> None:
            try:
                result = kernel(*[None if x is None else x._data for x in inputs], **kw)
            except MXCoreError:
                raise
            except Exception as e:
                raise failed(bound, inputs, ctx, e) from e
            results = result if bound.outputs > 1 else (result,)
            held[:] = results
            for y, r in zip(ys, results):
                if overwrite:
                    store(library, y, r)
                else:
                    y._data = r

        written = [*ys, *[inputs[p] for p in operator.written(bound.attributes, len(inputs)) if inputs[p] is not None]]
        engine.push(
            run,
            [variable_of(x, engine) for x in inputs if x is not None],
            [variable_of(y, engine) for y in written],
            name=operator.name,
            device=ctx,
        )
        hidden = held
        for y in written[0 if overwrite else len(ys) :]:
            touched(y)
    if recording:
        node = new_node(bound, tuple(inputs), Promised(ys, hidden, bound))
        for i, y in enumerate(ys):
            y._tape = node if bound.outputs == 1 else Output(node, i)
    return ys[0] if bound.visible == 1 else ys


class Promised:
    """Outputs of a pushed call, for its tape node: raw arrays once the engine has made them.

    Holds a list that the task fills, not the arrays themselves, which would be a reference cycle.
    """

    __slots__ = ("bound", "held", "variables")

    def __init__(self, ys: list[Any], held: Any, bound: Bound) -> None:
        self.held = held
        self.bound = bound
        self.variables = [(y._cell.engine, y._cell.var) for y in ys if y._cell is not None]

    def settle(self) -> Any:
        """Wait, then return the raw output, or the tuple of raw outputs."""
        for engine, var in self.variables:
            engine.wait_for_variable(var)
        return tuple(self.held) if self.bound.outputs > 1 else self.held[0]


def mutate(x: Any, fn: Any, reads: Sequence[Any] = (), name: str = "", full: bool = False) -> None:
    """Run ``fn()``, which writes the buffer of ``x``, in order with everything else that touches it.

    Parameters
    ----------
    x : Array
        Mutated; its version rises.
    fn : callable without arguments
        Does the writing, reading ``_data`` of ``x`` and ``reads`` when it runs.
    reads : sequence of Array
    full : bool
        ``fn`` overwrites everything: a failed array is healed by it.
    """
    now = runtime.current()
    cell = x._cell
    if now.inline and (cell is None or cell.var is None):
        for y in reads:
            if y._cell is not None and y._cell.var is not None:
                settled(y)
        fn()
        touched(x)
        return
    engine = now.engine
    own = variable_of(x, engine)
    sources = [variable_of(y, engine) for y in reads]
    engine.push(fn, sources if full else [own, *sources], [own], name=name, device=x._ctx)
    touched(x)
