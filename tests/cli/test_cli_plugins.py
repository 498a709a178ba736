"""``mxcore plugins``: list imports nothing, doctor survives everything and says what happened."""

from __future__ import annotations

import json
import sys

import pytest

from mxcore._version import __version__


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """A folder with every fault plugin."""
    import fault_plugins

    folder = tmp_path_factory.mktemp("plugins")
    for distribution in fault_plugins.EVERYTHING:
        distribution.install(folder)
    return folder


def mine(rows):
    import fault_plugins

    return {row["name"]: row for row in rows if row["distribution"] in fault_plugins.MINE}


def test_list_reads_metadata_only(run, faults):
    done = run("plugins", "list", "--json", plugins=faults, MXCORE_PLUGINS_BLOCK="fault-hang")
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)
    found = mine(rows)
    assert found["kills"]["state"] == "discovered"
    assert found["hangs"]["state"] == "blocked"
    assert found["x"]["needs mxcore"] == ">=2,<3"
    assert (found["good"]["entry point"], found["good"]["version"]) == ("good_engine", "1.0")
    naive = next(row for row in rows if row["name"] == "naive" and row["distribution"] == "mxcore")
    assert (naive["api"], naive["state"], naive["version"]) == ("1.1", "built-in", __version__)


def test_list_as_table(run):
    done = run("plugins", "list", "--kind", "ops", MXCORE_PLUGINS="")
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["KIND", "NAME", "DISTRIBUTION", "VERSION", "API", "STATE"]
    assert lines[0].split() == ["ops", "numpy", "mxcore", __version__, "1.0", "built-in"]


CASES = {
    "bad_import": ("failed", "import", "failed at import: ImportError: libfault.so.1: cannot open shared object file."),
    "exits": ("failed", "import", "failed at import: SystemExit: no licence."),
    "missing": ("failed", "import", "No module named 'fault_module_that_is_not_there'"),
    "half": ("failed", "register", "LookupError: second engine not found"),
    "typo": ("failed", "register", "unknown hook 'mxcore_register_engine'"),
    "bad_probe": ("failed", "probe", "OSError: bus error"),
    "bad_create": ("failed", "create", "MemoryError: no pages"),
    "x": ("incompatible", "import", "needs engine API 2.0"),
    "kills": ("crashed", "import", "it ended the process at stage 'import' with exit status 3"),
    "crashes": ("crashed", "create", "it ended the process at stage 'create' with signal SIGSEGV"),
    "good": ("active", "create", ""),
    "heavy": ("active", "create", ""),
    "no_device": ("unavailable", "probe", "no accelerator found"),
}


@pytest.mark.parametrize("name", CASES)
def test_doctor_examines_in_a_process_of_its_own(run, faults, name):
    status, stage, text = CASES[name]
    done = run("plugins", "doctor", name, "--json", plugins=faults)
    assert done.stderr == ""
    (report,) = json.loads(done.stdout)
    assert (report["status"], report["stage"]) == (status, stage)
    assert text in report["message"]
    assert done.returncode == (0 if name == "good" else 1)
    if status == "failed":
        assert "Traceback" in report["trace"]
    if name == "kills":
        assert report["output"] == "last words"
    if name == "heavy":
        assert report["imports"] == ["fault_heavy_library"]
        assert report["remarks"] == [
            "its light module imports fault_heavy_library; heavy imports belong inside the factory"
        ]
    if name == "good":
        assert report["import_s"] > 0 and report["imports"] == []


def test_doctor_stops_what_hangs(run, faults):
    done = run("plugins", "doctor", "hangs", "--timeout", "1.5", plugins=faults)
    assert done.returncode == 1
    assert done.stdout.startswith("[problem] engine 'hangs' (fault-hang 1.0): hangs\n")
    assert "had not finished stage" in done.stdout
    assert "after 1.5 s and was stopped" in done.stdout


def test_doctor_of_both_twins_and_text_output(run, faults):
    done = run("plugins", "doctor", "fast", plugins=faults)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "[ok] engine 'fast' (a-engine 1.0): works",
        "[ok] engine 'fast' (b-engine 0.2): works",
        "2 examined, 0 with problems.",
    ]


def test_doctor_of_everything_that_is_built_in(run):
    done = run("plugins", "doctor", MXCORE_PLUGINS="")
    assert done.returncode == 0, done.stdout
    assert "[ok] engine 'naive'" in done.stdout


def test_show(run, faults):
    done = run("plugins", "show", "no_device", "--json", plugins=faults)
    (shown,) = json.loads(done.stdout)
    assert (shown["api"], shown["priority"], shown["status"]) == ("1.0", 50, "unavailable")
    assert shown["file"].endswith("good_no_device.py")
    assert "engine.workers" in shown["options"]
    assert run("plugins", "show", "bad_import", plugins=faults).returncode == 1


def test_not_installed_says_what_to_install(run):
    done = run("plugins", "doctor", "mpi", MXCORE_PLUGINS="")
    assert done.returncode == 1
    assert done.stderr.startswith("mxcore: kvstore 'mpi' is not installed. Installed kvstores: ")
    assert done.stderr.endswith("Install it with: pip install mxcore-kvstore-mpi\n")
    done = run("plugins", "show", "zzz")
    assert (done.returncode, done.stderr.split(".")[0]) == (1, "mxcore: no plugin is named 'zzz'")


def test_block_and_unblock(run, faults, tmp_path):
    path = tmp_path / ".config" / "mxcore" / "config.ini"
    done = run("plugins", "block", "fault-kill", plugins=faults)
    assert (done.returncode, done.stdout) == (0, f"'fault-kill' is blocked (written to {path})\n")
    assert run("plugins", "block", "fault-kill", plugins=faults).stdout == "'fault-kill' is blocked already\n"
    (report,) = json.loads(run("plugins", "doctor", "kills", "--json", plugins=faults).stdout)
    assert (report["status"], report["stage"]) == ("blocked", "")
    done = run("plugins", "unblock", "fault-kill", "--json", plugins=faults)
    assert json.loads(done.stdout) == {"name": "fault-kill", "file": str(path), "changed": True}
    assert path.read_text() == "[default]\n"
    done = run("plugins", "block", "direct")
    assert (done.returncode, done.stderr) == (1, "mxcore: 'direct' is built in and cannot be blocked.\n")


def test_host_lives_with_every_fault_installed(run, faults, tmp_path):
    """Importing mxcore and using built-ins: nothing of any plugin is run."""
    import os
    import subprocess

    program = "import mxcore, mxcore.registry as r; print(r.process_registry().create('engine', 'naive').name)"
    environ = {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(faults), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ)
    assert (done.stdout, done.stderr) == ("naive\n", "")
