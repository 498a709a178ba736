"""The contract of a storage manager: byte buffers per device, with exact accounts.

A storage manager knows sizes and devices, never dtypes or shapes. Buffers return to the manager that made
them, whichever manager is current then. (Design section 9; MXNet 1.9.1 ``include/mxnet/storage.h``.)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


class StorageCapability(enum.Enum):
    """What a manager can do beyond the base contract."""

    DIRECT = "direct"  #: ``alloc`` is not needed on hot paths: the op library allocates for itself
    POOLED = "pooled"  #: freed buffers are kept and handed out again
    SHARED = "shared"  #: buffers can be mapped by other processes


@dataclass(slots=True)
class Handle:
    """One allocated buffer.

    Attributes
    ----------
    nbytes : int
        Bytes asked for.
    capacity : int
        Bytes reserved, at least ``nbytes``.
    device : hashable
        Where it lives.
    buffer : object
        Host devices: a writable buffer object (``memoryview``-able) of ``capacity`` bytes. Others: opaque.
    manager : StorageManager
        Who takes it back.
    """

    nbytes: int
    capacity: int
    device: Any
    buffer: Any
    manager: Any


@dataclass(slots=True)
class StorageStatistics:
    """Exact accounts of one device, all in bytes but the counters.

    ``live`` + ``cached`` is what the manager holds from the system; ``peak`` is the greatest ``live`` so far.
    """

    live: int = 0
    cached: int = 0
    peak: int = 0
    allocations: int = 0
    hits: int = 0


@runtime_checkable
class StorageManager(Protocol):
    """Hands out and takes back byte buffers. May be called from any thread."""

    name: str
    capabilities: frozenset[StorageCapability]

    def alloc(self, nbytes: int, device: Any) -> Handle:
        """Return a buffer of at least ``nbytes`` bytes, uninitialised.

        Raises
        ------
        OutOfDeviceMemory
            After cached buffers were released and the request retried.
        """

    def free(self, handle: Handle) -> None:
        """Take ``handle`` back. A second call with the same handle raises StorageError."""

    def release_all(self, device: Any = None) -> int:
        """Give cached buffers back to the system; return how many bytes that were."""

    def statistics(self, device: Any = None) -> StorageStatistics:
        """Return the accounts of ``device`` (all devices together when None)."""
