"""``benchmarks/engine.py`` runs from end to end, and what it compares with is computed rightly. No timing is asserted."""

from __future__ import annotations

import importlib.util
import json
import math
import pathlib
import random
import statistics
import sys
import time
from types import ModuleType

import pytest

PATH = pathlib.Path(__file__).resolve().parents[3] / "benchmarks" / "engine.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PATH.parent))  # it shares its report with benchmarks/run.py
        spec = importlib.util.spec_from_file_location("engine_benchmark", PATH)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


def test_every_benchmark_reports(
    benchmark: ModuleType, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"
    assert benchmark.main(["--tiny", "--json", str(path)]) in (0, 1)
    written = json.loads(path.read_text())
    rows = written["rows"]
    assert {row["section"] for row in rows} == set(benchmark.BENCHMARKS)
    printed = capsys.readouterr().out
    for row in rows:
        assert row["what"] in printed
        assert (row["met"] is None) == (row["bar"] == "stated")
    for family in benchmark.FAMILIES:
        (learned,) = [row for row in rows if row["what"] == f"makespan / limit, {family}, learned"]
        assert len(learned["numbers"]["learned"]) == 1 and all(
            value == 0 or value >= 1 - 1e-9 for value in learned["numbers"]["planned"]
        )
    assert written["about"]["options"]["tiny"] is True


def test_one_benchmark_with_sleeping_tasks(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--tiny", "--only", "makespan", "--work", "sleep"]) in (0, 1)
    printed = capsys.readouterr().out
    assert "random layered, FIFO" in printed and "no-op" not in printed and "hashing" not in printed


def test_an_unknown_name_is_refused(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.main(["--only", "makespam"])
    assert "there is no such benchmark; choose from push, makespan" in capsys.readouterr().err


def test_successors_follow_reads_and_writes(benchmark: ModuleType) -> None:
    node = benchmark.Node
    nodes = [
        node("w", 1, (), (0,)),
        node("r", 1, (0,), (1,)),
        node("r", 1, (0,), (2,)),
        node("w", 1, (), (0,)),  # after both readers
        node("rw", 1, (0,), (0,)),
        node("other", 1, (3,), (4,)),
    ]
    assert benchmark.successors(nodes) == [[1, 2, 3], [3], [3], [4], [], []]


def test_limit_and_simulation(benchmark: ModuleType) -> None:
    # A chain of 1 + 2, and three independent nodes of 1: the chain first takes 3, readiness order takes 4.
    after, costs = [[], [], [], [4], []], [1.0, 1.0, 1.0, 1.0, 2.0]
    levels = benchmark.bottom_levels(after, costs)
    assert levels == [1, 1, 1, 3, 2]
    assert benchmark.limit(after, costs) == 3
    assert benchmark.simulate(after, costs, levels) == 3
    assert benchmark.simulate(after, costs, [0] * 5) == 4
    chain = [[1], [2], []]
    assert benchmark.limit(chain, [1, 2, 3]) == benchmark.simulate(chain, [1, 2, 3], [0] * 3) == 6


def test_class_means(benchmark: ModuleType) -> None:
    nodes = [benchmark.Node(kind, 1, (), ()) for kind in "aba"]
    assert benchmark.class_means(nodes, [1, 5, 3]) == [2, 5, 2]


def test_metg_is_where_half_of_the_time_is_useful(benchmark: ModuleType) -> None:
    assert benchmark.metg({10: 0.25, 40: 0.75}) == pytest.approx(20)
    assert benchmark.metg({10: 0.6, 20: 0.4, 40: 0.6}) == pytest.approx(math.sqrt(800))  # from there on for good
    assert benchmark.metg({10: 0.6, 20: 0.7}) == 10
    assert benchmark.metg({10: 0.2, 20: 0.3}) == math.inf


def test_the_ranks_of_one_pass_are_the_plan_s_and_the_stream_comes_back(benchmark: ModuleType) -> None:
    engine = benchmark.ThreadedEngine(workers=2)
    stream = engine.stream
    x = [engine.new_variable() for _ in range(12)]

    def play() -> None:
        for k in range(12):
            engine.push(lambda: time.sleep(2e-4), x[:k], [x[k]], name=f"op{k}")
        engine.wait_for_all()

    for _ in range(30):
        play()
    assert len(stream.plan.tokens) == 12
    planned = benchmark.Ranks(engine, play).ranks
    assert len(planned) == 12 and all(rank > 0 for rank in planned)
    contradicting = benchmark.Ranks(engine, lambda: [engine.push(benchmark.noop, (), [v]) for v in x[:5]]).ranks
    assert contradicting == [0] * 5
    assert engine.stream is stream and stream.plan is None
    engine.shutdown()


def test_families_leave_to_an_order_what_theory_says(benchmark: ModuleType) -> None:
    """Simulated: by critical path never far above the limit, and where the classes are unequal well below FIFO."""
    ratios: dict[str, tuple[float, float]] = {}
    for family, make in benchmark.FAMILIES.items():
        rows = []
        for seed in range(20):
            nodes = make(random.Random(seed)).nodes
            after, costs = benchmark.successors(nodes), [node.cost for node in nodes]
            ranks = benchmark.bottom_levels(after, benchmark.class_means(nodes, costs))
            best = benchmark.limit(after, costs)
            rows.append(
                (
                    benchmark.simulate(after, costs, ranks) / best,
                    benchmark.simulate(after, costs, [0] * len(nodes)) / best,
                )
            )
        assert all(1 - 1e-9 <= ratio <= 1.5 for row in rows for ratio in row), family  # Graham: 2 - 1/2
        ratios[family] = statistics.fmean(r[0] for r in rows), statistics.fmean(r[1] for r in rows)
    assert all(learned <= 1.08 for learned, _ in ratios.values())
    assert ratios["random layered"][0] + 0.08 < ratios["random layered"][1]
    assert ratios["inception-like branches"][0] + 0.03 < ratios["inception-like branches"][1]
    assert len(benchmark.cholesky(random.Random(0)).nodes) == 9 + 36 + 36 + 84
