"""Running out of memory, budgets, reserves, hints, accounts, devices and forks."""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import pytest
from mxcore_storage_pooled.allocators import CpuAllocator, DeviceAllocator
from mxcore_storage_pooled.containers import BlockState
from mxcore_storage_pooled.pool import SETTLED, PooledStorage
from mxcore_storage_pooled.rounding import Settings
from pool_stress import NAMES

import mxcore as mx
from mxcore.spec import Handle, OutOfDeviceMemory, StorageError
from mxcore.storage.direct import DirectStorage
from mxcore.testing.fake_device import FakeDevice

MIB = 1 << 20
POOLED = tuple(name for name in NAMES if name != "unpooled")


def on(fake: FakeDevice, name: str, **settings: int) -> PooledStorage:
    return PooledStorage(name, allocators={"gpu": lambda device: fake}, settings=Settings(**settings), strict=True)


def settle(pool: PooledStorage) -> None:
    """Let so many requests come without a new peak that the pool avoids the device."""
    pool.free(pool.alloc(MIB - 1, "gpu"))
    for _ in range(SETTLED):
        pool.free(pool.alloc(64, "gpu"))
    pool.release_all()


def step(pool: PooledStorage, live: list[Any]) -> None:
    """Something like a training step: results that are kept, then dropped from the end, and temporary ones."""
    for number in range(12):
        live.append(pool.alloc(1000 * 7 ** (number % 5), "gpu"))
        temporary = pool.alloc(300_000, "gpu")
        live.append(temporary)
        live.pop()
        pool.free(temporary)
    while live:
        pool.free(live.pop())


@pytest.mark.parametrize("name", NAMES)
def test_allocators_have_the_protocol(name: str) -> None:
    assert isinstance(CpuAllocator(), DeviceAllocator)
    assert isinstance(FakeDevice(1), DeviceAllocator)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_out_of_memory_at_every_allocation(name: str, warm: bool) -> None:
    """The device fails from its n-th allocation on, for every n of a step: right error, nothing leaks, the next step works."""
    failures = 0
    for n in range(1, 1000):
        fake = FakeDevice(1 << 40)
        pool = on(fake, name)
        if warm:  # half full, with other sizes
            for handle in [pool.alloc(nbytes, "gpu") for nbytes in (500, 9000, 2 * MIB)]:
                pool.free(handle)
        start, live = fake.allocations, []  # type: list[Any]
        fake.fail(n, times=1000)
        try:
            step(pool, live)
        except OutOfDeviceMemory as error:
            failures += 1
            assert error.live == sum(h.capacity for h in live) == pool.statistics("gpu").live  # type: ignore[attr-defined]
            assert str(error.asked) in str(error)  # type: ignore[attr-defined]
        else:
            assert fake.allocations - start == n - 1 < 100, "every allocation of the step was the n-th once"
            break
        for handle in live:
            pool.free(handle)
        assert pool.statistics("gpu").live == 0
        fake.fail(1, times=0)
        step(pool, [])
        pool.release_all()
        assert fake.used == 0
    assert failures >= 3


@pytest.mark.parametrize("name", POOLED)
def test_one_failure_is_survived_by_giving_cached_memory_back(name: str) -> None:
    fake = FakeDevice(1 << 40)
    pool = on(fake, name)
    small = [pool.alloc(nbytes, "gpu") for nbytes in (1 * MIB, 3 * MIB, 10 * MIB)]
    for handle in small:
        pool.free(handle)
    fake.total = fake.used + 100  # nothing left
    handle = pool.alloc(11 * MIB, "gpu")
    assert fake.used == pool.statistics("gpu").live + pool.statistics("gpu").cached <= fake.total
    pool.free(handle)


def test_what_helps_goes_first() -> None:
    fake = FakeDevice(1 << 40)
    pool = on(fake, "naive", reserve=0)
    for handle in [pool.alloc(n * MIB, "gpu") for n in (2, 4, 8, 16)]:
        pool.free(handle)
    fake.total = fake.used
    pool.free(pool.alloc(6 * MIB, "gpu"))
    assert sorted(b.capacity for b in pool.blocks("gpu")) == [2 * MIB, 4 * MIB, 6 * MIB, 16 * MIB], "8 MiB sufficed"


