"""Planted bugs: each of these trackers is wrong in one place, and the kit must find it within a small budget.

What is tested here is the tests: the random programs on the seeded engine, and the conformance suite.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import pytest

from mxcore.engine import dependency, naive
from mxcore.testing import engine_seeded
from mxcore.testing.engine_conformance import EngineConformance
from mxcore.testing.engine_programs import Program, run_program, seeded_options

PROGRAMS = 60  # of 120 actions each: the budget of a mutant

# name: (text in mxcore/engine/dependency.py, what it becomes). Each text occurs exactly once.
MUTANTS = {
    "a reader overtakes a queued write": (
        """        for variable in task.reads:
            if variable.flags & _BUSY:""",
        """        for variable in task.reads:
            if variable.flags & WRITING:""",
    ),
    "a write does not wait for readers": (
        "            if variable.readers or variable.flags & _BUSY:",
        "            if variable.flags & _BUSY:",
    ),
    "a write is granted beside another write": (
        "            if variable.readers or variable.flags & _BUSY:",
        "            if variable.readers or variable.flags & QUEUED:",
    ),
    "a read is not counted when granted at the push": (
        """                self._enqueue(variable, task, False)
                waiting += 1
            else:
                variable.readers += 1""",
        """                self._enqueue(variable, task, False)
                waiting += 1
            else:
                variable.readers = 1""",
    ),
    "reads granted after the first are not counted": (
        """                task = queue.popleft()[0]
                variable.readers += 1""",
        """                task = queue.popleft()[0]
                variable.readers += 0""",
    ),
    "granted from the wrong end of the queue": (
        "        task, writes = queue.popleft()",
        "        task, writes = queue.pop()",
    ),
    "reads are granted past a queued write": (
        """            while queue and not queue[0][1]:
                task = queue.popleft()[0]""",
        """            while any(not entry[1] for entry in queue):
                task = next(entry for entry in queue if not entry[1])[0]
                queue.remove((task, False))""",
    ),
    "the last reader wakes nobody": (
        "            if not readers and variable.flags & QUEUED:",
        "            if readers and variable.flags & QUEUED:",
    ),
    "the first of several readers frees the write": (
        "            if not readers and variable.flags & QUEUED:",
        "            if variable.flags & QUEUED:",
    ),
    "a completed write wakes nobody": (
        """            if variable.flags & QUEUED:
                self._grant(variable, ready)
        return ready""",
        "        return ready",
    ),
    "a write granted from the queue is not marked": (
        """        if writes:
            variable.flags |= WRITING""",
        """        if writes:
            variable.flags |= 0""",
    ),
    "the queue is forgotten while it is not empty": (
        """        if not queue:
            variable.flags &= ~QUEUED""",
        "        variable.flags &= ~QUEUED",
    ),
    "ready one edge too early": (
        """            variable.readers += 1
        task.waiting -= 1
        if not task.waiting:""",
        """            variable.readers += 1
        task.waiting -= 1
        if task.waiting <= 1:""",
    ),
    "a wake is dropped when a task waited for two variables": (
        "        task.waiting = waiting\n",
        "        task.waiting = max(waiting, 1) if waiting != 2 else 3\n",
    ),
    "a write ends although it was not released": (
        "                variable.flags &= _NOT_WRITING_NOR_FAILED",
        "                variable.flags &= ~FAILED",
    ),
    "errors are not inherited": (
        """            for variable in task.inputs:
                if variable.flags & FAILED:
                    failure = variable.failure
                    break
        return self.release""",
        "        return self.release",
    ),
    "what is read and written heals": (
        """            for variable in task.inputs:
                if variable.flags & FAILED:
                    failure = variable.failure
                    break
        return self.release""",
        """            for variable in task.reads:
                if variable.flags & FAILED:
                    failure = variable.failure
                    break
        return self.release""",
    ),
    "an overwrite does not heal": (
        "                variable.flags &= _NOT_WRITING_NOR_FAILED",
        "                variable.flags &= ~WRITING",
    ),
    "an overwrite of a failed variable is skipped": (
        """        for variable in self.inputs:
            if variable.flags & FAILED:
                return self.prop""",
        """        for variable in (*self.inputs, *self.writes):
            if variable.flags & FAILED:
                return self.prop""",
    ),
    "the deletion of a failed variable is skipped": (
        "return self.prop != FnProperty.NO_SKIP and self.prop != FnProperty.DELETE_VARIABLE",
        "return self.prop != FnProperty.NO_SKIP",
    ),
    "NO_SKIP is skipped": (
        "return self.prop != FnProperty.NO_SKIP and self.prop != FnProperty.DELETE_VARIABLE",
        "return self.prop != FnProperty.DELETE_VARIABLE",
    ),
    "nothing is skipped": (
        "return self.prop != FnProperty.NO_SKIP and self.prop != FnProperty.DELETE_VARIABLE",
        "return False",
    ),
    "only the first write of a failing function fails": (
        "            variable.failure = failure\n            if failure is None:",
        "            variable.failure = failure\n            if failure is None or variable is not writes[0]:",
    ),
    "a failed write does not count as a version": (
        "            variable.version += 1\n",
        "            variable.version += failure is None\n",
    ),
    "a deleted buffer is freed while it is being read": (
        "    return Task(release, ((variable,), (), (variable,)), FnProperty",
        "    return Task(release, ((variable,), (variable,), ()), FnProperty",
    ),
    "a deleted variable can be pushed on": (
        "        if flags & RETIRED:",
        "        if flags & 0:",
    ),
    "duplicates are kept": (
        "    if len({*inputs, *outputs}) == len(inputs) + len(outputs):",
        "    if True:",
    ),
    "a variable in both sets is read only": (
        "    return inputs, tuple(variable for variable in inputs if variable not in written), outputs",
        "    return inputs, inputs, tuple(variable for variable in outputs if variable not in inputs)",
    ),
    "a function is pending for ever": (
        "        self.pending -= 1\n",
        "        self.pending -= bool(writes)\n",
    ),
    "a wait does not report the error": (
        "            self._unreported.pop(failure, None)",
        "            self._unreported.get(failure, None)",
    ),
    "the newest error is reported first": (
        "            failure = next(iter(self._unreported), None)",
        "            failure = next(reversed(self._unreported), None)",
    ),
    "the last failed input decides": (
        """                    failure = variable.failure
                    break
        return self.release""",
        """                    failure = variable.failure
        return self.release""",
    ),
    "the traceback grows": (
        "        raise self.error.with_traceback(self.traceback)",
        "        raise self.error",
    ),
    "the push site is lost": (
        "        self._site = site\n",
        "        self._site = ()\n",
    ),
    "a function completes twice": (
        "            ended = self._ended.pop()  # atomic: of two threads one gets it",
        "            ended = self._ended[0]",
    ),
    "a claim ignores readers": (
        "            if variable.flags or variable.readers or variable in reads:",
        "            if variable.flags or variable in reads:",
    ),
    "a claim does not count its reads": (
        """        for variable in reads:
            variable.readers += 1
        for variable in writes:
            variable.flags""",
        """        for variable in writes:
            variable.flags""",
    ),
    "a claim ignores errors": (
        """        for variable in reads:
            if variable.flags:
                return False""",
        """        for variable in reads:
            if variable.flags & _BUSY:
                return False""",
    ),
    "a claim does not mark its writes": (
        "            variable.flags = WRITING",
        "            variable.flags = 0",
    ),
}


# The same for mxcore/engine/naive.py.
NAIVE_MUTANTS = {
    "a failing function leaves no error": (
        """                    _end(writes, Failure(as_failure(error, name), name, push_site()))
                    raise""",
        "                    raise",
    ),
    "what inherits an error leaves none": (
        """            _end(writes, inherited)
            inherited.throw()""",
        "            inherited.throw()",
    ),
    "an error is inherited without being raised": (
        """            _end(writes, inherited)
            inherited.throw()""",
        """            _end(writes, inherited)
            return""",
    ),
    "an overwrite does not heal": (
        "            variable.flags &= ~FAILED",
        "            variable.flags &= ~0",
    ),
    "NO_SKIP heals": (
        "        _end(writes, inherited)\n\n",
        "        _end(writes, None)\n\n",
    ),
    "NO_SKIP is skipped": (
        "prop != FnProperty.NO_SKIP and prop != FnProperty.DELETE_VARIABLE",
        "prop != FnProperty.DELETE_VARIABLE",
    ),
    "a deleted variable can be pushed on": (
        """            if variable.flags & RETIRED:
                raise retired_error(variable, name)""",
        """            if variable.flags & 0:
                raise retired_error(variable, name)""",
    ),
    "a repeated write counts twice": (
        "            writes = tuple(dict.fromkeys(writes))",
        "            writes = tuple(writes)",
    ),
    "a buffer is freed while it is in use": (
        "(self._deletions if id(entry[0]) in in_use else due)",
        "due",
    ),
    "reads do not wait for the writes of other threads": (
        "    return any(variable in other_writes for variable in reads)",
        "    return False",
    ),
    "writes do not wait for other threads": (
        "            return True\n    return any(variable in other_writes for variable in reads)",
        "            return False\n    return any(variable in other_writes for variable in reads)",
    ),
    "what was held is not let go": (
        "            del held[depth:]\n            if self._attention:",
        "            del held[depth + 1 :]\n            if self._attention:",
    ),
    "an asynchronous function is not waited for": (
        "            while not done.wait(_POLL_S):\n                pass",
        "            done.is_set()",
    ),
    "a stopped engine takes work": (
        "        if self._stopped and not depth:",
        "        if self._stopped and depth:",
    ),
    "the error of a put-off release is lost": (
        "                    self._late.append(failure)",
        "                    pass",
    ),
}


def mutant(original: types.ModuleType, old: str, new: str) -> types.ModuleType:
    """Return ``original`` with ``old`` replaced by ``new``."""
    source = inspect.getsource(original)
    assert source.count(old) == 1, f"{original.__name__} has changed: {source.count(old)} times\n{old}"
    module = types.ModuleType("mxcore.engine.mutant")
    module.__package__ = "mxcore.engine"
    exec(compile(source.replace(old, new), "mutant", "exec"), module.__dict__)
    return module


def plant(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Give the seeded engine a tracker with ``old`` replaced by ``new``."""
    module = mutant(dependency, old, new)
    for name, value in vars(engine_seeded).items():
        if getattr(value, "__module__", None) == dependency.__name__:
            monkeypatch.setattr(engine_seeded, name, getattr(module, name))


