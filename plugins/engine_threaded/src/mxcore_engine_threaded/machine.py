"""Everything blocking, racy or random that the engine does: locks, sleep and wake, threads, clock.

The engine asks a `Machine` for it and never touches `threading` itself. :class:`ThreadMachine` is real;
:class:`~mxcore_engine_threaded.simulator.Simulator` runs the same engine code as actors in one thread, one at a time,
switching at every one of these calls as a seed decides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Local", "Lock", "Machine", "Parker", "ThreadMachine"]


class Lock(Protocol):
    """Mutual exclusion; not re-entrant."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; return whether it was taken."""

    def release(self) -> None:
        """Let the lock go."""


class Parker(Protocol):
    """Where one thread sleeps until another wakes it; a wake that comes first is not lost. One sleeper at a time."""

    def park(self, timeout_s: float | None = None) -> None:
        """Sleep until woken, or for at most ``timeout_s``. May return early: look again at what you wait for."""

    def unpark(self) -> None:
        """Wake the sleeper, or the next :meth:`park` returns at once. From any thread, any number of times."""


class Local(Protocol):
    """Per-thread state of an engine.

    Attributes
    ----------
    held : list
        Tasks whose functions this thread is running, outermost first.
    parker : Parker
    pool : Pool or None
        Whose worker this thread is.
    pool : Pool or None
        Whose worker this thread is.
    quiet : int
        Depth of ``bulk`` scopes, in which pushes do not wake workers one by one.
    woken : int
        Pushes since workers were last woken, in a ``bulk`` scope.
    """

    held: list[Any]
    parker: Parker
    pool: Any
    quiet: int
    woken: int


class Machine(Protocol):
    """What an engine runs on."""

    def lock(self) -> Lock:
        """Return a new lock."""

    def parker(self) -> Parker:
        """Return a new parker."""

    def local(self) -> Local:
        """Return the state of the engine's threads, each thread seeing its own."""

    def spawn(self, body: Callable[[], Any], name: str) -> Any:
        """Run ``body()`` in a thread of its own, which dies with the process."""

    def join(self, thread: Any) -> None:
        """Sleep until a spawned thread has ended."""

    def ident(self) -> int:
        """Return the number of the calling thread."""

    def now(self) -> int:
        """Return the clock in nanoseconds."""

    def touched(self) -> None:
        """Called where state is read without a lock: a place to switch threads."""


class _Parker:
    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def park(self, timeout_s: float | None = None) -> None:
        self._lock.acquire(True, -1 if timeout_s is None else timeout_s)

    def unpark(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:  # somebody else's wake is still there
            pass


class ThreadMachine:
    """Real threads (:class:`Machine`)."""

    lock = staticmethod(threading.Lock)
    parker = _Parker
    ident = staticmethod(threading.get_ident)
    now = staticmethod(time.perf_counter_ns)

    def local(self) -> Any:
        """Return a new ``threading.local`` with the fields of :class:`Local`."""

        class PerThread(threading.local):
            def __init__(self) -> None:
                self.held: list[Any] = []
                self.parker = _Parker()
                self.pool: Any = None
                self.quiet = 0
                self.woken = 0

        return PerThread()

    def spawn(self, body: Callable[[], Any], name: str) -> threading.Thread:
        """Start a daemon thread: an engine that nobody shuts down must not keep the process alive."""
        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        return thread

    def join(self, thread: threading.Thread) -> None:
        """Sleep until ``thread`` has ended."""
        thread.join()

    def touched(self) -> None:
        """Nothing: real threads switch anywhere."""
