"""The table of kernels: name of operator -> function over an array namespace.

``@kernel("softmax")`` declares ``softmax(xp, data, *, axis, ...)``: written once over ``xp`` and used by every op
library whose namespace follows NumPy. Arrays are positional (None for an optional input left out), attributes are
keywords, all given and already typed. A kernel is pure unless its record says ``mutates``, or it was declared with
``out=True`` and takes ``out``: an array to write the result to (which may be one of the inputs), or None.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

#: Modules of this room that declare kernels when imported.
MODULES = (
    "elementwise",
    "broadcast",
    "scalar",
    "special",
    "subscript",
    "reduction",
    "shape",
    "joining",
    "slicing",
    "repeating",
    "blocks",
    "indexing",
    "coordinates",
    "ordering",
    "linalg",
    "neural",
    "normalization",
    "loss",
    "sequence",
    "random",
    "creation",
    "update",
    "multi_update",
    "images",
    "selection",
    "boxes",
    "proposals",
    "sampling",
    "contrib",
    "sparse",
    "windowed",
)

#: Kernels over any namespace.
SHARED: dict[str, Callable[..., Any]] = {}
#: Kernels that need NumPy itself (in-place tricks, LAPACK, random streams).
NUMPY: dict[str, Callable[..., Any]] = {}
#: Names of kernels that take ``out``.
TAKES_OUT: set[str] = set()


def kernel(*names: str, out: bool = False, numpy: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a kernel for one or more operators.

    Parameters
    ----------
    *names : str
        Operators it serves.
    out : bool
        The function takes ``out=``.
    numpy : bool
        The function is for NumPy arrays only and takes no ``xp``.
    """

    def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            (NUMPY if numpy else SHARED)[name] = fn
            if out:
                TAKES_OUT.add(name)
        return fn

    return declare


def load() -> None:
    """Import every module that declares kernels. Idempotent."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.kernels.{module}")
