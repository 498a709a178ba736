"""Samplers: iterables of indices into a dataset, in the order in which they are to be loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["Sampler", "SequentialSampler", "RandomSampler", "FilterSampler", "BatchSampler", "IntervalSampler"]

LAST_BATCH = ("keep", "discard", "rollover")


class Sampler:
    """Base of the samplers: iterable, with a length."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class SequentialSampler(Sampler):
    """``start, start + 1, ..., start + length - 1``.

    Parameters
    ----------
    length : int
        Number of indices.
    start : int
        The first index.

    Examples
    --------
    >>> list(SequentialSampler(3, start=2))
    [2, 3, 4]
    """

    def __init__(self, length: int, start: int = 0) -> None:
        self._length = length
        self._start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """``0 .. length - 1`` in a new random order at each iteration, drawn from ``numpy.random``.

    Parameters
    ----------
    length : int
        Number of indices.
    """

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[Any]:
        indices = np.arange(self._length)
        np.random.shuffle(indices)
        return iter(indices)

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """Indices of the samples for which `fn` is true; every sample is read once, here.

    Parameters
    ----------
    fn : callable
        From a sample to a truth value.
    dataset : Dataset
        What to look through.
    """

    def __init__(self, fn: Callable[[Any], Any], dataset: Any) -> None:
        self._fn = fn
        self._dataset = dataset
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Lists of `batch_size` indices from another sampler.

    Parameters
    ----------
    sampler : Sampler
        Where the indices come from.
    batch_size : int
        Length of a list.
    last_batch : {'keep', 'discard', 'rollover'}
        What becomes of a last list that is shorter: it is given, dropped, or starts the next iteration.

    Examples
    --------
    >>> batches = BatchSampler(SequentialSampler(10), 3, "keep")
    >>> list(batches), len(batches)
    ([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]], 4)
    """

    def __init__(self, sampler: Any, batch_size: int, last_batch: str = "keep") -> None:
        self._sampler = sampler
        self._batch_size = batch_size
        self._last_batch = last_batch
        self._prev: list[Any] = []

    def _unknown(self) -> ValueError:
        return ValueError(f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {self._last_batch}")

    def __iter__(self) -> Iterator[list[Any]]:
        batch, self._prev = self._prev, []
        for i in self._sampler:
            batch.append(i)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch:
            if self._last_batch == "keep":
                yield batch
            elif self._last_batch == "rollover":
                self._prev = batch
            elif self._last_batch != "discard":
                raise self._unknown()

    def __len__(self) -> int:
        total = len(self._sampler)
        if self._last_batch == "keep":
            return (total + self._batch_size - 1) // self._batch_size
        if self._last_batch == "discard":
            return total // self._batch_size
        if self._last_batch == "rollover":
            return (len(self._prev) + total) // self._batch_size
        raise self._unknown()


class IntervalSampler(Sampler):
    """Every `interval`-th index; MXNet has it in ``gluon.contrib.data``.

    Parameters
    ----------
    length : int
        Indices are below it.
    interval : int
        Distance of two indices.
    rollover : bool
        Start again from the first index left out, until all are given.

    Examples
    --------
    >>> list(IntervalSampler(7, interval=3))
    [0, 3, 6, 1, 4, 2, 5]
    >>> list(IntervalSampler(7, interval=3, rollover=False))
    [0, 3, 6]
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        if interval > length:
            raise AssertionError(f"Interval {interval} must be smaller than or equal to length {length}")
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length
