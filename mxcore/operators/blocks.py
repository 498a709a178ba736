"""Records of operators that move blocks of elements: space and depth, diagonals, patches as columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Int, Shape
from .checks import one_axis
from .record import Spec, error, sample
from .registry import operator


def _blocks(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec) -> Spec:
        b = a["block_size"]
        if len(x.shape) != 4 or b < 1:
            raise ShapeError(
                f"operator '{name}' wants data (N, C, H, W) and a positive block_size but got {x.shape} and {b}.",
                operator=name,
                shapes=[x.shape],
            )
        n, c, h, w = x.shape
        if name == "depth_to_space":
            if c % (b * b):
                raise ShapeError(
                    f"operator '{name}': C of data {x.shape} must be a multiple of block_size**2 = {b * b}.",
                    operator=name,
                    shapes=[x.shape],
                )
            return Spec((n, c // (b * b), h * b, w * b), x.dtype)
        if h % b or w % b:
            raise ShapeError(
                f"operator '{name}': H and W of data {x.shape} must be multiples of block_size={b}.",
                operator=name,
                shapes=[x.shape],
            )
        return Spec((n, c * b * b, h // b, w // b), x.dtype)

    return infer


def _to_space(x: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = x.shape
    out = np.empty((n, c // block_size**2, h * block_size, w * block_size))
    for i in range(block_size):
        for j in range(block_size):
            k = i * block_size + j
            out[:, :, i::block_size, j::block_size] = x[:, k * out.shape[1] : (k + 1) * out.shape[1]]
    return out


def _to_depth(x: np.ndarray, block_size: int) -> np.ndarray:
    cells = [x[:, :, i::block_size, j::block_size] for i in range(block_size) for j in range(block_size)]
    return np.concatenate(cells, axis=1)


operator(
    "depth_to_space",
    "data",
    {"block_size": Int()},
    infer=_blocks("depth_to_space"),
    gradient=(lambda F, g, y, x, block_size: F.space_to_depth(g, block_size=block_size),),
    saves="",
    reference=_to_space,
    samples=lambda rng: [sample(rng.standard_normal((2, 8, 2, 3)), block_size=2)],
    errors=lambda: [
        error(np.ones((1, 3, 2, 2), "float32"), block_size=2, match="multiple of block_size**2"),
        error(np.ones((3, 2, 2), "float32"), block_size=2, match="(N, C, H, W)"),
    ],
    doc="""Move blocks of channels to space.

Parameters
----------
data : NDArray
    Shape ``(N, C, H, W)``.
block_size : int
    ``b``; ``C`` must be a multiple of ``b**2``.

Returns
-------
NDArray
    Shape ``(N, C / b**2, H * b, W * b)``.

Raises
------
ShapeError
    If ``C`` does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.depth_to_space(mx.nd.array([[[[1]], [[2]], [[3]], [[4]]]]), block_size=2).asnumpy().tolist()
[[[[1.0, 2.0], [3.0, 4.0]]]]
""",
)

operator(
    "space_to_depth",
    "data",
    {"block_size": Int()},
    infer=_blocks("space_to_depth"),
    gradient=(lambda F, g, y, x, block_size: F.depth_to_space(g, block_size=block_size),),
    saves="",
    reference=_to_depth,
    samples=lambda rng: [sample(rng.standard_normal((2, 2, 4, 6)), block_size=2)],
    errors=lambda: [error(np.ones((1, 3, 3, 2), "float32"), block_size=2, match="multiples of block_size=2")],
    doc="""Move blocks of space to channels; undoes ``depth_to_space``.

Parameters
----------
data : NDArray
    Shape ``(N, C, H, W)``.
block_size : int
    ``b``; ``H`` and ``W`` must be multiples of it.

Returns
-------
NDArray
    Shape ``(N, C * b**2, H / b, W / b)``.

Raises
------
ShapeError
    If ``H`` or ``W`` does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.space_to_depth(mx.nd.array([[[[1, 2], [3, 4]]]]), block_size=2).asnumpy().tolist()
