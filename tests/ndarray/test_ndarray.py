"""NDArray: creation, indexing against NumPy, views, in-place work, conversion, refusals."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import mxcore as mx
from mxcore import nd
from mxcore.spec import DTypeError, MXCoreError, OperatorError, ShapeError


def test_creation_and_dtypes():
    assert nd.array([1, 2]).dtype is np.float32
    assert nd.array(np.array([1, 2], "int64")).dtype is np.float32
    assert nd.array([1, 2], dtype="int32").dtype is np.int32
    assert nd.array(nd.array([1, 2], dtype="uint8")).dtype is np.uint8
    assert nd.zeros(3).shape == (3,)
    assert nd.full((2, 2), 7).asnumpy().tolist() == [[7, 7], [7, 7]]
    assert nd.arange(0, 10, 3).asnumpy().tolist() == [0, 3, 6, 9]
    assert nd.arange(3, repeat=2).asnumpy().tolist() == [0, 0, 1, 1, 2, 2]
    assert nd.eye(2, 3, 1).asnumpy().tolist() == [[0, 1, 0], [0, 0, 1]]
    assert nd.empty((2, 0)).shape == (2, 0)
    with pytest.raises(TypeError, match="must be an array of numbers"):
        nd.array(["a", "b"])
    with pytest.raises(TypeError, match="made by mx.nd.array"):
        nd.NDArray(object())


def test_repr():
    assert repr(nd.array([[1, 2]])) == "\n[[1. 2.]]\n<NDArray 1x2 @cpu(0)>"


def keys(shape):
    basic = [
        0,
        -1,
        slice(None),
        slice(1, None),
        slice(None, None, 2),
        slice(None, None, -1),
        slice(2, 0, -1),
        Ellipsis,
        None,
    ]
    arrays = [[0, 1], np.array([[1, 0], [0, 1]]), nd.array([1, 0])]
    yield from basic + arrays
    for pair in itertools.product(basic, basic):
        if sum(k is Ellipsis for k in pair) < 2:
            yield pair
    for a in arrays:
        yield (a, slice(1, 3))
        yield (slice(None), a)
        yield (0, a)
        yield (a, a)
        yield (a, None, 0)
    yield np.arange(np.prod(shape)).reshape(shape) % 2 == 0
    yield np.array([True, False, True][: shape[0]])


def as_numpy(key):
    if isinstance(key, tuple):
        return tuple(as_numpy(k) for k in key)
    if isinstance(key, nd.NDArray):
        return key.asnumpy().astype(int)
    return key


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_getitem_and_setitem_as_numpy(shape):
    source = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    for key in keys(shape):
        want = source[as_numpy(key)]
        x = nd.array(source)
        got = x[key]
        assert got.shape == (want.shape or (1,)), f"x[{key}]"
        np.testing.assert_array_equal(got.asnumpy().reshape(want.shape), want, err_msg=f"x[{key}]")
        changed = source.copy()
        changed[as_numpy(key)] = -7
        x[key] = -7
        np.testing.assert_array_equal(x.asnumpy(), changed, err_msg=f"x[{key}] = number")
        if want.size:
            x, changed = nd.array(source), source.copy()
            value = np.arange(want.size, dtype="float32").reshape(want.shape) + 100
            changed[as_numpy(key)] = value
            x[key] = nd.array(value) if value.shape else float(value)
            np.testing.assert_array_equal(x.asnumpy(), changed, err_msg=f"x[{key}] = array")


def test_views_write_through_where_mxnet_has_views():
    x = nd.zeros((4, 3))
    x[1:3][:] = 1
    x[0][:] = 2
    x[3, 1:][:] = 3
    x.reshape((2, 6))[0, 5] = 9
    np.testing.assert_array_equal(x.asnumpy(), [[2, 2, 2], [1, 1, 9], [1, 1, 1], [0, 3, 3]])
    for key in ((slice(None), 0), slice(None, None, 2), slice(None, None, -1), [0, 1]):
        before = x.asnumpy()
        x[key][:] = -1
        np.testing.assert_array_equal(x.asnumpy(), before, err_msg=f"x[{key}] is a copy")


def test_index_errors():
    x = nd.zeros((2, 3))
    with pytest.raises(IndexError, match="index 2 is out of bounds for axis 0 with size 2"):
        x[2]
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 1 with size 3"):
        x[0, 5]
    with pytest.raises(IndexError, match="too many indices: the array has 2 axes but 3 were indexed"):
        x[0, 0, 0]
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 2"):
        x[nd.array([0, 7])]
    with pytest.raises(IndexError, match="boolean index must match"):
        x[np.array([True, False, True])]
    with pytest.raises(IndexError, match="not str"):
        x["a"]
    with pytest.raises(ShapeError, match=r"cannot assign a value of shape \(4,\) to a selection of shape \(2, 3\)"):
        x[:] = nd.zeros(4)
    np.testing.assert_array_equal(x.asnumpy(), np.zeros((2, 3)))


def test_arithmetic_keeps_dtype_and_refuses_mixtures():
    i = nd.array([1, 2, 4], dtype="int32")
    assert (i + 1.5).asnumpy().tolist() == [2, 3, 5] and (i / 2).asnumpy().tolist() == [0, 1, 2]
    assert (i**0.5).asnumpy().tolist() == [1, 1, 2] or (i**0.5).dtype is np.int32
    with pytest.raises(DTypeError) as e:
        i + nd.ones(3)
    text = str(e.value)
    assert "'broadcast_add'" in text and "int32 (3,)" in text and "float32 (3,)" in text
    with pytest.raises(ShapeError, match=r"'broadcast_add': shapes \(3,\) and \(2,\) cannot be broadcast"):
        nd.ones(3) + nd.ones(2)
    for bad in (np.ones(3), [1, 2, 3], "a", None):
        with pytest.raises(TypeError, match="not supported"):
            nd.ones(3) + bad
    with pytest.raises(TypeError):
        np.ones(3) + nd.ones(3)
    with pytest.raises(OperatorError, match=r"must be on one device, but input 1 is on cpu\(1\)"):
        nd.ones(3) + nd.ones(3, ctx=mx.cpu(1))


def test_division_by_zero_and_overflow_are_silent():
    x = nd.array([1.0, -1.0, 0.0])
    np.testing.assert_array_equal((x / 0).asnumpy(), [np.inf, -np.inf, np.nan])
    assert np.isinf(nd.exp(nd.array([1000.0])).asscalar())
    assert (nd.log(nd.zeros(1))).asscalar() == -np.inf


def test_in_place():
    x = nd.array([1.0, 2.0])
    alias = x
    x += 1
    x *= nd.array([2.0, 3.0])
    x -= 1
    x /= 2
    assert alias is x and x.asnumpy().tolist() == [1.5, 4.0]
    with pytest.raises(ShapeError, match="in place"):
        x += nd.ones((3, 2))
    assert x.asnumpy().tolist() == [1.5, 4.0], "a refused operation changes nothing"


def test_out():
    a, out = nd.array([1.0, 2.0]), nd.zeros(2)
    assert nd.broadcast_add(a, a, out=out) is out
    assert out.asnumpy().tolist() == [2, 4]
    with pytest.raises(ShapeError, match=r"out= has shape \(2,\) but the result has \(3,\)"):
        nd.broadcast_add(nd.ones(3), nd.ones(3), out=out)


def test_conversions():
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    assert np.asarray(x).tolist() == [[1, 2], [3, 4]]
    assert float(nd.array([2.5])) == 2.5 and int(nd.array([3])) == 3
    assert [1, 2, 3][nd.array([1], dtype="int32")] == 2
    assert bool(nd.array([1])) and not bool(nd.array([0]))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    with pytest.raises(ValueError, match="not a scalar"):
        x.asscalar()
    values = x.asnumpy()
    values[:] = 0
    assert x.asnumpy().sum() == 10, "asnumpy gives a copy"
    assert [r.asnumpy().tolist() for r in x] == [[1, 2], [3, 4]]
    assert len(x) == 2 and 3 in x and 9 not in x


def test_copies_pickles_contexts():
    x = nd.array([1.0, 2.0], ctx=mx.cpu(1))
    for y in (x.copy(), copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.as_in_context(mx.cpu(0))):
        y[:] = 9
        assert x.asnumpy().tolist() == [1, 2]
    assert pickle.loads(pickle.dumps(x)).context == mx.cpu(1)
    assert x.as_in_context(mx.cpu(1)) is x
    target = nd.zeros(2, dtype="int32")
    assert x.copyto(target) is target and target.asnumpy().tolist() == [1, 2]
    with pytest.raises(ShapeError, match=r"copyto: source has shape \(2,\) but target \(3,\)"):
        x.copyto(nd.zeros(3))
    assert x.astype("float16").dtype is np.float16
    assert x.astype("float32", copy=False) is x


def test_dlpack_both_ways_shares_memory():
    x = nd.array([1.0, 2.0])
    view = np.from_dlpack(x)
    x[:] = 5
    assert view.tolist() == [5, 5]
    y = nd.from_dlpack(nd.to_dlpack_for_read(x))
    assert y.asnumpy().tolist() == [5, 5]
    source = np.array([1.0, 2.0], "float32")
    z = nd.from_numpy(source)
    assert not source.flags.writeable
    z[:] = 3
    assert source.tolist() == [3, 3]


def test_reshape_special_codes():
    x = nd.zeros((2, 3, 4))
    for spec, want in (
        ((4, 6), (4, 6)),
        ((0, -1), (2, 12)),
        ((-2,), (2, 3, 4)),
        ((-3, 0), (6, 4)),
        ((-4, 1, 2, -2), (1, 2, 3, 4)),
        ((2, -4, -1, 3, 4), (2, 1, 3, 4)),
    ):
        assert x.reshape(spec).shape == want
    assert x.reshape(-1, 0, reverse=True).shape == (6, 4)
    with pytest.raises(MXCoreError):
        x.reshape((5, 5))


def test_negative_zero_is_not_zero():
    one = nd.ones(1)
    for zero, sign in ((0.0, 1), (-0.0, -1), (0.0, 1), (-0.0, -1)):
        for y in (one * zero, nd.multiply(one, zero), nd.multiply(zero, one)):
            assert np.copysign(1, y.asscalar()) == sign
        y = nd.ones(1)
        y *= zero
        assert np.copysign(1, y.asscalar()) == sign
        assert (one / zero).asscalar() == sign * np.inf
