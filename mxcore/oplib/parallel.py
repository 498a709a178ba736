"""Sharing out independent pieces of work: the function that kernels take for it, and the one that does not share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: ``parallel_for(n, grain, fn)`` calls ``fn(low, high)`` over parts of ``range(n)``, possibly from several threads, and
#: returns when all are done. Results must not depend on how it cuts.
ParallelFor = Callable[[int, int, Callable[[int, int], Any]], None]


def serial(n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
    """Call ``fn(0, n)``: a :data:`ParallelFor` without threads."""
    fn(0, n)
