"""Image arithmetic in NumPy: the geometry and colour operations that MXNet takes from OpenCV.

Images are ``(H, W, C)`` or batches ``(N, H, W, C)``. Resizing follows OpenCV's rules: equal to the bit for nearest,
bilinear and area resizing of 8-bit images (fixed point with 11-bit weights), within one level in few pixels for bicubic
and Lanczos, within rounding for floats. Nothing here changes its argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..spec.errors import DTypeError, ParameterError, ShapeError

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)

_FIXED_BITS = 11  # OpenCV's weights for 8-bit images are multiples of 2**-11
_ONE = 1 << _FIXED_BITS


# -- resizing -----------------------------------------------------------------------------------------------------


def target_size(height: int, width: int, size: Any, keep_ratio: bool) -> tuple[int, int]:
    """Return ``(height, width)`` of the resized image for MXNet's `size`: one number or ``(width, height)``."""
    sizes = tuple(int(n) for n in size) if isinstance(size, (tuple, list, np.ndarray)) else (int(size),)
    if len(sizes) not in (1, 2):
        raise ParameterError(
            f"image resize: size is one number or (width, height), but {sizes} has {len(sizes)} elements.",
            operator="image.resize",
        )
    if min(sizes) <= 0:
        raise ParameterError(f"image resize: size should be greater than 0, but got {sizes}.", operator="image.resize")
    if len(sizes) == 2:
        return sizes[1], sizes[0]
    (short,) = sizes
    if not keep_ratio:
        return short, short
    if height > width:
        return height * short // width, short
    return short, width * short // height


def _scale(src: int, dst: int) -> float:
    return 1.0 / (dst / src)  # OpenCV's order of division decides where nearest pixels change


