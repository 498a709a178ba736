"""Long random programs on real threads, pushed by several threads, bit-equal to serial execution.

Repeat one with ``python -m mxcore.testing.engine_programs --engine threaded --ops 10000 --variables 100 --reads 2-19
--failures 0.002 --parallel 0.02 --pushers 3 --seed SEED --programs 1``.
"""

from __future__ import annotations

import sys

import pytest
from mxcore_engine_threaded.engine import ThreadedEngine, ThreadedEnginePerDevice
from rebuilding import rebuilt, with_more_places
from schedules import ENGINES, Crowd, Prophet, RealThreads, run_crowds, run_duels

from mxcore.testing.engine_programs import Program, run_program

RUNS = 20
OPS = 10_000


@pytest.fixture(params=[None, 1e-5], ids=["usual switches", "many switches"])
def switches(request):
    before = sys.getswitchinterval()
    if request.param:
        sys.setswitchinterval(request.param)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("make", ENGINES, ids=lambda make: make.name)
@pytest.mark.parametrize("seed", range(RUNS))
def test_10000_operations_of_several_pushers_end_as_serially(make, seed):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5 if seed % 2 else before)
    try:
        program = Program(seed, OPS, variables=100, failures=0.002, reads=(2, 19), parallel=0.02)
        engine = make(
            workers=1 + seed % 4,
            learn=seed % 5 != 4,
            costs=Prophet(seed) if seed % 3 else None,
            max_tasks=(4096, 50)[seed % 2],
        )
        run_program(program, engine, pushers=1 + seed % 4)
        engine.shutdown()
    finally:
        sys.setswitchinterval(before)
    assert len(program.serial.ran) > OPS / 2, "most functions were skipped"


@pytest.mark.parametrize("make", ENGINES, ids=lambda make: make.name)
@pytest.mark.parametrize("seed", range(4))
def test_crowds_without_a_common_order(make, seed, switches):
    engine = make(workers=1 + seed % 4, costs=Prophet(seed) if seed % 2 else None)
    crowd = Crowd(engine, RealThreads, seed, pushers=4, ops=2_500)
    crowd.run()
    engine.shutdown()
    assert crowd.ran == 10_000


def test_3000_simulated_crowds():
    assert run_crowds(0, 3_000) > 100_000


def test_simulated_crowds_that_switch_at_every_statement_without_the_lock():
    with rebuilt(with_more_places) as engines:
        run_crowds(3_000, 3_500, engines)
        run_duels(0, 3_000, engines)


@pytest.mark.parametrize("make", [ThreadedEngine, ThreadedEnginePerDevice])
def test_many_short_programs_on_one_engine(make, switches):
    engine = make(workers=3)
    for seed in range(150):
        run_program(Program(seed, 120, parallel=0.1), engine, pushers=1 + seed % 3)
    engine.shutdown()
