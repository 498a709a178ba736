"""Device allocators: where pools get memory from. One small protocol, and the allocator of the host's memory.

An allocator keeps nothing and counts nothing: that is a pool's work. It is called under the pool's lock, by one thread
at a time per device.
"""

from __future__ import annotations

import os
import time
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .rounding import ALIGNMENT


@runtime_checkable
class DeviceAllocator(Protocol):
    """What a device has to be able to do; GPUs and :class:`mxcore.testing.fake_device.FakeDevice` implement it."""

    def alloc(self, nbytes: int) -> Any:
        """Return a buffer of ``nbytes`` bytes, aligned to 64 or better, uninitialised.

        Raises
        ------
        MemoryError
            If there is no such memory. Nothing else means that.
        """

    def free(self, buffer: Any) -> None:
        """Take back a buffer that :meth:`alloc` returned."""

    def view(self, buffer: Any, start: int, nbytes: int) -> Any:
        """Return a part of a buffer, as a buffer of the same kind."""

    def memory(self) -> tuple[int, int]:
        """Return free and total bytes of the device; ``(0, 0)`` if it cannot say."""


class CpuAllocator:
    """Memory of the host, aligned to 64 bytes, as writable ``memoryview`` objects of bytes.

    The memory goes back to the system when the last view of it is gone, so a view that outlives the buffer's release
    still sees memory of its own.

    Examples
    --------
    >>> allocator = CpuAllocator()
    >>> buffer = allocator.alloc(100)
    >>> buffer.nbytes, allocator.view(buffer, 64, 36).nbytes, buffer.readonly
    (100, 36, False)
    """

    #: Reading how much memory is free takes some 20 microseconds: once in this many seconds is enough.
    SECONDS = 0.01

    def __init__(self) -> None:
        self._read_at = -1.0
        self._memory = (0, 0)

    def alloc(self, nbytes: int) -> memoryview:
        """Return fresh memory; raises MemoryError."""
        # NumPy and not mmap: private after a fork on every system, and huge pages where the system has them.
        whole = np.empty(nbytes + ALIGNMENT - 1, np.uint8)
        start = -whole.ctypes.data % ALIGNMENT
        return whole.data[start : start + nbytes]

    def free(self, buffer: memoryview) -> None:
        """Do nothing: dropping the last reference is what frees."""

    def view(self, buffer: memoryview, start: int, nbytes: int) -> memoryview:
        """Return a slice, without a copy."""
        return buffer[start : start + nbytes]

    def memory(self) -> tuple[int, int]:
        """Return available and total bytes of this machine; (0, 0) on systems that do not say."""
        now = time.monotonic()
        if self._read_at < 0 or now - self._read_at > self.SECONDS:
            self._memory, self._read_at = _host_memory(), now
        return self._memory


def _host_memory() -> tuple[int, int]:
    try:
        with open("/proc/meminfo", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file)
        return int(fields[b"MemAvailable"].split()[0]) * 1024, int(fields[b"MemTotal"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page
    except (AttributeError, OSError, ValueError):
        return 0, 0
