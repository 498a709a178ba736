"""Instruments: guard, order, and a listener that raises is removed and logged."""

from __future__ import annotations

import logging
import os
import signal

import pytest

from mxcore.instruments import EVENTS, Instruments, instruments
from mxcore.spec import PluginError


def test_nothing_listens_at_first():
    board = Instruments()
    assert not any(getattr(board, event) for event in EVENTS)


def test_listener_that_raises_is_removed_everywhere_and_logged(caplog):
    board, seen = Instruments(), []

    def bad(event, *details):
        raise RuntimeError("broken observer")

    def good(event, *details):
        seen.append((event, *details))

    board.add(bad, ["push", "end"])
    board.add(good, ["push"])
    board.add(good, ["push"])
    with caplog.at_level(logging.ERROR, logger="mxcore.instruments"):
        board.emit("push", "dot")
        board.emit("push", "add")
    assert seen == [("push", "dot"), ("push", "add")]
    assert board.end == ()
    (record,) = caplog.records
    assert "raised at event 'push' and was removed" in record.getMessage()


def test_listener_may_remove_itself_while_it_runs():
    board, seen = Instruments(), []

    def once(event):
        seen.append(event)
        board.remove(once)

    board.add(once, ["wait"])
    board.add(lambda event: seen.append("other"), ["wait"])
    board.emit("wait")
    board.emit("wait")
    assert seen == ["wait", "other", "other"]


def test_unknown_event():
    with pytest.raises(PluginError) as caught:
        Instruments().add(print, ["pushed"])
    assert str(caught.value) == f"there is no event 'pushed'. Events: {', '.join(EVENTS)}."


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_can_listen_though_a_thread_held_the_lock():
    instruments._lock.acquire()
    try:
        child = os.fork()
        if not child:
            signal.alarm(20)  # ends a child that waits for the lock
            instruments.add(print, ["free"])
            os._exit(0 if instruments._lock.acquire(blocking=False) else 1)
    finally:
        instruments._lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert print not in instruments.free
