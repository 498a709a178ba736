"""States, settings, files and processes; errors and their text."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from mxcore import profiler
from mxcore.instruments import EVENTS, instruments
from mxcore.profiler import control, trace
from mxcore.spec.errors import ConfigError, MXCoreError

from .conftest import listeners


def one(name="f", task=1):
    for event, details in (("push", (0, None, (), ())), ("begin", (None,)), ("end", (None, None))):
        if getattr(instruments, event):
            instruments.emit(event, task, name, *details)


def counted():
    times = json.loads(profiler.dumps(format="json"))["Time"]
    return {name: entry["Count"] for name, entry in times.get("operator", {}).items()}


def test_it_listens_only_while_it_runs():
    assert listeners() == []
    profiler.set_state("run")
    assert listeners() == list(EVENTS)
    profiler.pause()
    assert listeners() == []
    one("paused")
    profiler.resume()
    one("resumed")
    profiler.set_state("run")
    one("still running")
    profiler.set_state("stop")
    assert listeners() == []
    profiler.resume()
    assert listeners() == []
    assert counted() == {"resumed": 1, "still running": 1}


@pytest.mark.parametrize(
    ("keywords", "heard"),
    [
        ({"profile_memory": False}, ["push", "begin", "end", "wait", "wait_end"]),
        ({"profile_api": False, "profile_symbolic": False}, ["push", "begin", "end", "alloc", "free"]),
        ({"profile_imperative": "0", "profile_symbolic": False, "profile_api": False}, ["alloc", "free"]),
        ({"profile_imperative": False, "profile_symbolic": False, "profile_all": True}, list(EVENTS)),
    ],
)
def test_settings_choose_the_events(keywords, heard):
    profiler.set_state("run")
    profiler.set_config(**keywords)
    assert listeners() == heard


def test_what_is_not_given_has_its_default_again(tmp_path):
    profiler.set_config(filename=tmp_path / "a.json", profile_memory=False, max_events=5, aggregate_stats=True)
    profiler.set_config(filename=tmp_path / "b.json")
    settings = control._profiler.settings
    assert settings["profile_memory"] is True and settings["max_events"] == 1_000_000
    assert settings["filename"] == str(tmp_path / "b.json")


def test_unknown_keyword():
    with pytest.raises(ConfigError) as caught:
        profiler.set_config(file_name="x")
    assert str(caught.value).startswith(
        "profiler.set_config: unknown keyword 'file_name'. Did you mean 'filename'? Keywords: filename, profile_all, "
    )
    assert str(caught.value).endswith(", max_events, profile_process.")


def test_the_memory_profile_of_gpus_is_refused():
    with pytest.raises(ConfigError, match="there is no memory profile of GPUs as a table of its own. Leave out"):
        profiler.set_config(gpu_memory_profile_filename_prefix="x")


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"dump_period": 0}, "profiler.set_config: dump_period is 0.0. Give a number greater than 0."),
        ({"max_events": -1}, "profiler.set_config: max_events is -1. Give a number greater than 0."),
        (
            {"profile_all": "maybe"},
            "argument 'profiler.profile_all' is 'maybe', which cannot be a value of option 'profiler.profile_all'. "
            "Give 1, true, yes, on, 0, false, no or off.",
        ),
        ({"profile_process": "x"}, "profiler.set_config: profile_process is 'x'. Give 'worker' or 'server'."),
    ],
)
def test_bad_settings(keywords, text):
    with pytest.raises(ConfigError) as caught:
        profiler.set_config(**keywords)
    assert str(caught.value) == text


def test_bad_state():
    with pytest.raises(ConfigError) as caught:
        profiler.set_state("start")
    assert str(caught.value) == "profiler.set_state: state is 'start'. Give 'run' or 'stop'."


@pytest.mark.parametrize("function", ["set_config", "set_state", "dump", "pause", "resume"])
def test_there_is_no_server_to_profile(function):
    profiler.set_kvstore_handle(object())
    with pytest.raises(MXCoreError) as caught:
        getattr(profiler, function)(profile_process="server")
    assert str(caught.value) == (
        f"profiler.{function}: profile_process='server' asks to profile the server process of a distributed "
        "key-value store, and there is none. Profile this process with profile_process='worker'."
    )


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"format": "xml"}, "profiler.dumps: format is 'xml'. Give 'table' or 'json'."),
        ({"sort_by": "x"}, "profiler.dumps: sort_by is 'x'. Give 'total' or 'avg' or 'min' or 'max' or 'count'."),
        ({"ascending": 2}, "profiler.dumps: ascending is 2. Give False or True."),
        ({"reset": None}, "profiler.dumps: reset is None. Give False or True."),
    ],
)
def test_bad_arguments_of_dumps(keywords, text):
    with pytest.raises(ConfigError) as caught:
        profiler.dumps(**keywords)
    assert str(caught.value) == text


def test_dump_needs_something_to_write(path):
    profiler.set_config(filename=path)
    with pytest.raises(MXCoreError) as caught:
        profiler.dump()
    assert str(caught.value) == (
        "profiler.dump: there is nothing to write, because the profiler has not run. "
        "Call profiler.set_state('run') before the work to be profiled."
    )
    profiler.set_state("run")
    profiler.dump()
    with pytest.raises(MXCoreError, match="has not run since it was dumped with finished=True"):
        profiler.dump()


def names_in(path):
    return [e["name"] for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]


def test_a_finished_dump_ends_a_record_and_another_goes_on(path):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    one("a")
    profiler.dump(False)
    assert names_in(path) == ["a"] and listeners()
    one("b", 2)
    profiler.set_state("stop")
    profiler.set_state("run")
    one("c", 3)
    profiler.dump()
    assert names_in(path) == ["a", "b", "c"] and listeners() == []
    profiler.set_state("run")
    one("d", 4)
    profiler.dump()
    assert names_in(path) == ["d"]
    assert counted() == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_a_new_filename_starts_a_new_record(tmp_path):
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    profiler.set_config(filename=first, continuous_dump=True, dump_period=1000)
    profiler.set_state("run")
    one("a")
    profiler.set_config(filename=second)
    one("b")
    profiler.dump()
    assert names_in(first) == ["a"] and names_in(second) == ["b"]


def test_a_dump_that_fails_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    one("a")
    profiler.dump(False)
    old = path.read_text()
    whole = trace.lines

    def broken(recording):
        yield next(whole(recording))
        raise KeyboardInterrupt

    monkeypatch.setattr(trace, "lines", broken)
    with pytest.raises(KeyboardInterrupt):
        profiler.dump(False)
    assert path.read_text() == old and os.listdir(path.parent) == [path.name]


def test_a_dump_is_on_disk_before_it_replaces_the_file(path, monkeypatch):
    done = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append("replace"), replace(old, new)))
    profiler.set_config(filename=path)
    profiler.set_state("run")
    profiler.dump()
    assert done[:2] == ["sync", "replace"]


def test_a_dump_into_no_folder_is_an_error(tmp_path):
    profiler.set_config(filename=tmp_path / "none" / "x.json")
    profiler.set_state("run")
    with pytest.raises(FileNotFoundError):
        profiler.dump()


def test_continuous_dumping_writes_without_being_asked(path):
    profiler.set_config(filename=path, continuous_dump=True, dump_period=0.01)
    profiler.set_state("run")
    one("a")
    stopped = control._profiler._stop_dumping
    for _ in range(1000):
        if path.exists():
            break
        stopped.wait(0.01)
    assert names_in(path) == ["a"]
    profiler.set_state("stop")
    assert stopped.is_set() and control._profiler._stop_dumping is None


def test_old_names_warn_and_work(path):
    with pytest.warns(DeprecationWarning, match="profiler.profiler_set_config is deprecated. Use profiler.set_config."):
        profiler.profiler_set_config(mode="all", filename=str(path))
    with pytest.warns(DeprecationWarning, match="Use profiler.set_state."):
        profiler.profiler_set_state("run")
    one("a")
    with pytest.warns(DeprecationWarning, match="Use profiler.dump."):
        profiler.dump_profile()
    assert names_in(path) == ["a"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python 3.12: fork with threads
def test_a_forked_child_starts_stopped_and_empty(path):
    profiler.set_config(filename=path)
    profiler.set_state("run")
    one("parent")
    child = os.fork()
    if not child:
        try:
            ok = listeners() == [] and counted() == {}
            profiler.set_config(filename=f"{path}.child")
            profiler.set_state("run")
            one("child")
            profiler.dump()
            ok = ok and counted() == {"child": 1}
            os._exit(0 if ok else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    one("parent", 2)
    profiler.dump()
    assert names_in(path) == ["parent", "parent"]
    assert names_in(path.parent / f"{path.name}.child") == ["child"]


PROGRAM = """
import mxcore
from mxcore.instruments import instruments
if instruments.push:
    instruments.emit("push", 1, "f", 0, None, (), ())
    instruments.emit("begin", 1, "f", None)
    instruments.emit("end", 1, "f", None, None)
