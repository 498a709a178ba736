"""The dependency tracker: which functions may run, from the variables they read and write.

Pure: no threads, clocks, locks or module state. ``push(task)`` and ``complete(task)`` change the structure and
return the tasks that became ready; running them is the engine's business. An engine used by several threads
wraps every call on the tracker in one lock; a *granted* task may read its variables' errors without it, since
nothing else can change them until it completes.

Per variable::

    granted reads (a count)   or   one granted write,     then a queue that begins with a write

A read is granted when no write is granted or queued before it; a write when nothing is granted or queued before it.
A task is ready when all its edges are granted. Nothing is ever granted out of push order.

Errors travel as :class:`Failure` objects: a variable holds the failure of its last write, whoever inherits it
holds the same object, so "reported" is known once for all of them. The rules are those of
:mod:`mxcore.spec.engine`; the reasons are in ``docs/design/0002-engine.md``.
"""

from __future__ import annotations

import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from types import CodeType, TracebackType
from typing import Any, NoReturn

from ..spec.engine import FnProperty
from ..spec.errors import EngineError

__all__ = [
    "Completion",
    "DependencyTracker",
    "Failure",
    "Operation",
    "PushSite",
    "Task",
    "Variable",
    "push_site",
    "retire",
    "separate",
]

# Bits of Variable.flags. "Any bit set" is the one test of the hot paths.
WRITING = 1  #: a write is granted and not completed
QUEUED = 2  #: the queue is not empty (its head is a write)
FAILED = 4  #: the last write failed
RETIRED = 8  #: deletion was pushed; nothing may be pushed any more

_BUSY = WRITING | QUEUED
_NOT_WRITING_NOR_FAILED = ~(WRITING | FAILED)

#: ``(code, instruction)`` of the frames that pushed, innermost first: no frame, hence no array, is kept alive.
PushSite = tuple[tuple[CodeType, int], ...]


def push_site(depth: int = 8, skip: int = 2) -> PushSite:
    """Return where the caller's caller was called from, cheaply (about 0.1 µs a frame).

    Parameters
    ----------
    depth : int
        How many frames to remember.
    skip : int
        Frames to leave out: 2 leaves out this function and the method that calls it.
    """
    site = []
    try:
        frame: Any = sys._getframe(skip)
    except ValueError:
        return ()
    while frame is not None and depth:
        site.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
        depth -= 1
    return tuple(site)


def format_site(site: PushSite) -> str:
    """Return a push site as the lines of a traceback, outermost first."""
    summary = []
    for code, instruction in reversed(site):
        line = code.co_firstlineno
        for start, end, number in code.co_lines():
            if start <= instruction < end:
                line = number or line
                break
        summary.append(traceback.FrameSummary(code.co_filename, line, code.co_name))
    return "".join(traceback.format_list(summary))


def retired_error(variable: Variable, task_name: str) -> EngineError:
    """Return the error for a push on a deleted variable."""
    return EngineError(
        f"push of {task_name or 'a function'!r}: variable {variable.name or hex(id(variable))!r} was deleted. "
        "Deletion is the last thing that may be scheduled on a variable; "
        "make a new one with engine.new_variable() and check who still holds the old one.",
        variable=variable,
    )


def stopped_error(task_name: str, state: str) -> EngineError:
    """Return the error for a push on an engine that is ``"stopped"`` or ``"shut down"``."""
    return EngineError(
        f"push of {task_name or 'a function'!r}: the engine is {state}. "
        + ("Make a new engine." if state == "shut down" else "Call engine.start() first.")
    )


def stop_inside_error() -> EngineError:
    """Return the error for ``stop()`` inside a function."""
    return EngineError("stop() inside a running function: it would wait for itself. Stop the engine from outside.")


def start_after_shutdown_error() -> EngineError:
    """Return the error for ``start()`` on an engine that is gone."""
    return EngineError("start() after shutdown(): the engine is gone. Make a new one.")


