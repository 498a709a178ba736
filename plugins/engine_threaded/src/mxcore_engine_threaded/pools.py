"""A pool of workers: the ready tasks of one device and purpose, and the threads that run them."""

from __future__ import annotations

from typing import Any

__all__ = ["Pool", "Worker"]


class Worker:
    """A thread of a pool.

    Attributes
    ----------
    coming : bool
        It was woken for a task and has not looked for it yet.
    resting : bool
        It is in the pool's ``idle``.
    retired : bool
        It is to go home.
    job : Job or None
        It was woken to help with this, which takes neither the lock nor a seat.
    """

    __slots__ = ("coming", "job", "parker", "resting", "retired", "thread")

    def __init__(self, parker: Any) -> None:
        self.parker = parker
        self.thread: Any = None
        self.coming = False
        self.resting = False
        self.retired = False
        self.job: Any = None


class Pool:
    """Changed with the engine's lock only.

    Attributes
    ----------
    seats : int
        How many of its workers may run functions at once.
    spare : bool
        One seat belongs to the caller, and is the pool's only while a caller sleeps in the engine.
    computes : bool
        Its workers compute on the CPU: they help with ``parallel_for``, and BLAS stays on one thread beside them.
    heap : list of (int, int, int, Work)
        Ready tasks: priority, rank and order, the first one first.
    running : int
        Seats taken: workers that run something or were woken to.
    coming : int
        Of those, the woken ones that have not looked for work yet.
    """

    __slots__ = ("coming", "computes", "heap", "idle", "name", "running", "seats", "spare", "workers")

    def __init__(self, name: str, seats: int, spare: bool = False, computes: bool = False) -> None:
        self.name = name
        self.seats = seats
        self.spare = spare and seats > 1
        self.computes = computes
        self.heap: list[tuple[int, int, int, Any]] = []
        self.running = 0
        self.coming = 0
        self.idle: list[Worker] = []
        self.workers: list[Worker] = []

    def forget(self) -> None:
        """Drop the threads: they are gone. What is ready stays."""
        self.running = self.coming = 0
        for worker in self.workers:
            worker.retired = True
        self.idle.clear()
        self.workers.clear()
