"""The contract's own suite on both engines, learning and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mxcore_engine_threaded.engine import ThreadedEngine, ThreadedEnginePerDevice

from mxcore.testing.engine_conformance import EngineConformance


class TestThreaded(EngineConformance):
    @pytest.fixture
    def engine(self) -> Iterator[Any]:
        engine = ThreadedEngine(workers=2)
        yield engine
        engine.shutdown()


class TestThreadedPerDevice(EngineConformance):
    @pytest.fixture
    def engine(self) -> Iterator[Any]:
        engine = ThreadedEnginePerDevice(workers=2)
        yield engine
        engine.shutdown()


class TestManyWorkersWithoutLearning(EngineConformance):
    @pytest.fixture
    def engine(self) -> Iterator[Any]:
        engine = ThreadedEnginePerDevice(workers=5, learn=False)
        yield engine
        engine.shutdown()
