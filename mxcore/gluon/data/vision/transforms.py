"""Image transforms: blocks from an image to an image, for :meth:`Dataset.transform` and for pipelines.

Images are ``(H, W, C)`` arrays of 0..255 until :class:`ToTensor`, and ``(C, H, W)`` floats after it; blocks that MXNet
lets work on batches take ``(N, H, W, C)`` too. Hybrid blocks are the ``image`` operators of their names, so that they can be
traced and exported. The others compute in NumPy, on the host, and put the result on the array's context.

Random decisions come from the stream of ``mx.random.seed``, except the crops' and :class:`RandomApply`'s, which like
MXNet's come from Python's ``random``, and rotations', from ``numpy.random``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import ndarray as nd
from ....oplib import pixels
from ...block import Block, HybridBlock
from ...nn import HybridSequential, Sequential

__all__ = [
    "Compose",
    "HybridCompose",
    "Cast",
    "ToTensor",
    "Normalize",
    "Rotate",
    "RandomRotation",
    "RandomResizedCrop",
    "RandomCrop",
    "CropResize",
    "CenterCrop",
    "Resize",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomBrightness",
    "RandomContrast",
    "RandomSaturation",
    "RandomHue",
    "RandomColorJitter",
    "RandomLighting",
    "RandomApply",
]


def _on_host(x: Any, function: Callable[..., np.ndarray], *args: Any) -> Any:
    """Return ``function(array, *args)`` of the array's values, as an array of the same kind and context; blocks."""
    out = function(x.asnumpy(), *args)
    result = nd.array(out, ctx=x.context, dtype=out.dtype)
    return result if type(x) is nd.NDArray else result.as_np_ndarray()


def _pair(size: Any) -> tuple[int, int]:
    width, height = (size, size) if isinstance(size, (int, float, np.generic)) else size
    return int(width), int(height)


class Compose(Sequential):
    """Apply transforms one after the other.

    Parameters
    ----------
    transforms : list of Block
        The transforms. Neighbouring hybrid blocks become one :class:`HybridSequential`.

    Examples
    --------
    >>> import mxcore as mx
    >>> prepare = Compose([Resize(8), ToTensor()])
    >>> prepare(mx.nd.zeros((4, 6, 3), dtype="uint8")).shape
    (3, 8, 8)
    """

    def __init__(self, transforms: Sequence[Block]) -> None:
        super().__init__()
        group: list[HybridBlock] = []
        for transform in [*transforms, None]:
            if isinstance(transform, HybridBlock):
                group.append(transform)
                continue
            if len(group) == 1:
                self.add(group[0])
            elif group:
                # Not hybridized: the steps are few and shapes may change from image to image.
                chain = HybridSequential()
                chain.add(*group)
                self.add(chain)
            group = []
            if transform is not None:
                self.add(transform)


class HybridCompose(HybridSequential):
    """Apply hybrid transforms one after the other; itself a hybrid block.

    Parameters
    ----------
    transforms : list of HybridBlock
        The transforms.
    """

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        for transform in transforms:
            if not isinstance(transform, HybridBlock):
                raise ValueError(f"{transform} is not a HybridBlock, try use `Compose` instead")
            self.add(transform)


