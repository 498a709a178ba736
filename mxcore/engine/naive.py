"""NaiveEngine: every function runs at its push, in the thread that pushes it.

The engine to debug with, to compare others with, and the only one core brings. Errors come out of the push, with the
whole stack of the caller; the variables written are failed all the same, so later reads raise the same error.

It needs no queue: when a push returns, everything that this thread pushed before is done. What is left is other
threads. Each thread keeps a stack of the sets that it is running (`_Held`). A push looks at the stacks of the other
threads and sleeps while one of them holds a variable that it writes, or writes one that it reads.
No variable is marked, and no lock is taken while nothing conflicts: that is the hot path.

Why that is safe without a lock: a thread first puts its sets on its stack and then reads ``_attention`` and the other
stacks; a new thread first sets ``_attention``, puts its sets on its stack and then reads the others. Of two that
conflict one sees the other. Who sees a conflict settles it under the lock. In the same way a thread first takes
its sets off and then reads ``_sleepers``; a sleeper first counts itself and then reads the stacks.

The lock is held for a few lines only, never while a function runs. It is not re-entrant: the garbage collector may
call :meth:`NaiveEngine.delete_variable` anywhere, also inside those lines, and a ``release`` that ran in there could
wait for a storage lock whose owner waits for ours. A deletion never waits; whoever leaves the lock looks for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from ..spec.engine import EngineCapability, FnProperty
from ..spec.errors import EngineError
from .dependency import (
    FAILED,
    RETIRED,
    Completion,
    Failure,
    Operation,
    Variable,
    as_failure,
    push_site,
    retired_error,
    start_after_shutdown_error,
    stop_inside_error,
    stopped_error,
)
from .pieces import run_serially

__all__ = ["NaiveEngine"]

_POLL_S = 0.1  # waits end by a notify; a signal that comes just before a lock wait is only seen after it

_Sets = tuple[tuple[Any, ...], tuple[Any, ...]]


class _Held(list[_Sets]):
    """The sets that one thread is running, outermost first. Only that thread changes it; all others may look."""

    __slots__ = ("__weakref__", "waits_for", "waits_for_all")

    def __init__(self) -> None:
        self.waits_for: _Sets | None = None
        self.waits_for_all = False


class _PerThread(threading.local):
    """Makes and registers each thread's stack at its first use; the stack dies with its thread."""

    def __init__(self, register: Callable[[_Held], None]) -> None:
        self.held = _Held()
        register(self.held)


def _conflict(mine: _Sets, other: _Sets) -> bool:
    reads, writes = mine
    other_reads, other_writes = other
    for variable in writes:
        if variable in other_writes or variable in other_reads:
            return True
    return any(variable in other_writes for variable in reads)


