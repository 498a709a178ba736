"""A profiler that is stopped and empty, listening to nothing, before and after each test."""

from __future__ import annotations

import json

import pytest

from mxcore import profiler
from mxcore.instruments import EVENTS, instruments
from mxcore.profiler import control


def listeners():
    return [event for event in EVENTS if getattr(instruments, event)]


@pytest.fixture(autouse=True)
def fresh():
    def reset():
        profiler.set_state("stop")
        control._profiler._reset()
        control._profiler._settings = None

    reset()
    assert listeners() == []
    yield
    reset()
    assert listeners() == []


@pytest.fixture
def path(tmp_path):
    return tmp_path / "profile.json"


@pytest.fixture
def trace(path):
    """Dump and return the parsed file."""

    def read(finished=True):
        profiler.dump(finished)
        return json.loads(path.read_text())

    return read
