"""What `benchmarks/pools.py` measures with is what it says: instances without slack, traces that free what they allocate."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import Any

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def pools() -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        spec: Any = importlib.util.spec_from_file_location("benchmark_of_pools", FOLDER / "pools.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(FOLDER))


@pytest.mark.parametrize("seed", range(3))
def test_hard_instances_fill_their_rectangle(pools: Any, seed: int) -> None:
    for count in (154, 454):
        buffers = pools.cut(count, seed)
        assert len(buffers) == count and len({b.nbytes for b in buffers}) > count / 3
        for time in range(4 * count):
            assert sum(b.nbytes for b in buffers if b.start <= time < b.end) == 1 << 30


def test_training_traces_repeat_and_leave_the_parameters(pools: Any) -> None:
    for layers in (pools.lenet(), pools.resnet18(), pools.lstm(length=3), pools.transformer()):
        live: dict[int, int] = {}
        for what, key, nbytes in pools.Tape().steps(layers, 3):
            if what == "alloc":
                assert key not in live and nbytes > 0
                live[key] = nbytes
            else:
                del live[key]
        assert sum(live.values()) == 12 * sum(parameters for _, parameters, _ in layers)
    assert sum(p for _, p, _ in pools.resnet18()) == pytest.approx(11.69e6, rel=0.01), "ResNet-18's parameters"


def test_held_is_the_peak_over_what_is_live(pools: Any) -> None:
    requests = [("alloc", 1, 4096), ("free", 1, 0), ("alloc", 2, 8192), ("free", 2, 0)]
    assert pools.held("naive", requests).ratio == 1.5
    assert pools.held("unpooled", requests, late=2) == (1.0, 2, 1)
    assert pools.held("naive", requests * 2, late=4).late == 0
