"""Streams that repeat become plans: when, with which ranks, when they are dropped; and that no plan changes a result."""

from __future__ import annotations

import collections
import random

import pytest
from mxcore_engine_threaded import plans
from mxcore_engine_threaded.engine import ThreadedEngine
from schedules import Case, Fickle, Loop, Prophet

from mxcore.engine.dependency import Variable
from mxcore.testing.engine_programs import Program

CASES = 5_000
CHUNKS = 10


class Cost:
    def __init__(self, ns):
        self.ns = ns


class Steps:
    """Pushes on named variables, told to a stream."""

    def __init__(self, module):
        self.stream = module.Stream()
        self.variables = collections.defaultdict(Variable)
        self.costs = {}

    def push(self, what, reads="", writes="", nbytes=0, ns=None):
        estimate = self.costs.setdefault(what, Cost(ns or 0))
        reads, writes = (tuple(self.variables[name] for name in names) for names in (reads, writes))
        return self.stream.observe(estimate, reads, writes, nbytes)

    def wait(self):
        self.stream.marked = True


#: (what, ns, reads, writes) and the longest chain of work that begins there, by hand.
GRAPHS = {
    "a chain": (
        [(f"c{k}", 10 * (k + 1), "abcdefghi"[k], "bcdefghij"[k]) for k in range(8)],
        [360, 350, 330, 300, 260, 210, 150, 80],
    ),
    "a fork and a join": (
        [
            ("load", 5, "x", "a"),
            ("left", 10, "a", "b"),
            ("right", 100, "a", "c"),
            ("right2", 1, "c", "d"),
            ("join", 7, "bd", "e"),
            ("alone", 50, "x", "f"),
            ("last", 2, "e", "g"),
            ("write", 3, "", "g"),
        ],
        [5 + 100 + 1 + 7 + 2 + 3, 10 + 7 + 2 + 3, 100 + 1 + 7 + 2 + 3, 1 + 7 + 2 + 3, 7 + 2 + 3, 50, 2 + 3, 3],
    ),
    "a cost that is not known counts as the mean": (
        [("known", 30, "x", "a"), ("unknown", 0, "a", "b"), *[(f"o{k}", 10, "x", "cdefgh"[k]) for k in range(6)]],
        [30 + 12, 12, 10, 10, 10, 10, 10, 10],
    ),
    "nothing known": (
        [(f"u{k}", 0, "abcdefghi"[k], "bcdefghij"[k]) for k in range(8)],
        [8, 7, 6, 5, 4, 3, 2, 1],
    ),
}


