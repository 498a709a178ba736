"""Values of options: where each came from, and how text becomes a typed value.

Pure: nothing here reads the environment or a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..spec.errors import ConfigError
from ..spec.records import OptionRecord

#: Precedence, strongest first.
LEVELS = ("argument", "context", "set", "environment", "file", "plugin default", "default")

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class Choice:
    """Kind of the options that select backends: one name, or several in order of preference (a fallback list)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from.

    Attributes
    ----------
    level : str
        One of :data:`LEVELS`.
    detail : str
        The environment variable, the file, or the distribution; empty where the level says it all.

    Examples
    --------
    >>> str(Origin("environment", "MXCORE_ENGINE")), str(Origin("default"))
    ('environment MXCORE_ENGINE', 'default')
    """

    level: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.level} {self.detail}" if self.detail else self.level

    @property
    def rank(self) -> int:
        """0 for the strongest level."""
        return LEVELS.index(self.level)


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its origin; unpacks as ``value, origin``."""

    value: Any
    origin: Origin

    def __iter__(self) -> Any:
        return iter((self.value, self.origin))


def split_list(text: str) -> list[str]:
    """Comma-separated words, blanks dropped.

    Examples
    --------
    >>> split_list("cupy, numpy,")
    ['cupy', 'numpy']
    """
    return [word for part in text.split(",") if (word := part.strip())]


def parse(record: OptionRecord, text: str, where: str) -> Any:
    """Turn the text of a variable or a file into a value of ``record.kind``.

    Parameters
    ----------
    where : str
        What to name in the error: the variable, or the key and its file.

    Raises
    ------
    ConfigError
        Naming ``where``, the text, and what would be accepted.
    """
    text = text.strip()
    kind = record.kind
    value: Any = text
    if kind is bool:
        lowered = text.lower()
        if lowered not in _TRUE and lowered not in _FALSE:
            raise _bad(record, text, where, "1, true, yes, on, 0, false, no or off")
        value = lowered in _TRUE
    elif kind is int or kind is float:
        try:
            value = kind(text)
        except ValueError:
            raise _bad(record, text, where, "an integer" if kind is int else "a number") from None
    elif kind is list:
        value = split_list(text)
    elif kind is Choice:
        names = split_list(text)
        value = names[0] if len(names) == 1 else tuple(names)
    return _check_choices(record, value, where)


def coerce(record: OptionRecord, value: Any, where: str) -> Any:
    """Check a value given by the program; text is parsed, ``None`` stands for unset.

    Raises
    ------
    ConfigError
        If the type does not fit ``record.kind``.
    """
    kind = record.kind
    if value is None:
        return None
    if isinstance(value, str) and kind is not str:
        return parse(record, value, where)
    if kind in (list, Choice):
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise _bad(record, value, where, "a name or a list of names")
        value = list(value) if kind is list else tuple(value)
    elif kind is bool:
        if value not in (0, 1):
            raise _bad(record, value, where, "True or False")
        value = bool(value)
    elif kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _bad(record, value, where, {int: "an integer", float: "a number", str: "a string"}.get(kind, str(kind)))
    return _check_choices(record, value, where)


def to_text(value: Any) -> str:
    """The inverse of :func:`parse`, for environment variables of child processes.

    Examples
    --------
    >>> to_text(True), to_text(("cupy", "numpy")), to_text(4)
    ('1', 'cupy,numpy', '4')
    """
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (list, tuple)):
        return ",".join(value)
    return str(value)


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word closest to ``word``, or None.

    Examples
    --------
    >>> did_you_mean("threadd", ["naive", "threaded"])
    'threaded'
    """
    from difflib import get_close_matches  # only messages need it

    matches = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def _check_choices(record: OptionRecord, value: Any, where: str) -> Any:
    if record.choices and value not in record.choices:
        raise _bad(record, value, where, "one of " + ", ".join(map(str, record.choices)))
    return value


def _bad(record: OptionRecord, value: Any, where: str, wanted: str) -> ConfigError:
    return ConfigError(
        f"{where} is {value!r}, which cannot be a value of option '{record.name}'. Give {wanted}.",
        option=record.name,
        value=value,
        where=where,
    )