[[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]
""",
)


def _diag(a: Any, x: Spec) -> Spec:
    k, shape = a["k"], x.shape
    if len(shape) == 1:
        n = shape[0] + abs(k)
        return Spec((n, n), x.dtype)
    i = one_axis("diag", a["axis1"], len(shape), "axis1")
    j = one_axis("diag", a["axis2"], len(shape), "axis2")
    if i == j:
        raise ParameterError(
            f"operator 'diag': axis1={a['axis1']} and axis2={a['axis2']} are the same axis of data {shape}.",
            operator="diag",
        )
    n = min(shape[i] + min(k, 0), shape[j] - max(k, 0))
    if n < 1:
        raise ShapeError(
            f"operator 'diag': data {shape} has no diagonal k={k} between axes {i} and {j}.",
            operator="diag",
            shapes=[shape],
        )
    return Spec(tuple(m for axis, m in enumerate(shape) if axis not in (i, j)) + (n,), x.dtype)


_DIAG = {"k": Int(0), "axis1": Int(0), "axis2": Int(1)}

operator(
    "diag",
    "data",
    _DIAG,
    infer=_diag,
    gradient=(lambda F, g, y, x, **a: F._diag_backward(g, x, **a),),
    saves="",
    reference=lambda x, k=0, axis1=0, axis2=1: np.diag(x, k) if x.ndim == 1 else np.diagonal(x, k, axis1, axis2),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(rng.standard_normal((3, 4)), k=-1),
        sample(rng.standard_normal(3), k=1),
        sample(rng.standard_normal((2, 3, 4)), k=1, axis1=-1, axis2=0),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), k=3, match="no diagonal k=3"),
        error(np.ones((2, 3), "float32"), axis1=1, axis2=-1, match="the same axis"),
    ],
    doc="""Extract a diagonal, or build a matrix from one.

Parameters
----------
data : NDArray
    With one axis, the result is a square matrix with ``data`` on diagonal ``k``.
k : int
    0 is the main diagonal, positive values lie above it.
axis1, axis2 : int
    Axes of the matrices.

Returns
-------
NDArray
    Other axes of ``data``, then the diagonal.

Raises
------
ShapeError
    If there is no such diagonal.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.diag(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()
[1.0, 4.0]
>>> mx.nd.diag(mx.nd.array([1, 2])).asnumpy().tolist()
[[1.0, 0.0], [0.0, 2.0]]
""",
)

operator(
    "_diag_backward",
    "grad data",
    _DIAG,
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, **a: F.diag(g, **a), None),
    saves="",
    doc="Put ``grad`` on the diagonal of zeros of the shape of ``data``; the gradient of ``diag``.",
)

_PATCH = {"kernel": Shape(), "stride": Shape(()), "dilate": Shape(()), "pad": Shape(())}


def patch_counts(name: str, spatial: tuple[int, ...], a: Any) -> tuple[int, ...]:
    """Return how many windows fit along each spatial axis.

    Raises
    ------
    ParameterError
        If an attribute has the wrong length.
    ShapeError
        If no window fits.
    """
    n = len(a["kernel"])
    given = {k: a[k] or (fill,) * n for k, fill in (("stride", 1), ("dilate", 1), ("pad", 0))}
    if len(spatial) != n or any(len(v) != n for v in given.values()):
        raise ParameterError(
            f"operator '{name}': kernel={a['kernel']}, stride={a['stride']}, dilate={a['dilate']} and pad={a['pad']} "
            f"must have one entry for each spatial axis of {spatial}.",
            operator=name,
        )
    counts = []
    for size, k, s, d, p in zip(spatial, a["kernel"], given["stride"], given["dilate"], given["pad"]):
        count = (size + 2 * p - d * (k - 1) - 1) // s + 1 if s > 0 else 0
        if count < 1 or k < 1 or d < 1 or p < 0:
            raise ShapeError(
                f"operator '{name}': no window of kernel={a['kernel']}, stride={a['stride']}, dilate={a['dilate']}, "
                f"pad={a['pad']} fits spatial axes {spatial}.",
                operator=name,
            )
        counts.append(count)
    return tuple(counts)


def _im2col(a: Any, x: Spec) -> Spec:
    if len(x.shape) < 3:
        raise ShapeError(f"operator 'im2col' wants data (N, C, ...spatial) but got {x.shape}.", operator="im2col")
    counts = patch_counts("im2col", x.shape[2:], a)
    return Spec((x.shape[0], x.shape[1] * math.prod(a["kernel"]), math.prod(counts)), x.dtype)


def _col2im(a: Any, x: Spec) -> Spec:
    counts = patch_counts("col2im", a["output_size"], a)
    k = math.prod(a["kernel"])
    if len(x.shape) != 3 or x.shape[1] % k or x.shape[2] != math.prod(counts):
        raise ShapeError(
            f"operator 'col2im' wants data (N, C * {k}, {math.prod(counts)}) for output_size={a['output_size']} and "
            f"kernel={a['kernel']} but got {x.shape}.",
            operator="col2im",
            shapes=[x.shape],
        )
    return Spec((x.shape[0], x.shape[1] // k, *a["output_size"]), x.dtype)


def _patches(x: np.ndarray, kernel: Any, stride: Any = (), dilate: Any = (), pad: Any = ()) -> np.ndarray:
    n = len(kernel)
    stride, dilate, pad = stride or (1,) * n, dilate or (1,) * n, pad or (0,) * n
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilate)]
    windows: Any = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(2, 2 + n)))
    windows = windows[(slice(None), slice(None), *[slice(None, None, s) for s in stride])]
    windows = windows[(..., *[slice(None, None, d) for d in dilate])]
    order = (0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n))
    return windows.transpose(order).reshape(x.shape[0], x.shape[1] * math.prod(kernel), -1)


def _unpatched(x: np.ndarray, output_size: Any, kernel: Any, **a: Any) -> np.ndarray:
    # The transpose of a linear map, built column by column.
    shape = (1, 1, *output_size)
    eye = np.eye(math.prod(output_size))
    matrix = np.stack([_patches(e.reshape(shape), kernel, **a).reshape(-1) for e in eye], axis=1)
    channels = x.reshape(-1, matrix.shape[0])
    return (channels @ matrix).reshape(x.shape[0], -1, *output_size)


operator(
    "im2col",
    "data",
    _PATCH,
    infer=_im2col,
    gradient=(lambda F, g, y, x, **a: F._im2col_backward(g, x, **a),),
    saves="",
    reference=_patches,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 2, 4, 5)), kernel=(2, 3)),
        sample(rng.standard_normal((1, 2, 5, 5)), kernel=(3, 2), stride=(2, 1), dilate=(1, 2), pad=(1, 2)),
        sample(rng.standard_normal((2, 2, 5)), kernel=(2,), pad=(1,)),
    ],
    errors=lambda: [
        error(np.ones((1, 1, 2, 2), "float32"), kernel=(3, 3), match="no window"),
        error(np.ones((1, 1, 2, 2), "float32"), kernel=(3,), match="one entry for each spatial axis"),
    ],
    doc="""Lay out sliding windows as columns, so that a convolution becomes a matrix product.

Parameters
----------
data : NDArray
    Shape ``(N, C, ...spatial)``.
kernel, stride, dilate, pad : tuple of int
    One entry for each spatial axis; zeros are padded.

Returns
-------
NDArray
    Shape ``(N, C * prod(kernel), number of windows)``.

Raises
------
ShapeError
    If no window fits.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.im2col(mx.nd.array([[[[1, 2], [3, 4]]]]), kernel=(1, 2)).asnumpy().tolist()
[[[1.0, 3.0], [2.0, 4.0]]]
""",
)

operator(
    "_im2col_backward",
    "grad data",
    _PATCH,
    same_dtype=False,
    infer=lambda a, g, x: Spec(x.shape, g.dtype),
    gradient=(lambda F, g, y, gg, x, **a: F.im2col(g, **a), None),
    saves="",
    doc="Add the columns of ``grad`` to the elements of ``data`` they came from; the gradient of ``im2col``.",
)

operator(
    "col2im",
    "data",
    {"output_size": Shape(), **_PATCH},
    infer=_col2im,
    gradient=(lambda F, g, y, x, output_size, **a: F.im2col(g, **a),),
    saves="",
    reference=_unpatched,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 2 * 4, 9)), output_size=(4, 4), kernel=(2, 2)),
        sample(rng.standard_normal((1, 4, 6)), output_size=(4, 3), kernel=(2, 2), stride=(2, 1), pad=(1, 0)),
    ],
    errors=lambda: [
        error(np.ones((1, 4, 5), "float32"), output_size=(3, 3), kernel=(2, 2), match="wants data (N, C * 4, 4)")
    ],
    doc="""Add columns up to images, each element where ``im2col`` would take it from.

Parameters
----------
data : NDArray
    Shape ``(N, C * prod(kernel), number of windows)``.
output_size : tuple of int
    Spatial shape of the result.
kernel, stride, dilate, pad : tuple of int
    One entry for each spatial axis.

Returns
-------
NDArray
    Shape ``(N, C, *output_size)``.

Raises
------
ShapeError
    If the number of windows does not fit.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.col2im(mx.nd.ones((1, 2, 2)), output_size=(1, 3), kernel=(1, 2)).asnumpy().tolist()
[[[[1.0, 2.0, 1.0]]]]
""",
)
