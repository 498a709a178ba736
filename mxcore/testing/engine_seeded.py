"""SeededEngine: any legal order, chosen by a seed, one step at a time, in one thread.

A deferred engine for tests: ``push`` returns before the function ran. Functions run only in :meth:`SeededEngine.step`
and in waits, which take steps until they are satisfied. Every choice is recorded in :attr:`SeededEngine.schedule` and
can be replayed, so a failure found by chance is a failure that can be debugged.

A function is two steps, *run* and *complete*: between them other functions run, as they would beside a worker that
has not reported back yet. :meth:`SeededEngine.later` adds a step of the caller's own; an asynchronous function that
ends in one overlaps with others as it would on real threads.
"""

from __future__ import annotations

import contextlib
import functools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from ..engine.dependency import (
    FAILED,
    Completion,
    DependencyTracker,
    Failure,
    Operation,
    Sets,
    Task,
    Variable,
    as_failure,
    push_site,
    retire,
    separate,
    start_after_shutdown_error,
    stop_inside_error,
    stopped_error,
)
from ..engine.pieces import pieces
from ..spec.engine import EngineCapability, FnProperty
from ..spec.errors import EngineError

__all__ = ["POLICIES", "SeededEngine"]

#: ``random``: any step, evenly. ``pct``: random priorities with ``depth - 1`` demotions (Burckhardt et al. 2010:
#: finds a bug of depth d in n functions and k steps with probability at least 1/(n * k**(d-1))).
POLICIES = ("random", "pct", "fifo", "lifo")

_POLL_S = 0.1  # a signal that comes just before a lock wait is only seen after it


class _Step:
    """Something that may be done next. ``rank`` is its priority under ``pct``."""

    __slots__ = ("call", "number", "rank")

    def __init__(self, number: int, call: Callable[[], Any], rank: float) -> None:
        self.number = number
        self.call = call
        self.rank = rank


class _Marker:
    """Payload of a task that stands for a wait."""

    __slots__ = ("done", "failure")

    def __init__(self) -> None:
        self.done = False
        self.failure: Failure | None = None


class _PerThread(threading.local):
    depth = 0  # steps that this thread is taking, one inside the other


