"""Region proposals, compared with what MXNet 1.9.1 returns for the same inputs."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx

C = mx.nd.contrib


def inputs(seed, anchors, cells, info, scale=0.3):
    """Return class probabilities, offsets and image information: the same random numbers in every NumPy."""
    rng = np.random.default_rng(seed)
    batch = len(info)
    prob = rng.uniform(0, 1, (batch, 2 * anchors, *cells))
    deltas = rng.standard_normal((batch, 4 * anchors, *cells)) * scale
    return [mx.nd.array(x, dtype="float32") for x in (prob, deltas, info)]


SMALL = {"scales": (1, 2), "ratios": (0.5, 1), "feature_stride": 4, "rpn_min_size": 2, "rpn_post_nms_top_n": 8}
ONE = [
    [0.0, 6.7843, 16.182, 9.383, 20.2424],
    [0.0, 28.4692, 16.2822, 31.0, 22.523],
    [0.0, 7.5232, 8.4946, 10.8316, 11.0299],
    [0.0, 2.0688, 10.4734, 7.305, 18.5817],
    [0.0, 21.619, 0.0, 25.3618, 4.1801],
    [0.0, 10.488, 8.9319, 25.5834, 12.8981],
    [0.0, 11.1675, 8.3072, 16.677, 11.337],
    [0.0, 3.3608, 19.8067, 8.0758, 22.7751],
]
ONE_SCORES = [0.9837, 0.9795, 0.9667, 0.9658, 0.9645, 0.9632, 0.9629, 0.9573]


@pytest.mark.parametrize("call", [C.Proposal, C.MultiProposal])
def test_one_image(call):
    regions, scores = call(*inputs(1, 4, (6, 8), [[24, 32, 1]]), output_score=True, **SMALL)
    np.testing.assert_allclose(regions.asnumpy(), ONE, atol=1e-4)
    np.testing.assert_allclose(scores.asnumpy().ravel(), ONE_SCORES, atol=1e-4)
    alone = call(*inputs(1, 4, (6, 8), [[24, 32, 1]]), **SMALL)
    np.testing.assert_array_equal(alone.asnumpy(), regions.asnumpy())


def test_several_images_with_cells_outside():
    regions, scores = C.MultiProposal(
        *inputs(2, 4, (6, 8), [[24, 30, 1], [15, 32, 1.5]]),
        scales=(1, 2),
        ratios=(0.5, 2),
        feature_stride=4,
        rpn_min_size=3,
        rpn_post_nms_top_n=6,
        rpn_pre_nms_top_n=20,
        threshold=0.5,
        output_score=True,
    )
    want = [
        [0.0, 10.7702, 15.6672, 14.9551, 23.0],
        [0.0, 0.0, 17.5418, 2.1384, 19.9688],
        [0.0, 12.5531, 9.4772, 15.6551, 13.6522],
        [0.0, 8.7101, 20.4398, 18.3386, 23.0],
        [0.0, 9.1418, 0.0, 21.6618, 2.8456],
        [0.0, 3.4236, 8.3046, 7.7911, 12.9894],
        [1.0, 1.4142, 5.0428, 15.2366, 8.6522],
        [1.0, 24.7266, 0.0, 31.0, 3.5462],
        [1.0, 3.0283, 0.0, 7.7525, 5.9737],
        [1.0, 21.8082, 7.8017, 30.0785, 12.1801],
        [1.0, 0.0, 0.0, 4.7695, 6.1895],
        [1.0, 25.1127, 6.7946, 29.6392, 14.0],
    ]
    np.testing.assert_allclose(regions.asnumpy(), want, atol=1e-4)
    best = [0.9886, 0.9879, 0.953, 0.9453, 0.9399, 0.9194, 0.9873, 0.9799, 0.9396, 0.8953, 0.8452, 0.8108]
    np.testing.assert_allclose(scores.asnumpy().ravel(), best, atol=1e-4)


def test_offsets_of_corners_and_enlarged_small_boxes():
    regions, scores = C.MultiProposal(
        *inputs(3, 3, (4, 5), [[16, 20, 1], [16, 20, 2]], scale=3),
        scales=(1.5,),
        ratios=(0.5, 1, 0.1),
        feature_stride=4,
        rpn_min_size=4,
        rpn_post_nms_top_n=6,
        rpn_pre_nms_top_n=-1,
        threshold=0.3,
        iou_loss=True,
        output_score=True,
    )
    want = [
        [0.0, 13.67, 1.3822, 18.8085, 5.2296],
        [0.0, 1.259, 3.8525, 9.0908, 7.8196],
        [0.0, 0.0, 0.0, 19.0, 4.7242],
        [0.0, 7.347, 1.6136, 15.6561, 6.234],
        [0.0, 14.6788, 6.7582, 17.8956, 11.8112],
        [0.0, 4.1238, 11.3492, 16.609, 15.0],
        [1.0, 5.5827, 4.6203, 15.4778, 12.491],
        [1.0, -4.0, -2.2146, 8.2829, 7.1539],
        [1.0, 2.9361, -4.0, 16.8926, 9.4753],
        [1.0, 10.491, -1.0852, 20.0419, 15.2411],
        [1.0, 4.8255, 2.2458, 23.0, 5.3156],
        [1.0, -4.0, 4.9392, 13.7608, 4.0],
    ]
    np.testing.assert_allclose(regions.asnumpy(), want, atol=1e-4)
    best = [0.9652, 0.8509, 0.7741, 0.7522, 0.6691, 0.5897, 0.8763, -1, -1, -1, -1, -1]
    np.testing.assert_allclose(scores.asnumpy().ravel(), best, atol=1e-4)


def test_too_few_boxes_are_repeated_in_turn():
    regions, scores = C.Proposal(
        *inputs(4, 1, (2, 2), [[8, 8, 1]]),
        scales=(1,),
        ratios=(1,),
        feature_stride=4,
        rpn_min_size=20,
        rpn_post_nms_top_n=7,
        output_score=True,
    )
    three = [
        [0.0, -10.0, -9.2626, 10.1959, 13.0225],
        [0.0, -6.4933, -9.0222, 17.0, 13.2475],
        [0.0, -3.6449, -3.2318, 17.0, 17.0],
    ]
    np.testing.assert_allclose(regions.asnumpy(), (three * 3)[:7], atol=1e-4)
    assert scores.asnumpy().ravel().tolist() == [-1] * 7


def test_maps_of_a_real_network():
    image = [[600, 800, 1.6], [500, 790, 1.6]]
    regions, scores = (y.asnumpy() for y in C.MultiProposal(*inputs(5, 12, (38, 50), image), output_score=True))
    assert regions.shape == (600, 5)
    some = [0, 1, 299, 300, 599]
    want = [
        [0.0, 266.838, 0.0, 507.861, 195.726],
        [0.0, 491.445, 61.832, 568.288, 107.315],
        [0.0, 646.29, 17.312, 723.768, 186.201],
        [1.0, 0.0, 415.88, 549.545, 499.0],
        [1.0, 154.233, 0.0, 416.772, 369.993],
    ]
    np.testing.assert_allclose(regions[some], want, atol=2e-3)
    np.testing.assert_allclose(scores[some, 0], [0.99988, 0.99987, 0.982, 0.99997, 0.97987], atol=1e-5)
    # Sums show that no other region is missing or out of place.
    np.testing.assert_allclose(
        np.arange(600) @ regions.astype(float), [134850.0, 52973562.1, 32739223.1, 84445119.5, 62324488.9], rtol=1e-6
    )


def test_the_gradient_is_zero():
    arrays = inputs(1, 4, (6, 8), [[24, 32, 1]])
    for a in arrays:
        a.attach_grad()
        a.grad[:] = 7
    with mx.autograd.record():
        y = C.Proposal(*arrays, **SMALL) * 2
    y.backward()
    assert not any(a.grad.asnumpy().any() for a in arrays)


def test_half_precision_is_computed_in_single():
    arrays = [x.astype("float16") for x in inputs(1, 4, (6, 8), [[24, 32, 1]])]
    half = C.Proposal(*arrays, **SMALL)
    assert half.dtype == np.float16
    single = C.Proposal(*(x.astype("float32") for x in arrays), **SMALL)
    np.testing.assert_array_equal(half.asnumpy(), single.asnumpy().astype("float16"))


def test_refusal_names_image_and_maps():
    arrays = inputs(1, 4, (6, 8), [[28, 32, 1]])
    text = r"'_contrib_Proposal': image 0 of 28 x 32 pixels has 7 x 8 cells at feature_stride=4, but cls_prob"
    with pytest.raises(mx.MXNetError, match=text):
        C.Proposal(*arrays, **SMALL).asnumpy()
    with pytest.raises(ValueError, match="cls_prob must be of one image; MultiProposal takes several"):
        C.Proposal(*inputs(2, 4, (6, 8), [[24, 30, 1], [15, 32, 1.5]]), **SMALL)
