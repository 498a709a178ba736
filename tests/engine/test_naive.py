"""NaiveEngine beyond the contract: the hot path, several threads, nesting, deletion, interrupts, fork."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import traceback
import weakref

import pytest

from mxcore.engine import NaiveEngine
from mxcore.spec import EngineError
from mxcore.testing.engine_conformance import together, within


@pytest.fixture
def engine():
    engine = NaiveEngine()
    yield engine
    engine.shutdown()


def test_error_at_the_push_has_the_callers_stack(engine):
    x = engine.new_variable()

    def user():
        engine.push(lambda: 1 / 0, [], [x], name="divide")

    with pytest.raises(ZeroDivisionError) as caught:
        user()
    text = "".join(traceback.format_exception(caught.value))
    assert ", in user" in text
    assert "Pushed to the engine" not in text, "the stack says it already"
    with pytest.raises(ZeroDivisionError) as caught:
        engine.push(lambda: None, [x])
    assert "Pushed to the engine as 'divide' from:" in caught.value.__notes__[0]
    assert ", in user" in caught.value.__notes__[0]


def test_a_single_thread_takes_no_lock(engine):
    x, y = engine.new_variable(), engine.new_variable()
    engine.push(lambda: None, [x], [y])
    with engine._lock:  # whoever wanted it would hang
        within_thread = threading.current_thread()
        engine.push(lambda: None, [x], [y])
        engine.wait_for_variable(y)
        engine.delete_variable(x)
    assert within_thread is threading.main_thread()


def test_leaving_the_hot_path_ends_with_the_other_thread(engine):
    x = engine.new_variable()
    thread = threading.Thread(target=lambda: engine.push(lambda: None, [], [x]))
    thread.start()
    thread.join()
    assert engine._attention
    del thread
    gc.collect()
    engine.push(lambda: None, [], [x])
    assert not engine._attention
    assert x.version == 2


def test_nested_push_runs_in_the_middle_of_the_outer_function(engine):
    x, log = engine.new_variable(), []

    def outer():
        log.append("begin")
        engine.push(lambda: log.append("nested"), [x], [x])
        log.append("end")

    engine.push(outer, [], [x])
    assert log == ["begin", "nested", "end"]
    assert x.version == 2


def test_independent_functions_of_two_threads_overlap(engine):
    x, y, z = engine.new_variable(), engine.new_variable(), engine.new_variable()
    meeting = threading.Barrier(2, timeout=20)
    together([lambda: engine.push(meeting.wait, [z], [x]), lambda: engine.push(meeting.wait, [z], [y])])
    assert (x.version, y.version) == (1, 1)


@pytest.mark.parametrize(("first", "second"), [("w", "w"), ("w", "r"), ("r", "w")])
def test_conflicting_functions_of_two_threads_exclude_each_other(engine, first, second):
    x, log = engine.new_variable(), []
    entered, go_on = threading.Event(), threading.Event()

    def slow():
        log.append("first begins")
        entered.set()
        assert go_on.wait(20)
        log.append("first ends")

    def sets(kind):
        return ([], [x]) if kind == "w" else ([x], [])

    def pusher():
        assert entered.wait(20)
        threading.Thread(target=lambda: (wait_for_sleeper(engine), go_on.set()), daemon=True).start()
        engine.push(lambda: log.append("second"), *sets(second))

    together([lambda: engine.push(slow, *sets(first)), pusher])
    assert log == ["first begins", "first ends", "second"]


def wait_for_sleeper(engine):
    while not engine._sleepers:
        time.sleep(0.001)


def test_waits_for_what_another_thread_writes(engine):
    x, log = engine.new_variable(), []
    entered, go_on = threading.Event(), threading.Event()

    def slow():
        entered.set()
        assert go_on.wait(20)
        log.append("written")

    def waiter(wait):
        assert entered.wait(20)
        threading.Thread(target=lambda: (wait_for_sleeper(engine), go_on.set()), daemon=True).start()
        wait()
        log.append("waited")

    for wait in (lambda: engine.wait_for_variable(x), engine.wait_for_all, engine.stop):
        log.clear()
        entered.clear()
        go_on.clear()
        together([lambda: engine.push(slow, [], [x]), lambda wait=wait: waiter(wait)])
        assert log == ["written", "waited"]
    engine.start()


def test_threads_that_wait_for_each_other_in_a_circle_are_told(engine):
    x, y = engine.new_variable("x"), engine.new_variable("y")
    meeting = threading.Barrier(2, timeout=20)
    errors = []

    def outer(own, other):
        def function():
            meeting.wait()
            engine.push(lambda: None, [], [other], name="crossing")

        try:
            engine.push(function, [], [own])
        except EngineError as error:
            errors.append(str(error))

    together([lambda: outer(x, y), lambda: outer(y, x)])
    assert len(errors) == 1, "one gives up, the other goes on"
    assert "'crossing' inside a running function cannot go on" in errors[0]
    assert x.version + y.version == 3, "the outer functions and one of the inner ones"


def test_two_functions_that_both_wait_for_all_do_not_wait_for_each_other(engine):
    meeting = threading.Barrier(2, timeout=20)

    def function():
        meeting.wait()
        engine.wait_for_all()

    within(lambda: together([lambda: engine.push(function)] * 2))


def test_put_off_deletion_that_fails_is_raised_by_wait_for_all(engine):
    x = engine.new_variable()
    engine.push(lambda: engine.delete_variable(x, lambda: 1 / 0), [x])
    with pytest.raises(ZeroDivisionError):
        engine.wait_for_all()
    engine.wait_for_all()


def test_garbage_collection_in_the_middle_of_anything(engine):
    """A cycle whose finalizer deletes a variable, collected inside the lines that hold the lock."""
    x, released = engine.new_variable(), []

    class Array:
        def __init__(self):
            self.me = self
            variable = engine.new_variable()
            weakref.finalize(self, engine.delete_variable, variable, lambda: released.append(1))

    before = gc.get_threshold()
    gc.set_threshold(5)
    try:

        def pusher():
            for _ in range(200):
                Array()
                engine.push(lambda: [Array()], [], [x])

        together([pusher] * 4)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    engine.wait_for_all()
    assert len(released) == 1600
    assert x.version == 800


def test_interrupted_function_fails_its_writes_but_not_with_the_interrupt(engine):
    x = engine.new_variable()

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.push(interrupted, [], [x], name="slow")
    with pytest.raises(EngineError, match="'slow' was interrupted by KeyboardInterrupt: what it writes is incomplete"):
        engine.wait_for_variable(x)
    engine.push(lambda: None, [], [x])
    engine.wait_for_variable(x)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_ctrl_c_at_any_moment_leaves_the_engine_usable(engine):
    x, y = engine.new_variable(), engine.new_variable()
    shots = 0
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for shot in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + shot * 1e-6)
                while True:
                    engine.push(lambda: None, [], [x, y])  # heals what the last shot left
            except KeyboardInterrupt:
                shots += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert shots == 100
    # Nothing is held any more: another thread gets everything.
    within(lambda: (engine.push(lambda: None, [], [x, y]), engine.push(lambda: None, [x, y])))
    assert engine._local.held == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="fork with threads warns there; stop() leaves none of ours")
def test_fork_while_another_thread_holds_a_variable(engine):
    """The child has one thread: what the others held is free there."""
    x, entered, go_on = engine.new_variable(), threading.Event(), threading.Event()

    def slow():
        entered.set()
        assert go_on.wait(20)

    thread = threading.Thread(target=lambda: engine.push(slow, [], [x]))
    thread.start()
    assert entered.wait(20)
    child = os.fork()
    if not child:
        status = 1
        try:
            engine.start()
            engine.push(lambda: None, [x], [x])
            status = 0
        finally:
            os._exit(status)
    go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_start_after_shutdown_is_refused(engine):
    engine.shutdown()
    with pytest.raises(EngineError, match=r"start\(\) after shutdown\(\): the engine is gone. Make a new one"):
        engine.start()


@pytest.mark.parametrize("name", ["stop", "shutdown"])
def test_stopping_inside_a_function_is_refused(engine, name):
    with pytest.raises(EngineError, match="inside a running function: it would wait for itself"):
        engine.push(getattr(engine, name))
    engine.push(lambda: None)
