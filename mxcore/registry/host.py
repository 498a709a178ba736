"""The registry: which backend is meant, and making it.

Choosing happens here once; afterwards the caller holds a plain object. A broken plugin becomes a record and reaches
only whoever asks for it by name. Nothing is scanned or imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..spec.errors import BackendError, ConfigError
from ..spec.records import Availability, BackendRecord
from . import messages, policy
from .candidate import Candidate, LoadError, Stage, State, guard
from .catalogue import Catalogue
from .discovery import normalized
from .kinds import KINDS

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Resolved:
    """The outcome of a choice.

    Attributes
    ----------
    origin : str
        Who asked: ``"argument"``, ``"environment MXCORE_ENGINE"``, ``"default"``, ...
    """

    kind: str
    name: str
    record: BackendRecord
    distribution: str
    version: str
    origin: str


class Registry(Catalogue):
    """Everything that can be plugged in, and the choice among it. Methods may be called from any thread.

    Parameters
    ----------
    config : Config, optional
        Where names are looked up; the process's own by default.
    entry_points : callable, optional
        ``entry_points() -> iterable of EntryPoint`` instead of the installed distributions' metadata.
    instruments : Instruments, optional
        Where plugins' instruments are added.

    Examples
    --------
    >>> from mxcore.config import Config
    >>> registry = Registry(config=Config(environ={"HOME": "/nowhere"}), entry_points=lambda: [])
    >>> registry.resolve("engine", "naive").distribution
    'mxcore'
    """

    # -- choosing ----------------------------------------------------------------------------------------------

    def resolve(
        self,
        kind: str,
        name: str | Sequence[str] | None = None,
        /,
        *,
        device_type: str | None = None,
        origin: str | None = None,
    ) -> Resolved:
        """Say which backend is meant, without creating it.

        Parameters
        ----------
        name : str, list of str, or None
            A name, ``'dist:name'``, or several in order of preference (each step down warns once).
            None: the option of this kind decides, else the usable one with the greatest priority.
        device_type : str, optional
            Only backends that serve it.
        origin : str, optional
            Who asked, if not the calling line ("context").

        Raises
        ------
        BackendError
            Saying why not, and what to do.
        """
        return self._choose(kind, name, device_type, origin, lambda candidate, resolved: resolved)

    def create(
        self,
        kind: str,
        name: str | Sequence[str] | None = None,
        /,
        *,
        device_type: str | None = None,
        origin: str | None = None,
        **options: Any,
    ) -> Any:
        """Make the backend that is meant: ``factory(**options)``. Parameters and errors as :meth:`resolve`.

        Each call makes a new one. Plugins hear of it through ``mxcore_backend_selected``.
        """
        return self._choose(
            kind, name, device_type, origin, lambda candidate, resolved: self._create(candidate, resolved, options)
        )

    def default_name(self, kind: str, device_type: str | None = None) -> str:
        """The name used when no argument is given: the option's, else the usable one with the greatest priority."""
        return self.resolve(kind, device_type=device_type).name

    def asked(self, kind: str, device_type: str | None = None) -> tuple[tuple[str, ...], str, bool] | None:
        """The names that an option asks for, its origin, and whether it speaks for all device types.

        None if no option does. Scans nothing.
        """
        general = self._config.explain(kind)
        setting = general
        if device_type is not None and kind in ("storage", "ops"):
            own = self._config.explain(f"{kind}.{device_type}")
            if own.value and own.origin.rank <= general.origin.rank:
                setting = own
        return (_names(setting.value), str(setting.origin), setting is general) if setting.value else None

    def _choose(
        self,
        kind: str,
        name: str | Sequence[str] | None,
        device_type: str | None,
        origin: str | None,
        use: Callable[[Candidate, Resolved], _T],
    ) -> _T:
        if kind not in KINDS or KINDS[kind].protocol is None:
            services = ", ".join(key for key, row in KINDS.items() if row.protocol is not None)
            raise ConfigError(f"there is no kind of backend '{kind}'. Kinds: {services}.", kind=kind)
        with self._lock:
            self._check_required()
            if name is not None:
                return self._named(kind, _names(name), device_type, origin or "argument", use)
            asked = self.asked(kind, device_type)
            if asked is None:
                return self._implicit(kind, device_type, use)
            names, source, general = asked
            return self._named(kind, names, device_type, source, use, general)

    def _named(
        self,
        kind: str,
        names: Sequence[str],
        device_type: str | None,
        origin: str,
        use: Callable[[Candidate, Resolved], _T],
        general: bool = False,
    ) -> _T:
        """Try names in order. ``general``: an option for all device types, which need not serve this one."""
        errors: list[tuple[str, BackendError]] = []
        for name in names:
            try:
                candidate = self.find(kind, name, origin)
                self.load(candidate, origin)
                if not candidate.serves(device_type):
                    if general:
                        continue
                    raise messages.not_serving(candidate, str(device_type), origin)
                self.probe(candidate, device_type, origin)
                result = use(candidate, _resolved(candidate, origin))
            except BackendError as error:
                if self._config.get("plugins.strict"):
                    raise
                errors.append((name, error))
                continue
            for failed, reason in errors:
                self._warn_once(f"{kind} {failed} {name}", messages.fallback(kind, reason, name, names))
            return result
        if errors:
            raise errors[0][1]
        return self._implicit(kind, device_type, use)

    def _implicit(self, kind: str, device_type: str | None, use: Callable[[Candidate, Resolved], _T]) -> _T:
        """The usable backend with the greatest priority; broken ones are noted, not raised."""
        strict = self._config.get("plugins.strict")
        everything = (*self._own[kind].values(), *self._scan()[kind])
        ranked, broken = [], []
        errors: list[BackendError] = []
        for candidate in everything:
            if self._refused(candidate):
                continue
            try:
                self.load(candidate, "default")
            except BackendError as error:
                if strict:
                    raise
                broken.append(candidate)
                errors.append(error)
                continue
            if candidate.serves(device_type):
                ranked.append(candidate)
        try:
            for candidate in sorted(ranked, key=_by_priority):
                try:
                    self.probe(candidate, device_type, "default")
                    return use(candidate, _resolved(candidate, "default"))
                except BackendError as error:
                    if candidate.state is State.FAILED:
                        if strict:
                            raise
                        broken.append(candidate)
                    errors.insert(0, error)
        finally:
            if broken:
                self._warn_once("broken", messages.broken_plugins(broken))
        if device_type is not None and not ranked:
            raise messages.unserved(kind, device_type, everything)
        raise errors[-1] if errors else messages.not_installed(kind, "", [], None)

    # -- one candidate's way -------------------------------------------------------------------------------------

    def probe(self, candidate: Candidate, device_type: str | None = None, origin: str = "") -> None:
        """Ask a loaded backend whether it can be used here; raise :class:`BackendError` if not."""
        assert candidate.record is not None
        try:
            with guard(Stage.PROBE):
                answer = candidate.record.available()
                if not isinstance(answer, Availability):
                    raise TypeError(f"available() returned {answer!r} instead of an Availability")
        except LoadError as problem:
            self._fail(candidate, problem.stage, problem.error)
            raise self._error_of(candidate, origin) from problem.error
        if not answer.ok:
            candidate.state, candidate.reason, candidate.hint = State.UNAVAILABLE, answer.reason, answer.hint
            raise messages.unavailable(candidate, device_type, origin)
        if candidate.state is not State.ACTIVE:
            candidate.state, candidate.failure = State.AVAILABLE, None

    def _create(self, candidate: Candidate, resolved: Resolved, options: dict[str, Any]) -> Any:
        """Call the factory and check that the result offers the contract."""
        try:
            with guard(Stage.CREATE):
                backend = resolved.record.factory(**options)
                missing = _missing(backend, KINDS[candidate.kind].protocol)
                if missing:
                    raise TypeError(f"{type(backend).__name__} lacks {', '.join(missing)} of the contract")
        except LoadError as problem:
            if isinstance(problem.error, ConfigError):  # a bad value of an option is the user's, not the plugin's
                raise problem.error from None
            self._fail(candidate, problem.stage, problem.error)
            raise self._error_of(candidate, resolved.origin) from problem.error
        candidate.state = State.ACTIVE
        self._config.judge(candidate.kind)
        event = {"kind": candidate.kind, "name": candidate.name, "origin": resolved.origin}
        self._past.append(event)
        if self._loader is not None:
            self._loader.announce("mxcore_backend_selected", **event)
        return backend

    def _check_required(self) -> None:
        if self._required_checked == self._config.generation:
            return
        required = self._config.get("plugins.required")
        if required:
            found = [one for group in self._scan().values() for one in group]
            policy.check_required(required, {normalized(one.distribution): one.version for one in found})
        self._required_checked = self._config.generation


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    return tuple(word.strip() for word in words)


def _resolved(candidate: Candidate, origin: str) -> Resolved:
    assert candidate.record is not None
    return Resolved(
        candidate.kind, candidate.name, candidate.record, candidate.distribution, candidate.version, str(origin)
    )


def _by_priority(candidate: Candidate) -> tuple[int, bool, str]:
    assert candidate.record is not None
    return (-candidate.record.priority, not candidate.builtin, candidate.qualified)


def _missing(backend: Any, protocol: type | None) -> list[str]:
    """Members of the contract that an object does not have."""
    if protocol is None:
        return []
    names = {*dir(protocol), *getattr(protocol, "__annotations__", {})}
    return sorted(name for name in names if not name.startswith("_") and not hasattr(backend, name))
