"""The learned costs: when they are believed, how they follow a change, and that no file can do harm."""

from __future__ import annotations

import errno
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import threading

import pytest
from mxcore_engine_threaded import costs
from mxcore_engine_threaded.costs import CostTable, Estimate, default_path, fingerprint

KEY = ("dot", ((64, 32), (32, 8)), "float32", "cpu(0)", 2)


def learned(ns: int, key: object = KEY) -> Estimate:
    estimate = Estimate(key)
    for _ in range(40):
        estimate.record(ns)
    return estimate


def teach(table: CostTable, key: object, ns: int, samples: int = 15) -> None:
    for _ in range(samples + 1):
        table.estimate(key).record(ns)


def contents(table: CostTable) -> dict[object, int]:
    return {estimate.key: estimate.ns for estimate in table}


def execute(estimate: Estimate, ns: int) -> bool:
    """One execution as an engine does it; whether it was timed."""
    if estimate.countdown > 0:
        estimate.countdown -= 1
        return False
    estimate.record(ns)
    return True


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "cache" / "costs.json"


@pytest.fixture
def saved(path: pathlib.Path) -> pathlib.Path:
    table = CostTable(path, fingerprint="here")
    teach(table, KEY, 5_000)
    teach(table, "named", 7_000, samples=30)
    assert table.save()
    return path


# ---- one estimate -----------------------------------------------------------------------------------------------------


def test_trusted_from_ten_samples_and_the_first_execution_is_dropped():
    estimate = Estimate(KEY)
    estimate.record(10**9)
    assert (estimate.samples, estimate.ns, estimate.hungry) == (0, 0, True)
    for n in range(1, 10):
        estimate.record(100 + n)
        assert (estimate.samples, estimate.ns, estimate.hungry) == (n, 0, True)
    estimate.record(110)
    assert (estimate.samples, estimate.ns, estimate.hungry) == (10, 105, False)
    assert repr(estimate) == f"Estimate({KEY!r}, ns=105, samples=10)"


