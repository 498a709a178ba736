"""What there is: built-ins, what the program registered, and installed plugins with their states.

A plugin is loaded here, when somebody needs it, and what goes wrong with it is kept here. Choosing among what there
is, and making it, is :class:`~mxcore.registry.host.Registry`'s part.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..config import Config, did_you_mean, process_config
from ..instruments import Instruments
from ..instruments import instruments as process_instruments
from ..spec.errors import BackendError, PluginError
from ..spec.records import BackendRecord
from ..spec.versions import compatible
from . import builtins, discovery, messages, policy
from .candidate import Candidate, Failure, LoadError, Stage, State, check_record
from .discovery import EntryPoint, normalized
from .kinds import KINDS

if TYPE_CHECKING:
    from .loader import Loader
    from .registrar import Command, Registrar


class PluginWarning(UserWarning):
    """A plugin cannot be used, or a list of names was stepped down."""


class Catalogue:
    """Candidates of every kind. Methods may be called from any thread; see :class:`Registry` for the parameters."""

    def __init__(
        self,
        *,
        config: Config | None = None,
        entry_points: Callable[[], Iterable[EntryPoint]] | None = None,
        instruments: Instruments | None = None,
    ) -> None:
        self._config = config if config is not None else process_config()
        self._entry_points = entry_points if entry_points is not None else discovery.scan
        self._instruments = instruments if instruments is not None else process_instruments
        self._lock = threading.RLock()
        self._loader: Loader | None = None
        self._past: list[dict[str, Any]] = []
        self._own: dict[str, dict[str, Candidate]] = {kind: {} for kind in KINDS}
        self._found: dict[str, list[Candidate]] | None = None
        self._warned: set[str] = set()
        self._required_checked = -1
        self.commands: dict[str, Command] = {}
        #: Grows when the set of backends may have changed; caches compare it.
        self.generation = 0
        for kind, record in builtins.records():
            self.register(kind, record, distribution=builtins.DISTRIBUTION, version=__version__)

    # -- what there is -----------------------------------------------------------------------------------------

    def register(self, kind: str, record: BackendRecord, *, distribution: str = "", version: str = "") -> None:
        """Offer a backend from the program itself, without packaging.

        Raises
        ------
        PluginError
            If the record is malformed or the name is taken.
        """
        problem = check_record(record)
        if problem:
            raise PluginError(f"{KINDS[kind].noun} {record.name!r} cannot be registered: {problem}.", name=record.name)
        with self._lock:
            if record.name in self._own[kind]:
                raise PluginError(
                    f"{KINDS[kind].noun} '{record.name}' is registered already. "
                    "Unregister it first, or use another name.",
                    name=record.name,
                )
            candidate = Candidate(kind, record.name, distribution, version, record=record, state=State.REGISTERED)
            self._own[kind][record.name] = candidate
            self.generation += 1

    def unregister(self, kind: str, name: str) -> None:
        """Take back what :meth:`register` added; objects made from it live on."""
        with self._lock:
            self._own[kind].pop(name, None)
            self.generation += 1

    def candidates(self, kind: str | None = None) -> list[Candidate]:
        """Every backend and plugin there is, from metadata only: nothing is imported."""
        with self._lock:
            kinds = KINDS if kind is None else (kind,)
            found = [one for key in kinds for one in (*self._own[key].values(), *self._scan()[key])]
            for candidate in found:
                self._refused(candidate)
            return found

    def names(self, kind: str) -> list[str]:
        """Names that can be asked for, built-ins first; ambiguous ones in their ``dist:name`` form. Scans metadata."""
        with self._lock:
            found = self._scan()[kind]
            short = [one.name for one in found]
            clear = [
                one.name if short.count(one.name) == 1 and one.name not in self._own[kind] else one.qualified
                for one in found
            ]
            return [*self._own[kind], *clear]

    def refresh(self) -> None:
        """Read metadata again and retry what failed; what is loaded stays loaded."""
        with self._lock:
            importlib.invalidate_caches()
            self._found = None
            self._warned.clear()
            self._required_checked = -1
            self.generation += 1

    # -- contributions and events ------------------------------------------------------------------------------

    def load_plugins(self) -> None:
        """Load every entry point of ``mxcore.plugins`` (instruments, options, commands); failures are noted."""
        with self._lock:
            broken = []
            for candidate in self._scan()["plugin"]:
                try:
                    if not self._refused(candidate):
                        self.load(candidate, "default")
                except BackendError:
                    if self._config.get("plugins.strict"):
                        raise
                    broken.append(candidate)
            if broken:
                self._warn_once("broken", messages.broken_plugins(broken))

    def operator_namespaces(self) -> list[str]:
        """Names of the installed operator namespaces, from metadata."""
        with self._lock:
            return sorted({candidate.name for candidate in self._scan()["operators"]})

    def operators(self, namespace: str) -> list[Any]:
        """The operator definitions of a namespace; imports its plugin at the first call."""
        with self._lock:
            candidate = self.find("operators", namespace)
            self.load(candidate)
            return list(candidate.contributions)

    def shutdown(self) -> None:
        """Tell the plugins that the process ends. Call once, after the engine has drained."""
        with self._lock:
            if self._loader is not None:
                self._loader.announce("mxcore_shutdown")

    # -- finding and loading -------------------------------------------------------------------------------------

    def find(self, kind: str, name: str, origin: str = "") -> Candidate:
        """The candidate that ``name`` or ``'dist:name'`` means; nothing is imported, built-ins need no scan.

        Raises
        ------
        BackendError
            If nothing provides the name, or more than one distribution does.
        """
        distribution, colon, short = name.rpartition(":")
        own = self._own[kind].get(short)
        if own is not None and (not colon or normalized(distribution) == normalized(own.distribution)):
            return own
        matches = [one for one in self._scan()[kind] if one.name == short]
        if colon:
            matches = [one for one in matches if normalized(one.distribution) == normalized(distribution)]
        if len(matches) > 1:
            matches = [one for one in matches if not self._refused(one)] or matches
        if len(matches) > 1:
            raise messages.ambiguous(kind, name, matches)
        if not matches:
            installed = self.names(kind)
            known = [*installed, *(known for key, known in builtins.KNOWN if key == kind)]
            raise messages.not_installed(kind, name, installed, did_you_mean(name, known), origin)
        return matches[0]

    def load(self, candidate: Candidate, origin: str = "") -> None:
        """Import and register a candidate that is only discovered. Does nothing the second time.

        Raises
        ------
        BackendError
            If it is blocked, failed (now or earlier), or was written for another contract version.
        """
        if self._refused(candidate):
            raise messages.blocked(candidate, origin)
        if candidate.loading:
            raise PluginError(f"{messages.who(candidate)} asks for itself while it is being loaded.")
        if candidate.state in (State.DISCOVERED, State.BLOCKED):
            source, kind = candidate.source, KINDS[candidate.kind]
            assert source is not None
            # Entry points of one module stand or fall together.
            family = [
                one
                for one in self._scan()[candidate.kind]
                if one.source is not None and _module_of(one.source) == _module_of(source)
            ]
            candidate.loading = True
            try:
                registrar = self._get_loader().load(source, kind, lambda registrar: self._accept(family, registrar))
            except LoadError as problem:
                for one in family:
                    self._fail(one, problem.stage, problem.error)
            else:
                self._commit(registrar)
            finally:
                candidate.loading = False
            self.generation += 1
        if candidate.state is State.INCOMPATIBLE or (
            candidate.failure is not None and candidate.failure.stage not in (Stage.PROBE, Stage.CREATE)
        ):
            raise self._error_of(candidate, origin)

    def _accept(self, family: list[Candidate], registrar: Registrar) -> None:
        """Check that a plugin registered what its metadata promise, and take the records over."""
        kind = KINDS[family[0].kind]
        records = registrar.backends.get(kind.key, {})
        if kind.protocol is not None:
            for one in family:
                if one.name not in records:
                    module = one.source.value if one.source else ""
                    raise PluginError(
                        f"module '{module}' registered no {kind.noun} named '{one.name}' "
                        f"(it registered: {', '.join(records) or 'nothing'}). Implement {kind.hooks[0]} in it, "
                        "marked with mxcore.registry.hookimpl."
                    )
        self._config.declare(*registrar.options, distribution=registrar.distribution)
        for one in family:
            one.record = records.get(one.name)
            one.contributions = list(registrar.operators.values())
            fits = one.record is None or compatible(kind.key, one.record.api)
            one.state = State.REGISTERED if fits else State.INCOMPATIBLE

    def _commit(self, registrar: Registrar) -> None:
        for listener, events in registrar.instruments:
            self._instruments.add(listener, events)
        self.commands.update(registrar.commands)

    def _fail(self, candidate: Candidate, stage: Stage, error: BaseException) -> None:
        if stage is Stage.METADATA:
            remedy = f"Install it again with: pip install --force-reinstall {candidate.distribution}"
        else:
            remedy = f"Run 'mxcore plugins doctor {candidate.name}' for details."
        candidate.state = State.FAILED
        candidate.failure = Failure.of(candidate, stage, error, remedy)

    def _error_of(self, candidate: Candidate, origin: str) -> BackendError:
        if candidate.failure is not None:
            return messages.failed(candidate, candidate.failure, self._sound(candidate.kind), origin)
        assert candidate.record is not None
        return messages.incompatible(candidate, candidate.record.api, origin)

    def _sound(self, kind: str) -> list[str]:
        """Names worth suggesting: nothing is known against them."""
        bad = (State.FAILED, State.BLOCKED, State.INCOMPATIBLE, State.UNAVAILABLE)
        found = (*self._own[kind].values(), *(self._found or {}).get(kind, ()))
        return [one.name for one in found if one.state not in bad]

    def _refused(self, candidate: Candidate) -> bool:
        """Whether the user's lists forbid the candidate; keeps the reason."""
        reason = policy.refusal(candidate, self._config.get("plugins"), self._config.get("plugins.block"))
        if reason is not None:
            if candidate.state is State.DISCOVERED:
                candidate.state = State.BLOCKED
            candidate.reason, candidate.hint = reason
        elif candidate.state is State.BLOCKED:
            candidate.state, candidate.reason, candidate.hint = State.DISCOVERED, "", ""
        return reason is not None

    def _get_loader(self) -> Loader:
        if self._loader is None:
            from .loader import Loader  # nothing of the plug board is paid for before there is a plugin

            self._loader = Loader(self._past)
        return self._loader

    def _scan(self) -> dict[str, list[Candidate]]:
        if self._found is None:
            found: dict[str, list[Candidate]] = {kind: [] for kind in KINDS}
            for entry in discovery.tidy(self._entry_points()):
                found[entry.kind].append(Candidate(entry.kind, entry.name, entry.distribution, entry.version, entry))
            self._found = found
        return self._found

    def _warn_once(self, key: str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(text, PluginWarning, stacklevel=5)


def _module_of(source: EntryPoint) -> tuple[str, str]:
    return (normalized(source.distribution), source.value)
