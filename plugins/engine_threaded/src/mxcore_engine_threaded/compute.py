"""Compute threads equal cores: while workers run side by side, BLAS runs on one thread in each.

:class:`BlasLimit` does it for functions that nobody else looks after. Dispatch puts the NumPy library's own counter in its
place (`ThreadedEngine.limit`), so that one object decides for the whole process.

threadpoolctl finds the libraries. OpenBLAS is then set directly: threadpoolctl sets it for the calling thread where
OpenBLAS can do that, and here it is one thread that enters the scope and another one that leaves it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["BlasLimit"]


def _setting(controller: Any) -> tuple[Callable[[], int], Callable[[int], Any]]:
    """Return ``get()`` and ``set(number)`` of a library's threads, for the whole process."""
    if controller.internal_api == "openblas":
        for prefix, suffix in itertools.product(("scipy_", ""), ("64_", "_64", "")):
            name = f"{prefix}openblas_{{}}_num_threads{suffix}"
            if hasattr(controller.dynlib, name.format("set")):
                return getattr(controller.dynlib, name.format("get")), getattr(controller.dynlib, name.format("set"))
    return controller.get_num_threads, controller.set_num_threads


class BlasLimit:
    """A scope in which the BLAS libraries of the process use one thread.

    Several threads may be in it; it may be entered in one thread and left in another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._libraries: list[tuple[Callable[[], int], Callable[[int], Any]]] | None = None
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                if self._libraries is None:
                    from threadpoolctl import ThreadpoolController  # 10 ms; only who computes on several workers pays

                    found = ThreadpoolController().select(user_api="blas").lib_controllers
                    self._libraries = [_setting(controller) for controller in found]
                self._before = [get() for get, _ in self._libraries]
                for (_, put), before in zip(self._libraries, self._before):
                    if before != 1:
                        put(1)
            self._depth += 1

    def __exit__(self, *exc: Any) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                for (_, put), before in zip(self._libraries or (), self._before):
                    if before != 1:
                        put(before)
