"""``mx.nd.op``: every operator by its own name."""

from __future__ import annotations

from .namespace import prefixed

__getattr__, __dir__ = prefixed(__name__, "")