class PlanTests:
    """Each with the module of plans."""

    def test_stretches_between_waits_become_plans_when_they_come_the_second_time(self, plans):
        for name, (pushes, expected) in GRAPHS.items():
            steps = Steps(plans)
            seen = []
            for _ in range(6):
                steps.wait()
                seen.append([steps.push(what, reads, writes, ns=ns) for what, ns, reads, writes in pushes])
            # What was written before the stretch is new to the first round only, or in the second one from far away.
            first = next(k for k, ranks in enumerate(seen) if any(ranks))
            assert first <= 3, name
            assert seen[first:] == [expected] * (6 - first), name
            assert steps.stream.dropped == 0, name
            assert steps.stream.replayed == (6 - first) * len(pushes)

    def test_without_waits_a_period_is_found_after_two_equal_passes(self, plans):
        steps = Steps(plans)
        seen = []
        for _ in range(5):
            seen.append([steps.push(f"c{k}", "abcdefgh"[k], "bcdefghi"[k], ns=10) for k in range(8)])
        assert not any(seen[0] + seen[1])
        # The next round's pushes write the same variables anew: they depend on these.
        assert seen[-1] == seen[-2] == [90, 80, 70, 60, 50, 40, 30, 20]
        assert steps.stream.plan.cyclic

    def test_a_period_counts_what_comes_after_its_end(self, plans):
        """Each round's first push writes what the next round's first one reads: two rounds are looked at."""
        steps = Steps(plans)
        for _ in range(6):
            seen = [steps.push("first", "a", "a", ns=100)]
            seen += [steps.push(f"c{k}", "x", "bcdefghi"[k], ns=1) for k in range(8)]
        assert seen == [200, 2, 2, 2, 2, 2, 2, 2, 2]

    def test_what_differs_drops_the_plan_and_is_not_ranked(self, plans):
        def round_(steps, different=""):
            seen = []
            for k in range(9):
                reads, writes = "abcdefghi"[k], "bcdefghij"[k]
                if k == 5 and different == "variable":
                    reads = "a"
                if k == 5 and different == "kind":
                    seen.append(steps.push("other", reads, writes, ns=10))
                elif k == 5 and different == "more":
                    seen.append(steps.push("c5", reads, writes, ns=10))
                    seen.append(steps.push("c5", reads, writes, ns=10))
                else:
                    seen.append(steps.push(f"c{k}", reads, writes, ns=10))
            return seen

        for waits in (True, False):
            usual = [90 + 10 * (not waits) - 10 * k for k in range(9)]
            for different in ("variable", "kind", "more"):
                steps = Steps(plans)
                for _ in range(6):
                    steps.stream.marked = waits
                    seen = round_(steps)
                assert (seen, steps.stream.dropped) == (usual, 0)
                steps.stream.marked = waits
                seen = round_(steps, different)
                assert seen[:5] == usual[:5]
                assert seen[6 if different == "more" else 5] == 0, different
                assert steps.stream.dropped == 1
                for _ in range(6):
                    steps.stream.marked = waits
                    seen = round_(steps)
                if waits:
                    assert seen == usual, "the plan does not come back"
                assert all(seen)  # without waits the period may begin elsewhere now

    def test_ranks_follow_the_costs(self, plans):
        steps = Steps(plans)
        for _ in range(4):
            steps.wait()
            for k in range(8):
                steps.push(f"c{k}", "abcdefgh"[k], "bcdefghi"[k], ns=10)
        steps.costs["c7"].ns = 1000
        for _ in range(64):
            steps.wait()
            seen = [steps.push(f"c{k}", "abcdefgh"[k], "bcdefghi"[k]) for k in range(8)]
        assert seen == [1070, 1060, 1050, 1040, 1030, 1020, 1010, 1000]

    def test_short_and_endless_stretches_do_not(self, plans):
        steps = Steps(plans)
        for _ in range(10):
            steps.wait()
            assert [steps.push(f"c{k}", "", "a", ns=10) for k in range(3)] == [0, 0, 0]
        draw = random.Random(1)
        stream = plans.Stream(capacity=50)
        variables = [Variable() for _ in range(20)]
        for _ in range(5_000):
            stream.observe(Cost(draw.random()), tuple(draw.sample(variables, 3)), tuple(draw.sample(variables, 1)))
            assert len(stream._history) <= 100
        assert stream.plan is None

    def test_upcoming_bytes(self, plans):
        steps = Steps(plans)
        assert steps.stream.upcoming(3) == []
        for _ in range(4):
            for k in range(8):
                steps.push(f"c{k}", "abcdefgh"[k], "bcdefghi"[k], nbytes=k, ns=10)
        assert steps.stream.plan is not None
        at = steps.stream._at
        assert steps.stream.upcoming(3) == [(at + j) % 8 for j in range(3)]
        steps.push(f"c{at}", "abcdefgh"[at], "bcdefghi"[at], nbytes=at)
        assert steps.stream.upcoming(8) == [(at + 1 + j) % 8 for j in range(8)]


class TestPlans(PlanTests):
    @pytest.fixture
    def plans(self):
        return plans


def loop_case(seed):
    case = Case(seed, program=Loop(seed, random.Random(seed).randint(4, 12)))
    case.options["learn"] = True
    case.costs = (None, Prophet, Fickle)[seed % 3]
    return case


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_5000_loops_with_disturbances_end_as_serially(chunk):
    """Every state is compared with the serial one, as it is without learning; see ``Loop`` for what disturbs."""
    counts = collections.Counter()

    class Counting:
        def shutdown(self):
            counts.update(replayed=self.stream.replayed, dropped=self.stream.dropped)
            super().shutdown()

    for seed in range(chunk * CASES // CHUNKS, (chunk + 1) * CASES // CHUNKS):
        case = loop_case(seed)
        counts.update(case.program.seen)
        try:
            case.run(mixin=Counting)
        except Exception as error:
            raise AssertionError(f"{case!r}: {type(error).__name__}: {error}") from error
    assert min(counts[what] for what in ("alias", "extra", "fails", "cut")) > 100, counts
    assert counts["replayed"] > 1000 and counts["dropped"] > 20, counts


@pytest.mark.parametrize("chunk", range(4))
def test_1000_programs_with_hostile_costs_end_as_serially(chunk):
    for seed in range(chunk * 250, (chunk + 1) * 250):
        case = Case(seed, program=Program(seed, 80))
        case.options["learn"] = True
        case.costs = (Prophet, Fickle)[seed % 2]
        try:
            case.run()
        except Exception as error:
            raise AssertionError(f"{case!r}: {type(error).__name__}: {error}") from error


def test_without_learning_nothing_is_observed():
    engine = ThreadedEngine(workers=2, learn=False)
    x = engine.new_variable()
    for _ in range(50):
        engine.push(lambda: None, [], [x])
    engine.wait_for_all()
    assert (engine.stream.replayed, engine.stream.plan, len(engine.journal)) == (0, None, 0)
    engine.shutdown()
