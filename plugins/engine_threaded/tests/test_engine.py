"""What the conformance suite does not look at: where functions run, how far callers run ahead, who is told what."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import pytest
from mxcore_engine_threaded.engine import ThreadedEngine, ThreadedEnginePerDevice
from schedules import ENGINES
from threadpoolctl import ThreadpoolController

from mxcore.spec import EngineError, FnProperty
from mxcore.testing.engine_conformance import Boom, within


class Known:
    """An estimate that never changes."""

    def __init__(self, ns: int) -> None:
        self.ns = ns
        self.countdown = 1 << 60

    def record(self, ns: int) -> None:
        pass


CHEAP, DEAR = Known(1_000), Known(10**9)


class Gate:
    """A function that holds the variables it writes until it is opened."""

    def __init__(self, engine, *writes, reads=(), **options):
        self.begun, self.opened = threading.Event(), threading.Event()
        self.ident = 0
        engine.push(self._wait, reads, writes, estimate=DEAR, name="gate", **options)

    def _wait(self):
        self.ident = threading.get_ident()
        self.begun.set()
        assert self.opened.wait(20)

    def open(self):
        self.opened.set()


def new(engine, count):
    return [engine.new_variable(f"v{k}") for k in range(count)]


def quietly(call):
    """Call in a thread that a planted bug may leave behind: what it raises later is nobody's business."""
    with contextlib.suppress(Exception):
        call()


