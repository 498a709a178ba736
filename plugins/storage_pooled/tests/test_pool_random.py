"""Random calls: a million per pool against a device that sees every overlap, and programs against a naive model."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from mxcore_storage_pooled.pool import PooledStorage
from mxcore_storage_pooled.rounding import Settings, classes, exact, pages, powers
from pool_stress import NAMES, stress

from mxcore.spec import OutOfDeviceMemory, StorageError
from mxcore.testing.fake_device import FakeDevice

ROUNDINGS = {"naive": pages, "round": powers, "unpooled": exact, "best_fit": classes}
SIZES = st.one_of(
    st.integers(0, 300),
    st.integers(0, 1 << 22),
    st.sampled_from([64, 4096, 65_536, 1 << 20, (1 << 20) - 1, (1 << 20) + 1, 3 << 20]),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_million_calls(name: str) -> None:
    stress(name, 1_000_000)


class PoolMachine(RuleBasedStateMachine):
    """The model: a list of live handles, and sums over it. What is held is what the device says."""

    name = "best_fit"
    total = 40 << 20

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeDevice(self.total)
        self.pool: Any = PooledStorage(self.name, allocators={"gpu": lambda device: self.fake}, strict=True)
        self.rounding = ROUNDINGS[self.name](Settings())
        self.live: list[Any] = []
        self.peak = self.allocations = 0
        self.limit: int | None = None

    @rule(nbytes=SIZES, failing=st.integers(0, 6))
    def alloc(self, nbytes: int, failing: int) -> None:
        if failing == 1:
            self.fake.fail(1, 1)
        before = self.pool.statistics("gpu")
        try:
            handle = self.pool.alloc(nbytes, "gpu")
        except OutOfDeviceMemory as error:
            held = sum(h.capacity for h in self.live)
            assert error.live == held == before.live  # type: ignore[attr-defined]
            assert error.cached <= before.cached  # type: ignore[attr-defined]
            room = min(self.total, self.limit if self.limit is not None else self.total)
            after = self.pool.statistics("gpu")
            assert self.rounding(nbytes) > room - after.live - after.cached or failing == 1, "there was room for it"
            # What is left cached is in chunks with live blocks.
            assert self.pool.release_all("gpu") == 0
            return
        finally:
            self.fake.fail(1, 0)
        assert (handle.nbytes, handle.capacity) == (nbytes, self.rounding(nbytes))
        self.fake.lend(handle.buffer)
        assert handle.buffer.address % 64 == 0
        self.live.append(handle)
        self.allocations += 1
        self.peak = max(self.peak, sum(h.capacity for h in self.live))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def free(self, data: Any) -> None:
        handle = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        self.fake.give_back(handle.buffer)
        self.pool.free(handle)
        with pytest.raises(StorageError):
            self.pool.free(handle)

    @rule(to_bytes=st.integers(0, 8 << 20))
    def trim(self, to_bytes: int) -> None:
        before, used = self.pool.statistics("gpu").cached, self.fake.used
        given = self.pool.trim(to_bytes, "gpu")
        after = self.pool.statistics("gpu").cached
        assert given == before - after == used - self.fake.used
        chunks = {block.chunk for block in self.pool.blocks("gpu") if block.state == "live"}
        whole = sum(b.capacity for b in self.pool.blocks("gpu") if b.chunk not in chunks)
        assert after <= to_bytes or whole == 0, "there was more to give"

    @rule()
    def release_all(self) -> None:
        self.pool.release_all("gpu")
        live = {block.chunk for block in self.pool.blocks("gpu") if block.state == "live"}
        assert {block.chunk for block in self.pool.blocks("gpu")} == live, "only chunks with live blocks stay"

    @rule(sizes=st.lists(SIZES, max_size=5))
    def reserve(self, sizes: list[int]) -> None:
        used = self.fake.used
        got = self.pool.reserve(sizes, "gpu")
        assert got == self.fake.used - used

    @rule(limit=st.one_of(st.none(), st.integers(0, 30 << 20)))
    def set_limit(self, limit: int | None) -> None:
        self.limit = limit
        self.pool.set_limit(limit, "gpu")

    @rule()
    def reset_peak(self) -> None:
        self.pool.reset_peak("gpu")
        self.peak = sum(h.capacity for h in self.live)

    @invariant()
    def accounts_are_exact(self) -> None:
        now = self.pool.statistics("gpu")
        assert now.live == sum(h.capacity for h in self.live)
        assert now.live + now.cached == self.fake.used
        assert (now.peak, now.allocations) == (self.peak, self.allocations)
        if self.name == "unpooled":
            assert now.cached == 0
        blocks = self.pool.blocks("gpu")
        assert sorted(b.nbytes for b in blocks if b.state == "live") == sorted(h.nbytes for h in self.live)

    def teardown(self) -> None:
        for handle in self.live:
            self.fake.give_back(handle.buffer)
            self.pool.free(handle)
        self.pool.release_all()
        assert self.fake.used == 0 and self.fake.allocations == self.fake.frees


def machine(name: str) -> Any:
    made = type(f"Machine_{name}", (PoolMachine,), {"name": name}).TestCase
    made.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
    return made


TestNaive = machine("naive")
TestRound = machine("round")
TestUnpooled = machine("unpooled")
TestBestFit = machine("best_fit")
