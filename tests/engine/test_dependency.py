"""The dependency tracker by itself: grants, errors, deletion, claims, and every small program in every order."""

from __future__ import annotations

import itertools

import pytest

from mxcore.engine import Completion, DependencyTracker, Failure, Task, Variable, push_site, retire, separate
from mxcore.spec import EngineError, FnProperty


def task(name, reads=(), writes=(), prop=FnProperty.NORMAL):
    return Task(None, separate(reads, writes), prop, name=name)


def names(tasks):
    return [ready.name for ready in tasks]


@pytest.fixture
def tracker():
    return DependencyTracker()


@pytest.fixture
def xyz():
    return Variable("x"), Variable("y"), Variable("z")


def test_separate_keeps_order_and_drops_duplicates(xyz):
    x, y, z = xyz
    assert separate([x, y], [z]) == ((x, y), (x, y), (z,))
    assert separate([y, x, y, z], [z, x, z]) == ((y, x, z), (y,), (z, x))
    assert separate((), ()) == ((), (), ())


def test_reads_overlap_and_a_write_waits_for_all(tracker, xyz):
    x, _, _ = xyz
    a, b, w, c = task("a", [x]), task("b", [x]), task("w", [], [x]), task("c", [x])
    assert names(tracker.push(a)) == ["a"]
    assert names(tracker.push(b)) == ["b"]
    assert names(tracker.push(w)) == []
    assert names(tracker.push(c)) == [], "a later read must not overtake a queued write"
    assert tracker.being_written(x)
    assert names(tracker.complete(a)) == []
    assert names(tracker.complete(b)) == ["w"]
    assert names(tracker.complete(w)) == ["c"]
    assert not tracker.being_written(x)
    assert names(tracker.complete(c)) == []
    assert (tracker.pending, x.version, x.flags, x.readers) == (0, 1, 0, 0)


def test_a_run_of_reads_is_granted_at_once_up_to_the_next_write(tracker, xyz):
    x, _, _ = xyz
    first, second = task("first", [], [x]), task("second", [], [x])
    reads = [task(f"r{i}", [x]) for i in range(3)]
    late = task("late", [x])
    for each in (first, *reads, second, late):
        tracker.push(each)
    assert names(tracker.complete(first)) == ["r0", "r1", "r2"]
    assert [names(tracker.complete(read)) for read in reads] == [[], [], ["second"]]
    assert names(tracker.complete(second)) == ["late"]


def test_repr_says_what_a_variable_is_doing(tracker, xyz):
    x, _, _ = xyz
    tracker.push(task("a", [x]))
    tracker.push(task("w", [], [x]))
    assert repr(x) == "<Variable x v0: 1 reading, queued>"


def test_skipped_and_inherited(tracker, xyz):
    x, y, z = xyz
    error = ValueError("planted")
    failing = task("failing", [], [x])
    tracker.push(failing)
    tracker.complete(failing, error)
    assert (x.error, x.version) == (error, 1)
    for prop, skipped in ((FnProperty.NORMAL, True), (FnProperty.NO_SKIP, False), (FnProperty.DELETE_VARIABLE, False)):
        reader = task("reader", [z, x], [y], prop)
        tracker.push(reader)
        assert (reader.skipped, reader.inherited) == (skipped, x.failure)
        tracker.complete(reader)
        assert y.failure is x.failure
    overwrite = task("overwrite", [], [x])
    tracker.push(overwrite)
    assert not overwrite.skipped
    tracker.complete(overwrite)
    assert (x.error, x.flags, y.error) == (None, 0, error)


def test_own_error_goes_before_an_inherited_one(tracker, xyz):
    x, y, _ = xyz
    first, second = ValueError("first"), ValueError("second")
    failing = task("failing", [], [x])
    tracker.push(failing)
    tracker.complete(failing, first)
    both = task("both", [x], [y], FnProperty.NO_SKIP)
    tracker.push(both)
    tracker.complete(both, second)
    assert y.error is second
    assert [failure.error for failure in tracker.unreported] == [first, second]


