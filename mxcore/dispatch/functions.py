"""Front functions generated from operator records: real signatures, one compiled function per operator.

A function is made when its name is first asked for. Its source is built from the record, so that keywords,
positions and errors are Python's own, and a repeated call costs one dictionary look-up for its attributes.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Mapping
from typing import Any

from .. import operators
from ..operators import Operator
from ..operators.attributes import REQUIRED
from ..spec import ParameterError
from . import runtime
from .array import Array
from .call import Bound, invoke

_bound: dict[str, dict[Any, Bound]] = {}
_BOUND_LIMIT = 8192


def resolve(operator: Operator, values: Mapping[str, Any]) -> Bound:
    """Return the bound operator for given attributes (a mapping of those given)."""
    cache = _bound.setdefault(operator.name, {})
    try:
        key = tuple(sorted(values.items()))
        return cache[key]
    except KeyError:
        bound = Bound(operator, operator.parse(values))
        if len(cache) >= _BOUND_LIMIT:
            cache.clear()
        cache[key] = bound
        return bound
    except TypeError:  # unhashable: a list for a shape
        return Bound(operator, operator.parse(values))


def call(name: str, inputs: Any, attributes: Mapping[str, Any] | None = None, out: Any = None, **kw: Any) -> Any:
    """Call an operator by name."""
    return invoke(resolve(operators.get(name), attributes or {}), inputs, out, **kw)


class _Missing:
    """Stands for "not given" in generated signatures."""

    def __repr__(self) -> str:
        return "<required>"


MISSING: Any = _Missing()


def _safe(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def source_of(operator: Operator, fn_name: str, short: bool = False) -> str:
    """Return the source text of the front function of ``operator``.

    With ``short``, a call with nothing but the input goes through ``short[0]``.
    """
    parameters = []
    if operator.variadic:
        parameters.append("*" + operator.inputs[0].name)
    else:
        parameters += [f"{_safe(i.name)}=None" for i in operator.inputs]
    attributes = [_safe(a) for a in operator.attributes]
    # What is not given stays out of the key, so that required attributes are noticed.
    parameters += [f"{a}=MISSING" for a in attributes]
    if operator.creates and "ctx" not in operator.attributes:
        parameters.append("ctx=None")
    parameters += ["out=None", "name=None"]
    if operator.variadic:
        inputs = f"flatten({operator.inputs[0].name})"
    else:
        inputs = "(" + "".join(f"{_safe(i.name)}, " for i in operator.inputs) + ")"
    key = "(" + "".join(f"{a}, " for a in attributes) + ")"
    check = ""
    required = [i for i in operator.inputs if not i.optional and not i.variadic]
    if required:
        condition = " or ".join(f"{_safe(i.name)} is None" for i in required)
        check = f"    if {condition}: missing_input(operator, {inputs})\n"
    ctx = ", ctx=context(ctx)" if operator.creates else ""
    shortcut = ""
    if short:
        only = _safe(operator.inputs[0].name)
        shortcut = f"    if out is None and not kwargs and {only} is not None: return short[0]({only})\n"
    return (
        f"def {fn_name}({', '.join(parameters)}, **kwargs):\n"
        f"{shortcut}"
        f"    if kwargs: unknown(operator, kwargs)\n"
        f"{check}"
        f"    try: bound = cache[{key}]\n"
        f"    except (KeyError, TypeError): bound = lookup({key})\n"
        f"    return invoke(bound, {inputs}, out, cls{ctx})\n"
    )


def _flatten(args: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], list | tuple):
        return args[0]
    return args


def _unknown(operator: Operator, kwargs: Mapping[str, Any]) -> None:
    kwargs = {k: v for k, v in kwargs.items() if not (k == "num_args" or k.startswith("__"))}
    # MXNet looks at keywords only where an operator has attributes at all, and programs rely on it.
    if kwargs and operator.attributes:
        operator.parse(kwargs)  # raises, naming the attribute and those there are
        raise ParameterError(f"operator '{operator.name}': unexpected argument(s) {sorted(kwargs)}.")


def _missing_input(operator: Operator, inputs: Any) -> None:
    for i, x in zip(operator.inputs, inputs):
        if x is None and not i.optional:
            raise ParameterError(
                f"operator '{operator.name}' needs input '{i.name}' (an NDArray); got None.",
                operator=operator.name,
                input=i.name,
            )


def make_function(operator: Operator, cls: type | None, fn_name: str, module: str) -> Any:
    """Return the front function of ``operator`` that makes arrays of class ``cls``."""
    from .context import Context, current_context
    from .fast import suits_unary, unary

    cache: dict[Any, Bound] = {}
    names = list(operator.attributes)

    def lookup(values: tuple[Any, ...]) -> Bound:
        bound = resolve(operator, {k: v for k, v in zip(names, values) if v is not MISSING})
        try:
            if len(cache) >= _BOUND_LIMIT:
                cache.clear()
            cache[values] = bound
        except TypeError:
            pass
        return bound

    def context(ctx: Any) -> Any:
        if ctx is None or ctx is MISSING or ctx == "":
            return current_context()
        if isinstance(ctx, str):
            kind, _, number = ctx.partition("(")
            return Context(kind, int(number.rstrip(")") or 0))
        return ctx

    short: list[Any] = []
    if cls is not None and suits_unary(operator):
        # Resolved again whenever the Runtime changes, like infix arithmetic.
        runtime.on_change(lambda _: short.__setitem__(slice(None), [unary(operator.name, cls)]))
        if not short:
            runtime.current()
    scope = {
        "__name__": f"{__name__}.generated",  # whoever looks up the stack for the user's line passes over it
        "MISSING": MISSING,
        "short": short,
        "cache": cache,
        "lookup": lookup,
        "invoke": invoke,
        "cls": cls,
        "operator": operator,
        "flatten": _flatten,
        "unknown": _unknown,
        "missing_input": _missing_input,
        "context": context,
    }
    safe = _safe(fn_name)
    exec(compile(source_of(operator, safe, bool(short)), f"<mxcore operator {operator.name}>", "exec"), scope)
    fn = scope[safe]
    fn.__name__ = fn.__qualname__ = fn_name
    fn.__module__ = module
    fn.__doc__ = operator.doc
    fn.__signature__ = signature_of(operator)
    fn.operator = operator
    return fn


def signature_of(operator: Operator) -> inspect.Signature:
    """Return the signature for readers: real defaults where the compiled function has a marker."""
    P = inspect.Parameter
    parameters = []
    kind: Any = P.POSITIONAL_OR_KEYWORD
    if operator.variadic:
        parameters.append(P(operator.inputs[0].name, P.VAR_POSITIONAL))
        kind = P.KEYWORD_ONLY
    else:
        parameters += [P(_safe(i.name), kind, default=None) for i in operator.inputs]
    for a, attribute in operator.attributes.items():
        default = attribute.default if attribute.default is not REQUIRED else MISSING
        parameters.append(P(_safe(a), kind, default=default))
    parameters += [P("out", kind, default=None), P("name", kind, default=None)]
    return inspect.Signature(parameters)


class Recorded:
    """Operators over arrays, for gradient rules whose own computation is recorded."""

    symbolic = False
    recorded = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        fn = make_function(operators.get(name), None, name, __name__)
        setattr(self, name, fn)
        return fn


recorded = Recorded()

__all__ = ["Array", "call", "make_function", "recorded", "resolve", "signature_of", "source_of"]
