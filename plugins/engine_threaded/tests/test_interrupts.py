"""Ctrl-C, forks, stops and exits at random moments: nothing hangs, nothing is wrong, nothing is left behind."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from schedules import ENGINES

from mxcore.testing.engine_conformance import within

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX signals and processes")

INTERRUPTS = 200
FORKS = 200
CYCLES = 1_000
AT_ONCE_S = 0.2


COMMON = """
import os, random, sys, time
from mxcore.spec import EngineError
from mxcore_engine_threaded.engine import ThreadedEngine, ThreadedEnginePerDevice

class Work:
    '''A little of everything on a few variables; `check` knows what must have come of it.'''

    def __init__(self, engine, seed):
        self.engine, self.random = engine, random.Random(seed)
        self.variables = [engine.new_variable(f"v{k}") for k in range(4)]
        self.values = [0] * 4
        self.made = self.released = 0

    def add(self, k, spin):
        for _ in range(spin):
            pass
        self.values[k] += 1

    def step(self):
        draw, engine = self.random, self.engine
        k, spin = draw.randrange(4), draw.choice((10, 1000, 20000))
        x, chance = self.variables[k], draw.random()
        if chance < 0.5:
            engine.push(lambda: self.add(k, spin), [self.variables[k - 1]], [x], name=f"add{spin}")
        elif chance < 0.6:
            engine.push_async(lambda done: (self.add(k, spin), done()), [], [x])
        elif chance < 0.7:
            engine.wait_for_variable(x)
        elif chance < 0.75:
            engine.wait_for_all()
        elif chance < 0.85:
            parts = [0] * 7
            def piece(start, stop):
                for j in range(start, stop):
                    parts[j] = sum(range(spin // 10))
            engine.parallel_for(7, 2, piece)
            assert parts == [sum(range(spin // 10))] * 7
        elif chance < 0.95:
            own = engine.new_variable()
            engine.push(lambda: None, [x], [own], name="own")
            self.made += 1
            engine.delete_variable(own, self.release)
        else:
            with engine.bulk(5):
                for _ in range(5):
                    engine.push(lambda: self.add(k, 10), [], [x], name="bulk")

    def release(self):
        self.released += 1

    def settle(self):
        '''Heal everything, and forget what was not reported.'''
        engine = self.engine
        for x in self.variables:
            engine.push(lambda: None, [], [x], name="heal")
        while True:
            try:
                engine.wait_for_all()
            except EngineError as error:
                assert "was interrupted by KeyboardInterrupt" in str(error), error
            else:
                break
        for x in self.variables:
            engine.wait_for_variable(x)
            assert x.error is None and x.flags == 0 and x.readers == 0, x
        assert engine.tracker.pending == 0
        assert engine._executing == engine._asleep == engine._sleepers == 0
        assert not engine._inner and not engine._outer and not engine._jobs and not engine._running

    def check(self):
        '''It works as ever.'''
        self.settle()
        engine = self.engine
        before = list(self.values)
        for k, x in enumerate(self.variables):
            for _ in range(5):
                engine.push(lambda k=k: self.add(k, 10), [], [x], name="check")
        for x in self.variables:
            engine.wait_for_variable(x)
        assert self.values == [value + 5 for value in before], (self.values, before)
        parts = [0] * 9
        engine.parallel_for(9, 1, lambda start, stop: parts.__setitem__(start, 1))
        assert parts == [1] * 9

"""


def script(text: str) -> list[str]:
    return [sys.executable, "-W", "error", "-X", "faulthandler", "-c", COMMON + textwrap.dedent(text)]


@pytest.mark.parametrize("make", ENGINES, ids=lambda make: make.__name__)
def test_ctrl_c_at_random_moments(make):
    child = subprocess.Popen(
        script(f"""
            import faulthandler
            faulthandler.dump_traceback_later(100, exit=True)
            threads = len(os.listdir("/proc/self/task"))
            engine = {make.__name__}(workers=2)
            work = Work(engine, 1)
            work.check()
            while True:
                try:
                    print("ready", flush=True)
                    while True:
                        work.step()
                except KeyboardInterrupt:
                    at = time.monotonic()
                try:
                    work.check()
                except BaseException as error:
                    import traceback
                    traceback.print_exc()
                    print("broken", repr(error), flush=True)
                    os._exit(1)
                print("interrupted", at, work.made - work.released, flush=True)
                if sys.stdin.readline() != "more\\n":
                    break
            engine.shutdown()
            assert work.made - work.released <= 5  # deletions that an interrupt prevented
            time.sleep(0.1)  # a thread that was joined takes a moment to go
            print("threads", len(os.listdir("/proc/self/task")) - threads, flush=True)
        """),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert child.stdout is not None and child.stdin is not None and child.stderr is not None
    draw, late = random.Random(7), []
    count = INTERRUPTS // len(ENGINES)

    def line() -> str:
        if not select.select([child.stdout], [], [], 30)[0]:
            child.send_signal(signal.SIGABRT)
            raise AssertionError(f"the child hangs after {len(late)} interrupts:\n{child.communicate()[1]}")
        found = child.stdout.readline()
        assert found and not found.startswith("broken"), f"after {len(late)} interrupts: {found}{child.stderr.read()}"
        return found

    try:
        for k in range(count):
            assert line() == "ready\n"
            time.sleep(draw.uniform(0, 0.02))
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            words = line().split()
            assert words[0] == "interrupted"
            late.append(float(words[1]) - sent)
            child.stdin.write("more\n" if k < count - 1 else "enough\n")
        assert line() == "threads 0\n"
        assert child.wait(20) == 0, child.stderr.read()
    finally:
        child.kill()
        child.communicate()
    late.sort()
    assert len(late) == count
    # A machine that is busy with something else may be late now and then.
    assert late[count * 9 // 10] < AT_ONCE_S and late[-1] < 10 * AT_ONCE_S, late[-10:]


@pytest.mark.parametrize("make", ENGINES, ids=lambda make: make.__name__)
def test_forks_at_random_moments(make):
    done = subprocess.run(
        script(f"""
            import faulthandler  # begun in the children only: its thread does not survive a fork
            engine = {make.__name__}(workers=2)
            work = Work(engine, 2)
            work.check()
            for number in range({FORKS // len(ENGINES)}):
                for _ in range(work.random.randrange(30)):
                    work.step()
                before = sum(work.values)
                pid = os.fork()
                if not pid:
                    status = 1
                    try:
                        faulthandler.dump_traceback_later(20, exit=True)
                        for _ in range(10):
                            work.step()
                        work.check()
                        engine.shutdown()
                        status = 7
                    finally:
                        os._exit(status)
                for _ in range(5):
                    work.step()
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7, number
            work.check()
            assert work.made == work.released
            engine.shutdown()
            print("forked")
        """),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (done.returncode, done.stdout) == (0, "forked\n"), done.stderr
    assert done.stderr == ""


def test_a_function_that_forks():
    """In the child the function goes on; what other threads ran is lost, and its variables say so."""
    done = subprocess.run(
        script("""
            import threading
            engine = ThreadedEngine(workers=3)
            x, y, z = (engine.new_variable(name) for name in "xyz")
            log, statuses = [], []
            release, begun = threading.Event(), threading.Event()

            def other():
                begun.set()
                release.wait(20)

            def forks():
                begun.wait(20)
                import warnings
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # its own worker is a thread
                    pid = os.fork()
                if not pid:
                    status = 1
                    try:
                        try:
                            engine.wait_for_variable(y)
                        except EngineError as error:
                            assert "'other' was running in another thread when the process forked" in str(error), error
                            status = 7
                        engine.push(lambda: log.append("in the child"), [], [z])
                        engine.wait_for_variable(z)
                        assert log == ["in the child"]
                    finally:
                        os._exit(status)
                statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                release.set()

            engine.push(other, [], [y], name="other")
            engine.push(forks, [], [x], name="forks")
            engine.wait_for_all()
            assert statuses == [7], statuses
            engine.shutdown()
        """),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _counts() -> tuple[int, int, int]:
    """Threads of Python, of the system, and descriptors, once threads that were joined have really gone."""
    counts, since = (threading.active_count(), _threads(), _descriptors()), time.monotonic()
    while time.monotonic() - since < 0.3:
        time.sleep(0.005)
        now = (threading.active_count(), _threads(), _descriptors())
        if now != counts:
            counts, since = now, time.monotonic()
    return counts


@pytest.mark.parametrize("make", ENGINES, ids=lambda make: make.name)
def test_1000_stops_and_starts_leave_nothing(make):
    engine = make(workers=3)
    x, ran = engine.new_variable(), []

    def cycle() -> None:
        for _ in range(3):
            engine.push(lambda: ran.append(1), [], [x])
            engine.push(lambda: ran.append(1))
        engine.parallel_for(3, 1, lambda start, stop: None)
        engine.stop()
        engine.start()

    cycle()
    before = _counts()
    for _ in range(CYCLES // len(ENGINES)):
        cycle()
    assert _counts() == before
    assert len(ran) == 6 * (CYCLES // len(ENGINES) + 1)
    assert not any(pool.workers or pool.idle for pool in engine._pools.values())
    within(engine.shutdown)


def test_200_engines_leave_nothing():
    def one(make: type) -> None:
        engine = make(workers=3)
        engine.push(lambda: None)
        engine.push_async(lambda done: done())
        engine.wait_for_all()
        engine.shutdown()

    one(ENGINES[0])
    handler, before = signal.getsignal(signal.SIGINT), _counts()
    for k in range(200):
        one(ENGINES[k % 2])
    assert _counts() == before
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("work", ["", "push", "pending", "asynchronous", "waiting thread"])
def test_exit_without_shutdown(work):
    """The process ends by itself, whatever is pending."""
    done = subprocess.run(
        script(f"""
            import threading
            work = {work!r}
            engine = ThreadedEnginePerDevice(workers=2)
            x = engine.new_variable()
            if work:
                engine.push(lambda: None, [], [x])
            if work == "pending":
                for _ in range(100):
                    engine.push(lambda: time.sleep(0.001), [], [x])
            if work == "asynchronous":
                engine.push_async(lambda done: None, [], [x])  # never completes
                engine.push(lambda: None, [x])
            if work == "waiting thread":
                engine.push_async(lambda done: None, [], [x])
                threading.Thread(target=lambda: engine.wait_for_variable(x), daemon=True).start()
            print("end", flush=True)
        """),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (0, "end\n")
    told = "that wait for an on_complete which nobody called" in done.stderr
    assert told if work in ("asynchronous", "waiting thread") else done.stderr == "", done.stderr
