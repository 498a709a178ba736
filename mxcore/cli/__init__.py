"""The ``mxcore`` command: plugins, options, and what to paste into a bug report.

Exit codes: 0 fine, 1 a problem was found, 2 wrong usage. ``--json`` prints one JSON document.
"""

from __future__ import annotations

from .main import main

__all__ = ["main"]
