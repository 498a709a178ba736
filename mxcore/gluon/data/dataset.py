"""Datasets: anything with ``dataset[i]`` and ``len(dataset)``, and the ways to derive one from another."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ndarray as nd
from .sampler import FilterSampler, Sampler, SequentialSampler

__all__ = ["Dataset", "SimpleDataset", "ArrayDataset"]


class Dataset:
    """Base of the datasets; a subclass gives ``__getitem__`` and ``__len__``."""

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """Return the dataset of the samples for which ``fn(sample)`` is true; reads every sample once, now."""
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return part `index` of `num_shards` consecutive parts whose lengths differ by at most one."""
        if not 0 <= index < num_shards:
            raise AssertionError(f"Shard index out of bounds: {index} out of {num_shards}")
        length, rest = divmod(len(self), num_shards)
        start = length * index + min(index, rest)
        return _SampledDataset(self, SequentialSampler(length + (index < rest), start))

    def take(self, count: int | None) -> Dataset:
        """Return the dataset of the first `count` samples, of all if None."""
        if count is None or count > len(self):
            count = len(self)
        return _SampledDataset(self, SequentialSampler(count))

    def sample(self, sampler: Sampler) -> Dataset:
        """Return the dataset of the samples that `sampler` picks, in its order, drawn once, now."""
        if not isinstance(sampler, Sampler):
            raise TypeError(f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler instead.")
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return the dataset of ``fn(sample)``, or ``fn(*sample)`` for a sample that is a tuple.

        Parameters
        ----------
        fn : callable
            The transformation.
        lazy : bool
            Transform at each access, or everything now.
        """
        transformed = _LazyTransformDataset(self, fn)
        return transformed if lazy else SimpleDataset([transformed[i] for i in range(len(transformed))])

    def transform_first(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return the dataset with the first element of each sample, usually the input, replaced by ``fn`` of it."""
        return self.transform(_TransformFirstClosure(fn), lazy)


class SimpleDataset(Dataset):
    """A list, or anything else that can be indexed, as a dataset.

    Parameters
    ----------
    data : sequence
        The samples.

    Examples
    --------
    >>> data = SimpleDataset([1, 2, 3]).transform(lambda x: 10 * x)
    >>> data[2], len(data.filter(lambda x: x > 10))
    (30, 2)
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]


class _LazyTransformDataset(Dataset):
    def __init__(self, data: Any, fn: Callable[..., Any]) -> None:
        self._data = data
        self._fn = fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class _TransformFirstClosure:
    """A class, not a closure, so that it can be pickled."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def __call__(self, x: Any, *args: Any) -> Any:
        return (self._fn(x), *args) if args else self._fn(x)


class _SampledDataset(Dataset):
    def __init__(self, dataset: Any, sampler: Sampler) -> None:
        self._dataset = dataset
        self._sampler = sampler
        self._indices = list(iter(sampler))

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: Any) -> Any:
        return self._dataset[self._indices[idx]]


class ArrayDataset(Dataset):
    """One or several arrays of the same length; sample `i` is the tuple of their elements `i`.

    Parameters
    ----------
    *args : NDArray, numpy.ndarray, list or Dataset
        The arrays. With a single one, samples are its elements, not tuples.

    Examples
    --------
    >>> import numpy as np
    >>> data = ArrayDataset(np.arange(6).reshape(3, 2), [10, 20, 30])
    >>> data[1][0].tolist(), data[1][1], len(data)
    ([2, 3], 20, 3)
    """

    def __init__(self, *args: Any) -> None:
        if not args:
            raise AssertionError("Needs at least 1 arrays")
        self._length = len(args[0])
        self._data: list[Any] = []
        for i, data in enumerate(args):
            if len(data) != self._length:
                raise AssertionError(
                    f"All arrays must have the same length; array[0] has length {self._length} "
                    f"while array[{i}] has {len(data)}."
                )
            if isinstance(data, nd.NDArray) and len(data.shape) == 1:
                data = data.asnumpy()  # labels: elements are to be numbers, not arrays of one
            self._data.append(data)

    def __getitem__(self, idx: Any) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length

    def _take_rows(self, indices: list[Any]) -> list[Any] | None:
        """Return for each array the batch of its rows `indices`, or None if that takes sample by sample.

        The values are what stacking the samples gives, at a fraction of the time.
        """
        rows = np.asarray(indices)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.size == 0:
            return None
        if rows.min() < -self._length or rows.max() >= self._length:
            return None
        batches = []
        for data in self._data:
            if type(data) is np.ndarray and data.dtype.kind in "biuf":
                part = data[rows]
                batches.append(nd.array(part, dtype=part.dtype))
            elif type(data) is nd.NDArray and data.stype == "default":
                batches.append(nd.take(data, nd.array(rows % self._length, ctx=data.context, dtype="int64")))
            else:
                return None
        return batches


class _DownloadedDataset(Dataset):
    """Base of the datasets that come as files in a folder; ``_get_data`` sets ``_data`` and ``_label``.

    Parameters
    ----------
    root : str
        The folder.
    transform : callable or None
        ``transform(data, label)`` of each sample.
    """

    def __init__(self, root: str, transform: Callable[..., Any] | None) -> None:
        self._transform = transform
        self._data: Any = None
        self._label: Any = None
        self._root = os.path.expanduser(root)
        self._get_data()

    def __getitem__(self, idx: Any) -> Any:
        if self._transform is not None:
            return self._transform(self._data[idx], self._label[idx])
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)

    def _get_data(self) -> None:
        raise NotImplementedError
