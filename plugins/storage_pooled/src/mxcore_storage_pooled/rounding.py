"""Rounding policies: how many bytes a block for a request has. Pure functions of sizes; 0 is rounded as 1.

The rules of ``naive`` and ``round`` are MXNet's (1.9.1, ``src/storage/pooled_storage_manager.h``); ``round`` has no
upper end, where MXNet's tables stop at 16 GiB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mxcore.spec import ConfigError

Rounding = Callable[[int], int]

#: ``best_fit``: below this, classes; from here on, pages.
SMALL = 1 << 20
#: Every block of every pool starts at and is a multiple of this, where a pool splits.
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options of one device type say.

    Attributes
    ----------
    reserve : int
        Percentage of the device's memory that the pool leaves alone: it empties itself before it takes from there.
    page_size : int
        Bytes; ``naive`` and large blocks of ``best_fit`` are whole pages, ``round`` has none smaller.
    large_round : int
        Bytes; ``naive`` rounds what is larger than this up to a multiple of it.
    round_linear_cutoff : int
        ``round``: log2 of the size up to which sizes are powers of two.

    Raises
    ------
    ConfigError
        If a value cannot be.
    """

    reserve: int = 5
    page_size: int = 4096
    large_round: int = 2 * 1024 * 1024
    round_linear_cutoff: int = 24

    def __post_init__(self) -> None:
        page = self.page_size
        cutoff = self.round_linear_cutoff
        for what, fine, wanted in (
            ("reserve", 0 <= self.reserve <= 100, "a percentage, 0 to 100"),
            ("page_size", page >= 32, "at least 32 bytes"),
            ("large_round", self.large_round > 0, "more than 0 bytes"),
            ("round_linear_cutoff", 20 <= cutoff <= 34, "a power of two between 20 and 34, as in MXNet"),
        ):
            if not fine:
                raise ConfigError(
                    f"option 'pool.{what}' is {getattr(self, what)}, which a pool cannot work with. Give {wanted}.",
                    option=f"pool.{what}",
                    value=getattr(self, what),
                )


def configured(device_type: str) -> Settings:
    """Read the options of a device type: ``pool.cpu.reserve`` wins over ``pool.reserve``.

    MXNet's variables of the GPU (``MXNET_GPU_MEM_POOL_RESERVE``) are names of ``pool.reserve``; they concern GPUs only.
    """
    from mxcore.config import layers

    given = {}
    for option in Settings.__dataclass_fields__:
        own = layers(f"pool.{device_type}.{option}") if device_type in ("cpu", "cpu_pinned", "gpu") else []
        for setting in own + layers(f"pool.{option}"):
            foreign = device_type != "gpu" and setting.origin.detail.startswith("MXNET_GPU_")
            if setting.value is not None and not foreign:
                given[option] = setting.value
                break
    return Settings(**given)


def up(nbytes: int, multiple: int) -> int:
    """Round up to a multiple.

    Examples
    --------
    >>> up(65, 64), up(64, 64)
    (128, 64)
    """
    return -(-nbytes // multiple) * multiple


def pages(settings: Settings) -> Rounding:
    """``naive``: whole pages; above ``large_round``, multiples of that.

    Examples
    --------
    >>> size = pages(Settings())
    >>> size(1), size(4097), size(2 << 20), size((2 << 20) + 1)
    (4096, 8192, 2097152, 4194304)
    """
    page, large = settings.page_size, settings.large_round

    def capacity(nbytes: int) -> int:
        rounded = up(max(nbytes, 1), page)
        return rounded if rounded <= large else up(rounded, large)

    return capacity


def powers(settings: Settings) -> Rounding:
    """``round``: powers of two from the page on, above ``2 ** round_linear_cutoff`` multiples of that.

    Raises
    ------
    ConfigError
        If the page is no power of two, or larger than the cut-off.

    Examples
    --------
    >>> size = powers(Settings())
    >>> size(1), size(5000), size((16 << 20) + 1) >> 20
    (4096, 8192, 32)
    """
    page, cutoff = settings.page_size, 1 << settings.round_linear_cutoff
    if page & (page - 1) or page > cutoff:
        raise ConfigError(
            f"option 'pool.page_size' is {page}; storage 'round' needs a power of two, at most "
            f"2**{settings.round_linear_cutoff} (pool.round_linear_cutoff).",
            option="pool.page_size",
            value=page,
        )

    def capacity(nbytes: int) -> int:
        if nbytes > cutoff:
            return up(nbytes, cutoff)
        return max(1 << (max(nbytes, 1) - 1).bit_length(), page)

    return capacity


def exact(settings: Settings) -> Rounding:
    """``unpooled``: what was asked for.

    Examples
    --------
    >>> exact(Settings())(5000)
    5000
    """
    return lambda nbytes: max(nbytes, 1)


def classes(settings: Settings) -> Rounding:
    """``best_fit``: steps of 64 bytes up to 512, four classes per doubling below 1 MiB, then pages.

    Examples
    --------
    >>> size = classes(Settings())
    >>> size(1), size(300), size(513), size(700_000), size(SMALL + 1) - SMALL
    (64, 320, 640, 786432, 4096)
    """
    page = up(settings.page_size, ALIGNMENT)

    def capacity(nbytes: int) -> int:
        if nbytes <= 256:
            return up(max(nbytes, 1), ALIGNMENT)
        if nbytes >= SMALL:
            return up(nbytes, page)
        step = 1 << ((nbytes - 1).bit_length() - 3)
        return up(nbytes, step)

    return capacity
