"""The pool: a storage manager over a rounding policy, a container and an allocator per device.

It promises exact accounts at every moment (``live + cached`` is what it holds from the device), that no byte is in two
live buffers, and that a failed request changes nothing. Calls may come from any thread, and ``free`` also from a
finalizer that runs in the middle of any other call: what cannot be taken back at once waits in ``returned``, and
whoever holds the lock takes it back. ``alloc`` and ``free`` of a warm pool are written out in full: they are what
`benchmarks/pools.py` holds to 1.5 microseconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mxcore.spec import Handle, OutOfDeviceMemory, StorageCapability, StorageError, StorageStatistics

from .allocators import CpuAllocator, DeviceAllocator
from .containers import BestFit, Block, BlockState, Chunk, Exact, Stack
from .rounding import SMALL, Rounding, Settings, classes, exact, pages, powers

__all__ = ["BlockInfo", "PooledStorage"]

_FREE, _RESERVED, _LIVE = BlockState.FREE, BlockState.RESERVED, BlockState.LIVE
#: Sizes whose stack is remembered; more distinct ones than this, and the memory starts anew.
_REMEMBERED = 4096
#: So many requests without a new peak, and a pool knows what the program needs: from then on it avoids the device, before
#: that it avoids waste.
SETTLED = 1000

#: Name: rounding, container, whether freed blocks are kept.
_KINDS: dict[str, tuple[Callable[[Settings], Rounding], type[Exact], bool]] = {
    "naive": (pages, Exact, True),
    "round": (powers, Exact, True),
    "unpooled": (exact, Exact, False),
    "best_fit": (classes, BestFit, True),
}

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """One block of a pool, for pictures of the memory.

    Attributes
    ----------
    chunk, start, capacity : int
        Number of the chunk, and where in it the block is, in bytes.
    nbytes : int
        What was asked for, 0 unless live.
    state : str
        ``"free"``, ``"reserved"`` or ``"live"``.
    """

    chunk: int
    start: int
    capacity: int
    nbytes: int
    state: str


class PoolHandle(Handle):
    """A handle that knows its block, until it is freed."""

    __slots__ = ("_arena", "_block")

    _arena: _Arena
    _block: Block


class _Arena:
    """The memory of one device."""

    __slots__ = (
        "allocator",
        "container",
        "counts",
        "device",
        "held_peak",
        "high",
        "limit",
        "lock",
        "plain",
        "remembered",
        "returned",
        "risen",
        "rounding",
        "settings",
    )

    def __init__(
        self, device: Any, allocator: Any, container: Exact, rounding: Rounding, settings: Settings, plain: bool
    ) -> None:
        self.device = device
        self.allocator = allocator
        self.container = container
        self.rounding = rounding
        self.settings = settings
        self.lock = threading.Lock()
        self.counts = StorageStatistics()
        self.returned: deque[Block] = deque()
        self.remembered: dict[int, Stack] = {}
        self.limit: int | None = None
        self.held_peak = 0
        self.high = 0  # greatest live ever, and the number of the request that made it so
        self.risen = 0
        self.plain = plain

    def stack(self, nbytes: int) -> Stack:
        if len(self.remembered) >= _REMEMBERED:
            self.remembered.clear()
        stack = self.remembered[nbytes] = self.container.stack(self.rounding(nbytes))
        return stack


class PooledStorage:
    """Hands out and takes back byte buffers, and keeps freed ones for the next request.

    Parameters
    ----------
    name : {"best_fit", "naive", "round", "unpooled"}
    allocators : mapping of device type to callable, optional
        ``allocators["gpu"](device)`` returns the :class:`~mxcore_storage_pooled.allocators.DeviceAllocator` of a
        device. The host's ``cpu`` and ``cpu_pinned`` (ordinary memory where no GPU is) are there already.
    settings : callable or Settings, optional
        ``settings(device_type)`` returns the sizes to work with, asked once per device at its first use. Default: MXNet's.
    strict : bool
        Recount and check everything after each call (slow), and raise StorageError if a count is wrong.

    Notes
    -----
    All ``cpu(i)`` are one device, as are all ``cpu_pinned(i)`` without a GPU; GPUs are one each. A device that is
    no context is its own. ``live`` counts capacities, what requests were rounded up to.

    Examples
    --------
    >>> pool = PooledStorage("naive")
    >>> handle = pool.alloc(5000, "cpu")
    >>> handle.nbytes, handle.capacity
    (5000, 8192)
    >>> pool.free(handle)
    >>> pool.statistics("cpu")
    StorageStatistics(live=0, cached=8192, peak=8192, allocations=1, hits=0)
    >>> pool.release_all("cpu")
    8192
    """

    def __init__(
        self,
        name: str = "best_fit",
        *,
        allocators: Mapping[str, Callable[[Any], DeviceAllocator]] | None = None,
        settings: Settings | Callable[[str], Settings] | None = None,
        strict: bool = False,
    ) -> None:
        if name not in _KINDS:
            raise StorageError(f"there is no pool '{name}'. Pools are {', '.join(_KINDS)}.", name=name)
        self.name = name
        self._policy, self._container, self._keeps = _KINDS[name]
        self.capabilities = frozenset({StorageCapability.POOLED}) if self._keeps else frozenset()
        self._allocators: dict[str, Callable[[Any], DeviceAllocator]] = {
            "cpu": lambda device: CpuAllocator(),
            "cpu_pinned": lambda device: CpuAllocator(),
            **(allocators or {}),
        }
        given = settings or Settings()
        self._settings: Callable[[str], Settings] = given if callable(given) else lambda device_type: given
        self._strict = strict
        self._lock = threading.Lock()
        self._arenas: dict[Any, _Arena] = {}  # several devices may have one arena
        _managers.add(self)

    # -- the contract --------------------------------------------------------------------------------------------

    def alloc(self, nbytes: int, device: Any) -> Handle:
        """Return a buffer of at least ``nbytes`` bytes, uninitialised. Blocks only while another thread is in a call.

        Raises
        ------
        OutOfDeviceMemory
            After cached buffers were given back and the request was tried again. Nothing has changed then but that.
        StorageError
            If ``nbytes`` is no size, or the pool has no allocator for ``device``.
        """
        try:
            arena = self._arenas[device]
            stack = arena.remembered[nbytes]
        except (KeyError, TypeError):
            arena, stack = self._first(nbytes, device)
        lock = arena.lock
        lock.acquire()
        try:
            if arena.returned:
                self._take_back(arena)
            counts = arena.counts
            if stack:
                block = stack.pop()
                counts.hits += 1
                counts.cached -= block.capacity
            else:
                block = self._miss(arena, stack, nbytes)
            block.state = _LIVE
            block.nbytes = nbytes
            counts.allocations += 1
            live = counts.live = counts.live + block.capacity
            if live > counts.peak:
                counts.peak = live
                if live > arena.high:
                    arena.high = live
                    arena.risen = counts.allocations
            if self._strict:
                self._check(arena)
        finally:
            lock.release()
        handle = PoolHandle(nbytes, block.capacity, device, block.buffer, self)
        handle._arena = arena
        handle._block = block
        return handle

    def free(self, handle: Handle) -> None:
        """Take ``handle`` back; its ``buffer`` is None from then on. Never blocks.

        Raises
        ------
        StorageError
            The second time, and for a handle of another manager. Nothing has changed then.
        """
        if type(handle) is not PoolHandle or handle.manager is not self:
            raise self._foreign(handle)
        try:
            block = handle._block
            del handle._block  # of two threads, one fails here
        except AttributeError:
            raise StorageError(
                f"storage '{self.name}': a buffer of {handle.nbytes} bytes on {handle.device} was freed twice. "
                f"Whoever allocates a buffer frees it once; look for a second owner of this handle.",
                nbytes=handle.nbytes,
            ) from None
        handle.buffer = None
        arena = handle._arena
        if arena.plain and arena.lock.acquire(False):
            try:
                stack: Any = block.stack  # only merged blocks are in none
                block.state = _FREE
                stack.append(block)
                if not stack.listed:
                    stack.listed = True
                    stack.loose.append(stack)
                counts = arena.counts
                capacity = block.capacity
                counts.live -= capacity
                counts.cached += capacity
            finally:
                arena.lock.release()
        else:
            arena.returned.append(block)
        while arena.returned and arena.lock.acquire(False):
            try:
                self._take_back(arena)
                if self._strict:
                    self._check(arena)
            finally:
                arena.lock.release()

    def release_all(self, device: Any = None) -> int:
        """Give all cached memory that is in whole chunks back to the device; return how many bytes that were."""
        return self.trim(0, device)

    def statistics(self, device: Any = None) -> StorageStatistics:
        """Return a copy of the accounts of ``device``, or of all together (``peak`` is then the sum of peaks)."""
        total = StorageStatistics()
        for arena in self._of(device):
            with self._locked(arena):
                counts = arena.counts
                total.live += counts.live
                total.cached += counts.cached
                total.peak += counts.peak
                total.allocations += counts.allocations
                total.hits += counts.hits
        return total

    # -- beyond the contract -------------------------------------------------------------------------------------

    def trim(self, to_bytes: int = 0, device: Any = None) -> int:
        """Give cached memory back until at most ``to_bytes`` are cached per device; return how many bytes were given.

        Chunks that a live buffer is in stay. What was reserved goes too, if nothing else is left.
        """
        given = 0
        for arena in self._of(device):
            with self._locked(arena):
                excess = arena.counts.cached - to_bytes
                if excess > 0:
                    given += self._give(arena, excess)
                excess = arena.counts.cached - to_bytes
                if excess > 0:
                    arena.container.unreserve()
                    given += self._give(arena, excess)
        return given

    def reset_peak(self, device: Any = None) -> None:
        """Let ``peak`` begin anew at what is live."""
        for arena in self._of(device):
            with self._locked(arena):
                arena.counts.peak = arena.counts.live

    def set_limit(self, nbytes: int | str | None, device: Any) -> None:
        """Hold at most so much of a device, live and cached together; what is live already stays.

        Parameters
        ----------
        nbytes : int, str or None
            Bytes, or as in ``"512MB"`` (10**6) and ``"512MiB"`` (2**20). None: no limit.

        Raises
        ------
        StorageError
            If the text says no size.
        """
        limit = _bytes(nbytes)
        arena = self._arena(device)
        with self._locked(arena):
            arena.limit = limit
            if limit is not None:
                excess = arena.counts.live + arena.counts.cached - limit
                if excess > 0:
                    self._give(arena, excess)

    def reserve(self, sizes: Iterable[int], device: Any) -> int:
        """Make buffers of these sizes ready, so that requests for them need nothing from the device.

        A hint: where memory does not suffice, it ends early. Blocks made ready stay whole until they were handed out once,
        memory runs out, or :meth:`release_all`. A pool that keeps nothing does nothing.

        Returns
        -------
        int
            Bytes that this call got from the device.
        """
        if not self._keeps:
            return 0
        arena = self._arena(device)
        wanted = Counter(arena.rounding(_size(nbytes, self.name)) for nbytes in sizes)
        got = 0
        with self._locked(arena):
            for capacity, count in sorted(wanted.items(), reverse=True):
                stack = arena.container.stack(capacity)
                for block in stack[-count:]:
                    block.state = _RESERVED
                while len(stack) < count:
                    made = arena.container.find(stack, arena.allocator.view, True)
                    if made is None:
                        made = self._grow(arena, stack) if self._shortage(arena, capacity) <= 0 else None
                        if made is None:
                            return got
                        got += made.chunk.nbytes
                        arena.counts.cached += made.capacity
                    made.state = _RESERVED
                    self._stacked(made)
        return got

    def blocks(self, device: Any) -> list[BlockInfo]:
        """Return every block of a device, chunk by chunk, each chunk from its start."""
        arena = self._arena(device)
        with self._locked(arena):
            return [
                BlockInfo(b.chunk.number, b.start, b.capacity, b.nbytes if b.state is _LIVE else 0, b.state.value)
                for b in arena.container.blocks()
            ]

    def check(self, device: Any = None) -> None:
        """Recount all blocks, and raise StorageError if an account is wrong; ``strict`` does it after each call."""
        for arena in self._of(device):
            with self._locked(arena):
                self._check(arena)

    def serve(self, device_type: str, allocator: Callable[[Any], DeviceAllocator]) -> None:
        """Get the memory of a device type from ``allocator(device)``: how an op library brings its devices.

        Raises
        ------
        StorageError
            If memory of this device type is in use already.
        """
        with self._lock:
            if any(_kind(device) == device_type for device in self._arenas):
                raise StorageError(
                    f"storage '{self.name}' already serves {device_type}. Bring an allocator before the first request.",
                    device_type=device_type,
                )
            self._allocators[device_type] = allocator

    # -- devices -------------------------------------------------------------------------------------------------

    def _first(self, nbytes: int, device: Any) -> tuple[_Arena, Stack]:
        """A size or device that is not remembered."""
        arena = self._arena(device)
        size = _size(nbytes, self.name)
        with arena.lock:
            return arena, arena.stack(size)

    def _arena(self, device: Any) -> _Arena:
        try:
            arena = self._arenas.get(device)
        except TypeError:
            raise StorageError(
                f"storage '{self.name}': {device!r} is no device: a device has to be hashable."
            ) from None
        if arena is not None:
            return arena
        kind = _kind(device)
        with self._lock:
            arena = self._arenas.get(device)
            if arena is None and kind.startswith("cpu") and kind != "cpu_shared":
                arena = next((a for d, a in self._arenas.items() if _kind(d) == kind), None)
            if arena is None:
                make = self._allocators.get(kind)
                if make is None:
                    raise StorageError(
                        f"storage '{self.name}' has no memory for {device}: it has allocators for "
                        f"{', '.join(sorted(self._allocators))}. Use an op library that brings one "
                        f"(PooledStorage.serve), or another storage manager for this device type: "
                        f"mx.use(storage={{{kind!r}: 'direct'}}).",
                        device=device,
                    )
                settings = self._settings(kind)
                arena = _Arena(
                    device,
                    make(device),
                    self._container(),
                    self._policy(settings),
                    settings,
                    self._keeps and not self._strict,
                )
            self._arenas[device] = arena
            return arena

    def _of(self, device: Any) -> list[_Arena]:
        if device is not None:
            arena = self._arenas.get(device)
            if arena is None:  # a device never used has empty accounts, and needs no allocator for that
                kind = _kind(device)
                with self._lock:
                    found = [a for d, a in self._arenas.items() if _kind(d) == kind and kind in ("cpu", "cpu_pinned")]
                return found[:1]
            return [arena]
        with self._lock:
            return self._all()

    def _all(self) -> list[_Arena]:
        return list({id(arena): arena for arena in self._arenas.values()}.values())

    @contextlib.contextmanager
    def _locked(self, arena: _Arena) -> Iterator[None]:
        with arena.lock:
            self._take_back(arena)
            yield
            if self._strict:
                self._check(arena)
        self._drain(arena)

    def _drain(self, arena: _Arena) -> None:
        while arena.returned and arena.lock.acquire(False):
            try:
                self._take_back(arena)
            finally:
                arena.lock.release()

    # -- under the lock ------------------------------------------------------------------------------------------

    def _take_back(self, arena: _Arena) -> None:
        returned, counts = arena.returned, arena.counts
        while returned:
            block = returned.popleft()
            block.state = _FREE
            counts.live -= block.capacity
            counts.cached += block.capacity
            self._stacked(block)
            if not self._keeps:
                self._give_chunks(arena, [block.chunk])

    @staticmethod
    def _stacked(block: Block) -> None:
        stack = block.stack
        assert stack is not None  # only merged blocks are in none
        stack.append(block)
        if not stack.listed:
            stack.listed = True
            stack.loose.append(stack)

    def _miss(self, arena: _Arena, stack: Stack, nbytes: int) -> Block:
        """A request whose stack is empty: split, grow, or make room and grow."""
        settled = arena.counts.allocations - arena.risen >= SETTLED
        found = self._find(arena, stack, settled)
        if found is not None:
            return found
        size = arena.container.chunk_size(stack.capacity)
        self._make_room(arena, size)
        grown = self._grow(arena, stack)
        if grown is None:
            # What is here first, then what helps, then everything.
            found = self._find(arena, stack, True)
            if found is not None:
                return found
            if self._give(arena, size):
                grown = self._grow(arena, stack)
        if grown is None:
            arena.container.unreserve()
            found = self._find(arena, stack, True)
            if found is not None:
                return found
            self._give(arena, arena.counts.cached)
            grown = self._grow(arena, stack)
        if grown is None:
            raise self._out_of_memory(arena, stack.capacity, nbytes)
        return grown

    @staticmethod
    def _find(arena: _Arena, stack: Stack, settled: bool) -> Block | None:
        block = arena.container.find(stack, arena.allocator.view, settled)
        if block is not None:
            arena.counts.hits += 1
            arena.counts.cached -= block.capacity
        return block

    def _make_room(self, arena: _Arena, size: int) -> None:
        """Give back what should not stay beside a new chunk."""
        counts = arena.counts
        if not counts.cached:
            return
        if arena.container.trades:
            # Free chunks that did not fit go before the pool gets larger than it ever was; no large one for a small one.
            excess = counts.live + counts.cached + size - arena.held_peak
            if excess > 0:
                self._give(arena, excess, at_most=size if size < SMALL else None)
        shortage = self._shortage(arena, size)
        if shortage > 0:
            shortage -= self._give(arena, shortage)
        if shortage > 0:
            arena.container.unreserve()
            self._give(arena, counts.cached)

    @staticmethod
    def _shortage(arena: _Arena, size: int) -> int:
        """How many of ``size`` bytes the device could only take from what pools leave alone."""
        free, total = arena.allocator.memory()
        return size - (free - total * arena.settings.reserve // 100) if total else 0

    def _grow(self, arena: _Arena, stack: Stack) -> Block | None:
        """Get a chunk from the device; None if there is no memory. Small chunks may be smaller than wished."""
        counts, capacity = arena.counts, stack.capacity
        for size in dict.fromkeys((arena.container.chunk_size(capacity), capacity)):
            held = counts.live + counts.cached + size
            if arena.limit is not None and held > arena.limit:
                continue
            try:
                buffer = arena.allocator.alloc(size)
            except MemoryError:
                continue
            block = arena.container.add(buffer, size, stack, arena.allocator.view)
            counts.cached += size - block.capacity
            arena.held_peak = max(arena.held_peak, held)
            return block
        return None

    def _give(self, arena: _Arena, wanted: int, at_most: int | None = None) -> int:
        """Give whole free chunks back: the smallest one of at least ``wanted`` bytes, else the largest ones together.

        None that has more than ``at_most`` bytes.
        """
        chunks = [c for c in arena.container.whole() if at_most is None or c.nbytes <= at_most]
        chunks.sort(key=lambda chunk: chunk.nbytes)
        one = next((chunk for chunk in chunks if chunk.nbytes >= wanted), None)
        if one is not None:
            return self._give_chunks(arena, [one])
        picked, total = [], 0
        for chunk in reversed(chunks):
            if total >= wanted:
                break
            picked.append(chunk)
            total += chunk.nbytes
        return self._give_chunks(arena, picked)

    @staticmethod
    def _give_chunks(arena: _Arena, chunks: list[Chunk]) -> int:
        given = 0
        for chunk in chunks:
            arena.container.remove(chunk)
            arena.counts.cached -= chunk.nbytes
            given += chunk.nbytes
            buffer, chunk.buffer = chunk.buffer, None
            arena.allocator.free(buffer)
        return given

    def _check(self, arena: _Arena) -> None:
        """Recount everything; raise if a count is wrong."""
        live = cached = 0
        for block in arena.container.blocks():
            if block.state is _LIVE:
                live += block.capacity
            else:
                cached += block.capacity
        counts = arena.counts
        problem = arena.container.problem()
        if (live, cached) != (counts.live, counts.cached):
            problem = (
                f"it counts {counts.live} bytes live and {counts.cached} cached, and its blocks are {live} and {cached}"
            )
        elif counts.peak < live:
            problem = f"its peak is {counts.peak} bytes, and {live} are live"
        if problem:
            raise StorageError(
                f"storage '{self.name}' on {arena.device} is inconsistent: {problem}. This is a bug of the pool; "
                f"please report it with what was done before.",
                device=arena.device,
            )

    # -- errors --------------------------------------------------------------------------------------------------

    def _out_of_memory(self, arena: _Arena, capacity: int, nbytes: int) -> OutOfDeviceMemory:
        live, cached = arena.counts.live, arena.counts.cached
        arena.container.merge()
        largest = max((b.capacity for b in arena.container.blocks() if b.state is not _LIVE), default=0)
        free, total = arena.allocator.memory()
        room = "" if not total else f", the device has {free} of {total} bytes free"
        budget = "" if arena.limit is None else f", the limit is {arena.limit} bytes (set_limit)"
        scattered = (
            "There are enough free bytes, but in pieces: allocate large arrays first, or keep sizes the same. "
            if cached >= capacity
            else ""
        )
        return OutOfDeviceMemory(
            f"storage '{self.name}' cannot allocate {nbytes} bytes ({capacity} rounded up) on {arena.device}: "
            f"{live} bytes are live and {cached} cached in chunks that live buffers share; the largest free block has "
            f"{largest} bytes{budget}{room}. Whole cached chunks were given back first. {scattered}"
            f"Use smaller batches, or free arrays that are no longer needed"
            f"{'' if arena.limit is None else ', or raise the limit'}.",
            asked=nbytes,
            live=live,
            cached=cached,
            largest=largest,
            limit=arena.limit,
            device=arena.device,
        )

    def _foreign(self, handle: Any) -> StorageError:
        if not isinstance(handle, Handle):
            return StorageError(
                f"storage '{self.name}': {type(handle).__name__} is no handle; free takes what alloc returned."
            )
        owner = getattr(handle.manager, "name", handle.manager)
        return StorageError(
            f"storage '{self.name}' did not make this buffer of {handle.nbytes} bytes on {handle.device}: it belongs to "
            f"storage '{owner}'{'' if handle.manager is not self else ', as a copy of its handle'}. "
            f"Call handle.manager.free(handle), with the handle that alloc returned.",
            nbytes=handle.nbytes,
        )


def _kind(device: Any) -> str:
    """The device type of a context, or of text such as ``"cpu"`` and ``"gpu(1)"``."""
    kind = getattr(device, "device_type", None)
    return kind if isinstance(kind, str) else str(device).partition("(")[0]


def _size(nbytes: Any, name: str) -> int:
    try:
        size = nbytes.__index__()
    except AttributeError:
        size = -1
    if size < 0:
        raise StorageError(f"storage '{name}' cannot allocate {nbytes!r} bytes. Give an integer that is not negative.")
    return int(size)


def _bytes(text: int | str | None) -> int | None:
    if isinstance(text, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?|)b?\s*", text, re.IGNORECASE)
        if match is None:
            raise StorageError(f"{text!r} is no size. Write bytes, or as in '512MB' (10**6) and '512MiB' (2**20).")
        return int(float(match[1]) * _UNITS[match[2].lower()])
    return None if text is None else _size(text, "limit")


# A fork copies memory and locks as they are: nobody may be in the middle of a call then.
_managers: weakref.WeakSet[PooledStorage] = weakref.WeakSet()
_held: list[Any] = []


def _before_fork() -> None:
    locks = []
    for manager in sorted(_managers, key=id):
        locks.append(manager._lock)
        manager._lock.acquire()
        for arena in manager._all():
            arena.lock.acquire()
            locks.append(arena.lock)
    _held.append(locks)


def _after_fork() -> None:
    for lock in reversed(_held.pop()):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
