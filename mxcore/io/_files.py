"""Iterators of files that are read whole: CSV and MNIST.

They give what MXNet's compiled iterators give, the treatment of a last short batch included: with ``round_batch`` it is
filled up from the start, and the next epoch starts after the rows so used; without, the rows of the batch before stay
in the unused part and ``pad`` counts them.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..spec.errors import FileFormatError, ParameterError
from ._idx import read_idx
from ._records import DataBatch, DataDesc, DataIter


class MXDataIter(DataIter):
    """Batches of one data and one label array that lie in memory.

    Parameters
    ----------
    data, label : numpy.ndarray
        The rows.
    batch_size : int
        Rows per batch.
    round_batch : bool or None
        Fill up a last short batch from the start, leave old rows in it, or (None) drop it.
    data_name, label_name : str
        Names in the descriptions.
    """

    def __init__(
        self,
        data: np.ndarray,
        label: np.ndarray,
        batch_size: int,
        round_batch: bool | None = True,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        super().__init__(batch_size)
        if batch_size < 1:
            raise ParameterError(f"{type(self).__name__}: batch_size must be positive, got {batch_size}.")
        if round_batch and len(data) < batch_size:
            raise ParameterError(
                f"{type(self).__name__}: number of input must be bigger than batch size, but there are {len(data)} "
                f"rows for batches of {batch_size}; use round_batch=False."
            )
        self._data, self._label = data, label
        self._round_batch = round_batch
        self._debug_skip_load = False
        self._position = 0
        self._overflow = 0
        self._rows = np.zeros(batch_size, np.int64)
        self._pad = 0
        self.provide_data = [DataDesc(data_name, (batch_size, *data.shape[1:]), data.dtype.type)]
        self.provide_label = [DataDesc(label_name, (batch_size, *label.shape[1:]), label.dtype.type)]

    def debug_skip_load(self) -> None:
        """Give the current batch for ever, to time everything but the reading of data."""
        self._debug_skip_load = True
        logging.info("Set debug_skip_load to be true, will simply return first batch")

    def reset(self) -> None:
        if not self._overflow:
            self._position = 0
        self._overflow = 0

    def iter_next(self) -> bool:
        if self._debug_skip_load and self._position:
            return True
        left = len(self._data) - self._position
        if self._overflow or left <= 0 or (self._round_batch is None and left < self.batch_size):
            return False
        count = min(left, self.batch_size)
        self._rows = self._rows.copy()
        self._rows[:count] = np.arange(self._position, self._position + count)
        self._position += count
        self._pad = self.batch_size - count
        if self._pad and self._round_batch:
            self._rows[count:] = np.arange(self._pad)
            self._position = self._overflow = self._pad
        return True

    def next(self) -> DataBatch:
        if not self.iter_next():
            raise StopIteration
        return DataBatch(data=[self.getdata()], label=[self.getlabel()], pad=self.getpad(), index=self.getindex())

    def getdata(self) -> Any:
        return nd.array(self._data[self._rows], dtype=self._data.dtype)

    def getlabel(self) -> Any:
        return nd.array(self._label[self._rows], dtype=self._label.dtype)

    def getindex(self) -> np.ndarray:
        return self._rows.astype(np.uint64)

    def getpad(self) -> int:
        return self._pad


def _read_csv(path: str, shape: Any, dtype: np.dtype) -> np.ndarray:
    """Return the rows of a CSV file, or of all files of a folder, as ``(N, *shape)``."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    paths = [os.path.join(path, name) for name in sorted(os.listdir(path))] if os.path.isdir(path) else [path]
    parts = []
    for one in paths:
        try:
            rows = np.loadtxt(one, delimiter=",", dtype=dtype, ndmin=2)
        except ValueError as error:
            raise FileFormatError(f"CSVIter: {one} is no table of {dtype} values: {error}.") from error
        if rows.shape[1] != np.prod(shape, dtype=np.int64):
            raise FileFormatError(
                f"CSVIter: the rows of {one} have {rows.shape[1]} values, which do not fill the shape {shape}."
            )
        parts.append(rows.reshape(-1, *shape))
    return np.concatenate(parts)