"""


def run(folder, program=PROGRAM, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MXNET_", "MXCORE_"))}
    subprocess.run([sys.executable, "-c", program], cwd=folder, env={**environment, **variables}, check=True)
    return sorted(os.listdir(folder))


def with_path(tmp_path):
    return {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def test_autostart_profiles_from_the_import_to_the_end(tmp_path):
    assert run(tmp_path, MXNET_PROFILER_AUTOSTART="1", **with_path(tmp_path)) == ["profile.json"]
    assert names_in(tmp_path / "profile.json") == ["f"]


def test_autostart_takes_the_options_of_the_profiler(tmp_path):
    found = run(
        tmp_path, MXCORE_PROFILER__AUTOSTART="yes", MXCORE_PROFILER__FILENAME="mine.json", **with_path(tmp_path)
    )
    assert found == ["mine.json"] and names_in(tmp_path / "mine.json") == ["f"]


@pytest.mark.parametrize("variables", [{"MXNET_PROFILER_AUTOSTART": "0"}, {}])
def test_no_autostart(tmp_path, variables):
    assert run(tmp_path, **variables, **with_path(tmp_path)) == []


def test_continuous_dump_writes_at_exit_and_nothing_else_does(tmp_path):
    start = "from mxcore import profiler\nprofiler.set_config(continuous_dump={}, dump_period=1000)\n"
    start += "profiler.set_state('run')\n"
    assert run(tmp_path, start.format(False) + PROGRAM, **with_path(tmp_path)) == []
    assert run(tmp_path, start.format(True) + PROGRAM, **with_path(tmp_path)) == ["profile.json"]


def test_it_is_imported_only_when_asked_for():
    program = "import sys, mxcore; assert not any('profiler' in m for m in sys.modules); mxcore.profiler.dumps()"
    subprocess.run([sys.executable, "-c", program], check=True)
