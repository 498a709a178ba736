"""Loading one plugin: import, registration with pluggy, hooks; everything under a guard.

This is the only file that imports pluggy, and it does so when the first plugin is loaded. Foreign exceptions,
``SystemExit`` included, leave as :class:`LoadError` with the stage at which they came; ``KeyboardInterrupt`` is the
user's and passes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..spec import hookspecs
from ..spec.errors import PluginError
from .candidate import LoadError, Stage, guard
from .discovery import EntryPoint, normalized
from .kinds import Kind
from .registrar import Registrar

if TYPE_CHECKING:
    import pluggy

#: pluggy's name for our markers.
PROJECT = "mxcore"

_OPTIONS_HOOK = "mxcore_register_options"


@dataclass(slots=True)
class _Loaded:
    plugin: Any
    name: str
    hooks_done: set[str] = field(default_factory=set)


class Loader:
    """Imports plugins one at a time and calls their hooks one at a time. The caller holds a lock.

    Parameters
    ----------
    past : list
        The arguments of every ``mxcore_backend_selected`` so far, kept up by the caller; a new plugin is told.
    """

    def __init__(self, past: list[dict[str, Any]]) -> None:
        self._manager: pluggy.PluginManager | None = None
        self._loaded: dict[tuple[str, str], _Loaded] = {}
        self._past = past

    def load(self, source: EntryPoint, kind: Kind, accept: Callable[[Registrar], None]) -> Registrar:
        """Import the module of ``source`` if it is new, and let it register what it has of ``kind``.

        Parameters
        ----------
        accept : callable
            Called with the registrar before the plugin is kept; what it raises undoes the registration.

        Raises
        ------
        LoadError
            With the stage. A plugin that was new is unregistered again.
        """
        key = (normalized(source.distribution), source.value)
        loaded = self._loaded.get(key)
        hooks = kind.hooks
        new = loaded is None
        if loaded is None:
            if source.problem:
                raise LoadError(Stage.METADATA, PluginError(source.problem))
            with guard(Stage.IMPORT):
                plugin = source.load() if source.load is not None else _import(source.value)
            loaded = _Loaded(plugin, f"{key[0]}:{source.value}")
            hooks = (_OPTIONS_HOOK, *hooks)
        registrar = Registrar(source.distribution, source.version)
        try:
            with guard(Stage.REGISTER):
                if new:
                    self._register(loaded)
                for hook in hooks:
                    self._call(loaded, hook, registrar=registrar)
                accept(registrar)
        except BaseException:
            if new:
                self._unregister(loaded)
            raise
        loaded.hooks_done.update(hooks)
        if new:
            self._loaded[key] = loaded
            for past in self._past:
                self._notify(loaded, "mxcore_backend_selected", past)
        return registrar

    def announce(self, hook: str, **arguments: Any) -> None:
        """Call an event hook of every plugin, each under its own guard; what one raises is logged.

        pluggy's own call would stop at the first plugin that raises and leave the others uninformed.
        """
        for loaded in list(self._loaded.values()):
            self._notify(loaded, hook, arguments)

    def _register(self, loaded: _Loaded) -> None:
        if self._manager is None:
            self._manager = make_manager()
        self._manager.register(loaded.plugin, loaded.name)
        self._manager.check_pending()

    def _unregister(self, loaded: _Loaded) -> None:
        if self._manager is not None and self._manager.get_plugin(loaded.name) is loaded.plugin:
            self._manager.unregister(loaded.plugin)

    def _call(self, loaded: _Loaded, hook: str, **arguments: Any) -> None:
        assert self._manager is not None
        others = [plugin for plugin in self._manager.get_plugins() if plugin is not loaded.plugin]
        self._manager.subset_hook_caller(hook, others)(**arguments)

    def _notify(self, loaded: _Loaded, hook: str, arguments: dict[str, Any]) -> None:
        try:
            self._call(loaded, hook, **arguments)
        except Exception:
            import logging  # only failures pay for it

            logging.getLogger("mxcore.registry").exception("plugin '%s' raised in hook %s", loaded.name, hook)


def make_manager() -> pluggy.PluginManager:
    """A pluggy manager that knows our hooks."""
    import pluggy

    class Manager(pluggy.PluginManager):
        # The specifications carry our own mark, so that declaring them does not import pluggy; past calls are
        # replayed by Loader (one plugin at a time, guarded), so pluggy need not remember them.
        def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
            if not hasattr(getattr(module_or_class, name), hookspecs.MARK):
                return None
            return {"firstresult": False, "historic": False, "warn_on_impl": None, "warn_on_impl_args": None}

    manager = Manager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def _import(value: str) -> Any:
    module, _, attribute = value.partition(":")
    found: Any = importlib.import_module(module.strip())
    for part in filter(None, attribute.strip().split(".")):
        found = getattr(found, part)
    return found
