"""mx.image: pixels of MXNet 1.9.1, choices of interpolation, places of crops, and what cannot be read."""

from __future__ import annotations

import io
import json
import pathlib
import random

import numpy as np
import pytest

import mxcore as mx
from mxcore.base import MXNetError
from mxcore.spec import DTypeError, FileFormatError, ParameterError, ShapeError
from mxcore.testing.engine_seeded import SeededEngine

REFERENCE = json.loads((pathlib.Path(__file__).parent / "mxnet_1_9_1_crops.json").read_text())
IMAGE = np.array(REFERENCE["image"], np.uint8)
PIXELS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[10, 20, 31], [200, 100, 51], [77, 78, 79]]], np.uint8)


def image():
    return mx.nd.array(IMAGE, dtype="uint8")


def encoded(pixels, kind="PNG", **options):
    Image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


# -- resizing and cropping -------------------------------------------------------------------------------------


def test_both_names():
    assert mx.img is mx.image


@pytest.mark.parametrize("interp", ["0", "1", "3", "4", "9"])
def test_resize_short_gives_mxnets_pixels(interp):
    out = mx.image.resize_short(image(), 5, interp=int(interp)).asnumpy()
    np.testing.assert_array_equal(out, REFERENCE["resize_short_5"][interp])


@pytest.mark.parametrize("interp", ["0", "1", "2", "3", "4", "9"])
def test_crops_give_mxnets_pixels(interp):
    out, where = mx.image.center_crop(image(), (20, 18), interp=int(interp))
    assert where == (0, 2, 9, 8) and out.shape == (18, 20, 3)
    np.testing.assert_array_equal(out.asnumpy()[:3, :4], REFERENCE["center_crop_20_18"][interp])
    part = mx.image.fixed_crop(image(), 2, 3, 5, 6, (4, 9), int(interp)).asnumpy()
    np.testing.assert_array_equal(part, REFERENCE["fixed_crop_2_3_5_6_to_4_9"][interp])


def test_crops_that_fit_are_the_pixels():
    x = image()
    out, where = mx.image.center_crop(x, (7, 5))
    assert where == (1, 3, 7, 5)
    np.testing.assert_array_equal(out.asnumpy(), IMAGE[3:8, 1:8])
    out[:] = 0
    np.testing.assert_array_equal(x.asnumpy(), IMAGE)
    np.testing.assert_array_equal(mx.image.fixed_crop(x, 1, 2, 3, 4).asnumpy(), IMAGE[2:6, 1:4])


def test_random_crop_follows_pythons_random():
    random.seed(5)  # as MXNet 1.9.1 with this seed
    out, where = mx.image.random_crop(image(), (5, 4))
    assert where == (4, 4, 5, 4)
    np.testing.assert_array_equal(out.asnumpy(), IMAGE[4:8, 4:9])


@pytest.mark.parametrize(
    "source, size, want",
    [((640, 480), (720, 120), (640, 106)), ((10, 8), (12, 30), (3, 8)), ((10, 8), (4, 5), (4, 5))],
)
def test_scale_down(source, size, want):
    assert mx.image.scale_down(source, size) == want


@pytest.mark.parametrize("size, same_as", [((20, 24), 2), ((4, 5), 3), ((4, 24), 1), ((9, 20), 1)])
def test_interpolation_by_size(size, same_as):
    chosen = mx.image.imresize(image(), *size, interp=9).asnumpy()
    np.testing.assert_array_equal(chosen, mx.image.imresize(image(), *size, interp=same_as).asnumpy())


def test_interpolation_at_random_is_one_of_five():
    kinds = [mx.image.imresize(image(), 5, 7, interp=i).asnumpy().tobytes() for i in range(5)]
    random.seed(0)
    got = {mx.image.imresize(image(), 5, 7, interp=10).asnumpy().tobytes() for _ in range(60)}
    assert got == set(kinds) and len(got) == 5


def test_out_is_written():
    out = mx.nd.zeros((7, 5, 3), dtype="uint8")
    assert mx.image.imresize(image(), 5, 7, 3, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), mx.image.imresize(image(), 5, 7, 3).asnumpy())


