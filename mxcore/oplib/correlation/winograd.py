"""Multiplying Winograd's way, F(4x4, 3x3): 36 multiplications for 16 outputs in place of 144.

A tile of 6x6 inputs is changed to the basis of polynomial values at 0, 1, -1, 2, -2 and infinity, where correlation is
a product; 2-D is 1-D twice. An inf or NaN reaches all outputs of its tile.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from ..parallel import ParallelFor
from ..workspace import borrow
from .pieces import in_halves, pad_into, pieces_of, shares_channels, sum_in_lanes
from .windows import Job, Windows

#: Whether large 3x3 convolutions in float32 may go Winograd's way (about 6 times the rounding error of direct sums).
USE_WINOGRAD = True
_CHANNELS = 32
# Fewer tiles than this do not pay for the transform of the weights, or of their gradient.
_TILES = 64
_SUMMED_TILES = 32
# Transformed numbers of a piece, and tiles of a piece whose products are summed.
_FLOATS = 1 << 17
_SUM_TILES = 128

_INPUT_BASIS = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
_WEIGHT_BASIS = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24
_OUTPUT_BASIS = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]])


@functools.cache
def _bases(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the changes of basis of flattened tiles: inputs (36, 36), weights (36, 9), outputs (16, 36)."""
    bases = (_INPUT_BASIS, _WEIGHT_BASIS, _OUTPUT_BASIS)
    return tuple(np.kron(basis, basis).astype(dtype) for basis in bases)  # type: ignore[return-value]


