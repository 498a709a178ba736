"""Runs the command line in a process of its own, with the fault plugins installed on its path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "registry"))  # for fault_plugins

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run("plugins", "list", plugins=folder, **environ)`` -> the finished process."""

    def run(*words: str, plugins: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        path = [str(plugins)] if plugins else []
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("MXCORE_", "MXNET_", "XDG_"))}
        clean.update(HOME=str(tmp_path), PYTHONPATH=os.pathsep.join([*path, *filter(None, sys.path)]), **environ)
        return subprocess.run([sys.executable, "-m", "mxcore", *words], capture_output=True, text=True, env=clean)

    return run