class Cast(HybridBlock):
    """Cast to a dtype.

    Parameters
    ----------
    dtype : str
        The dtype.
    """

    def __init__(self, dtype: str = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.cast(x, self._dtype)


class ToTensor(HybridBlock):
    """Turn an image ``(H, W, C)`` of 0..255 into float32 ``(C, H, W)`` of 0..1, or a batch ``(N, H, W, C)``."""

    def __init__(self) -> None:
        super().__init__()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """Subtract `mean` and divide by `std`, channel by channel.

    Parameters
    ----------
    mean, std : float or tuple of float
        One for all channels or one for each. Input is ``(C, H, W)`` or ``(N, C, H, W)``, floats, C 1 or 3.
    """

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        self._mean = mean
        self._std = std

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.normalize(x, self._mean, self._std)


def _rotated(x: Any, degrees: Any, zoom_in: bool, zoom_out: bool) -> Any:
    if np.dtype(x.dtype) != np.float32:
        raise TypeError(
            f"Rotate: this transformation only supports float32, got {np.dtype(x.dtype)}. "
            f"Consider calling it after ToTensor."
        )
    if zoom_in and zoom_out:
        raise ValueError("Rotate: `zoom_in` and `zoom_out` cannot be both True")
    if x.ndim not in (3, 4):
        raise ValueError(f"Rotate: only 3D (C, H, W) and 4D (N, C, H, W) are supported, got shape {x.shape}")
    count = x.shape[0] if x.ndim == 4 else 1
    angles = np.broadcast_to(np.asarray(degrees, np.float64), (count,))

    def turn(array: np.ndarray) -> np.ndarray:
        batch = array if array.ndim == 4 else array[None]
        return pixels.rotate(batch, angles, zoom_in, zoom_out).reshape(array.shape)

    return _on_host(x, turn)


class Rotate(Block):
    """Turn images about their centre.

    Parameters
    ----------
    rotation_degrees : float
        The angle.
    zoom_in, zoom_out : bool
        Show no empty corner, or lose no corner of the image.
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: Any) -> Any:
        return _rotated(x, *self._args)


class RandomRotation(Block):
    """Turn images about their centre by a random angle, each image of a batch by its own.

    Parameters
    ----------
    angle_limits : tuple of float
        Lowest and highest angle in degrees.
    zoom_in, zoom_out : bool
        As for :class:`Rotate`.
    rotate_with_proba : float
        Probability of turning at all.
    """

    def __init__(
        self,
        angle_limits: Sequence[float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError(f"`angle_limits` must be an ordered tuple, got {angle_limits}")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError(
                f"Probability of rotating the image should be between 0 and 1, got "
                f"rotate_with_proba={rotate_with_proba}"
            )
        self._limits = (lower, upper)
        self._zoom = (zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: Any) -> Any:
        if np.random.random() > self._rotate_with_proba:
            return x
        return _rotated(x, np.random.uniform(*self._limits, size=x.shape[0] if x.ndim == 4 else None), *self._zoom)


class RandomResizedCrop(Block):
    """Crop a rectangle of random area and proportions, and resize it.

    Parameters
    ----------
    size : int or (width, height)
        Size of the result.
    scale : tuple of float
        Smallest and largest share of the image's area.
    ratio : tuple of float
        Narrowest and widest proportion, width to height.
    interpolation : int
        See :class:`Resize`.
    """

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._size = _pair(size)
        self._scale = (scale, 1.0) if isinstance(scale, (int, float)) else tuple(scale)
        self._ratio = tuple(ratio)
        self._interpolation = interpolation

    def forward(self, x: Any) -> Any:
        return _on_host(x, self._crop)

    def _crop(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        for _ in range(10):
            area = random.uniform(*self._scale) * height * width
            proportion = math.exp(random.uniform(math.log(self._ratio[0]), math.log(self._ratio[1])))
            new_w, new_h = round(math.sqrt(area * proportion)), round(math.sqrt(area / proportion))
            if 0 < new_w <= width and 0 < new_h <= height:
                x0, y0 = random.randint(0, width - new_w), random.randint(0, height - new_h)
                return pixels.crop_and_resize(image, x0, y0, new_w, new_h, self._size, self._interpolation)
        return pixels.center_crop(image, self._size, self._interpolation)


class RandomCrop(Block):
    """Crop a rectangle at a random place; an image that is too small is cropped smaller and enlarged.

    Parameters
    ----------
    size : int or (width, height)
        Size of the result.
    pad : int, optional
        Pixels of padding on each side, before cropping.
    pad_value : int
        Value of the padding.
    interpolation : int
        See :class:`Resize`.
    """

    def __init__(self, size: Any, pad: int | None = None, pad_value: int = 0, interpolation: int = 1) -> None:
        super().__init__()
        self._size = _pair(size)
        self._pad = pad
        self._pad_value = pad_value
        self._interpolation = interpolation

    def forward(self, x: Any) -> Any:
        return _on_host(x, self._crop)

    def _crop(self, image: np.ndarray) -> np.ndarray:
        if self._pad:
            border = (self._pad, self._pad)
            image = np.pad(image, (border, border, (0, 0)), constant_values=self._pad_value)
        height, width = image.shape[:2]
        new_w, new_h = pixels.scale_down((width, height), self._size)
        x0, y0 = random.randint(0, width - new_w), random.randint(0, height - new_h)
        return pixels.crop_and_resize(image, x0, y0, new_w, new_h, self._size, self._interpolation)


class CropResize(HybridBlock):
    """Crop a fixed rectangle, and resize it if `size` is given.

    Parameters
    ----------
    x, y : int
        Left column and top row.
    width, height : int
        Size of the rectangle.
    size : int or (width, height), optional
        Size of the result.
    interpolation : int, optional
        See :class:`Resize`.
    """

    def __init__(
        self, x: int, y: int, width: int, height: int, size: Any = None, interpolation: int | None = None
    ) -> None:
        super().__init__()
        self._rectangle = (x, y, width, height)
        self._size = size
        self._interpolation = 1 if interpolation is None else interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        out = F.image.crop(x, *self._rectangle)
        if self._size:
            out = F.image.resize(out, self._size, False, self._interpolation)
        return out


class CenterCrop(Block):
    """Crop the middle of an image ``(H, W, C)``; an image that is too small is cropped smaller and enlarged.

    Parameters
    ----------
    size : int or (width, height)
        Size of the result.
    interpolation : int
        See :class:`Resize`.
    """

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_pair(size), interpolation)

    def forward(self, x: Any) -> Any:
        return _on_host(x, pixels.center_crop, *self._args)


class Resize(HybridBlock):
    """Resize an image ``(H, W, C)`` or a batch ``(N, H, W, C)``.

    Parameters
    ----------
    size : int or (width, height)
        Size of the result.
    keep_ratio : bool
        Whether one number is the shorter edge, or both edges.
    interpolation : int
        0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.
    """

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._keep = keep_ratio
        self._size = size
        self._interpolation = interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.resize(x, self._size, self._keep, self._interpolation)


class RandomFlipLeftRight(HybridBlock):
    """Mirror an image ``(H, W, C)`` left to right, with probability 1/2."""

    def __init__(self) -> None:
        super().__init__()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(HybridBlock):
    """Turn an image ``(H, W, C)`` upside down, with probability 1/2."""

    def __init__(self) -> None:
        super().__init__()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_flip_top_bottom(x)


class _RandomEnhance(HybridBlock):
    """Shared part of the transforms by a random factor in ``[max(0, 1 - amount), 1 + amount]``."""

    _operator: str

    def __init__(self, amount: float) -> None:
        super().__init__()
        self._args = (max(0, 1 - amount), 1 + amount)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return getattr(F.image, self._operator)(x, *self._args)


class RandomBrightness(_RandomEnhance):
    """Multiply by a random factor.

    Parameters
    ----------
    brightness : float
        The factor lies in ``[max(0, 1 - brightness), 1 + brightness]``.
    """

    _operator = "random_brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_RandomEnhance):
    """Blend with the image's mean grey by a random factor.

    Parameters
    ----------
    contrast : float
        The factor lies in ``[max(0, 1 - contrast), 1 + contrast]``.
    """

    _operator = "random_contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_RandomEnhance):
    """Blend with the image's grey by a random factor.

    Parameters
    ----------
    saturation : float
        The factor lies in ``[max(0, 1 - saturation), 1 + saturation]``.
    """

    _operator = "random_saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_RandomEnhance):
    """Turn the hue by a random part of a full turn.

    Parameters
    ----------
    hue : float
        The part lies in ``[max(0, 1 - hue), 1 + hue]``; a full turn changes nothing.
    """

    _operator = "random_hue"

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(HybridBlock):
    """Change brightness, contrast, saturation and hue at random, in random order.

    Parameters
    ----------
    brightness, contrast, saturation, hue : float
        How much; 0 leaves one alone.
    """

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        self._args = (brightness, contrast, saturation, hue)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_color_jitter(x, *self._args)


class RandomLighting(HybridBlock):
    """Add noise along the principal axes of natural colours (AlexNet's).

    Parameters
    ----------
    alpha : float
        Standard deviation of the noise.
    """

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.image.random_lighting(x, self._alpha)


class RandomApply(Sequential):
    """Apply a transform with probability `p`, or return the image as it is.

    Parameters
    ----------
    transforms : Block
        The transform; a :class:`Compose` for several.
    p : float
        The probability.
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any, *args: Any) -> Any:
        return x if self.p < random.random() else self.transforms(x)