def test_what_helps_goes_first_under_a_limit() -> None:
    pool = on(FakeDevice(1 << 40), "naive")
    for handle in [pool.alloc(n * MIB, "gpu") for n in (2, 4, 8, 16)]:
        pool.free(handle)
    pool.set_limit(30 * MIB, "gpu")
    pool.free(pool.alloc(6 * MIB, "gpu"))
    assert sorted(b.capacity // MIB for b in pool.blocks("gpu")) == [2, 4, 6, 16], "8 MiB sufficed"


def test_a_device_too_small_for_a_chunk_still_serves_small_requests() -> None:
    pool = on(FakeDevice(10_000), "best_fit", reserve=0)
    handles = [pool.alloc(100, "gpu") for _ in range(78)]
    with pytest.raises(OutOfDeviceMemory):
        pool.alloc(100, "gpu")
    for handle in handles:
        pool.free(handle)


def test_what_unpooled_frees_is_back_at_once() -> None:
    fake = FakeDevice(10_000)
    pool = on(fake, "unpooled")
    handle = pool.alloc(100, "gpu")
    pool.free(handle)
    assert fake.used == 0


def test_the_text_of_out_of_memory() -> None:
    fake = FakeDevice(8 * MIB)
    pool = on(fake, "naive")
    kept = pool.alloc(3 * MIB, "gpu")
    pool.set_limit("6MiB", "gpu")
    with pytest.raises(OutOfDeviceMemory) as caught:
        pool.alloc(5 * MIB + 1, "gpu")
    assert str(caught.value) == (
        "storage 'naive' cannot allocate 5242881 bytes (6291456 rounded up) on gpu: 4194304 bytes are live and 0 cached "
        "in chunks that live buffers share; the largest free block has 0 bytes, the limit is 6291456 bytes (set_limit), "
        "the device has 4194304 of 8388608 bytes free. Whole cached chunks were given back first. Use smaller batches, "
        "or free arrays that are no longer needed, or raise the limit."
    )
    error: Any = caught.value
    assert (error.asked, error.live, error.cached, error.largest, error.limit) == (5 * MIB + 1, 4 * MIB, 0, 0, 6 * MIB)
    pool.free(kept)


def test_the_text_names_the_largest_free_block() -> None:
    fake = FakeDevice(1 << 30)
    pool = on(fake, "best_fit", reserve=0)
    big = pool.alloc(10 * MIB, "gpu")
    settle(pool)
    pool.free(big)
    fake.total = fake.used
    parts = [pool.alloc(2 * MIB, "gpu") for _ in range(5)]
    for handle in (parts[0], parts[2], parts[3]):
        pool.free(handle)
    with pytest.raises(
        OutOfDeviceMemory, match="the largest free block has 4194304 bytes.*There are enough free bytes, but"
    ):
        pool.alloc(5 * MIB, "gpu")
    pool.free(pool.alloc(4 * MIB, "gpu"))


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("512MB", 512 * 10**6), ("2 GiB", 2 << 30), ("100", 100), ("1.5k", 1500), ("64 KiB", 65_536), ("7b", 7)],
)
def test_limits_as_text(text: str, nbytes: int) -> None:
    pool = PooledStorage("naive")
    pool.set_limit(text, "cpu")
    with pytest.raises(OutOfDeviceMemory) as caught:
        pool.alloc(1 << 40, "cpu")
    assert caught.value.limit == nbytes  # type: ignore[attr-defined]
    pool.set_limit(None, "cpu")
    pool.free(pool.alloc(10, "cpu"))


@pytest.mark.parametrize("text", ["much", "12 XB", "-5MB", -1, ""])
def test_limits_that_cannot_be(text: Any) -> None:
    with pytest.raises(StorageError, match=r"is no size|cannot allocate -1 bytes"):
        PooledStorage("naive").set_limit(text, "cpu")


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_holds_and_trims(name: str) -> None:
    fake = FakeDevice(1 << 40)
    pool = on(fake, name)
    live = [pool.alloc(MIB, "gpu") for _ in range(8)]
    for handle in live[2:]:
        pool.free(handle)
    pool.set_limit(3 * MIB, "gpu")
    assert fake.used <= 3 * MIB
    live[2:] = [pool.alloc(MIB, "gpu")]
    with pytest.raises(OutOfDeviceMemory):
        pool.alloc(MIB, "gpu")
    for handle in live:
        pool.free(handle)
    draw = random.Random(3)
    for _ in range(300):
        pool.free(pool.alloc(draw.randrange(2 * MIB), "gpu"))
        assert fake.used <= 3 * MIB
    assert fake.peak == 8 * MIB


