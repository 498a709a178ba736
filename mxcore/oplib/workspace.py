"""Per-thread temporaries that kernels borrow and give back.

A fresh large array costs a page fault per 4 KiB the first time it is written; a buffer that is used again
costs nothing. Each thread keeps the last buffer it used under each ``(tag, dtype)``, grown as needed. Buffers
never leave the ``with`` block that borrowed them: results that a kernel returns are always arrays of their own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["borrow", "cached_nbytes", "release", "set_limit"]

_DEFAULT_LIMIT_NBYTES = 256 << 20
_ALIGNMENT = 64  # one cache line, and the widest vector register


class _Shelf(threading.local):
    """The idle buffers of one thread."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, str], np.ndarray] = {}
        self.nbytes = 0


_shelf = _Shelf()
_limit_nbytes = _DEFAULT_LIMIT_NBYTES


class borrow:
    """Context manager that lends an uninitialised, contiguous, aligned temporary.

    Parameters
    ----------
    tag : str
        What the buffer is for. Equal tags share one idle buffer per thread and dtype.
    shape : sequence of int
    dtype : dtype-like

    Notes
    -----
    Nested use under one tag is safe: the inner block finds the shelf empty and gets a buffer of its own.
    The array must not be kept after the block.

    Examples
    --------
    >>> with borrow("columns", (2, 3), "float32") as columns:
    ...     columns[:] = 1
    ...     total = float(columns.sum())
    >>> total
    6.0
    """

    __slots__ = ("_buffer", "_dtype", "_key", "_shape")

    def __init__(self, tag: str, shape: Sequence[int], dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._key = (tag, self._dtype.str)
        self._shape = shape

    def __enter__(self) -> np.ndarray:
        size = math.prod(self._shape)
        buffer = _shelf.buffers.pop(self._key, None)
        if buffer is not None:
            _shelf.nbytes -= buffer.nbytes
        if buffer is None or buffer.size < size:
            buffer = _aligned(size, self._dtype)
        self._buffer = buffer
        return buffer[:size].reshape(self._shape)

    def __exit__(self, *exc_info: object) -> None:
        buffer = self._buffer
        del self._buffer
        other = _shelf.buffers.get(self._key)
        kept = 0 if other is None else other.nbytes
        # A nested block may have shelved one already: the larger stays. Over the limit, none does.
        if buffer.nbytes > kept and _shelf.nbytes - kept + buffer.nbytes <= _limit_nbytes:
            _shelf.buffers[self._key] = buffer
            _shelf.nbytes += buffer.nbytes - kept


def _aligned(size: int, dtype: np.dtype) -> np.ndarray:
    raw = np.empty(size * dtype.itemsize + _ALIGNMENT, dtype=np.uint8)
    skip = -raw.ctypes.data % _ALIGNMENT
    return raw[skip : skip + size * dtype.itemsize].view(dtype)


def cached_nbytes() -> int:
    """Return the bytes of idle buffers that the calling thread holds."""
    return _shelf.nbytes


def release() -> int:
    """Drop the idle buffers of the calling thread and return how many bytes that freed."""
    freed = _shelf.nbytes
    _shelf.buffers.clear()
    _shelf.nbytes = 0
    return freed


def set_limit(nbytes: int) -> int:
    """Set how many idle bytes each thread may keep, and return the earlier limit.

    Buffers above the limit still work; they are freed at the end of their block.
    """
    global _limit_nbytes
    earlier, _limit_nbytes = _limit_nbytes, int(nbytes)
    return earlier
