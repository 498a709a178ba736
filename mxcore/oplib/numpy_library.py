"""The ``numpy`` op library: every kernel on the CPU, with nothing but NumPy."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..spec import KernelMissing, OpLibraryCapability
from . import table, threads

# Kernels divide by zero and overflow without a word, as MXNet's. numpy.errstate would cost a microsecond a call, so
# one filter silences the warnings raised in our own modules; the user's NumPy keeps its settings.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"mxcore\.")


class NumpyLibrary:
    """Kernels over NumPy arrays; serves the CPU device types, any number of device ids.

    Examples
    --------
    >>> library = NumpyLibrary()
    >>> library.kernel("broadcast_add")(np.ones(2), np.ones(2))
    array([2., 2.])
    """

    name = "numpy"
    device_types = frozenset({"cpu", "cpu_pinned", "cpu_shared"})
    capabilities = frozenset({OpLibraryCapability.INPLACE})
    xp = np
    array_type = np.ndarray

    def __init__(self) -> None:
        table.load()
        self._kernels: dict[str, Callable[..., Any]] = {}

    def scheduled_by(self, engine: Any) -> None:
        """Share large kernels out between the workers of ``engine``, where it has some."""
        threads.scheduled_by(engine)

    def kernel(self, operator: str) -> Callable[..., Any]:
        """Return the kernel of ``operator``; raises KernelMissing."""
        try:
            return self._kernels[operator]
        except KeyError:
            pass
        # Looked up now and not copied at the start: plugins declare kernels later.
        own = table.NUMPY.get(operator)
        if own is not None:
            self._kernels[operator] = own
            return own
        shared = table.SHARED.get(operator)
        if shared is None:
            raise KernelMissing(
                f"operator '{operator}' has no kernel in op library 'numpy'. Declare one with "
                f"mxcore.oplib.kernel({operator!r}), or use a library that has it.",
                kind="ops",
                name="numpy",
                operator=operator,
            )
        bound = self._kernels[operator] = functools.partial(shared, np)
        return bound

    def has_kernel(self, operator: str) -> bool:
        """Whether :meth:`kernel` would succeed."""
        return operator in table.NUMPY or operator in table.SHARED

    def takes_out(self, operator: str) -> bool:
        """Whether the kernel can write its result to a given array."""
        return operator in table.TAKES_OUT

    def empty(self, shape: Sequence[int], dtype: Any, device_id: int = 0) -> np.ndarray:
        """Return an uninitialised array."""
        return np.empty(tuple(shape), dtype)

    def from_host(self, array: Any, device_id: int = 0) -> np.ndarray:
        """Return a fresh C-ordered copy."""
        return np.array(array, order="C")

    def to_host(self, array: np.ndarray) -> np.ndarray:
        """Return a fresh C-ordered copy, so that the caller may keep and change it."""
        return np.array(array, order="C")

    def copy(self, array: np.ndarray, device_id: int = 0) -> np.ndarray:
        """Return a fresh C-ordered copy."""
        return np.array(array, order="C")

    def assign(self, array: np.ndarray, key: Any, value: Any) -> np.ndarray:
        """``array[key] = value`` in place."""
        array[key] = value
        return array

    def device_count(self, device_type: str) -> int:
        """1: the CPU. Any device id is accepted, as in MXNet."""
        return 1 if device_type in self.device_types else 0

    def synchronize(self, device_id: int = 0) -> None:
        """Nothing to wait for."""