class NaiveEngine:
    """Runs every function at its push (:attr:`~mxcore.spec.EngineCapability.INLINE`).

    A push made inside a running function runs at once, in the middle of it, even on variables that it holds.

    Examples
    --------
    >>> engine = NaiveEngine()
    >>> x = engine.new_variable("x")
    >>> engine.push(lambda: print("runs now"), writes=[x])
    runs now
    >>> x.version
    1
    """

    name = "naive"
    capabilities = frozenset({EngineCapability.INLINE})

    def __init__(self) -> None:
        self._threads: list[weakref.ref[_Held]] = []
        self._deletions: deque[tuple[Variable, Callable[[], Any] | None]] = deque()
        self._late: list[Failure] = []  # failures of put-off deletions: no push could raise them
        self._stopped = ""
        self._shut_down = False
        self._attention = False  # leave the hot path: other threads, put-off deletions, or stopped
        self._sleepers = 0
        self._renew_locks()

    def _renew_locks(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._local = _PerThread(self._register)

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
        """Run ``fn()`` now, in this thread. What it raises is raised here and fails the writes.

        Blocks only while another thread is running something that conflicts.

        Raises
        ------
        EngineError
            If a variable was deleted, the engine is stopped, or threads wait for each other in a circle.
        BaseException
            The error of ``fn``; or that of the first failed variable in ``reads``, and then ``fn`` is not called
            (unless ``prop`` is ``NO_SKIP`` or ``DELETE_VARIABLE``).
        """
        # The hot path: about 0.4 µs for a no-op with two reads and one write (docs/design/0002-engine.md).
        if reads.__class__ is not tuple:
            reads = tuple(reads)
        if writes.__class__ is not tuple:
            writes = tuple(writes)
        if len(writes) > 1:
            writes = tuple(dict.fromkeys(writes))  # versions count a write once
        held = self._local.held
        depth = len(held)
        try:
            held.append((reads, writes))
            if self._attention:
                self._enter(held, depth, name)
            flags = 0
            for variable in reads:
                flags |= variable.flags
            for variable in writes:
                flags |= variable.flags
            if flags:
                self._push_flagged(fn, reads, writes, prop, name)
            else:
                try:
                    fn()
                except BaseException as error:
                    _end(writes, Failure(as_failure(error, name), name, push_site()))
                    raise
                for variable in writes:
                    variable.version += 1
        finally:
            # Cut back rather than pop: an interrupt may have come before the append.
            del held[depth:]
            if self._attention:
                self._leave()

    def _push_flagged(
        self, fn: Callable[[], Any], reads: tuple[Any, ...], writes: tuple[Any, ...], prop: FnProperty, name: str
    ) -> None:
        """As the middle of :meth:`push`, when some variable is failed or deleted."""
        inherited = None
        for variable in (*reads, *writes):
            if variable.flags & RETIRED:
                raise retired_error(variable, name)
        for variable in reads:
            if variable.flags & FAILED:
                inherited = variable.failure
                break
        if inherited is not None and prop != FnProperty.NO_SKIP and prop != FnProperty.DELETE_VARIABLE:
            _end(writes, inherited)
            inherited.throw()
        try:
            fn()
        except BaseException as error:
            _end(writes, Failure(as_failure(error, name), name, push_site(skip=3)))
            raise
        _end(writes, inherited)

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
        """Run ``fn(on_complete)`` now and block until ``on_complete`` was called. Ctrl-C interrupts the wait.

        Raises as :meth:`push`, and the error handed to ``on_complete``.
        """

        def run() -> None:
            done = threading.Event()
            completion = Completion(name, lambda _: done.set())
            fn(completion)
            while not done.wait(_POLL_S):
                pass
            if completion.error is not None:
                raise completion.error

        self.push(run, reads, writes, prop=prop, priority=priority, name=name, device=device)

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
        """Run ``operation`` now; blocks and raises as :meth:`push`."""
        inputs, _, writes = operation.sets
        self.push(operation.fn, inputs, writes, prop=operation.prop, name=operation.name, device=operation.device)

    def delete_variable(self, variable: Any, release: Callable[[], Any] | None = None) -> None:
        """Run ``release()`` now, or as soon as no running function holds ``variable``. Never blocks.

        Works on a stopped engine too: nothing can be running there.
        What ``release`` raises is raised here if it ran here, else by :meth:`wait_for_all`.
        """
        if variable.flags & RETIRED:
            raise retired_error(variable, "DeleteVariable")
        variable.flags |= RETIRED
        # No stack yet: the collector came while this thread was making it.
        if self._attention or getattr(self._local, "held", True):
            self._deletions.append((variable, release))
            self._attention = True
            self._settle(variable)
        else:
            failure = _delete(variable, release)
            if failure is not None:
                failure.throw()

    # -- waiting -------------------------------------------------------------------------------------------------

    def wait_for_variable(self, variable: Any) -> None:
        """Raise the variable's error if it failed. Blocks only while another thread is writing it.

        Raises
        ------
        EngineError
            If the calling function itself is writing it: such a wait cannot end.
        """
        held = self._local.held
        if held or self._attention:
            if any(variable in writes for _, writes in held):
                raise EngineError(
                    f"wait_for_variable({variable.name or hex(id(variable))!r}) inside a function that writes it: "
                    "the wait cannot end. Wait after the push, or read what the function itself computed."
                )
            with self._lock:
                while blockers := self._blockers(held, ((variable,), ())):
                    self._sleep(held, ((variable,), ()), blockers, "wait_for_variable")
            self._settle()
        failure = variable.failure
        if failure is not None:
            failure.throw()

    def wait_for_all(self) -> None:
        """Block until no other thread is running a function; raise the oldest error that no push or wait raised.

        Inside a running function, functions that wait for this thread are not waited for.
        """
        self._drain()
        if self._late:
            self._late.pop(0).throw()

    # -- the rest ------------------------------------------------------------------------------------------------

    def parallel_for(self, n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
        """Call ``fn(start, stop)`` over fixed pieces of ``range(n)``, one after the other, in this thread."""
        run_serially(n, grain, fn)

    def bulk(self, size: int) -> AbstractContextManager[None]:
        """Change nothing: there is no queue whose cost could be shared."""
        return contextlib.nullcontext()

    def stop(self) -> None:
        """Block until no thread runs a function; pushing afterwards raises EngineError."""
        if self._local.held:
            raise stop_inside_error()
        if not self._stopped:
            self._drain()
            self._stopped = "stopped"
            self._attention = True

    def start(self) -> None:
        """Undo :meth:`stop`, in the parent and in the child of a fork."""
        if self._shut_down:
            raise start_after_shutdown_error()
        self._stopped = ""
        if self._pid != os.getpid():
            # Other threads do not exist in a forked child; one of them may have held the lock.
            self._threads = []
            self._renew_locks()
        with self._lock:
            self._set_attention()

    def shutdown(self) -> None:
        """Finish all work; pushing afterwards raises EngineError. Later calls do nothing."""
        if not self._shut_down:
            self.stop()
            self._shut_down = True
            self._stopped = "shut down"

    # -- other threads -------------------------------------------------------------------------------------------

    def _register(self, held: _Held) -> None:
        with self._lock:
            self._threads = [*self._threads, weakref.ref(held)]
            self._set_attention()
        self._settle()

    def _set_attention(self) -> None:
        self._threads = [ref for ref in self._threads if ref() is not None]
        self._attention = bool(len(self._threads) > 1 or self._deletions or self._stopped)

    def _others(self, held: _Held) -> Iterator[_Held]:
        for ref in self._threads:
            other = ref()
            if other is not None and other is not held:
                yield other

    def _blockers(self, held: _Held, sets: _Sets) -> list[_Held]:
        """Return the stacks of the threads that hold something which conflicts with ``sets``."""
        return [other for other in self._others(held) if any(_conflict(sets, running) for running in tuple(other))]

    def _circular(self, held: _Held, blockers: list[_Held]) -> bool:
        """Whether one of ``blockers`` waits, through any number of threads, for this one."""
        seen: set[int] = set()
        todo = list(blockers)
        while todo:
            other = todo.pop()
            if other is held:
                return True
            if id(other) not in seen and other.waits_for is not None:
                seen.add(id(other))
                todo += self._blockers(other, other.waits_for)
        return False

    def _sleep(self, held: _Held, sets: _Sets, blockers: list[_Held], name: str) -> None:
        """Sleep, with the lock, until some thread lets go of its sets. Call it in a loop."""
        if held and self._circular(held, blockers):
            raise EngineError(
                f"{name or 'a push'!r} inside a running function cannot go on: it needs a variable that another "
                "thread holds, which waits for one that this thread holds. NaiveEngine runs nested pushes at "
                "once; list all variables in the outer push, or use a threaded engine."
            )
        held.waits_for = sets
        self._sleepers += 1
        try:
            # Counted: look once more, what let go in between did not see us. A wake for nothing does no harm.
            if self._blockers(held, sets):
                self._changed.wait(_POLL_S)
        finally:
            self._sleepers -= 1
            held.waits_for = None

    def _enter(self, held: _Held, depth: int, name: str) -> None:
        """Make sure that the sets just put on the stack may run; take them back and sleep while they may not."""
        if self._stopped and not depth:
            raise stopped_error(name, self._stopped)
        sets = held[depth]
        for ref in self._threads:
            other = ref()
            if other is None or (other and other is not held):  # a thread that ended, or one that runs something
                break
        else:
            return
        if other is not None and not self._blockers(held, sets):
            return
        with self._lock:
            self._set_attention()
            blockers = self._blockers(held, sets)
            if blockers:
                self._changed.notify_all()  # who slept because of these sets looks again, now that they go
            while blockers:
                del held[depth:]
                self._sleep(held, sets, blockers, name)
                held.append(sets)
                blockers = self._blockers(held, sets)

    def _leave(self) -> None:
        """Wake the threads that sleep for what this one held, and run the deletions that waited for it."""
        if self._sleepers:
            with self._lock:
                self._changed.notify_all()
        self._settle()

    def _active(self, other: _Held) -> bool:
        """Whether another thread is running a function and will go on without us."""
        if other.waits_for is not None:
            return not self._blockers(other, other.waits_for)
        return bool(other) and not other.waits_for_all

    def _drain(self) -> None:
        if self._attention:
            held = self._local.held
            with self._lock:
                held.waits_for_all = True
                self._sleepers += 1
                try:
                    self._changed.notify_all()  # two that wait for all do not wait for each other
                    while any(self._active(other) for other in self._others(held)):
                        self._changed.wait(_POLL_S)
                finally:
                    self._sleepers -= 1
                    held.waits_for_all = False
            self._settle()

    def _settle(self, current: Variable | None = None) -> None:
        """Run the put-off deletions whose variables nobody holds. Called without the lock; never blocks."""
        raised = None
        while self._deletions:
            # If another thread has the lock, or this one further down its stack: its holder comes here afterwards.
            if not self._lock.acquire(blocking=False):
                break
            try:
                stacks = [held for ref in self._threads if (held := ref()) is not None]
                in_use = {id(v) for held in stacks for sets in tuple(held) for vs in sets for v in vs}
                due: list[tuple[Variable, Callable[[], Any] | None]] = []
                for _ in range(len(self._deletions)):  # others append meanwhile, without the lock
                    entry = self._deletions.popleft()
                    (self._deletions if id(entry[0]) in in_use else due).append(entry)
                self._set_attention()
            finally:
                self._lock.release()
            if not due:
                break
            for variable, release in due:
                failure = _delete(variable, release)
                if failure is not None and variable is current:
                    raised = failure
                elif failure is not None:
                    self._late.append(failure)
        if raised is not None:
            raised.throw()


def _end(writes: Iterable[Any], failure: Failure | None) -> None:
    """Complete the writes with ``failure``, or heal them."""
    for variable in writes:
        variable.version += 1
        variable.failure = failure
        if failure is None:
            variable.flags &= ~FAILED
        else:
            variable.flags |= FAILED


def _delete(variable: Variable, release: Callable[[], Any] | None) -> Failure | None:
    """Run the release of a variable as its last write; return its failure, if it failed."""
    failure = None
    if release is not None:
        try:
            release()
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            failure = Failure(error)
    variable.version += 1
    variable.flags |= RETIRED
    if failure is not None:
        variable.failure = failure
        variable.flags |= FAILED
    return failure
