"""Per-event lists of listeners.

The lists are tuples that are replaced, never changed: emitting needs no lock, and a listener may add or remove
listeners, itself included, while it runs.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ..spec.errors import PluginError

Listener = Callable[..., Any]

#: Event: its arguments.
EVENTS: dict[str, str] = {
    "push": "task, name, priority, device, reads, writes: a function was handed over; task is its number in this "
    "process, reads and writes are tuples of hashable identities of what it reads and writes",
    "begin": "task, name, device: a function starts, in the thread that runs it",
    "end": "task, name, device, error: it ended; error is None or the exception",
    "wait": "what: the caller starts to wait for the engine",
    "wait_end": "what: the wait is over",
    "alloc": "handle: a storage manager handed out a buffer",
    "free": "handle: a buffer came back",
}


#: ``identity()`` returns a number that nothing else in this process has: for tasks, and for what they read and write.
identity = itertools.count(1).__next__


class Instruments:
    """Listeners by event; each event is an attribute holding a tuple of callables, empty while nobody listens.

    Examples
    --------
    >>> board = Instruments()
    >>> seen = []
    >>> board.add(lambda event, *details: seen.append((event, details)), ["push"])
    >>> if board.begin:
    ...     board.emit("begin", 1, "dot", None)
    >>> seen
    []
    >>> board.emit("push", 1, "dot", 0, None, (), ())
    >>> seen
    [('push', (1, 'dot', 0, None, (), ()))]
    """

    __slots__ = ("__weakref__", "_lock", "_watchers", *EVENTS)

    push: tuple[Listener, ...]
    begin: tuple[Listener, ...]
    end: tuple[Listener, ...]
    wait: tuple[Listener, ...]
    wait_end: tuple[Listener, ...]
    alloc: tuple[Listener, ...]
    free: tuple[Listener, ...]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: list[tuple[str, Callable[[], None]]] = []
        for event in EVENTS:
            setattr(self, event, ())

    def add(self, listener: Listener, events: Iterable[str]) -> None:
        """Call ``listener(event, *details)`` for every event named. Adding a listener twice does nothing.

        Raises
        ------
        PluginError
            If an event does not exist.
        """
        wanted = check_events(events)
        with self._lock:
            before = self._heard()
            for event in wanted:
                if listener not in getattr(self, event):
                    setattr(self, event, (*getattr(self, event), listener))
        self._tell(before)

    def remove(self, listener: Listener) -> None:
        """Stop calling ``listener``; nothing happens if it was not added."""
        with self._lock:
            before = self._heard()
            for event in EVENTS:
                setattr(self, event, tuple(other for other in getattr(self, event) if other != listener))
        self._tell(before)

    def watch(self, event: str, changed: Callable[[], None]) -> None:
        """Call ``changed()`` when the first listener of ``event`` comes or the last one goes: for whoever must take
        another way while it is listened to."""
        self._watchers.append((event, changed))

    def renew_lock(self) -> None:
        """Forget the lock: in a forked child, where a thread that does not exist may hold it."""
        self._lock = threading.Lock()

    def _heard(self) -> list[bool]:
        return [bool(getattr(self, event)) for event, _ in self._watchers]

    def _tell(self, before: list[bool]) -> None:
        for (_, changed), old, new in zip(list(self._watchers), before, self._heard()):
            if old != new:
                changed()

    def emit(self, event: str, *details: Any) -> None:
        """Call the listeners of ``event`` in the caller's thread, in the order they were added."""
        for listener in getattr(self, event):
            try:
                listener(event, *details)
            except Exception:
                self.remove(listener)
                import logging  # only failures pay for it

                logging.getLogger("mxcore.instruments").exception(
                    "instrument %r raised at event '%s' and was removed", listener, event
                )


def check_events(events: Iterable[str]) -> tuple[str, ...]:
    """Return ``events`` as a tuple; raise :class:`PluginError` if one does not exist."""
    wanted = (events,) if isinstance(events, str) else tuple(events)
    for event in wanted:
        if event not in EVENTS:
            raise PluginError(f"there is no event '{event}'. Events: {', '.join(EVENTS)}.", event=event)
    return wanted


#: The process's instruments.
instruments = Instruments()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=instruments.renew_lock)
