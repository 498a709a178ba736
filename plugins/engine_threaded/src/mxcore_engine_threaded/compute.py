"""Compute threads equal cores: while workers run side by side, BLAS runs on one thread in each.

:class:`BlasLimit` does it for functions that nobody else looks after, through threadpoolctl. Dispatch puts the NumPy
library's own counter in its place (`ThreadedEngine.limit`), so that one object decides for the whole process.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["BlasLimit"]


class BlasLimit:
    """A scope, which several threads may enter, in which the BLAS libraries of the process use one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._libraries: list[Any] | None = None
        self._before: list[int] = []

    def _find(self) -> list[Any]:
        from threadpoolctl import ThreadpoolController  # 10 ms; only who computes on several workers pays

        return list(ThreadpoolController().select(user_api="blas").lib_controllers)

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                if self._libraries is None:
                    self._libraries = self._find()
                self._before = [library.get_num_threads() for library in self._libraries]
                for library, before in zip(self._libraries, self._before):
                    if before != 1:
                        library.set_num_threads(1)
            self._depth += 1

    def __exit__(self, *exc: Any) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                for library, before in zip(self._libraries or (), self._before):
                    if before != 1:
                        library.set_num_threads(before)