@pytest.mark.parametrize("name", POOLED)
def test_the_reserve_empties_the_pool_first(name: str) -> None:
    fake = FakeDevice(100 * MIB)
    pool = on(fake, name, reserve=20)
    for handle in [pool.alloc(n * MIB, "gpu") for n in (8, 16, 32)]:
        pool.free(handle)
    pool.reserve([16 * MIB], "gpu")
    pool.free(pool.alloc(64 * MIB, "gpu"))  # 44 MiB are free, 24 beyond the reserve
    assert 64 * MIB <= fake.used <= 80 * MIB
    big = pool.alloc(96 * MIB, "gpu")  # what is left alone is left alone only as long as there is something else
    assert fake.used == 96 * MIB
    pool.free(big)


@pytest.mark.parametrize("name", NAMES)
def test_reserved_sizes_need_nothing_from_the_device(name: str) -> None:
    fake = FakeDevice(1 << 30)
    pool = on(fake, name)
    sizes = [3 * MIB, 1000, 1000, 2 * MIB, 70_000, 3 * MIB]
    got = pool.reserve(sizes, "gpu")
    assert got == fake.used == pool.statistics("gpu").cached
    if name == "unpooled":
        assert got == 0
        return
    assert pool.reserve(sizes, "gpu") == 0, "they are ready already"
    assert sum(block.state == BlockState.RESERVED.value for block in pool.blocks("gpu")) == len(sizes)
    calls = fake.allocations
    other = pool.alloc(5 * MIB, "gpu")  # does not take what is reserved
    assert fake.allocations == calls + 1
    handles = [pool.alloc(nbytes, "gpu") for nbytes in sizes]
    assert fake.allocations == calls + 1
    now = pool.statistics("gpu")
    assert (now.hits, now.allocations) == (len(sizes), len(sizes) + 1)
    for handle in [*handles, other]:
        pool.free(handle)
    assert all(block.state == "free" for block in pool.blocks("gpu"))
    pool.reserve(sizes, "gpu")
    pool.release_all()
    assert fake.used == 0


def test_a_hint_never_fails_and_never_takes_the_reserve() -> None:
    fake = FakeDevice(10 * MIB)
    pool = on(fake, "best_fit", reserve=20)
    assert pool.reserve([4 * MIB] * 10, "gpu") == 8 * MIB
    fake.fail(1, 100)
    assert pool.reserve([1000], "gpu") == 0
    fake.fail(1, 0)
    pool.set_limit(8 * MIB, "gpu")
    handle = pool.alloc(6 * MIB, "gpu")  # memory that was reserved is memory all the same
    assert fake.used <= 8 * MIB
    pool.free(handle)
    with pytest.raises(StorageError, match="cannot allocate 'x' bytes"):
        pool.reserve(["x"], "gpu")  # type: ignore[list-item]


