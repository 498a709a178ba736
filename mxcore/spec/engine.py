"""The contract of an engine: mutation-aware scheduling of opaque functions.

An engine orders functions by the *variables* they read and write, and knows nothing of arrays.
Per variable, work takes effect in push order: reads between two writes may overlap, a write waits for
every earlier read and write, and a read waits for every earlier write.
(MXNet 1.9.1, ``include/mxnet/engine.h``; the differences are in ``docs/design/0002-engine.md``.)

Errors
    A function that raises *fails* every variable it writes. A failed variable stays failed: whoever reads
    it is not run and fails its own writes with the same error, and every wait on it raises that error.
    A push that only writes a failed variable runs (it is a full overwrite) and heals it when it succeeds.
    A variable that a function both reads and writes counts as read: it is not healed.
    ``NO_SKIP`` and ``DELETE_VARIABLE`` functions run with a failed input, and pass its error on all the same.
    An engine with :attr:`EngineCapability.INLINE` may raise at the push instead; the variables are failed too.

Threads
    Every method may be called from any thread, including from inside a running function.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable


class FnProperty(enum.IntEnum):
    """What kind of work a function is; numbers as in MXNet."""

    NORMAL = 0  #: the device's ordinary workers
    COPY_FROM_GPU = 1
    COPY_TO_GPU = 2
    CPU_PRIORITIZED = 3  #: the priority workers of the CPU (kvstore reductions)
    ASYNC = 4  #: runs in the pusher when everything is ready
    DELETE_VARIABLE = 5  #: runs even when its variable failed
    GPU_PRIORITIZED = 6
    NO_SKIP = 7  #: runs even when an input failed


class EngineCapability(enum.Enum):
    """What an engine can do beyond the base contract. The kit checks each claim both ways."""

    INLINE = "inline"  #: every push has completed when it returns; errors are raised at the push
    CONCURRENT = "concurrent"  #: independent functions may overlap in time
    PRIORITY = "priority"  #: a larger priority runs earlier among ready functions
    PARALLEL_FOR = "parallel_for"  #: ``parallel_for`` uses more than one thread
    INLINE_FIRST = "inline_first"  #: what :class:`InlineFirst` adds: the caller may run cheap functions itself


class Variable(Protocol):
    """A dependency token; carries no data. Made by :meth:`Engine.new_variable` only.

    Attributes
    ----------
    version : int
        0 at first, plus one for each completed write.
    error : BaseException or None
        The error of the last write, until a full overwrite heals it.
    """

    version: int
    error: BaseException | None


class Operation(Protocol):
    """A reusable function with fixed read and write sets. Made by :meth:`Engine.new_operation` only."""

    name: str


@runtime_checkable
class Engine(Protocol):
    """Schedules functions by the variables they read and write. See the module for the semantics."""

    name: str
    capabilities: frozenset[EngineCapability]

    def new_variable(self, name: str = "") -> Variable:
        """Return a fresh variable. Never blocks."""

    def push(
        self,
        fn: Callable[[], Any],
        reads: Iterable[Variable] = (),
        writes: Iterable[Variable] = (),
        *,
        prop: FnProperty = FnProperty.NORMAL,
        priority: int = 0,
        name: str = "",
        device: Any = None,
    ) -> None:
        """Schedule ``fn()`` after everything pushed earlier that it depends on.

        Parameters
        ----------
        fn : callable without arguments
            Its result is ignored; an exception fails the writes.
        reads, writes : iterables of Variable
            May hold duplicates and may overlap; a variable in both is written (after being read).
        priority : int
            Larger first, where the engine has :attr:`EngineCapability.PRIORITY`.
        device : hashable or None
            Which device's workers should run it (the engine compares it for equality only).

        Raises
        ------
        EngineError
            If a variable was deleted, or the engine is stopped.
        """

    def push_async(
        self,
        fn: Callable[[Callable[..., None]], Any],
        reads: Iterable[Variable] = (),
        writes: Iterable[Variable] = (),
        *,
        prop: FnProperty = FnProperty.ASYNC,
        priority: int = 0,
        name: str = "",
        device: Any = None,
    ) -> None:
        """As :meth:`push`, but ``fn(on_complete)`` is finished only when it calls ``on_complete(error=None)``,
        once, from any thread. An exception that escapes ``fn`` completes it with that error."""

    def new_operation(
        self,
        fn: Callable[[], Any],
        reads: Iterable[Variable] = (),
        writes: Iterable[Variable] = (),
        *,
        prop: FnProperty = FnProperty.NORMAL,
        name: str = "",
        device: Any = None,
    ) -> Operation:
        """Return a reusable operation, for work that is pushed many times with the same sets."""

    def push_operation(self, operation: Operation, *, priority: int = 0) -> None:
        """Schedule one run of ``operation``; may be called again before an earlier run ended."""

    def delete_variable(self, variable: Variable, release: Callable[[], Any] | None = None) -> None:
        """Schedule ``release()`` as the last write of ``variable``, then retire it.

        Never blocks: the garbage collector may call it anywhere. On a stopped engine ``release`` runs at once.
        ``release`` runs whatever the variable's state: a failed array's buffer is freed too.
        Pushing on a deleted variable raises :class:`~mxcore.spec.errors.EngineError`.
        """

    def wait_for_variable(self, variable: Variable) -> None:
        """Block until the writes pushed on ``variable`` so far are done; raise its error if it failed.

        Inside a function that writes ``variable`` the wait cannot end: EngineError.
        """

    def wait_for_all(self) -> None:
        """Block until nothing is pending; raise the oldest error that no wait has reported yet.

        Inside a function: until all that is left depends on functions that wait.
        """

    def parallel_for(self, n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
        """Call ``fn(start, stop)`` over fixed pieces of ``range(n)`` of at most ``grain`` items.

        The pieces depend on ``n`` and ``grain`` only, so results do not depend on the number of workers.
        Blocks until all pieces are done; raises the error of the earliest failed piece.
        """

    def bulk(self, size: int) -> AbstractContextManager[None]:
        """Context manager: up to ``size`` pushes may be grouped into one. A hint, never a change of results."""

    def stop(self) -> None:
        """Finish all work and join workers (before a fork). Pushing afterwards raises EngineError."""

    def start(self) -> None:
        """Undo :meth:`stop` (in the parent and in the child of a fork)."""

    def shutdown(self) -> None:
        """Finish all work and release everything. Called once; later calls do nothing."""


class Estimate(Protocol):
    """What an engine has learned about one kind of function. Made by :meth:`InlineFirst.estimate` only.

    Attributes
    ----------
    ns : int
        Predicted duration in nanoseconds; 0 while it is not trusted.
    countdown : int
        Executions until the next one should be timed. Who executes subtracts 1 and, at 0, times it and calls
        :meth:`record`, which sets it anew.
    """

    ns: int
    countdown: int

    def record(self, ns: int) -> None:
        """Add a measured duration in nanoseconds."""


@runtime_checkable
class InlineFirst(Protocol):
    """What an engine with :attr:`EngineCapability.INLINE_FIRST` adds, for callers with very many cheap functions.

    Its variables have two more attributes, which may be read without a lock: ``flags`` is 0 while no write of the
    variable is pending or running, and it neither failed nor was deleted; ``readers`` counts running reads. A caller
    that is the only thread that pushes may run a function itself when all variables have ``flags == 0`` and those it
    writes ``readers == 0``: nothing can start in between. With several pushing threads (``crowded``) it pushes, and
    the engine runs there and then what is cheap.

    :meth:`Engine.push` of such an engine takes three more keyword arguments: ``nbytes``, which the function's results
    will occupy, ``estimate``, and ``why`` it is handed over, a few words for :meth:`explain`.

    Attributes
    ----------
    crowded : bool
        More than one thread has pushed, or said that it is :meth:`here`.
    """

    crowded: bool

    def here(self) -> None:
        """Note that this thread runs functions itself, so that ``crowded`` is right. Cheap; never blocks."""

    def fail(self, writes: Iterable[Variable], error: BaseException, name: str = "") -> None:
        """Fail ``writes``, on which nothing is pending, as a pushed function would have. Never raises ``error``."""

    def settle(self, variables: Iterable[Variable]) -> None:
        """Block until the writes pushed on ``variables`` so far are done; raise no error of theirs."""

    def estimate(self, key: tuple[Any, ...]) -> Estimate:
        """Return what is known about the functions of ``key``, a tuple of strings and numbers that never changes its
        meaning between processes."""

    def upcoming(self, count: int = 16) -> list[int]:
        """Return the ``nbytes`` of the next ``count`` pushes, as far as the engine foresees them, for storage to have ready."""

    def note(self, name: str, predicted: int, ns: int, where: str, why: str) -> None:
        """Note that the caller ran a function itself, for :meth:`explain`."""

    def explain(self) -> str:
        """Return a table of what was predicted, what it took, and why it ran where it did."""
