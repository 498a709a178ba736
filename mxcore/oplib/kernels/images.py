"""Kernels of image operators, for NumPy. Pixel arithmetic is in :mod:`mxcore.oplib.pixels`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import pixels
from ..table import kernel


@kernel("_image_to_tensor", numpy=True)
def to_tensor(x: Any) -> Any:
    return pixels.to_tensor(x)


@kernel("_image_normalize", numpy=True)
def normalize(x: Any, *, mean: Any, std: Any) -> Any:
    return pixels.normalize(x, mean, std)


@kernel("_image_resize", numpy=True)
def resize(x: Any, *, size: Any, keep_ratio: bool, interp: int) -> Any:
    height, width = pixels.target_size(x.shape[-3], x.shape[-2], size, keep_ratio)
    y = pixels.resize(x, height, width, interp)
    return y.copy() if np.may_share_memory(x, y) else np.ascontiguousarray(y)


@kernel("_image_crop", numpy=True)
def crop(data: Any, *, x: int, y: int, width: int, height: int) -> Any:
    return data[..., y : y + height, x : x + width, :].copy()


@kernel("_backward_image_crop", numpy=True)
def backward_crop(g: Any, like: Any, *, x: int, y: int, width: int, height: int) -> Any:
    d = np.zeros(like.shape, g.dtype)
    d[..., y : y + height, x : x + width, :] = g
    return d


@kernel("_image_flip_left_right", numpy=True)
def flip_left_right(x: Any) -> Any:
    return x[..., ::-1, :].copy()


@kernel("_image_flip_top_bottom", numpy=True)
def flip_top_bottom(x: Any) -> Any:
    return x[..., ::-1, :, :].copy()


@kernel("_image_random_flip_left_right", numpy=True)
def random_flip_left_right(x: Any, *, rng: Any) -> Any:
    return flip_left_right(x) if rng.random() < 0.5 else x.copy()


@kernel("_image_random_flip_top_bottom", numpy=True)
def random_flip_top_bottom(x: Any, *, rng: Any) -> Any:
    return flip_top_bottom(x) if rng.random() < 0.5 else x.copy()


def _by_factor(change: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *, rng, min_factor, max_factor: change(x, rng.uniform(min_factor, max_factor))


for _change in (pixels.brightness, pixels.contrast, pixels.saturation, pixels.hue):
    kernel(f"_image_random_{_change.__name__}", numpy=True)(_by_factor(_change))


@kernel("_image_random_color_jitter", numpy=True)
def random_color_jitter(x: Any, *, rng: Any, brightness: float, contrast: float, saturation: float, hue: float) -> Any:
    changes = (
        (pixels.brightness, brightness, 1.0),
        (pixels.contrast, contrast, 1.0),
        (pixels.saturation, saturation, 1.0),
        (pixels.hue, hue, 0.0),
    )
    y = x.copy()
    for i in rng.permutation(4):
        change, spread, centre = changes[i]
        if spread > 0:
            y = change(y, centre + rng.uniform(-spread, spread))
    return y


@kernel("_image_adjust_lighting", numpy=True)
def adjust_lighting(x: Any, *, alpha: Any) -> Any:
    return pixels.lighting(x, np.asarray(alpha))


@kernel("_image_random_lighting", numpy=True)
def random_lighting(x: Any, *, rng: Any, alpha_std: float) -> Any:
    return pixels.lighting(x, rng.normal(0.0, alpha_std, 3))
