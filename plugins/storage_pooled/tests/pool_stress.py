"""Random allocations and frees on a fake device, each checked: ``python pool_stress.py [--calls 1000000] [--pool NAME]``.

Sizes are log-uniform from 16 B to 64 MB; half of the calls come from one thread, half from four at once.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from typing import Any

from mxcore_storage_pooled.pool import PooledStorage

from mxcore.testing.fake_device import FakeDevice

NAMES = ("naive", "round", "unpooled", "best_fit")
DEVICE = "gpu(0)"


def worker(pool: Any, fake: FakeDevice, seed: int, calls: int, keep: int, accounts: list[int]) -> None:
    """Make ``calls`` calls, then free what is left; half of them allocate, about ``keep`` buffers are live.

    ``accounts`` gets the most bytes that were live at once, if no other thread is at work.
    """
    draw = random.Random(seed)
    live: list[Any] = []
    here = most = 0
    for _ in range(calls - keep):
        if live and (len(live) >= 2 * keep or draw.random() < len(live) / (2 * keep)):
            at = draw.randrange(len(live))
            live[at], live[-1] = live[-1], live[at]
            handle = live.pop()
            here -= handle.capacity
            fake.give_back(handle.buffer)
            pool.free(handle)
        else:
            nbytes = int(2 ** draw.uniform(4, 26))
            handle = pool.alloc(nbytes, DEVICE)
            assert handle.buffer.nbytes == handle.capacity >= nbytes
            assert handle.buffer.address % 64 == 0
            fake.lend(handle.buffer)
            live.append(handle)
            here += handle.capacity
            most = max(most, here)
    for handle in live:
        fake.give_back(handle.buffer)
        pool.free(handle)
    accounts.append(most)


def stress(name: str, calls: int, seed: int = 1) -> PooledStorage:
    """Raise AssertionError if anything is wrong; return the pool, empty."""
    fake = FakeDevice(1 << 50)
    pool = PooledStorage(name, allocators={"gpu": lambda device: fake})
    accounts: list[int] = []
    worker(pool, fake, seed, calls // 2, 100, accounts)
    now = pool.statistics(DEVICE)
    assert (now.live, now.peak) == (0, accounts[0])
    assert now.cached == fake.used

    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            worker(pool, fake, seed * 10 + number, calls // 8, 25, [])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    assert not fake._lent
    now = pool.statistics(DEVICE)
    assert now.live == 0 and now.cached == fake.used
    assert now.allocations - now.hits == fake.allocations, "what is no hit needs exactly one chunk"
    pool.check(DEVICE)
    assert pool.release_all(DEVICE) == now.cached
    assert (pool.statistics(DEVICE).cached, fake.used, fake.allocations - fake.frees) == (0, 0, 0)
    return pool


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--pool", choices=NAMES, action="append")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in options.pool or NAMES:
        start = time.perf_counter()
        counts = stress(name, options.calls, options.seed).statistics(DEVICE)
        print(f"{name}: {options.calls} calls in {time.perf_counter() - start:.1f} s, {counts}", flush=True)