def test_report_takes_the_oldest_or_the_one_named(tracker):
    failures = [tracker.fail(ValueError(str(i))) for i in range(3)]
    assert tracker.report(failures[1]) is failures[1]
    assert tracker.report() is failures[0]
    assert tracker.report(failures[0]) is failures[0], "reporting twice is no error"
    assert tracker.report() is failures[2]
    assert tracker.report() is None


def test_push_on_a_retired_variable_changes_nothing(tracker, xyz):
    x, y, z = xyz
    deletion = retire(x, None)
    assert names(tracker.append(deletion)) == ["DeleteVariable"]
    for reads, writes in (([y, x], [z]), ([y], [z, x])):
        with pytest.raises(EngineError, match="push of 'late': variable 'x' was deleted"):
            tracker.push(task("late", reads, writes))
    assert (y.readers, z.flags, tracker.pending) == (0, 0, 1)
    tracker.complete(deletion)
    with pytest.raises(EngineError, match="was deleted"):
        retire(x, None)
    assert x.version == 1


def test_deletion_waits_for_all_and_keeps_the_error(tracker, xyz):
    x, _, _ = xyz
    write, read = task("write", [], [x]), task("read", [x])
    tracker.push(write)
    tracker.push(read)
    deletion = retire(x, None)
    assert tracker.append(deletion) == []
    error = ValueError("planted")
    assert names(tracker.complete(write, error)) == ["read"]
    assert names(tracker.complete(read)) == ["DeleteVariable"]
    assert not deletion.skipped
    tracker.complete(deletion)
    assert x.error is error


def test_claim_is_taken_only_when_everything_is_idle_and_sound(tracker, xyz):
    x, y, z = xyz
    assert tracker.claim((x, y, x), (z,))
    assert (x.readers, tracker.pending) == (2, 1)
    assert tracker.claim((x,), ())
    for reads, writes in (((z,), ()), ((), (z,)), ((), (x,))):
        assert not tracker.claim(reads, writes)
    waiting = task("waiting", [z], [x])
    assert tracker.push(waiting) == []
    assert not tracker.claim((x,), ()), "a claim must not overtake a queued write"
    assert tracker.release((x,), ()) == []
    assert names(tracker.release((x, y, x), (z,))) == ["waiting"]
    tracker.complete(waiting, ValueError())
    assert not tracker.claim((x,), ())
    assert not tracker.claim((), (x,))
    assert (tracker.pending, z.version) == (0, 1)


def test_claim_refuses_overlaps_and_repeated_writes(tracker, xyz):
    x, y, _ = xyz
    assert not tracker.claim((x,), (x,))
    assert not tracker.claim((), (y, y))
    assert (x.readers, x.flags, y.flags, tracker.pending) == (0, 0, 0, 0)


def test_claim_that_failed(tracker, xyz):
    x, y, _ = xyz
    assert tracker.claim((x,), (y,))
    failure = tracker.fail(ValueError("planted"))
    tracker.release((x,), (y,), failure)
    assert (x.error, y.error) == (None, failure.error)


def test_push_site_names_the_line_and_keeps_no_frame(tracker):
    def push():
        return push_site()

    def user():
        big = bytearray(10)
        site = push()
        return site, len(big)

    site, _ = user()
    assert [code.co_name for code, _ in site[:2]] == ["user", test_push_site_names_the_line_and_keeps_no_frame.__name__]
    failure = Failure(ValueError("planted"), "add", site)
    with pytest.raises(ValueError, match="planted") as caught:
        failure.throw()
    (note,) = caught.value.__notes__
    assert note.startswith("Pushed to the engine as 'add' from:\n")
    assert "site = push()" in note
    assert 'test_dependency.py", line' in note
    with pytest.raises(ValueError) as caught:
        failure.throw()
    assert len(caught.value.__notes__) == 1