def suits(windows: Windows, n: int, group: int, channels: int, filters: int, dtype: np.dtype, summed: bool) -> bool:
    """Whether to use Winograd's way: 3x3, stride 1, float32, and enough of everything to pay for three transforms.

    ``summed``: for the gradient of the weight, whose tiles are summed before they leave their basis. float64 is for
    those who want every digit, so it always takes the direct way.
    """
    if windows.taps != (3, 3) or windows.stride != (1, 1) or windows.step != (1, 1) or any(windows.start):
        return False
    if not USE_WINOGRAD or group != 1 or dtype != np.float32:
        return False
    least_tiles = _SUMMED_TILES if summed else _TILES
    tiles = math.prod(-(-o // 4) for o in windows.out)
    wasted = 16 * tiles > 1.4 * windows.n_out
    return min(channels, filters) >= _CHANNELS and n * tiles >= least_tiles and not wasted


def _tiled(windows: Windows) -> Windows:
    """Return the 6x6 windows, 4 apart, that hold what ``windows`` read."""
    tiles = tuple(-(-o // 4) for o in windows.out)
    size = tuple(4 * t + 2 for t in tiles)
    return Windows(windows.low, size, (0, 0), (4, 4), (6, 6), (1, 1), tiles)


def _input_tiles(x: np.ndarray, tiled: Windows, dtype: np.dtype, to: np.ndarray) -> None:
    """Write the tiles of ``x`` ``(n, H, W, C)`` in their basis into ``to`` ``(36, n * tiles, C)``."""
    n, channels = len(x), x.shape[-1]
    shape = (6, 6, n, *tiled.out, channels)
    with (
        borrow("padded", (n, *tiled.size, channels), dtype) as padded,
        borrow("columns", shape, dtype) as tiles,
    ):
        pad_into(x, padded, 1, tiled)
        view = tiled.view(padded, 1, tuple(slice(0, o) for o in tiled.out), True)
        np.copyto(tiles, np.moveaxis(view, (3, 4), (0, 1)))
        np.matmul(_bases(dtype)[0], tiles.reshape(36, -1), out=to.reshape(36, -1))


def correlate(
    x: np.ndarray, jobs: Sequence[Job], bias: np.ndarray | None, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """Run the one job: tiles and weights into their basis, products, and back."""
    job = jobs[0]
    n, channels = x.shape[:2]
    filters = job.w.shape[1]
    tiled = _tiled(job.windows)
    n_tiles = tiled.n_out
    height, width = job.windows.out
    source, target = np.moveaxis(x, 1, -1), np.moveaxis(job.y, 1, -1)
    _, weight_basis, output_basis = _bases(dtype)
    # (36, C, O): as the right factor it must not be a transposed view, which costs half the speed of small matmuls.
    frm = np.moveaxis(job.w[0], (0, 1), (-1, -2))
    weights = np.empty((36, channels, filters), dtype)

    def transform(low: int, high: int) -> None:
        # Some channels at a time, so that what the strided reads touch stays in cache.
        for first in range(low, high, 32):
            last = min(high, first + 32)
            with borrow("weights", (3, 3, last - first, filters), dtype) as taps:
                np.copyto(taps, frm[:, :, first:last], casting="same_kind")
                part = weights.reshape(36, -1)[:, first * filters : last * filters]
                np.matmul(weight_basis, taps.reshape(9, -1), out=part)

    parallel_for(channels, -(-channels // 2), transform)
    pieces = pieces_of(n, n_tiles, _FLOATS // (36 * max(channels, filters)))

    def run(low: int, high: int) -> None:
        for part in pieces[low:high]:
            count = part.stop - part.start
            total = count * n_tiles
            with (
                borrow("tiles", (36, total, channels), dtype) as tiles,
                borrow("products", (36, total, filters), dtype) as products,
                borrow("outputs", (4, 4, count, *tiled.out, filters), dtype) as outputs,
                borrow("product", (count, tiled.out[0], 4, tiled.out[1], 4, filters), dtype) as image,
            ):
                _input_tiles(source[part], tiled, dtype, tiles)
                np.matmul(tiles, weights, out=products)
                np.matmul(output_basis, products.reshape(36, -1), out=outputs.reshape(16, -1))
                np.copyto(image.transpose(2, 4, 0, 1, 3, 5), outputs)
                whole = image.reshape(count, 4 * tiled.out[0], 4 * tiled.out[1], filters)
                if bias is not None:
                    whole += bias
                np.copyto(target[part], whole[:, :height, :width], casting="same_kind")

    parallel_for(len(pieces), 1, run)


def weigh(
    x: np.ndarray, g: np.ndarray, dw: np.ndarray, windows: Windows, dtype: np.dtype, parallel_for: ParallelFor
) -> None:
    """The transpose of :func:`correlate` in the weights: sum products of tiles, then leave the basis."""
    n, channels = x.shape[:2]
    filters = dw.shape[1]
    tiled = _tiled(windows)
    n_tiles = tiled.n_out
    # The outputs of a tile are 4x4 and do not overlap.
    outputs = Windows((0, 0), tuple(4 * t for t in tiled.out), (0, 0), (4, 4), (4, 4), (1, 1), tiled.out)
    source, grad = np.moveaxis(x, 1, -1), np.moveaxis(g, 1, -1)
    _, weight_basis, output_basis = _bases(dtype)
    pieces = pieces_of(n, n_tiles, _SUM_TILES)

    def add(channel: slice, piece: int, total: np.ndarray, first: bool) -> None:
        part = pieces[piece]
        count = part.stop - part.start
        n_rows = count * n_tiles
        with (
            borrow("tiles", (36, n_rows, channel.stop - channel.start), dtype) as tiles,
            borrow("gradients", (36, n_rows, filters), dtype) as gradients,
            borrow("partial", total.shape, dtype) as partial,
        ):
            _input_tiles(source[part][..., channel], tiled, dtype, tiles)
            with (
                borrow("padded", (count, *outputs.size, filters), dtype) as padded,
                borrow("columns", (4, 4, count, *tiled.out, filters), dtype) as cut,
            ):
                pad_into(grad[part], padded, 1, outputs)
                view = outputs.view(padded, 1, tuple(slice(0, o) for o in tiled.out), True)
                np.copyto(cut, np.moveaxis(view, (3, 4), (0, 1)))
                np.matmul(output_basis.T, cut.reshape(16, -1), out=gradients.reshape(36, -1))
            if first:
                np.matmul(gradients.swapaxes(1, 2), tiles, out=total)
            else:
                np.matmul(gradients.swapaxes(1, 2), tiles, out=partial)
                np.add(total, partial, out=total)

    def finish(channel: slice, total: np.ndarray) -> None:
        with borrow("weights", (3, 3, filters, channel.stop - channel.start), dtype) as taps:
            np.matmul(weight_basis.T, total.reshape(36, -1), out=taps.reshape(9, -1))
            np.copyto(dw[0][:, channel], np.moveaxis(taps, (0, 1), (2, 3)), casting="same_kind")

    # Threads share the channels of a large weight and the images of a small one, as in the direct way.
    if shares_channels(dw.size):

        def do(channel: slice) -> None:
            with borrow("sums", (36, filters, channel.stop - channel.start), dtype) as total:
                for piece in range(len(pieces)):
                    add(channel, piece, total, piece == 0)
                finish(channel, total)

        in_halves(channels, parallel_for, do)
        return
    whole = slice(0, channels)
    shape = (36, filters, channels)
    finish(whole, sum_in_lanes(len(pieces), shape, dtype, parallel_for, functools.partial(add, whole)))
