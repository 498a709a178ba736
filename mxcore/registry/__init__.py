"""HOST: finds plugins, loads them under guard, remembers what went wrong, and makes the backend that is meant.

Examples
--------
A plugin's module::

    from mxcore.registry import hookimpl
    from mxcore.spec import BackendRecord

    def make(**options):
        from .engine import MyEngine  # heavy imports stand here
        return MyEngine(**options)

    @hookimpl
    def mxcore_register_engines(registrar):
        registrar.engine(BackendRecord("mine", api=(1, 0), factory=make))

and its metadata::

    [project.entry-points."mxcore.engines"]
    mine = "my_package.plugin"
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from .candidate import Candidate, Failure, Stage, State
from .catalogue import PluginWarning
from .discovery import EntryPoint
from .host import Registry, Resolved
from .kinds import KINDS, Kind

if TYPE_CHECKING:
    import pluggy

    from .registrar import Command, Registrar

    hookimpl = pluggy.HookimplMarker("mxcore")

_CLASS_REGISTRIES = ("get_registry", "get_register_func", "get_alias_func", "get_create_func")

_lock = threading.Lock()
_process: Registry | None = None


def process_registry() -> Registry:
    """The registry of this process, made at the first call; making it scans and imports nothing."""
    global _process
    if _process is None:
        with _lock:
            if _process is None:
                _process = Registry()
    return _process


def __getattr__(name: str) -> Any:
    if name == "hookimpl":  # plugins only: pluggy stays unimported until there is one
        import pluggy

        from .loader import PROJECT

        marker = globals()["hookimpl"] = pluggy.HookimplMarker(PROJECT)
        return marker
    if name in ("Command", "Registrar"):
        from . import registrar

        return getattr(registrar, name)
    if name in _CLASS_REGISTRIES:  # MXNet's mx.registry, which lives under this name for its users
        from .. import _class_registry

        return getattr(_class_registry, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__all__ = [
    "KINDS",
    "Candidate",
    "Command",
    "EntryPoint",
    "Failure",
    "Kind",
    "PluginWarning",
    "Registrar",
    "Registry",
    "Resolved",
    "Stage",
    "State",
    "hookimpl",
    "process_registry",
]
