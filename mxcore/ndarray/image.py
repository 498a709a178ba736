"""``mx.nd.image``: Image operators."""

from __future__ import annotations

from .namespace import prefixed

__getattr__, __dir__ = prefixed(__name__, "_image_")
