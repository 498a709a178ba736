"""Overwrites of arrays: count them, and remember the line that did it, for autograd's errors."""

from __future__ import annotations

import sys
from typing import Any

from .array import cell_of


def touched(x: Any) -> None:
    """Note that the buffer of ``x`` was overwritten: raise its version, keep the caller's line.

    The line is that of the first frame outside mxcore.
    """
    cell = cell_of(x)
    cell.version += 1
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("mxcore."):
            cell.site = (frame.f_code, frame.f_lineno)
            return
        frame = frame.f_back  # type: ignore[assignment]


def last_write(cell: Any) -> str:
    """Say where the last overwrite happened: ``"line 12 of train.py"``, or nothing if unknown."""
    site = cell.site
    if site is None:
        return ""
    code, line = site
    return f"line {line} of {code.co_filename}"