def as_failure(error: object, name: str) -> BaseException:
    """Return the error to store for what ended a function.

    An interrupt or exit request belongs to the thread that got it; a later read of the variable must not look
    like a second Ctrl-C. Something that is not an exception (handed to ``on_complete``) is wrapped.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, BaseException):
        stored = EngineError(
            f"{name or 'a function'!r} was interrupted by {type(error).__name__}: what it writes is incomplete. "
            "Write the variable anew before reading it.",
        )
        stored.__cause__ = error
        return stored
    return EngineError(
        f"{name or 'a function'!r} was completed with {error!r}, which is not an exception. "
        "Call on_complete() for success or on_complete(error) with an exception instance.",
    )


class Failure:
    """Why a variable is failed: shared by the variable that failed and by all that inherited from it.

    Attributes
    ----------
    error : BaseException
        What every wait raises.
    traceback : TracebackType or None
        The traceback when it failed. Each raise starts from it again, so that it does not grow with every wait.
    """

    __slots__ = ("_name", "_site", "error", "traceback")

    def __init__(self, error: BaseException, name: str = "", site: PushSite = ()) -> None:
        self.error = error
        self.traceback: TracebackType | None = error.__traceback__
        self._name = name
        self._site = site

    def throw(self) -> NoReturn:
        """Raise the error with the traceback it had when it failed, and a note that shows where it was pushed."""
        if self._site:
            where = format_site(self._site).rstrip()
            self.error.add_note(f"Pushed to the engine as {self._name or 'a function'!r} from:\n{where}")
            self._site = ()
        raise self.error.with_traceback(self.traceback)


class Completion:
    """The ``on_complete`` that an engine hands to an asynchronous function: ends it once, from any thread.

    Parameters
    ----------
    name : str
        Name of the function, for messages.
    ended : callable
        Called as ``ended(error)`` in the completing thread, at the first completion only.
    """

    __slots__ = ("_ended", "error", "name")

    def __init__(self, name: str, ended: Callable[[BaseException | None], Any]) -> None:
        self.name = name
        self.error: BaseException | None = None
        self._ended = [ended]

    def __call__(self, error: object = None) -> None:
        """End the function, with ``error`` if one is given.

        Raises
        ------
        EngineError
            If it was ended before.
        """
        if not self.end(error):
            raise EngineError(
                f"on_complete of {self.name or 'a function'!r} was called twice. "
                "Call it once, when everything the function writes is in place."
            )

    def end(self, error: object = None) -> bool:
        """As a call, but return False if it was ended before."""
        try:
            ended = self._ended.pop()  # atomic: of two threads one gets it
        except IndexError:
            return False
        self.error = None if error is None else as_failure(error, self.name)
        ended(self.error)
        return True


class Variable:
    """A dependency token (:class:`mxcore.spec.Variable`). Only the tracker and engines touch the other slots.

    Attributes
    ----------
    flags : int
        ``WRITING | QUEUED | FAILED | RETIRED``; 0 when idle and sound.
    readers : int
        Granted reads that have not completed.
    queue : deque of (Task, bool) or None
        Tasks that wait here, with whether they write; made when first needed.
    stamp : int
        The engine's own: when it was last written, in pushes.
    mark : int
        What instruments know it by; 0 while nobody listened.
    """

    __slots__ = ("__weakref__", "failure", "flags", "mark", "name", "queue", "readers", "stamp", "version")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.version = 0
        self.flags = 0
        self.readers = 0
        self.stamp = 0
        self.mark = 0
        self.failure: Failure | None = None
        self.queue: deque[tuple[Task, bool]] | None = None

    @property
    def error(self) -> BaseException | None:
        """The error of the last write, until a full overwrite heals it."""
        failure = self.failure
        return None if failure is None else failure.error

    def __repr__(self) -> str:
        bits = [
            text
            for bit, text in ((WRITING, "writing"), (QUEUED, "queued"), (FAILED, "failed"), (RETIRED, "deleted"))
            if self.flags & bit
        ]
        if self.readers:
            bits.insert(0, f"{self.readers} reading")
        return f"<Variable {self.name or hex(id(self))} v{self.version}{': ' if bits else ''}{', '.join(bits)}>"


Sets = tuple[tuple[Variable, ...], tuple[Variable, ...], tuple[Variable, ...]]


def separate(reads: Iterable[Variable], writes: Iterable[Variable]) -> Sets:
    """Return ``(inputs, reads, writes)`` without duplicates.

    ``inputs`` is all that is read; ``reads`` leaves out what is written too, since a write waits for
    everything that a read waits for.
    """
    inputs = tuple(reads)
    outputs = tuple(writes)
    if len({*inputs, *outputs}) == len(inputs) + len(outputs):
        return inputs, inputs, outputs
    inputs = tuple(dict.fromkeys(inputs))
    outputs = tuple(dict.fromkeys(outputs))
    written = set(outputs)
    return inputs, tuple(variable for variable in inputs if variable not in written), outputs


class Operation:
    """A reusable function with fixed sets (:class:`mxcore.spec.Operation`); the sets are separated once."""

    __slots__ = ("device", "fn", "name", "prop", "sets")

    def __init__(
        self,
        fn: Callable[[], Any],
        reads: Iterable[Variable] = (),
        writes: Iterable[Variable] = (),
        prop: FnProperty = FnProperty.NORMAL,
        name: str = "",
        device: Any = None,
    ) -> None:
        self.fn = fn
        self.sets = separate(reads, writes)
        self.prop = prop
        self.name = name
        self.device = device

    def __repr__(self) -> str:
        return f"<Operation {self.name or self.fn!r}>"


class Task:
    """One pushed run of a function.

    Attributes
    ----------
    inputs, reads, writes : tuples of Variable
        As :func:`separate` returns them.
    waiting : int
        Edges that are not granted yet; ready at 0.
    payload : Any
        The engine's own; the tracker never looks at it.
    """

    __slots__ = (
        "asynchronous",
        "device",
        "fn",
        "inputs",
        "name",
        "payload",
        "priority",
        "prop",
        "reads",
        "site",
        "waiting",
        "writes",
    )

    def __init__(
        self,
        fn: Callable[..., Any] | None,
        sets: Sets,
        prop: FnProperty = FnProperty.NORMAL,
        priority: int = 0,
        name: str = "",
        device: Any = None,
        asynchronous: bool = False,
        site: PushSite = (),
        payload: Any = None,
    ) -> None:
        self.fn = fn
        self.inputs, self.reads, self.writes = sets
        self.prop = prop
        self.priority = priority
        self.name = name
        self.device = device
        self.asynchronous = asynchronous
        self.site = site
        self.payload = payload
        self.waiting = 0

    @property
    def inherited(self) -> Failure | None:
        """The failure of the first failed input. Valid from ready to complete."""
        for variable in self.inputs:
            if variable.flags & FAILED:
                return variable.failure
        return None

    @property
    def skipped(self) -> bool:
        """Whether the engine must complete this ready task without calling its function."""
        for variable in self.inputs:
            if variable.flags & FAILED:
                return self.prop != FnProperty.NO_SKIP and self.prop != FnProperty.DELETE_VARIABLE
        return False

    def __repr__(self) -> str:
        return f"<Task {self.name or self.fn!r} waits for {self.waiting}>"


def retire(variable: Variable, release: Callable[[], Any] | None) -> Task:
    """Mark ``variable`` deleted and return its last task, for :meth:`DependencyTracker.append`.

    Two steps, because the garbage collector may delete a variable while this very thread holds the engine's lock:
    an engine retires at once and appends when it next has the lock. Nothing can be pushed in between.
    The task counts as reading the variable, so that it heals nothing: who waits still learns that it had failed.

    Raises
    ------
    EngineError
        If it was deleted before.
    """
    if variable.flags & RETIRED:
        raise retired_error(variable, "DeleteVariable")
    variable.flags |= RETIRED
    return Task(release, ((variable,), (), (variable,)), FnProperty.DELETE_VARIABLE, name="DeleteVariable")


class DependencyTracker:
    """Orders tasks by their variables. See the module.

    Attributes
    ----------
    pending : int
        Tasks pushed, and claims taken, that have not completed.

    Examples
    --------
    >>> tracker, variable = DependencyTracker(), Variable("x")
    >>> write = Task(None, separate((), [variable]), name="write")
    >>> read = Task(None, separate([variable], ()), name="read")
    >>> tracker.push(write), tracker.push(read)
    ([<Task 'write' waits for 0>], [])
    >>> tracker.complete(write)
    [<Task 'read' waits for 0>]
    >>> tracker.complete(read), tracker.pending, variable.version
    ([], 0, 1)
    """

    __slots__ = ("_unreported", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self._unreported: dict[Failure, None] = {}  # ordered by time of failure

    # -- scheduling ----------------------------------------------------------------------------------------------

    def push(self, task: Task) -> list[Task]:
        """Add ``task`` behind everything pushed before it; return it in a list if it is ready now.

        Raises
        ------
        EngineError
            If a variable was deleted; nothing is changed then.
        """
        flags = 0
        for variable in task.inputs:
            flags |= variable.flags
        for variable in task.writes:
            flags |= variable.flags
        if flags & RETIRED:
            gone = next(v for v in (*task.inputs, *task.writes) if v.flags & RETIRED)
            raise retired_error(gone, task.name)
        return self.append(task)

    def append(self, task: Task) -> list[Task]:
        """As :meth:`push`, deleted variables allowed: for :func:`retire`, and for markers.

        A marker is a task without function that reads one variable: it is ready when the writes pushed before it
        are done, which is how an engine waits for a variable.
        """
        waiting = 0
        for variable in task.reads:
            if variable.flags & _BUSY:
                self._enqueue(variable, task, False)
                waiting += 1
            else:
                variable.readers += 1
        for variable in task.writes:
            if variable.readers or variable.flags & _BUSY:
                self._enqueue(variable, task, True)
                waiting += 1
            else:
                variable.flags |= WRITING
        task.waiting = waiting
        self.pending += 1
        return [] if waiting else [task]

    @staticmethod
    def _enqueue(variable: Variable, task: Task, writes: bool) -> None:
        if variable.queue is None:
            variable.queue = deque()
        variable.queue.append((task, writes))
        variable.flags |= QUEUED

    def complete(self, task: Task, error: BaseException | None = None) -> list[Task]:
        """Record that ``task`` ended, by itself, with ``error``, or skipped; return the tasks that became ready.

        A task with a failed input passes that failure on to its writes, whether it was skipped or ran all the
        same (``NO_SKIP``); an error of its own goes first.
        """
        if error is not None:
            failure: Failure | None = self.fail(error, task.name, task.site)
        else:
            failure = None
            for variable in task.inputs:
                if variable.flags & FAILED:
                    failure = variable.failure
                    break
        return self.release(task.reads, task.writes, failure)

    # -- inline execution ----------------------------------------------------------------------------------------

    def claim(self, reads: tuple[Variable, ...], writes: tuple[Variable, ...]) -> bool:
        """Grant both sets at once if every variable is idle and sound; otherwise change nothing.

        For work that the caller runs on the spot, without a task. ``reads`` may hold duplicates. Sets that overlap,
        repeat a write or hold a failed or deleted variable are refused: push a task then.
        """
        for variable in reads:
            if variable.flags:
                return False
        for variable in writes:
            if variable.flags or variable.readers or variable in reads:
                return False
        if len(writes) > 1 and len(set(writes)) != len(writes):
            return False
        for variable in reads:
            variable.readers += 1
        for variable in writes:
            variable.flags = WRITING
        self.pending += 1
        return True

    def release(
        self, reads: tuple[Variable, ...], writes: tuple[Variable, ...], failure: Failure | None = None
    ) -> list[Task]:
        """End a claim: the writes took effect, or failed with ``failure``; return the tasks that became ready."""
        ready: list[Task] = []
        self.pending -= 1
        for variable in reads:
            readers = variable.readers = variable.readers - 1
            if not readers and variable.flags & QUEUED:
                self._grant(variable, ready)
        for variable in writes:
            variable.version += 1
            variable.failure = failure
            if failure is None:
                variable.flags &= _NOT_WRITING_NOR_FAILED
            else:
                variable.flags = variable.flags & ~WRITING | FAILED
            if variable.flags & QUEUED:
                self._grant(variable, ready)
        return ready

    @staticmethod
    def _grant(variable: Variable, ready: list[Task]) -> None:
        """Grant the head of the queue: one write, or all reads up to the next write."""
        queue = variable.queue
        assert queue is not None
        task, writes = queue.popleft()
        if writes:
            variable.flags |= WRITING
        else:
            variable.readers += 1
        task.waiting -= 1
        if not task.waiting:
            ready.append(task)
        if not writes:
            while queue and not queue[0][1]:
                task = queue.popleft()[0]
                variable.readers += 1
                task.waiting -= 1
                if not task.waiting:
                    ready.append(task)
        if not queue:
            variable.flags &= ~QUEUED

    # -- errors --------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException, name: str = "", site: PushSite = ()) -> Failure:
        """Return a new failure that nobody has reported yet."""
        failure = Failure(error, name, site)
        self.note(failure)
        return failure

    def note(self, failure: Failure) -> None:
        """Add a failure that was made elsewhere to those that nobody has reported yet."""
        self._unreported[failure] = None

    @property
    def unreported(self) -> list[Failure]:
        """Failures that no wait has raised yet, oldest first."""
        return list(self._unreported)

    def report(self, failure: Failure | None = None) -> Failure | None:
        """Mark ``failure``, or the oldest unreported one, as reported, and return it (None: there is none)."""
        if failure is None:
            failure = next(iter(self._unreported), None)
        if failure is not None:
            self._unreported.pop(failure, None)
        return failure

    # -- questions -----------------------------------------------------------------------------------------------

    @staticmethod
    def being_written(variable: Variable) -> bool:
        """Whether a pushed write of ``variable`` has not completed, so that a wait would have to wait."""
        return bool(variable.flags & _BUSY)
