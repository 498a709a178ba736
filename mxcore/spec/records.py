"""The light records that plugins register: cheap to make, nothing heavy imported.

A plugin module may import :mod:`mxcore.spec` and the standard library at its top; heavy imports belong inside
``factory``. The record is read, and its contract version compared, before the factory runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .versions import Version


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can be used on this machine, and if not, why and what would help."""

    ok: bool = True
    reason: str = ""
    hint: str = ""


def always_available() -> Availability:
    """The default probe: nothing to check."""
    return Availability()


@dataclass(frozen=True, slots=True)
class BackendRecord:
    """One backend that a plugin offers.

    Attributes
    ----------
    name : str
        What users type; must equal the entry point's name for packaged plugins.
    api : (int, int)
        The contract version it was written for (:data:`mxcore.spec.API`).
    factory : callable
        ``factory(**options) -> backend``; heavy imports happen inside.
    available : callable
        ``available() -> Availability``; a look at files or the environment, never a device driver.
    capabilities : frozenset
        Members of the kind's capability enumeration, for choosing without creating.
    priority : int
        Greatest wins when nobody asked for a name.
    device_types : frozenset of str
        Op libraries: the device types served.
    doc : str
        One line for ``mxcore plugins list``.
    """

    name: str
    api: Version
    factory: Callable[..., Any]
    available: Callable[[], Availability] = always_available
    capabilities: frozenset[Any] = frozenset()
    priority: int = 0
    device_types: frozenset[str] = frozenset()
    doc: str = ""


@dataclass(frozen=True, slots=True)
class OptionRecord:
    """A typed option that a plugin or the core declares.

    Attributes
    ----------
    name : str
        Dotted name, ``"engine.workers"``; the environment name is ``MXCORE_ENGINE__WORKERS``.
    kind : type
        ``bool``, ``int``, ``float``, ``str``, or ``list`` (comma-separated strings).
    default : object
    doc : str
        One sentence.
    aliases : tuple of str
        Further environment names, MXNet's own among them.
    choices : tuple
        Allowed values; empty means any.
    """

    name: str
    kind: type
    default: Any
    doc: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[Any, ...] = field(default=())
