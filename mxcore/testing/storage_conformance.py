"""StorageConformance: every clause of :mod:`mxcore.spec.storage` as a test.

Subclass it with one fixture and pytest runs the whole suite on your storage manager::

    class TestMyStorage(StorageConformance):
        @pytest.fixture
        def storage(self):
            return MyStorage()

A manager whose buffers are not host memory overrides ``device`` (where it allocates) and sets ``host = False``. What
``POOLED`` claims is checked both ways: who claims it reuses freed memory, who does not has nothing cached.
"""

# mypy: disable-error-code="misc"
from __future__ import annotations

import gc
import random
import threading
from typing import Any

import pytest

from ..spec.errors import OutOfDeviceMemory, StorageError
from ..spec.storage import Handle, StorageCapability, StorageManager, StorageStatistics

__all__ = ["StorageConformance"]


class StorageConformance:
    """Subclass with a fixture ``storage`` that yields a manager nothing is allocated from."""

    #: Whether buffers are writable ``memoryview``-able objects of this machine.
    host = True

    @pytest.fixture
    def storage(self) -> Any:
        """Override: return the storage manager under test."""
        raise NotImplementedError("StorageConformance: override the fixture `storage` to return your manager.")

    @pytest.fixture
    def device(self) -> Any:
        """Where the suite allocates; override it for managers of other devices."""
        return "cpu"

    def fill(self, handle: Handle, value: int) -> None:
        """Write one byte value to all bytes that were asked for."""
        view = memoryview(handle.buffer).cast("B")
        view[: handle.nbytes] = bytes([value]) * handle.nbytes

    def holds(self, handle: Handle, value: int) -> bool:
        """Whether all bytes that were asked for have this value."""
        return bytes(memoryview(handle.buffer).cast("B")[: handle.nbytes]) == bytes([value]) * handle.nbytes

    # -- members ---------------------------------------------------------------------------------------------------

    def test_has_the_members_of_the_contract(self, storage: Any) -> None:
        assert isinstance(storage, StorageManager)
        assert isinstance(storage.name, str) and storage.name
        assert isinstance(storage.capabilities, frozenset)
        assert all(isinstance(capability, StorageCapability) for capability in storage.capabilities)

    def test_starts_with_empty_accounts(self, storage: Any, device: Any) -> None:
        assert storage.statistics(device) == StorageStatistics()
        assert storage.statistics() == StorageStatistics()
        assert storage.release_all(device) == 0

    # -- buffers ---------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 4096, 5000, 1 << 20, (1 << 20) + 1, 5_000_000])
    def test_a_handle_says_what_it_is(self, storage: Any, device: Any, nbytes: int) -> None:
        handle = storage.alloc(nbytes, device)
        assert isinstance(handle, Handle)
        assert (handle.nbytes, handle.device) == (nbytes, device)
        assert handle.manager is storage
        assert handle.capacity >= nbytes
        if self.host:
            view = memoryview(handle.buffer)
            assert not view.readonly and view.c_contiguous
            assert view.nbytes == handle.capacity
            self.fill(handle, 7)
            assert self.holds(handle, 7)
        storage.free(handle)

    def test_live_buffers_do_not_overlap(self, storage: Any, device: Any) -> None:
        if not self.host:
            pytest.skip("needs memory that can be written")
        draw = random.Random(1)
        live: list[tuple[Handle, int]] = []
        for step in range(2000):
            if live and draw.random() < 0.5:
                handle, value = live.pop(draw.randrange(len(live)))
                assert self.holds(handle, value), f"step {step}: somebody wrote to a buffer of {handle.nbytes} bytes"
                storage.free(handle)
            else:
                handle = storage.alloc(int(2 ** draw.uniform(0, 17)), device)
                self.fill(handle, step % 251)
                live.append((handle, step % 251))
        for handle, value in live:
            assert self.holds(handle, value)
            storage.free(handle)

    # -- accounts --------------------------------------------------------------------------------------------------

    def test_accounts_are_exact(self, storage: Any, device: Any) -> None:
        a = storage.alloc(1000, device)
        b = storage.alloc(3_000_000, device)
        now = storage.statistics(device)
        assert now.live == now.peak == a.capacity + b.capacity
        assert now.allocations == 2
        storage.free(b)
        later = storage.statistics(device)
        assert (later.live, later.peak, later.allocations) == (a.capacity, now.peak, 2)
        storage.free(a)
        assert storage.statistics(device).live == 0
        assert storage.statistics().live == 0
        assert storage.statistics(device).peak == now.peak

    def test_statistics_are_a_copy(self, storage: Any, device: Any) -> None:
        before = storage.statistics(device)
        before.live = 12345
        handle = storage.alloc(100, device)
        kept = storage.statistics(device)
        storage.free(handle)
        assert kept.live == handle.capacity
        assert storage.statistics(device).live == 0

    def test_pooled(self, storage: Any, device: Any) -> None:
        for nbytes in (100, 5000, 3_000_000):
            storage.free(storage.alloc(nbytes, device))
            cached = storage.statistics(device).cached
            if StorageCapability.POOLED in storage.capabilities:
                assert cached >= nbytes
                hits = storage.statistics(device).hits
                storage.free(storage.alloc(nbytes, device))
                assert storage.statistics(device).hits == hits + 1
                assert storage.statistics(device).cached == cached, "a warm request needs nothing from the device"
                assert storage.release_all(device) == cached
            else:
                assert cached == 0
                assert storage.statistics(device).hits == 0
        assert storage.statistics(device).cached == 0
        storage.free(storage.alloc(100, device))
        storage.release_all()
        assert storage.statistics().cached == 0

    def test_release_all_leaves_live_buffers_alone(self, storage: Any, device: Any) -> None:
        kept = storage.alloc(1000, device)
        storage.free(storage.alloc(1000, device))
        if self.host:
            self.fill(kept, 9)
        storage.release_all(device)
        assert storage.statistics(device).live == kept.capacity
        if self.host:
            assert self.holds(kept, 9)
        storage.free(kept)
        storage.release_all(device)
        now = storage.statistics(device)
        assert (now.live, now.cached) == (0, 0)

    # -- errors ----------------------------------------------------------------------------------------------------

    def test_double_free_is_an_error(self, storage: Any, device: Any) -> None:
        handle = storage.alloc(5000, device)
        other = storage.alloc(5000, device)
        storage.free(handle)
        with pytest.raises(StorageError, match="freed twice"):
            storage.free(handle)
        again = storage.alloc(5000, device)
        with pytest.raises(StorageError, match="freed twice"):
            storage.free(handle)
        assert storage.statistics(device).live == other.capacity + again.capacity
        storage.free(again)
        storage.free(other)
        assert storage.statistics(device).live == 0

    def test_a_freed_handle_holds_no_buffer(self, storage: Any, device: Any) -> None:
        handle = storage.alloc(5000, device)
        storage.free(handle)
        assert handle.buffer is None

    def test_a_foreign_handle_is_an_error(self, storage: Any, device: Any) -> None:
        foreign = Handle(100, 100, device, bytearray(100), object())
        with pytest.raises(StorageError):
            storage.free(foreign)
        now = storage.statistics(device)
        assert (now.live, now.cached) == (0, 0)

    def test_too_much_is_out_of_memory(self, storage: Any, device: Any) -> None:
        kept = storage.alloc(1000, device)
        with pytest.raises(OutOfDeviceMemory) as caught:
            storage.alloc(1 << 60, device)
        assert isinstance(caught.value, MemoryError)
        assert str(1 << 60) in str(caught.value) and str(device) in str(caught.value)
        assert caught.value.asked == 1 << 60  # type: ignore[attr-defined]
        assert storage.statistics(device).live == kept.capacity
        storage.free(kept)
        storage.free(storage.alloc(1000, device))
        assert storage.statistics(device).live == 0

    # -- threads ---------------------------------------------------------------------------------------------------

    def test_threads(self, storage: Any, device: Any) -> None:
        errors: list[BaseException] = []
        handed: list[Handle] = []

        def body(seed: int) -> None:
            try:
                draw = random.Random(seed)
                live: list[Handle] = []
                for _ in range(1500):
                    if live and draw.random() < 0.5:
                        handle = live.pop(draw.randrange(len(live)))
                        if self.host:
                            assert self.holds(handle, seed)
                        storage.free(handle)
                    else:
                        handle = storage.alloc(int(2 ** draw.uniform(0, 12)), device)
                        if self.host:
                            self.fill(handle, seed)
                        live.append(handle)
                handed.extend(live)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=body, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not errors, errors
        assert storage.statistics(device).live == sum(handle.capacity for handle in handed)
        for handle in handed:
            storage.free(handle)
        storage.release_all(device)
        now = storage.statistics(device)
        assert (now.live, now.cached) == (0, 0)

    def test_of_threads_that_free_one_handle_one_succeeds(self, storage: Any, device: Any) -> None:
        for _ in range(20):
            handle = storage.alloc(64, device)
            outcomes: list[bool] = []
            barrier = threading.Barrier(3, timeout=20)

            def body(handle: Handle = handle, barrier: Any = barrier, outcomes: list[bool] = outcomes) -> None:
                barrier.wait()
                try:
                    storage.free(handle)
                    outcomes.append(True)
                except StorageError:
                    outcomes.append(False)

            threads = [threading.Thread(target=body) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
            assert sorted(outcomes) == [False, False, True]
        assert storage.statistics(device).live == 0

    def test_free_in_a_finalizer(self, storage: Any, device: Any) -> None:
        class Owner:
            def __init__(self) -> None:
                self.handle = storage.alloc(5000, device)
                self.cycle = self

            def __del__(self) -> None:
                storage.free(self.handle)

        thresholds = gc.get_threshold()
        gc.set_threshold(5, 2, 2)  # collections in the middle of everything
        try:
            for size in range(300):
                Owner()
                storage.free(storage.alloc(100 * size, device))
        finally:
            gc.set_threshold(*thresholds)
        gc.collect()
        assert storage.statistics(device).live == 0