class EngineTests:
    """Each with an idle engine of two workers."""

    # -- where functions run -----------------------------------------------------------------------------------------

    def test_what_is_known_to_be_cheap_and_ready_runs_in_the_caller(self, engine):
        (x,), idents = new(engine, 1), []
        engine.push(lambda: idents.append(threading.get_ident()), [], [x], estimate=CHEAP)
        assert idents == [threading.get_ident()]
        assert (x.version, x.flags) == (1, 0)

    def test_what_is_known_to_be_dear_runs_elsewhere(self, engine):
        idents = []
        for _ in range(5):
            engine.push(lambda: idents.append(threading.get_ident()), [], [engine.new_variable()], estimate=DEAR)
        within(engine.wait_for_all)
        assert len(idents) == 5
        assert threading.get_ident() not in idents

    def test_what_is_unknown_runs_elsewhere(self, engine):
        idents = []
        engine.push(lambda: idents.append(threading.get_ident()))
        within(engine.wait_for_all)
        assert threading.get_ident() not in idents

    def test_what_is_cheap_and_not_ready_does_not_block_the_caller(self, engine):
        (x,), log = new(engine, 1), []
        gate = Gate(engine, x)
        engine.push(lambda: log.append(threading.get_ident()), [x], [], estimate=CHEAP)
        assert log == []
        gate.open()
        within(engine.wait_for_all)
        assert log and log[0] != threading.get_ident()

    def test_costs_are_learned_and_then_functions_run_in_the_caller(self, engine):
        (x,), idents = new(engine, 1), []

        def function():
            idents.append(threading.get_ident())

        for _ in range(40):
            engine.push(function, [], [x])
            within(lambda: engine.wait_for_variable(x))
        assert idents[0] != threading.get_ident()
        assert idents[-1] == threading.get_ident()

    def test_failure_in_the_caller_fails_the_writes_and_is_not_raised_at_the_push(self, engine):
        (x, y), error = new(engine, 2), Boom("cheap")

        def function():
            raise error

        engine.push(function, [y], [x], estimate=CHEAP, name="cheap function")
        assert x.error is error
        engine.push(lambda: pytest.fail("ran with a failed input"), [x], [y], estimate=CHEAP)
        for variable in (x, y):
            with pytest.raises(Boom) as caught:
                engine.wait_for_variable(variable)
            assert caught.value is error
        assert any("Pushed to the engine as 'cheap function' from" in note for note in error.__notes__)
        assert any("test_failure_in_the_caller" in note for note in error.__notes__)
        within(engine.wait_for_all)

    def test_readers_keep_a_cheap_write_out_of_the_caller(self, engine):
        (x,), log = new(engine, 1), []
        gate = Gate(engine, reads=[x])
        engine.push(lambda: log.append("write"), [], [x], estimate=CHEAP)
        assert log == []
        gate.open()
        within(engine.wait_for_all)
        assert log == ["write"]

    def test_a_second_pusher_is_noticed(self, engine):
        engine.push(lambda: None)
        assert not engine.crowded
        thread = threading.Thread(target=lambda: engine.push(lambda: None))
        thread.start()
        thread.join()
        assert engine.crowded

    def test_a_second_pusher_waits_for_the_function_that_the_first_one_runs(self, engine):
        (x,), log, intruded = new(engine, 1), [], threading.Event()
        engine.push(lambda: None, [], [x], estimate=DEAR)
        engine.wait_for_variable(x)
        second = threading.Thread(
            target=lambda: engine.push(lambda: (log.append("second"), intruded.set()), [], [x], estimate=CHEAP)
        )

        def first():
            second.start()
            intruded.wait(0.2)  # time for the other one to do wrong
            log.append("first")

        engine.push(first, [], [x], estimate=CHEAP)
        second.join()
        within(engine.wait_for_all)
        assert log == ["first", "second"]

    # -- deletions ---------------------------------------------------------------------------------------------------

    def test_an_idle_variable_is_released_at_once_and_here(self, engine):
        (x,), idents = new(engine, 1), []
        engine.delete_variable(x, lambda: idents.append(threading.get_ident()))
        assert idents == [threading.get_ident()]
        with pytest.raises(EngineError, match="variable 'v0' was deleted"):
            engine.delete_variable(x)
        with pytest.raises(EngineError, match="variable 'v0' was deleted"):
            engine.push(lambda: None, [x], estimate=CHEAP)

    def test_a_variable_in_use_is_released_afterwards(self, engine):
        for reads in (True, False):
            (x,), log = new(engine, 1), []
            gate = Gate(engine, reads=[x]) if reads else Gate(engine, x)
            assert gate.begun.wait(20)
            engine.delete_variable(x, lambda log=log: log.append("released"))
            assert log == []
            gate.open()
            within(engine.wait_for_all)
            assert log == ["released"]

    def test_the_error_of_a_release_is_reported_once_by_whoever_asks_first(self, engine):
        for first in ("variable", "all"):
            (x,), error = new(engine, 1), Boom("release")

            def release(error=error):
                raise error

            engine.delete_variable(x, release)
            with pytest.raises(Boom):
                engine.wait_for_variable(x) if first == "variable" else engine.wait_for_all()
            engine.wait_for_all()

    def test_a_release_needs_nobody_who_asks_for_it(self, engine):
        """The deletion may come while another thread has the lock: that one must see to it, whoever calls or not."""
        for _ in range(300):
            (x,), released = new(engine, 1), threading.Event()
            engine.push(lambda: None, [], [x], estimate=DEAR)
            engine.delete_variable(x, released.set)
            assert released.wait(5)
        with engine._lock:
            (x,), released = new(engine, 1), threading.Event()
            x.readers += 1
            engine.delete_variable(x, released.set)  # not taken in: this thread has the lock
            assert not released.is_set() and len(engine._inbox) == 1
            x.readers -= 1
        with engine.bulk(1):
            pass  # takes the lock and lets it go
        assert released.wait(1)

    def test_an_error_after_the_completion_is_told_by_wait_for_all(self, engine):
        (x,), error = new(engine, 1), Boom("late")

        def function(done):
            done()
            raise error

        engine.push_async(function, [], [x])
        within(lambda: engine.wait_for_variable(x))
        with pytest.raises(Boom):
            within(engine.wait_for_all)
        assert x.error is None
        within(engine.wait_for_all)

    # -- waiting inside functions ------------------------------------------------------------------------------------

    def test_waits_inside_functions_do_not_use_the_workers_up(self, engine):
        done, log = new(engine, 8), []

        def outer(k):
            engine.push(lambda: log.append(k), [], [done[k]], estimate=DEAR)
            engine.wait_for_variable(done[k])
            log.append(-k)

        for k in range(1, 8):
            engine.push(lambda k=k: outer(k), [], [engine.new_variable()], estimate=DEAR)
        within(engine.wait_for_all)
        assert sorted(log) == [*range(-7, 0), *range(1, 8)]

    def test_a_wait_inside_a_function_for_what_comes_after_it_says_so(self, engine):
        (x, y), errors = new(engine, 2), []

        def function():
            engine.push(lambda: None, [x], [y], estimate=DEAR)  # behind this very function
            try:
                engine.wait_for_variable(y)
            except EngineError as error:
                errors.append(str(error))

        engine.push(function, [], [x], estimate=DEAR)
        within(engine.wait_for_all)
        assert errors == [
            "wait_for_variable('v1') inside a function: the wait cannot end. Every function that runs waits, and none is "
            "ready: what it waits for comes after the function itself. Wait after the push, or list the variable among what "
            "the function reads."
        ]

    def test_the_same_one_function_deeper(self, engine):
        """The inner function runs in the worker that runs the outer one: two functions, one sleeper."""
        (x, y), errors, depth = new(engine, 2), [], []

        def inner():
            depth.append(len(engine._local.held))
            try:
                engine.wait_for_variable(y)
            except EngineError as error:
                errors.append("the wait cannot end" in str(error))

        def outer():
            engine.push(lambda: None, [x], [y], estimate=DEAR)
            engine.push(inner, [], [engine.new_variable()], estimate=CHEAP)

        engine.push(outer, [], [x], estimate=DEAR)
        within(engine.wait_for_all)
        assert (errors, depth) == ([True], [2])

    def test_a_wait_for_what_the_function_writes_says_so(self, engine):
        (x,), errors = new(engine, 1), []

        def function():
            try:
                engine.wait_for_variable(x)
            except EngineError as error:
                errors.append(str(error))

        for estimate in (DEAR, CHEAP):
            engine.push(function, [], [x], name="selfish", estimate=estimate)
            within(engine.wait_for_all)
        assert (
            errors
            == [
                "wait_for_variable('v0') inside 'selfish', which writes it: the wait cannot end. "
                "Wait after the push, or read what the function itself computed."
            ]
            * 2
        )

    def test_a_wait_inside_a_function_for_an_asynchronous_one_is_not_given_up(self, engine):
        (x,), handed, log = new(engine, 1), [], []
        started, waiting = threading.Event(), threading.Event()
        engine.push_async(lambda done: (handed.append(done), started.set()), [], [x])
        assert started.wait(20)

        def function():
            waiting.set()
            engine.wait_for_variable(x)
            log.append(x.version)

        engine.push(function, estimate=DEAR)
        assert waiting.wait(20)
        timer = threading.Timer(0.05, handed[0])
        timer.start()
        within(engine.wait_for_all)
        timer.join()
        assert log == [1]

    def test_stop_inside_a_function_says_so(self, engine):
        errors = []

        def function():
            try:
                engine.stop()
            except EngineError as error:
                errors.append(str(error))

        engine.push(function, estimate=DEAR)
        within(engine.wait_for_all)
        assert errors == ["stop() inside a running function: it would wait for itself. Stop the engine from outside."]

    # -- order and place ---------------------------------------------------------------------------------------------

    def test_larger_priorities_first_whatever_the_kind(self, engine):
        gates = [Gate(engine, engine.new_variable(), priority=1000) for _ in range(engine.threads - 1)]
        log = []
        for gate in gates:
            assert gate.begun.wait(20)
        for priority in (0, 5, -3, 100, 7, -100, 5):
            engine.push(lambda p=priority: log.append(p), priority=priority, estimate=DEAR)
        done = threading.Event()
        engine.push(done.set, priority=-1000, estimate=DEAR)  # waiting in the engine would lend another seat
        for gate in gates:
            gate.open()
        assert done.wait(20)
        assert log == [100, 7, 5, 5, 0, -3, -100]

    def test_equal_priorities_in_push_order(self, engine):
        gate, log, done = Gate(engine, priority=1), [], threading.Event()
        assert gate.begun.wait(20)
        for k in range(50):
            engine.push(lambda k=k: log.append(k), estimate=Known(10**9))  # all of different kinds: no plan
        engine.push(done.set, priority=-1, estimate=DEAR)
        gate.open()
        assert done.wait(20)
        assert log == list(range(50))

    def test_a_chain_stays_in_one_thread(self, engine):
        (x,), idents = new(engine, 1), []
        for _ in range(50):
            engine.push(lambda: idents.append(threading.get_ident()), [], [x], estimate=DEAR)
        within(engine.wait_for_all)
        assert len(set(idents)) == 1

    def test_a_caller_that_sleeps_lends_its_seat(self, engine):
        gates = [Gate(engine) for _ in range(engine.threads)]
        waiting = threading.Thread(target=lambda: quietly(engine.wait_for_all), daemon=True)
        waiting.start()
        assert all(gate.begun.wait(5) for gate in gates), "two functions do not run beside a caller that sleeps"
        for gate in gates:
            gate.open()
        waiting.join(20)

    def test_bulk_wakes_at_the_size_and_at_the_end(self, engine):
        ran = threading.Event()
        with engine.bulk(3):
            for _ in range(2):
                engine.push(ran.set, estimate=DEAR)
            assert not ran.is_set()
            engine.push(ran.set, estimate=DEAR)
            assert ran.wait(5)
        ran = threading.Event()
        with engine.bulk(100):
            engine.push(ran.set, estimate=DEAR)
            assert not ran.is_set()
        assert ran.wait(5)
        ran = threading.Event()
        with pytest.raises(Boom), engine.bulk(100):
            engine.push(ran.set, estimate=DEAR)
            raise Boom
        assert ran.wait(5)

    def test_pieces_of_a_parallel_loop_run_side_by_side(self, engine):
        meeting = threading.Barrier(2, timeout=5)
        engine.parallel_for(2, 1, lambda start, stop: meeting.wait())

    def test_ready_functions_survive_stop_in_another_order(self, engine):
        (x,), log = new(engine, 1), []
        for round_ in range(5):
            with engine.bulk(100):
                for k in range(20):
                    engine.push(lambda k=k, r=round_: log.append((r, k)), [], [x], estimate=DEAR)
                within(engine.stop)
            engine.start()
        assert log == [(r, k) for r in range(5) for k in range(20)]

    # -- plans -------------------------------------------------------------------------------------------------------

    def test_a_repeated_stream_runs_its_longest_chain_first(self, engine):
        """One worker, seven independent functions, one of which has a chain behind it: it is pushed last and runs first."""
        log = []

        def one(k, reads=(), writes=()):
            estimate = engine.estimate(("chain", k))
            if not estimate.ns:
                estimate._adopt(10**7, 20)
            engine.push(lambda: log.append(k), reads, writes, estimate=estimate)

        for _ in range(4):
            gate_variable = engine.new_variable()
            gate = Gate(engine, gate_variable, priority=100)
            assert gate.begun.wait(20)
            log.clear()
            chain = new(engine, 4)
            for k in range(7):
                one(k, [], [engine.new_variable()])
            one(10, [], [chain[0]])
            for k in range(3):
                one(11 + k, [chain[k]], [chain[k + 1]])
            done = threading.Event()
            engine.push(done.set, priority=-5, estimate=engine.estimate(("chain", "end")))
            gate.open()
            assert done.wait(20)
            within(engine.wait_for_all)
            assert sorted(log) == [*range(7), *range(10, 14)]
        assert engine.stream.plan is not None
        assert log[0] == 10


