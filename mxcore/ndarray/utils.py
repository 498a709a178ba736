"""``mx.nd.utils``: functions that dispatch on storage type; all arrays are dense here."""

from __future__ import annotations

from .creation import array, empty, zeros
from .files import load, load_frombuffer, save

__all__ = ["array", "empty", "load", "load_frombuffer", "save", "zeros"]
