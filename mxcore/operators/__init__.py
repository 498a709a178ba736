"""DEFINITIONS: one record per operator. Kernels live in :mod:`mxcore.oplib`, calls in :mod:`mxcore.dispatch`."""

from __future__ import annotations

from .record import (
    NO_GRADIENT,
    ZERO_GRADIENT,
    Broadcasting,
    ErrorSample,
    Input,
    Joint,
    Operator,
    Sample,
    Spec,
    error,
    sample,
)
from .registry import get, known, names, operator, records

__all__ = [
    "NO_GRADIENT",
    "ZERO_GRADIENT",
    "Broadcasting",
    "ErrorSample",
    "Input",
    "Joint",
    "Operator",
    "Sample",
    "Spec",
    "error",
    "get",
    "known",
    "names",
    "operator",
    "records",
    "sample",
]
