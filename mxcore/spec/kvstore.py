"""The contract of a key-value store: parameters shared between devices, workers and machines.

Semantics as MXNet's ``KVStore``: ``push`` adds up the values of one key from several devices and hands the
sum to the updater (or stores it); ``pull`` copies the stored value to every output. Keys are ints or strings,
never mixed. Communication is pushed through the engine, so both return before it is done.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable


class KVStoreCapability(enum.Enum):
    """What a store can do beyond the base contract."""

    OPTIMIZER = "optimizer"  #: ``set_optimizer``: updates run where the values are kept
    DISTRIBUTED = "distributed"  #: more than one worker


@runtime_checkable
class KVStore(Protocol):
    """A store of arrays by key."""

    type: str
    rank: int
    num_workers: int

    def init(self, key: Any, value: Any) -> None:
        """Store first values. A second call with the same key raises."""

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Add up ``value`` (an array or a list, one per device) and update the stored value with the sum."""

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy the stored value into ``out`` (an array or a list). Mutates ``out``."""

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """:meth:`push` and :meth:`pull` in one."""

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """:meth:`init` and :meth:`pull` in one."""

    def set_updater(self, updater: Callable[[Any, Any, Any], None]) -> None:
        """``updater(key, merged, stored)`` replaces the default of storing the sum."""

    def set_optimizer(self, optimizer: Any) -> None:
        """Run ``optimizer`` as the updater. Needs :attr:`KVStoreCapability.OPTIMIZER`."""
