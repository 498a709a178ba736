"""The random programs themselves: they find differences, print how to repeat them, and cover what they should."""

from __future__ import annotations

import collections

import pytest
from engine_workers import WorkerEngine

from mxcore.engine import NaiveEngine
from mxcore.testing import engine_programs
from mxcore.testing.engine_programs import Difference, Program, compute, find_engine, main, run_program
from mxcore.testing.engine_seeded import SeededEngine


class Forgetful(NaiveEngine):
    """Leaves every 20th function out."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def push(self, fn, *args, **kwargs):
        self.count += 1
        super().push((lambda: None) if self.count % 20 == 0 else fn, *args, **kwargs)


class Loud(SeededEngine):
    """Runs everything at the push and raises there, without claiming INLINE."""

    def push(self, *args, **kwargs):
        super().push(*args, **kwargs)
        self.wait_for_all()


@pytest.mark.parametrize("name", ["naive", "seeded"])
def test_200_programs_are_bit_equal_to_serial(name, capsys):
    assert main(["--engine", name, "--programs", "200", "--ops", "50-200"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{name}: 200 programs, ")
    assert "0 differences from serial" in out


@pytest.mark.parametrize("name", ["naive", "seeded"])
def test_a_long_program_of_100_variables(name):
    engine = find_engine(name)(1)
    run_program(Program(1, 10_000, variables=100), engine)
    engine.shutdown()


def test_a_program_may_run_again_and_on_the_same_engine():
    engine = NaiveEngine()
    for seed in (1, 2, 1, 1):
        run_program(Program(seed, 100), engine)
    program = Program(3, 100)
    run_program(program, engine)
    run_program(program, SeededEngine(1))


def test_a_difference_prints_the_command_that_repeats_it(monkeypatch, capsys):
    monkeypatch.setitem(engine_programs._ENGINES, "forgetful", lambda seed: Forgetful())
    assert main(["--engine", "forgetful", "--programs", "5", "--ops", "80", "--seed", "7"]) == 1
    out = capsys.readouterr().out
    assert "DIFFERENCE on forgetful, seed 7: Difference: " in out
    assert (
        "repeat: python -m mxcore.testing.engine_programs --engine forgetful --seed 7 --programs 1 --ops 80-80" in out
    )
    assert "forgetful: 1 programs" in out
    assert main(["--engine", "forgetful", "--programs", "5", "--ops", "80", "--seed", "7", "--keep-going"]) == 1
    assert "5 differences from serial" in capsys.readouterr().out


def test_raising_at_the_push_without_the_claim_is_a_difference():
    with pytest.raises(Difference, match="raised at the push, but the engine does not claim INLINE"):
        for seed in range(20):
            run_program(Program(seed, 100), Loud(seed))


def test_engine_by_module_and_unknown_engine():
    assert isinstance(find_engine("mxcore.engine:NaiveEngine")(3), NaiveEngine)
    with pytest.raises(SystemExit, match=r"engine 'quantum' is not installed\. Installed engines: naive"):
        find_engine("quantum")


def test_programs_contain_every_kind_of_action_and_enough_failures():
    kinds, failed, skipped = collections.Counter(), 0, 0
    for seed in range(50):
        program = Program(seed, 150)
        for action in program.actions:
            kinds[action.kind] += 1
            failed += bool(action.raised)
            skipped += action.error is not None and not action.raised and action.kind in ("push", "async")
    assert set(kinds) == {
        *("push", "async", "operation", "nest", "delete", "stale", "wait", "wait_all", "bulk", "restart"),
    }
    assert min(kinds.values()) > 30
    assert failed > 100
    assert skipped > 100


def test_states_depend_on_every_value_and_on_their_order():
    base = compute(1, [(5, 0.5), (6, 0.25)], 2)
    assert base == compute(1, [(5, 0.5), (6, 0.25)], 2)
    others = [compute(2, [(5, 0.5), (6, 0.25)], 2), compute(1, [(6, 0.25), (5, 0.5)], 2), compute(1, [(5, 0.5)], 2)]
    assert all(cell not in other for other in others for cell in base)


def test_programs_on_real_threads():
    engine = WorkerEngine(3)
    for seed in range(40):
        run_program(Program(seed, 150), engine)
    engine.shutdown()