@pytest.fixture(params=ENGINES, ids=lambda make: make.name)
def engine(request):
    engine = request.param(workers=2)
    yield engine
    within(engine.shutdown)


class TestEngine(EngineTests):
    """Both engines, two workers."""


class TestOneWorker:
    """What must not depend on a second one."""

    @pytest.fixture
    def engine(self, engine):
        within(engine.shutdown)
        engine = type(engine)(workers=1)
        yield engine
        within(engine.shutdown)

    @pytest.mark.parametrize(
        "name",
        [
            "test_waits_inside_functions_do_not_use_the_workers_up",
            "test_a_wait_inside_a_function_for_what_comes_after_it_says_so",
            "test_the_same_one_function_deeper",
            "test_a_wait_inside_a_function_for_an_asynchronous_one_is_not_given_up",
            "test_the_error_of_a_release_is_reported_once_by_whoever_asks_first",
        ],
    )
    def test_as_with_two(self, engine, name):
        getattr(EngineTests(), name)(engine)


# -- how far callers run ahead ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"max_tasks": 8}, {"max_bytes": 800}], ids=str)
def test_callers_do_not_run_ahead_too_far(options):
    engine, pushed, ran, most = ThreadedEngine(workers=2, learn=False, **options), [0], [0], [0]

    def function():
        ran[0] += 1

    for _ in range(500):
        engine.push(function, [], [engine.new_variable()], nbytes=100)
        pushed[0] += 1
        most[0] = max(most[0], engine.tracker.pending)
    engine.wait_for_all()
    assert ran == [500]
    assert most[0] <= 9  # the bound, and the one that was just pushed
    engine.shutdown()


