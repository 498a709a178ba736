"""The options of ``mxcore.testing.pytest_plugin`` in a pytest of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import mxcore as mx, os
from mxcore.dispatch import runtime

def test_engine():
    mx.nd.ones(2)
    assert runtime.current().engine.name == {name!r}
    assert os.environ.get("MXCORE_ENGINE") == {name!r}
"""


def run(tmp_path, name, *options):
    path = tmp_path / "test_it.py"
    path.write_text(PROGRAM.format(name=name))
    command = [sys.executable, "-m", "pytest", "-p", "mxcore.testing.pytest_plugin", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *options, str(path)], capture_output=True, text=True, cwd=tmp_path)


@pytest.mark.parametrize("name", ["naive", "threaded"])
def test_an_option_swaps_the_engine(tmp_path, name):
    if name != "naive":
        pytest.importorskip("mxcore_engine_threaded")
    done = run(tmp_path, name, "--mxcore-engine", name)
    assert done.returncode == 0, done.stdout
    assert f"mxcore: engine {name}" in done.stdout


def test_a_backend_that_is_missing_is_a_usage_error(tmp_path):
    done = run(tmp_path, "x", "--mxcore-engine", "no_such_engine")
    assert done.returncode == 4
    assert "no_such_engine" in done.stderr + done.stdout
