"""The timeline: what listeners see becomes slices, arrows, counters and tracks of a Chrome trace."""

from __future__ import annotations

import threading
from collections import Counter as Tally

import pytest

from mxcore import profiler
from mxcore.instruments import instruments
from mxcore.spec.storage import Handle


class Work:
    """Emits what an engine emits."""

    def __init__(self):
        self.task = 0

    def push(self, name, reads=(), writes=(), device="cpu(0)"):
        self.task += 1
        if instruments.push:
            instruments.emit("push", self.task, name, 3, device, tuple(reads), tuple(writes))
        return self.task, name, device

    def begin(self, pushed):
        if instruments.begin:
            instruments.emit("begin", *pushed)

    def end(self, pushed, error=None):
        if instruments.end:
            instruments.emit("end", *pushed, error)

    def run(self, *arguments, **keywords):
        pushed = self.push(*arguments, **keywords)
        self.begin(pushed)
        self.end(pushed)
        return pushed


@pytest.fixture
def work():
    return Work()


def named(events, name, phase="X"):
    return [event for event in events if event["name"] == name and event["ph"] == phase]


def names_of(events, kind):
    return {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == kind}


def in_thread(name, action):
    thread = threading.Thread(target=action, name=name)
    thread.start()
    thread.join()


def test_functions_are_slices_on_the_track_of_their_thread_in_the_row_of_their_device(work, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    outer, other = work.push("dot"), work.push("copy", device="gpu(1)")

    def worker():
        work.begin(outer)
        work.run("inner", device=None)
        work.end(outer)

    in_thread("worker-3", worker)
    work.begin(other)
    work.end(other, ValueError("bad shape"))
    found = trace()
    events = found["traceEvents"]
    assert found["displayTimeUnit"] == "ms"
    rows, tracks = names_of(events, "process_name"), names_of(events, "thread_name")
    (dot,), (inner,), (copy,) = (named(events, name) for name in ("dot", "inner", "copy"))
    assert [rows[e["pid"], None] for e in (dot, inner, copy)] == ["cpu(0)", "cpu", "gpu(1)"]
    assert [tracks[e["pid"], e["tid"]] for e in (dot, inner, copy)] == ["worker-3", "worker-3", "main"]
    assert dot["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= dot["ts"] + dot["dur"]
    assert dot["args"]["priority"] == 3 and dot["args"]["queued_us"] >= 0 and dot["cat"] == "operator"
    assert copy["args"]["error"] == "ValueError: bad shape" and "error" not in dot["args"]
    assert events.index(dot) < events.index(inner)


def test_threads_with_one_name_and_threads_that_follow_each_other_have_tracks_of_their_own(work, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    for _ in range(3):
        in_thread("same", lambda: work.run("f"))
    assert len({event["tid"] for event in named(trace()["traceEvents"], "f")}) == 3


def arrows_of(events):
    """(source, target) names of the arrows, found by where they start and end, as a viewer does."""

    def slice_at(event):
        inside = [
            e
            for e in events
            if e["ph"] == "X"
            and (e["pid"], e["tid"]) == (event["pid"], event["tid"])
            and e["ts"] <= event["ts"] < e["ts"] + max(e["dur"], 0.0005)
        ]
        return max(inside, key=lambda e: e["ts"])["name"]

    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) == len([e for e in events if e["ph"] in "sf"]) / 2
    assert all(e["bp"] == "e" for e in ends.values())
    return sorted((slice_at(starts[i]), slice_at(ends[i])) for i in starts)


def test_arrows_lead_from_writers_to_readers_and_from_readers_to_the_next_writer(work, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    work.run("make x", writes=["x"])
    work.run("read x 1", reads=["x"], writes=["y"])
    in_thread("worker", lambda: work.run("read x 2", reads=["x", "x"], writes=["z"]))
    work.run("add", reads=["y", "z"], writes=["y"])
    work.run("remake x", writes=["x"])
    work.run("alone", reads=["w"], writes=["v"])
    assert arrows_of(trace()["traceEvents"]) == [
        ("make x", "read x 1"),
        ("make x", "read x 2"),
        ("make x", "remake x"),
        ("read x 1", "add"),
        ("read x 1", "remake x"),
        ("read x 2", "add"),
        ("read x 2", "remake x"),
    ]


def test_no_arrow_without_both_ends(work, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    source = work.push("source", writes=["x"])
    work.begin(source)
    work.run("target", reads=["x"], writes=["y"])
    events = trace(finished=False)["traceEvents"]
    assert [e for e in events if e["ph"] in "sf"] == []
    (unfinished,) = named(events, "source", "B")
    assert unfinished["args"]["unfinished"] is True and named(events, "source", "X") == []
    work.end(source)
    events = trace()["traceEvents"]
    assert arrows_of(events) == [("source", "target")] and named(events, "source", "B") == []


def test_waits_are_on_the_track_of_who_waits(path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")

    def wait():
        instruments.emit("wait", "all")
        instruments.emit("wait", ("variable", 3))
        instruments.emit("wait_end", ("variable", 3))
        instruments.emit("wait_end", "all")

    in_thread("reader", wait)
    events = trace()["traceEvents"]
    (outer,), (inner,) = named(events, "all"), named(events, "('variable', 3)")
    assert outer["cat"] == inner["cat"] == "wait"
    assert names_of(events, "thread_name")[outer["pid"], outer["tid"]] == "reader"
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def test_a_wait_whose_end_was_not_seen_does_not_meet_another_end(path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    instruments.emit("wait", "lost")
    profiler.pause()
    profiler.resume()
    instruments.emit("wait_end", "lost")
    instruments.emit("wait", "seen")
    instruments.emit("wait_end", "seen")
    assert [e["name"] for e in trace()["traceEvents"] if e.get("cat") == "wait"] == ["seen"]


def handle(nbytes, device="cpu(0)"):
    return Handle(nbytes, nbytes, device, None, None)


def levels(events, name):
    return [event["args"][name] for event in named(events, name, "C")]


def test_memory_counts_bytes_live_by_device(path, trace):
    profiler.set_config(filename=path)
    before = handle(1000)
    profiler.set_state("run")
    a, b, c = handle(100), handle(50), handle(7, "gpu(0)")
    for event, which in (("alloc", a), ("alloc", b), ("free", before), ("alloc", c), ("free", a), ("free", b)):
        instruments.emit(event, which)
    events = trace()["traceEvents"]
    assert levels(events, "Memory: cpu(0)") == [100, 150, 50, 0]
    assert levels(events, "Memory: gpu(0)") == [7]


def test_memory_starts_at_nothing_after_a_pause(path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    a = handle(100)
    instruments.emit("alloc", a)
    profiler.pause()
    profiler.resume()
    instruments.emit("free", a)
    instruments.emit("alloc", handle(5))
    assert levels(trace()["traceEvents"], "Memory: cpu(0)") == [100, 5]


def test_pending_functions_count_up_and_down(work, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    first, second = work.push("f"), work.push("g")
    for pushed in (first, second):
        work.begin(pushed)
        work.end(pushed)
    lost = work.push("lost")
    profiler.pause()
    profiler.resume()
    work.begin(lost)
    work.end(lost)
    work.run("h")
    assert levels(trace()["traceEvents"], "pending functions") == [1, 2, 1, 0, 1, 1, 0]


def test_many_threads_lose_nothing(path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")

    def emit(base):
        for i in range(300):
            task = base + i
            instruments.emit("push", task, f"f{base}", 0, None, (base,), (base + 1,))
            instruments.emit("begin", task, f"f{base}", None)
            instruments.emit("end", task, f"f{base}", None, None)

    threads = [threading.Thread(target=emit, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = trace()["traceEvents"]
    assert Tally(e["name"] for e in events if e["ph"] == "X") == {f"f{1000 * n}": 300 for n in range(4)}
    # 299 from writer to next writer in each thread, and the same pairs' read of something nobody writes gives none.
    assert len([e for e in events if e["ph"] == "s"]) == 4 * 299


def test_scopes_prefix_the_names_pushed_inside(work, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    with profiler.scope("net:"):
        with profiler.Scope("layer:"):
            later = work.push("dot")
        with profiler.scope("loss:", append_mode=False):
            work.run("sum")
        work.run("add")
    work.begin(later)
    work.end(later)
    work.run("plain")
    assert [e["name"] for e in trace()["traceEvents"] if e["ph"] == "X"] == [
        "loss:sum",
        "net:add",
        "net:layer:dot",
        "plain",
    ]


def test_nothing_is_appended_to_the_unnamed_scope(work, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    with profiler.scope():
        work.run("f")
        with profiler.scope("net:"):
            work.run("g")
    assert [e["name"] for e in trace()["traceEvents"] if e["ph"] == "X"] == ["<unk>:f", "net:g"]


def test_the_record_is_bounded_and_says_what_it_dropped(work, path, trace):
    profiler.set_config(filename=path, max_events=10)
    profiler.set_state("run")
    for _ in range(20):
        work.run("f")
    found = trace()
    assert found["otherData"]["max_events"] == 10 and found["otherData"]["events"] == 11  # one says where it stopped
    assert found["otherData"]["dropped_events"] == 30
    assert len(named(found["traceEvents"], "f")) == 5
    assert (
        "30 events were dropped after the first 10. Profile less at once (pause and resume), or raise max_events."
        in profiler.dumps()
    )


def test_names_are_quoted(work, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    name = 'a "b"\n\\ é'
    work.run(name, device=name)
    events = trace()["traceEvents"]
    (event,) = named(events, name)
    assert names_of(events, "process_name")[event["pid"], None] == name
