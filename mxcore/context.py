"""``mx.context``: contexts, and what devices there are."""

from __future__ import annotations

from .dispatch import runtime
from .dispatch.context import Context, cpu, cpu_pinned, current_context, gpu

__all__ = ["Context", "cpu", "cpu_pinned", "current_context", "gpu", "gpu_memory_info", "num_gpus"]


def num_gpus() -> int:
    """How many GPUs the installed op libraries serve here; 0 with none."""
    return runtime.device_count("gpu")


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Return free and total bytes of a GPU.

    Raises
    ------
    MXCoreError
        If no op library here serves GPUs.
    """
    return runtime.memory_info(gpu(device_id))
