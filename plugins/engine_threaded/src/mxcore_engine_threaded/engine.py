"""The threaded engines: worker threads around the pure dependency tracker.

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

import contextlib
import functools
import heapq
import itertools
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mxcore.engine.dependency import (
    FAILED,
    QUEUED,
    RETIRED,
    WRITING,
    Completion,
    DependencyTracker,
    Failure,
    Operation,
    Variable,
    as_failure,
    push_site,
    retire,
    retired_error,
    separate,
)
from mxcore.engine.pieces import pieces, run_serially
from mxcore.instruments import identity, instruments
from mxcore.spec import EngineCapability, EngineError, FnProperty

from . import interrupts
from .compute import BlasLimit
from .costs import CostTable, Estimate
from .interrupts import call, free
from .machine import Machine, ThreadMachine
from .plans import Stream
from .pools import Pool, Worker
from .work import Alone, Job, Waiter, Work

__all__ = ["ThreadedEngine", "ThreadedEnginePerDevice"]

#: Predicted to take less than this: not worth a thread's hop (9 microseconds each way, and 90 % efficiency).
INLINE_NS = 160_000
#: Predicted to take less than this: too little to matter in a plan.
TINY_NS = 50_000
#: Functions run in the caller inside each other at most so deep.
INLINE_DEPTH = 8
#: A signal that comes just before a lock wait is only seen after it.
POLL_S = 0.05
#: How long a fork waits for what is pending.
FORK_S = 10.0

_BUSY = WRITING | QUEUED
_DELETE = FnProperty.DELETE_VARIABLE
_ASYNC = FnProperty.ASYNC
_MARKER = "wait"
_engines: weakref.WeakSet[ThreadedEngine] = weakref.WeakSet()


class ThreadedEngine:
    """One pool of workers for everything.

    Parameters
    ----------
    workers : int or None
        Threads that compute, the caller included (None: cores).
    copy_workers : int
        Threads for copies from and to other devices.
    costs : CostTable or None
        What is known from earlier runs (None: begin with nothing, and keep nothing).
    max_tasks, max_bytes : int
        How far a caller may run ahead: further pushes sleep.
    learn : bool
        Whether costs and plans decide where and in which order functions run. Results never depend on it.
    switch_interval : float
        Seconds for ``sys.setswitchinterval`` until :meth:`shutdown`; 0 leaves it alone. A worker that comes back from a kernel
        waits up to 5 ms for a caller that keeps the GIL; 0.0005 to 0.001 is reasonable.
    machine : Machine or None
        What to run on (None: real threads).

    Examples
    --------
    >>> engine = ThreadedEngine(workers=2)
    >>> x, log = engine.new_variable("x"), []
    >>> engine.push(lambda: log.append("ran"), writes=[x])
    >>> engine.wait_for_variable(x)
    >>> log, x.version
    (['ran'], 1)
    >>> engine.shutdown()
    """

    name = "threaded"
    capabilities = frozenset(
        {
            EngineCapability.CONCURRENT,
            EngineCapability.PRIORITY,
            EngineCapability.PARALLEL_FOR,
            EngineCapability.INLINE_FIRST,
        }
    )

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
        if machine is None:
            _engines.add(self)
            interrupts.install()

    @staticmethod
    def new_tracker() -> DependencyTracker:
        """Return the tracker to use (a subclass may plant a bug here)."""
        return DependencyTracker()

    # -- the lock ------------------------------------------------------------------------------------------------

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

    # -- pushing -------------------------------------------------------------------------------------------------

    def new_variable(self, name: str = "") -> Variable:
        """Return a fresh variable. Never blocks."""
        return Variable(name)

    def push(
        self,
        fn: Callable[[], Any],
        reads: Iterable[Any] = (),
        writes: Iterable[Any] = (),
        *,
        prop: FnProperty = FnProperty.NORMAL,
        priority: int = 0,
        name: str = "",
        device: Any = None,
        nbytes: int = 0,
        estimate: Any = None,
        why: str = "",
    ) -> None:
        """Schedule ``fn()`` behind everything pushed earlier that it depends on, or run it now if that is known to be cheap.

        Blocks while the caller is too far ahead (``max_tasks``, ``max_bytes``), and while a function that is known to be cheap
        runs in the caller. Never raises what ``fn`` raises.

        Parameters
        ----------
        nbytes : int
            Bytes that its results will occupy.
        estimate : Estimate or None
            From :meth:`estimate`; None: functions made by the same ``def`` or ``lambda`` and pushed under one name
            count as one kind.
        why : str
            Why the caller hands it over, for :meth:`explain`.
        """
        if estimate is None:
            estimate = self._kind(fn, name)
        if 0 < estimate.ns < INLINE_NS and self.learn:
            if not self.crowded:
                if reads.__class__ is not tuple:
                    reads = tuple(reads)
                if writes.__class__ is not tuple:
                    writes = tuple(writes)
                if self._run_alone(fn, reads, writes, name, estimate):
                    return
            sets = separate(reads, writes)
            if self._inline(fn, sets, prop, name, device, estimate):
                return
            why = why or "something it needs is pending"
        else:
            sets = separate(reads, writes)
        self._submit(Work(fn, sets, prop, priority, name, device, False, push_site(), None, nbytes, estimate, why))

    def push_async(
        self,
        fn: Callable[[Callable[..., None]], Any],
        reads: Iterable[Any] = (),
        writes: Iterable[Any] = (),
        *,
        prop: FnProperty = FnProperty.ASYNC,
        priority: int = 0,
        name: str = "",
        device: Any = None,
        nbytes: int = 0,
        estimate: Any = None,
    ) -> None:
        """Schedule ``fn(on_complete)``; with ``ASYNC`` it runs in the caller if everything is ready."""
        if estimate is None:
            estimate = self._kind(fn, name)
        work = Work(
            fn, separate(reads, writes), prop, priority, name, device, True, push_site(), None, nbytes, estimate
        )
        self._submit(work, prop == _ASYNC and len(self._local.held) < INLINE_DEPTH)

    def new_operation(
        self,
        fn: Callable[[], Any],
        reads: Iterable[Any] = (),
        writes: Iterable[Any] = (),
        *,
        prop: FnProperty = FnProperty.NORMAL,
        name: str = "",
        device: Any = None,
    ) -> Operation:
        """Return a reusable operation. Never blocks."""
        return Operation(fn, reads, writes, prop, name, device)

    def push_operation(self, operation: Any, *, priority: int = 0) -> None:
        """Schedule one run of ``operation``; see :meth:`push`."""
        op = operation
        estimate = self._kind(op.fn, op.name)
        why = ""
        if 0 < estimate.ns < INLINE_NS and self.learn:
            if not self.crowded and self._run_alone(op.fn, op.sets[0], op.sets[2], op.name, estimate):
                return
            if self._inline(op.fn, op.sets, op.prop, op.name, op.device, estimate):
                return
            why = "something it needs is pending"
        self._submit(
            Work(op.fn, op.sets, op.prop, priority, op.name, op.device, False, push_site(), None, 0, estimate, why)
        )

    def _kind(self, fn: Any, name: str) -> Any:
        """Return the estimate of functions with this code and name."""
        code = getattr(fn, "__code__", None)
        if code is None:
            code = fn.__class__
        try:
            return self._kinds[id(code), name][0]
        except KeyError:
            if len(self._kinds) > 10_000:
                self._kinds.clear()
            key = ("push", name, getattr(code, "co_qualname", code.__name__ if isinstance(code, type) else ""))
            estimate = self._costs.estimate(key)
            self._kinds[id(code), name] = estimate, code  # holding the code keeps its id its own
            return estimate

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

    def _run_alone(self, fn: Any, reads: tuple[Any, ...], writes: tuple[Any, ...], name: str, estimate: Any) -> bool:
        """Run ``fn`` now, without the lock, if this is the only thread that pushes and nothing is pending on the sets.

        Nothing can become pending meanwhile but by ``fn`` itself: before it pushes or waits, :meth:`_claim_late` marks the
        sets. This is what a push of something cheap costs; ``benchmarks/engine.py`` guards it ("chain").
        """
        held = self._local.held
        if held or self._machine.ident() != self._pusher or self._stopped or instruments.push:
            return False
        flags = stamp = 0
        for variable in reads:
            flags |= variable.flags
            if variable.stamp > stamp:
                stamp = variable.stamp
        for variable in writes:
            flags |= variable.flags | variable.readers
        if flags or (len(writes) > 1 and len(set(writes)) != len(writes)):
            return False
        entry = self._entry
        entry.name, entry.reads, entry.writes = name, reads, writes
        self._alone = True
        if self.crowded:  # it came between
            self._end_alone()
            return False
        held.append(entry)
        error: BaseException | None = None
        try:
            if estimate.countdown > 0:
                estimate.countdown -= 1
                call(fn)
            else:
                began = self._machine.now()
                call(fn)
                took = self._machine.now() - began
                self.journal.append((name, estimate.ns, took, "caller", "cheap, and nothing pending"))
                estimate.record(took)
        except BaseException as caught:
            error = caught
        del held[:]
        if estimate.ns >= TINY_NS:
            self._lock.acquire()
            try:
                self.stream.observe(estimate, reads, writes)
            finally:
                self._leave()
        else:
            for variable in writes:
                variable.stamp = stamp  # as Stream.passed
        if entry.sets is None and error is None and not entry.after:
            for variable in writes:
                variable.version += 1
            self._alone = False
            if self.crowded:
                self._end_alone()
            return True
        sets, entry.sets = entry.sets, None
        if sets is not None:
            self._release(sets[1], sets[2], error, name)
        elif error is not None:
            self.fail(writes, error, name)
        else:
            for variable in writes:
                variable.version += 1
        if sets is None:
            self._end_alone()
        if entry.after:
            self._inbox.extend(entry.after)
            entry.after.clear()
            self._settle()
        entry.reads = entry.writes = ()
        if error is not None and not isinstance(error, Exception):
            raise error
        return True

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

    def _release(self, reads: tuple[Any, ...], writes: tuple[Any, ...], error: BaseException | None, name: str) -> None:
        """End a claim."""
        self._lock.acquire()
        try:
            self._executing -= 1
            failure = None if error is None else self.tracker.fail(as_failure(error, name), name, push_site(skip=4))
            ready = self.tracker.release(reads, writes, failure)
            if ready:
                self._admit(ready)
            if self._outer or self._inner or self._throttled:
                self._look_after()
        finally:
            self._leave()

    def _refuse(self, name: str) -> None:
        """Raise if the engine is stopped. With the lock."""
        if self._stopped and not self._local.held:
            raise EngineError(
                f"push of {name or 'a function'!r}: the engine is {self._stopped}. "
                + ("Make a new engine." if self._stopped == "shut down" else "Call engine.start() first.")
            )

    def _submit(self, work: Work, here: bool = False) -> None:
        """Hand ``work`` to the tracker; with ``here``, run it now if it is ready."""
        local = self._local
        if local.held:
            self._claim_late(local.held[0])
        if self._machine.ident() != self._pusher:
            self._join()
        if instruments.push:
            self._announce(work)
        self._lock.acquire()
        try:
            self._refuse(work.name)
            if self._inbox:
                self._collect()
            tracker = self.tracker
            work.pool = self._pool(work)  # before the tracker has it: a device that cannot be hashed ends here
            ready = tracker.push(work)
            if self.learn:
                work.rank = self._observe(work.estimate, work.inputs, work.writes, work.nbytes)
            self._bytes += work.nbytes
            if ready:
                if here and not work.skipped:
                    self._begin(work)
                else:
                    here = False
                    self._admit(ready)
            else:
                here = False
            far = tracker.pending > self._max_tasks or self._bytes > self._max_bytes
        finally:
            self._leave()
        if here:
            self._run_to_end(work, reraise=True)
        elif far and not local.held:
            self._throttle()

    def _observe(self, estimate: Any, inputs: tuple[Any, ...], writes: tuple[Any, ...], nbytes: int) -> int:
        """Tell the stream of a push; return its rank. With the lock.

        What the stream sees must not depend on the moment, so it does not depend on where the function runs.
        """
        if 0 < estimate.ns < TINY_NS:
            self.stream.passed(inputs, writes)
            return 0
        return self.stream.observe(estimate, inputs, writes, nbytes)

    def _announce(self, work: Work) -> None:
        work.number = identity()
        for variable in (*work.inputs, *work.writes):
            variable.mark = variable.mark or identity()
        reads, writes = (tuple(variable.mark for variable in them) for them in (work.inputs, work.writes))
        instruments.emit("push", work.number, work.name, work.priority, work.device, reads, writes)

    def _inline(self, fn: Any, sets: Any, prop: FnProperty, name: str, device: Any, estimate: Any) -> bool:
        """Run ``fn`` now, in this thread, if everything is idle and sound; return whether it was."""
        held = self._local.held
        if len(held) >= INLINE_DEPTH or prop == _DELETE:
            return False
        inputs, reads, writes = sets
        if held:
            self._claim_late(held[0])
        if self._machine.ident() != self._pusher:
            self._join()
        self._lock.acquire()
        try:
            self._refuse(name)
            if self._inbox:
                self._collect()
            if not self.tracker.claim(reads, writes):
                return False
            if self.learn:
                self._observe(estimate, inputs, writes, 0)
            self._executing += 1
        finally:
            self._leave()
        # A claim is held as a task would be: waits inside look at its writes.
        work = Work(fn, sets, prop, 0, name, device)
        if instruments.push:
            self._announce(work)
            instruments.emit("begin", work.number, name, device)
        held.append(work)
        error = None
        try:
            if estimate.countdown <= 0:
                began = self._machine.now()
                call(fn)
                took = self._machine.now() - began
                self.journal.append((name, estimate.ns, took, "caller", "predicted cheap and ready"))
                estimate.record(took)
            else:
                estimate.countdown -= 1
                call(fn)
        except BaseException as caught:
            error = caught
        held.pop()
        self._release(reads, writes, error, name)
        if work.number:
            instruments.emit("end", work.number, name, device, error)
        if error is not None and not isinstance(error, Exception):
            raise error
        return True

    def delete_variable(self, variable: Any, release: Callable[[], Any] | None = None) -> None:
        """Schedule ``release()`` as the last write of ``variable``, or run it now if nothing touches it. Never blocks."""
        if self._alone and self._deleted_inside(variable, release):
            return
        if not variable.flags & (_BUSY | RETIRED) and not variable.readers:
            # Nothing is pending on it and nothing can come any more.
            variable.flags |= RETIRED
            variable.version += 1
            if release is not None:
                try:
                    call(release)
                except Exception as error:
                    variable.failure = failure = Failure(error, "DeleteVariable")
                    variable.flags |= FAILED
                    self._inbox.append(failure)
                    self._settle()
            return
        if variable.flags & RETIRED:
            raise retired_error(variable, "DeleteVariable")
        task = retire(variable, release)
        sets = task.inputs, task.reads, task.writes
        self._inbox.append(Work(release, sets, _DELETE, name="DeleteVariable"))
        self._settle()

    def _deleted_inside(self, variable: Any, release: Any) -> bool:
        """Put off a deletion by the function that the only pusher runs without the lock, of a variable that it holds."""
        held = self._local.held
        if not held or held[0] is not self._entry:
            return False
        entry = self._entry
        if entry.sets is not None or (variable not in entry.reads and variable not in entry.writes):
            return False
        task = retire(variable, release)
        entry.after.append(Work(release, (task.inputs, task.reads, task.writes), _DELETE, name="DeleteVariable"))
        return True

    # -- what is ready -------------------------------------------------------------------------------------------

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

    # -- workers -------------------------------------------------------------------------------------------------

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
        ready = self.tracker.complete(work, None if error is None else as_failure(error, work.name))
        if ready:
            self._admit(ready)
        elif self._outer or self._inner or self._throttled:
            self._look_after()

    # -- waiting -------------------------------------------------------------------------------------------------

    def wait_for_variable(self, variable: Any) -> None:
        """Block until the writes pushed on ``variable`` so far are done; raise its error if it failed.

        Ctrl-C interrupts it. Inside a function the worker leaves its seat to another one meanwhile.

        Raises
        ------
        EngineError
            If the wait cannot end: the function that waits, or another that waits for it, must write the variable.
        """
        self._machine.touched()
        held = self._local.held
        if held:
            self._claim_late(held[0])
        else:
            self.stream.marked = True
        if not variable.flags & _BUSY:
            failure = variable.failure
            if failure is None:
                return
            self._report(failure)
        waiter = self._wait(variable)
        if waiter.failure is not None:
            self._report(waiter.failure)

    def settle(self, variables: Iterable[Any]) -> None:
        """See :class:`mxcore.spec.InlineFirst`."""
        held = self._local.held
        if held:
            self._claim_late(held[0])
        for variable in variables:
            if variable.flags & _BUSY:
                self._wait(variable)

    def _wait(self, variable: Any) -> Waiter:
        """Sleep until the writes pushed on ``variable`` so far are done."""
        local = self._local
        for work in local.held:
            if variable in work.writes:
                raise EngineError(
                    f"wait_for_variable({variable.name or hex(id(variable))!r}) inside {work.name or 'a function'!r}, "
                    "which writes it: the wait cannot end. Wait after the push, or read what the function itself computed."
                )
        waiter = Waiter(local.parker, len(local.held), local.pool)
        marker = Work(None, ((variable,), (variable,), ()), name=_MARKER, payload=waiter)
        what = f"wait_for_variable({variable.name or hex(id(variable))!r})"
        self._lock.acquire()
        try:
            if self._inbox:
                self._collect()
            self._admit(self.tracker.append(marker))
            if not waiter.done:
                self._register(waiter)
        finally:
            self._leave()
        self._sleep(waiter, what)
        return waiter

    def _report(self, failure: Failure) -> None:
        """Raise ``failure`` and note that somebody was told."""
        self._lock.acquire()
        try:
            if self._inbox:
                self._collect()  # the failure itself may be there
            self.tracker.report(failure)
        finally:
            self._leave()
        failure.throw()

    def wait_for_all(self) -> None:
        """Block until nothing is pending; raise the oldest error that no wait has reported yet.

        Ctrl-C interrupts it. Inside a function: until all that is left depends on functions that wait.
        """
        self._wait_for_quiet()
        self._lock.acquire()
        try:
            failure = self.tracker.report()
        finally:
            self._leave()
        if failure is not None:
            failure.throw()

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

    def _throttle(self) -> None:
        """Sleep until what was pushed has become less, or nothing of it can run without this thread."""
        waiter = Waiter(self._local.parker, 0, None)
        self._lock.acquire()
        try:
            if self._has_room():
                return
            self._throttled.append(waiter)
            self._register(waiter)
        finally:
            self._leave()
        self._sleep(waiter, "run-ahead")

    # -- inline first, for dispatch ------------------------------------------------------------------------------

    def here(self) -> None:
        """See :class:`mxcore.spec.InlineFirst`."""
        if self._machine.ident() != self._pusher:
            self._join()

    def fail(self, writes: Iterable[Any], error: BaseException, name: str = "") -> None:
        """See :class:`mxcore.spec.InlineFirst`."""
        site = push_site()
        self._lock.acquire()
        try:
            failure = self.tracker.fail(as_failure(error, name), name, site)
            for variable in writes:
                variable.failure = failure
                variable.version += 1
                variable.flags |= FAILED
        finally:
            self._leave()

    def estimate(self, key: tuple[Any, ...]) -> Any:
        """See :class:`mxcore.spec.InlineFirst`."""
        return self._costs.estimate(key)

    def upcoming(self, count: int = 16) -> list[int]:
        """See :class:`mxcore.spec.InlineFirst`."""
        self._lock.acquire()
        try:
            return self.stream.upcoming(count)
        finally:
            self._leave()

    def note(self, name: str, predicted: int, ns: int, where: str, why: str) -> None:
        """See :class:`mxcore.spec.InlineFirst`."""
        self.journal.append((name, predicted, ns, where, why))

    def explain(self) -> str:
        """Return a table of what was predicted, what it took, and why it ran where it did; forget it then. Never blocks."""
        from .explain import explained

        return explained(self)

    # -- the rest ------------------------------------------------------------------------------------------------

    def parallel_for(self, n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
        """Call ``fn(start, stop)`` over fixed pieces of ``range(n)``, in this thread and in workers that have nothing to do.

        Blocks until all pieces are done; raises the error of the earliest failed piece.
        """
        parts = pieces(n, grain)
        if len(parts) < 2 or self.threads < 2 or self._stopped:
            run_serially(n, grain, fn)
            return
        parker = self._local.parker
        job = Job(parts, fn, parker, self._local.held)
        # The way of nearly every call takes no lock: workers that rest are told of the job. Guarded by
        # benchmarks/engine_training.py.
        pool = self._pools.get("cpu")
        wanted = min(len(parts), self.threads) - 1
        free = 0 if pool is None or self._paused else min(wanted, self._seats(pool) - pool.running)
        resting = pool.idle[-free:] if pool is not None and free > 0 else []
        listed = len(resting) < wanted
        with self.limit:
            for worker in resting:
                worker.job = job
                worker.parker.unpark()
            if listed:
                self._list_job(job, wanted)
            job.work()
            while not job.over:
                parker.park(POLL_S)
        if listed:
            self._lock.acquire()
            try:
                self._jobs.remove(job)
            finally:
                self._leave()
        if job.errors:
            raise min(job.errors, key=lambda error: (isinstance(error[1], Exception), error[0]))[1]

    def _list_job(self, job: Job, wanted: int) -> None:
        """Let workers that are busy, or not there yet, find ``job`` when they look for something to do."""
        self._lock.acquire()
        try:
            pool = self._pools.get("cpu")
            if pool is None:
                pool = self._pools["cpu"] = self._new_pool("cpu")
            self._jobs.append(job)
            if not pool.idle:
                self._wake_workers(pool, wanted)
        finally:
            self._leave()

    def set_bulk_size(self, size: int) -> None:
        """From now on, wake workers once for ``size`` pushes of this thread, or when it waits; 0: at every push."""
        local = self._local
        local.quiet, local.woken = max(0, size), 0
        self._lock.acquire()
        try:
            self._staff_all()
        finally:
            self._leave()

    @contextlib.contextmanager
    def bulk(self, size: int) -> Iterator[None]:
        """Wake workers once for ``size`` pushes of this thread, or at the end, or when it waits."""
        local = self._local
        before, local.quiet = local.quiet, max(0, int(size))
        try:
            yield
        finally:
            local.quiet, local.woken = before, 0
            self._lock.acquire()
            try:
                self._staff_all()
            finally:
                self._leave()

    # -- stopping ------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Finish all work and join the workers; pushing afterwards raises EngineError. Blocks.

        Raises
        ------
        EngineError
            Inside a function: it would wait for itself.
        """
        if self._local.held:
            raise EngineError(
                "stop() inside a running function: it would wait for itself. Stop the engine from outside."
            )
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
            raise EngineError("start() after shutdown(): the engine is gone. Make a new one.")
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
            if self in _engines:
                _engines.discard(self)
                interrupts.uninstall()

    def _tell_unreported(self) -> None:
        """Log the errors that no wait has raised: this is the last chance to see them."""
        unread = self.tracker.unreported
        if unread:
            import logging

            logging.getLogger("mxcore.engine").warning(
                "engine '%s' ends with %d error(s) that nobody waited for; the first: %r",
                self.name,
                len(unread),
                unread[0].error,
            )

    # -- fork ----------------------------------------------------------------------------------------------------

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


