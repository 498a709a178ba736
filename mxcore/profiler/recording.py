"""What was seen: tuples appended by listeners in whatever thread an event happens.

Appending takes no lock, for a buffer may be freed (and its event arrive) in the middle of anything, by the garbage
collector; every table here changes by single atomic operations. Formatting is left to :mod:`.trace` and
:mod:`.statistics`. A recording holds at most ``max_events`` tuples: what comes later is counted and dropped, so that
the record is whole up to a moment. It keeps no exception, array or buffer alive.

Tuples by their first item::

    PUSH     time, track, task, priority, reads, writes
    SPAN     begin, end, track, category, name, device, task, error    a function that ran
    WAIT     begin, end, track, what
    MEMORY   time, track, device, nbytes                               negative: it came back
    TASK     begin, end, track, category, name                         also FRAME and MOMENT (an Event)
    COUNTER  time, track, domain, name, value
    MARKER   time, track, domain, name, scope
    GAP      time                                                      listening ended here

Times are nanoseconds of :func:`time.perf_counter_ns`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ..instruments import instruments
from . import scopes

PUSH, SPAN, WAIT, MEMORY, TASK, FRAME, MOMENT, COUNTER, MARKER, GAP = range(10)

now = time.perf_counter_ns


class Track:
    """One thread's line in the timeline. ``dropped`` counts what this thread had no room for."""

    __slots__ = ("dropped", "generation", "name", "waits")

    def __init__(self, name: str) -> None:
        self.name = name
        self.dropped = 0
        self.generation = 0
        self.waits: list[tuple[int, Any]] = []


class Recording:
    """One record from its start to its last dump. May be used from any thread.

    Parameters
    ----------
    max_events : int
        How many tuples it holds at most (a few more when several threads append the last ones).
    """

    def __init__(self, max_events: int) -> None:
        self.max_events = max_events
        self.started_ns = now()
        self.started_at = time.time()
        self.records: list[tuple[Any, ...]] = []
        self.tracks: list[Track] = []
        self.events: tuple[str, ...] = ()
        self._generation = 0
        self._local = threading.local()
        #: Functions that run now: task -> (begin, track, category, name, device).
        self.running: dict[int, tuple[Any, ...]] = {}
        #: Pushed in a scope: task -> (category, prefix of its name).
        self._scoped: dict[int, tuple[str, str]] = {}
        self._live: dict[int, int] = {}
        self._listeners: dict[str, Callable[..., None]] = {
            "push": self._on_push,
            "begin": self._on_begin,
            "end": self._on_end,
            "wait": self._on_wait,
            "wait_end": self._on_wait_end,
            "alloc": self._on_alloc,
            "free": self._on_free,
        }

    @property
    def dropped(self) -> int:
        """How many tuples there was no room for."""
        return sum(track.dropped for track in list(self.tracks))

    def listen(self, events: Iterable[str]) -> None:
        """Listen to ``events`` and to nothing else; the caller makes sure that nobody else starts or stops meanwhile."""
        wanted = tuple(events)
        if wanted == self.events:
            return
        self.unlisten()
        self._generation += 1
        self.events = wanted
        for event in wanted:
            instruments.add(self._listeners[event], [event])

    def unlisten(self) -> None:
        """Stop listening. What runs now is forgotten, because its end will not be seen."""
        if not self.events:
            return
        self.events = ()
        for listener in self._listeners.values():
            instruments.remove(listener)
        self.running.clear()
        self._scoped.clear()
        self._live.clear()
        if self.records and self.records[-1][0] != GAP:
            self.records.append((GAP, now()))

    def add(self, record: tuple[Any, ...], track: Track) -> None:
        """Keep ``record`` if there is room."""
        if len(self.records) < self.max_events:
            self.records.append(record)
        else:
            track.dropped += 1

    def track(self) -> Track:
        """The caller's thread's track; a new thread gets a new one even if it has an old one's number."""
        try:
            return self._local.track
        except AttributeError:
            thread = threading.current_thread()
            track = Track("main" if thread is threading.main_thread() else thread.name)
            self._local.track = track
            self.tracks.append(track)
            return track

    # -- listeners ---------------------------------------------------------------------------------------------

    def _on_push(
        self,
        event: str,
        task: int,
        name: str,
        priority: int,
        device: Any,
        reads: tuple[Hashable, ...],
        writes: tuple[Hashable, ...],
    ) -> None:
        category, prefix = scopes.category.get(), scopes.current.get()
        if prefix or category is not scopes.OPERATOR:
            self._scoped[task] = (category, prefix)
        track = self.track()
        self.add((PUSH, now(), track, task, priority, reads, writes), track)

    def _on_begin(self, event: str, task: int, name: str, device: Any) -> None:
        track = self.track()
        category, prefix = self._scoped.pop(task, (scopes.OPERATOR, ""))
        self.running[task] = (now(), track, category, prefix + name, device)

    def _on_end(self, event: str, task: int, name: str, device: Any, error: BaseException | None) -> None:
        end = now()
        started = self.running.pop(task, None)
        if started is None:
            return
        begin, track, category, name, device = started
        # The text only: an exception holds its frames, and those hold arrays.
        text = None if error is None else f"{type(error).__name__}: {error}"[:300]
        self.add((SPAN, begin, end, track, category, name, device, task, text), track)

    def _on_wait(self, event: str, what: Any) -> None:
        track = self.track()
        if track.generation != self._generation:  # ends that were not seen
            track.generation = self._generation
            track.waits.clear()
        track.waits.append((now(), what))

    def _on_wait_end(self, event: str, what: Any) -> None:
        end = now()
        track = self.track()
        if track.generation == self._generation and track.waits:
            begin, what = track.waits.pop()
            self.add((WAIT, begin, end, track, str(what)), track)

    def _on_alloc(self, event: str, handle: Any) -> None:
        track = self.track()
        self._live[id(handle)] = handle.nbytes
        self.add((MEMORY, now(), track, handle.device, handle.nbytes), track)

    def _on_free(self, event: str, handle: Any) -> None:
        nbytes = self._live.pop(id(handle), None)
        if nbytes is not None:  # it was handed out while we listened
            track = self.track()
            self.add((MEMORY, now(), track, handle.device, -nbytes), track)