class CSVIter(MXDataIter):
    """Batches of rows of a CSV file.

    Parameters
    ----------
    data_csv : str
        A file, or a folder whose files are all read.
    data_shape : tuple of int
        Shape of a row.
    batch_size : int
        Rows per batch.
    label_csv : str, optional
        Labels in the same format; zeros without.
    label_shape : tuple of int
        Shape of a label; a label of one number makes batches ``(N,)``.
    round_batch : bool
        Fill up a last short batch from the start.
    dtype : dtype, optional
        float32 by default.
    prefetch_buffer, ctx
        Accepted for MXNet's interface; the file is read whole.
    data_name, label_name : str
        Names in the descriptions.
    """

    def __init__(
        self,
        *,
        data_csv: str,
        data_shape: Any,
        batch_size: int,
        label_csv: str | None = None,
        label_shape: Any = (1,),
        round_batch: bool = True,
        dtype: Any = None,
        prefetch_buffer: int = 4,
        ctx: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        kind = np.dtype(np.float32 if dtype in (None, "None") else dtype)
        data = _read_csv(data_csv, data_shape, kind)
        label_shape = (label_shape,) if isinstance(label_shape, int) else tuple(label_shape)
        if label_csv in (None, "NULL"):
            label = np.zeros((len(data), *label_shape), kind)
        else:
            assert label_csv is not None
            label = _read_csv(label_csv, label_shape, kind)
        if len(label) != len(data):
            raise FileFormatError(f"CSVIter: {label_csv} has {len(label)} labels for {len(data)} rows of {data_csv}.")
        if label_shape == (1,):
            label = label.reshape(-1)
        super().__init__(data, label, batch_size, bool(round_batch), data_name, label_name)


class MNISTIter(MXDataIter):
    """Batches of MNIST from its IDX files, gzipped or not; a last short batch is dropped.

    Parameters
    ----------
    image, label : str
        The files.
    batch_size : int
        Images per batch.
    shuffle : bool
        Permute the images once, by `seed`.
    flat : bool
        Batches ``(N, 784)`` instead of ``(N, 1, 28, 28)``; float32 of 0..1.
    seed : int
        Of the permutation.
    silent : bool
        Do not log what was read.
    num_parts, part_index : int
        Read only one of so many parts.
    input_shape, data_shape, prefetch_buffer, ctx, dtype
        Accepted for MXNet's interface.
    data_name, label_name : str
        Names in the descriptions.
    """

    def __init__(
        self,
        *,
        image: str = "./train-images-idx3-ubyte",
        label: str = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int = 1,
        part_index: int = 0,
        input_shape: Any = None,
        data_shape: Any = None,
        prefetch_buffer: int = 4,
        ctx: Any = None,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        images, labels = read_idx(image), read_idx(label)
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise FileFormatError(
                f"MNISTIter: {image} holds shape {images.shape} and {label} shape {labels.shape}; the files do not "
                f"belong together."
            )
        if not 0 <= part_index < num_parts:
            raise ParameterError(f"MNISTIter: part_index {part_index} is not one of {num_parts} parts.")
        size = len(images) // num_parts
        images, labels = images[size * part_index :][:size], labels[size * part_index :][:size]
        if shuffle:
            order = np.random.RandomState(seed).permutation(len(images))
            images, labels = images[order], labels[order]
        pixels = images.astype(np.float32) * np.float32(1.0 / 256)
        pixels = pixels.reshape(len(images), -1) if flat else pixels[:, None]
        super().__init__(pixels, labels.astype(np.float32), batch_size, None, data_name, label_name)
        if not silent:
            logging.info("MNISTIter: load %d images, shuffle=%d, shape=%s", len(images), shuffle, pixels.shape)
