"""KERNELS: how an array library computes each operator, and the NumPy library.

A kernel sees raw arrays of its library's type; it knows nothing of NDArrays, recording or scheduling.
"""

from __future__ import annotations

from .table import kernel

__all__ = ["kernel"]
