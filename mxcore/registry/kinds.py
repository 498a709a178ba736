"""The kinds of plugin: one row each, from which entry-point group, hook, option and error texts follow."""

from __future__ import annotations

from dataclasses import dataclass

from ..spec.engine import Engine
from ..spec.kvstore import KVStore
from ..spec.oplibrary import OperatorLibrary
from ..spec.storage import StorageManager


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of plugin.

    Attributes
    ----------
    key : str
        What the API calls it, and (for services) the name of the option that selects one.
    noun, plural : str
        For messages.
    group : str
        The entry-point group.
    hooks : tuple of str
        The registration hooks that an entry point of this group is asked for.
    protocol : type or None
        What a created backend must offer; None for contributions, of which all are used.
    """

    key: str
    noun: str
    plural: str
    group: str
    hooks: tuple[str, ...]
    protocol: type | None = None

    @property
    def variable(self) -> str:
        """The environment variable that selects one."""
        return f"MXCORE_{self.key.upper()}"


KINDS: dict[str, Kind] = {
    kind.key: kind
    for kind in (
        Kind("engine", "engine", "engines", "mxcore.engines", ("mxcore_register_engines",), Engine),
        Kind(
            "storage",
            "storage manager",
            "storage managers",
            "mxcore.storage",
            ("mxcore_register_storage",),
            StorageManager,
        ),
        Kind("ops", "op library", "op libraries", "mxcore.ops", ("mxcore_register_op_libraries",), OperatorLibrary),
        Kind("kvstore", "kvstore", "kvstores", "mxcore.kvstores", ("mxcore_register_kvstores",), KVStore),
        Kind(
            "operators", "operator namespace", "operator namespaces", "mxcore.operators", ("mxcore_register_operators",)
        ),
        Kind("plugin", "plugin", "plugins", "mxcore.plugins", ("mxcore_register_instruments", "mxcore_cli_commands")),
    )
}

GROUPS: dict[str, str] = {kind.group: kind.key for kind in KINDS.values()}