def test_median_is_of_the_last_fifteen():
    rng = random.Random(7)
    estimate = Estimate(KEY)
    values = [int(rng.lognormvariate(9, 1.5)) for _ in range(2_000)]
    estimate.record(1)
    for n, value in enumerate(values, 1):
        estimate.record(value)
        if n >= 10:
            recent = sorted(values[max(0, n - 15) : n])
            assert estimate.ns == recent[(len(recent) - 1) // 2]


@pytest.mark.parametrize("start", range(15))
@pytest.mark.parametrize("factor", [4, 0.25])
def test_lasting_change_is_learned_within_twenty_samples(factor, start):
    rng = random.Random(start)
    estimate = learned(40_000)
    for _ in range(start):  # wherever in the window the change falls
        estimate.record(40_000)
    for _ in range(20):
        estimate.record(int(40_000 * factor * rng.uniform(0.9, 1.1)))
    assert 0.9 * factor * 40_000 <= estimate.ns <= 1.1 * factor * 40_000


@pytest.mark.parametrize("factor", [4, 0.25])
def test_lasting_change_is_seen_soon_though_few_executions_are_timed(factor):
    estimate = learned(40_000)
    executions = 0
    while estimate.ns == 40_000:
        execute(estimate, int(40_000 * factor))
        executions += 1
    assert estimate.ns == int(40_000 * factor)
    assert executions <= 16 + 8  # the next timed one, then one after the other


def test_outliers_do_not_move_the_median():
    estimate = learned(1_000)
    for n in range(300):
        estimate.record(10**9 if n % 15 == 0 else 1 if n % 15 == 7 else 1_000)
        assert estimate.ns == 1_000


def test_one_execution_in_sixteen_is_timed_once_trusted():
    estimate = Estimate(KEY)
    assert [execute(estimate, 1_000) for _ in range(11)] == [True] * 11
    timed = [execute(estimate, 1_000) for _ in range(160)]
    assert timed == ([False] * 15 + [True]) * 10
    assert estimate.samples == 20


def test_outlier_is_checked_at_once_and_costs_one_more_timing():
    estimate = learned(1_000)
    estimate.countdown = 0
    assert execute(estimate, 50_000)
    assert estimate.hungry
    assert execute(estimate, 1_000)
    assert estimate.countdown == 15


def test_countdown_that_two_threads_took_below_zero_is_hungry():
    estimate = learned(1_000)
    estimate.countdown = -1
    assert estimate.hungry
    assert execute(estimate, 1_000)
    assert estimate.countdown == 15


def test_zero_from_a_coarse_clock_is_a_duration():
    assert learned(0).ns == 1


def test_threads_recording_at_once_corrupt_nothing():
    values = (900, 1_000, 1_100)
    estimate = learned(1_000)
    before = estimate.samples
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for n in range(3_000):
            execute(estimate, values[n % 3])
            estimate.record(values[n % 3])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert estimate.ns in values
    assert before < estimate.samples <= before + 4 * 6_000
    for _ in range(15):
        estimate.record(5_000)
    assert estimate.ns == 5_000


# ---- the table --------------------------------------------------------------------------------------------------------


def test_table_keeps_the_most_recently_used():
    table = CostTable(capacity=3)
    a, b, c = (table.estimate(key) for key in "abc")
    assert table.estimate("a") is a
    table.estimate("d")
    assert sorted(str(e.key) for e in table) == ["a", "c", "d"]  # b was not used since
    c.record(1)  # using an estimate that one holds is a use as well
    table.estimate("e")
    assert sorted(str(e.key) for e in table) == ["c", "d", "e"]
    for _ in range(11):
        b.record(500)
    assert b.ns == 500  # dropped, and still works
    assert table.estimate("b") is not b


def test_table_never_outgrows_its_capacity():
    table = CostTable(capacity=64)
    hot = table.estimate("hot")
    for n in range(2_000):
        new = table.estimate(("cold", n))
        assert new in table
        assert len(table) <= 64
        hot.record(1_000)
    assert table.estimate("hot") is hot
    table.clear()
    assert len(table) == 0
    assert list(table) == []
    with pytest.raises(ValueError, match="CostTable: capacity is 0; it must be at least 1"):
        CostTable(capacity=0)


def test_threads_share_a_table():
    table = CostTable(capacity=32)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(3_000):
                key = ("op", rng.randrange(60))
                estimate = table.estimate(key)
                assert estimate.key == key
                estimate.record(100)
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    table.estimate("one more")
    assert len(table) <= 32 + 4


# ---- the file ---------------------------------------------------------------------------------------------------------


def test_round_trip(saved, caplog):
    table = CostTable(saved, fingerprint="here")
    assert len(table) == 0  # not read yet
    estimate = table.estimate(KEY)
    assert (estimate.ns, estimate.samples) == (5_000, 15)
    assert contents(table) == {KEY: 5_000, "named": 7_000}
    assert estimate.countdown == 1  # the first execution of a process is no measure
    assert not caplog.records
    if os.name == "posix":
        assert saved.stat().st_mode & 0o077 == 0


def test_every_kind_of_plain_key_round_trips_and_others_stay_in_memory(path):
    plain = ["é\ud800\n", 0, -(2**63) + 1, (), ("a", (1, (True, None))), (((),),)]
    deep: object = ()
    for _ in range(40):
        deep = (deep,)
    others = [1.5, ("a", 2.5), b"x", frozenset("a"), 2**63, object(), deep]
    table = CostTable(path, fingerprint="é")
    for n, key in enumerate(plain + others):
        teach(table, key, 1_000 + n)
    table.estimate("not trusted").record(1)
    assert table.save()
    again = CostTable(path, fingerprint="é")
    again.load()
    assert contents(again) == {key: 1_000 + n for n, key in enumerate(plain)}


@pytest.mark.parametrize("factor", [4, 0.25])
def test_loaded_estimates_are_believed_and_learned_anew_when_wrong(saved, factor):
    estimate = CostTable(saved, fingerprint="here").estimate(KEY)
    assert estimate.ns == 5_000
    executions = 0
    while estimate.ns == 5_000 and executions < 100:
        execute(estimate, int(5_000 * factor))
        executions += 1
    assert estimate.ns == int(5_000 * factor)
    assert executions <= 1 + 8


def test_loading_keeps_what_this_process_learned(saved):
    table = CostTable(saved, fingerprint="here")
    teach(table, "mine", 10)
    for _ in range(20):
        table.estimate(KEY).record(6_000)
    fresh = Estimate("named")
    table._entries["named"] = fresh  # another thread was faster than the file
    table.load()
    assert contents(table) == {KEY: 6_000, "named": 7_000, "mine": 10}
    assert table.estimate("named") is fresh


def test_more_in_the_file_than_fits(path):
    big = CostTable(path, fingerprint="here")
    for n in range(50):
        teach(big, n, 100 + n)
    big.save()
    small = CostTable(path, capacity=20, fingerprint="here")
    small.load()
    assert contents(small) == {n: 100 + n for n in range(30, 50)}


def test_memory_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = CostTable()
    teach(table, KEY, 100)
    table.load()
    assert not table.save()
    assert list(tmp_path.iterdir()) == []


def test_no_file_at_all(path, caplog):
    table = CostTable(path, fingerprint="here")
    assert table.estimate(KEY).ns == 0
    assert not path.parent.exists()
    teach(table, KEY, 100)
    assert table.save()
    assert not caplog.records
    assert CostTable(path, fingerprint="here").estimate(KEY).ns == 100


def test_nothing_new_is_not_written(saved):
    table = CostTable(saved, fingerprint="here")
    assert not table.save()  # not even read
    table.estimate(KEY)
    assert not table.save()
    table.estimate(KEY).record(5_000)
    assert table.save()
    assert not table.save()
    saved.unlink()
    assert table.save()


def test_clear_forgets_the_file_too(saved):
    table = CostTable(saved, fingerprint="here")
    table.clear()
    assert table.estimate(KEY).ns == 0
    assert table.save()
    again = CostTable(saved, fingerprint="here")
    again.load()
    assert len(again) == 0


def test_only_one_line_for_each_estimate(saved):
    assert saved.read_text() == (
        '{"format":1,"fingerprint":"here","entries":[\n'
        '[["dot",[[64,32],[32,8]],"float32","cpu(0)",2],5000,15],\n'
        '["named",7000,30]\n'
        "]}\n"
    )


def test_files_stay_below_the_size_that_is_read(path, monkeypatch, caplog):
    monkeypatch.setattr(costs, "MAX_FILE_BYTES", 2_000)
    table = CostTable(path, fingerprint="here")
    for n in range(200):
        teach(table, ("op", n), 1_000)
    assert table.save()
    assert 1_900 < path.stat().st_size <= 2_000
    again = CostTable(path, fingerprint="here")
    again.load()
    assert not caplog.records
    count = len(again)
    assert count > 50
    assert {e.key for e in again} == {("op", n) for n in range(200 - count, 200)}  # the most recently used


# ---- files that are not as they should be -----------------------------------------------------------------------------

ENTRY = [["dot", [2, 3]], 5000, 15]


def table_text(**changes: object) -> str:
    return json.dumps({"format": 1, "fingerprint": "here", "entries": [ENTRY], **changes})


def entry_text(*entry: object) -> str:
    return table_text(entries=[ENTRY, list(entry)])


DAMAGED: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "it is damaged (Expecting value: line 1 column 1 (char 0))"),
    "truncated": (table_text()[:-9], "it is damaged ("),
    "not text": (b"\xff\xfe\x00", "it is damaged ('utf-8' codec can't decode byte 0xff"),
    "list": ("[]", "it holds a list instead of an object"),
    "format missing": ("{}", "its format is 'None' instead of a number"),
    "format bool": (table_text(format=True), "its format is 'True' instead of a number"),
    "format 0": (table_text(format=0), "its format is '0' instead of a number"),
    "newer": (table_text(format=2), "it has format 2, newer than the format 1 that this version reads"),
    "nobody": (table_text(fingerprint=None), "it does not say whose costs it holds"),
    "entries": (table_text(entries={}), "it has no list of entries"),
    "entry": (table_text(entries=[3]), "its entry 0 is not of the form [key, ns, samples]"),
    "short entry": (entry_text("a", 5), "its entry 1 is not of the form [key, ns, samples]"),
    "ns text": (entry_text("a", "5", 15), "the duration of its entry 1 is not a number from 1 to 86400000000000"),
    "ns bool": (entry_text("a", True, 15), "the duration of its entry 1 is not a number from 1 to"),
    "ns 0": (entry_text("a", 0, 15), "the duration of its entry 1 is not a number from 1 to"),
    "ns negative": (entry_text("a", -5, 15), "the duration of its entry 1 is not a number from 1 to"),
    "ns large": (entry_text("a", 10**15, 15), "the duration of its entry 1 is not a number from 1 to"),
    "ns float": (entry_text("a", 5.5, 15), "it holds 5.5, which is not an integer"),
    "ns nan": (entry_text("a", float("nan"), 15), "it holds NaN, which is not an integer"),
    "ns infinite": (entry_text("a", float("inf"), 15), "it holds Infinity, which is not an integer"),
    "ns overflows": (table_text().replace("5000", "1e999"), "it holds 1e999, which is not an integer"),
    "few samples": (entry_text("a", 5, 9), "the samples of its entry 1 are not a number from 10 to"),
    "samples null": (entry_text("a", 5, None), "the samples of its entry 1 are not a number from 10 to"),
    "key object": (entry_text({"a": 1}, 5, 15), "the key of its entry 1 is not built of lists, strings and integers"),
    "key in key": (entry_text(["a", [{}]], 5, 15), "the key of its entry 1 is not built of lists, strings and"),
    "key number": (entry_text(2**63, 5, 15), "it holds a number that is too large"),
    "many digits": (table_text().replace("5000", "5" * 100_000), "it holds a number that is too large"),
    "deep key": (table_text().replace("[2, 3]", "[" * 20 + "]" * 20), "the key of its entry 0 is not built of"),
    "deep": ("[" * 200_000, "it is nested too deeply"),
    "huge": (" " * (8 << 20) + table_text(), "it is larger than 8388608 bytes"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_file_is_ignored_with_one_warning(path, caplog, case):
    text, reason = DAMAGED[case]
    path.parent.mkdir()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    table = CostTable(path, fingerprint="here")
    assert table.estimate(("dot", (2, 3))).ns == 0
    table.estimate("other")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("mxcore.engine", logging.WARNING)
    message = record.getMessage()
    assert message.startswith(f"the cost table '{path}' is ignored: {reason}")
    assert message.endswith(". Costs are learned anew; the next save replaces the file.")
    teach(table, "other", 300)
    assert table.save()
    assert CostTable(path, fingerprint="here").estimate("other").ns == 300


def test_the_file_that_the_damaged_ones_derive_from_is_valid(path):
    path.parent.mkdir()
    path.write_text(table_text())
    assert CostTable(path, fingerprint="here").estimate(("dot", (2, 3))).ns == 5_000


def test_file_of_another_machine_is_left_aside_silently(saved, caplog):
    table = CostTable(saved, fingerprint="elsewhere")
    assert table.estimate(KEY).ns == 0
    assert not caplog.records


def test_folder_in_place_of_the_file(path, caplog):
    path.mkdir(parents=True)
    table = CostTable(path, fingerprint="here")
    teach(table, KEY, 100)
    assert not table.save()
    ignored, unsaved = (record.getMessage() for record in caplog.records)
    assert ignored.startswith(f"the cost table '{path}' is ignored: it is not a regular file. ")
    assert unsaved.startswith(f"the cost table '{path}' cannot be saved: ")
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipe_in_place_of_the_file_does_not_block(tmp_path, caplog):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert CostTable(pipe, fingerprint="here").estimate(KEY).ns == 0
    assert "it is not a regular file" in caplog.text


def test_path_that_no_file_can_have(tmp_path, caplog):
    table = CostTable(f"{tmp_path}/a\0b", fingerprint="here")
    teach(table, KEY, 100)
    assert not table.save()
    assert len(caplog.records) == 2
    assert caplog.text.count("embedded null") == 2


def test_unreadable_file(saved, caplog, monkeypatch):
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    estimate = CostTable(saved, fingerprint="here").estimate(KEY)
    monkeypatch.undo()
    assert estimate.ns == 0
    assert caplog.messages == [
        f"the cost table '{saved}' is ignored: Permission denied. Costs are learned anew; the next save replaces the "
        "file."
    ]


def test_random_damage_never_raises(saved, caplog):
    original = saved.read_bytes()
    rng = random.Random(20)
    loaded = ignored = 0
    for _ in range(500):
        data = bytearray(original)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        saved.write_bytes(data)
        caplog.clear()
        table = CostTable(saved, fingerprint="here")
        table.estimate(KEY)
        assert len(caplog.records) <= 1
        rest = [estimate for estimate in table if estimate.ns]
        if caplog.records:
            ignored += 1
            assert not rest
        for estimate in rest:
            loaded += 1
            assert type(estimate.ns) is int and 1 <= estimate.ns <= 86_400 * 10**9
            assert type(estimate.samples) is int and estimate.samples >= 10
            hash(estimate.key)
            for _ in range(20):
                estimate.record(4_000)
            assert estimate.ns == 4_000
    assert loaded > 20
    assert ignored > 200


# ---- saving when it cannot be done ------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["open", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_disk_that_refuses_is_one_warning(saved, caplog, monkeypatch, function, code):
    before = saved.read_bytes()
    table = CostTable(saved, fingerprint="here")
    teach(table, "new", 100)

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(costs.os, function, refuse)
    assert not table.save()
    assert not table.save()
    monkeypatch.undo()
    assert caplog.messages == [
        f"the cost table '{saved}' cannot be saved: {os.strerror(code)}. Costs are kept until this process ends; make "
        "the folder writable, or choose another one."
    ]
    assert caplog.records[0].name == "mxcore.engine"
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]  # nothing half-written is left
    assert table.estimate("new").ns == 100
    assert table.save()


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_interrupted_save_leaves_the_old_file(saved, monkeypatch, function):
    before = saved.read_bytes()
    table = CostTable(saved, fingerprint="here")
    teach(table, "new", 100)

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(costs.os, function, interrupt)
    with pytest.raises(KeyboardInterrupt):
        table.save()
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_folder_that_cannot_be_made(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    table = CostTable(tmp_path / "file" / "costs.json", fingerprint="here")
    teach(table, KEY, 100)
    assert not table.save()
    assert "cannot be saved: " in caplog.messages[-1]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind this user")
def test_read_only_folder(saved, caplog):
    table = CostTable(saved, fingerprint="here")
    teach(table, "new", 100)
    saved.parent.chmod(0o500)
    try:
        assert not table.save()
    finally:
        saved.parent.chmod(0o700)
    assert caplog.messages[0].startswith(f"the cost table '{saved}' cannot be saved: Permission denied. ")


WRITER = """
import sys
from mxcore_engine_threaded.costs import CostTable
path, who = sys.argv[1:]
table = CostTable(path, fingerprint="here")
for n in range(60):
    for m in range(11):
        table.estimate((who, n)).record(1000 + n)
    assert table.save()
"""


def test_processes_saving_at_once_leave_a_valid_file(saved, caplog):
    environ = {**os.environ, "PYTHONPATH": str(pathlib.Path(costs.__file__).parent.parent)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(saved), who], env=environ, stderr=subprocess.PIPE)
        for who in ("one", "two")
    ]
    reads = 0
    while reads == 0 or any(writer.poll() is None for writer in writers):
        table = CostTable(saved, fingerprint="here")
        assert table.estimate(KEY).ns == 5_000
        reads += 1
    for writer in writers:
        _, stderr = writer.communicate()
        assert (writer.returncode, stderr) == (0, b"")
    assert not caplog.records
    table = CostTable(saved, fingerprint="here")
    table.load()
    complete = [all(contents(table).get((who, n)) == 1000 + n for n in range(60)) for who in ("one", "two")]
    assert any(complete)  # the last one to save
    assert list(saved.parent.iterdir()) == [saved]


