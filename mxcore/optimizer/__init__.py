"""OPTIMIZERS: rules that change weights along gradients, and the updater that keeps their states."""

from __future__ import annotations

from . import contrib, optimizer
from .optimizer import *  # noqa: F403

__all__ = [*optimizer.__all__, "contrib"]
