"""The scheduler of the threaded engines: worker threads around the pure dependency tracker.

One lock guards the tracker and everything else here; no function, release or completion runs inside it. A push that is
ready and known to be cheap runs in the caller (`_inline`); everything else waits in the tracker until it is ready and
then in the heap of its pool until a worker takes it. Whoever completes a task makes its successors ready, and a worker takes
its next task in the same visit to the lock: a chain never changes threads.

Seats
    Compute threads equal cores. A CPU pool has as many *seats* as there are cores; one of them is the caller's while the
    caller runs Python, and the pool's while the caller sleeps here. A worker that waits inside a function leaves its seat
    to another one, so waiting inside functions cannot use the workers up.

Waiting
    A wait is a marker in the tracker (a read) and needs no worker. Outside of functions a waiter is woken by the completion
    that it waits for. Inside functions a wait may depend on itself: whenever all functions that run are waiting, and none is
    ready, those that wait for all go on, and the others are told that they never can (:meth:`_look_after`).

Deletions
    The garbage collector may delete a variable while this very thread holds the lock. The deletion then stays in the
    inbox, and whoever lets the lock go looks there (:meth:`_leave`).

The tables of costs and the plan of the stream change order and place only. ``benchmarks/engine.py`` guards the push.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import sys
import traceback
from collections import deque
from typing import Any

from mxcore.engine.dependency import (
    QUEUED,
    WRITING,
    Completion,
    DependencyTracker,
    Failure,
    as_failure,
    separate,
    stopped_error,
)
from mxcore.instruments import instruments
from mxcore.spec import EngineError, FnProperty

from .compute import BlasLimit
from .costs import CostTable
from .interrupts import call, free
from .machine import Machine, ThreadMachine
from .plans import Stream
from .pools import Pool, Worker
from .work import Alone, Job, Waiter, Work

__all__ = ["BUSY", "POLL_S", "Scheduler", "forget_frames", "keep_text"]

#: A signal that comes just before a lock wait is only seen after it.
POLL_S = 0.05
#: Bits of a variable on which a write is pending.
BUSY = WRITING | QUEUED

_DELETE = FnProperty.DELETE_VARIABLE


def forget_frames(error: BaseException | None) -> None:
    """Let go of what the frames of an error hold: an error that nobody reads must not keep arrays alive."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def keep_text(error: BaseException | None) -> None:
    """As :func:`forget_frames`, where the frames that called are the caller's own and hold the arrays: keep their lines only."""
    while error is not None:
        if error.__traceback__ is not None:
            error.add_note("Raised at:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip())
            error.__traceback__ = None
        error = error.__cause__ or error.__context__


class Scheduler:
    """State, pools, workers and waits of an engine; what it offers is in the classes above."""

    name = "scheduler"

    def __init__(
        self,
        *,
        workers: int | None = None,
        copy_workers: int = 1,
        priority_workers: int | None = None,
        gpu_workers: int = 2,
        child_workers: int = 1,
        costs: CostTable | None = None,
        max_tasks: int = 4096,
        max_bytes: int = 1 << 30,
        learn: bool = True,
        switch_interval: float = 0.0,
        machine: Machine | None = None,
    ) -> None:
        for option, number in (("workers", workers), ("copy_workers", copy_workers), ("max_tasks", max_tasks)):
            if number is not None and number < 1:
                raise EngineError(f"engine '{self.name}': {option}={number}: at least 1 is needed.")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        #: Threads that compute on the CPU, the caller included.
        self.threads = workers or cores
        self._copy_workers = copy_workers
        self._priority_workers = priority_workers or min(4, self.threads)
        self._gpu_workers = gpu_workers
        self._child_workers = child_workers
        self._max_tasks = max_tasks
        self._max_bytes = max_bytes
        self.learn = learn
        self._machine: Machine = machine or ThreadMachine()
        self._costs = costs if costs is not None else CostTable()
        #: Scope in which BLAS uses one thread; dispatch hands over the op library's own.
        self.limit: Any = BlasLimit()
        self.tracker = self.new_tracker()
        self.stream = Stream()
        self.crowded = False
        #: In a forked child, which has fewer workers but must compute the same bits.
        self.forked = False
        self._pusher = 0
        self._alone = False  # the only pusher is in _run_alone, its sets not marked
        self._entry = Alone()
        self._joining: list[Any] = []
        self._kinds: dict[Any, tuple[Any, Any]] = {}
        self._pools: dict[Any, Pool] = {}
        self._orders = itertools.count().__next__
        self._inbox: deque[Any] = deque()
        self._releases: deque[Work] = deque()
        self._running: dict[Any, None] = {}  # what runs, and asynchronous functions that have not completed
        self._ready = 0  # tasks in heaps and releases
        self._executing = 0  # functions that run, inside each other counted each
        self._asleep = 0  # of those, the ones whose thread sleeps in a wait
        self._outstanding = 0  # asynchronous functions that returned and have not completed
        self._bytes = 0
        self._sleepers = 0  # threads outside of functions that sleep here
        self._outer: list[Waiter] = []  # of those, the ones that wait for all
        self._inner: list[Waiter] = []  # waits inside functions
        self._throttled: list[Waiter] = []
        self._jobs: list[Job] = []
        self._limited = 0
        self._stopped = ""
        self._paused = False
        #: What happened, for :func:`mxcore.engine.explain`: (name, predicted ns, ns, where, why).
        self.journal: deque[tuple[str, int, int, str, str]] = deque(maxlen=20_000)
        self._lock = self._machine.lock()
        self._local = self._machine.local()
        self._switch_before = sys.getswitchinterval() if switch_interval else 0.0
        if switch_interval:
            sys.setswitchinterval(switch_interval)
        self.real = machine is None

    @staticmethod
    def new_tracker() -> DependencyTracker:
        """Return the tracker to use (a subclass may plant a bug here)."""
        return DependencyTracker()

    # -- the lock --------------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Let the lock go, and look after what came while it was taken."""
        self._lock.release()
        if self._inbox or self._releases:
            self._settle()

    def _settle(self) -> None:
        """Push the deletions in the inbox, and run the releases that are due. Without the lock; never blocks."""
        while self._inbox or self._releases:
            if not self._lock.acquire(False):
                return  # whoever has the lock comes here when it lets it go
            work = None
            try:
                self._collect()
                if self._releases:
                    work = self._releases.popleft()
                    self._ready -= 1
                    self._begin(work)
            finally:
                self._lock.release()
            if work is not None:
                self._run_to_end(work, reraise=True)

    def _collect(self) -> None:
        """Push the deletions that came while the lock was taken, and note the errors of releases."""
        while self._inbox:
            work = self._inbox.popleft()
            if work.__class__ is Failure:
                self.tracker.note(work)
            else:
                self._admit(self.tracker.append(work))

    # -- who pushes ------------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Note that this thread pushes. Without the lock.

        The only pusher runs cheap functions without the lock (:meth:`_run_alone`); the second one waits here until the first
        has ended the one that it is in, and from then on both take the lock.
        """
        local = self._local
        self._lock.acquire()
        try:
            if not self._pusher:
                self._pusher = self._machine.ident()
                return
            if not self.crowded:
                self.crowded = True
            self._joining.append(local.parker)
        finally:
            self._leave()
        while self._alone:
            local.parker.park(POLL_S)

    def _end_alone(self) -> None:
        self._alone = False
        for parker in list(self._joining):
            parker.unpark()

    def _claim_late(self, entry: Any) -> None:
        """Mark the sets of a function that :meth:`_run_alone` runs: it is about to push or to wait."""
        if entry.__class__ is not Alone or entry.sets is not None:
            return
        sets = separate(entry.reads, entry.writes)
        self._lock.acquire()
        try:
            self.tracker.claim(sets[1], sets[2])
            self._executing += 1
            entry.sets = sets
        finally:
            self._leave()
        self._end_alone()

    def _refuse(self, name: str) -> None:
        """Raise if the engine is stopped. With the lock."""
        if self._stopped and not self._local.held:
            raise stopped_error(name, self._stopped)

    # -- what is ready ---------------------------------------------------------------------------------------------------

    def _pool(self, work: Work) -> Pool:
        """Return the pool for ``work``. With the lock."""
        key = self._pool_key(work.prop, work.device)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._new_pool(key)
        return pool

    def _pool_key(self, prop: FnProperty, device: Any) -> Any:
        return "copy" if prop == FnProperty.COPY_FROM_GPU or prop == FnProperty.COPY_TO_GPU else "cpu"

    def _new_pool(self, key: Any) -> Pool:
        if key == "copy":
            return Pool("copy", self._copy_workers)
        return Pool("cpu", self.threads, spare=True, computes=True)

    def _admit(self, ready: list[Any]) -> None:
        """Put ready tasks where a worker finds them; complete at once what needs none. With the lock."""
        tracker = self.tracker
        touched: Any = None
        several: list[Pool] | None = None
        i = 0
        while i < len(ready):
            work = ready[i]
            i += 1
            payload = work.payload
            if payload.__class__ is Waiter:
                payload.failure = work.inherited
                self._wake(payload)
                ready += tracker.complete(work)
            elif work.fn is None or work.skipped:
                self._bytes -= work.nbytes
                if work.number:
                    self._emit_skipped(work)
                ready += tracker.complete(work)
            elif work.prop == _DELETE:
                self._ready += 1
                self._releases.append(work)
            else:
                pool = work.pool
                heapq.heappush(pool.heap, (-work.priority, -work.rank, self._orders(), work))
                self._ready += 1
                if touched is None:
                    touched = pool
                elif pool is not touched:
                    several = [pool] if several is None else [*several, pool]
        if touched is not None:
            self._staff(touched)
            for pool in several or ():
                self._staff(pool)
        if self._outer or self._inner or self._throttled:
            self._look_after()

    @staticmethod
    def _emit_skipped(work: Work) -> None:
        failure = work.inherited
        instruments.emit("begin", work.number, work.name, work.device)
        instruments.emit("end", work.number, work.name, work.device, failure and failure.error)

    def _seats(self, pool: Pool) -> int:
        return pool.seats - 1 if pool.spare and not self._sleepers else pool.seats

    def _staff(self, pool: Pool) -> None:
        """Wake as many workers as find work and a seat. With the lock."""
        local = self._local
        if local.quiet:
            local.woken += 1
            if local.woken < local.quiet:
                return
            local.woken = 0
        wanted = len(pool.heap) - pool.coming
        if wanted > 0:
            self._wake_workers(pool, wanted)

    def _wake_workers(self, pool: Pool, wanted: int) -> None:
        if self._paused:
            return
        seats = self._seats(pool)
        while wanted > 0 and pool.running < seats:
            wanted -= 1
            self._take_seat(pool)
            pool.coming += 1
            if pool.idle:
                worker = pool.idle.pop()
                worker.resting = False
                worker.coming = True
                worker.parker.unpark()
            else:
                worker = Worker(self._machine.parker())
                worker.coming = True
                pool.workers.append(worker)
                name = f"mxcore-{pool.name}-{len(pool.workers) - 1}"
                worker.thread = self._machine.spawn(functools.partial(self._serve, pool, worker), name)

    def _take_seat(self, pool: Pool) -> None:
        pool.running += 1
        if pool.computes and pool.seats > 1:
            self._limited += 1
            if self._limited == 1:
                self.limit.__enter__()

    def _give_seat(self, pool: Pool) -> None:
        pool.running -= 1
        if pool.computes and pool.seats > 1:
            self._limited -= 1
            if self._limited == 0:
                self.limit.__exit__(None, None, None)

    def _staff_all(self) -> None:
        for pool in self._pools.values():
            if pool.heap:
                self._staff(pool)
            if self._jobs and pool.computes:
                self._wake_workers(pool, len(self._jobs))

    # -- workers ---------------------------------------------------------------------------------------------------------

    def _serve(self, pool: Pool, worker: Worker) -> None:
        """What a worker does all its life."""
        local = self._local
        local.pool = pool
        lock = self._lock
        work: Any = None
        error: BaseException | None = None
        while True:
            lock.acquire()
            try:
                if worker.retired:  # with nothing to report: a worker is sent home when nothing runs
                    return
                if worker.coming:
                    worker.coming = False
                    pool.coming -= 1
                if work is not None:
                    pool.coming += 1  # this worker comes for what becomes ready
                    self._completed(work, error)
                    pool.coming -= 1
                work = error = None
                job = None
                if self._inbox:
                    self._collect()
                if worker.resting:
                    pass  # a wake that was meant for something else
                elif self._paused or pool.running > self._seats(pool):
                    self._rest(pool, worker)
                elif pool.heap:
                    work = heapq.heappop(pool.heap)[3]
                    self._ready -= 1
                    self._begin(work)
                elif pool.computes and (job := self._open_job()) is not None:
                    pass
                else:
                    self._rest(pool, worker)
            finally:
                self._leave()
            if work is not None:
                error = self._run(work, pool.name)
                if work.asynchronous:
                    work = None
            elif job is not None:
                self._help(job)
                job = None  # the arrays of a finished job must not wait for the next one
            else:
                worker.parker.park()
                # To help with a job it needs no lock; what is at stake between two kernels is microseconds.
                while (job := worker.job) is not None:
                    worker.job = None
                    self._help(job)
                    job = None
                    if worker.coming or worker.retired:
                        break
                    worker.parker.park()

    def _help(self, job: Job) -> None:
        """Work on a job, standing for the thread whose it is: what waits in a piece waits inside its functions."""
        held = self._local.held
        if job.held:
            held.extend(job.held)
        job.work()
        del held[:]

    def _rest(self, pool: Pool, worker: Worker) -> None:
        self._give_seat(pool)
        worker.resting = True
        pool.idle.append(worker)
        if self._paused or len(pool.heap) <= pool.coming:
            return
        self._staff(pool)  # it left only because of a seat that came free again meanwhile

    def _open_job(self) -> Job | None:
        for job in self._jobs:
            if len(job.finished) + 1 < len(job.pieces):
                return job
        return None

    def _begin(self, work: Work) -> None:
        """Count ``work`` as running. With the lock."""
        self._executing += 1
        self._running[work] = None

    def _run(self, work: Work, where: str = "") -> BaseException | None:
        """Call the function of a task that has begun; return its error. An asynchronous one completes itself."""
        held = self._local.held
        held.append(work)
        error: BaseException | None = None
        number = work.number
        if number:
            instruments.emit("begin", number, work.name, work.device)
        estimate = work.estimate
        try:
            if work.asynchronous:
                self._run_async(work)
            elif estimate is not None and estimate.countdown <= 0 and self.learn:
                began = self._machine.now()
                call(work.fn)
                took = self._machine.now() - began
                self.journal.append((work.name, estimate.ns, took, where or "caller", work.why))
                estimate.record(took)
            else:
                if estimate is not None:
                    estimate.countdown -= 1
                call(work.fn)
        except BaseException as caught:
            error = caught
        held.pop()
        if number and not work.asynchronous:
            instruments.emit("end", number, work.name, work.device, error)
        work.fn = None  # what it holds must not outlive it
        return error

    def _run_to_end(self, work: Work, reraise: bool = False) -> None:
        """Run and complete a task that has begun, in this thread."""
        error = self._run(work)
        if not work.asynchronous:
            self._lock.acquire()
            try:
                self._completed(work, error)
            finally:
                self._leave()
        if reraise and error is not None and not isinstance(error, Exception):
            raise error

    def _run_async(self, work: Work) -> None:
        def ended(error: BaseException | None) -> None:
            if work.number:
                instruments.emit("end", work.number, work.name, work.device, error)
            self._lock.acquire()
            try:
                if returned:
                    self._outstanding -= 1
                self._executing += 1  # _completed() takes one off, and its function still counts until it returns
                self._completed(work, error)
            finally:
                self._leave()

        returned = False
        completion = Completion(work.name, ended)
        fn = work.fn
        assert fn is not None
        raised: BaseException | None = None
        late = False  # raised after it had completed: wait_for_all tells
        try:
            call(fn, completion)
        except BaseException as caught:
            raised = caught
            late = not completion.end(caught)
        self._lock.acquire()
        try:
            returned = True
            self._executing -= 1
            if work in self._running:
                self._outstanding += 1
            elif late and isinstance(raised, Exception):
                self.tracker.fail(raised, work.name, work.site)
            if self._outer or self._inner or self._throttled:
                self._look_after()
        finally:
            self._leave()
        if raised is not None and not isinstance(raised, Exception):
            raise raised

    def _completed(self, work: Work, error: BaseException | None) -> None:
        """Record that a running task ended; make ready what waited for it. With the lock."""
        self._executing -= 1
        self._running.pop(work, None)
        self._bytes -= work.nbytes
        if error is not None:
            forget_frames(error)
        ready = self.tracker.complete(work, None if error is None else as_failure(error, work.name))
        if ready:
            self._admit(ready)
        elif self._outer or self._inner or self._throttled:
            self._look_after()

    # -- waiting ---------------------------------------------------------------------------------------------------------

    def _wait_for_quiet(self) -> None:
        local = self._local
        waiter = Waiter(local.parker, len(local.held), local.pool, everything=True)
        if waiter.depth:
            self._claim_late(local.held[0])
        else:
            self.stream.marked = True
        self._lock.acquire()
        try:
            if self._inbox:
                self._collect()
            if waiter.depth or self.tracker.pending:
                self._register(waiter)
            else:
                waiter.done = True
        finally:
            self._leave()
        self._sleep(waiter, "wait_for_all()")

    def _register(self, waiter: Waiter) -> None:
        """Count a thread as sleeping, and give its seat away. With the lock."""
        waiter.registered = True
        local = self._local
        local.woken = 0
        quiet, local.quiet = local.quiet, 0
        if waiter.depth:
            self._inner.append(waiter)
            self._asleep += waiter.depth
            if waiter.pool is not None:
                self._give_seat(waiter.pool)
        else:
            if waiter.everything:
                self._outer.append(waiter)
            self._sleepers += 1
        self._staff_all()
        local.quiet = quiet
        if self._inner:
            self._look_after()

    def _unregister(self, waiter: Waiter) -> None:
        """Count it as awake. With the lock."""
        waiter.registered = False
        if waiter.depth:
            self._inner.remove(waiter)
            self._asleep -= waiter.depth
            if waiter.pool is not None:
                self._take_seat(waiter.pool)
        else:
            if waiter.everything:
                self._outer.remove(waiter)
            self._sleepers -= 1

    def _wake(self, waiter: Waiter) -> None:
        """What ``waiter`` waits for has come. With the lock."""
        waiter.done = True
        if waiter.registered:
            self._unregister(waiter)
            waiter.parker.unpark()

    def _sleep(self, waiter: Waiter, what: str) -> None:
        """Sleep until ``waiter`` is woken. Without the lock."""
        if waiter.done and not waiter.stuck:
            return
        if instruments.wait:
            instruments.emit("wait", what)
        try:
            while not waiter.done:
                self._park(waiter.parker)
        finally:
            if not waiter.done:  # interrupted
                self._lock.acquire()
                try:
                    if waiter.registered:
                        self._unregister(waiter)
                    if waiter in self._throttled:
                        self._throttled.remove(waiter)
                finally:
                    self._leave()
            if instruments.wait_end:
                instruments.emit("wait_end", what)
        if waiter.stuck:
            raise EngineError(
                f"{what} inside a function: the wait cannot end. Every function that runs waits, and none is ready: "
                "what it waits for comes after the function itself. Wait after the push, or list the variable among "
                "what the function reads."
            )

    @staticmethod
    @free
    def _park(parker: Any) -> None:
        parker.park(POLL_S)

    def _look_after(self) -> None:
        """Wake those whose time has come. With the lock."""
        if self._outer and not self.tracker.pending:
            for waiter in list(self._outer):
                self._wake(waiter)
        if self._throttled and self._has_room():
            for waiter in list(self._throttled):
                self._throttled.remove(waiter)
                self._wake(waiter)
        if self._inner and not self._ready and not self._outstanding and self._executing == self._asleep:
            # Nothing can move but those who wait: for all, which is what they wait for; or in a circle.
            quiet = [waiter for waiter in self._inner if waiter.everything]
            for waiter in quiet or list(self._inner):
                waiter.stuck = not quiet
                self._wake(waiter)

    def _has_room(self) -> bool:
        low = self.tracker.pending <= self._max_tasks * 3 // 4 and self._bytes <= self._max_bytes * 3 // 4
        return low or (not self._ready and not self._executing)
