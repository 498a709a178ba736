"""INPUT: data iterators of the Module interface."""

from __future__ import annotations

from . import io, utils
from .io import (
    CSVIter,
    DataBatch,
    DataDesc,
    DataIter,
    MNISTIter,
    MXDataIter,
    NDArrayIter,
    PrefetchingIter,
    ResizeIter,
)

__all__ = [
    "DataDesc",
    "DataBatch",
    "DataIter",
    "ResizeIter",
    "PrefetchingIter",
    "NDArrayIter",
    "MXDataIter",
    "CSVIter",
    "MNISTIter",
    "io",
    "utils",
]
