"""What a plugin talks to while it registers.

One registrar per loaded plugin: so the host knows who registers what (pluggy does not tell), checks each record at
once, and can drop everything when a later step of the same plugin fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..instruments.events import check_events
from ..spec.errors import PluginError
from ..spec.records import BackendRecord, OptionRecord
from .candidate import check_record
from .kinds import KINDS


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the ``mxcore`` program.

    Attributes
    ----------
    configure : callable
        ``configure(parser)`` adds arguments to an ``argparse.ArgumentParser``.
    run : callable
        ``run(arguments) -> int``: the exit code (0 fine, 1 problem found, 2 usage).
    """

    name: str
    configure: Callable[[Any], None]
    run: Callable[[Any], int]
    help: str = ""


@dataclass(slots=True)
class Registrar:
    """Collects what one plugin offers; nothing takes effect before the whole plugin has registered.

    Attributes
    ----------
    distribution, version : str
        Who is registering.
    """

    distribution: str
    version: str = ""
    backends: dict[str, dict[str, BackendRecord]] = field(default_factory=dict)
    operators: dict[str, Any] = field(default_factory=dict)
    instruments: list[tuple[Callable[..., Any], tuple[str, ...]]] = field(default_factory=list)
    options: list[OptionRecord] = field(default_factory=list)
    commands: dict[str, Command] = field(default_factory=dict)

    def engine(self, record: BackendRecord) -> None:
        """Offer an engine (:class:`mxcore.spec.Engine`)."""
        self._backend("engine", record)

    def storage(self, record: BackendRecord) -> None:
        """Offer a storage manager (:class:`mxcore.spec.StorageManager`)."""
        self._backend("storage", record)

    def op_library(self, record: BackendRecord) -> None:
        """Offer an op library (:class:`mxcore.spec.OperatorLibrary`); its record names the device types served."""
        self._backend("ops", record)
        if not record.device_types:
            del self.backends["ops"][record.name]
            raise PluginError(
                f"op library '{record.name}' of {self.distribution} names no device types. "
                "Give its BackendRecord device_types=frozenset({'cpu'}) or what it serves.",
                distribution=self.distribution,
            )

    def kvstore(self, record: BackendRecord) -> None:
        """Offer a key-value store (:class:`mxcore.spec.KVStore`)."""
        self._backend("kvstore", record)

    def operator(self, definition: Any) -> None:
        """Offer an operator definition (it has a ``name``; the entry point's name is its namespace)."""
        name = getattr(definition, "name", None)
        if not isinstance(name, str) or not name:
            raise self._bad("an operator definition", definition, "it has no name")
        if name in self.operators:
            raise self._twice("operator", name)
        self.operators[name] = definition

    def instrument(self, listener: Callable[..., Any], events: Iterable[str]) -> None:
        """Offer ``listener(event, *details)`` for the events named (:data:`mxcore.instruments.EVENTS`)."""
        if not callable(listener):
            raise self._bad("an instrument", listener, "it cannot be called")
        self.instruments.append((listener, check_events(events)))

    def option(self, record: OptionRecord) -> None:
        """Declare a typed option; for an option of the core, the default becomes the plugin's default."""
        if not isinstance(record, OptionRecord):
            raise self._bad("an option", record, "it has to be an OptionRecord")
        self.options.append(record)

    def command(self, name: str, configure: Callable[[Any], None], run: Callable[[Any], int], help: str = "") -> None:
        """Add the command ``mxcore NAME``; see :class:`Command` for the arguments."""
        if name in self.commands:
            raise self._twice("command", name)
        self.commands[name] = Command(name, configure, run, help)

    def _backend(self, kind: str, record: BackendRecord) -> None:
        noun = KINDS[kind].noun
        if not isinstance(record, BackendRecord):
            raise self._bad(f"{noun}", record, "it has to be a BackendRecord")
        problem = check_record(record)
        if problem:
            raise self._bad(f"{noun}", record.name, problem)
        if record.name in self.backends.setdefault(kind, {}):
            raise self._twice(noun, record.name)
        self.backends[kind][record.name] = record

    def _bad(self, what: str, given: Any, why: str) -> PluginError:
        return PluginError(
            f"{self.distribution} registers {given!r} as {what}, but {why}. Correct the plugin's registration.",
            distribution=self.distribution,
        )

    def _twice(self, what: str, name: str) -> PluginError:
        return PluginError(
            f"{self.distribution} registers {what} '{name}' twice. Register each name once.",
            distribution=self.distribution,
        )