class SeededEngine:
    """Runs what was pushed in a legal order drawn from ``seed``.

    Parameters
    ----------
    seed : int
        Draws every choice. The same program under the same seed takes the same steps.
    policy : str
        One of :data:`POLICIES`.
    depth : int
        For ``pct``: the depth of the bugs looked for.
    horizon : int
        For ``pct``: about how many steps the program has.
    eagerness : float
        Chance that a push takes some steps, as workers would meanwhile. 0: only waits and :meth:`step` do.
    inline : float
        Chance that a push whose variables are all idle runs in the pusher (:meth:`DependencyTracker.claim`).
    patience_s : float
        How long a wait sleeps for an asynchronous function that another thread must complete.

    Attributes
    ----------
    schedule : list of str
        The choices made: ``r7`` took step 7, ``e2`` took two steps at a push, ``i1`` ran a push inline.
    tracker : DependencyTracker
        For assertions.

    Examples
    --------
    >>> engine = SeededEngine(seed=1)
    >>> x = engine.new_variable("x")
    >>> engine.push(lambda: print("ran"), writes=[x])
    >>> engine.wait_for_variable(x)
    ran
    """

    name = "seeded"
    capabilities: frozenset[EngineCapability] = frozenset()

    def __init__(
        self,
        seed: int = 0,
        *,
        policy: str = "random",
        depth: int = 3,
        horizon: int = 1000,
        eagerness: float = 0.0,
        inline: float = 0.0,
        patience_s: float = 60.0,
    ) -> None:
        if policy not in POLICIES:
            raise EngineError(f"SeededEngine: policy {policy!r} is none of {', '.join(POLICIES)}.")
        self.tracker = self.new_tracker()
        self.schedule: list[str] = []
        self._random = random.Random(seed)
        self._policy = policy
        self._demotions = {self._random.randrange(horizon) for _ in range(depth - 1)} if policy == "pct" else set()
        self._eagerness = eagerness
        self._inline = inline
        self._patience_s = patience_s
        self._replay: deque[str] | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._local = _PerThread()
        self._steps: list[_Step] = []
        self._numbers = 0
        self._taken = 0
        self._lowest = 0.0
        self._taking = 0  # steps being taken, in all threads
        self._waiting: dict[object, tuple[int, _Marker | None]] = {}  # waits, with their depth and what they wait for
        self._outstanding: dict[Completion, None] = {}  # asynchronous functions that ran and have not completed
        self._waits = 0  # markers in the tracker
        self._inbox: deque[Task] = deque()
        self._stopped = ""

    @staticmethod
    def new_tracker() -> DependencyTracker:
        """Return the tracker to use (a subclass may plant a bug here)."""
        return DependencyTracker()

    # -- choosing ------------------------------------------------------------------------------------------------

    def replay(self, schedule: str | Iterable[str]) -> None:
        """Follow ``schedule`` from now on, instead of the seed. Call it on a fresh engine.

        A choice that the program does not offer raises EngineError when it comes up: the program has changed.
        """
        self._replay = deque(schedule.split() if isinstance(schedule, str) else schedule)

    def _decide(self, kind: str, draw: Callable[[], int]) -> int:
        """Return a drawn or replayed number and record it."""
        if self._replay is None:
            number = draw()
        else:
            entry = self._replay.popleft() if self._replay else "nothing"
            if entry[0] != kind:
                raise EngineError(
                    f"replay: the schedule says {entry!r} where the program needs a choice of kind {kind!r} "
                    f"(after {len(self.schedule)} choices). It was recorded from another program."
                )
            number = int(entry[1:])
        self.schedule.append(f"{kind}{number}")
        return number

    def _rank(self, task: Task | None) -> float:
        return 1.0 + self._random.random() if self._policy == "pct" else 0.0

    def _add(self, call: Callable[[], Any], rank: float) -> None:
        self._numbers += 1
        self._steps.append(_Step(self._numbers, call, rank))

    def _draw_step(self) -> int:
        steps = self._steps
        if self._policy == "random":
            return steps[self._random.randrange(len(steps))].number
        if self._policy == "fifo":
            return min(step.number for step in steps)
        if self._policy == "lifo":
            return max(step.number for step in steps)
        if self._taken in self._demotions:
            self._lowest -= 1.0
            max(steps, key=lambda step: step.rank).rank = self._lowest
        return max(steps, key=lambda step: step.rank).number

    def _choose(self) -> _Step | None:
        """Take the next step off the list. With the lock held."""
        self._collect()
        if not self._steps:
            return None
        number = self._decide("r", self._draw_step)
        self._taken += 1
        self._taking += 1
        for index, step in enumerate(self._steps):
            if step.number == number:
                self._steps[index] = self._steps[-1]
                self._steps.pop()
                return step
        raise EngineError(
            f"replay: step {number} cannot be taken now; possible are {sorted(step.number for step in self._steps)}. "
            "The schedule was recorded from another program."
        )

    def _collect(self) -> None:
        """Push the deletions that came while the lock was taken."""
        while self._inbox:
            self._admit(self.tracker.append(self._inbox.popleft()))

    def _admit(self, ready: list[Task]) -> None:
        """Make steps of tasks that became ready; markers complete at once. With the lock held."""
        while ready:
            task = ready.pop(0)
            marker = task.payload
            if marker.__class__ is _Marker:
                marker.failure = task.inherited
                marker.done = True
                self._waits -= 1
                ready += self.tracker.complete(task)
            else:
                self._add(functools.partial(self._run, task), self._rank(task))

    # -- stepping ------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Take one step; return False if there is none to take."""
        with self._lock:
            step = self._choose()
        if step is None:
            return False
        self._take(step.call)
        return True

    def _take(self, call: Callable[[], Any]) -> None:
        """Do what a step does; it was counted when it was chosen."""
        self._local.depth += 1
        try:
            call()
        finally:
            self._local.depth -= 1
            with self._lock:
                self._taking -= 1
                self._changed.notify_all()

    def run_until(self, variable: Any) -> None:
        """Take steps until the writes pushed on ``variable`` so far are done. Raises no error of theirs."""
        self._wait_for(variable)

    def run_all(self) -> None:
        """Take steps until none is left."""
        while self.step():
            pass

    def later(self, call: Callable[[], Any]) -> None:
        """Add ``call()`` as a step, to be taken at any time from now on."""
        with self._lock:
            self._add(call, self._rank(None))
            self._changed.notify_all()

    def _run(self, task: Task) -> None:
        if task.skipped or task.fn is None:
            self._complete(task, None)
        elif task.asynchronous:
            self._run_async(task)
        else:
            error: BaseException | None = None
            try:
                task.fn()
            except BaseException as caught:
                error = as_failure(caught, task.name)
                if not isinstance(caught, Exception):
                    self._complete(task, error)
                    raise
            with self._lock:
                self._add(lambda: self._complete(task, error), self._rank(None))

    def _run_async(self, task: Task) -> None:
        def ended(error: BaseException | None) -> None:
            self._complete(task, error, completion)

        assert task.fn is not None
        completion = Completion(task.name, ended)
        with self._lock:
            self._outstanding[completion] = None
        try:
            task.fn(completion)
        except BaseException as caught:
            if not completion.end(caught):
                with self._lock:  # it had ended already: wait_for_all tells
                    self.tracker.fail(as_failure(caught, task.name), task.name, task.site)
            if not isinstance(caught, Exception):
                raise

    def _complete(self, task: Task, error: BaseException | None, completion: Completion | None = None) -> None:
        with self._lock:
            if completion is not None:
                del self._outstanding[completion]
            self._admit(self.tracker.complete(task, error))
            self._changed.notify_all()

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
    ) -> None:
        """Schedule ``fn()``; it runs in a later step. Blocks only to take steps (``eagerness``, ``inline``)."""
        self._push(Task(fn, separate(reads, writes), prop, priority, name, device, site=push_site()))

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
    ) -> None:
        """Schedule ``fn(on_complete)``; see :meth:`push`."""
        self._push(Task(fn, separate(reads, writes), prop, priority, name, device, True, push_site()))

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
        self._push(Task(op.fn, op.sets, op.prop, priority, op.name, op.device, site=push_site()))

    def _push(self, task: Task) -> None:
        with self._lock:
            if self._stopped and not self._local.depth:
                raise stopped_error(task.name, self._stopped)
            self._collect()
            claimed = bool(
                self._inline
                and not task.asynchronous
                and self._decide("i", lambda: int(self._random.random() < self._inline))
                and self.tracker.claim(task.reads, task.writes)
            )
            if claimed:
                self._taking += 1
            else:
                self._admit(self.tracker.push(task))
                self._changed.notify_all()
        if claimed:
            self._take(lambda: self._run_claimed(task))
        if self._eagerness:
            with self._lock:
                count = self._decide("e", self._draw_eagerness)
            for _ in range(count):
                self.step()

    def _draw_eagerness(self) -> int:
        if not self._steps or self._random.random() >= self._eagerness:
            return 0
        return min(len(self._steps), self._random.randint(1, 4))

    def _run_claimed(self, task: Task) -> None:
        assert task.fn is not None
        error: BaseException | None = None
        try:
            task.fn()
        except BaseException as caught:
            error = caught
        with self._lock:
            failure = None if error is None else self.tracker.fail(as_failure(error, task.name), task.name, task.site)
            self._admit(self.tracker.release(task.reads, task.writes, failure))
            self._changed.notify_all()
        if error is not None and not isinstance(error, Exception):
            raise error

    def delete_variable(self, variable: Any, release: Callable[[], Any] | None = None) -> None:
        """Schedule ``release()`` as the last write. Never blocks: the garbage collector may call it anywhere.

        On a stopped engine nothing is pending, and ``release`` runs at once.
        """
        self._inbox.append(retire(variable, release))
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()
        if self._stopped:
            self.run_all()

    # -- waiting -------------------------------------------------------------------------------------------------

    def _drive(self, done: Callable[[], bool], what: str, marker: _Marker | None = None) -> None:
        """Take steps until ``done()``, which is asked with the lock held."""
        depth, token = self._local.depth, object()
        deadline = None
        try:
            while True:
                with self._lock:
                    self._waiting[token] = depth, marker
                    self._collect()
                    if done():
                        return
                    step = self._choose()
                    if step is None:
                        deadline = deadline or time.monotonic() + self._patience_s
                        self._sleep(what, deadline)
                    else:
                        del self._waiting[token]
                if step is not None:
                    deadline = None
                    self._take(step.call)
        finally:
            with self._lock:
                self._waiting.pop(token, None)

    def _stuck(self) -> int:
        """How many of the steps being taken wait for something that has not happened."""
        return sum(depth for depth, marker in self._waiting.values() if marker is None or not marker.done)

    def _sleep(self, what: str, deadline: float) -> None:
        """Sleep until another thread changes something; raise if none can."""
        if self._taking == self._stuck() and not self._outstanding:
            self._changed.notify_all()
            # A function in wait_for_all finds the same, and goes on.
            if not any(depth and marker is None for depth, marker in self._waiting.values()):
                pending = self.tracker.pending - self._waits
                raise EngineError(
                    f"{what}: the wait cannot end. {pending} functions are pending, none can run"
                    + (
                        f", and {self._taking} running ones wait themselves. A function must not wait for what it "
                        "writes, or for what comes after it."
                        if self._taking
                        else ": the tracker lost one."
                    )
                )
        if time.monotonic() > deadline:
            names = [completion.name or "a function" for completion in self._outstanding]
            raise EngineError(
                f"{what}: nothing happened for {self._patience_s:g} s. "
                f"Not completed: {', '.join(names) or 'functions in other threads'}. "
                "Call on_complete in every path of an asynchronous function."
            )
        self._changed.wait(min(_POLL_S, self._patience_s))

    def _wait_for(self, variable: Any) -> Failure | None:
        with self._lock:
            self._collect()
            if not self.tracker.being_written(variable):
                return variable.failure if variable.flags & FAILED else None
            marker = _Marker()
            self._waits += 1
            sets: Sets = ((variable,), (variable,), ())
            self._admit(self.tracker.append(Task(None, sets, name="wait", payload=marker)))
        self._drive(lambda: marker.done, f"wait_for_variable({variable.name or hex(id(variable))!r})", marker)
        return marker.failure

    def wait_for_variable(self, variable: Any) -> None:
        """Take steps until the writes pushed on ``variable`` so far are done; raise its error if it failed.

        Raises
        ------
        EngineError
            If the wait cannot end, for instance in a function that writes ``variable`` itself.
        """
        failure = self._wait_for(variable)
        if failure is not None:
            with self._lock:
                self.tracker.report(failure)
            failure.throw()

    def wait_for_all(self) -> None:
        """Take steps until nothing is pending; raise the oldest error that no wait has reported yet.

        Inside a running function: until all that is left depends on functions that wait.
        """
        depth = self._local.depth

        def quiet() -> bool:
            if not depth:
                return not self.tracker.pending
            return not self._steps and not self._outstanding and self._taking == self._stuck()

        self._drive(quiet, "wait_for_all()")
        with self._lock:
            failure = self.tracker.report()
        if failure is not None:
            failure.throw()

    # -- the rest ------------------------------------------------------------------------------------------------

    def parallel_for(self, n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
        """Call ``fn(start, stop)`` over fixed pieces of ``range(n)`` in a drawn order, in this thread."""
        order = list(enumerate(pieces(n, grain)))
        errors: dict[int, Exception] = {}
        while order:
            with self._lock:
                number = self._decide("p", lambda: self._random.randrange(len(order)))
            index, (start, stop) = order.pop(number)
            try:
                fn(start, stop)
            except Exception as error:
                errors[index] = error
        if errors:
            raise errors[min(errors)]

    def bulk(self, size: int) -> AbstractContextManager[None]:
        """Change nothing: grouping would only take legal orders away."""
        return contextlib.nullcontext()

    def stop(self) -> None:
        """Take steps until nothing is pending; pushing afterwards raises EngineError."""
        if self._local.depth:
            raise stop_inside_error()

        def stopped() -> bool:
            if not self.tracker.pending:
                self._stopped = self._stopped or "stopped"
            return not self.tracker.pending

        self._drive(stopped, "stop()")

    def start(self) -> None:
        """Undo :meth:`stop`."""
        if self._stopped == "shut down":
            raise start_after_shutdown_error()
        self._stopped = ""

    def shutdown(self) -> None:
        """Finish all work; pushing afterwards raises EngineError. Later calls do nothing."""
        if self._stopped != "shut down":
            self.stop()
            self._stopped = "shut down"
