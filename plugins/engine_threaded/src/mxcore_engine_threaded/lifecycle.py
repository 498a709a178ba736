"""Stopping, starting, forking and ending an engine.

A fork is the hard one: the child has the memory of all threads and only one of the threads. So before a fork everything
that is pending finishes, the workers go home, and the forking thread keeps the engine's lock; afterwards both processes begin
with no workers and make them when there is work. What cannot finish in time (a function that waits for the forking thread, say)
is lost in the child, and its variables say so.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import weakref
from typing import Any

from mxcore.engine.dependency import start_after_shutdown_error, stop_inside_error
from mxcore.spec import EngineError

from . import interrupts
from .scheduler import POLL_S, Scheduler
from .work import Waiter

__all__ = ["Lifecycle"]

#: How long a fork waits for what is pending.
FORK_S = 10.0


class Lifecycle(Scheduler):
    """Stop, start, shutdown, and what happens around a fork. Options are those of ``ThreadedEngine``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.real:
            engines.add(self)
            interrupts.install()

    def stop(self) -> None:
        """Finish all work and join the workers; pushing afterwards raises EngineError. Blocks.

        Raises
        ------
        EngineError
            Inside a function: it would wait for itself.
        """
        if self._local.held:
            raise stop_inside_error()
        if self._machine.ident() != self._pusher:
            self._join()
        while not self._stopped:
            self._wait_for_quiet()
            self._lock.acquire()
            try:
                if not self.tracker.pending:
                    self._stopped = "stopped"
            finally:
                self._leave()
        self._dismiss()

    def _dismiss(self) -> None:
        """Send the workers home and wait until they are gone."""
        self._lock.acquire()
        try:
            gone = []
            for pool in self._pools.values():
                gone += [worker.thread for worker in pool.workers]
                for worker in pool.workers:
                    worker.retired = True
                    worker.parker.unpark()
                while pool.running:
                    self._give_seat(pool)
                pool.forget()
        finally:
            self._leave()
        for thread in gone:
            self._machine.join(thread)

    def start(self) -> None:
        """Undo :meth:`stop`. Workers come when there is work. Never blocks.

        Raises
        ------
        EngineError
            After :meth:`shutdown`.
        """
        if self._stopped == "shut down":
            raise start_after_shutdown_error()
        self._stopped = ""

    def shutdown(self) -> None:
        """Finish all work, join the workers and write down what was learned. Later calls do nothing. Blocks."""
        if self._stopped != "shut down":
            self.stop()
            self._stopped = "shut down"
            self._costs.save()
            self._tell_unreported()
            if self._switch_before:
                sys.setswitchinterval(self._switch_before)
            if self in engines:
                engines.discard(self)
                interrupts.uninstall()

    def _tell_unreported(self) -> None:
        """Log the errors that no wait has raised: this is the last chance to see them."""
        unread = self.tracker.unreported
        if unread:
            logging.getLogger("mxcore.engine").warning(
                "engine '%s' ends with %d error(s) that nobody waited for; the first: %r",
                self.name,
                len(unread),
                unread[0].error,
            )

    def _rest_of_work(self) -> bool:
        """Wait until nothing is pending, or nothing of it can run any more; return whether nothing is."""
        while True:
            self._lock.acquire()
            try:
                if self._inbox:
                    self._collect()
                pending = self.tracker.pending
                able = self._ready or self._executing > self._asleep
                self._sleepers += 1  # lend the seat
                if able:
                    self._staff_all()
            finally:
                self._leave()
            try:
                if not pending or not able:
                    break
                self._local.parker.park(0.002)
            finally:
                self._lock.acquire()
                self._sleepers -= 1
                self._leave()
        if pending:
            logging.getLogger("mxcore.engine").warning(
                "engine '%s' ends with %d function(s) that wait for an on_complete which nobody called",
                self.name,
                pending,
            )
        return not pending

    # -- fork ------------------------------------------------------------------------------------------------------------

    def _before_fork(self) -> None:
        """Let everything finish, send the workers home, and keep the lock: nobody else is inside when the fork happens."""
        if not self._local.held and not self._stopped:
            if self._machine.ident() != self._pusher:
                self._join()
            deadline = self._machine.now() + int(FORK_S * 1e9)
            waiter = Waiter(self._local.parker, 0, None, everything=True)
            self._lock.acquire()
            try:
                self._collect()
                if self.tracker.pending:
                    self._register(waiter)
                else:
                    waiter.done = True
            finally:
                self._leave()
            while not waiter.done and self._machine.now() < deadline:
                waiter.parker.park(POLL_S)
                if not self._ready and not self._executing:
                    break  # what is left waits for a completion that may be this thread's own business
            self._lock.acquire()
            try:
                if waiter.registered:
                    self._unregister(waiter)
                self._paused = not self._executing
            finally:
                self._leave()
            if self._paused:
                self._dismiss()
        self._lock.acquire()

    def _after_fork_in_parent(self) -> None:
        self._paused = False
        self._staff_all()
        self._leave()

    def _after_fork_in_child(self) -> None:
        """Make locks and workers anew; what other threads were running is lost, and its variables say so."""
        held = list(self._local.held)
        self.forked = True
        self._lock = self._machine.lock()
        self._local = self._machine.local()
        self._local.held[:] = held
        self._paused = False
        self._pusher, self.crowded, self._alone, self._joining = 0, False, False, []
        for pool in self._pools.values():
            while pool.running:
                self._give_seat(pool)
            pool.forget()
            if pool.computes:
                pool.seats = self._child_workers
                pool.spare = False
        self.threads = self._child_workers
        self._outer, self._inner, self._throttled, self._jobs = [], [], [], []
        self._sleepers = self._asleep = self._outstanding = 0
        lost = [work for work in self._running if work not in held]
        self._executing = len(held) + len(lost)
        self._lock.acquire()
        try:
            for work in lost:
                self._completed(
                    work,
                    EngineError(
                        f"{work.name or 'a function'!r} was running in another thread when the process forked: the child does "
                        "not have what it writes. Wait for it before the fork."
                    ),
                )
            self._staff_all()
        finally:
            self._leave()


#: Engines on real threads that have not been shut down.
engines: weakref.WeakSet[Lifecycle] = weakref.WeakSet()


def _before_fork() -> None:
    for engine in list(engines):
        engine._before_fork()


def _after_fork_in_parent() -> None:
    for engine in list(engines):
        engine._after_fork_in_parent()


def _after_fork_in_child() -> None:
    for engine in list(engines):
        engine._after_fork_in_child()


@atexit.register
def _at_exit() -> None:
    """Finish what was pushed to engines that nobody has shut down, as far as it can finish by itself."""
    for engine in list(engines):
        if engine._rest_of_work():
            engine.shutdown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
