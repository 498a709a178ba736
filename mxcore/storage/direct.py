"""``direct`` storage: the op library allocates; this manager counts, and serves explicit requests.

On glibc the C allocator is told to keep freed blocks: by default every array above 128 KiB comes from fresh pages
and goes back with ``munmap``, and first touch of fresh pages costs more than most elementwise arithmetic
(40 kept results of 65,536 floats: about 5 ms fresh, 0.3 ms reused). ``keep_freed=False`` leaves the allocator as
it is. Other C libraries are left alone.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

from ..spec import Handle, OutOfDeviceMemory, StorageCapability, StorageError, StorageStatistics

#: glibc ``mallopt`` parameters (malloc.h).
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: glibc refuses larger thresholds (half of its HEAP_MAX on 64 bit).
_LARGEST = 32 * 1024 * 1024
#: Free memory at the top of the heap beyond this goes back to the system.
_KEEP = 1024 * 1024 * 1024


def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  (only glibc has it)
        return libc
    except (OSError, AttributeError):
        return None


class DirectStorage:
    """Buffers straight from the system.

    Parameters
    ----------
    keep_freed : bool
        Ask glibc to keep freed blocks for reuse (process-wide; see the module).

    Examples
    --------
    >>> storage = DirectStorage(keep_freed=False)
    >>> handle = storage.alloc(100, "cpu")
    >>> storage.statistics("cpu").live
    100
    >>> storage.free(handle)
    >>> storage.statistics("cpu").live
    0
    """

    name = "direct"
    capabilities = frozenset({StorageCapability.DIRECT})

    def __init__(self, keep_freed: bool = True) -> None:
        self._lock = threading.RLock()  # the collector may free in the middle of a call
        self._accounts: dict[Any, StorageStatistics] = {}
        self._live: set[int] = set()
        self._libc_handle = _libc() if keep_freed else None
        if self._libc_handle is not None:
            self._libc_handle.mallopt(_M_MMAP_THRESHOLD, _LARGEST)
            self._libc_handle.mallopt(_M_TRIM_THRESHOLD, _KEEP)

    def alloc(self, nbytes: int, device: Any) -> Handle:
        """Return a fresh buffer; raises OutOfDeviceMemory."""
        try:
            buffer = bytearray(nbytes)
        except MemoryError:
            now = self.statistics(device)
            raise OutOfDeviceMemory(
                f"storage 'direct' cannot allocate {nbytes} bytes on {device}: {now.live} bytes are live and none "
                f"cached. Use smaller batches, or free arrays that are no longer needed.",
                asked=nbytes,
                live=now.live,
                cached=0,
            ) from None
        handle = Handle(nbytes, nbytes, device, buffer, self)
        with self._lock:
            account = self._accounts.setdefault(device, StorageStatistics())
            account.live += nbytes
            account.peak = max(account.peak, account.live)
            account.allocations += 1
            self._live.add(id(handle))
        return handle

    def free(self, handle: Handle) -> None:
        """Release the buffer; raises StorageError the second time."""
        with self._lock:
            if id(handle) not in self._live:
                raise StorageError(f"storage 'direct': a buffer of {handle.nbytes} bytes was freed twice.")
            self._live.discard(id(handle))
            self._accounts[handle.device].live -= handle.nbytes
        handle.buffer = None

    def release_all(self, device: Any = None) -> int:
        """Hand free heap memory back to the system; 0, since the amount is the C allocator's secret."""
        if self._libc_handle is not None:
            self._libc_handle.malloc_trim(0)
        return 0

    def statistics(self, device: Any = None) -> StorageStatistics:
        """Return a copy of the accounts of ``device``, or of all together."""
        with self._lock:
            accounts = self._accounts.values() if device is None else [self._accounts.get(device, StorageStatistics())]
            total = StorageStatistics()
            for a in accounts:
                total.live += a.live
                total.peak += a.peak
                total.allocations += a.allocations
            return total