class ThreadedEnginePerDevice(ThreadedEngine):
    """Pools by device and purpose, as MXNet's default engine has them.

    CPU devices of one number share a pool (``cpu(0)``, ``cpu_pinned(0)``, ``cpu_shared(0)``); CPU-prioritized functions have
    one for the whole process; each GPU has pools for ordinary work, prioritized work and copies. Larger priorities run first
    in all of them (in MXNet only in the prioritized ones and those for copies).
    """

    name = "threaded_per_device"

    def _pool_key(self, prop: FnProperty, device: Any) -> Any:
        kind = getattr(device, "device_type", None)
        if kind is None:
            where: Any = "cpu" if device is None else ("device", device)
        elif kind.startswith("cpu"):
            where = ("cpu", device.device_id) if device.device_id else "cpu"
        else:
            where = (kind, device.device_id)
        if prop == FnProperty.CPU_PRIORITIZED:
            return "cpu priority"
        if prop == FnProperty.COPY_FROM_GPU or prop == FnProperty.COPY_TO_GPU:
            return ("copy", where)
        if prop == FnProperty.GPU_PRIORITIZED:
            return ("priority", where)
        return where

    def _new_pool(self, key: Any) -> Pool:
        if key == "cpu":
            return Pool("cpu", self.threads, spare=True, computes=True)
        if key == "cpu priority":
            return Pool("cpu-priority", self._priority_workers)
        purpose, where = key
        if purpose == "copy":
            return Pool(f"copy-{_label(where)}", self._copy_workers)
        if purpose == "priority":
            return Pool(f"priority-{_label(where)}", self._gpu_workers)
        if purpose == "cpu" or purpose == "device":
            return Pool(_label(key), self.threads)
        return Pool(_label(key), self._gpu_workers)


def _label(where: Any) -> str:
    return where if isinstance(where, str) else "".join(str(part) for part in where).replace("device", "")


for _own in (ThreadedEngine, ThreadedEnginePerDevice, DependencyTracker, Completion, Stream, Job, CostTable, Estimate):
    interrupts.guard(_own)


def _before_fork() -> None:
    for engine in list(_engines):
        engine._before_fork()


def _after_fork_in_parent() -> None:
    for engine in list(_engines):
        engine._after_fork_in_parent()


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
