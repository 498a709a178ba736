"""Samplers and datasets."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import mxcore as mx
from mxcore.gluon import data


def test_sequential_and_random():
    assert list(data.SequentialSampler(3, 4)) == [4, 5, 6]
    sampler = data.RandomSampler(50)
    first, second = list(sampler), list(sampler)
    assert sorted(first) == list(range(50)) == sorted(second) and first != second


def test_random_order_follows_numpys_seed():
    np.random.seed(5)
    first = list(data.RandomSampler(20))
    np.random.seed(5)
    assert list(data.RandomSampler(20)) == first


@pytest.mark.parametrize("last, lists, length", [("keep", 4, 4), ("discard", 3, 3)])
def test_batches(last, lists, length):
    sampler = data.BatchSampler(data.SequentialSampler(10), 3, last)
    assert len(list(sampler)) == lists and len(sampler) == length
    assert next(iter(sampler)) == [0, 1, 2]


def test_rollover_carries_the_rest_into_the_next_epoch():
    sampler = data.BatchSampler(data.SequentialSampler(5), 3, "rollover")
    assert len(sampler) == 1 and list(sampler) == [[0, 1, 2]]
    assert len(sampler) == 2 and list(sampler) == [[3, 4, 0], [1, 2, 3]]
    assert list(sampler) == [[4, 0, 1], [2, 3, 4]]


def test_unknown_last_batch_is_refused():
    sampler = data.BatchSampler(data.SequentialSampler(4), 3, "drop")
    with pytest.raises(ValueError, match="must be one of 'keep', 'discard', or 'rollover', but got drop"):
        list(sampler)
    with pytest.raises(ValueError, match="but got drop"):
        len(sampler)


def test_interval_and_filter():
    assert list(data.IntervalSampler(13, 3)) == [0, 3, 6, 9, 12, 1, 4, 7, 10, 2, 5, 8, 11]
    with pytest.raises(AssertionError, match="Interval 4 must be smaller than or equal to length 3"):
        data.IntervalSampler(3, 4)
    sampler = data.FilterSampler(lambda x: x % 2, data.SimpleDataset([1, 2, 3, 4]))
    assert list(sampler) == [0, 2] and len(sampler) == 2


def test_array_dataset_gives_numbers_for_label_vectors():
    dataset = data.ArrayDataset(mx.nd.ones((3, 2)), mx.nd.array([7, 8, 9]))
    image, label = dataset[1]
    assert image.shape == (2,) and float(label) == 8 and not isinstance(label, mx.nd.NDArray)
    assert len(dataset) == 3
    alone = data.ArrayDataset(np.arange(4))
    assert alone[2] == 2


def test_array_dataset_refuses_different_lengths():
    with pytest.raises(AssertionError, match=r"array\[0\] has length 3 while array\[1\] has 2"):
        data.ArrayDataset([1, 2, 3], [1, 2])
    with pytest.raises(AssertionError, match="Needs at least 1 arrays"):
        data.ArrayDataset()


def test_transforms_lazy_and_now():
    calls = []

    def double(x, y):
        calls.append(x)
        return 2 * x, y

    lazy = data.ArrayDataset([1, 2], [3, 4]).transform(double)
    assert calls == [] and lazy[1] == (4, 4) and lazy[1] == (4, 4) and calls == [2, 2]
    now = data.ArrayDataset([1, 2], [3, 4]).transform(double, lazy=False)
    assert calls == [2, 2, 1, 2]
    assert now[0] == (2, 3) and len(calls) == 4


def test_transform_first_leaves_the_label():
    dataset = data.ArrayDataset([1, 2], [3, 4]).transform_first(lambda x: -x)
    assert dataset[1] == (-2, 4)
    assert data.SimpleDataset([5]).transform_first(lambda x: -x)[0] == -5


def test_filter_shard_take_sample():
    numbers = data.SimpleDataset(list(range(9)))
    assert list(numbers.filter(lambda x: x > 6)) == [7, 8]
    shards = [list(numbers.shard(4, i)) for i in range(4)]
    assert shards == [[0, 1, 2], [3, 4], [5, 6], [7, 8]]
    assert list(numbers.take(2)) == [0, 1] and len(numbers.take(None)) == 9 == len(numbers.take(100))
    assert list(numbers.sample(data.SequentialSampler(2, 5))) == [5, 6]
    with pytest.raises(TypeError, match="Invalid sampler type"):
        numbers.sample([1, 2])
    with pytest.raises(AssertionError, match="Shard index out of bounds: 4 out of 4"):
        numbers.shard(4, 4)


def test_datasets_can_be_pickled():
    dataset = pickle.loads(pickle.dumps(data.ArrayDataset(np.arange(3), [1, 2, 3]).transform_first(np.negative)))
    assert dataset[2] == (-2, 3)
