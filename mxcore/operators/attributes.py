"""Typed attributes: what an operator's keyword arguments may be, and how their string forms are read.

Symbol files hold every attribute as a string, so each type accepts both the Python value and its string form.
A parsed value is always hashable, which is what lets dispatch cache a resolved call by its attributes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..spec.errors import ParameterError


class _Required:
    def __repr__(self) -> str:
        return "required"


#: Default of an attribute that must be given.
REQUIRED: Any = _Required()


def _literal(value: str) -> Any:
    text = value.strip()
    # MXNet writes C++ tuples, Python tuples and lists alike, and long integers with an L.
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return ast.literal_eval(text.replace("L", ""))


@dataclass(frozen=True, slots=True)
class Attribute:
    """One keyword argument of an operator.

    Subclasses implement :meth:`convert`, which may raise ``ValueError`` or ``TypeError``; :meth:`parse` turns
    that into a :class:`ParameterError` naming operator, attribute, value and what is accepted.
    """

    default: Any = REQUIRED
    doc: str = ""

    def accepted(self) -> str:
        """Say in words what this attribute accepts."""
        return type(self).__name__.lower()

    def convert(self, value: Any) -> Any:
        """Return the typed, hashable form of ``value``."""
        raise NotImplementedError

    def parse(self, value: Any, operator: str, name: str) -> Any:
        """Return the typed form of ``value``.

        Raises
        ------
        ParameterError
            Naming the operator, the attribute, the value got and what is accepted.
        """
        none = value is None or (isinstance(value, str) and value == "None")
        if none and (self.default is None or isinstance(self, Choice | DType)):
            return None
        try:
            return self.convert(value)
        except (ValueError, TypeError, SyntaxError, OverflowError):
            raise ParameterError(
                f"operator '{operator}': attribute {name}={value!r} is not valid; it takes {self.accepted()}.",
                operator=operator,
                attribute=name,
                value=value,
            ) from None


class Int(Attribute):
    """A whole number."""

    __slots__ = ()

    def accepted(self) -> str:
        return "a whole number" + (" or None" if self.default is None else "")

    def convert(self, value: Any) -> int:
        if isinstance(value, str):
            value = _literal(value)
        if isinstance(value, bool | np.bool_):
            return int(value)
        if hasattr(value, "__index__"):
            return value.__index__()
        if float(value) != int(value):
            raise ValueError
        return int(value)


class Float(Attribute):
    """A number."""

    __slots__ = ()

    def accepted(self) -> str:
        return "a number" + (" or None" if self.default is None else "")

    def convert(self, value: Any) -> float:
        return float(value)


class Bool(Attribute):
    """True or False; 0, 1 and their strings too."""

    __slots__ = ()

    def accepted(self) -> str:
        return "True or False"

    def convert(self, value: Any) -> bool:
        if isinstance(value, str):
            text = value.strip().lower()
            if text in ("true", "1"):
                return True
            if text in ("false", "0", "none"):
                return False
            raise ValueError
        if isinstance(value, bool | int | float | np.bool_ | np.integer):
            return bool(value)
        raise TypeError


class Shape(Attribute):
    """A tuple of whole numbers; one number stands for a tuple of one. Entries may be None (``slice``)."""

    __slots__ = ()

    def accepted(self) -> str:
        return "a whole number or a tuple of whole numbers" + (" or None" if self.default is None else "")

    def convert(self, value: Any) -> tuple[int | None, ...]:
        if isinstance(value, str):
            value = _literal(value)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if hasattr(value, "__index__"):
            return (value.__index__(),)
        return tuple(None if v is None else _whole(v) for v in value)


class IntOrShape(Shape):
    """A whole number, a tuple of whole numbers, or None: an ``axis``. A number stays a number."""

    __slots__ = ()

    def convert(self, value: Any) -> Any:
        if isinstance(value, str):
            value = _literal(value)
        if hasattr(value, "__index__"):
            return value.__index__()
        return tuple(_whole(v) for v in value)


class Floats(Attribute):
    """A tuple of numbers; one number stands for a tuple of one."""

    __slots__ = ()

    def accepted(self) -> str:
        return "a number or a tuple of numbers"

    def convert(self, value: Any) -> tuple[float, ...]:
        if isinstance(value, str):
            value = _literal(value)
        if isinstance(value, int | float | np.number):
            return (float(value),)
        return tuple(float(v) for v in value)


def _whole(value: Any) -> int:
    if hasattr(value, "__index__"):
        return value.__index__()
    if float(value) != int(value):
        raise ValueError
    return int(value)


@dataclass(frozen=True, slots=True)
class Choice(Attribute):
    """One of a few strings (or None)."""

    choices: tuple[str, ...] = field(default=())

    def accepted(self) -> str:
        return "one of " + ", ".join(repr(c) for c in self.choices)

    def convert(self, value: Any) -> str:
        if isinstance(value, type | np.dtype):
            value = np.dtype(value).name  # dtypes are often given as NumPy types
        if value not in self.choices:
            raise ValueError
        return value


class String(Attribute):
    """Any string."""

    __slots__ = ()

    def convert(self, value: Any) -> str:
        return str(value)


class DType(Attribute):
    """A dtype by NumPy name, class or instance; kept as its name."""

    __slots__ = ()

    def accepted(self) -> str:
        return "a dtype such as 'float32'"

    def convert(self, value: Any) -> str:
        return np.dtype(value).name


class Value(Attribute):
    """Any hashable Python value, taken as it is (scalars of arithmetic operators, contexts)."""

    __slots__ = ()

    def convert(self, value: Any) -> Any:
        if isinstance(value, str):
            return _literal(value)
        return value.item() if isinstance(value, np.generic) else value
