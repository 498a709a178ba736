"""pytest options that run anybody's tests on other backends: ``pytest -p mxcore.testing.pytest_plugin --mxcore-engine naive``.

Put ``pytest_plugins = ["mxcore.testing.pytest_plugin"]`` into the topmost ``conftest.py`` to have the options always.
Without an option nothing changes. The backend in use is named in pytest's header.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

_PARTS = {"engine": "the engine", "storage": "the storage manager", "ops": "the op library of the CPU"}


def pytest_addoption(parser: Any) -> None:
    """Add ``--mxcore-engine``, ``--mxcore-storage`` and ``--mxcore-ops``."""
    group = parser.getgroup("mxcore", "backends of mxcore")
    for part, what in _PARTS.items():
        group.addoption(f"--mxcore-{part}", metavar="NAME", help=f"Use {what} of this name in all tests.")


def pytest_configure(config: Any) -> None:
    """Choose the backends, for this process and for those that tests start.

    Raises
    ------
    pytest.UsageError
        If a backend cannot be used; its message says why and what to do.
    """
    chosen = {part: name for part in _PARTS if (name := config.getoption(f"--mxcore-{part}"))}
    if not chosen:
        return
    from .. import use
    from ..spec import MXCoreError

    try:
        use(**{part: {"cpu": name} if part != "engine" else name for part, name in chosen.items()})
    except MXCoreError as error:
        raise pytest.UsageError(str(error)) from None
    for part, name in chosen.items():
        os.environ[f"MXCORE_{part.upper()}"] = name


def pytest_report_header(config: Any) -> str | None:
    """Name the backends that were chosen."""
    chosen = [f"{part} {name}" for part in _PARTS if (name := config.getoption(f"--mxcore-{part}"))]
    return f"mxcore: {', '.join(chosen)}" if chosen else None
