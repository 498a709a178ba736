"""Infix arithmetic and unary functions on the short way.

The methods made here handle what almost every call is: two arrays of one class, dtype and device of which the engine
knows nothing, so that nothing can be pending, or a float32 array and a Python number. Anything else goes to
:func:`mxcore.dispatch.call.invoke`. They are repetitive on purpose; ``benchmarks/hotpath.py`` guards them
(bar: ``a + b`` on 4x4 float32 in at most PyTorch eager's time, recorded or not).
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign
from typing import Any

import numpy as np

from .. import operators
from ..instruments import instruments
from ..operators.elementwise import same
from ..spec import DTypeError
from . import runtime
from .array import Array
from .call import Bound, invoke
from .functions import resolve
from .recording import Node, next_order, recorders, state, versions_of

_new: Any = object.__new__
_F32 = np.dtype(np.float32)
#: Python numbers kept ready as float32 arrays, per operator.
_SCALARS = 4096
_NUMBERS = (int, float, bool, np.generic)


def binary(name: str, scalar: str) -> Callable[[Any, Any], Any]:
    """Return ``method(self, other)`` for a broadcasting operator and its scalar form.

    Parameters
    ----------
    name : str
        Operator of two arrays, ``"broadcast_add"``.
    scalar : str
        Operator of an array and a number, ``"_plus_scalar"``.
    """
    now = runtime.current()
    library = now._libraries.get("cpu") or now.library(_cpu())
    bound = resolve(operators.get(name), {})
    scalar_operator = operators.get(scalar)
    if not (now.inline or now.first) or instruments.begin:

        def deferred(self: Any, other: Any) -> Any:
            if isinstance(other, Array):
                return invoke(bound, (self, other))
            return _scalar(scalar_operator, self, other)

        return deferred

    bound.rebind(library)
    kernel = bound.kernel
    array_type = library.array_type
    asarray = library.xp.asarray
    ready: dict[Any, Any] = {}
    scalar_kernel = kernel

    def method(self: Any, other: Any) -> Any:
        x = self._data
        if other.__class__ is self.__class__:
            y = other._data
            if (
                x.__class__ is array_type
                and y.__class__ is array_type
                and x.dtype is y.dtype
                and self._ctx is other._ctx
                and ((c := self._cell) is None or c.var is None)
                and ((c := other._cell) is None or c.var is None)
            ):
                try:
                    r = kernel(x, y)
                except Exception:
                    return invoke(bound, (self, other))  # it fails again there, where it is said why
                if r.__class__ is not array_type:
                    r = asarray(r)
                out = _new(self.__class__)
                out._data = r
                out._cell = None
                out._ctx = self._ctx
                if recorders.count and state.recording and (self._tape is not None or other._tape is not None):
                    node = Node()
                    node.bound = bound
                    node.inputs = (self, other)
                    node.out = r
                    node.order = next_order()
                    node.g = None
                    node.cells = None
                    node.versions = (
                        versions_of(node.inputs) if self._cell is not None or other._cell is not None else None
                    )
                    out._tape = node
                else:
                    out._tape = None
                return out
            return invoke(bound, (self, other))
        kind = other.__class__
        if (
            (kind is float or kind is int)
            and x.__class__ is array_type
            and x.dtype is _F32
            and ((c := self._cell) is None or c.var is None)
            and (other or copysign(1.0, other) > 0)
        ):
            # A ready float32 array saves NumPy the conversion: half the time of ``x + 2.0``.
            try:
                s, sbound = ready[other]
            except KeyError:
                if len(ready) > _SCALARS:
                    ready.clear()
                sbound = resolve(scalar_operator, {"scalar": other})
                if sbound.library is not library:
                    sbound.rebind(library)
                s, sbound = ready[other] = (np.array(other, _F32), sbound)
            r = scalar_kernel(x, s)
            if r.__class__ is not array_type:
                r = asarray(r)
            out = _new(self.__class__)
            out._data = r
            out._cell = None
            out._ctx = self._ctx
            if recorders.count and state.recording and self._tape is not None:
                node = Node()
                node.bound = sbound
                node.inputs = (self,)
                node.out = r
                node.order = next_order()
                node.g = None
                node.cells = None
                node.versions = versions_of(node.inputs) if self._cell is not None else None
                out._tape = node
            else:
                out._tape = None
            return out
        if isinstance(other, Array):
            return invoke(bound, (self, other))
        return _scalar(scalar_operator, self, other)

    return method


def reflected(scalar: str) -> Callable[[Any, Any], Any]:
    """Return ``method(self, number)`` for an operator of a number and an array (``2 - x``)."""
    scalar_operator = operators.get(scalar)

    def method(self: Any, other: Any) -> Any:
        return _scalar(scalar_operator, self, other)

    return method


def suits_unary(operator: Any) -> bool:
    """Whether an operator takes one array of any shape and gives one like it: what :func:`unary` is for."""
    return (
        len(operator.inputs) == 1
        and not operator.variadic
        and not operator.attributes
        and operator.infer is same
        and operator.outputs == 1
        and not (operator.random or operator.training or operator.mutates or operator.composed or operator.creates)
    )


def unary(name: str, cls: type) -> Callable[[Any], Any]:
    """Return ``function(x)`` for an operator that :func:`suits_unary`, short for arrays of exactly ``cls``."""
    now = runtime.current()
    bound = resolve(operators.get(name), {})
    if not (now.inline or now.first) or instruments.begin:
        return lambda x: invoke(bound, (x,))
    library = now._libraries.get("cpu") or now.library(_cpu())
    bound.rebind(library)
    kernel = bound.kernel
    array_type = library.array_type
    asarray = library.xp.asarray

    def function(self: Any) -> Any:
        kind: Any = self.__class__
        if (
            kind is not cls
            or self._data.__class__ is not array_type
            or ((c := self._cell) is not None and c.var is not None)
        ):
            return invoke(bound, (self,))
        try:
            r = kernel(self._data)
        except Exception:
            return invoke(bound, (self,))
        if r.__class__ is not array_type:
            r = asarray(r)
        out = _new(kind)
        out._data = r
        out._cell = None
        out._ctx = self._ctx
        if recorders.count and state.recording and self._tape is not None:
            node = Node()
            node.bound = bound
            node.inputs = (self,)
            node.out = r
            node.order = next_order()
            node.g = None
            node.cells = None
            node.versions = versions_of(node.inputs) if self._cell is not None else None
            out._tape = node
        else:
            out._tape = None
        return out

    return function


def scalar_bound(scalar_operator: Any, number: Any) -> Any:
    """Return the operator of an array and ``number``, from the cache where numbers that are equal mean the same."""
    if not number and copysign(1.0, number) < 0:
        return Bound(scalar_operator, scalar_operator.parse({"scalar": number}))  # -0.0 == 0.0, but 1 / -0.0 is -inf
    return resolve(scalar_operator, {"scalar": number})


def _scalar(scalar_operator: Any, x: Any, other: Any) -> Any:
    if isinstance(other, np.ndarray) and other.ndim == 0:
        other = other.item()
    if not isinstance(other, _NUMBERS):
        raise DTypeError(
            f"type {type(other)} not supported: '{scalar_operator.name}' works on NDArrays and numbers. "
            f"Make an array with mx.nd.array(...).",
            operator=scalar_operator.name,
        )
    return invoke(scalar_bound(scalar_operator, other), (x,))


def _cpu() -> Any:
    from .context import cpu

    return cpu()


#: method -> (operator of two arrays, operator of array and number, operator of number and array)
INFIX = {
    "add": ("broadcast_add", "_plus_scalar", "_plus_scalar"),
    "sub": ("broadcast_sub", "_minus_scalar", "_rminus_scalar"),
    "mul": ("broadcast_mul", "_mul_scalar", "_mul_scalar"),
    "truediv": ("broadcast_div", "_div_scalar", "_rdiv_scalar"),
    "mod": ("broadcast_mod", "_mod_scalar", "_rmod_scalar"),
    "pow": ("broadcast_power", "_power_scalar", "_rpower_scalar"),
    "eq": ("broadcast_equal", "_equal_scalar", None),
    "ne": ("broadcast_not_equal", "_not_equal_scalar", None),
    "gt": ("broadcast_greater", "_greater_scalar", None),
    "ge": ("broadcast_greater_equal", "_greater_equal_scalar", None),
    "lt": ("broadcast_lesser", "_lesser_scalar", None),
    "le": ("broadcast_lesser_equal", "_lesser_equal_scalar", None),
}


def install(cls: type) -> None:
    """Give ``cls`` its infix methods, resolved anew whenever the Runtime changes."""

    def rebind(_: Any) -> None:
        for short, (name, scalar, right) in INFIX.items():
            setattr(cls, f"__{short}__", binary(name, scalar))
            if right is not None:
                setattr(cls, f"__r{short}__", reflected(right))

    # Until the first array exists there is no Runtime, and nobody can call these.
    runtime.on_change(rebind)


__all__ = ["INFIX", "binary", "install", "reflected", "scalar_bound", "suits_unary", "unary"]
