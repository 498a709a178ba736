"""The contract of an op library: kernels over one array type.

An op library sees raw arrays of its own type and knows nothing of scheduling, recording or views.
Kernels are pure by default. What a library can do in place is a capability, because some array types
cannot be written (JAX).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

Kernel = Callable[..., Any]


class OpLibraryCapability(enum.Enum):
    """What an op library can do beyond the base contract."""

    INPLACE = "inplace"  #: arrays can be written: ``assign`` writes through, basic slices are views
    COMPILE = "compile"  #: ``compile(graph)`` exists
    DEVICE_ASYNC = "device_async"  #: kernels return before the device is done; ``synchronize`` waits


@runtime_checkable
class OperatorLibrary(Protocol):
    """Kernels and array handling for the device types it serves.

    Attributes
    ----------
    name : str
    device_types : frozenset of str
        ``"cpu"``, ``"gpu"``, ...
    xp : module
        Array namespace (NumPy, CuPy, jax.numpy) that shared kernels are written over.
    array_type : type
        The exact type of its arrays.
    """

    name: str
    device_types: frozenset[str]
    capabilities: frozenset[OpLibraryCapability]
    xp: Any
    array_type: type

    def kernel(self, operator: str) -> Kernel:
        """Return the kernel of ``operator``: ``kernel(*arrays, **attributes) -> array or tuple of arrays``.

        Raises
        ------
        KernelMissing
            Naming the operator, this library and the libraries that have one.
        """

    def has_kernel(self, operator: str) -> bool:
        """Whether :meth:`kernel` would succeed. Cheap."""

    def empty(self, shape: Sequence[int], dtype: Any, device_id: int = 0) -> Any:
        """Return an uninitialised array."""

    def from_host(self, array: Any, device_id: int = 0) -> Any:
        """Return a fresh device array with the values of a NumPy array. Blocks until the source may change."""

    def to_host(self, array: Any) -> Any:
        """Return a NumPy array with the values of a device array. Blocks."""

    def copy(self, array: Any, device_id: int = 0) -> Any:
        """Return a fresh array with the same values."""

    def assign(self, array: Any, key: Any, value: Any) -> Any:
        """``array[key] = value``; returns the array that now holds the values (the same one with INPLACE)."""

    def device_count(self, device_type: str) -> int:
        """How many devices of this type the library serves here. Must not raise."""

    def synchronize(self, device_id: int = 0) -> None:
        """Block until all kernels started on the device are done."""

    # Optional: ``scheduled_by(engine)`` is called when an engine comes into use with this library. A library that shares
    # its kernels out between threads then asks ``engine.parallel_for`` for them, so that threads equal cores.
