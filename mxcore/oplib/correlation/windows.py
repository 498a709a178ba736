"""Which positions of a padded input each output of a correlation sees, forward and backward.

Plans only, made from shapes once per combination; the one view they give copies nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Which positions of a padded input the outputs see.

    Output ``j`` sees, at tap ``t``, padded position ``start + stride * j + step * t``; padded position ``i`` is input
    position ``i - low`` or zero. One entry per spatial axis.
    """

    low: Ints
    size: Ints
    start: Ints
    stride: Ints
    taps: Ints
    step: Ints
    out: Ints

    @property
    def n_taps(self) -> int:
        return math.prod(self.taps)

    @property
    def n_out(self) -> int:
        return math.prod(self.out)

    @property
    def whole(self) -> bool:
        """Whether there is one tap and the windows are the padded input itself."""
        return self.n_taps == 1 and self.out == self.size and not any(self.start)

    def reads_all_of(self, spatial: Ints) -> bool:
        """Whether the padded input is the input itself."""
        return self.size == spatial and not any(self.low)

    def view(self, padded: np.ndarray, first_axis: int, block: Sequence[slice], taps_last: bool) -> np.ndarray:
        """View contiguous ``padded`` with its spatial axes replaced by those of ``out[block]`` and of the taps."""
        last_axis = first_axis + len(self.out)
        lead, spatial, tail = (
            padded.strides[:first_axis],
            padded.strides[first_axis:last_axis],
            padded.strides[last_axis:],
        )
        offset = 0
        for begin, stride, part, nbytes in zip(self.start, self.stride, block, spatial):
            offset += (begin + stride * part.start) * nbytes
        out = tuple(part.stop - part.start for part in block)
        out_strides = tuple(s * nbytes for s, nbytes in zip(self.stride, spatial))
        tap_strides = tuple(s * nbytes for s, nbytes in zip(self.step, spatial))
        if taps_last:
            shape, strides = (*out, *self.taps), (*out_strides, *tap_strides)
        else:
            shape, strides = (*self.taps, *out), (*tap_strides, *out_strides)
        # np.ndarray is three times faster than as_strided, which matters for small pieces.
        return np.ndarray(
            (*padded.shape[:first_axis], *shape, *padded.shape[last_axis:]),
            padded.dtype,
            padded,
            offset,
            (*lead, *strides, *tail),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """One correlation: ``y[n, g, o, j] = sum over c, t of x[n, g, c, window(j, t)] * w[g, o, c, t]``."""

    windows: Windows
    w: np.ndarray  # (G, O/G, C/G, *taps), any strides
    y: np.ndarray  # (N, O, *out), any strides, written


@functools.lru_cache(maxsize=4096)
def forward_windows(spatial: Ints, kernel: Ints, stride: Ints, dilate: Ints, pad: Ints, out: Ints) -> Windows:
    size = tuple((o - 1) * s + d * (k - 1) + 1 for o, s, d, k in zip(out, stride, dilate, kernel))
    return Windows(pad, size, (0,) * len(kernel), stride, kernel, dilate, out)


@functools.lru_cache(maxsize=4096)
def backward_windows(
    spatial: Ints, kernel: Ints, stride: Ints, dilate: Ints, pad: Ints, out: Ints
) -> tuple[tuple[Ints, tuple[slice, ...], Windows], ...]:
    """Return, per residue of the stride that sees any tap: residue, the taps in kernel order reversed, windows.

    Data position ``i = r + s*j`` meets tap ``k`` of output ``o`` where ``s*o = i + p - d*k``. So residue ``r`` sees
    every ``q``-th tap, ``q = s / gcd(s, d)``, and the outputs it needs move by ``d*q/s`` per tap.
    """
    per_axis = []
    lows: list[int] = []
    sizes: list[int] = []
    for n, k, s, d, p in zip(spatial, kernel, stride, dilate, pad):
        q = s // math.gcd(s, d)
        # (residue, taps, first output seen at output 0, count of taps, outputs per tap, count of data positions)
        found: list[tuple[int, slice, int, int, int, int]] = []
        for r in range(min(s, n)):
            taps = [t for t in range(k) if (r + p - d * t) % s == 0]
            if taps:
                first = (r + p - d * taps[-1]) // s
                found.append((r, slice(taps[0], taps[-1] + 1, q), first, len(taps), d * q // s, -(-(n - r) // s)))
        low = -min((f[2] for f in found), default=0)
        lows.append(low)
        sizes.append(max((f[2] + low + (f[3] - 1) * f[4] + f[5] for f in found), default=0))
        per_axis.append(found)
    ones = (1,) * len(kernel)
    result = []
    for axes in itertools.product(*per_axis):
        starts = tuple(axis[2] + low for axis, low in zip(axes, lows))
        counts, steps = tuple(axis[3] for axis in axes), tuple(axis[4] for axis in axes)
        outs = tuple(axis[5] for axis in axes)
        windows = Windows(tuple(lows), tuple(sizes), starts, ones, counts, steps, outs)
        result.append((tuple(axis[0] for axis in axes), tuple(axis[1] for axis in axes), windows))
    return tuple(result)
