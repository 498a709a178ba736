"""``mx.image``: read, resize and crop images as arrays ``(H, W, C)``.

Resizing and cropping give OpenCV's pixels, as MXNet's do. Reading needs Pillow (``pip install mxcore[image]``).
Augmenters and image iterators are not part of this version; :mod:`mxcore.gluon.data.vision.transforms` has transforms.
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import ndarray as nd
from .context import cpu
from .spec.errors import FileFormatError, ParameterError, ShapeError

__all__ = [
    "center_crop",
    "color_normalize",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "random_crop",
    "resize_short",
    "scale_down",
]

#: Interpolations that operators know, and the two that stand for a choice of them.
_KERNELS = (0, 1, 2, 3, 4)
_BY_SIZE, _AT_RANDOM = 9, 10
_BILINEAR, _BICUBIC, _AREA = 1, 2, 3
#: Shares of red, green and blue in grey, times 2**15, and what is added for rounding: libpng's, and OpenCV's own.
_PNG_GREY = (np.array([9798, 19235, 3735], np.int32), 0)
_GREY = (np.array([9798, 19234, 3736], np.int32), 1 << 14)


def imread(filename: Any, flag: int = 1, to_rgb: bool = True, out: Any = None) -> Any:
    """Read an image file.

    Parameters
    ----------
    filename : str or path-like
    flag : {0, 1}
        1 for three colour channels, 0 for one of grey.
    to_rgb : bool
        Order of the colours: RGB, or OpenCV's BGR.
    out : NDArray, optional
        Where to write it; mutated.

    Returns
    -------
    NDArray
        ``(H, W, 3)`` or ``(H, W, 1)`` of uint8 on ``cpu(0)``. As in MXNet it is not turned as Exif data may say,
        transparency is dropped, and of 16 bits the upper eight are kept.

    Raises
    ------
    OSError
        If the file cannot be opened.
    FileFormatError
        If it is not an image.
    ImportError
        If Pillow is not installed.
    """
    path = os.fspath(filename)
    with open(path, "rb") as stream:
        return _decoded("imread", f"file '{path}'", stream, flag, to_rgb, out)


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: Any = None) -> Any:
    """Decode the bytes of an image file; see :func:`imread`.

    Parameters
    ----------
    buf : bytes, bytearray, numpy.ndarray or NDArray
        Arrays hold the bytes as uint8. An NDArray is waited for.
    flag, to_rgb, out
        As for :func:`imread`.

    Raises
    ------
    ValueError
        If ``buf`` is something else.

    Examples
    --------
    >>> import io
    >>> import mxcore as mx
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (2, 1), (255, 0, 7)).save(file, "PNG")
    >>> mx.image.imdecode(file.getvalue()).asnumpy().tolist()
    [[[255, 0, 7], [255, 0, 7]]]
    """
    if isinstance(buf, nd.NDArray):
        buf = buf.asnumpy()
    if not isinstance(buf, bytes | bytearray | np.ndarray):
        raise ValueError(
            f"image.imdecode: buf must be bytes, a bytearray or an array of uint8 but is {type(buf).__name__}. "
            "Read a file with open(name, 'rb').read(), or use imread."
        )
    if isinstance(buf, np.ndarray):
        buf = np.frombuffer(buf, np.uint8).tobytes()
    return _decoded("imdecode", f"the buffer of {len(buf)} bytes", io.BytesIO(buf), flag, to_rgb, out)


def _decoded(function: str, source: str, stream: Any, flag: int, to_rgb: bool, out: Any) -> Any:
    if flag not in (0, 1):
        raise ParameterError(f"image.{function}: flag is {flag!r}. Give 1 for colour or 0 for grey.", operator=function)
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError(
            f"image.{function}: decoding {source} needs Pillow, which is not installed. "
            "Install it with: pip install mxcore[image]"
        ) from error
    try:
        with Image.open(stream) as file:
            image: Any = file
            if not flag and file.format == "JPEG":
                image.draft("L", file.size)  # the grey that the file holds
            if image.mode.startswith("I"):  # 16 bits, of which Pillow would clip and OpenCV takes the upper ones
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            pixels = np.asarray(image if image.mode == "L" and not flag else image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        why = "its format is unknown to Pillow" if isinstance(error, UnidentifiedImageError) else str(error)
        raise FileFormatError(f"image.{function}: {source} is not an image that can be decoded: {why}.") from error
    if not flag:
        if pixels.ndim == 3:
            shares, rounding = _PNG_GREY if file.format == "PNG" else _GREY
            pixels = (pixels @ shares + rounding >> 15).astype(np.uint8)
        pixels = pixels[:, :, None]
    elif not to_rgb:
        pixels = pixels[:, :, ::-1]
    image = nd.array(pixels, ctx=cpu(), dtype="uint8")
    return image if out is None else image.copyto(out)


def imresize(src: Any, w: int, h: int, interp: int = 1, out: Any = None) -> Any:
    """Resize an image.

    Parameters
    ----------
    src : NDArray
        ``(H, W, C)`` of uint8, int16, uint16, float32 or float64.
    w, h : int
        New width and height, at least 1.
    interp : int
        0 nearest, 1 bilinear, 2 bicubic, 3 area (means of pixels, best for shrinking), 4 Lanczos; 9 picks bicubic
        for enlarging, area for shrinking and bilinear otherwise; 10 picks one of 0 to 4 with Python's ``random``.
    out : NDArray, optional
        Where to write it; mutated.

    Returns
    -------
    NDArray
        ``(h, w, C)`` of the same dtype.

    Raises
    ------
    ParameterError
        For another interpolation (when the values are read, with an engine that lets the program go on meanwhile)
        or size.
    ShapeError, DTypeError
        If ``src`` is no such image.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.image.imresize(mx.nd.ones((10, 8, 3)), 4, 2).shape
    (2, 4, 3)
    """
    height, width = _size_of("imresize", src)
    if interp in (_BY_SIZE, _AT_RANDOM):
        interp = _interpolation("imresize", interp, (height, width, h, w))
    return nd.image.resize(src, size=(w, h), keep_ratio=False, interp=interp, out=out)


def scale_down(src_size: Sequence[int], size: Sequence[int]) -> tuple[int, int]:
    """Return ``size``, made smaller in its proportions where it does not fit into ``src_size``; both (width, height).

    Examples
    --------
    >>> scale_down((640, 480), (720, 120))
    (640, 106)
    """
    width, height = size
    src_width, src_height = src_size
    scaled = (float(width), float(height))
    if src_height < scaled[1]:
        scaled = (scaled[0] * src_height / scaled[1], src_height)
    if src_width < scaled[0]:
        scaled = (src_width, scaled[1] * src_width / scaled[0])
    return int(scaled[0]), int(scaled[1])


def resize_short(src: Any, size: int, interp: int = 2) -> Any:
    """Resize an image so that its shorter side becomes ``size``, in its proportions; ``interp`` as in :func:`imresize`.

    Examples
    --------
    >>> import mxcore as mx
    >>> resize_short(mx.nd.ones((10, 8, 3)), 4).shape
    (5, 4, 3)
    """
    height, width = _size_of("resize_short", src)
    h, w = (size * height // width, size) if height > width else (size, size * width // height)
    return imresize(src, w, h, _interpolation("resize_short", interp, (height, width, h, w)))


def fixed_crop(src: Any, x0: int, y0: int, w: int, h: int, size: Sequence[int] | None = None, interp: int = 2) -> Any:
    """Cut out the rectangle of width ``w`` and height ``h`` from column ``x0`` and row ``y0``.

    Parameters
    ----------
    src : NDArray
        ``(H, W, C)``.
    x0, y0, w, h : int
    size : tuple of int, optional
        (width, height): resize the part to it.
    interp : int
        As in :func:`imresize`.

    Returns
    -------
    NDArray
        A copy.
    """
    _size_of("fixed_crop", src)
    part = src[y0 : y0 + h, x0 : x0 + w]
    if size is None or (w, h) == tuple(size):
        return part
    return imresize(part, size[0], size[1], _interpolation("fixed_crop", interp, (h, w, size[1], size[0])))


def center_crop(src: Any, size: Sequence[int], interp: int = 2) -> tuple[Any, tuple[int, int, int, int]]:
    """Cut ``size`` (width, height) out of the middle; where the image is smaller, as much as it has, enlarged.

    Returns
    -------
    tuple
        The part, of ``size``, and the rectangle it was cut from: (x, y, width, height).

    Examples
    --------
    >>> import mxcore as mx
    >>> part, rectangle = center_crop(mx.nd.ones((10, 8, 3)), (4, 4))
    >>> part.shape, rectangle
    ((4, 4, 3), (2, 3, 4, 4))
    """
    height, width = _size_of("center_crop", src)
    w, h = scale_down((width, height), size)
    x0, y0 = (width - w) // 2, (height - h) // 2
    return fixed_crop(src, x0, y0, w, h, size, interp), (x0, y0, w, h)


def random_crop(src: Any, size: Sequence[int], interp: int = 2) -> tuple[Any, tuple[int, int, int, int]]:
    """:func:`center_crop` at a place that Python's ``random`` picks (``random.seed``, not ``mx.random.seed``)."""
    height, width = _size_of("random_crop", src)
    w, h = scale_down((width, height), size)
    x0, y0 = random.randint(0, width - w), random.randint(0, height - h)
    return fixed_crop(src, x0, y0, w, h, size, interp), (x0, y0, w, h)


