"""What the engine schedules: one pushed run of a function, and the pieces of a range shared between threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from mxcore.engine.dependency import PushSite, Sets, Task
from mxcore.spec import FnProperty

from .interrupts import call

__all__ = ["Alone", "Job", "Waiter", "Work"]


class Work(Task):
    """A task of the tracker, with what the engine keeps beside it.

    Attributes
    ----------
    estimate : Estimate or None
        What is known about its cost.
    nbytes : int
        Bytes that its results will occupy.
    rank : int
        Nanoseconds of work that depend on it and on itself, by the learned plan; 0 when unknown.
    number : int
        Its number for instruments; 0 while nobody listens.
    why : str
        Why it was handed over.
    """

    __slots__ = ("estimate", "nbytes", "number", "pool", "rank", "why")

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
        nbytes: int = 0,
        estimate: Any = None,
        why: str = "",
    ) -> None:
        # Not through super(): guarded by benchmarks/engine.py, "push + complete".
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
        self.nbytes = nbytes
        self.estimate = estimate
        self.pool: Any = None
        self.rank = 0
        self.number = 0
        self.why = why


class Alone:
    """What the only pusher runs without the lock. ``sets`` is None until they are marked in the tracker."""

    __slots__ = ("after", "name", "reads", "sets", "writes")

    def __init__(self) -> None:
        self.name = ""
        self.reads: tuple[Any, ...] = ()
        self.writes: tuple[Any, ...] = ()
        self.sets: Any = None
        self.after: list[Any] = []  # deletions of its own variables


class Waiter:
    """One thread that sleeps until the engine wakes it. Changed with the engine's lock only.

    Attributes
    ----------
    depth : int
        How many functions this thread is running; 0 outside of functions.
    pool : Pool or None
        Whose worker it is.
    everything : bool
        It waits for all, not for one variable.
    done, stuck : bool
        What it waited for came; or never can.
    """

    __slots__ = ("depth", "done", "everything", "failure", "parker", "pool", "registered", "stuck")

    def __init__(self, parker: Any, depth: int, pool: Any, everything: bool = False) -> None:
        self.parker = parker
        self.depth = depth
        self.pool = pool
        self.everything = everything
        self.done = False
        self.stuck = False
        self.registered = False
        self.failure: Any = None


class Job:
    """The pieces of one ``parallel_for``: whoever works on it takes the next piece until none is left."""

    __slots__ = ("_next", "caller", "errors", "finished", "fn", "held", "pieces")

    def __init__(
        self, pieces: list[tuple[int, int]], fn: Callable[[int, int], Any], caller: Any, held: list[Any]
    ) -> None:
        self.pieces = pieces
        self.fn = fn
        self.caller = caller
        self.held = tuple(held)
        self._next = itertools.count().__next__  # atomic: every piece goes to one thread
        self.finished: list[int] = []
        self.errors: list[tuple[int, BaseException]] = []

    @property
    def over(self) -> bool:
        """Whether every piece has ended."""
        return len(self.finished) == len(self.pieces)

    def work(self) -> bool:
        """Take pieces until there are none left; return whether there was one.

        An error of a piece is kept: the others are still done, since they may be half done elsewhere. After an
        interrupt those are left out that nobody has begun.
        """
        pieces, total, took = self.pieces, len(self.pieces), False
        while (i := self._next()) < total:
            took = True
            try:
                call(self.fn, *pieces[i])
            except BaseException as error:
                self.errors.append((i, error))
                if not isinstance(error, Exception):
                    while (left := self._next()) < total:
                        self.finished.append(left)
            self.finished.append(i)
            if len(self.finished) == total:
                self.caller.unpark()
        return took
