"""The table of operator records: :func:`operator` declares one, :func:`get` finds one by name or alias.

The built-in families are imported at the first look-up, not at ``import mxcore``.
"""

from __future__ import annotations

import difflib
import importlib
import threading
from collections.abc import Mapping
from typing import Any

from ..spec.errors import ParameterError
from .attributes import Attribute
from .record import NO_GRADIENT, ZERO_GRADIENT, Joint, Operator, parse_inputs

#: Modules of this room that declare operators when imported.
FAMILIES = (
    "elementwise",
    "broadcast",
    "scalar",
    "special",
    "subscript",
    "reduction",
    "shape",
    "joining",
    "slicing",
    "repeating",
    "blocks",
    "indexing",
    "coordinates",
    "ordering",
    "linalg",
    "neural",
    "convolution",
    "pooling",
    "resizing",
    "normalization",
    "loss",
    "sequence",
    "random",
    "creation",
    "update",
    "multi_update",
    "images",
    "selection",
    "boxes",
    "proposals",
    "sampling",
    "contrib",
    "sparse",
)

_table: dict[str, Operator] = {}
_lock = threading.RLock()
_loaded = False


def operator(
    name: str,
    inputs: str,
    attributes: Mapping[str, Attribute] | None = None,
    *,
    replace: bool = False,
    **fields: Any,
) -> Operator:
    """Declare an operator and enter it in the table under its name and aliases.

    Parameters
    ----------
    name : str
    inputs : str
        Short form, see :func:`~mxcore.operators.record.parse_inputs`.
    attributes : mapping of str to Attribute
    replace : bool
        Allow a second declaration of a name.
    **fields
        The other fields of :class:`~mxcore.operators.record.Operator`.

    Returns
    -------
    Operator

    Raises
    ------
    ParameterError
        If the name or an alias is taken, or the declaration cannot be: no gradient, no documentation, rules that do
        not fit the inputs, a saved value that does not exist.
    """
    for field, what in (("gradient", "a rule per input, Joint, ZERO_GRADIENT or NO_GRADIENT"), ("doc", "a text")):
        if fields.get(field) is None or fields[field] == "":
            raise ParameterError(f"operator '{name}' must declare {field}=: {what}.", operator=name)
    fields.setdefault("infer", None)
    record = Operator(name=name, inputs=parse_inputs(inputs), attributes=dict(attributes or {}), **fields)
    _check(record)
    with _lock:
        for key in (name, *record.aliases):
            if key in _table and not replace:
                raise ParameterError(f"operator '{name}': the name '{key}' is already declared by {_table[key]!r}.")
        for key in (name, *record.aliases):
            _table[key] = record
    return record


def _check(record: Operator) -> None:
    """Refuse a record whose parts do not fit each other."""
    names = [i.name for i in record.inputs]
    unknown = set((record.saves or "").split()) - {*names, "output"}
    if unknown:
        raise ParameterError(
            f"operator '{record.name}': saves= names {sorted(unknown)}, but its values are {', '.join(names)} and output. "
            f"A value that is not named there can be overwritten unnoticed before backward.",
            operator=record.name,
        )
    gradient = record.gradient
    if gradient is NO_GRADIENT or gradient is ZERO_GRADIENT or isinstance(gradient, Joint):
        return
    rules = isinstance(gradient, tuple) and all(r is None or callable(r) for r in gradient)
    if not rules or len(gradient) != len(names) or record.variadic:
        raise ParameterError(
            f"operator '{record.name}': gradient= must be a tuple of {len(names)} rule(s), one per input "
            f"({', '.join(names)}; None for an input without), or Joint, ZERO_GRADIENT or NO_GRADIENT, not {gradient!r}.",
            operator=record.name,
        )


def _load() -> None:
    global _loaded
    with _lock:
        if not _loaded:
            for family in FAMILIES:
                importlib.import_module(f"{__package__}.{family}")
            _loaded = True


def get(name: str) -> Operator:
    """Return the record of an operator by name or alias.

    Raises
    ------
    ParameterError
        Naming the closest known names.
    """
    if not _loaded:
        _load()
    try:
        return _table[name]
    except KeyError:
        close = difflib.get_close_matches(name, _table, 3)
        hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
        raise ParameterError(f"there is no operator '{name}'.{hint}", operator=name) from None


def known(name: str) -> bool:
    """Whether an operator of this name or alias exists."""
    if not _loaded:
        _load()
    return name in _table


def names() -> list[str]:
    """All names and aliases, sorted."""
    _load()
    return sorted(_table)


def records() -> list[Operator]:
    """All records, once each, in order of declaration."""
    _load()
    return list(dict.fromkeys(_table.values()))