# -- pools, BLAS, switch interval, options ---------------------------------------------------------------------------


def test_devices_of_one_number_share_a_pool():
    engine = ThreadedEnginePerDevice(workers=2)

    def key(kind, number=0, prop=FnProperty.NORMAL):
        return engine._pool_key(prop, SimpleNamespace(device_type=kind, device_id=number))

    assert key("cpu") == key("cpu_pinned") == key("cpu_shared") == engine._pool_key(FnProperty.NORMAL, None)
    assert key("cpu", 1) == key("cpu_pinned", 1) != key("cpu")
    assert key("gpu") not in (key("cpu"), key("gpu", 1), key("gpu", 0, FnProperty.COPY_TO_GPU))
    assert key("cpu", 0, FnProperty.CPU_PRIORITIZED) == key("cpu", 1, FnProperty.CPU_PRIORITIZED)
    engine.shutdown()


def test_blas_has_one_thread_while_workers_run():
    def threads():
        return [entry["num_threads"] for entry in ThreadpoolController().select(user_api="blas").info()]

    import numpy  # noqa: F401  (brings a BLAS)

    before, seen = threads(), []
    engine = ThreadedEngine(workers=2)
    engine.push(lambda: seen.append(threads()), estimate=DEAR)
    engine.wait_for_all()
    engine.stop()
    assert seen == [[1] * len(before)]
    assert threads() == before
    engine.shutdown()


def test_the_switch_interval_is_set_and_restored():
    before = sys.getswitchinterval()
    engine = ThreadedEngine(workers=2, switch_interval=0.0007)
    assert sys.getswitchinterval() == pytest.approx(0.0007)
    engine.shutdown()
    assert sys.getswitchinterval() == before


@pytest.mark.parametrize("option", ["workers", "copy_workers", "max_tasks"])
def test_impossible_options_say_so(option):
    with pytest.raises(EngineError, match=f"^engine 'threaded': {option}=0: at least 1 is needed.$"):
        ThreadedEngine(**{option: 0})


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"MXCORE_ENGINE": "threaded"}, "threaded"),
        ({"MXNET_ENGINE_TYPE": "ThreadedEngine", "MXNET_CPU_WORKER_NTHREADS": "3"}, "threaded 3"),
    ],
    ids=str,
)
def test_options_from_the_environment(environment, expected):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MXCORE_", "MXNET_"))}
    code = textwrap.dedent("""
        import mxcore as mx
        from mxcore.dispatch import runtime
        mx.nd.ones((2,)).asnumpy()
        made = runtime.current().engine
        print(made.name, made.threads)
    """)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ | environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(expected), done.stdout
