"""Image, box, region and sampling operators beyond what records check by themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mxcore as mx

C = mx.nd.contrib


def array(x, dtype="float64"):
    return mx.nd.array(x, dtype=dtype)


def gradient(fn, *xs, seed=0):
    arrays = [array(x) for x in xs]
    for a in arrays:
        a.attach_grad()
    with mx.autograd.record():
        y = fn(*arrays)
    g = np.random.default_rng(seed).standard_normal(y.shape)
    y.backward(array(g))
    return y.asnumpy(), g, [a.grad.asnumpy() for a in arrays]


def boxes(rng, n):
    low = rng.uniform(0, 1, (n, 2))
    return np.concatenate([low, low + rng.uniform(0.2, 1, (n, 2))], 1)


# -- images -------------------------------------------------------------------------------------------------------


def test_resize_agrees_with_hand_made_values():
    x = mx.nd.array(np.arange(24).reshape(2, 4, 3), dtype="uint8")
    assert mx.nd.image.resize(x, size=2).asnumpy().ravel().tolist() == [2, 3, 4, 8, 9, 10, 14, 15, 16, 20, 21, 22]
    same = mx.nd.image.resize(x, size=(4, 2))
    np.testing.assert_array_equal(same.asnumpy(), x.asnumpy())
    assert mx.nd.image.resize(x, size=3, keep_ratio=True).shape == (3, 6, 3)
    batch = mx.nd.image.resize(x.expand_dims(0), size=(3, 5), interp=0)
    np.testing.assert_array_equal(batch.asnumpy()[0], mx.nd.image.resize(x, size=(3, 5), interp=0).asnumpy())


def test_random_image_operators_follow_their_factors():
    x = mx.nd.array(np.random.default_rng(1).integers(0, 256, (5, 4, 3)), dtype="uint8")
    image = mx.nd.image
    for name, same in (("brightness", 1), ("contrast", 1), ("saturation", 1), ("hue", 0)):
        fn = getattr(image, f"random_{name}")
        y = fn(x, same, same).asnumpy().astype(int)
        assert np.abs(y - x.asnumpy().astype(int)).max() <= 1, name
        mx.random.seed(3)
        a, b = fn(x, 0.2, 0.9).asnumpy(), fn(x, 0.2, 0.9).asnumpy()
        assert (a != b).any(), name
        mx.random.seed(3)
        np.testing.assert_array_equal(fn(x, 0.2, 0.9).asnumpy(), a)
    half = image.random_brightness(x, 0.5, 0.5).asnumpy()
    np.testing.assert_array_equal(half, x.asnumpy() // 2)
    np.testing.assert_array_equal(image.random_lighting(x, alpha_std=0).asnumpy(), x.asnumpy())
    np.testing.assert_array_equal(image.random_color_jitter(x, 0, 0, 0, 0).asnumpy(), x.asnumpy())
    assert (image.random_color_jitter(x, 0.4, 0.4, 0.4, 0.4).asnumpy() != x.asnumpy()).any()


@pytest.mark.parametrize("name", ["left_right", "top_bottom"])
def test_random_flips_happen_half_the_time(name):
    mx.random.seed(4)
    x = mx.nd.arange(4).reshape((2, 2, 1))
    flipped = getattr(mx.nd.image, f"flip_{name}")(x).asnumpy()
    count = 0
    for _ in range(200):
        y = getattr(mx.nd.image, f"random_flip_{name}")(x).asnumpy()
        if (y == flipped).all():
            count += 1
        else:
            np.testing.assert_array_equal(y, x.asnumpy())
    assert 60 < count < 140


# -- boxes --------------------------------------------------------------------------------------------------------


def iou(a, b):
    w = max(min(a[2], b[2]) - max(a[0], b[0]), 0)
    h = max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h)


@pytest.mark.parametrize("by_class", [False, True])
def test_nms_keeps_the_best_of_overlapping_boxes(by_class):
    # More than are compared at once.
    rng, n = np.random.default_rng(5), 300
    x = np.concatenate([rng.integers(0, 2, (n, 1)), rng.uniform(0, 1, (n, 1)), boxes(rng, n) * 3], 1)
    want = []
    for row in x[np.argsort(-x[:, 1])]:
        rivals = [k for k in want if not by_class or k[0] == row[0]]
        if row[1] > 0.2 and all(iou(k[2:], row[2:]) <= 0.3 for k in rivals):
            want.append(row)
    got, g, (dx,) = gradient(
        lambda a: C.box_nms(a, overlap_thresh=0.3, valid_thresh=0.2, id_index=0 if by_class else -1), x
    )
    np.testing.assert_allclose(got[: len(want)], want)
    assert (got[len(want) :] == -1).all()
    for row, grad in zip(got[: len(want)], g):
        np.testing.assert_allclose(dx[(x == row).all(1)][0], grad)
    assert np.count_nonzero(dx.any(1)) == len(want)


def test_nms_formats():
    x = np.array([[0, 0.9, 2.0, 3.0, 2.0, 4.0], [0, 0.5, 9.0, 9.0, 1.0, 1.0]])
    got = C.box_nms(array(x), in_format="center", out_format="corner").asnumpy()
    np.testing.assert_allclose(got[0, 2:], [1, 1, 3, 5])
    back = C.box_nms(array(got), in_format="corner", out_format="center").asnumpy()
    np.testing.assert_allclose(back, x)


def test_matching():
    x = array([[[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]]])
    rows, columns = C.bipartite_matching(x, threshold=1e-12, is_ascend=False)
    assert rows.asnumpy().tolist() == [[1, -1, 0]]
    assert columns.asnumpy().tolist() == [[2, 0]]
    rows, _ = C.bipartite_matching(x, threshold=0.25, is_ascend=True)
    assert rows.asnumpy().tolist() == [[-1, 0, -1]]


def test_decoding_inverts_encoding():
    rng = np.random.default_rng(6)
    anchors, refs = boxes(rng, 4), boxes(rng, 4)
    ones, order = np.ones((1, 4)), np.arange(4.0)[None]
    targets, masks = C.box_encode(
        *map(array, (ones, order, anchors[None], refs[None], np.zeros(4), np.array([0.1, 0.1, 0.2, 0.2])))
    )
    assert masks.asnumpy().all()
    kw = {"std0": 0.1, "std1": 0.1, "std2": 0.2, "std3": 0.2, "format": "corner"}
    np.testing.assert_allclose(C.box_decode(targets, array(anchors[None]), **kw).asnumpy()[0], refs)


def test_single_shot_detection_end_to_end():
    anchors = C.MultiBoxPrior(mx.nd.zeros((1, 1, 2, 2)), sizes=(0.5, 0.25), ratios=(1, 2))
    assert anchors.shape == (1, 12, 4)
    truth = anchors.asnumpy()[0, 4] + np.float32([0.01, 0, 0.02, 0.03])
    label = mx.nd.array([[[1, *truth], [-1] * 5]])
    loc, mask, classes = C.MultiBoxTarget(anchors, label, mx.nd.zeros((1, 3, 12)))
    c = classes.asnumpy()[0]
    assert c[4] == 2
    assert set(c) == {0, 2}
    np.testing.assert_array_equal(mask.asnumpy().reshape(12, 4), (c > 0).repeat(4).reshape(12, 4))
    prob = np.zeros((1, 3, 12), np.float32)
    prob[0, 0] = 1
    prob[0, :, c > 0] = [0.1, 0.1, 0.8]
    found = C.MultiBoxDetection(mx.nd.array(prob), loc, anchors).asnumpy()[0]
    best = found[found[:, 0] >= 0]
    assert len(best) == 1
    np.testing.assert_allclose(best[0], [1, 0.8, *truth], rtol=1e-5)


def test_negative_mining_takes_the_least_sure():
    anchor = mx.nd.array([[[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]]])
    label = mx.nd.array([[[0, 0, 0, 0.5, 0.5]]])
    pred = mx.nd.array([[[0, 3, 1, 2], [0, 0, 0, 0]]])
    _, _, classes = C.MultiBoxTarget(anchor, label, pred, negative_mining_ratio=2)
    assert classes.asnumpy().tolist() == [[1, -1, 0, 0]]


# -- regions ------------------------------------------------------------------------------------------------------


def bilinear(x, y, column):
    h, w = x.shape
    if y < -1 or y > h or column < -1 or column > w:
        return 0.0
    y, column = min(max(y, 0), h - 1), min(max(column, 0), w - 1)
    top, left = min(int(y), h - 1), min(int(column), w - 1)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    a, b = y - top, column - left
    return (x[top, left] * (1 - b) + x[top, right] * b) * (1 - a) + (
        x[bottom, left] * (1 - b) + x[bottom, right] * b
    ) * a


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_roi_align_is_an_average_of_samples(aligned, ratio):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((2, 2, 6, 7))
    rois = np.array([[1, -1.0, 1.5, 5.0, 9.0], [0, 2.2, 0.3, 4.1, 3.3], [-1, 0, 0, 1, 1]])
    want = np.zeros((3, 2, 2, 3))
    for r, (b, *corners) in enumerate(rois[:2]):
        x0, y0, x1, y1 = np.array(corners) * 0.9 - 0.5 * aligned
        h, w = (y1 - y0, x1 - x0) if aligned else (max(y1 - y0, 1), max(x1 - x0, 1))
        ny, nx = (ratio, ratio) if ratio > 0 else (math.ceil(h / 2), math.ceil(w / 3))
        for c, i, j in np.ndindex(2, 2, 3):
            want[r, c, i, j] = np.mean(
                [
                    bilinear(x[int(b), c], y0 + (i + (p + 0.5) / ny) * h / 2, x0 + (j + (q + 0.5) / nx) * w / 3)
                    for p in range(ny)
                    for q in range(nx)
                ]
            )
    kw = {"pooled_size": (2, 3), "spatial_scale": 0.9, "sample_ratio": ratio, "aligned": aligned}
    got, g, (dx, drois) = gradient(lambda a, r: C.ROIAlign(a, r, **kw), x, rois)
    np.testing.assert_allclose(got, want, atol=1e-12)
    # Linear in x: <g, f(v)> = <dx, v>.
    v = rng.standard_normal(x.shape)
    np.testing.assert_allclose((g * C.ROIAlign(array(v), array(rois), **kw).asnumpy()).sum(), (dx * v).sum())
    assert not drois.any()


def test_position_sensitive_bins_read_their_own_channels():
    x = np.broadcast_to(np.arange(8.0).reshape(1, 8, 1, 1), (1, 8, 5, 5)).copy()
    kw = {"pooled_size": (2, 2), "spatial_scale": 1.0, "position_sensitive": True}
    got, g, (dx, _) = gradient(lambda a, r: C.ROIAlign(a, r, **kw), x, np.array([[0, 0, 0, 4.0, 4.0]]))
    np.testing.assert_allclose(got.ravel(), np.arange(8))
    np.testing.assert_allclose(dx.sum((0, 2, 3)), g.ravel())


def test_an_empty_region_is_named():
    with pytest.raises(mx.MXNetError, match=r"_contrib_ROIAlign.*region 0 is empty"):
        C.ROIAlign(
            mx.nd.ones((1, 1, 4, 4)), mx.nd.array([[0, 2, 2, 2, 2]]), pooled_size=(1, 1), spatial_scale=1, aligned=True
        ).wait_to_read()


def test_roi_pooling_takes_the_maximum_and_gives_it_the_gradient():
    x = np.random.default_rng(8).permutation(2 * 2 * 36).reshape(2, 2, 6, 6).astype(float)
    rois = np.array([[1, 0, 0, 5, 5], [0, 1, 1, 4, 2], [5, 0, 0, 5, 5]], float)
    got, g, (dx, drois) = gradient(lambda a, r: mx.nd.ROIPooling(a, r, (2, 2), 1.0), x, rois)
    for i, j in np.ndindex(2, 2):
        np.testing.assert_array_equal(got[0, :, i, j], x[1, :, 3 * i : 3 * i + 3, 3 * j : 3 * j + 3].max((1, 2)))
        np.testing.assert_array_equal(got[1, :, i, j], x[0, :, 1 + i : 2 + i, 1 + 2 * j : 3 + 2 * j].max((1, 2)))
    assert not got[2].any()
    want = np.zeros_like(x)
    for r, c, i, j in np.ndindex(2, 2, 2, 2):
        want[int(rois[r, 0]), c][x[int(rois[r, 0]), c] == got[r, c, i, j]] += g[r, c, i, j]
    np.testing.assert_allclose(dx, want)
    assert not drois.any()


# -- sampling -----------------------------------------------------------------------------------------------------


def test_identity_transformation_gives_the_map():
    x = np.random.default_rng(9).standard_normal((2, 3, 4, 5))
    same = np.tile([1.0, 0, 0, 0, 1, 0], (2, 1))
    y = mx.nd.SpatialTransformer(array(x), array(same), (4, 5), "affine", "bilinear")
    np.testing.assert_allclose(y.asnumpy(), x, atol=1e-12)
    flow = mx.nd.GridGenerator(mx.nd.zeros((2, 2, 4, 5), dtype="float64"), "warp")
    np.testing.assert_allclose(mx.nd.BilinearSampler(array(x), flow).asnumpy(), x, atol=1e-12)


def test_outside_is_zero():
    x = array(np.ones((1, 1, 3, 3)))
    y = mx.nd.BilinearSampler(x, array(np.full((1, 2, 1, 1), 1.5)))
    assert y.asnumpy().tolist() == [[[[0.25]]]]
    assert mx.nd.BilinearSampler(x, array(np.full((1, 2, 1, 1), 5.0))).asnumpy().tolist() == [[[[0.0]]]]
