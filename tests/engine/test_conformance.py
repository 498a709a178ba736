"""The public conformance suite on the engines of core and of the kit."""

from __future__ import annotations

import threading

import pytest
from engine_workers import WorkerEngine

from mxcore.engine import NaiveEngine
from mxcore.spec import EngineCapability
from mxcore.testing.engine_conformance import EngineConformance
from mxcore.testing.engine_seeded import SeededEngine


class TestNaive(EngineConformance):
    @pytest.fixture
    def engine(self):
        engine = NaiveEngine()
        yield engine
        engine.shutdown()


class TestSeeded(EngineConformance):
    @pytest.fixture(
        params=[
            {"seed": 1},
            {"seed": 2, "policy": "pct", "depth": 3, "horizon": 400},
            {"seed": 3, "policy": "lifo"},
            {"seed": 4, "eagerness": 0.5, "inline": 0.3},
        ],
        ids=["random", "pct", "lifo", "eager"],
    )
    def engine(self, request):
        engine = SeededEngine(**request.param)
        yield engine
        engine.shutdown()
        assert engine.tracker.pending == 0


class TestWorkers(EngineConformance):
    @pytest.fixture(params=[1, 3])
    def engine(self, request):
        engine = WorkerEngine(request.param)
        yield engine
        engine.shutdown()
        assert engine.tracker.pending == 0


@pytest.mark.parametrize("capability", list(EngineCapability))
def test_a_false_claim_is_found(monkeypatch, capability):
    barrier = threading.Barrier
    monkeypatch.setattr(threading, "Barrier", lambda parties, timeout: barrier(parties, timeout=0.1))
    engine = SeededEngine()
    test = {EngineCapability.PARALLEL_FOR: "test_parallel_for_threads"}.get(capability, f"test_{capability.value}")
    getattr(EngineConformance(), test)(engine)
    engine.capabilities = frozenset({capability})
    with pytest.raises((AssertionError, threading.BrokenBarrierError)):
        getattr(EngineConformance(), test)(engine)
