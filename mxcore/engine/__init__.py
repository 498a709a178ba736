"""SCHEDULING: the pure dependency tracker, and NaiveEngine, the engine that core brings.

Threaded engines are plugins built on the same tracker; the seeded one is in :mod:`mxcore.testing.engine_seeded`.
"""

from __future__ import annotations

from .dependency import (
    Completion,
    DependencyTracker,
    Failure,
    Operation,
    Task,
    Variable,
    push_site,
    retire,
    separate,
)
from .naive import NaiveEngine
from .pieces import pieces, run_serially
from .process import bulk, explain, set_bulk_size

__all__ = [
    "Completion",
    "DependencyTracker",
    "Failure",
    "NaiveEngine",
    "Operation",
    "Task",
    "Variable",
    "bulk",
    "explain",
    "pieces",
    "push_site",
    "retire",
    "run_serially",
    "separate",
    "set_bulk_size",
]
