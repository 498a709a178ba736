"""The data loader: batches of a dataset, made here or ahead of time by worker threads.

With ``num_workers > 0`` that many threads read, transform and stack samples while the caller computes; batches come in
the sampler's order whoever made them. Threads share the caller's memory, so that nothing is pickled or copied between
processes. They also share Python's interpreter lock: they help where the work is NumPy's or a file's. MXNet's
``thread_pool=False`` would make processes; here workers are threads for either value.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ... import context
from ... import ndarray as nd
from .dataset import ArrayDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader"]


def default_batchify_fn(data: Any) -> Any:
    """Make one batch of a list of samples.

    Parameters
    ----------
    data : list
        Samples: arrays are stacked; tuples give a list of batches; anything else goes through ``numpy.asarray``.

    Returns
    -------
    NDArray or list of NDArray
        The batch, ``(N, ...)``, on the current context.

    Examples
    --------
    >>> data, label = default_batchify_fn([([1.0, 2.0], 0), ([3.0, 4.0], 1)])
    >>> data.shape, label.asnumpy().tolist()
    ((2, 2), [0, 1])
    """
    first = data[0]
    if isinstance(first, nd.NDArray):
        return nd.stack(*data)
    if isinstance(first, tuple):
        return [default_batchify_fn(column) for column in zip(*data)]
    array = np.asarray(data)
    return nd.array(array, dtype=array.dtype)


# Worker threads share memory with the caller, so their batches need no shared-memory context.
default_mp_batchify_fn = default_batchify_fn


def _as_in_context(data: Any, ctx: Any) -> Any:
    if isinstance(data, nd.NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [_as_in_context(part, ctx) for part in data]
    return data


def _load(dataset: Any, batchify_fn: Callable[[Any], Any], indices: Any) -> Any:
    """Return the batch of `indices`."""
    if batchify_fn is default_batchify_fn and type(dataset) is ArrayDataset:
        batches = dataset._take_rows(indices)
        if batches is not None:
            return batches[0] if len(batches) == 1 else batches
    return batchify_fn([dataset[i] for i in indices])


def _shutdown(executor: Any) -> None:
    executor.shutdown(wait=False, cancel_futures=True)


class _ThreadedIter:
    """Batches made by threads, up to `prefetch` of them ahead of the one asked for."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader  # keeps its threads alive while this iterates
        self._keys = iter(loader._batch_sampler)
        self._pending: deque[Any] = deque()
        self._failed = False
        for _ in range(loader._prefetch):
            self._push_next()

    def _push_next(self) -> None:
        loader = self._loader
        indices = next(self._keys, None)
        if indices is not None:
            self._pending.append(loader._executor.submit(_load, loader._dataset, loader._batchify_fn, indices))

    def __iter__(self) -> _ThreadedIter:
        return self

    def __next__(self) -> Any:
        self._push_next()
        if self._failed or not self._pending:
            raise StopIteration
        future = self._pending.popleft()
        timeout = self._loader._timeout
        try:
            batch = future.result(timeout)
        except BaseException as error:
            self._failed = True
            for other in self._pending:
                other.cancel()
            if isinstance(error, TimeoutError) and not future.done():
                from multiprocessing import TimeoutError as WorkerTimeout

                raise WorkerTimeout(
                    f"DataLoader: a worker did not deliver its batch within {timeout} seconds. "
                    f"Slow transforms need a larger timeout=, or fewer samples per batch."
                ) from error
            raise
        return self._loader._placed(batch)


class DataLoader:
    """Iterate over a dataset in batches.

    Parameters
    ----------
    dataset : Dataset
        Anything with ``dataset[i]`` and ``len(dataset)``.
    batch_size : int, optional
        Samples per batch.
    shuffle : bool
        Draw the samples in random order, a new one for each iteration.
    sampler : Sampler, optional
        Order of the samples; excludes `shuffle`.
    last_batch : {'keep', 'discard', 'rollover'}, optional
        What becomes of a shorter last batch; 'keep' by default.
    batch_sampler : Sampler, optional
        Gives lists of indices; excludes the four arguments before it.
    batchify_fn : callable, optional
        From a list of samples to a batch; :func:`default_batchify_fn` by default.
    num_workers : int
        Number of worker threads; 0 makes batches in the caller.
    pin_memory : bool
        Put batches on ``cpu_pinned(pin_device_id)``.
    pin_device_id : int
        See `pin_memory`.
    prefetch : int, optional
        Number of batches that workers make ahead; ``2 * num_workers`` by default.
    thread_pool : bool
        Accepted for MXNet's interface: workers are threads for either value in this version.
    timeout : int
        Seconds to wait for a worker's batch.
    auto_reload : bool
        Start the next iteration's workers when one iteration ends.

    Raises
    ------
    ValueError
        For arguments that exclude each other, and without a batch size.

    Examples
    --------
    >>> import numpy as np
    >>> loader = DataLoader(ArrayDataset(np.arange(5.0), np.arange(5)), batch_size=2)
    >>> [data.shape for data, label in loader]
    [(2,), (2,), (1,)]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Any = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        if timeout <= 0:
            raise AssertionError(f"timeout must be positive, given {timeout}")
        self._dataset = dataset
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._thread_pool = thread_pool
        self._timeout = timeout
        if batch_sampler is None:
            if batch_size is None:
                raise ValueError("batch_size must be specified unless batch_sampler is specified")
            if sampler is None:
                sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
            elif shuffle:
                raise ValueError("shuffle must not be specified if sampler is specified")
            batch_sampler = BatchSampler(sampler, batch_size, last_batch if last_batch else "keep")
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError(
                "batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is specified."
            )
        self._batch_sampler = batch_sampler
        self._num_workers = max(0, num_workers)
        self._prefetch = max(0, int(prefetch) if prefetch is not None else 2 * self._num_workers)
        self._batchify_fn = default_batchify_fn if batchify_fn is None else batchify_fn
        self._executor: Any = None
        if self._num_workers:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(self._num_workers, thread_name_prefix="mxcore-dataloader")
            weakref.finalize(self, _shutdown, self._executor)
        self._iter: Any = None
        self.auto_reload = auto_reload
        if auto_reload:
            self.refresh()

    def _placed(self, batch: Any) -> Any:
        return _as_in_context(batch, context.cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    def _prefetch_iter(self) -> Iterator[Any]:
        if self._executor is not None:
            return _ThreadedIter(self)
        return (self._placed(_load(self._dataset, self._batchify_fn, indices)) for indices in self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        if self._iter is None:
            self.refresh()
        batches, self._iter = self._iter, None  # one iterator serves one loop
        yield from batches
        if self._iter is None and self.auto_reload:
            self.refresh()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def refresh(self) -> None:
        """Start a new iteration now: workers begin with its batches before they are asked for."""
        self._iter = self._prefetch_iter()

    def clean(self) -> None:
        """Drop an iteration that was started ahead."""
        self._iter = None
