"""What hangs shows where all threads stand, and ends."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator

import pytest

WATCHDOG_S = 240


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """After some minutes, print the stacks of all threads and end the process: a hang in a lock lets nothing else through."""
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()
