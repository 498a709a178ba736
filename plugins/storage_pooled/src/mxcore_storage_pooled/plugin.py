"""The light module of the entry points: records only; what is heavy is imported when a pool is made."""

from __future__ import annotations

from typing import Any

from mxcore.registry import hookimpl
from mxcore.spec import BackendRecord, OptionRecord, StorageCapability

#: Of the core's vocabulary; each also by device type, ``pool.cpu.reserve``.
OPTIONS = {
    "reserve": "Percentage of the memory that pools leave alone.",
    "page_size": "Smallest size class, in bytes.",
    "large_round": "Large requests are rounded up to a multiple of this, in bytes.",
    "round_linear_cutoff": "log2 of the size above which sizes are rounded linearly.",
}

#: MXNet's names of the same, for the device types whose pools the core's options do not name.
_MXNET = {
    "reserve": ("MXNET_{}_MEM_POOL_RESERVE",),
    "page_size": ("MXNET_{}_MEM_POOL_PAGE_SIZE", "MXNET_{}_POOL_PAGE_SIZE"),
    "large_round": ("MXNET_{}_MEM_LARGE_ALLOC_ROUND_SIZE",),
    "round_linear_cutoff": ("MXNET_{}_MEM_POOL_ROUND_LINEAR_CUTOFF",),
}


def _make(name: str) -> Any:
    from .pool import PooledStorage
    from .rounding import configured

    return PooledStorage(name, settings=configured)


@hookimpl
def mxcore_register_storage(registrar: Any) -> None:
    """Offer the four pools, behind ``direct`` where nobody asks for one by name."""
    for device_type in ("cpu", "cpu_pinned", "gpu"):
        for option, doc in OPTIONS.items():
            aliases = tuple(form.format(device_type.upper()) for form in _MXNET[option])
            # The core has the names of the GPU already, for pool.*.
            known = device_type == "gpu"
            registrar.option(
                OptionRecord(
                    f"pool.{device_type}.{option}",
                    int,
                    None,
                    f"{doc[:-1]}; {device_type} only.",
                    aliases=() if known else aliases,
                )
            )
    for name, doc in (
        ("naive", "Blocks of whole pages, reused for requests of exactly their size, as MXNet's Naive pool."),
        ("round", "Powers of two, then multiples of the cut-off, as MXNet's Round pool."),
        ("unpooled", "Nothing is kept."),
        ("best_fit", "Chunks split and merged, the smallest block that fits; the recommended pool."),
    ):
        registrar.storage(
            BackendRecord(
                name,
                (1, 0),
                lambda name=name, **_: _make(name),
                capabilities=frozenset() if name == "unpooled" else frozenset({StorageCapability.POOLED}),
                priority=-10,
                doc=doc,
            )
        )
