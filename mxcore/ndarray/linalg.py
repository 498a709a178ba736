"""``mx.nd.linalg``: Linear algebra."""

from __future__ import annotations

from .namespace import prefixed

__getattr__, __dir__ = prefixed(__name__, "_linalg_", "linalg_")