def _taps_linear(src: int, dst: int, settle: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weights of two neighbours; where both are the border pixel, `settle` gives one of them all the weight.

    OpenCV settles columns but not rows, which shows in the last bit of its fixed-point sums.
    """
    at = ((np.arange(dst) + 0.5) * _scale(src, dst) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    share = at - first.astype(np.float32)
    if settle:
        share[(first < 0) | (first >= src - 1)] = 0
    index = np.clip(first[:, None] + np.arange(2), 0, src - 1)
    return index, np.stack([np.float32(1) - share, share], axis=1)


def _taps_area_up(src: int, dst: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the area method where an image grows: flat steps with short linear ramps."""
    scale = _scale(src, dst)
    steps = np.arange(dst)
    first = np.floor(steps * scale).astype(np.int64)
    share = ((steps + 1) - (first + 1) / scale).astype(np.float32)
    share = np.where(share <= 0, np.float32(0), share - np.floor(share)).astype(np.float32)
    share[first >= src - 1] = 0
    first = np.clip(first, 0, src - 1)
    index = np.stack([first, np.minimum(first + 1, src - 1)], axis=1)
    return index, np.stack([np.float32(1) - share, share], axis=1)


def _cubic_weights(x: np.ndarray) -> np.ndarray:
    a = np.float32(-0.75)
    one = np.float32(1)
    w0 = ((a * (x + one) - 5 * a) * (x + one) + 8 * a) * (x + one) - 4 * a
    w1 = ((a + 2) * x - (a + 3)) * x * x + one
    w2 = ((a + 2) * (one - x) - (a + 3)) * (one - x) * (one - x) + one
    return np.stack([w0, w1, w2, one - w0 - w1 - w2], axis=1).astype(np.float32)


def _lanczos_weights(x: np.ndarray) -> np.ndarray:
    root = 0.70710678118654752440084436210485
    sines = np.array(
        [(1, 0), (-root, -root), (0, 1), (root, -root), (-1, 0), (root, root), (0, -1), (-root, root)], np.float64
    )
    wide = x.astype(np.float64)
    y0 = -(wide + 3) * math.pi * 0.25
    y = -(wide[:, None] + 3 - np.arange(8)) * math.pi * 0.25
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = (sines[:, 0] * np.sin(y0)[:, None] + sines[:, 1] * np.cos(y0)[:, None]) / (y * y)
    weights = np.where(np.isfinite(weights), weights, 0).astype(np.float32)
    total = weights.sum(axis=1, keepdims=True, dtype=np.float32)
    weights = weights * (np.float32(1) / total)
    on_pixel = x < np.finfo(np.float32).eps
    weights[on_pixel] = 0
    weights[on_pixel, 3] = 1
    return weights


def _taps_kernel(
    src: int, dst: int, before: int, kernel: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    at = ((np.arange(dst) + 0.5) * _scale(src, dst) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    weights = kernel(at - first.astype(np.float32))
    index = first[:, None] - before + np.arange(weights.shape[1])
    return np.clip(index, 0, src - 1), weights


def _taps_area_down(src: int, dst: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the area method where an image shrinks: each pixel's overlap with the target pixel."""
    scale = _scale(src, dst)
    low = np.arange(dst) * scale
    high = np.minimum(low + scale, src)
    cell = np.minimum(scale, src - low)
    count = math.ceil(scale) + 1
    index = np.floor(low).astype(np.int64)[:, None] + np.arange(count)
    overlap = np.minimum(index + 1, high[:, None]) - np.maximum(index, low[:, None])
    overlap[overlap < 1e-3] = 0  # OpenCV leaves out slivers
    weights = (overlap / cell[:, None]).astype(np.float32)
    return np.clip(index, 0, src - 1), weights


@lru_cache(maxsize=64)
def _taps(src: int, dst: int, interp: int, shrinking: bool, settle: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return for each target pixel of one axis the source pixels ``(dst, k)`` and their float32 weights."""
    if interp == LINEAR:
        return _taps_linear(src, dst, settle)
    if interp == CUBIC:
        return _taps_kernel(src, dst, 1, _cubic_weights)
    if interp == LANCZOS:
        return _taps_kernel(src, dst, 3, _lanczos_weights)
    return _taps_area_down(src, dst) if shrinking else _taps_area_up(src, dst)


def _weighted(array: np.ndarray, axis: int, index: np.ndarray, weights: np.ndarray, dtype: Any) -> np.ndarray:
    """Sum over the taps of one axis, in `dtype`."""
    shape = [1] * array.ndim
    shape[axis] = -1
    total = None
    for k in range(index.shape[1]):
        if k and not weights[:, k].any():
            continue
        part = np.take(array, index[:, k], axis=axis).astype(dtype, copy=False)
        part = part * weights[:, k].astype(dtype, copy=False).reshape(shape)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def _fixed(weights: np.ndarray) -> np.ndarray:
    return np.rint(weights * np.float32(_ONE)).astype(np.int32)


def saturate(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Return `array` as `dtype`; integers are rounded half to even and kept within their range."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.clip(np.rint(array), info.min, info.max).astype(dtype)
    return array.astype(dtype, copy=False)


def _truncated(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Return `array` as `dtype`; integers are kept within their range and lose their fraction, as in MXNet."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.clip(array, info.min, info.max).astype(dtype)
    return array.astype(dtype, copy=False)


def resize(image: np.ndarray, height: int, width: int, interp: int = LINEAR) -> np.ndarray:
    """Return `image` resized to ``(height, width)``.

    Parameters
    ----------
    image : numpy.ndarray
        ``(H, W, C)`` or ``(N, H, W, C)``; uint8, int16, uint16, float32 or float64.
    height, width : int
        Size of the result.
    interp : {0, 1, 2, 3, 4}
        Nearest, bilinear, bicubic, area, Lanczos.

    Returns
    -------
    numpy.ndarray
        Of the same dtype.
    """
    if image.ndim not in (3, 4):
        raise ShapeError(
            f"image resize: the image has shape {image.shape}; it must be (H, W, C) or (N, H, W, C).",
            operator="image.resize",
            shapes=[image.shape],
        )
    if interp not in (NEAREST, LINEAR, CUBIC, AREA, LANCZOS):
        raise ParameterError(
            f"image resize: unknown interpolation {interp}; use 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area) "
            f"or 4 (Lanczos).",
            operator="image.resize",
        )
    kind = image.dtype
    if kind not in (np.uint8, np.int16, np.uint16, np.float32, np.float64):
        raise DTypeError(
            f"image resize: images of dtype {kind} cannot be resized; cast to uint8, float32 or float64 first.",
            operator="image.resize",
            dtypes=[kind],
        )
    y_axis, x_axis = image.ndim - 3, image.ndim - 2
    src_h, src_w = image.shape[y_axis], image.shape[x_axis]
    if (src_h, src_w) == (height, width):
        return image.copy()
    if interp == NEAREST:
        rows = np.minimum(np.floor(np.arange(height) * _scale(src_h, height)).astype(np.int64), src_h - 1)
        columns = np.minimum(np.floor(np.arange(width) * _scale(src_w, width)).astype(np.int64), src_w - 1)
        return np.take(np.take(image, rows, axis=y_axis), columns, axis=x_axis)
    if interp == LINEAR and src_h == 2 * height and src_w == 2 * width:
        interp = AREA  # halving: OpenCV takes the mean of four pixels
    shrinking = interp == AREA and src_h >= height and src_w >= width
    if shrinking and src_h % height == 0 and src_w % width == 0:
        return _mean_of_blocks(image, height, width)
    x_index, x_weights = _taps(src_w, width, interp, shrinking, True)
    y_index, y_weights = _taps(src_h, height, interp, shrinking, False)
    if kind == np.uint8 and not shrinking:
        # Fixed point: 8-bit pixels times 11-bit weights, along x and then along y.
        across = _weighted(image, x_axis, x_index, _fixed(x_weights), np.int32)
        if interp in (LINEAR, AREA):
            return _blend_rows(across, y_axis, y_index, _fixed(y_weights))
        if interp == CUBIC:
            # OpenCV sums the four rows in float32, from the last to the first.
            rows = _fixed(y_weights)[:, ::-1].astype(np.float32) * np.float32(1.0 / (_ONE * _ONE))
            return saturate(_weighted(across, y_axis, y_index[:, ::-1], rows, np.float32), np.uint8)
        total = _weighted(across, y_axis, y_index, _fixed(y_weights), np.int32)
        return np.clip((total + (1 << (2 * _FIXED_BITS - 1))) >> (2 * _FIXED_BITS), 0, 255).astype(np.uint8)
    work = np.float64 if kind == np.float64 else np.float32
    across = _weighted(image, x_axis, x_index, x_weights, work)
    return saturate(_weighted(across, y_axis, y_index, y_weights, work), kind)


def _blend_rows(across: np.ndarray, axis: int, index: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Blend two rows the way OpenCV's 8-bit linear filter does, whose intermediate shifts decide the rounding."""
    shape = [1] * across.ndim
    shape[axis] = -1
    reduced = across >> 4
    total = (np.take(reduced, index[:, 0], axis=axis) * weights[:, 0].reshape(shape)) >> 16
    total += (np.take(reduced, index[:, 1], axis=axis) * weights[:, 1].reshape(shape)) >> 16
    total += 2
    return np.clip(total >> 2, 0, 255).astype(np.uint8)


def _mean_of_blocks(image: np.ndarray, height: int, width: int) -> np.ndarray:
    *batch, src_h, src_w, channels = image.shape
    fy, fx = src_h // height, src_w // width
    blocks = image.reshape(*batch, height, fy, width, fx, channels)
    if image.dtype == np.uint8 and (fy, fx) == (2, 2):
        total = blocks.sum(axis=(-4, -2), dtype=np.int32)
        return ((total + 2) >> 2).astype(np.uint8)
    work = np.float64 if image.dtype == np.float64 else np.float32
    total = blocks.sum(axis=(-4, -2), dtype=np.int32 if image.dtype.kind in "iu" else work)
    return saturate(total.astype(work) * work(1.0 / (fy * fx)), image.dtype)


# -- cropping and flipping ----------------------------------------------------------------------------------------


def crop(image: np.ndarray, x: int, y: int, width: int, height: int) -> np.ndarray:
    """Return the rectangle at column `x`, row `y`.

    Raises
    ------
    ShapeError, ParameterError
        If the image is no image or the rectangle does not lie within it.
    """
    if image.ndim not in (3, 4) or image.shape[-1] not in (1, 3):
        raise ShapeError(
            f"image crop: the image has shape {image.shape}; it must be (H, W, C) or (N, H, W, C) with C 1 or 3.",
            operator="image.crop",
            shapes=[image.shape],
        )
    src_h, src_w = image.shape[-3], image.shape[-2]
    if width <= 0 or height <= 0:
        raise ParameterError(
            f"image crop: width and height must be greater than 0, but got {width} and {height}.", operator="image.crop"
        )
    if x < 0 or y < 0 or x + width > src_w or y + height > src_h:
        raise ParameterError(
            f"image crop: columns {x}..{x + width} and rows {y}..{y + height} do not lie within an image of width "
            f"{src_w} and height {src_h}.",
            operator="image.crop",
        )
    return image[..., y : y + height, x : x + width, :]


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Return `size` ``(width, height)`` shrunk, at its own proportions, to fit into `src_size`."""
    w, h = float(size[0]), float(size[1])
    src_w, src_h = src_size
    if src_h < h:
        w, h = w * src_h / h, src_h
    if src_w < w:
        w, h = src_w, h * src_w / w
    return int(w), int(h)


def crop_and_resize(
    image: np.ndarray, x: int, y: int, width: int, height: int, size: tuple[int, int], interp: int
) -> np.ndarray:
    """Return the rectangle at ``(x, y)``, resized to `size` ``(width, height)`` if it has another size."""
    part = image[y : y + height, x : x + width]
    if (width, height) == tuple(size):
        return part
    return resize(part, size[1], size[0], interp)


def center_crop(image: np.ndarray, size: tuple[int, int], interp: int) -> np.ndarray:
    """Return the middle of an ``(H, W, C)`` image as `size` ``(width, height)``; a smaller image is enlarged."""
    height, width = image.shape[:2]
    new_w, new_h = scale_down((width, height), size)
    return crop_and_resize(image, int((width - new_w) / 2), int((height - new_h) / 2), new_w, new_h, size, interp)


# -- intensity and colour -----------------------------------------------------------------------------------------

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)

# Principal components of ImageNet's colours, scaled by their deviations (Krizhevsky et al., 2012).
_COLOUR_AXES = np.array(
    [
        [55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009],
        [55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140],
        [55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203],
    ],
    np.float32,
)


def to_tensor(image: np.ndarray) -> np.ndarray:
    """Return ``(H, W, C)`` of 0..255 as float32 ``(C, H, W)`` of 0..1, or the same of a batch."""
    if image.ndim not in (3, 4):
        raise ShapeError(
            f"image to_tensor: the image has shape {image.shape}; it must be (H, W, C) or (N, H, W, C).",
            operator="image.to_tensor",
            shapes=[image.shape],
        )
    axes = (2, 0, 1) if image.ndim == 3 else (0, 3, 1, 2)
    out = np.ascontiguousarray(image.transpose(axes), dtype=np.float32)
    if out is image or np.shares_memory(out, image):
        return out / np.float32(255)
    return np.divide(out, np.float32(255), out=out)


def normalize(tensor: np.ndarray, mean: Any, std: Any) -> np.ndarray:
    """Return ``(tensor - mean) / std`` with one mean and deviation for all channels or one for each.

    Parameters
    ----------
    tensor : numpy.ndarray
        ``(C, H, W)`` or ``(N, C, H, W)`` of floats, C 1 or 3.
    mean, std : float or sequence of float
        As said.
    """
    if tensor.ndim not in (3, 4) or tensor.shape[-3] not in (1, 3):
        raise ShapeError(
            f"image normalize: the tensor has shape {tensor.shape}; it must be (C, H, W) or (N, C, H, W) with C 1 or "
            f"3.",
            operator="image.normalize",
            shapes=[tensor.shape],
        )
    if tensor.dtype.kind != "f":
        raise DTypeError(
            f"image normalize: the tensor has dtype {tensor.dtype}; convert it to floats first (ToTensor).",
            operator="image.normalize",
            dtypes=[tensor.dtype],
        )
    channels = tensor.shape[-3]
    columns = []
    for what, values in (("mean", mean), ("std", std)):
        array = np.atleast_1d(np.asarray(values, dtype=tensor.dtype))
        if array.ndim != 1 or array.size not in (1, channels):
            raise ParameterError(
                f"image normalize: {what} has {array.size} elements for {channels} channels; give 1 or {channels}.",
                operator="image.normalize",
            )
        columns.append(array.reshape(-1, 1, 1))
    out = tensor - columns[0]
    return np.divide(out, columns[1], out=out)


def brightness(image: np.ndarray, factor: float) -> np.ndarray:
    """Return the image times `factor`."""
    return _truncated(image.astype(np.float32) * np.float32(factor), image.dtype)


def contrast(image: np.ndarray, factor: float) -> np.ndarray:
    """Return the image blended with its mean grey, by `factor`."""
    values = image.astype(np.float32)
    if image.shape[2] > 1:
        grey = float((values * _LUMA).sum(dtype=np.float64)) / (image.shape[0] * image.shape[1])
    else:
        grey = float(values.mean(dtype=np.float64))
    return _truncated(values * np.float32(factor) + np.float32((1 - factor) * grey), image.dtype)


def saturation(image: np.ndarray, factor: float) -> np.ndarray:
    """Return the image blended with grey, by `factor`.

    The grey is the last channel's share alone, 0.114 of blue: so does MXNet, whose results this keeps.
    """
    if image.shape[2] == 1:
        return image.copy()
    values = image.astype(np.float32)
    grey = values[..., 2:3] * _LUMA[2] * np.float32(1 - factor)
    return _truncated(grey + values * np.float32(factor), image.dtype)


def hue(image: np.ndarray, turns: float) -> np.ndarray:
    """Return the image with its hue turned by `turns` times 360 degrees (through hue, lightness, saturation)."""
    if image.shape[2] == 1:
        return image.copy()
    r, g, b = np.moveaxis(image.astype(np.float32) / np.float32(255), 2, 0)
    top, low = np.maximum(np.maximum(r, g), b), np.minimum(np.minimum(r, g), b)
    diff = top - low
    light = (top + low) * np.float32(0.5)
    coloured = diff > np.finfo(np.float32).eps
    safe = np.where(coloured, diff, 1)
    denominator = np.where(light < 0.5, top + low, 2 - top - low)
    sat = np.where(coloured, diff / np.where(denominator == 0, 1, denominator), 0)
    angle = np.where(
        top == r,
        (g - b) * 60 / safe,
        np.where(top == g, (b - r) * 60 / safe + 120, (r - g) * 60 / safe + 240),
    )
    angle = np.where(coloured, angle, 0) + np.float32(turns * 360)
    sixth = np.mod(angle / 60, 6)
    sector = np.minimum(sixth.astype(np.int64), 5)
    part = sixth - sector
    p2 = np.where(light <= 0.5, light * (1 + sat), light + sat - light * sat)
    p1 = 2 * light - p2
    table = np.stack([p2, p1, p1 + (p2 - p1) * (1 - part), p1 + (p2 - p1) * part])
    choice = np.array([[1, 3, 0], [1, 0, 2], [3, 0, 1], [0, 2, 1], [0, 1, 3], [2, 1, 0]])[sector]  # b, g, r
    blue, green, red = (np.take_along_axis(table, choice[None, ..., i], axis=0)[0] for i in range(3))
    out = np.stack([np.where(sat != 0, channel, light) for channel in (red, green, blue)], axis=2)
    return _truncated(out * np.float32(255), image.dtype)


def lighting(image: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return the image shifted along the principal axes of natural colours by `alpha` ``(3,)``."""
    if image.shape[2] == 1:
        return image.copy()
    return _truncated(image.astype(np.float32) + _COLOUR_AXES @ np.asarray(alpha, np.float32), image.dtype)


# -- rotation -----------------------------------------------------------------------------------------------------


def rotate(batch: np.ndarray, degrees: np.ndarray, zoom_in: bool = False, zoom_out: bool = False) -> np.ndarray:
    """Return each image of a float32 batch ``(N, C, H, W)`` turned about its centre, bilinear, zeros outside.

    Parameters
    ----------
    batch : numpy.ndarray
        The images.
    degrees : numpy.ndarray
        ``(N,)`` angles.
    zoom_in, zoom_out : bool
        Scale so that no empty corner is seen, or so that everything stays in sight.
    """
    height, width = batch.shape[2:]
    half_h, half_w = (height - 1) / 2, (width - 1) / 2
    angle = np.deg2rad(np.asarray(degrees, np.float64)).reshape(-1, 1, 1)
    y, x = np.meshgrid(np.arange(height) - half_h, np.arange(width) - half_w, indexing="ij")
    turned_x = x * np.cos(angle) - y * np.sin(angle)
    turned_y = x * np.sin(angle) + y * np.cos(angle)
    if zoom_in or zoom_out:
        radius, corner = math.hypot(height, width), math.atan2(height, width)
        reach = [np.abs(radius * f(corner + s * np.abs(angle))) for f in (np.cos, np.sin) for s in (1, -1)]
        across, down = np.maximum(reach[0], reach[1]), np.maximum(reach[2], reach[3])
        if zoom_out:
            scale = np.maximum(across / width, down / height)
        else:
            scale = np.minimum(width / across, height / down)
        turned_x, turned_y = turned_x * scale, turned_y * scale
    at_x, at_y = turned_x + half_w, turned_y + half_h
    left, above = np.floor(at_x), np.floor(at_y)
    share_x, share_y = at_x - left, at_y - above
    out = np.zeros(batch.shape, np.float64)
    which = np.arange(len(batch)).reshape(-1, 1, 1)
    for dy, weight_y in ((0, 1 - share_y), (1, share_y)):
        for dx, weight_x in ((0, 1 - share_x), (1, share_x)):
            row, column = (above + dy).astype(np.int64), (left + dx).astype(np.int64)
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            values = batch[which, :, np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
            out += np.moveaxis(values, -1, 1) * (weight_y * weight_x * inside)[:, None]
    return out.astype(batch.dtype)
