"""OBSERVING: listeners of what the engine, storage and dispatch do, behind a guard that costs nothing when idle.

Whoever emits an event guards it, so that nobody pays while nothing listens::

    if instruments.push:
        instruments.emit("push", task, name, priority, device, reads, writes)

with the arguments that :data:`EVENTS` names for the event.

A listener that raises is removed and logged: observing must never change what is observed.
"""

from __future__ import annotations

from .events import EVENTS, Instruments, identity, instruments

__all__ = ["EVENTS", "Instruments", "identity", "instruments"]
