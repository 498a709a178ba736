"""SeededEngine: deferral, determinism, replay, and what it says when a wait cannot end."""

from __future__ import annotations

import pytest

from mxcore.spec import EngineError
from mxcore.testing.engine_programs import Program, run_program, seeded_options
from mxcore.testing.engine_seeded import POLICIES, SeededEngine


def test_push_returns_before_the_function_runs():
    engine = SeededEngine()
    x, log = engine.new_variable(), []
    engine.push(lambda: log.append(1), [], [x])
    assert (log, x.version) == ([], 0)
    assert engine.step()
    assert (log, x.version) == ([1], 0), "it ran and has not completed"
    assert engine.step()
    assert x.version == 1
    assert not engine.step()


def test_run_until_takes_no_more_steps_than_it_must():
    engine = SeededEngine(policy="fifo")
    x, y, log = engine.new_variable(), engine.new_variable(), []
    engine.push(lambda: log.append("x"), [], [x])
    engine.push(lambda: log.append("y"), [], [y])
    engine.run_until(x)
    assert x.version == 1
    engine.run_all()
    assert sorted(log) == ["x", "y"]


def test_run_until_raises_nothing():
    engine = SeededEngine()
    x = engine.new_variable()
    engine.push(lambda: 1 / 0, [], [x])
    engine.run_until(x)
    assert isinstance(x.error, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        engine.wait_for_all()


def orders(count=200, **options):
    found = set()
    for seed in range(count):
        engine, log = SeededEngine(seed, **options), []
        for i in range(4):
            engine.push(lambda i=i, log=log: log.append(i), [], [engine.new_variable()])
        engine.run_all()
        found.add(tuple(log))
    return found


def test_every_legal_order_comes_up():
    assert len(orders()) == 24
    assert len(orders(policy="pct", depth=1)) == 24
    assert orders(5, policy="fifo") == {(0, 1, 2, 3)}
    assert orders(5, policy="lifo") == {(3, 2, 1, 0)}


def test_an_eager_engine_runs_ahead_and_an_inline_one_at_the_push():
    log = []
    engine = SeededEngine(0, inline=1.0)
    engine.push(lambda: log.append(1), [], [engine.new_variable()])
    assert log == [1]
    engine = SeededEngine(0, eagerness=1.0)
    for _ in range(10):
        engine.push(lambda: log.append(2), [], [engine.new_variable()])
    assert 2 in log


def test_unknown_policy_is_refused():
    with pytest.raises(EngineError, match=f"policy 'best' is none of {', '.join(POLICIES)}"):
        SeededEngine(policy="best")


def test_same_seed_same_schedule_and_replay_of_100_programs():
    schedules = set()
    for seed in range(100):
        program = Program(seed, 60)
        first, second = (SeededEngine(seed, **seeded_options(seed)) for _ in range(2))
        run_program(program, first)
        run_program(program, second)
        assert first.schedule == second.schedule
        options = seeded_options(seed)
        replayed = SeededEngine(999, eagerness=options["eagerness"], inline=options["inline"])
        replayed.replay(" ".join(first.schedule))
        run_program(program, replayed)
        assert replayed.schedule == first.schedule
        schedules.add(tuple(first.schedule))
    assert len(schedules) == 100


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("r2 r1", "replay: step 2 cannot be taken now; possible are \\[1\\]"),
        ("e3", "the schedule says 'e3' where the program needs a choice of kind 'r'"),
        ("r1", "the schedule says 'nothing' where the program needs a choice of kind 'r' \\(after 1 choices\\)"),
    ],
)
def test_a_schedule_of_another_program_is_refused(schedule, message):
    engine = SeededEngine()
    engine.replay(schedule)
    engine.push(lambda: None)
    with pytest.raises(EngineError, match=message):
        engine.run_all()


def test_later_is_a_step():
    engine, log = SeededEngine(), []
    engine.later(lambda: log.append(1))
    assert log == []
    engine.run_all()
    assert log == [1]


def test_a_wait_that_cannot_end_names_what_is_missing():
    engine = SeededEngine(patience_s=0.05)
    x = engine.new_variable("x")
    engine.push_async(lambda on_complete: None, [], [x], name="forgetful")
    with pytest.raises(
        EngineError, match=r"wait_for_variable\('x'\): nothing happened for 0.05 s. Not completed: forget"
    ):
        engine.wait_for_variable(x)


def test_a_function_that_waits_for_itself_is_told():
    engine = SeededEngine()
    x = engine.new_variable("x")
    engine.push(lambda: engine.wait_for_variable(x), [], [x])
    with pytest.raises(
        EngineError, match=r"the wait cannot end\. 1 functions are pending, none can run, and 1 running"
    ):
        engine.wait_for_variable(x)


def test_interrupt_in_a_function_comes_out_of_the_wait():
    engine = SeededEngine()
    x = engine.new_variable()

    def interrupted():
        raise KeyboardInterrupt

    engine.push(interrupted, [], [x], name="slow")
    with pytest.raises(KeyboardInterrupt):
        engine.wait_for_variable(x)
    with pytest.raises(EngineError, match="'slow' was interrupted by KeyboardInterrupt"):
        engine.wait_for_variable(x)


def test_async_that_fails_after_it_completed_is_reported_by_wait_for_all():
    engine = SeededEngine()
    x = engine.new_variable()

    def function(on_complete):
        on_complete()
        raise ValueError("too late")

    engine.push_async(function, [], [x])
    with pytest.raises(ValueError, match="too late"):
        engine.wait_for_all()
    assert (x.error, x.version) == (None, 1)


def test_parallel_for_takes_the_pieces_in_a_drawn_order():
    found = set()
    for seed in range(50):
        order = []
        SeededEngine(seed).parallel_for(9, 3, lambda start, stop, order=order: order.append(start))
        found.add(tuple(order))
    assert len(found) == 6
