"""What dispatch says when a call cannot be made, or its kernel failed: operator, inputs, dtypes, shapes, device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..operators import Operator, Spec
from ..spec import AutogradError, DTypeError, MXCoreError, OperatorError, OutOfDeviceMemory, ShapeError
from .array import dtype_of, shape_of

__all__ = ["AT_THE_CALL", "bad_input", "check_same_dtype", "describe", "failed"]

#: Errors in how a call was written, not in the values it met: raised there even where other errors wait for a sync point.
AT_THE_CALL = (ShapeError, DTypeError, AutogradError)


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


def failed(bound: Any, inputs: Sequence[Any], ctx: Any, e: BaseException) -> Exception:
    """Return the error for a kernel that raised, to be chained to ``e``."""
    specs = [None if x is None else Spec(shape_of(x), dtype_of(x)) for x in inputs]
    text = (
        f"operator '{bound.operator.name}' failed on {ctx} (op library '{bound.library.name}') for "
        f"{describe(bound.operator, specs, bound.attributes)}: {e}"
    )
    kind: type[MXCoreError] = OutOfDeviceMemory if isinstance(e, MemoryError) else OperatorError
    return kind(text, operator=bound.operator.name, shapes=[s.shape for s in specs if s])
