"""The public conformance suite on the engines of core and of the kit."""

from __future__ import annotations

import pytest

from mxcore.engine import NaiveEngine
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
