"""Planted bugs: engines that are wrong in one place, which the tests must find within a small budget.

What is tested here is the tests: simulated schedules, loops and crowds, and the conformance suite on real threads. The
bugs of the dependency tracker are those of core's own ``tests/engine/test_mutants.py``.
"""

# ruff: noqa: E501 (lines of other files)
from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_engine
import test_plans
from mxcore_engine_threaded import engine, lifecycle, plans, pools, scheduler, work
from rebuilding import rebuilt, with_more_places
from schedules import Case, Loop, run_crowds, run_duels

from mxcore.engine import dependency
from mxcore.testing import engine_conformance
from mxcore.testing.engine_conformance import EngineConformance

#: A planted bug may break a thread that only the bug has left running.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

#: The modules that make an engine.
_PARTS = {engine: (engine, scheduler, lifecycle)}
PROGRAMS = 60  # the budget of a mutant, in simulated programs of 50 to 200 actions
LOOPS = 60
CROWDS = 100

# name: (module, text in it, what it becomes). Each text occurs exactly once.
MUTANTS = {
    # sleeping and waking
    "a waiter is not woken": (
        engine,
        "            self._unregister(waiter)\n            waiter.parker.unpark()",
        "            self._unregister(waiter)",
    ),
    "an idle worker is not woken": (
        engine,
        "                worker.coming = True\n                worker.parker.unpark()",
        "                worker.coming = True",
    ),
    "the caller of a parallel loop is not woken": (
        work,
        "                self.caller.unpark()",
        "                pass",
    ),
    "who is too far ahead is never woken": (
        engine,
        "        if self._throttled and self._has_room():",
        "        if self._throttled and False:",
    ),
    "nobody looks after waits inside functions": (
        engine,
        "        if self._inner and not self._ready and",
        "        if False and not self._ready and",
    ),
    "a wait for all is not woken by the last completion": (
        engine,
        "        if self._outer and not self.tracker.pending:",
        "        if self._outer and self.tracker.pending:",
    ),
    "a wait is over before the marker": (
        engine,
        "            self._admit(self.tracker.append(marker))\n",
        "            self._admit(self.tracker.append(marker)); waiter.done = True\n",
    ),
    "a wait for all leaves one behind": (
        engine,
        "            if waiter.depth or self.tracker.pending:\n",
        "            if waiter.depth or self.tracker.pending > 1:\n",
    ),
    "waits inside functions are given up while something is ready": (
        engine,
        "        if self._inner and not self._ready and",
        "        if self._inner and",
    ),
    "waits inside functions are given up while an asynchronous function runs": (
        engine,
        "and not self._outstanding and self._executing",
        "and self._executing",
    ),
    "functions inside functions sleep as one": (
        engine,
        "            self._asleep += waiter.depth",
        "            self._asleep += 1",
    ),
    "the error of a wait is not raised": (
        engine,
        "                payload.failure = work.inherited",
        "                payload.failure = None",
    ),
    # seats
    "a worker that rests keeps its seat": (
        engine,
        "    def _rest(self, pool: Pool, worker: Worker) -> None:\n        self._give_seat(pool)\n",
        "    def _rest(self, pool: Pool, worker: Worker) -> None:\n",
    ),
    "a worker that waits keeps its seat": (
        engine,
        "            if waiter.pool is not None:\n                self._give_seat(waiter.pool)",
        "            if waiter.pool is not None:\n                waiter.pool.running += 0",
    ),
    "the seat of a caller that sleeps is not lent": (
        engine,
        "pool.seats - 1 if pool.spare and not self._sleepers else pool.seats",
        "pool.seats - 1 if pool.spare else pool.seats",
    ),
    "the seats of workers that are sent home are lost": (
        engine,
        "                while pool.running:\n                    self._give_seat(pool)\n                pool.forget()\n        finally",
        "                pool.forget()\n        finally",
    ),
    "a worker that came counts as coming for ever": (
        engine,
        "                    worker.coming = False\n                    pool.coming -= 1",
        "                    worker.coming = False",
    ),
    "workers are not sent home": (
        engine,
        "                    worker.retired = True\n                    worker.parker.unpark()",
        "                    worker.retired = True",
    ),
    # taking and completing
    "two workers take the same function": (
        engine,
        "work = heapq.heappop(pool.heap)[3]",
        "work = pool.heap[0][3]",
    ),
    "the smallest priority first": (
        engine,
        "(-work.priority, -work.rank,",
        "(work.priority, -work.rank,",
    ),
    "what a plan knows does not wait": (
        engine,
        "            self._bytes += work.nbytes\n            if ready:",
        "            self._bytes += work.nbytes\n            ready = ready or [work] * (work.rank > 0)\n            if ready:",
    ),
    "what must be skipped runs": (
        engine,
        "            elif work.fn is None or work.skipped:",
        "            elif work.fn is None:",
    ),
    "completed before it ran": (
        engine,
        "            if work is not None:\n                error = self._run(work, pool.name)",
        "            if work is not None:\n                self._completed(work, None); error = self._run(work, pool.name); work = None; continue",
    ),
    "the error of a function is lost": (
        engine,
        "self.tracker.complete(work, None if error is None else as_failure(error, work.name))",
        "self.tracker.complete(work, None)",
    ),
    "what becomes ready is forgotten": (
        engine,
        "        if ready:\n            self._admit(ready)\n        elif self._outer or",
        "        if ready:\n            self._admit(ready[:1])\n        elif self._outer or",
    ),
    "bytes are not counted off": (
        engine,
        "        self._running.pop(work, None)\n        self._bytes -= work.nbytes",
        "        self._running.pop(work, None)",
    ),
    "nobody is held back": (
        engine,
        "        elif far and not local.held:",
        "        elif far and local.held:",
    ),
    # running in the caller
    "a claim is given up while its function runs": (
        engine,
        "        held.append(work)\n        error = None\n",
        "        held.append(work)\n        error = None\n        for v in writes: v.flags &= ~WRITING\n",
    ),
    "a claim does not wait for readers": (
        dependency,
        "            if variable.flags or variable.readers or variable in reads:",
        "            if variable.flags or variable in reads:",
    ),
    "the error of a function in the caller is lost": (
        engine,
        "            failure = None if error is None else self.tracker.fail(",
        "            failure = None if error is not None else self.tracker.fail(",
    ),
    "what waits for a function in the caller is forgotten": (
        engine,
        "            if ready:\n                self._admit(ready)\n            if self._outer",
        "            if self._outer",
    ),
    "a function in the caller counts as running for ever": (
        engine,
        "            self._executing -= 1\n            failure =",
        "            failure =",
    ),
    # asynchronous functions
    "an asynchronous function counts off twice": (
        engine,
        "                self._executing += 1  # _completed()",
        "                self._executing += 0  # _completed()",
    ),
    "an asynchronous function is outstanding for ever": (
        engine,
        "                    self._outstanding -= 1",
        "                    self._outstanding -= 0",
    ),
    "an asynchronous function ends when it returns": (
        engine,
        "                if work.asynchronous:\n                    work = None",
        "                if work.asynchronous and False:\n                    work = None",
    ),
    "an error after the completion is lost": (
        engine,
        "            elif late and isinstance(raised, Exception):",
        "            elif late and not isinstance(raised, Exception):",
    ),
    # deletions
    "deletions that came while the lock was taken are forgotten": (
        engine,
        "        self._lock.release()\n        if self._inbox or self._releases:",
        "        self._lock.release()\n        if self._releases:",
    ),
    "releases that are due are forgotten": (
        engine,
        "        self._lock.release()\n        if self._inbox or self._releases:",
        "        self._lock.release()\n        if self._inbox:",
    ),
    "a buffer is freed while it is read": (
        engine,
        "        if not variable.flags & (BUSY | RETIRED) and not variable.readers:",
        "        if not variable.flags & (BUSY | RETIRED):",
    ),
    "a buffer is freed while it is written": (
        engine,
        "        if not variable.flags & (BUSY | RETIRED) and not variable.readers:",
        "        if not variable.flags & RETIRED and not variable.readers:",
    ),
    "the error of a release is lost": (
        engine,
        "                    self._inbox.append(failure)",
        "                    pass",
    ),
    "the error of a release is reported twice": (
        engine,
        "                self.tracker.note(work)",
        "                self.tracker.fail(work.error)",
    ),
    # parallel loops
    "a piece is left out": (
        work,
        "                call(self.fn, *pieces[i])",
        "                call(self.fn, *pieces[i]) if i != 1 else None",
    ),
    "a piece is done twice": (
        work,
        "                call(self.fn, *pieces[i])",
        "                call(self.fn, *pieces[i - (i == 1)])",
    ),
    "a piece counts as done before it is": (
        work,
        "            took = True\n            try:",
        "            took = True\n            self.finished.append(i)\n            try:",
    ),
    "a parallel loop raises the error of the last piece": (
        engine,
        "            raise min(job.errors",
        "            raise max(job.errors",
    ),
    "nobody helps with a parallel loop": (
        engine,
        "                worker.parker.unpark()\n            if listed:\n                self._list_job(job, wanted)",
        "                pass",
    ),
    "a parallel loop never ends": (
        engine,
        "            self._jobs.remove(job)",
        "            pass",
    ),
    "a parallel loop makes the pool anew": (
        engine,
        '            if pool is None:\n                pool = self._pools["cpu"]',
        '            if True:\n                pool = self._pools["cpu"]',
    ),
    # the only pusher, without the lock
    "the second pusher does not wait for the first one's function": (
        engine,
        "        while self._alone:\n",
        "        while False:\n",
    ),
    "the second pusher is overlooked when it comes between": (
        engine,
        "        if self.crowded:  # it came between",
        "        if False:",
    ),
    "the second pusher is not woken": (
        engine,
        "        for parker in list(self._joining):\n            parker.unpark()",
        "        pass",
    ),
    "a function without the lock pushes unmarked": (
        engine,
        "            self.tracker.claim(sets[1], sets[2])\n            self._executing += 1",
        "            self.tracker.claim((), ())\n            self._executing += 1",
    ),
    "a function without the lock overlooks reads": (
        engine,
        "            flags |= variable.flags | variable.readers\n",
        "            flags |= variable.flags\n",
    ),
    # bulk, stop
    "a bulk ends without waking": (
        engine,
        "            local.quiet, local.woken = before, 0\n            self._lock.acquire()\n            try:\n                self._staff_all()",
        "            local.quiet, local.woken = before, 0\n            self._lock.acquire()\n            try:\n                pass",
    ),
    "a wait in a bulk wakes nobody": (
        engine,
        "        quiet, local.quiet = local.quiet, 0\n",
        "        quiet = local.quiet\n",
    ),
    "a stopped engine takes work": (
        engine,
        "        if self._stopped and not self._local.held:",
        "        if self._stopped and self._local.held:",
    ),
    "a second pusher is not noticed": (
        engine,
        "                self.crowded = True",
        "                pass",
    ),
    # plans
    "a plan does not look at variables": (
        plans,
        "            if at < len(tokens) and token == tokens[at]:",
        "            if at < len(tokens) and token[0] is tokens[at][0]:",
    ),
    "a rank leaves out what depends on it": (
        plans,
        "            ranks[k] = costs[k % len(costs)] + max([ranks[s] for s in successors[k]], default=0)",
        "            ranks[k] = costs[k % len(costs)]",
    ),
    "a plan begins in the wrong place": (
        plans,
        "                self.plan = Plan(history[i - period + 1 :], ",
        "                self.plan = Plan(history[i - period : -1], ",
    ),
    "a plan outlives what contradicts it": (
        plans,
        "            self.dropped += 1\n            self.plan = None\n",
        "            self.dropped += 1\n",
    ),
    "the only seat is the caller's": (
        pools,
        "        self.spare = spare and seats > 1\n",
        "        self.spare = spare\n",
    ),
}