def test_best_fit_splits_and_merges() -> None:
    fake = FakeDevice(1 << 30)
    pool = on(fake, "best_fit")
    big = pool.alloc(10 * MIB, "gpu")
    settle(pool)
    pool.free(big)
    calls = fake.allocations
    parts = [pool.alloc(2 * MIB, "gpu") for _ in range(5)]
    assert fake.allocations == calls
    assert [(b.start // MIB, b.state) for b in pool.blocks("gpu")] == [(2 * k, "live") for k in range(5)]
    for handle in parts[::2] + parts[1::2]:
        pool.free(handle)
    pool.free(pool.alloc(10 * MIB, "gpu"))
    assert fake.allocations == calls and len(pool.blocks("gpu")) == 1
    small = [pool.alloc(100, "gpu") for _ in range(400)]
    assert fake.allocations == calls + 1, "small ones share a chunk, and leave the large one alone"
    for handle in small:
        pool.free(handle)
    assert pool.release_all() == 10 * MIB + 65_536
    assert fake.used == 0


def test_best_fit_takes_the_smallest_block_that_is_large_enough() -> None:
    fake = FakeDevice(1 << 30)
    pool = on(fake, "best_fit")
    live = [pool.alloc(n * MIB, "gpu") for n in (9, 4, 6)]
    settle(pool)
    for handle in live:
        pool.free(handle)
    handle = pool.alloc(3 * MIB, "gpu")
    assert [b.capacity // MIB for b in pool.blocks("gpu")] == [9, 3, 1, 6]
    pool.free(handle)


def test_best_fit_gets_chunks_of_the_right_size_until_it_has_settled() -> None:
    fake = FakeDevice(1 << 30)
    pool = on(fake, "best_fit")
    for handle in [pool.alloc(n * MIB, "gpu") for n in (9, 4)]:
        pool.free(handle)
    handles = [pool.alloc(3 * MIB, "gpu"), pool.alloc(7 * MIB, "gpu")]
    assert [b.capacity // MIB for b in pool.blocks("gpu")] == [3, 7], "and gave back what had another size"
    assert fake.peak == 13 * MIB
    for handle in handles:
        pool.free(handle)


@pytest.mark.parametrize("net", [[3, 1, 8, 2, 5], [1, 2, 3, 4, 5, 6, 7], [20, 1, 1, 1, 9]])
def test_a_program_that_repeats_ends_up_without_the_device(net: list[int]) -> None:
    fake = FakeDevice(1 << 40)
    pool = PooledStorage("best_fit", allocators={"gpu": lambda device: fake})
    for number in range(800):
        if number == 700:
            calls = fake.allocations
        kept = []
        for n in net:
            temporary = pool.alloc(n * 3 * MIB, "gpu")
            kept.append(pool.alloc(n * 2 * MIB, "gpu"))
            pool.free(temporary)
        for handle in reversed(kept):
            pool.free(handle)
    assert fake.allocations == calls
    assert fake.peak <= 1.3 * pool.statistics("gpu").peak


def test_sizes_that_vary_do_not_blow_best_fit_up() -> None:
    """2,000 steps of sequences of random length: at most 1.3 of the greatest live bytes is held."""
    fake = FakeDevice(1 << 40)
    pool = PooledStorage("best_fit", allocators={"gpu": lambda device: fake})
    draw = random.Random(7)
    for _ in range(2000):
        length = draw.randrange(10, 501)
        live = [pool.alloc(length * width * 128, "gpu") for width in (64, 256, 64, 1024, 256, 64) for _ in range(3)]
        for handle in reversed(live):
            pool.free(handle)
    assert fake.peak <= 1.3 * pool.statistics("gpu").peak


@pytest.mark.parametrize("name", NAMES)
def test_trim_peak_and_blocks(name: str) -> None:
    fake = FakeDevice(1 << 40)
    pool = on(fake, name)
    live = [pool.alloc(2 * MIB, "gpu") for _ in range(6)]
    for handle in live[1:]:
        pool.free(handle)
    cached = pool.statistics("gpu").cached
    given = pool.trim(3 * MIB, "gpu")
    assert pool.statistics("gpu").cached == cached - given <= 3 * MIB
    assert pool.statistics("gpu").peak == 12 * MIB
    pool.reset_peak("gpu")
    assert pool.statistics("gpu").peak == 2 * MIB
    blocks = pool.blocks("gpu")
    assert [(b.nbytes, b.state) for b in blocks if b.state == "live"] == [(2 * MIB, "live")]
    assert sum(b.capacity for b in blocks) == fake.used
    pool.free(live[0])


def test_devices() -> None:
    fakes: list[FakeDevice] = []

    def make(device: Any) -> FakeDevice:
        fakes.append(FakeDevice(1 << 30))
        return fakes[-1]

    pool = PooledStorage("best_fit", allocators={"gpu": make})
    a, b, c, d = (pool.alloc(100, device) for device in (mx.gpu(0), mx.gpu(1), mx.cpu(0), mx.cpu(3)))
    assert len(fakes) == 2
    assert pool.statistics(mx.gpu(0)).live == a.capacity
    assert pool.statistics(mx.cpu(0)) == pool.statistics(mx.cpu(3)) == pool.statistics(mx.cpu(9)), "one host"
    assert pool.statistics(mx.cpu(0)).live == c.capacity + d.capacity
    assert pool.statistics().live == sum(h.capacity for h in (a, b, c, d))
    assert d.device == mx.cpu(3)
    for handle in (a, b, c, d):
        pool.free(handle)
    with pytest.raises(StorageError, match="storage 'best_fit' already serves gpu. Bring an allocator before"):
        pool.serve("gpu", make)
    pool.serve("tpu", make)
    pool.free(pool.alloc(1, "tpu(0)"))
    assert len(fakes) == 3


def test_the_texts_of_misuse() -> None:
    pool, other = PooledStorage("best_fit"), DirectStorage(keep_freed=False)
    with pytest.raises(
        StorageError, match=r"has no memory for gpu\(0\): it has allocators for cpu, cpu_pinned. Use an op lib"
    ):
        pool.alloc(10, mx.gpu(0))
    with pytest.raises(StorageError, match=r"no memory for cpu_shared\(0\)"):
        pool.alloc(10, mx.Context("cpu_shared", 0))
    with pytest.raises(StorageError, match=r"\[\] is no device: a device has to be hashable"):
        pool.alloc(10, [])
    for bad in (-1, 1.5, "8", None):
        with pytest.raises(StorageError, match="cannot allocate .* bytes. Give an integer that is not negative"):
            pool.alloc(bad, "cpu")  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="there is no pool 'rond'. Pools are naive, round, unpooled, best_fit."):
        PooledStorage("rond")
    foreign = other.alloc(10, "cpu")
    with pytest.raises(
        StorageError, match="did not make this buffer of 10 bytes on cpu: it belongs to storage 'direct'."
    ):
        pool.free(foreign)
    other.free(foreign)
    handle = pool.alloc(10, "cpu")
    copy = Handle(handle.nbytes, handle.capacity, handle.device, handle.buffer, handle.manager)
    with pytest.raises(StorageError, match="as a copy of its handle"):
        pool.free(copy)
    with pytest.raises(StorageError, match="int is no handle; free takes what alloc returned"):
        pool.free(3)  # type: ignore[arg-type]
    pool.free(handle)
    with pytest.raises(
        StorageError, match="a buffer of 10 bytes on cpu was freed twice. Whoever allocates a buffer frees it"
    ):
        pool.free(handle)
    assert pool.statistics().live == 0


def test_strict_finds_wrong_counts_and_overlaps() -> None:
    pool = PooledStorage("best_fit", strict=True)
    handle: Any = pool.alloc(100, "cpu")
    pool._arena("cpu").counts.live += 1
    with pytest.raises(
        StorageError, match="is inconsistent: it counts 257 bytes live and .* This is a bug of the pool"
    ):
        pool.alloc(100, "cpu")
    pool = PooledStorage("best_fit", strict=True)
    handle = pool.alloc(100, "cpu")
    handle._block.after.start -= 64
    with pytest.raises(StorageError, match="blocks of chunk 0 overlap or leave a gap at byte 128"):
        pool.check("cpu")


@pytest.mark.parametrize("name", NAMES)
def test_host_memory_is_aligned_and_outlives_the_pool(name: str) -> None:
    import numpy as np

    pool = PooledStorage(name)
    handles = [pool.alloc(nbytes, "cpu") for nbytes in (1, 100, 5000, 70_001, 3 * MIB + 1)]
    arrays = [np.frombuffer(handle.buffer, np.uint8) for handle in handles]
    assert all(array.ctypes.data % 64 == 0 for array in arrays)
    arrays[-1][:] = 5
    for handle in handles:
        pool.free(handle)
    pool.release_all()
    del pool
    assert (arrays[-1] == 5).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_forked_child_keeps_its_copy(name: str) -> None:
    pool = PooledStorage(name)
    kept = pool.alloc(5000, "cpu")
    memoryview(kept.buffer)[:] = bytes([1]) * kept.capacity
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            pool.free(pool.alloc(3000, "cpu"))

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                try:
                    memoryview(kept.buffer)[:] = bytes([2]) * kept.capacity
                    handles = [pool.alloc(3000, "cpu") for _ in range(10)]
                    for handle in [*handles, kept]:
                        pool.free(handle)
                    pool.check()
                    os._exit(0 if pool.statistics().live <= 3 * 4096 else 3)
                except BaseException:
                    os._exit(4)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()
    assert bytes(kept.buffer) == bytes([1]) * kept.capacity
    pool.free(kept)
    pool.check()
    assert pool.statistics().live == 0
