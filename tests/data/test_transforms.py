"""Image transforms against MXNet 1.9.1 (OpenCV), NumPy and statistics."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import mxcore as mx
from mxcore import MXNetError
from mxcore.gluon.data.vision import transforms
from mxcore.oplib import pixels

REFERENCE = json.loads((Path(__file__).parent / "mxnet_1_9_1_images.json").read_text())
IMAGE = np.array(REFERENCE["image"], np.uint8)


def image(shape=(12, 10, 3), dtype="uint8"):
    return mx.nd.array(np.random.randint(0, 256, shape), dtype=dtype)


@pytest.mark.parametrize("size, interp, expected", REFERENCE["resize"])
def test_resize_equals_mxnet(size, interp, expected):
    out = transforms.Resize(tuple(size), interpolation=interp)(mx.nd.array(IMAGE, dtype="uint8"))
    assert np.dtype(out.dtype) == np.uint8
    worst = np.abs(out.asnumpy().astype(int) - np.array(expected)).max()
    assert worst <= (1 if interp in (pixels.CUBIC, pixels.LANCZOS) else 0)


@pytest.mark.parametrize("interp", range(5))
@pytest.mark.parametrize("size", [(4, 3), (9, 10), (5, 14)])
def test_resize_of_floats_and_batches(interp, size):
    pair = np.random.uniform(0, 255, (2, 7, 5, 3))
    for dtype in (np.float32, np.float64):
        batch = pixels.resize(pair.astype(dtype), size[1], size[0], interp)
        assert batch.dtype == dtype
        for one, whole in zip(pair, batch):
            np.testing.assert_allclose(pixels.resize(one.astype(dtype), size[1], size[0], interp), whole, atol=1e-3)
    flat = np.full((7, 5, 1), 93, np.uint8)
    assert (pixels.resize(flat, size[1], size[0], interp) == 93).all()


def test_resize_linear_equals_its_formula():
    source = np.random.rand(6, 4, 1)
    out = pixels.resize(source, 9, 7, pixels.LINEAR)

    def at(n, m):
        x = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        low = np.minimum(x.astype(int), n - 2)
        return low, x - low

    (y, fy), (x, fx) = at(6, 9), at(4, 7)
    fy = fy[:, None]
    grey = source[..., 0]
    top = grey[y][:, x] * (1 - fx) + grey[y][:, x + 1] * fx
    bottom = grey[y + 1][:, x] * (1 - fx) + grey[y + 1][:, x + 1] * fx
    np.testing.assert_allclose(out[..., 0], top * (1 - fy) + bottom * fy, atol=1e-6)


def test_resize_sizes():
    x = image((30, 20, 3))
    assert transforms.Resize(10)(x).shape == (10, 10, 3)
    assert transforms.Resize((8, 6))(x).shape == (6, 8, 3)
    assert transforms.Resize(10, keep_ratio=True)(x).shape == (15, 10, 3)
    assert transforms.Resize(10, keep_ratio=True)(image((20, 30, 3))).shape == (10, 15, 3)
    assert transforms.Resize(5)(image((2, 30, 20, 3))).shape == (2, 5, 5, 3)
    assert transforms.Resize(16)(image((8, 8, 1))).shape == (16, 16, 1)


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: transforms.Resize(-3)(image()),
            r"size=\(-3,\) must be one number or \(width, height\), greater than 0",
        ),
        (lambda: transforms.Resize((1, 2, 3))(image()), r"size=\(1, 2, 3\) must be one number"),
        (
            lambda: transforms.Resize(3, interpolation=7)(image()).wait_to_read(),
            r"unknown interpolation 7; use 0 \(nearest\)",
        ),
        (lambda: transforms.Resize(3)(image((4, 4))), r"an image must be \(H, W, C\) .* but got \(4, 4\)"),
        (lambda: transforms.Resize(3)(image(dtype="int32")), "data is int32 but must be uint8"),
        (lambda: transforms.ToTensor()(image((1, 2, 3, 4, 5))), r"but got \(1, 2, 3, 4, 5\)"),
        (lambda: transforms.Normalize(0, 1)(mx.nd.ones((4, 2, 2))), r"with C 1 or 3, but got \(4, 2, 2\)"),
        (lambda: transforms.Normalize((0, 0), 1)(mx.nd.ones((3, 2, 2))), "mean has 2 numbers for 3 channels"),
        (lambda: transforms.Normalize()(image((3, 2, 2))), "data is uint8 but must be of floats; use to_tensor first"),
        (lambda: transforms.CropResize(0, 0, -1, 5)(image()), "width=-1 and height=5 must be greater than 0"),
        (
            lambda: transforms.CropResize(8, 0, 5, 5)(image()),
            "columns 8 to 13 .* do not lie within an image of width 10",
        ),
    ],
)
def test_misuse_is_explained(make, message):
    with pytest.raises(MXNetError, match=message):
        make()


def test_to_tensor_and_normalize_equal_mxnet():
    tensor = transforms.ToTensor()(mx.nd.array(IMAGE, dtype="uint8"))
    assert np.dtype(tensor.dtype) == np.float32 and tensor.shape == (3, 7, 5)
    np.testing.assert_array_equal(tensor.asnumpy(), IMAGE.transpose(2, 0, 1).astype(np.float32) / np.float32(255))
    normal = transforms.Normalize((0.1, 0.2, 0.3), (0.5, 0.4, 0.3))(tensor)
    np.testing.assert_allclose(normal.asnumpy(), REFERENCE["normalize"], atol=1e-6)
    batch = transforms.Normalize(0.5, 0.25)(transforms.ToTensor()(image((2, 4, 4, 1))))
    assert batch.shape == (2, 1, 4, 4) and batch.asnumpy().min() >= -2 and batch.asnumpy().max() <= 2


def test_arguments_are_not_changed():
    x = mx.nd.array(np.random.rand(3, 4, 5))
    before = x.asnumpy()
    transforms.Normalize(0.5, 2)(x)
    transforms.ToTensor()(x)
    np.testing.assert_array_equal(x.asnumpy(), before)


def test_cast():
    out = transforms.Cast("float16")(image())
    assert np.dtype(out.dtype) == np.float16


@pytest.mark.parametrize("size", [(6, 4), (4, 6), (10, 12)])
def test_center_crop_within(size):
    x = image()
    width, height = size
    out = transforms.CenterCrop(size)(x).asnumpy()
    y0, x0 = (12 - height) // 2, (10 - width) // 2
    np.testing.assert_array_equal(out, x.asnumpy()[y0 : y0 + height, x0 : x0 + width])


def test_center_crop_enlarges_a_small_image():
    assert transforms.CenterCrop(20)(image()).shape == (20, 20, 3)


def test_crop_resize():
    x = image()
    np.testing.assert_array_equal(transforms.CropResize(1, 2, 4, 5)(x).asnumpy(), x.asnumpy()[2:7, 1:5])
    assert transforms.CropResize(1, 2, 4, 5, (3, 2), 1)(x).shape == (2, 3, 3)
    assert transforms.CropResize(1, 2, 4, 5)(image((2, 12, 10, 3))).shape == (2, 5, 4, 3)


def test_random_crops_keep_the_size_and_follow_the_seed():
    x = image((40, 30, 3))
    for crop in (transforms.RandomResizedCrop(8), transforms.RandomCrop((9, 8), pad=2)):
        random.seed(4)
        first = [crop(x).asnumpy() for _ in range(5)]
        random.seed(4)
        again = [crop(x).asnumpy() for _ in range(5)]
        assert {a.shape for a in first} <= {(8, 8, 3), (8, 9, 3)}
        assert all((a == b).all() for a, b in zip(first, again))
        assert any((first[0] != a).any() for a in first[1:])


def test_random_resized_crop_of_an_impossible_area_takes_the_centre():
    assert transforms.RandomResizedCrop(4, scale=(30, 40))(image()).shape == (4, 4, 3)


@pytest.mark.parametrize("flip, axis", [(transforms.RandomFlipLeftRight, 1), (transforms.RandomFlipTopBottom, 0)])
def test_flips_happen_half_of_the_time(flip, axis):
    mx.random.seed(2)
    x = image()
    turned = np.flip(x.asnumpy(), axis)
    count = 0
    for _ in range(200):
        out = flip()(x).asnumpy()
        if (out == turned).all():
            count += 1
        else:
            assert (out == x.asnumpy()).all()
    assert 70 < count < 130


@pytest.mark.parametrize("name, factor", [("brightness", 0.7), ("contrast", 1.2), ("saturation", 0.7), ("hue", 0.2)])
def test_colour_changes_equal_mxnet(name, factor):
    out = getattr(pixels, name)(IMAGE, factor)
    difference = np.abs(out.astype(int) - np.array(REFERENCE[name]))
    assert difference.max() <= (1 if name == "hue" else 0)


def test_lighting_equals_mxnet():
    np.testing.assert_array_equal(pixels.lighting(IMAGE, np.array([0.1, -0.2, 0.3])), REFERENCE["lighting"])


@pytest.mark.parametrize(
    "transform",
    [
        transforms.RandomBrightness(0.5),
        transforms.RandomContrast(0.5),
        transforms.RandomSaturation(0.5),
        transforms.RandomHue(0.3),
        transforms.RandomColorJitter(0.3, 0.3, 0.3, 0.3),
        transforms.RandomLighting(0.3),
    ],
    ids=lambda t: type(t).__name__,
)
def test_random_colours_follow_the_seed(transform):
    x = mx.nd.array(IMAGE, dtype="uint8")
    mx.random.seed(9)
    first = [transform(x).asnumpy() for _ in range(4)]
    mx.random.seed(9)
    again = [transform(x).asnumpy() for _ in range(4)]
    assert all((a == b).all() for a, b in zip(first, again))
    assert any((first[0] != a).any() for a in first[1:])
    assert first[0].dtype == np.uint8 and first[0].shape == IMAGE.shape


def test_grey_images_pass_colour_changes():
    grey = image((4, 4, 1))
    for change in (transforms.RandomSaturation(0.5), transforms.RandomHue(0.5), transforms.RandomLighting(0.5)):
        np.testing.assert_array_equal(change(grey).asnumpy(), grey.asnumpy())
    assert transforms.RandomContrast(0.5)(grey).shape == (4, 4, 1)


@pytest.mark.parametrize("degrees, zoom_in, zoom_out, expected", REFERENCE["rotate"])
def test_rotate_equals_mxnet(degrees, zoom_in, zoom_out, expected):
    tensor = transforms.ToTensor()(mx.nd.array(IMAGE, dtype="uint8"))
    out = transforms.Rotate(degrees, bool(zoom_in), bool(zoom_out))(tensor)
    np.testing.assert_allclose(out.asnumpy(), expected, atol=3e-6)


def test_rotation_errors_and_probability():
    with pytest.raises(TypeError, match="only supports float32, got uint8"):
        transforms.Rotate(10)(image((3, 4, 5)))
    with pytest.raises(ValueError, match="cannot be both True"):
        transforms.Rotate(10, True, True)(mx.nd.ones((3, 4, 5)))
    with pytest.raises(ValueError, match="ordered tuple"):
        transforms.RandomRotation((3, 3))
    with pytest.raises(ValueError, match=r"between 0 and 1, got rotate_with_proba=1.1"):
        transforms.RandomRotation((0, 1), rotate_with_proba=1.1)
    x = mx.nd.ones((2, 3, 4, 5))
    assert transforms.RandomRotation((-90, 90), rotate_with_proba=0.0)(x) is x
    assert transforms.RandomRotation((-90, 90))(x).shape == (2, 3, 4, 5)


def test_compose_groups_hybrid_blocks_and_leaves_the_list_alone():
    steps = [transforms.Resize(9), transforms.Cast("float32"), transforms.CenterCrop(8), transforms.ToTensor()]
    chain = transforms.Compose(steps)
    assert len(steps) == 4 and len(chain) == 3
    assert chain(image()).shape == (3, 8, 8)
    hybrid = transforms.HybridCompose([transforms.Resize(4), transforms.ToTensor()])
    assert hybrid(image()).shape == (3, 4, 4)
    with pytest.raises(ValueError, match="is not a HybridBlock, try use `Compose` instead"):
        transforms.HybridCompose([transforms.CenterCrop(4)])


def test_random_apply():
    random.seed(0)
    apply = transforms.RandomApply(transforms.Compose([transforms.Resize(3)]), 0.5)
    shapes = [apply(image()).shape for _ in range(100)]
    assert 30 < shapes.count((3, 3, 3)) < 70 and shapes.count((12, 10, 3)) == 100 - shapes.count((3, 3, 3))


def test_whole_pipeline_of_a_classifier():
    pipeline = transforms.Compose(
        [
            transforms.RandomResizedCrop(24),
            transforms.RandomFlipLeftRight(),
            transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1),
            transforms.RandomLighting(0.1),
            transforms.ToTensor(),
            transforms.RandomRotation((-10.0, 10.0)),
            transforms.Normalize([0.4, 0.4, 0.4], [0.2, 0.2, 0.2]),
        ]
    )
    dataset = mx.gluon.data.ArrayDataset(image((6, 40, 30, 3)), np.arange(6)).transform_first(pipeline)
    batches = list(mx.gluon.data.DataLoader(dataset, 4, num_workers=2))
    assert [b[0].shape for b in batches] == [(4, 3, 24, 24), (2, 3, 24, 24)]
    assert np.isfinite(batches[0][0].asnumpy()).all()