def test_color_normalize_changes_its_argument():
    x = mx.nd.ones((2, 2, 3))
    assert mx.image.color_normalize(x, mx.nd.array([1, 0, 0]), mx.nd.array([1, 2, 4])) is x
    assert x.asnumpy()[0, 0].tolist() == [0, 0.5, 0.25]
    assert mx.image.color_normalize(mx.nd.ones((1, 1, 1)), None).asnumpy().tolist() == [[[1]]]


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (
            lambda x: mx.image.imresize(x, 4, 4, interp=-1).asnumpy(),
            ParameterError,
            r"image resize: unknown interpolation -1; use 0 \(nearest\)",
        ),
        (
            lambda x: mx.image.resize_short(x, 4, interp=7),
            ValueError,
            r"image.resize_short: unknown interpolation 7; use 0 .* 9 \(by size\)",
        ),
        (
            lambda x: mx.image.imresize(x, 0, 4),
            ParameterError,
            r"size=\(0, 4\) must be one number or \(width, height\)",
        ),
        (
            lambda x: mx.image.imresize(x.expand_dims(0), 4, 4),
            ShapeError,
            r"image.imresize: an image must be \(H, W, C\) but is \(1, 12, 9, 3\)",
        ),
        (lambda x: mx.image.center_crop(x[0], (2, 2)), ShapeError, r"image.center_crop: an image must be"),
        (lambda x: mx.image.imresize(x.astype("int32"), 4, 4), DTypeError, "data is int32 but must be uint8"),
    ],
)
def test_misuse_is_explained(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call(image())
    assert isinstance(caught.value, MXNetError)


def test_an_unknown_interpolation_waits_for_the_sync_point():
    with mx.use(engine=SeededEngine(seed=0)):
        out = mx.image.imresize(image(), 4, 4, interp=-1)
        assert out.shape == (4, 4, 3)
        with pytest.raises(ParameterError, match="unknown interpolation -1"):
            out.asnumpy()


# -- reading ---------------------------------------------------------------------------------------------------


def test_read_and_decode(tmp_path):
    data = encoded(PIXELS)
    (tmp_path / "x.png").write_bytes(data)
    buffers = (data, bytearray(data), np.frombuffer(data, np.uint8), mx.nd.array(list(data), dtype="uint8"))
    for x in [mx.image.imread(tmp_path / "x.png"), mx.image.imread(str(tmp_path / "x.png"))] + [
        mx.image.imdecode(buffer) for buffer in buffers
    ]:
        assert x.dtype == np.uint8 and x.context == mx.cpu(0)
        np.testing.assert_array_equal(x.asnumpy(), PIXELS)
    np.testing.assert_array_equal(mx.image.imdecode(data, to_rgb=False).asnumpy(), PIXELS[..., ::-1])
    out = mx.nd.zeros(PIXELS.shape, dtype="uint8")
    assert mx.image.imdecode(data, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), PIXELS)


def test_images_are_made_on_the_cpu():
    with mx.cpu(3):
        assert mx.image.imdecode(encoded(PIXELS)).context == mx.cpu(0)


@pytest.mark.parametrize(
    "kind, grey",
    [("PNG", [[76, 149, 29], [18, 124, 77]]), ("BMP", [[76, 150, 29], [18, 124, 78]])],
)
def test_grey_is_what_mxnet_makes_of_the_format(kind, grey):
    x = mx.image.imdecode(encoded(PIXELS, kind), flag=0)
    assert x.shape == (2, 3, 1)
    assert x.asnumpy()[..., 0].tolist() == grey


def test_grey_of_jpeg_is_the_one_it_holds():
    Image = pytest.importorskip("PIL.Image")
    data = encoded(np.kron(PIXELS, np.ones((16, 16, 1), np.uint8)), "JPEG", quality=90)
    with Image.open(io.BytesIO(data)) as file:
        file.draft("YCbCr", file.size)
        want = np.asarray(file)[..., 0]
    np.testing.assert_array_equal(mx.image.imdecode(data, flag=0).asnumpy()[..., 0], want)


def test_other_modes():
    deep = mx.image.imdecode(encoded(np.array([[0, 255, 256, 65535]], np.uint16)), flag=0)
    assert deep.asnumpy().ravel().tolist() == [0, 0, 1, 255]
    transparent = np.concatenate([PIXELS, np.zeros((2, 3, 1), np.uint8)], 2)
    np.testing.assert_array_equal(mx.image.imdecode(encoded(transparent)).asnumpy(), PIXELS)
    grey = mx.image.imdecode(encoded(PIXELS[..., 0].copy()))
    np.testing.assert_array_equal(grey.asnumpy(), np.repeat(PIXELS[..., :1], 3, 2))


def test_exif_does_not_turn():
    Image = pytest.importorskip("PIL.Image")
    exif = Image.Exif()
    exif[0x0112] = 6
    assert mx.image.imdecode(encoded(PIXELS, "JPEG", exif=exif)).shape == (2, 3, 3)


def test_what_cannot_be_read(tmp_path):
    pytest.importorskip("PIL")
    with pytest.raises(FileNotFoundError):
        mx.image.imread(tmp_path / "none.png")
    (tmp_path / "bad.png").write_bytes(b"abc")
    with pytest.raises(FileFormatError, match=r"image.imread: file '.*bad.png' is not an image .* unknown to Pillow"):
        mx.image.imread(tmp_path / "bad.png")
    with pytest.raises(FileFormatError, match="image.imdecode: the buffer of 0 bytes is not an image"):
        mx.image.imdecode(b"")
    data = encoded(np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8))
    with pytest.raises(MXNetError, match="image.imdecode: the buffer of 900 bytes is not an image that can be decoded"):
        mx.image.imdecode(data[:900])
    with pytest.raises(ValueError, match="image.imdecode: buf must be bytes, .* but is str"):
        mx.image.imdecode("abc")
    with pytest.raises(ParameterError, match="image.imdecode: flag is -1. Give 1 for colour or 0 for grey"):
        mx.image.imdecode(data, flag=-1)


def test_without_pillow(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"image.imdecode: .* needs Pillow.* pip install mxcore\[image\]"):
        mx.image.imdecode(b"abc")
