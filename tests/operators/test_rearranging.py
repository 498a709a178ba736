"""Reductions, shape, indexing and ordering operators: what the records' samples are too small or too plain to show.

Facts marked "as MXNet" were observed with MXNet 1.9.1.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mxcore as mx
from mxcore.operators.shape import reshaped
from mxcore.oplib.kernels import indexing, ordering
from mxcore.spec import DTypeError, OperatorError, ParameterError, ShapeError

nd = mx.nd


def rows_of(x):
    return x.asnumpy().tolist()


# ---------------------------------------------------------------------------------------------------------------
# Reductions


SHAPES = [(70, 90), (8, 16, 40), (5, 7, 11, 13), (3, 20000), (40000,), (20000, 3), (2, 3, 4, 5, 60)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_large_sums_are_as_exact_as_they_can_be(shape, dtype):
    values = np.random.default_rng(1).uniform(0, 1, shape).astype(dtype)
    x = nd.array(values, dtype=dtype)
    eps = np.finfo(dtype).eps
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            for keepdims in (False, True):
                want = values.astype(np.float64).mean(axes, keepdims=keepdims)
                got = nd.mean(x, axis=axes, keepdims=keepdims)
                assert got.shape == (want.shape or (1,)) and got.dtype == np.dtype(dtype)
                np.testing.assert_allclose(got.asnumpy().reshape(want.shape), want, rtol=64 * eps)


def test_sum_of_a_view_that_is_not_contiguous():
    values = np.random.default_rng(2).standard_normal((90, 80)).astype("float32")
    np.testing.assert_allclose(nd.sum(nd.array(values).T, axis=1).asnumpy(), values.sum(0), rtol=1e-4, atol=1e-4)


def test_infinity_and_nan_pass_through_large_sums():
    values = np.ones((80, 90), "float32")
    values[3, 4] = np.inf
    values[5, 6] = np.nan
    got = nd.sum(nd.array(values), axis=1).asnumpy()
    assert np.isinf(got[3]) and np.isnan(got[5]) and got[0] == 90
    assert np.isnan(nd.sum(nd.array(values)).asscalar())


def test_float16_is_accumulated_in_float32():
    x = nd.array(np.full(70000, 1.0), dtype="float16")
    assert nd.mean(x).asscalar() == 1.0
    assert nd.norm(x).asscalar() == np.float16(np.sqrt(70000))
    assert nd.sum(nd.array(np.full(4001, 1.0), dtype="float16")).asscalar() == np.float16(4001)


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "int64"])
def test_integers_stay_integers(dtype):
    x = nd.array([[1, 2], [3, 5]], dtype=dtype)
    for fn, want in ((nd.sum, [3, 8]), (nd.mean, [1, 4]), (nd.prod, [2, 15]), (nd.nansum, [3, 8]), (nd.max, [2, 5])):
        got = fn(x, axis=1)
        assert got.dtype == np.dtype(dtype) and got.asnumpy().tolist() == want
    got = nd.argmax(x, axis=1)
    assert got.dtype == np.dtype(dtype) and got.asnumpy().tolist() == [1, 1]
    assert nd.norm(x).asnumpy().tolist() == [6]


def test_int8_sums_wrap_as_mxnet():
    assert nd.sum(nd.array([[100, 100], [3, 4]], dtype="int8")).asnumpy().tolist() == [-49]


def test_means_of_negative_integers_are_cut_off_as_mxnet():
    assert nd.mean(nd.array([-3, 0], dtype="int32")).asnumpy().tolist() == [-1]


def test_extrema_and_nan():
    x = nd.array([1, np.nan, 3])
    assert np.isnan(nd.max(x).asscalar()) and np.isnan(nd.min(x).asscalar())
    assert nd.argmax(x).asscalar() == 1


def test_equal_extrema_each_get_the_gradient_as_mxnet():
    x = nd.array([3, 3, 1])
    x.attach_grad()
    with mx.autograd.record():
        y = nd.max(x)
    y.backward()
    assert rows_of(x.grad) == [1, 1, 0]


def test_gradient_of_one_of_the_two_moments():
    x = nd.array([[3, 1, 2]])
    x.attach_grad()
    with mx.autograd.record():
        y = nd.moments(x, axes=(0, 1))[1]
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), [[2 / 3, -2 / 3, 0]], rtol=1e-6)


def test_methods():
    x = nd.array([[1, 2], [3, 4]])
    assert rows_of(x.sum(axis=0)) == [4, 6] and x.mean().shape == (1,) and rows_of(x.max(1)) == [2, 4]


# ---------------------------------------------------------------------------------------------------------------
# Shapes


@pytest.mark.parametrize(
    "shape,spec,want",
    [
        ((2, 3, 4), (4, 0, 2), (4, 3, 2)),
        ((2, 3, 4), (-3, 4), (6, 4)),
        ((2, 3, 4), (2, -3), (2, 12)),
        ((2, 3, 4), (-4, 1, 2, -2), (1, 2, 3, 4)),
        ((2, 3, 4), (-4, -1, 2, -2), (1, 2, 3, 4)),
        ((2, 3, 4), (0, -4, 3, -1, -2), (2, 3, 1, 4)),
        ((2, 3, 4), (0, -2, 1, 1), (2, 3, 4, 1, 1)),
        ((2, 3, 4), (-1,), (24,)),
        ((0, 3), (-1,), (0,)),
        ((1,), (1, 1), (1, 1)),
    ],
)
def test_reshape_codes_as_mxnet(shape, spec, want):
    assert reshaped(shape, spec) == want
    assert nd.zeros(shape).reshape(spec).shape == want
    assert nd.reshape(nd.zeros(shape), shape=spec).shape == want


def test_reshape_to_another_number_of_elements_is_refused():
    # MXNet promises a shape here that its data do not have.
    for spec in ((6, -2), (5, 5)):
        with pytest.raises(ShapeError, match="it has 24 elements, the new shape"):
            nd.zeros((2, 3, 4)).reshape(spec)


def test_reshape_from_the_right_as_mxnet():
    assert reshaped((10, 5, 4), (-1, 0), True) == (50, 4)
    assert reshaped((10, 5, 4), (-1, 0)) == (40, 5)
    assert nd.zeros((10, 5, 4)).reshape((-1, 0), reverse=True).shape == (50, 4)


def test_old_target_shape():
    x = nd.zeros((2, 3, 4))
    assert nd.Reshape(x, target_shape=(2, 0)).shape == (2, 12)
    assert nd.Reshape(x, target_shape=(5, 0), keep_highest=True).shape == (2, 12)
    with pytest.raises(ShapeError, match="more than one 0"):
        nd.Reshape(x, target_shape=(0, 0))


def test_reshape_copies_and_ndarray_reshape_views():
    x = nd.zeros((2, 3))
    y, z = nd.reshape(x, shape=(6,)), x.reshape((6,))
    x[:] = 1
    assert y.asnumpy().sum() == 0 and z.asnumpy().sum() == 6


@pytest.mark.parametrize("shape", [(300, 200), (64, 64), (5000, 2), (2, 5000), (17, 333)])
def test_large_transposes(shape):
    values = np.random.default_rng(0).standard_normal(shape).astype("float32")
    x = nd.array(values)
    for y in (nd.transpose(x), nd.transpose(x, axes=(1, 0)), nd.transpose(x, axes=(-1, 0)), nd.swapaxes(x, 0, 1), x.T):
        np.testing.assert_array_equal(y.asnumpy(), values.T)
    for y in (nd.transpose(x, axes=(0, 1)), nd.swapaxes(x, 1, -1)):
        np.testing.assert_array_equal(y.asnumpy(), values)


def test_slices_may_be_empty():
    x = nd.zeros((2, 3))
    assert nd.slice(x, begin=(1,), end=(1,)).shape == (0, 3)
    assert nd.slice_axis(x, axis=1, begin=2, end=2).shape == (2, 0)


def test_one_part_is_no_list():
    assert nd.split(nd.zeros((2, 3)), num_outputs=1).shape == (2, 3)
    assert isinstance(nd.split(nd.zeros((2, 4)), num_outputs=2), list)


def test_gradient_through_some_of_the_parts():
    x = nd.array(np.arange(6).reshape(2, 3))
    x.attach_grad()
    with mx.autograd.record():
        y = nd.split(x, num_outputs=3, squeeze_axis=True)[1] * 2
    y.backward()
    assert rows_of(x.grad) == [[0, 2, 0], [0, 2, 0]]


def test_concat_takes_a_list_and_num_args():
    a, b = nd.ones((2, 1)), nd.zeros((2, 2))
    assert nd.concat([a, b]).shape == (2, 3) == nd.Concat(a, b, num_args=2, dim=1).shape
    with pytest.raises(DTypeError, match="one dtype"):
        nd.concat(a, b.astype("int32"))


# ---------------------------------------------------------------------------------------------------------------
# Positions


@pytest.mark.parametrize("width", [1, 3, 15, 16, 40])
@pytest.mark.parametrize("rows", ["few", "many", "all_equal", "distinct"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_adding_rows(width, rows, dtype):
    rng = np.random.default_rng(5)
    n = 50
    where = {
        "few": rng.integers(0, n, 7),
        "many": rng.integers(0, 5, 400),
        "all_equal": np.full(30, 3),
        "distinct": rng.permutation(n),
    }[rows].astype(np.int64)
    g = rng.integers(-4, 5, (len(where), width)).astype(dtype)
    want = np.zeros((n, width))
    np.add.at(want, where, g.astype(np.float64))
    got = indexing.add_rows(np, (n, width), n, where, g)
    assert got.dtype == g.dtype and got.base is None
    np.testing.assert_array_equal(got, want)


def test_adding_no_rows():
    assert indexing.add_rows(np, (3, 20), 3, np.empty(0, np.int64), np.empty((0, 20))).sum() == 0


def test_embedding_gradient_adds_up():
    w = nd.array(np.arange(60).reshape(3, 20))
    w.attach_grad()
    with mx.autograd.record():
        y = nd.Embedding(nd.array([0, 0, 5]), w, input_dim=3, output_dim=20)
    y.backward()
    assert w.grad.asnumpy()[:, 0].tolist() == [2, 0, 1]


def test_take_modes_as_mxnet():
    x = nd.array([[0, 1], [2, 3], [4, 5]])
    assert rows_of(nd.take(x, nd.array([-1, 0, 5]))) == [[0, 1], [0, 1], [4, 5]]
    assert rows_of(nd.take(x, nd.array([-1, 0, 5]), mode="wrap")) == [[4, 5], [0, 1], [4, 5]]
    for bad in (-1, 3):
        with pytest.raises(OperatorError, match=f"position {bad} is out of bounds for axis 0 with length 3"):
            nd.take(x, nd.array([bad]), mode="raise").wait_to_read()


def test_gather_nd_counts_from_the_end_and_checks():
    x = nd.array([[0, 1], [2, 3]])
    assert rows_of(nd.gather_nd(x, nd.array([[-1, 0], [0, -1]]))) == [2, 1]
    for kind in (IndexError, OperatorError):
        with pytest.raises(kind, match="position -3 is out of bounds for axis 0"):
            nd.gather_nd(x, nd.array([[-3, 0]])).wait_to_read()


def test_one_hot_ignores_positions_outside():
    got = nd.one_hot(nd.array([[0, 2], [5, -1]]), 3, on_value=8, off_value=1, dtype="int32")
    assert got.dtype == np.int32
    assert rows_of(got) == [[[8, 1, 1], [1, 1, 8]], [[1, 1, 1], [1, 1, 1]]]


def test_boolean_mask_may_keep_nothing():
    x = nd.ones((2, 3))
    x.attach_grad()
    with mx.autograd.record():
        y = nd.contrib.boolean_mask(x, nd.zeros(2))
    assert y.shape == (0, 3)
    y.backward()
    assert x.grad.asnumpy().sum() == 0


def test_pick_like_a_loss():
    x = nd.array([[0.1, 0.2], [0.3, 0.4]])
    x.attach_grad()
    with mx.autograd.record():
        y = -nd.pick(nd.log(x), nd.array([1, 0]), axis=-1, keepdims=True)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), [[0, -5], [-1 / 0.3, 0]], rtol=1e-5)


def test_index_results_can_index():
    x = nd.array([[3, 1, 2], [4, 6, 5]])
    order = nd.argsort(x, axis=1)
    assert rows_of(nd.batch_take(x, order[:, 0].astype("int32"))) == [1, 4]


# ---------------------------------------------------------------------------------------------------------------
# Order


def full_order(x, axis, is_ascend):
    return ordering.positions(np, x, axis, is_ascend)


@pytest.mark.parametrize("is_ascend", [True, False])
@pytest.mark.parametrize("k", [1, 3, 8, 9, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
def test_topk_is_the_head_of_the_full_order(k, dtype, is_ascend):
    # Many ties, so that any difference in the order of equal elements shows.
    x = np.random.default_rng(k).integers(0, 30, (4, 700, 2)).astype(dtype)
    got = ordering.best(np, x, 1, k, is_ascend)
    np.testing.assert_array_equal(got, full_order(x, 1, is_ascend)[:, :k])


@pytest.mark.parametrize("is_ascend", [True, False])
@pytest.mark.parametrize("k", [2, 20])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_topk_with_special_values(special, k, is_ascend):
    x = np.random.default_rng(0).standard_normal((3, 300)).astype("float32")
    x[1, 100:] = special
    x[2, 7] = special
    np.testing.assert_array_equal(ordering.best(np, x, 1, k, is_ascend), full_order(x, 1, is_ascend)[:, :k])


def test_ties_keep_their_order_both_ways_as_mxnet():
    x = nd.array([1, 1, 2, 2, 1])
    assert rows_of(nd.argsort(x, is_ascend=False)) == [2, 3, 0, 1, 4]
    assert rows_of(nd.argsort(x)) == [0, 1, 4, 2, 3]


def test_topk_all_and_too_many():
    x = nd.array([[3, 1, 2]])
    assert rows_of(nd.topk(x, k=0)) == [[0, 2, 1]] == rows_of(nd.topk(x, k=-1))
    with pytest.raises(ParameterError, match="k=4 exceeds the 3 elements"):
        nd.topk(x, k=4)


def test_gradients_go_to_the_chosen_elements():
    x = nd.array([[3, 1, 2], [0, 5, 4]])
    x.attach_grad()
    for ret_typ in ("value", "both"):
        with mx.autograd.record():
            y = nd.topk(x, k=2, ret_typ=ret_typ)
            y = y[0] if ret_typ == "both" else y
        y.backward(nd.array([[1, 2], [3, 4]]))
        assert rows_of(x.grad) == [[1, 0, 2], [0, 3, 4]]
    with mx.autograd.record():
        y = nd.sort(x, axis=1, is_ascend=False)
    y.backward(nd.array([[1, 2, 3], [4, 5, 6]]))
    assert rows_of(x.grad) == [[1, 3, 2], [6, 4, 5]]