def _core_mutants() -> dict[str, tuple[Any, str, str]]:
    path = Path(__file__).parents[3] / "tests" / "engine" / "test_mutants.py"
    spec = importlib.util.spec_from_file_location("core_mutants", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {f"tracker: {name}": (dependency, *texts) for name, texts in module.MUTANTS.items()}


MUTANTS |= _core_mutants()


@contextlib.contextmanager
def planted(where: types.ModuleType, old: str, new: str, places: bool = False) -> Iterator[tuple[type, type]]:
    """Give both engines, with ``old`` replaced by ``new`` in one module; on request with more places to switch threads."""

    holders = [module for module in _PARTS.get(where, (where,)) if old in inspect.getsource(module)]
    assert len(holders) == 1, f"{where.__name__} has changed: {len(holders)} of its modules have\n{old}"

    def edit(module: types.ModuleType, source: str) -> Any:
        if module is holders[0]:
            assert source.count(old) == 1, f"{module.__name__} has changed: {source.count(old)} times\n{old}"
            source = source.replace(old, new)
        return with_more_places(module, source) if places else source

    with rebuilt(edit) as engines:
        yield engines


def found_by_schedules(engines: tuple[type, type]) -> str:
    for seed in range(PROGRAMS):
        try:
            Case(seed).run(engines=engines)
        except Exception as error:
            return f"schedule {seed}: {type(error).__name__}: {error}"
    return ""


def found_by_loops(engines: tuple[type, type]) -> str:
    for seed in range(LOOPS):
        case = Case(seed, program=Loop(seed, 10))
        case.options["learn"] = True
        try:
            case.run(engines=engines)
        except Exception as error:
            return f"loop {seed}: {type(error).__name__}: {error}"
    return ""


def found_by_crowds(engines: tuple[type, type]) -> str:
    try:
        run_crowds(0, CROWDS, engines)
        run_duels(0, 10 * CROWDS, engines)
    except Exception as error:
        return str(error)
    return ""


def found_by_tests(engines: tuple[type, type]) -> str:
    """What needs nothing but an engine, or the module of plans, of the suite and of this plugin's own tests."""
    for name, method in vars(test_plans.PlanTests).items():
        if name.startswith("test_"):
            try:
                method(test_plans.PlanTests(), sys.modules[plans.__name__])
            except Exception as error:
                return f"{name}: {type(error).__name__}: {str(error)[:200]}"
    for holder in (test_engine.EngineTests, EngineConformance):
        for name, method in vars(holder).items():
            if not name.startswith("test_") or list(inspect.signature(method).parameters) != ["self", "engine"]:
                continue
            if "ctrl_c" in name:
                continue
            made = engines[len(name) % 2](workers=2)
            try:
                getattr(holder(), name)(made)
            except pytest.skip.Exception:
                pass
            except (Exception, pytest.fail.Exception) as error:
                return f"{name}: {type(error).__name__}: {str(error)[:200]}"
            try:
                engine_conformance.within(made.shutdown)
            except (Exception, pytest.fail.Exception) as error:
                return f"shutdown after {name}: {error}"
    return ""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs, hangs for a second."""
    monkeypatch.setattr(engine_conformance.within, "__defaults__", (1.0,))
    monkeypatch.setattr(engine_conformance.together, "__defaults__", (1.0,))


def test_nothing_is_found_in_the_engine_as_it_is():
    unchanged = "class ThreadedEngine(Lifecycle):"
    with planted(engine, unchanged, unchanged) as engines:
        assert engines[0] is not engine.ThreadedEngine
        assert found_by_schedules(engines) == ""
        assert found_by_loops(engines) == ""
        assert found_by_crowds(engines) == ""
        assert found_by_tests(engines) == ""


def found(name: str) -> str:
    """What finds a mutant first; empty if nothing does."""
    with planted(*MUTANTS[name]) as engines:
        for finder in (found_by_schedules, found_by_loops, found_by_crowds, found_by_tests):
            if text := finder(engines):
                return text
    with planted(*MUTANTS[name], places=True) as engines:
        return found_by_crowds(engines)


@pytest.mark.parametrize("name", MUTANTS)
def test_found(name):
    assert found(name), "not found"