def conformance_tests() -> list[str]:
    """The tests of the suite that need nothing but an engine."""
    return [
        name
        for name, method in vars(EngineConformance).items()
        if name.startswith("test_")
        and "ctrl_c" not in name
        and list(inspect.signature(method).parameters) == ["self", "engine"]
    ]


def seeded(seed: int) -> engine_seeded.SeededEngine:
    return engine_seeded.SeededEngine(seed, **seeded_options(seed) | {"patience_s": 0.5})


def found_by_programs(make: Callable[[int], Any] = seeded) -> str:
    for seed in range(PROGRAMS):
        try:
            run_program(Program(seed, 120), make(seed))
        except Exception as error:
            return f"program {seed}: {type(error).__name__}: {error}"
    return ""


def seeded_plain(number: int) -> engine_seeded.SeededEngine:
    return engine_seeded.SeededEngine(0, patience_s=0.5, inline=float(number))


def found_by_conformance(make: Callable[[int], Any] = seeded_plain) -> str:
    for name in conformance_tests():
        for number in range(2):
            try:
                getattr(EngineConformance(), name)(make(number))
            except pytest.skip.Exception:
                pass
            except (Exception, pytest.fail.Exception) as error:
                return f"{name}: {type(error).__name__}: {error}"
    return ""


def test_the_kit_finds_nothing_in_the_tracker_as_it_is(monkeypatch):
    unchanged = "class DependencyTracker:"
    plant(monkeypatch, unchanged, unchanged)
    assert found_by_programs() == ""
    assert found_by_conformance() == ""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_kit_finds(monkeypatch, name):
    plant(monkeypatch, *MUTANTS[name])
    assert found_by_programs() or found_by_conformance(), "not found"


@pytest.mark.parametrize("name", NAIVE_MUTANTS)
def test_the_kit_finds_in_naive(name):
    engine = mutant(naive, *NAIVE_MUTANTS[name]).NaiveEngine
    assert found_by_programs(lambda seed: engine()) or found_by_conformance(lambda number: engine()), "not found"
