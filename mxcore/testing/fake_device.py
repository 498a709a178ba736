"""A device of limited memory that is none: what a pool does to it is counted and checked.

:class:`FakeDevice` has the protocol of a device allocator (``alloc``, ``free``, ``view``, ``memory``), runs out of memory
like a GPU, fails where it is told to, and finds what a driver would not: overlapping buffers, double frees, and uses of
freed memory. Addresses are never used twice. It may be used from several threads.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from typing import Any

__all__ = ["FakeBuffer", "FakeDevice", "FakeDeviceError"]

#: What freed memory is filled with.
POISON = 0xDD
_ALIGNMENT = 512


class FakeDeviceError(AssertionError):
    """A pool or its user did to the device what must not happen."""


class FakeBuffer:
    """A range of addresses of a fake device, opaque as a device pointer is.

    Attributes
    ----------
    address, nbytes : int
    """

    __slots__ = ("_root", "address", "device", "nbytes")

    def __init__(self, device: FakeDevice, address: int, nbytes: int, root: _Memory) -> None:
        self.device = device
        self.address = address
        self.nbytes = nbytes
        self._root = root

    def __repr__(self) -> str:
        return f"FakeBuffer(address={self.address:#x}, nbytes={self.nbytes})"


class _Memory:
    """What one allocation is made of: its bytes, if there are any."""

    __slots__ = ("address", "data", "freed")

    def __init__(self, address: int, data: bytearray | None) -> None:
        self.address = address
        self.data = data
        self.freed = False


class FakeDevice:
    """A device allocator that counts and checks.

    Parameters
    ----------
    total : int
        Bytes it has.
    memory : bool
        Whether there is real memory behind the addresses, for :meth:`write` and :meth:`read`.
    fail_at : int, optional
        The allocation that fails, the first is 1; see :meth:`fail`.

    Attributes
    ----------
    allocations, frees : int
        Calls that succeeded.
    used, peak : int
        Bytes allocated now, and at most so far.

    Examples
    --------
    >>> device = FakeDevice(1000)
    >>> buffer = device.alloc(600)
    >>> device.memory()
    (400, 1000)
    >>> device.alloc(600)
    Traceback (most recent call last):
        ...
    MemoryError: fake device: 600 bytes asked, 400 of 1000 free
    >>> device.free(buffer)
    >>> device.free(buffer)
    Traceback (most recent call last):
        ...
    mxcore.testing.fake_device.FakeDeviceError: double free of FakeBuffer(address=0x200, nbytes=600)
    """

    def __init__(self, total: int, *, memory: bool = False, fail_at: int | None = None) -> None:
        self.total = total
        self.used = self.peak = self.allocations = self.frees = 0
        self._real = memory
        self._lock = threading.Lock()
        self._next = _ALIGNMENT
        self._live: dict[int, FakeBuffer] = {}
        self._freed: list[_Memory] = []
        self._lent: list[tuple[int, int]] = []
        self._until: int | None = None
        self._times = 0
        if fail_at is not None:
            self.fail(fail_at)

    # -- the protocol of an allocator ------------------------------------------------------------------------------

    def alloc(self, nbytes: int) -> FakeBuffer:
        """Return fresh addresses; raises MemoryError."""
        with self._lock:
            if nbytes <= 0:
                raise FakeDeviceError(f"{nbytes} bytes asked")
            if self._until is not None and self._times > 0:
                self._until -= 1
                if self._until <= 0:
                    self._times -= 1
                    raise MemoryError(f"fake device: told to fail, {nbytes} bytes asked")
            if nbytes > self.total - self.used:
                raise MemoryError(f"fake device: {nbytes} bytes asked, {self.total - self.used} of {self.total} free")
            address = self._next
            self._next += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
            buffer = FakeBuffer(self, address, nbytes, _Memory(address, bytearray(nbytes) if self._real else None))
            self._live[address] = buffer
            self.allocations += 1
            self.used += nbytes
            self.peak = max(self.peak, self.used)
            return buffer

    def free(self, buffer: FakeBuffer) -> None:
        """Take back a buffer, fill it with poison, and let nobody use it."""
        with self._lock:
            if self._live.get(buffer.address) is not buffer:
                what = "double free" if buffer._root.freed else "free of what was not allocated:"
                raise FakeDeviceError(f"{what} of {buffer!r}" if buffer._root.freed else f"{what} {buffer!r}")
            at = bisect_right(self._lent, (buffer.address + buffer.nbytes - 1, self._next)) - 1
            if at >= 0 and self._lent[at][1] > buffer.address:
                raise FakeDeviceError(f"{buffer!r} was freed while a part of it is lent out")
            del self._live[buffer.address]
            root = buffer._root
            root.freed = True
            if root.data is not None:
                root.data[:] = bytes([POISON]) * len(root.data)
                self._freed.append(root)
            self.frees += 1
            self.used -= buffer.nbytes

    def view(self, buffer: FakeBuffer, start: int, nbytes: int) -> FakeBuffer:
        """Return a part of a buffer."""
        self._usable(buffer)
        if start < 0 or nbytes < 0 or start + nbytes > buffer.nbytes:
            raise FakeDeviceError(f"bytes {start} to {start + nbytes} are not all in {buffer!r}")
        return FakeBuffer(self, buffer.address + start, nbytes, buffer._root)

    def memory(self) -> tuple[int, int]:
        """Return free and total bytes."""
        return self.total - self.used, self.total

    # -- what tests do ---------------------------------------------------------------------------------------------

    def fail(self, at: int = 1, times: int = 1) -> None:
        """Let allocations fail: the ``at``-th from now on, and those after it, ``times`` in all."""
        self._until, self._times = at, times

    def lend(self, buffer: FakeBuffer) -> None:
        """Note that somebody uses these addresses; raises FakeDeviceError if somebody else does."""
        self._usable(buffer)
        start, end = buffer.address, buffer.address + buffer.nbytes
        with self._lock:
            at = bisect_right(self._lent, (start, end))
            for other in self._lent[max(at - 1, 0) : at + 1]:
                if other[0] < end and start < other[1]:
                    raise FakeDeviceError(f"{buffer!r} overlaps live bytes {other[0]:#x} to {other[1]:#x}")
            insort(self._lent, (start, end))

    def give_back(self, buffer: FakeBuffer) -> None:
        """Note that the addresses are not used any more; raises FakeDeviceError if they were not lent."""
        entry = (buffer.address, buffer.address + buffer.nbytes)
        with self._lock:
            at = bisect_right(self._lent, entry) - 1
            if at < 0 or self._lent[at] != entry:
                raise FakeDeviceError(f"{buffer!r} was not lent")
            del self._lent[at]

    def write(self, buffer: FakeBuffer, value: int) -> None:
        """Fill a buffer with one byte value."""
        data, start = self._bytes(buffer)
        data[start : start + buffer.nbytes] = bytes([value]) * buffer.nbytes

    def read(self, buffer: FakeBuffer) -> bytes:
        """Return the contents of a buffer."""
        data, start = self._bytes(buffer)
        return bytes(data[start : start + buffer.nbytes])

    def check(self) -> None:
        """Raise FakeDeviceError if somebody wrote to freed memory behind the device's back."""
        for root in self._freed:
            if root.data is not None and root.data.count(POISON) != len(root.data):
                raise FakeDeviceError(f"freed memory at {root.address:#x} was written to")

    def _usable(self, buffer: Any) -> None:
        if buffer._root.freed:
            raise FakeDeviceError(f"use of freed memory: {buffer!r}")

    def _bytes(self, buffer: FakeBuffer) -> tuple[bytearray, int]:
        self._usable(buffer)
        data = buffer._root.data
        if data is None:
            raise FakeDeviceError("this fake device has no memory; make it with memory=True")
        return data, buffer.address - buffer._root.address
