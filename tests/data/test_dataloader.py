"""The data loader: batches, order, workers, arguments, failures."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import weakref

import numpy as np
import pytest

import mxcore as mx
from mxcore.gluon.data import ArrayDataset, BatchSampler, DataLoader, Dataset, SequentialSampler, SimpleDataset
from mxcore.gluon.data import dataloader as implementation


class Squares(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return mx.nd.full((2,), i * i), i


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("thread_pool", [False, True])
def test_batches_come_in_order(workers, thread_pool):
    loader = DataLoader(Squares(), 3, num_workers=workers, thread_pool=thread_pool)
    assert len(loader) == 7
    for _ in range(2):
        batches = list(loader)
        assert [b[0].shape[0] for b in batches] == [3] * 6 + [2]
        labels = np.concatenate([b[1].asnumpy() for b in batches])
        values = np.concatenate([b[0].asnumpy()[:, 1] for b in batches])
        assert labels.tolist() == list(range(20)) and values.tolist() == [i * i for i in range(20)]


def test_dtypes_are_kept():
    dataset = ArrayDataset(np.arange(6, dtype=np.uint8).reshape(3, 2), np.arange(3, dtype=np.int32), np.arange(3.0))
    for workers in (0, 2):
        first = next(iter(DataLoader(dataset, 2, num_workers=workers)))
        assert [np.dtype(a.dtype).name for a in first] == ["uint8", "int32", "float64"]


@pytest.mark.parametrize(
    "arrays",
    [
        (np.random.rand(7, 3),),
        (np.random.rand(7, 3).astype(np.float32), np.arange(7)),
        (mx.nd.array(np.random.rand(7, 2, 2)), mx.nd.arange(7)),
        (mx.nd.array(np.arange(14).reshape(7, 2), dtype="int32"), np.arange(7) > 3),
    ],
)
def test_row_gathering_equals_stacking_samples(arrays):
    dataset = ArrayDataset(*arrays)
    order = [[6, 0, -1], [3, 3], [5]]
    fast = list(DataLoader(dataset, batch_sampler=order))
    slow = list(
        DataLoader(dataset.transform(lambda *sample: sample if len(sample) > 1 else sample[0]), batch_sampler=order)
    )
    for a, b in zip(fast, slow):
        for x, y in zip(a if isinstance(a, list) else [a], b if isinstance(b, list) else [b]):
            assert type(x) is type(y) and x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_array_equal(x.asnumpy(), y.asnumpy())


def test_gathering_leaves_errors_to_the_samples():
    with pytest.raises(IndexError):
        list(DataLoader(ArrayDataset(np.arange(3)), batch_sampler=[[0, 3]]))


def test_shuffle_draws_a_new_order_each_time():
    loader = DataLoader(ArrayDataset(np.arange(100)), 100, shuffle=True)
    first, second = (next(iter(loader)).asnumpy() for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(100)) and (first != second).any()


def test_last_batch_and_batch_sampler():
    numbers = ArrayDataset(np.arange(5))
    assert [b.shape[0] for b in DataLoader(numbers, 2, last_batch="discard")] == [2, 2]
    rolling = DataLoader(numbers, 2, last_batch="rollover")
    assert [b.asnumpy().tolist() for b in rolling] == [[0, 1], [2, 3]]
    assert [b.asnumpy().tolist() for b in rolling] == [[4, 0], [1, 2], [3, 4]]
    sampler = BatchSampler(SequentialSampler(4), 4)
    assert [b.shape for b in DataLoader(numbers, batch_sampler=sampler)] == [(4,)]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "batch_size must be specified unless batch_sampler is specified"),
        ({"batch_size": 1, "shuffle": True, "sampler": [0]}, "shuffle must not be specified if sampler is specified"),
        ({"batch_size": 1, "batch_sampler": [[0]]}, "must not be specified if batch_sampler is specified"),
        ({"last_batch": "keep", "batch_sampler": [[0]]}, "must not be specified if batch_sampler is specified"),
    ],
)
def test_arguments_that_exclude_each_other(arguments, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(), **arguments)


def test_timeout_must_be_positive():
    with pytest.raises(AssertionError, match="timeout must be positive, given 0"):
        DataLoader(Squares(), 1, timeout=0)


def test_default_batchify():
    batch = implementation.default_batchify_fn
    assert batch([1.5, 2.5]).asnumpy().tolist() == [1.5, 2.5]
    assert batch([np.ones((2,), np.int8)] * 3).shape == (3, 2)
    data, (left, right) = batch([(mx.nd.ones((2,)), (1, 2)), (mx.nd.ones((2,)), (3, 4))])
    assert data.shape == (2, 2) and left.asnumpy().tolist() == [1, 3] and right.asnumpy().tolist() == [2, 4]
    assert batch([[1, 2], [3, 4]]).shape == (2, 2)


def test_own_batchify_and_context():
    loader = DataLoader(SimpleDataset([[1], [2, 3]]), 2, batchify_fn=lambda samples: samples, num_workers=1)
    assert list(loader) == [[[1], [2, 3]]]
    assert next(iter(DataLoader(Squares(), 1)))[0].context == mx.cpu()
    assert next(iter(DataLoader(Squares(), 1, pin_memory=True, pin_device_id=1)))[0].context == mx.cpu_pinned(1)


def test_workers_run_ahead_as_far_as_told():
    started = []
    seen = threading.Semaphore(0)

    class Recording(Squares):
        def __getitem__(self, i):
            started.append(i)
            seen.release()
            return i

    batches = iter(DataLoader(Recording(), 1, num_workers=2, prefetch=4))
    assert started == []  # nothing before the first batch is asked for
    next(batches)
    for _ in range(5):
        assert seen.acquire(timeout=10)
    assert sorted(started) == [0, 1, 2, 3, 4]


def test_an_error_in_a_worker_comes_out_with_its_traceback():
    class Broken(Squares):
        def __getitem__(self, i):
            if i == 4:
                raise KeyError("sample 4 is broken")
            return i

    batches = iter(DataLoader(Broken(), 2, num_workers=2))
    assert next(batches).asnumpy().tolist() == [0, 1]
    assert next(batches).asnumpy().tolist() == [2, 3]
    with pytest.raises(KeyError, match="sample 4 is broken") as error:
        next(batches)
    assert any(entry.name == "__getitem__" for entry in error.traceback)
    assert list(batches) == []


def test_a_worker_that_does_not_answer():
    release = threading.Event()

    class Stuck(Squares):
        def __getitem__(self, i):
            release.wait(30)
            return i

    batches = iter(DataLoader(Stuck(), 2, num_workers=1, timeout=0.05))
    with pytest.raises(multiprocessing.TimeoutError, match=r"did not deliver its batch within 0.05 seconds.*timeout="):
        next(batches)
    release.set()


def test_a_timeout_error_of_the_dataset_is_passed_on():
    class Slow(Squares):
        def __getitem__(self, i):
            raise TimeoutError("the disk is slow")

    with pytest.raises(TimeoutError, match="the disk is slow"):
        next(iter(DataLoader(Slow(), 2, num_workers=1)))


def test_iterator_keeps_its_loader_and_workers_alive():
    batches = iter(DataLoader(Squares(), 2, num_workers=1))
    next(batches)
    gc.collect()
    assert len(list(batches)) == 9


def test_workers_end_with_the_loader():
    loader = DataLoader(Squares(), 2, num_workers=3)
    next(iter(loader))
    threads = list(loader._executor._threads)
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_auto_reload_starts_the_next_epoch():
    started = threading.Event()

    class Recording(Squares):
        def __getitem__(self, i):
            started.set()
            return i

    loader = DataLoader(Recording(), 5, num_workers=1, auto_reload=True)
    assert started.wait(10)
    assert len(list(loader)) == 4
    assert loader._iter is not None
    loader.clean()
    assert loader._iter is None
    assert len(list(loader)) == 4
