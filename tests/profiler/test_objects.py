"""Tasks, frames, events, counters, markers, and the statistics in both forms."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest

from mxcore import profiler
from mxcore.instruments import instruments
from mxcore.profiler import recording
from mxcore.spec.errors import ConfigError
from mxcore.spec.storage import Handle


@pytest.fixture
def clock(monkeypatch):
    """Time that stands still until a test moves it (microseconds)."""
    state = SimpleNamespace(ns=10**9)

    def move(us):
        state.ns += us * 1000

    for module in ("recording", "objects"):
        monkeypatch.setattr(f"mxcore.profiler.{module}.now", lambda: state.ns)
    return move


def test_domain_makes_objects_with_names():
    domain = profiler.Domain("d")
    made = [domain.new_task("t"), domain.new_frame("f"), domain.new_counter("c", 2), domain.new_marker("m")]
    assert [type(x) for x in made] == [profiler.Task, profiler.Frame, profiler.Counter, profiler.Marker]
    assert [str(x) for x in (domain, *made, profiler.Event("e"))] == ["d", "t", "f", "c", "m", "e"]
    assert made[2].value == 2 and made[3].domain is domain


@pytest.mark.parametrize("kind", ["Task", "Frame", "Counter", "Marker"])
def test_a_domain_is_needed(kind):
    with pytest.raises(TypeError, match=f"profiler.{kind} needs a profiler.Domain as its domain, got str."):
        getattr(profiler, kind)("domain", "name")


def test_durations(clock, path, trace):
    profiler.set_config(filename=path)
    domain = profiler.Domain("d")
    task, frame, event = domain.new_task("t"), domain.new_frame("f"), profiler.Event("e")
    task.start()  # before: not recorded
    profiler.set_state("run")
    task.stop()
    task.start()
    clock(10)
    event.start()
    clock(5)
    task.stop()
    task.stop()
    frame.start()
    clock(2)
    event.stop()
    frame.stop()
    task.start()
    clock(1)
    task.stop()
    events = trace()["traceEvents"]
    rows = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    found = [(e["ph"], e["name"], e["cat"], rows[e["pid"]], e["ts"]) for e in events if e["name"] in ("t", "f")]
    t0 = found[0][4]
    assert [(phase, name, category, row, round(ts - t0, 3)) for phase, name, category, row, ts in found] == [
        ("b", "t", "d", "d", 0),
        ("e", "t", "d", "d", 15),
        ("b", "f", "d,frame", "d,frame", 15),
        ("e", "f", "d,frame", "d,frame", 17),
        ("b", "t", "d", "d", 17),
        ("e", "t", "d", "d", 18),
    ]
    ids = [e["id"] for e in events if e["ph"] in "be"]
    assert ids[::2] == ids[1::2] and len(set(ids)) == 3
    (moment,) = [e for e in events if e["name"] == "e"]
    assert (moment["ph"], moment["cat"], moment["dur"]) == ("X", "event", 7)
    times = json.loads(profiler.dumps(format="json"))["Time"]
    assert times["d"]["t"] == {"Count": 2, "Total": 0.016, "Min": 0.001, "Max": 0.015, "Avg": 0.008}
    assert times["d,frame"]["f"]["Count"] == times["event"]["e"]["Count"] == 1


def test_a_duration_across_two_records_is_not_recorded(path):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    event = profiler.Event("e")
    event.start()
    profiler.dump()
    profiler.set_state("run")
    event.stop()
    assert json.loads(profiler.dumps(format="json"))["Time"] == {}


def test_counter(path, trace):
    profiler.set_config(filename=path)
    counter = profiler.Counter(profiler.Domain("d"), "c")
    counter += 3
    profiler.set_state("run")
    counter += 2
    counter -= 1
    counter.increment()
    counter.decrement(4)
    counter.set_value(9.7)
    assert isinstance(counter, profiler.Counter) and counter.value == 9
    assert [e["args"]["c"] for e in trace()["traceEvents"] if e["ph"] == "C"] == [5, 4, 5, 1, 9]
    found = json.loads(profiler.dumps(format="json"))
    assert found["Counter"] == {"d": {"c": {"Count": 5, "Last": 9, "Min": 1.0, "Max": 9.0, "Avg": 4.8}}}


def test_counter_adds_up_in_threads():
    counter = profiler.Counter(profiler.Domain("d"), "c")

    def count():
        for _ in range(2000):
            counter.increment()

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.value == 6000


def test_markers(path, trace):
    profiler.set_config(filename=path)
    marker = profiler.Marker(profiler.Domain("d"), "m")
    marker.mark()
    profiler.set_state("run")
    for scope in ("global", "process", "thread", "task", "marker"):
        marker.mark(scope)
    with pytest.raises(ConfigError) as caught:
        marker.mark("room")
    assert str(caught.value) == (
        "Marker.mark: scope is 'room'. Give one of 'global', 'process', 'thread', 'task', 'marker'."
    )
    assert [(e["name"], e["cat"], e["s"]) for e in trace()["traceEvents"] if e["ph"] == "i"] == [
        ("m", "d", s) for s in "gpttt"
    ]


def fill(clock):
    """f three times (1, 2, 3 us), g once (10 us, fails), a wait and memory."""
    for task, (name, us, error) in enumerate([("f", 1, None), ("f", 2, None), ("g", 10, OSError()), ("f", 3, None)]):
        instruments.emit("push", task, name, 0, None, (), ())
        instruments.emit("begin", task, name, None)
        clock(us)
        instruments.emit("end", task, name, None, error)
    instruments.emit("wait", "all")
    clock(4)
    instruments.emit("wait_end", "all")
    handles = [Handle(n, n, "cpu(0)", None, None) for n in (1000, 500)]
    for handle in handles:
        instruments.emit("alloc", handle)
    instruments.emit("free", handles[0])


def test_statistics_as_json(clock):
    profiler.set_state("run")
    fill(clock)
    assert json.loads(profiler.dumps(format="json")) == {
        "Time": {
            "operator": {
                "g": {"Count": 1, "Total": 0.01, "Min": 0.01, "Max": 0.01, "Avg": 0.01},
                "f": {"Count": 3, "Total": 0.006, "Min": 0.001, "Max": 0.003, "Avg": 0.002},
            },
            "wait": {"all": {"Count": 1, "Total": 0.004, "Min": 0.004, "Max": 0.004, "Avg": 0.004}},
        },
        "Memory": {"Device Storage": {"Memory: cpu(0)": {"Count": 3, "Min": 0.5, "Max": 1.5, "Avg": 1.0}}},
        "Counter": {},
        "Unit": {"Time": "ms", "Memory": "kB"},
        "Failed": 1,
        "Dropped": 0,
    }


@pytest.mark.parametrize(
    ("sort_by", "ascending", "order"),
    [("total", False, "gf"), ("total", True, "fg"), ("count", False, "fg"), ("max", True, "fg"), ("min", False, "gf")],
)
def test_statistics_are_sorted(clock, sort_by, ascending, order):
    profiler.set_state("run")
    fill(clock)
    found = json.loads(profiler.dumps(format="json", sort_by=sort_by, ascending=ascending))
    assert "".join(found["Time"]["operator"]) == order


def test_statistics_as_table(clock):
    profiler.set_state("run")
    fill(clock)
    table = profiler.dumps()
    assert table.splitlines()[:8] == [
        "",
        "Profile Statistics:",
        "operator",
        "========",
        "Name                                Count      Total (ms)        Min (ms)        Max (ms)        Avg (ms)",
        "----                                -----      ----------        --------        --------        --------",
        "g                                       1          0.0100          0.0100          0.0100          0.0100",
        "f                                       3          0.0060          0.0010          0.0030          0.0020",
    ]
    assert "Memory: cpu(0)                          3          0.5000          1.5000          1.0000" in table
    assert table.endswith("1 functions ended with an error.\n")


def test_reset_starts_counting_anew_and_keeps_the_record(clock, path, trace):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    fill(clock)
    assert '"g"' in profiler.dumps(reset=True, format="json")
    found = json.loads(profiler.dumps(format="json"))
    assert found["Time"] == {} and found["Memory"] == {} and found["Failed"] == 0
    instruments.emit("alloc", Handle(100, 100, "cpu(0)", None, None))
    assert json.loads(profiler.dumps(format="json"))["Memory"]["Device Storage"]["Memory: cpu(0)"]["Max"] == 0.6
    assert len([e for e in trace()["traceEvents"] if e["name"] == "f"]) == 3


def test_a_record_keeps_no_exception_alive():
    profiler.set_state("run")
    instruments.emit("begin", 1, "f", None)
    instruments.emit("end", 1, "f", None, ValueError("x" * 1000))
    (record,) = profiler.control._profiler._recording.records
    assert record[0] == recording.SPAN and record[8] == "ValueError: " + "x" * 288