# ---- where, and whose -------------------------------------------------------------------------------------------------


def test_default_path_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    name = os.path.basename(str(default_path("here")))
    assert name == "costs-b11b8798.json"
    assert os.path.basename(str(default_path("there"))) != name
    assert default_path("here") == str(tmp_path / ".cache" / "mxcore" / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_path("here") == str(tmp_path / "xdg" / "mxcore" / name)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the specification
    assert default_path("here") == str(tmp_path / ".cache" / "mxcore" / name)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_path("here") == str(tmp_path / "Library" / "Caches" / "mxcore" / name)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert default_path("here") == os.path.join(str(tmp_path / "local"), "mxcore", "Cache", name)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a home is found otherwise")
def test_user_without_a_home_has_no_default_path(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert default_path("here") is None


def test_default_path_is_of_this_machine():
    assert default_path() == default_path(fingerprint())


def test_fingerprint_names_the_machine_and_the_versions():
    import platform

    numpy = sys.modules["numpy"] if "numpy" in sys.modules else pytest.importorskip("numpy")
    text = fingerprint()
    assert text == fingerprint()
    assert text.startswith(f"{platform.system()} {platform.machine()}; ")
    assert f"; {os.cpu_count()} cpus; " in text
    assert f" {platform.python_version()}" in text
    assert f"; numpy {numpy.__version__}; mxcore " in text
    assert "; mxcore-engine-threaded " in text


def test_fingerprint_imports_no_numpy_and_is_the_same_without():
    environ = {**os.environ, "PYTHONPATH": str(pathlib.Path(costs.__file__).parent.parent)}
    program = "import sys; from mxcore_engine_threaded import costs; print(costs.fingerprint(), 'numpy' in sys.modules)"
    printed = [
        subprocess.run(
            [sys.executable, "-c", start + program], env=environ, capture_output=True, text=True, check=True
        ).stdout.strip()
        for start in ("", "import numpy; ")
    ]
    assert printed[0].endswith(" False")
    assert printed[1] == printed[0].removesuffix("False") + "True"


def test_table_without_a_fingerprint_uses_this_machines(path):
    table = CostTable(path)
    teach(table, KEY, 100)
    table.save()
    assert json.loads(path.read_text())["fingerprint"] == fingerprint()
    assert CostTable(path).estimate(KEY).ns == 100
