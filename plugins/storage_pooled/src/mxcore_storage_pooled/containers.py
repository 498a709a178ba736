"""Containers of free blocks. Nothing here knows devices, threads or accounts.

A *chunk* is one piece of memory that came from a device, a *block* the part of it that one request gets. In both
containers free blocks lie in *stacks* by exact capacity, and the last that came back is the first to go out, while it is
still in the processor's caches. :class:`Exact` has nothing else: a block is a whole chunk. :class:`BestFit` splits and
merges: a freed block first lies in its stack, as it is, since the next request is often of the same size; when a stack
is empty, all of them are merged with their free neighbours, and the smallest block that is large enough is split.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

from .rounding import SMALL, up


class BlockState(enum.Enum):
    """Where a block is."""

    FREE = "free"  #: for any request it is large enough for
    RESERVED = "reserved"  #: made ready for a request of its size: neither split nor merged
    LIVE = "live"  #: handed out


_FREE, _RESERVED, _LIVE = BlockState.FREE, BlockState.RESERVED, BlockState.LIVE
#: Where a free block of BestFit is, while it is merging.
_STACK, _TREE, _FRESH, _GONE = range(4)


class Stack(list["Block"]):
    """The free blocks of one capacity. Who appends puts the stack on the list ``loose``, unless it is ``listed``."""

    __slots__ = ("capacity", "listed", "loose")

    def __init__(self, capacity: int, loose: list[Stack] | None = None) -> None:
        super().__init__()
        self.capacity = capacity
        self.loose: list[Stack] = [] if loose is None else loose
        self.listed = loose is None


class Chunk:
    """Memory that came from a device in one piece."""

    __slots__ = ("buffer", "first", "heap", "nbytes", "number")

    def __init__(self, buffer: Any, nbytes: int, number: int) -> None:
        self.buffer = buffer
        self.heap: Any = None
        self.nbytes = nbytes
        self.number = number
        self.first: Block = None  # type: ignore[assignment]


class Block:
    """A part of a chunk, linked to its neighbours there."""

    __slots__ = ("after", "before", "buffer", "capacity", "chunk", "nbytes", "place", "stack", "start", "state")

    def __init__(self, chunk: Chunk, start: int, capacity: int, stack: Stack | None) -> None:
        self.chunk = chunk
        self.start = start
        self.capacity = capacity
        self.stack = stack
        self.state = _FREE
        self.nbytes = 0
        self.buffer: Any = None
        self.before: Block | None = None
        self.after: Block | None = None
        self.place = _STACK


class Exact:
    """Blocks are whole chunks, reused for requests of exactly their capacity."""

    #: Whether free chunks are given back before more than ever before is taken from the device.
    trades = False

    def __init__(self) -> None:
        self._stacks: dict[int, Stack] = {}
        self.chunks: dict[int, Chunk] = {}
        self._next = 0

    def stack(self, capacity: int) -> Stack:
        """Return the stack of a capacity; the object stays the same for as long as the container lives."""
        stack = self._stacks.get(capacity)
        if stack is None:
            stack = self._stacks[capacity] = self._new_stack(capacity)
        return stack

    def _new_stack(self, capacity: int) -> Stack:
        return Stack(capacity)

    def find(self, stack: Stack, view: Any, settled: bool = True) -> Block | None:
        """Take a block for a request whose stack is empty; None if none fits.

        Parameters
        ----------
        view : callable
            ``view(buffer, start, nbytes)`` makes the buffer of a part.
        settled : bool
            Whether getting a chunk from the device would be worse than cutting up a much larger one that is free.
        """
        return None

    def chunk_size(self, capacity: int) -> int:
        """How many bytes to get from the device for a request that nothing here fits."""
        return capacity

    def add(self, buffer: Any, nbytes: int, stack: Stack, view: Any) -> Block:
        """Take in a chunk; return the block for the request that it was got for."""
        chunk = Chunk(buffer, nbytes, self._next)
        self._next += 1
        self.chunks[chunk.number] = chunk
        block = chunk.first = Block(chunk, 0, nbytes, stack)
        block.buffer = buffer
        return block

    def merge(self) -> None:
        """Merge what is free."""

    def whole(self) -> list[Chunk]:
        """Chunks of which nothing is live or reserved, after :meth:`merge`."""
        return [chunk for chunk in self.chunks.values() if chunk.first.state is _FREE]

    def remove(self, chunk: Chunk) -> None:
        """Forget a chunk of which nothing is live."""
        del self.chunks[chunk.number]
        if chunk.first.state is not _LIVE:
            chunk.first.stack.remove(chunk.first)  # type: ignore[union-attr]

    def unreserve(self) -> None:
        """Let what was made ready go for any request."""
        for stack in self._stacks.values():
            for block in stack:
                block.state = _FREE

    def blocks(self) -> Iterator[Block]:
        """All blocks, chunk by chunk, each chunk from its start."""
        for chunk in self.chunks.values():
            block: Block | None = chunk.first
            while block is not None:
                yield block
                block = block.after

    def problem(self) -> str:
        """Say what is wrong with the structure; empty if nothing is. Visits everything."""
        stacked = {id(block) for stack in self._stacks.values() for block in stack}
        if sum(map(len, self._stacks.values())) != len(stacked):
            return "a block lies in a stack twice"
        cached = set()
        for block in self.blocks():
            if block.state is not _LIVE and block.place == _STACK:
                cached.add(id(block))
                if block.stack is None or block.stack.capacity != block.capacity:
                    return f"a block of {block.capacity} bytes lies in the stack of another size"
        return "" if cached == stacked else "the stacks do not hold exactly the blocks that are free"


class _Heap:
    """One kind of chunks of BestFit: those for small requests, or those for large ones."""

    def __init__(self) -> None:
        self.tree: list[tuple[int, int, int, Block]] = []
        self.loose: list[Stack] = []
        self.nbytes = 0

    def put(self, block: Block) -> None:
        block.place = _TREE
        insort(self.tree, (block.capacity, block.chunk.number, block.start, block))

    def drop(self, block: Block) -> None:
        at = bisect_left(self.tree, (block.capacity, block.chunk.number, block.start))
        del self.tree[at]


class BestFit(Exact):
    """Splits chunks and merges what is free again; small and large requests have chunks of their own.

    Small ones would otherwise keep large chunks from becoming whole again.
    """

    trades = True
    #: Chunks for small requests: an eighth of those there are, within these bounds.
    SMALLEST, LARGEST = 64 * 1024, 2 * 1024 * 1024

    def __init__(self) -> None:
        super().__init__()
        self._small = _Heap()
        self._large = _Heap()

    def _heap(self, capacity: int) -> _Heap:
        return self._small if capacity < SMALL else self._large

    def _new_stack(self, capacity: int) -> Stack:
        return Stack(capacity, self._heap(capacity).loose)

    def find(self, stack: Stack, view: Any, settled: bool = True) -> Block | None:
        """Merge what is free, and split the smallest block that is large enough.

        Unless ``settled``, no large chunk that is free as a whole is split, of which more than a quarter of the request
        would be left over: what is left over of whole chunks is what fragments them.
        """
        heap = self._heap(stack.capacity)
        self._merge(heap)
        tree, capacity = heap.tree, stack.capacity
        most = capacity + capacity // 4
        for at in range(bisect_left(tree, (capacity,)), len(tree)):
            block = tree[at][3]
            if settled or block.capacity <= most or block.capacity < block.chunk.nbytes or heap is self._small:
                buffer = self._part(block, capacity, view)
                del tree[at]
                return self._cut(heap, block, stack, buffer)
        return None

    @staticmethod
    def _part(block: Block, capacity: int, view: Any) -> Any:
        """The buffer of the beginning of a block; it may fail, so it is made before anything changes."""
        chunk = block.chunk
        return chunk.buffer if capacity == chunk.nbytes else view(chunk.buffer, block.start, capacity)

    def _cut(self, heap: _Heap, block: Block, stack: Stack, buffer: Any) -> Block:
        chunk, capacity = block.chunk, stack.capacity
        if block.capacity > capacity:
            rest = Block(chunk, block.start + capacity, block.capacity - capacity, None)
            rest.before, rest.after = block, block.after
            if rest.after is not None:
                rest.after.before = rest
            block.after = rest
            block.capacity = capacity
            heap.put(rest)
        block.place = _STACK
        block.stack = stack
        block.buffer = buffer
        return block

    def chunk_size(self, capacity: int) -> int:
        """Large requests get chunks of their own; small ones share chunks that grow with what there is."""
        if capacity >= SMALL:
            return capacity
        wanted = min(max(self._small.nbytes // 8, self.SMALLEST), self.LARGEST)
        return up(max(wanted, capacity), 4096)

    def add(self, buffer: Any, nbytes: int, stack: Stack, view: Any) -> Block:
        """As in Exact; the rest of the chunk is free."""
        part = buffer if nbytes == stack.capacity else view(buffer, 0, stack.capacity)
        block = super().add(buffer, nbytes, stack, view)
        heap = block.chunk.heap = self._heap(stack.capacity)
        heap.nbytes += nbytes
        return self._cut(heap, block, stack, part)

    def merge(self) -> None:
        """Merge all free blocks with their free neighbours."""
        self._merge(self._small)
        self._merge(self._large)

    def _merge(self, heap: _Heap) -> None:
        if not heap.loose:
            return
        fresh: list[Block] = []
        keep: list[Stack] = []
        for stack in heap.loose:
            ready = [block for block in stack if block.state is _RESERVED]
            fresh += [block for block in stack if block.state is _FREE] if ready else stack
            stack[:] = ready
            if ready:
                keep.append(stack)
            else:
                stack.listed = False
        heap.loose[:] = keep
        for block in fresh:
            block.place = _FRESH
            block.buffer = None
        for block in fresh:
            if block.place != _FRESH:
                continue
            first = block
            while first.before is not None and first.before.state is _FREE:
                first = first.before
            if first.place == _TREE:
                heap.drop(first)
            end = first.after
            capacity = first.capacity
            while end is not None and end.state is _FREE:
                if end.place == _TREE:
                    heap.drop(end)
                end.place = _GONE
                capacity += end.capacity
                end = end.after
            if capacity != first.capacity:
                first.capacity = capacity
                first.after = end
                if end is not None:
                    end.before = first
            first.stack = None
            heap.put(first)

    def whole(self) -> list[Chunk]:
        """As in Exact."""
        self.merge()
        return [c for c in self.chunks.values() if c.first.state is _FREE and c.first.capacity == c.nbytes]

    def remove(self, chunk: Chunk) -> None:
        """As in Exact."""
        del self.chunks[chunk.number]
        chunk.heap.nbytes -= chunk.nbytes
        if chunk.first.state is not _LIVE:
            chunk.heap.drop(chunk.first)

    def problem(self) -> str:
        """As in Exact, and the trees and the chunks' borders."""
        for heap in (self._small, self._large):
            if heap.tree != sorted(heap.tree):
                return "a tree is out of order"
            if any(b.capacity != key or b.state is not _FREE or b.place != _TREE for key, _, _, b in heap.tree):
                return "a tree holds a block that is not free"
        treed = {id(entry[3]) for heap in (self._small, self._large) for entry in heap.tree}
        if treed != {id(b) for b in self.blocks() if b.state is not _LIVE and b.place == _TREE}:
            return "the trees do not hold exactly the merged blocks"
        for chunk in self.chunks.values():
            end, block = 0, chunk.first
            previous: Block | None = None
            while block is not None:
                if block.start != end or block.before is not previous:
                    return f"blocks of chunk {chunk.number} overlap or leave a gap at byte {end}"
                end += block.capacity
                previous, block = block, block.after  # type: ignore[assignment]
            if end != chunk.nbytes:
                return f"blocks of chunk {chunk.number} cover {end} of {chunk.nbytes} bytes"
        return super().problem()
