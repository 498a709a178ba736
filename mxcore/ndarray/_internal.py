"""``mx.nd._internal``: operators whose names start with an underscore."""

from __future__ import annotations

from .namespace import prefixed

__getattr__, __dir__ = prefixed(__name__, "")