def color_normalize(src: Any, mean: Any, std: Any = None) -> Any:
    """Subtract ``mean`` and divide by ``std``, each unless None. ``src`` is mutated and returned.

    Parameters
    ----------
    src : NDArray
        ``(H, W, C)`` of floats.
    mean, std : NDArray or float, optional
        For each channel, ``(C,)``.

    Examples
    --------
    >>> import mxcore as mx
    >>> color_normalize(mx.nd.ones((1, 1, 2)), mx.nd.array([1, 0]), mx.nd.array([1, 2])).asnumpy().tolist()
    [[[0.0, 0.5]]]
    """
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src


def _size_of(function: str, src: Any) -> tuple[int, int]:
    if len(src.shape) != 3:
        raise ShapeError(f"image.{function}: an image must be (H, W, C) but is {src.shape}.", shapes=[src.shape])
    return src.shape[0], src.shape[1]


def _interpolation(function: str, interp: int, sizes: tuple[int, int, int, int]) -> int:
    """The kernel that ``interp`` stands for; ``sizes`` are height and width before and after."""
    if interp in _KERNELS:
        return interp
    if interp == _BY_SIZE:
        height, width, h, w = sizes
        return _BICUBIC if h > height and w > width else _AREA if h < height and w < width else _BILINEAR
    if interp == _AT_RANDOM:
        return random.choice(_KERNELS)
    raise ParameterError(
        f"image.{function}: unknown interpolation {interp}; use 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area), "
        f"4 (Lanczos), 9 (by size) or 10 (random).",
        operator=function,
    )
