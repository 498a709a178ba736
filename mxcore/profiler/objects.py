"""What a program adds to the timeline: tasks, frames, events, counters and markers, grouped by domains."""

from __future__ import annotations

import threading
from typing import Any

from ..spec.errors import ConfigError
from . import control
from .recording import COUNTER, FRAME, MARKER, MOMENT, TASK, Recording, now

#: Scope of a marker: how far Chrome's viewer draws it.
_MARKER_SCOPES = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


class Domain:
    """A group of tasks, frames, counters and markers: one row of the timeline, one part of the statistics.

    Parameters
    ----------
    name : str

    Examples
    --------
    >>> domain = Domain("loader")
    >>> str(domain), str(domain.new_task("read"))
    ('loader', 'read')
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """Return a new :class:`Task` of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """Return a new :class:`Frame` of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: int | None = None) -> Counter:
        """Return a new :class:`Counter` of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """Return a new :class:`Marker` of this domain."""
        return Marker(self, name)


class _Duration:
    """Something with a start and a stop. It is recorded if the profiler listened at both, in one recording."""

    _kind: int

    def __init__(self, category: str, name: str) -> None:
        self.name = name
        self._category = category
        self._started: tuple[int, Recording] | None = None

    def start(self) -> None:
        """Start the time. A second start without a stop starts anew."""
        recording = control.active_recording()
        self._started = None if recording is None else (now(), recording)

    def stop(self) -> None:
        """Stop the time and record it; without a start while profiling, nothing is recorded."""
        end = now()
        started, self._started = self._started, None
        recording = control.active_recording()
        if started is not None and started[1] is recording:
            track = recording.track()
            recording.add((self._kind, started[0], end, track, self._category, self.name), track)

    def __str__(self) -> str:
        return self.name


class Task(_Duration):
    """A piece of work of a domain. May start and stop in different threads, and overlap others.

    Parameters
    ----------
    domain : Domain
    name : str
    """

    _kind = TASK

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(_named(domain, "Task"), name)


class Frame(_Duration):
    """One pass of something that repeats, on a row of its own beside the domain's tasks.

    Parameters
    ----------
    domain : Domain
    name : str
    """

    _kind = FRAME

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(f"{_named(domain, 'Frame')},frame", name)


class Event(_Duration):
    """A span of the thread that stops it, without a domain.

    Parameters
    ----------
    name : str
    """

    _kind = MOMENT

    def __init__(self, name: str) -> None:
        super().__init__("event", name)


class Counter:
    """A whole number that is drawn over time. It counts always, and is recorded while profiling.

    Parameters
    ----------
    domain : Domain
    name : str
    value : int, optional
        First value; without it the counter starts at 0, unrecorded.

    Examples
    --------
    >>> counter = Counter(Domain("loader"), "samples", 3)
    >>> counter += 4
    >>> counter.decrement()
    >>> counter.value
    6
    """

    def __init__(self, domain: Domain, name: str, value: int | None = None) -> None:
        self.name = name
        self._domain = _named(domain, "Counter")
        self._lock = threading.Lock()
        self._value = 0
        if value is not None:
            self.set_value(value)

    @property
    def value(self) -> int:
        """What it stands at."""
        return self._value

    def set_value(self, value: int) -> None:
        """Set it to ``int(value)``."""
        with self._lock:
            self._record(int(value))

    def increment(self, delta: int = 1) -> None:
        """Add ``int(delta)``."""
        with self._lock:
            self._record(self._value + int(delta))

    def decrement(self, delta: int = 1) -> None:
        """Subtract ``int(delta)``."""
        self.increment(-int(delta))

    def _record(self, value: int) -> None:
        self._value = value
        recording = control.active_recording()
        if recording is not None:
            track = recording.track()
            recording.add((COUNTER, now(), track, self._domain, self.name, value), track)

    def __iadd__(self, delta: int) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: int) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


class Marker:
    """A moment that is marked in the timeline.

    Parameters
    ----------
    domain : Domain
    name : str
    """

    def __init__(self, domain: Domain, name: str) -> None:
        self.name = name
        self.domain = domain
        self._domain = _named(domain, "Marker")

    def mark(self, scope: str = "process") -> None:
        """Mark now.

        Parameters
        ----------
        scope : {'global', 'process', 'thread', 'task', 'marker'}
            How far the mark is drawn; the last two are drawn like ``'thread'``.

        Raises
        ------
        ConfigError
            For another scope.
        """
        if scope not in _MARKER_SCOPES:
            raise ConfigError(
                f"Marker.mark: scope is {scope!r}. Give one of {', '.join(map(repr, _MARKER_SCOPES))}.", value=scope
            )
        recording = control.active_recording()
        if recording is not None:
            track = recording.track()
            recording.add((MARKER, now(), track, self._domain, self.name, _MARKER_SCOPES[scope]), track)

    def __str__(self) -> str:
        return self.name


def _named(domain: Any, what: str) -> str:
    if not isinstance(domain, Domain):
        raise TypeError(f"profiler.{what} needs a profiler.Domain as its domain, got {type(domain).__name__}.")
    return domain.name
