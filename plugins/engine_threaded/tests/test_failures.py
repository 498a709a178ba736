"""One function fails, anywhere: every wait that must tells, nothing else is wrong, nothing hangs."""

from __future__ import annotations

import collections
import random
import threading

import pytest
from mxcore_engine_threaded.engine import ThreadedEngine
from schedules import ENGINES, Case, Prophet

from mxcore.spec import EngineError, FnProperty
from mxcore.testing.engine_conformance import Boom, within
from mxcore.testing.engine_programs import Program, run_program

PLACES = 10_000
CHUNKS = 20


class OneFails(Program):
    """A program in which the ``at``-th function fails, whatever it is: pushed, asynchronous, nested or a release."""

    def __init__(self, seed, ops, at, **options):
        self.at, self.functions, self.failed = at, 0, ""
        super().__init__(seed, ops, failures=0.0, **options)

    def _here(self, kind):
        self.functions += 1
        here = self.functions == self.at
        if here:
            self.failed = kind
        return here

    def _draw_function(self, kind, plain=False):
        action = super()._draw_function(kind, plain)
        if not plain and kind != "nest":
            action.fails = self._here(kind)
        return action

    def _draw_nest(self):
        self.failures = 1.0 if self._here("nested") else 0.0
        super()._draw_nest()
        self.failures = 0.0

    def _draw_delete(self):
        self.failures = 1.0 if self._here("release") else 0.0
        super()._draw_delete()
        self.failures = 0.0


def place(seed):
    draw = random.Random(seed)
    ops = draw.randint(10, 40)
    return OneFails(seed, ops, draw.randint(1, ops * 3 // 4), parallel=draw.choice((0.0, 0.2)))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_10000_places_simulated(chunk):
    """`run_program` compares all states, versions and errors, and that waits raise each failure, and only those."""
    failed, raised = collections.Counter(), 0
    for seed in range(chunk * PLACES // CHUNKS, (chunk + 1) * PLACES // CHUNKS):
        program = place(seed)
        failed[program.failed] += 1
        raised += sum(len(action.raised) for action in program.actions)
        case = Case(seed, program=program)
        try:
            case.run()
        except Exception as error:
            raise AssertionError(f"{case!r}: {type(error).__name__}: {error}") from error
    assert min(failed[kind] for kind in ("push", "async", "nested", "release")) > 2, failed
    assert raised > PLACES / CHUNKS * 0.7, f"only {raised} functions failed"


@pytest.mark.parametrize("make", ENGINES, ids=lambda make: make.name)
def test_1000_places_on_real_threads(make):
    engine = make(workers=3, costs=Prophet(1))
    for seed in range(500):
        run_program(place(seed), engine, pushers=1 + seed % 2)
    engine.shutdown()


@pytest.fixture(params=ENGINES, ids=lambda make: make.name)
def engine(request):
    engine = request.param(workers=2)
    yield engine
    within(engine.shutdown)


def test_a_failing_piece_fails_the_function_that_has_the_loop(engine):
    x = engine.new_variable()

    def piece(start, stop):
        if start == 3:
            raise Boom(f"piece {start}")

    engine.push(lambda: engine.parallel_for(5, 1, piece), [], [x])
    with pytest.raises(Boom, match="piece 3"):
        within(lambda: engine.wait_for_variable(x))
    within(engine.wait_for_all)


def test_each_of_many_failures_is_told_once_and_in_their_order(engine):
    (x,), count = [engine.new_variable()], 200

    def fail(k):
        raise Boom(str(k))

    for k in range(count):
        engine.push(lambda k=k: fail(k), [], [x])  # each overwrites, and fails itself
    told = []
    while True:
        try:
            within(engine.wait_for_all)
            break
        except Boom as error:
            told.append(int(str(error)))
    assert told == list(range(count))
    assert str(x.error) == str(count - 1)


def test_an_exit_in_a_worker_fails_the_writes_and_says_so(engine):
    x, y = engine.new_variable(), engine.new_variable()

    def leave():
        raise SystemExit(3)

    engine.push(leave, [], [x], name="leave")
    with pytest.raises(EngineError) as caught:
        within(lambda: engine.wait_for_variable(x))
    assert str(caught.value) == (
        "'leave' was interrupted by SystemExit: what it writes is incomplete. Write the variable anew before reading it."
    )
    assert isinstance(caught.value.__cause__, SystemExit)
    engine.push(lambda: None, [], [y])
    within(lambda: engine.wait_for_variable(y))


def test_no_skip_runs_with_a_failed_input_and_passes_the_error_on(engine):
    x, y, ran, error = engine.new_variable(), engine.new_variable(), [], Boom("input")

    def fail():
        raise error

    for _ in range(30):  # until it is known to be cheap, and runs in the caller
        engine.push(fail, [], [x], name="fail")
        engine.push(lambda: ran.append(threading.get_ident()), [x], [y], prop=FnProperty.NO_SKIP, name="after")
        with pytest.raises(Boom):
            within(lambda: engine.wait_for_variable(y))
    assert len(ran) == 30
    assert y.error is error


def test_fail_of_the_caller_is_told_like_any_other(engine):
    x, y, error = engine.new_variable(), engine.new_variable(), Boom("in the caller")
    engine.fail([x, y], error, "inline")
    assert (x.version, y.version, x.error, y.error) == (1, 1, error, error)
    engine.push(lambda: pytest.fail("ran"), [x], [y])
    for _ in range(2):
        with pytest.raises(Boom) as caught:
            within(lambda: engine.wait_for_variable(y))
        assert caught.value is error
    within(engine.wait_for_all)
    engine.push(lambda: None, [], [x])
    within(lambda: engine.wait_for_variable(x))


def test_a_failed_push_leaves_nothing_behind():
    """What cannot be pushed is not pending."""
    engine = ThreadedEngine(workers=2)
    x = engine.new_variable()
    engine.delete_variable(x)
    for push in (
        lambda: engine.push(lambda: None, [x]),
        lambda: engine.push_async(lambda done: done(), [], [x]),
        lambda: engine.push_operation(engine.new_operation(lambda: None, [x])),
    ):
        with pytest.raises(EngineError, match="was deleted"):
            push()
    with pytest.raises((TypeError, AttributeError)):
        engine.push(lambda: None, [None])
    within(engine.wait_for_all)
    assert engine.tracker.pending == 0
    within(engine.shutdown)
