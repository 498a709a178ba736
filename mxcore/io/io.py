"""Data iterators of the Module interface: batches of named arrays with descriptions of their shapes.

An iterator gives :class:`DataBatch` objects until ``StopIteration``; ``reset`` starts again.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .. import ndarray as nd
from ._files import CSVIter, MNISTIter, MXDataIter
from ._records import DataBatch, DataDesc, DataIter
from .utils import _getdata_by_idx, _init_data, is_h5py_dataset

__all__ = [
    "DataDesc",
    "DataBatch",
    "DataIter",
    "ResizeIter",
    "PrefetchingIter",
    "NDArrayIter",
    "MXDataIter",
    "CSVIter",
    "MNISTIter",
]


class _CurrentBatch(DataIter):
    """Shared part of the iterators that hold the batch of another iterator."""

    current_batch: Any

    def getdata(self) -> Any:
        return self.current_batch.data

    def getlabel(self) -> Any:
        return self.current_batch.label

    def getindex(self) -> Any:
        return self.current_batch.index

    def getpad(self) -> Any:
        return self.current_batch.pad


class ResizeIter(_CurrentBatch):
    """Give exactly `size` batches per epoch of another iterator, starting it again as often as needed.

    Parameters
    ----------
    data_iter : DataIter
        The other iterator.
    size : int
        Batches per epoch.
    reset_internal : bool
        Whether ``reset`` resets the other iterator too.
    """

    def __init__(self, data_iter: Any, size: int, reset_internal: bool = True) -> None:
        super().__init__()
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.current_batch = None
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        self.batch_size = data_iter.batch_size
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True


def _shutdown(executor: Any) -> None:
    executor.shutdown(wait=False, cancel_futures=True)


def _next_or_none(data_iter: Any) -> Any:
    try:
        return data_iter.next()
    except StopIteration:
        return None


class PrefetchingIter(_CurrentBatch):
    """Read the next batch of one or several iterators in threads, and join their arrays into one batch.

    Parameters
    ----------
    iters : DataIter or list of DataIter
        The iterators, of as many batches each.
    rename_data, rename_label : list of dict, optional
        For each iterator, new names by old names.
    """

    def __init__(self, iters: Any, rename_data: Any = None, rename_label: Any = None) -> None:
        from concurrent.futures import ThreadPoolExecutor

        super().__init__()
        self.iters = iters if isinstance(iters, list) else [iters]
        self.n_iter = len(self.iters)
        if not self.n_iter:
            raise AssertionError("PrefetchingIter needs at least one iterator.")
        self.rename_data = rename_data
        self.rename_label = rename_label
        self.batch_size = self.provide_data[0][1][0]
        self.current_batch = None
        self._executor = ThreadPoolExecutor(self.n_iter, thread_name_prefix="mxcore-prefetch")
        weakref.finalize(self, _shutdown, self._executor)
        self._ended = False
        self._fetch()

    def _fetch(self) -> None:
        self._pending = [self._executor.submit(_next_or_none, data_iter) for data_iter in self.iters]

    def _described(self, what: str, renames: Any) -> list[Any]:
        described: list[Any] = []
        for i, data_iter in enumerate(self.iters):
            descs = getattr(data_iter, what)
            if renames is not None:
                descs = [
                    DataDesc(renames[i][x.name], x.shape, x.dtype) if isinstance(x, DataDesc) else DataDesc(*x)
                    for x in descs
                ]
            described += descs
        return described

    @property
    def provide_data(self) -> list[Any]:
        """Descriptions of the data arrays."""
        return self._described("provide_data", self.rename_data)

    @property
    def provide_label(self) -> list[Any]:
        """Descriptions of the label arrays."""
        return self._described("provide_label", self.rename_label)

    def reset(self) -> None:
        for future in self._pending:
            future.exception()  # waits; an error belongs to the epoch that is given up
        for data_iter in self.iters:
            data_iter.reset()
        self._ended = False
        self._fetch()

    def iter_next(self) -> bool:
        if self._ended:
            return False
        batches = [future.result() for future in self._pending]
        first = batches[0]
        if any((batch is None) != (first is None) for batch in batches):
            raise AssertionError("Number of entry mismatches between iterators")
        if first is None:
            self._ended = True
            return False
        if any(batch.pad != first.pad for batch in batches):
            raise AssertionError("Number of entry mismatches between iterators")
        self.current_batch = DataBatch(
            [array for batch in batches for array in batch.data],
            [array for batch in batches for array in batch.label or []],
            first.pad,
            first.index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        self._fetch()
        return True

    def next(self) -> Any:
        if self.iter_next():
            return self.current_batch
        raise StopIteration


class NDArrayIter(DataIter):
    """Batches of arrays in memory.

    Parameters
    ----------
    data : array, list of array or dict of str to array
        NDArrays, NumPy arrays (converted to float32) or HDF5 datasets, with as many rows each.
    label : array, list of array or dict of str to array, optional
        The labels.
    batch_size : int
        Rows per batch.
    shuffle : bool
        Permute the rows at each reset (not those of HDF5 datasets).
    last_batch_handle : {'pad', 'discard', 'roll_over'}
        Fill up the last batch with rows from the start (``DataBatch.pad`` says how many), drop it, or join it with the
        first rows of the next epoch.
    data_name, label_name : str
        Names of arrays given without one.
    layout : str
        Its ``N`` says which axis holds the rows.

    Examples
    --------
    >>> import numpy as np
    >>> batches = NDArrayIter(np.arange(5.0), np.arange(5), batch_size=2)
    >>> [(batch.data[0].asnumpy().tolist(), batch.pad) for batch in batches]
    [([0.0, 1.0], 0), ([2.0, 3.0], 0), ([4.0, 0.0], 1)]
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        self.data = _init_data(data, allow_empty=False, default_name=data_name)
        self.label = _init_data(label, allow_empty=True, default_name=label_name)
        if last_batch_handle != "discard" and any(
            getattr(array, "stype", "default") == "csr" for _, array in self.data + self.label
        ):
            raise NotImplementedError(
                "`NDArrayIter` only supports ``CSRNDArray`` with `last_batch_handle` set to `discard`."
            )
        self.layout = layout
        self._axis = layout.find("N")
        self.idx = np.arange(self.data[0][1].shape[self._axis])
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.num_data = self.idx.shape[0]
        self.cursor = -batch_size
        # The rows left over from an epoch under 'roll_over'.
        self._cache_data: list[Any] | None = None
        self._cache_label: list[Any] | None = None
        self.reset()
        self.data_list = [array for _, array in self.data + self.label]
        self.num_source = len(self.data_list)

    def _described(self, sources: list[tuple[str, Any]]) -> list[DataDesc]:
        axis = self._axis
        return [
            DataDesc(
                name,
                (*array.shape[:axis], self.batch_size, *array.shape[axis + 1 :]),
                array.dtype,
                layout=self.layout,
            )
            for name, array in sources
        ]

    @property
    def provide_data(self) -> list[DataDesc]:
        """Descriptions of the data arrays."""
        return self._described(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Descriptions of the label arrays."""
        return self._described(self.label)

    def hard_reset(self) -> None:
        """Start again, and forget rows left over from the last epoch."""
        if self.shuffle:
            self._shuffle_data()
        self.cursor = -self.batch_size
        self._cache_data = None
        self._cache_label = None

    def reset(self) -> None:
        if self.shuffle:
            self._shuffle_data()
        rows_left = self.num_data - self.batch_size < self.cursor < self.num_data
        if self.last_batch_handle == "roll_over" and rows_left:
            # So far below 0 that the first batch starts with the rows left over.
            self.cursor = self.cursor - self.num_data - self.batch_size
        else:
            self.cursor = -self.batch_size

    def iter_next(self) -> bool:
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        data, label = self.getdata(), self.getlabel()
        if data[0].shape[self._axis] != self.batch_size:
            self._cache_data, self._cache_label = data, label
            raise StopIteration
        return DataBatch(data=data, label=label, pad=self.getpad(), index=None)

    def _rows(self, sources: list[tuple[str, Any]], begin: int, end: int) -> list[Any]:
        rows = []
        for _, array in sources:
            if is_h5py_dataset(array):
                wanted = self.idx[begin:end]
                order = np.argsort(wanted, kind="stable")  # HDF5 reads rows in increasing order only
                back = np.argsort(order, kind="stable")
                rows.append(nd.array(array[wanted[order]][back]))
            else:
                rows.append(nd.slice_axis(array, axis=self._axis, begin=begin, end=end))
        return rows

    def _joined(self, parts: list[list[Any]]) -> list[Any]:
        columns = [part for part in parts if part]
        if len(columns) < 2:
            return columns[0] if columns else []
        return [nd.concat(*arrays, dim=self._axis) for arrays in zip(*columns)]

    def _batch(self, sources: list[tuple[str, Any]], left_over: list[Any] | None) -> list[Any]:
        begin, end = self.cursor, self.cursor + self.batch_size
        if begin >= self.num_data:
            raise AssertionError("DataIter needs reset.")
        if not sources:
            return []
        if self.last_batch_handle == "roll_over" and -self.batch_size < begin < 0:
            if left_over is None:
                raise AssertionError("next epoch should have cached data")
            return self._joined([left_over, self._rows(sources, 0, end)])
        if end <= self.num_data or self.last_batch_handle != "pad":
            return self._rows(sources, begin, min(end, self.num_data))
        # As many whole passes as the batch is longer than the data, then the rest from the start.
        whole, rest = divmod(end - self.num_data, self.num_data)
        parts = [self._rows(sources, begin, self.num_data)] + [self._rows(sources, 0, self.num_data)] * whole
        return self._joined(parts + ([self._rows(sources, 0, rest)] if rest else []))

    def getdata(self) -> list[Any]:
        batch = self._batch(self.data, self._cache_data)
        self._cache_data = None
        return batch

    def getlabel(self) -> list[Any]:
        batch = self._batch(self.label, self._cache_label)
        self._cache_label = None
        return batch

    def getpad(self) -> int:
        if self.last_batch_handle == "pad" and self.cursor + self.batch_size > self.num_data:
            return self.cursor + self.batch_size - self.num_data
        if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0:
            return -self.cursor
        return 0

    def _shuffle_data(self) -> None:
        np.random.shuffle(self.idx)
        self.data = _getdata_by_idx(self.data, self.idx, self._axis)
        self.label = _getdata_by_idx(self.label, self.idx, self._axis)
