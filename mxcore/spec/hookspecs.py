"""The hooks of mxcore: registration and rare life-cycle events, never anything on a hot path.

Each hook of a plugin is called alone, under a guard of the host: what it raises becomes that plugin's failure
record and hurts nobody else. A plugin implements a hook by a function of the same name marked with
:data:`mxcore.registry.hookimpl`; it may leave out arguments that it does not use.

The specifications are plain functions: pluggy is imported only when there is a plugin to register.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # the registrar lives in the registry room; a contract may name it, never import it
    from ..registry.registrar import Registrar

_F = TypeVar("_F", bound=Callable[..., Any])

#: Attribute that :func:`hookspec` sets; read by the host.
MARK = "__mxcore_hookspec__"


def hookspec(*, historic: bool = False) -> Callable[[_F], _F]:
    """Mark a function as a hook specification.

    Parameters
    ----------
    historic : bool
        A plugin that is registered later is told about earlier calls too.
    """

    def mark(function: _F) -> _F:
        setattr(function, MARK, {"historic": historic})
        return function

    return mark


@hookspec()
def mxcore_register_engines(registrar: Registrar) -> None:
    """Offer dependency engines with ``registrar.engine(BackendRecord(...))``.

    Runs once, when an entry point of the group ``mxcore.engines`` in this module is first needed, in the thread
    that needed it. May raise anything: everything this plugin registered is then rolled back.

    .. versionadded:: 0.1
    """


@hookspec()
def mxcore_register_storage(registrar: Registrar) -> None:
    """Offer storage managers with ``registrar.storage(BackendRecord(...))``.

    Runs once, when an entry point of the group ``mxcore.storage`` in this module is first needed, in the thread
    that needed it. May raise anything: everything this plugin registered is then rolled back.

    .. versionadded:: 0.1
    """


@hookspec()
def mxcore_register_op_libraries(registrar: Registrar) -> None:
    """Offer op libraries with ``registrar.op_library(BackendRecord(..., device_types=...))``.

    Runs once, when an entry point of the group ``mxcore.ops`` in this module is first needed, in the thread
    that needed it. May raise anything: everything this plugin registered is then rolled back.

    .. versionadded:: 0.1
    """


@hookspec()
def mxcore_register_kvstores(registrar: Registrar) -> None:
    """Offer key-value stores with ``registrar.kvstore(BackendRecord(...))``.

    Runs once, when an entry point of the group ``mxcore.kvstores`` in this module is first needed, in the thread
    that needed it. May raise anything: everything this plugin registered is then rolled back.

    .. versionadded:: 0.1
    """


@hookspec()
def mxcore_register_operators(registrar: Registrar) -> None:
    """Offer operator definitions with ``registrar.operator(definition)``.

    The name of the entry point (group ``mxcore.operators``) is their namespace. Runs once, at the first access to
    that namespace, in the thread that made it. May raise anything: all of this plugin is then rolled back.

    .. versionadded:: 0.1
    """


@hookspec()
def mxcore_register_instruments(registrar: Registrar) -> None:
    """Offer instruments with ``registrar.instrument(listener, events)``.

    Runs once, when the entry points of the group ``mxcore.plugins`` are loaded (command line, or instruments asked
    for), in the thread that loads them. May raise anything: all of this plugin is then rolled back.

    .. versionadded:: 0.1
    """


@hookspec()
def mxcore_register_options(registrar: Registrar) -> None:
    """Declare typed options with ``registrar.option(OptionRecord(...))``.

    Runs once for every plugin of any group, right after its module was imported and before its other hooks, in the
    thread that loads it. May raise anything: all of this plugin is then rolled back.

    .. versionadded:: 0.1
    """


@hookspec()
def mxcore_cli_commands(registrar: Registrar) -> None:
    """Add commands to the ``mxcore`` program with ``registrar.command(name, configure, run, help)``.

    Runs once, when the entry points of the group ``mxcore.plugins`` are loaded (for the command line: when a command
    that is not built in is asked for), in the thread that loads them. May raise anything: all of this plugin is then
    rolled back.

    .. versionadded:: 0.1
    """


@hookspec(historic=True)
def mxcore_backend_selected(kind: str, name: str, origin: str) -> None:
    """A backend was created for use: ``kind`` ("engine", ...), its name, and who asked for it.

    Runs in the thread that made the choice, after the backend was created; a plugin that is registered later is
    told about earlier choices. What it raises is logged and ignored.

    .. versionadded:: 0.1
    """


@hookspec()
def mxcore_shutdown() -> None:
    """The process is ending and the engine has drained; release what the plugin holds.

    Runs once, in the thread that shuts down. What it raises is logged and ignored.

    .. versionadded:: 0.1
    """
