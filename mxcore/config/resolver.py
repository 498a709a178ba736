"""Typed options with provenance: argument > context > set() > environment > file > plugin default > default.

One :class:`Config` holds the declared options and the values given at each level, and answers for every option
which value holds and where it came from. It must never read the environment at import, and never guess: a value
that cannot be is an error that names the variable or the file.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from ..spec.errors import ConfigError
from ..spec.records import OptionRecord
from . import files
from .options import CORE_OPTIONS, MXNET_NAMES, NOT_OPTIONS, PLUGIN_SECTIONS, environment_name, option_name
from .values import Origin, Setting, coerce, did_you_mean, parse, to_text


class ConfigWarning(UserWarning):
    """An option name that nothing knows, in the environment or a file; it is ignored."""


class Config:
    """Options and their values. May be used from any thread; values set by :meth:`context` stay in their context.

    Parameters
    ----------
    environ : mapping, optional
        Instead of ``os.environ`` (read at first use, then kept until :meth:`refresh`).
    records : tuple of OptionRecord
        What is declared from the start.

    Examples
    --------
    >>> config = Config(environ={"MXNET_ENGINE_TYPE": "NaiveEngine", "HOME": "/nowhere"})
    >>> value, origin = config.explain("engine")
    >>> value, str(origin)
    ('naive', 'environment MXNET_ENGINE_TYPE')
    >>> with config.context(engine="threaded"):
    ...     config.get("engine")
    'threaded'
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, records: tuple[OptionRecord, ...] = CORE_OPTIONS
    ) -> None:
        self._given_environ = environ
        self._records = {record.name: record for record in records}
        self._plugin_defaults: dict[str, Setting] = {}
        self._values: dict[str, Any] = {}
        self._context: ContextVar[Mapping[str, Any]] = ContextVar("mxcore.config", default={})  # noqa: B039 (never mutated)
        self._lock = threading.RLock()
        self._environ: dict[str, str] | None = None
        self._files: list[tuple[str, dict[str, str]]] = []
        self._cache: dict[str, Setting] = {}
        self._judged: set[str] = set()
        self._warned: set[str] = set()
        #: Grows with every change outside contexts; caches compare it.
        self.generation = 0

    # -- declaring ---------------------------------------------------------------------------------------------

    def declare(self, *records: OptionRecord, distribution: str = "") -> None:
        """Add options, all or none; an option that exists gets a plugin's default and further aliases.

        Parameters
        ----------
        distribution : str
            Whose defaults they are; empty for the core.

        Raises
        ------
        ConfigError
            If an option exists with another type, or its default cannot be.
        """
        with self._lock:
            defaults = {record.name: self._plugin_default(record, distribution) for record in records}
            for record in records:
                known = self._records.get(record.name, record)
                aliases = tuple(dict.fromkeys(known.aliases + record.aliases))
                self._records[record.name] = replace(known, aliases=aliases)
                setting = defaults[record.name]
                if setting is not None:
                    self._plugin_defaults[record.name] = setting
            self._changed()

    def _plugin_default(self, record: OptionRecord, distribution: str) -> Setting | None:
        known = self._records.get(record.name)
        if known is not None and known.kind is not record.kind:
            raise ConfigError(
                f"option '{record.name}' is declared with type {known.kind.__name__}; "
                f"{distribution or 'the program'} declares it with type {record.kind.__name__}. "
                "Use the same type or another name.",
                option=record.name,
            )
        if not distribution or record.default is None:
            return None
        default = coerce(record, record.default, f"the default of {distribution}")
        return Setting(default, Origin("plugin default", distribution))

    def records(self) -> list[OptionRecord]:
        """Every declared option, by name."""
        return [self._records[name] for name in sorted(self._records)]

    def names(self) -> list[str]:
        """Every option that has a value or could have one: families appear by the members that are set."""
        with self._lock:
            environ = self._read_environ()
            keys = {option_name(key) for key in environ if key.startswith("MXCORE_")}
            keys.update(MXNET_NAMES[key][0] for key in environ if key in MXNET_NAMES)
            keys.update(key for _, values in self._files for key in values)
            keys.update(self._values, self._context.get())
        families = tuple(name[:-1] for name in self._records if name.endswith("*"))
        members = {key for key in keys if key.startswith(families)}
        return sorted(members | {name for name in self._records if not name.endswith("*")})

    # -- asking ------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Any:
        """The value of an option. Does not block (the first call reads the environment and the user's files)."""
        return self.explain(name).value

    def explain(self, name: str, argument: Any = None) -> Setting:
        """The value of an option and its origin; ``argument`` (unless None) wins over everything.

        Raises
        ------
        ConfigError
            If nothing declared the option, or the value that holds cannot be.
        """
        if argument is not None:
            return Setting(coerce(self._record(name), argument, f"argument '{name}'"), Origin("argument"))
        inner = self._context.get()
        if name in inner:
            return Setting(inner[name], Origin("context"))
        setting = self._cache.get(name)
        if setting is None:
            with self._lock:
                setting = self._cache[name] = next(self._layers(self._record(name), name))
        return setting

    def layers(self, name: str) -> list[Setting]:
        """Every level that gives the option a value, strongest first: what holds, then what lost to it."""
        record = self._record(name)
        inner = self._context.get()
        with self._lock:
            outer = list(self._layers(record, name))
        return ([Setting(inner[name], Origin("context"))] if name in inner else []) + outer

    def _layers(self, record: OptionRecord, name: str) -> Iterator[Setting]:
        if name in self._values:
            yield Setting(self._values[name], Origin("set"))
        environ = self._read_environ()
        variables = self._variables(record, name)
        for variable in variables:
            if variable in environ:
                value = _parse_variable(record, variable, environ[variable], variable)
                if value is not None:
                    yield Setting(value, Origin("environment", variable))
        for path, values in self._files:
            for key in (name, *variables):
                if key in values:
                    value = _parse_variable(record, key, values[key], f"'{key}' in '{path}'")
                    if value is not None:
                        yield Setting(value, Origin("file", path))
        if name in self._plugin_defaults:
            yield self._plugin_defaults[name]
        yield Setting(record.default, Origin("default"))

    # -- setting -----------------------------------------------------------------------------------------------

    def set(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Set options for the whole process, all or none; ``None`` takes a value back.

        Keywords write dots as ``__`` (``engine__workers=2``); ``storage={"cpu": "round"}`` sets ``storage.cpu``.
        """
        wanted = self._expand(values, named)
        with self._lock:
            merged = {**self._values, **wanted}
            self._values = {name: value for name, value in merged.items() if value is not None}
            self._changed()

    @contextmanager
    def context(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> Iterator[Config]:
        """Set options inside a ``with`` block, for this thread or task only. Arguments as :meth:`set`."""
        wanted = {name: value for name, value in self._expand(values, named).items() if value is not None}
        token = self._context.set({**self._context.get(), **wanted})
        try:
            yield self
        finally:
            self._context.reset(token)

    def refresh(self) -> None:
        """Forget what was read from the environment and files; the next use reads them again."""
        with self._lock:
            self._environ = None
            self._files = []
            self._changed()

    def child_environment(self) -> dict[str, str]:
        """Variables that make a child process see the choices made here by :meth:`set` and :meth:`context`."""
        chosen = {**self._values, **self._context.get()}
        return {environment_name(name): to_text(value) for name, value in chosen.items()}

    # -- unknown names -----------------------------------------------------------------------------------------

    def judge(self, section: str) -> None:
        """Warn about unknown names below ``section`` too: its plugin is loaded, so its options are known."""
        with self._lock:
            if section not in self._judged:
                self._judged.add(section)
                if self._environ is not None:
                    self._warn_unknown()

    def ignored_mxnet_variables(self) -> list[str]:
        """``MXNET_*`` variables of the environment that mean nothing to mxcore."""
        with self._lock:
            environ = self._read_environ()
            known = self._known_variables()
        return sorted(name for name in environ if name.startswith("MXNET_") and name not in known)

    def _warn_unknown(self) -> None:
        known = self._known_variables()
        for variable in self._environ or ():
            if variable.startswith("MXCORE_") and variable not in known and not self._tolerates(option_name(variable)):
                self._warn(f"environment variable {variable}", variable, known)
        options = {name for name in self._records if not name.endswith("*")}
        for path, values in self._files:
            for key in values:
                if key not in options and key not in known and not self._tolerates(key):
                    self._warn(f"option '{key}' in '{path}'", key, known if key.isupper() else options)

    def _tolerates(self, option: str) -> bool:
        """Whether a name not declared may still mean something: a family member, or an option of a plugin."""
        section, dot, _ = option.partition(".")
        if f"{section}.*" in self._records and dot:
            return True
        return option.startswith("MXNET_") or (section in PLUGIN_SECTIONS - self._judged and bool(dot))

    def _warn(self, what: str, word: str, known: AbstractSet[str]) -> None:
        if what in self._warned:
            return
        self._warned.add(what)
        closest = did_you_mean(word, known)
        hint = f"Did you mean {closest}?" if closest else "'mxcore config show' lists the options."
        warnings.warn(f"unknown {what} is ignored. {hint}", ConfigWarning, stacklevel=2)

    # -- inside ------------------------------------------------------------------------------------------------

    def _read_environ(self) -> dict[str, str]:
        if self._environ is None:
            environ = dict(os.environ if self._given_environ is None else self._given_environ)
            self._files = [(path, files.read(path)) for path in files.search(environ)]
            self._environ = environ
            self._warn_unknown()
        return self._environ

    def _known_variables(self) -> AbstractSet[str]:
        known = set(MXNET_NAMES) | NOT_OPTIONS
        for record in self._records.values():
            known.update(record.aliases)
            if not record.name.endswith("*"):
                known.add(environment_name(record.name))
        return known

    def _variables(self, record: OptionRecord, name: str) -> list[str]:
        own = record.aliases if record.name == name else ()
        return [environment_name(name), *own, *(key for key, (option, _) in MXNET_NAMES.items() if option == name)]

    def _record(self, name: str) -> OptionRecord:
        record = self._records.get(name)
        if record is None:
            record = self._records.get(f"{name.partition('.')[0]}.*") if "." in name else None
        if record is None or name.endswith("*"):
            closest = did_you_mean(name, [known for known in self._records if not known.endswith("*")])
            hint = f"Did you mean '{closest}'?" if closest else "'mxcore config show' lists the options."
            raise ConfigError(f"unknown option '{name}'. {hint}", option=name)
        return record

    def _expand(self, values: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
        """Check names and values; keywords get their dots, mappings become the options below."""
        flat: dict[str, Any] = {}
        for name, value in (*(values or {}).items(), *((key.replace("__", "."), v) for key, v in named.items())):
            if isinstance(value, Mapping):
                flat.update({f"{name}.{inner}": item for inner, item in value.items()})
            else:
                flat[name] = value
        return {name: coerce(self._record(name), value, f"option '{name}'") for name, value in flat.items()}

    def _changed(self) -> None:
        self._cache = {}
        self.generation += 1


def _parse_variable(record: OptionRecord, key: str, text: str, where: str) -> Any:
    """The value of a text, MXNet's spelling translated; None where an empty text means unset."""
    if not text.strip() and record.kind is not list:
        return None
    _, spellings = MXNET_NAMES.get(key, ("", None))
    if spellings is None:
        return parse(record, text, where)
    value = spellings.get(text.strip())
    if value is None:
        closest = did_you_mean(text.strip(), spellings)
        raise ConfigError(
            f"{where} is {text!r}, which is not one of MXNet's values: {', '.join(spellings)}."
            + (f" Did you mean {closest}?" if closest else f" Other values go into {environment_name(record.name)}."),
            option=record.name,
            value=text,
            where=where,
        )
    return value
