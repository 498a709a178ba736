"""The threaded engines: what they offer, and how a push finds its place.

A push that is ready and known to be cheap runs in the caller: without the lock while only one thread pushes
(:meth:`ThreadedEngine._run_alone`), else as a claim (:meth:`ThreadedEngine._inline`). Everything else goes to the scheduler
(:mod:`mxcore_engine_threaded.scheduler`). The tables of costs and the plan of the stream change order and place only.
``benchmarks/engine.py`` guards the push.
"""

from __future__ import annotations

import contextlib
import functools
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mxcore.engine.dependency import (
    FAILED,
    RETIRED,
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
from .costs import CostTable, Estimate
from .interrupts import call
from .lifecycle import Lifecycle
from .plans import Stream
from .pools import Pool
from .scheduler import BUSY, POLL_S, Scheduler, keep_text
from .work import Job, Waiter, Work

__all__ = ["ThreadedEngine", "ThreadedEnginePerDevice"]

#: Predicted to take less than this: not worth a thread's hop (9 microseconds each way, and 90 % efficiency).
INLINE_NS = 160_000
#: Predicted to take less than this: too little to matter in a plan.
TINY_NS = 50_000
#: Functions run in the caller inside each other at most so deep.
INLINE_DEPTH = 8

_DELETE = FnProperty.DELETE_VARIABLE
_ASYNC = FnProperty.ASYNC


class ThreadedEngine(Lifecycle):
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
            count as one kind. Once they are known to be cheap they may run in the caller: such a function must not wait
            for something that the caller does after the push.
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
        """Return the estimate of functions made by this ``def`` or ``lambda``, pushed under this name.

        A callable whose lines cannot be told (a builtin, an object) is never known to be cheap: what it does may differ.
        """
        if fn is None:
            raise EngineError(
                f"push of {name or 'a function'!r}: the function is None. Push something that can be called."
            )
        while fn.__class__ is functools.partial:
            fn = fn.func
        code = getattr(fn, "__code__", None)
        if code is None:
            return Estimate(None)
        try:
            return self._kinds[id(code), name][0]
        except KeyError:
            if len(self._kinds) > 10_000:
                self._kinds.clear()
            where = (code.co_filename, code.co_firstlineno, zlib.crc32(code.co_code), *code.co_names)
            key = ("push", name, code.co_qualname, *where)
            estimate = self._costs.estimate(key)
            self._kinds[id(code), name] = estimate, code  # holding the code keeps its id its own
            return estimate

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
        if not variable.flags & (BUSY | RETIRED) and not variable.readers:
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
        if not variable.flags & BUSY:
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
            if variable.flags & BUSY:
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
        marker = Work(None, ((variable,), (variable,), ()), name="wait", payload=waiter)
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
        keep_text(error)
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


_OWN = (ThreadedEngine, ThreadedEnginePerDevice, Lifecycle, Scheduler, DependencyTracker, Completion, Stream, Job)
for _own in (*_OWN, CostTable, Estimate):
    interrupts.guard(_own)