def test_completion_ends_once():
    ended = []
    completion = Completion("load", ended.append)
    completion()
    with pytest.raises(EngineError, match="on_complete of 'load' was called twice"):
        completion(ValueError())
    assert ended == [None]
    assert completion.error is None
    wrong = Completion("load", ended.append)
    wrong("no exception")
    assert "'load' was completed with 'no exception', which is not an exception" in str(ended[1])


def test_long_chains_need_no_recursion(tracker):
    x = Variable()
    tasks = [task(str(i), [x], [x]) for i in range(20000)]
    for each in tasks:
        tracker.push(each)
    tracker.complete(tasks[0], ValueError("planted"))
    for each in tasks[1:]:
        assert each.skipped
        tracker.complete(each)
    assert (x.version, tracker.pending) == (20000, 0)


# -- every program of three tasks on two variables, in every order of starts and ends ----------------------------------

ACCESS = ("", "r", "w", "b")  # none, read, write, both


def run_exhaustively(program):
    """Depth first through all orders in which the tasks can start and end; return how many there are.

    At each point: no write beside anything, and nothing before something pushed earlier that it conflicts with.
    """
    count = len(program)
    conflicts = [
        [
            any((a in "wb" and b) or (a and b in "wb") for a, b in zip(program[i], program[j]) if a and b)
            for j in range(count)
        ]
        for i in range(count)
    ]
    orders = 0
    todo = [()]
    while todo:
        prefix = todo.pop()
        variables = Variable(), Variable()
        tracker = DependencyTracker()
        ready, running, ended = [], [], []
        for index, accesses in enumerate(program):
            reads = [v for v, access in zip(variables, accesses) if access in ("r", "b")]
            writes = [v for v, access in zip(variables, accesses) if access in ("w", "b")]
            ready += tracker.push(Task(None, separate(reads, writes), payload=index))
        for kind, index in prefix:
            pool = ready if kind == "start" else running
            chosen = next(each for each in pool if each.payload == index)
            pool.remove(chosen)
            if kind == "start":
                for other in running:
                    assert not conflicts[index][other.payload], (program, prefix)
                for earlier in range(index):
                    assert not conflicts[index][earlier] or earlier in ended, (program, prefix)
                running.append(chosen)
            else:
                ended.append(index)
                ready += tracker.complete(chosen)
        if len(ended) == count:
            orders += 1
            assert tracker.pending == 0
            for position, variable in enumerate(variables):
                assert variable.version == sum(accesses[position] in ("w", "b") for accesses in program)
                assert (variable.flags, variable.readers, len(variable.queue or ())) == (0, 0, 0)
            continue
        choices = [("start", each.payload) for each in ready] + [("end", each.payload) for each in running]
        assert choices, f"lost wake: {program}, {prefix}"
        # What may run must be offered: everything whose conflicts have ended.
        offered = {each.payload for each in (*ready, *running)}
        for index in set(range(count)) - set(ended) - offered:
            assert any(conflicts[index][earlier] and earlier not in ended for earlier in range(index))
        todo += [(*prefix, choice) for choice in choices]
    return orders


EVENTS = [(kind, index) for index in range(3) for kind in ("start", "end")]
SEQUENCES = [
    places
    for order in itertools.permutations(EVENTS)
    if all(
        (places := {event: place for place, event in enumerate(order)})["start", i] < places["end", i] for i in range(3)
    )
]


def legal_orders(program):
    """How many orders the contract allows, counted without a tracker: what conflicts starts after the earlier ended."""
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(3), 2)
        if any(a and b and (a != "r" or b != "r") for a, b in zip(program[i], program[j]))
    ]
    return sum(all(places["end", i] < places["start", j] for i, j in pairs) for places in SEQUENCES)


def test_all_programs_of_three_tasks_on_two_variables_in_all_orders():
    kinds = list(itertools.product(ACCESS, ACCESS))
    # The second variable mirrors the first: half of the programs are the other half with names swapped.
    programs = [p for p in itertools.product(kinds, repeat=3) if p <= tuple((b, a) for a, b in p)]
    assert len(programs) == 2080
    for program in programs:
        assert run_exhaustively(program) == legal_orders(program), program
