"""10,000 simulated schedules: random programs on both engines, any order of the threads; and replay.

A failure names its seed; repeat it with ``Case(seed).run()`` of ``schedules.py``.
"""

from __future__ import annotations

import collections

import pytest
from mxcore_engine_threaded.engine import ThreadedEngine
from mxcore_engine_threaded.simulator import Deadlock, Simulator, simulated
from schedules import Case, run_cases

CHUNK = 500


@pytest.mark.parametrize("chunk", range(20))
def test_10000_schedules_end_as_serially(chunk):
    run_cases(chunk * CHUNK, (chunk + 1) * CHUNK)


@pytest.mark.parametrize("chunk", range(4))
def test_100_replays_take_the_same_way_to_the_same_end(chunk):
    for seed in range(chunk * 25, (chunk + 1) * 25):
        first = Case(seed).run()
        again = Case(seed).run(schedule=first.schedule)
        assert again.schedule == first.schedule, f"seed {seed}"
        assert again._clock == first._clock, f"seed {seed}"


class NeverWakes(ThreadedEngine):
    """Forgets to wake a waiter."""

    def _wake(self, waiter):
        waiter.done = True
        if waiter.registered:
            self._unregister(waiter)


def test_a_deadlock_is_replayed_too():
    replayed = 0
    for seed in range(40):
        messages = []
        schedule = None
        for _ in range(2):
            case = Case(seed)
            machine = Simulator(seed, schedule=schedule, **case.machine)

            def body(case=case, machine=machine):
                engine = simulated(NeverWakes, machine, workers=2)
                x = engine.new_variable()
                engine.push(lambda: None, [], [x])
                engine.wait_for_variable(x)

            try:
                machine.run(body)
            except Deadlock as error:
                messages.append(str(error))
            schedule = machine.schedule
        assert len(messages) in (0, 2)
        assert messages[1:] == messages[:1]
        replayed += len(messages) // 2
    assert replayed > 5


def test_the_schedules_go_everywhere():
    """What the 10,000 schedules are for happens in them: counted in the first 100."""
    counts = collections.Counter()

    class Counting:
        """Mixed into an engine: counts."""

        def _throttle(self):
            counts["throttled"] += not self._has_room()
            super()._throttle()

        def _inline(self, *arguments):
            done = super()._inline(*arguments)
            counts["run in the caller"] += done
            counts["not run in the caller"] += not done
            return done

        def _open_job(self):
            job = super()._open_job()
            counts["worker finds a job"] += job is not None
            return job

        def _sleep(self, waiter, what):
            counts["slept inside functions" if waiter.depth else "slept"] += not waiter.done
            super()._sleep(waiter, what)

        def _collect(self):
            counts["deletion in the inbox"] += len(self._inbox)
            super()._collect()

        def _rest(self, pool, worker):
            counts["leaves for lack of a seat"] += len(pool.heap) > pool.coming
            super()._rest(pool, worker)

        def _dismiss(self):
            counts["stopped"] += 1
            super()._dismiss()

        def shutdown(self):
            counts["plans dropped"] += self.stream.dropped
            counts["crowded"] += self.crowded
            super().shutdown()

    for seed in range(100):
        case = Case(seed)
        case.run(mixin=Counting)
        counts[case.machine["policy"]] += 1
        counts["per device"] += case.per_device
        counts["sized"] += case.sized
    rare = {"plans dropped", "leaves for lack of a seat", "worker finds a job"}
    assert all(count >= (0 if name in rare else 20) for name, count in counts.items()), counts
    assert len(counts) == 15, counts
