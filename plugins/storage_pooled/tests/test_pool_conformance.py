"""The contract's own suite on all pools, on the host and on a device."""

from __future__ import annotations

from typing import Any

import pytest
from mxcore_storage_pooled.pool import PooledStorage

from mxcore.spec import Handle
from mxcore.testing.fake_device import FakeDevice
from mxcore.testing.storage_conformance import StorageConformance

NAMES = ("naive", "round", "unpooled", "best_fit")


class TestPools(StorageConformance):
    @pytest.fixture(params=NAMES)
    def storage(self, request: Any) -> Any:
        return PooledStorage(request.param)


class TestPoolsOnAFakeDevice(StorageConformance):
    @pytest.fixture
    def device(self) -> str:
        return "gpu(1)"

    @pytest.fixture(params=NAMES)
    def storage(self, request: Any) -> Any:
        self.fake = FakeDevice(1 << 32, memory=True)
        yield PooledStorage(request.param, allocators={"gpu": lambda device: self.fake}, strict=True)
        self.fake.check()

    def fill(self, handle: Handle, value: int) -> None:
        self.fake.write(self.fake.view(handle.buffer, 0, handle.nbytes), value)

    def holds(self, handle: Handle, value: int) -> bool:
        return self.fake.read(self.fake.view(handle.buffer, 0, handle.nbytes)) == bytes([value]) * handle.nbytes

    # A device's buffers are opaque.
    @pytest.mark.parametrize("nbytes", [0, 1, 5000, 5_000_000])
    def test_a_handle_says_what_it_is(self, storage: Any, device: Any, nbytes: int) -> None:
        handle = storage.alloc(nbytes, device)
        assert (handle.nbytes, handle.device, handle.manager) == (nbytes, device, storage)
        assert handle.buffer.nbytes == handle.capacity >= nbytes
        assert handle.buffer.address % 64 == 0
        storage.free(handle)
