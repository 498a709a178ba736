"""What iterators give: batches, descriptions of their arrays, and the interface of an iterator."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name, shape, dtype and layout of an array; a pair ``(name, shape)`` with two attributes.

    Parameters
    ----------
    name : str
        Name of the input.
    shape : tuple of int
        Shape of a batch.
    dtype : dtype
        Its dtype.
    layout : str
        Names of its axes, such as ``NCHW``; ``N`` is the batch axis.

    Examples
    --------
    >>> DataDesc("data", (32, 3, 8, 8))
    DataDesc[data,(32, 3, 8, 8),<class 'numpy.float32'>,NCHW]
    """

    dtype: Any
    layout: Any

    def __new__(cls, name: str, shape: Any, dtype: Any = np.float32, layout: Any = "NCHW") -> DataDesc:
        desc = super().__new__(cls, name, shape)
        desc.dtype = dtype
        desc.layout = layout
        return desc

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Return the place of ``N`` in the layout, 0 without a layout, -1 without an ``N``."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Sequence[Any], types: Sequence[Any] | None) -> list[DataDesc]:
        """Return descriptions from pairs ``(name, shape)`` and pairs ``(name, dtype)``."""
        if types is None:
            return [DataDesc(x[0], x[1]) for x in shapes]
        by_name = dict(types)
        return [DataDesc(x[0], x[1], by_name[x[0]]) for x in shapes]


class DataBatch:
    """One batch.

    Parameters
    ----------
    data, label : list of NDArray, optional
        The arrays.
    pad : int, optional
        How many rows at the end only fill up the batch.
    index : numpy.ndarray, optional
        Numbers of the rows in the data set.
    bucket_key : optional
        Which network the batch is for, with bucketing.
    provide_data, provide_label : list of DataDesc, optional
        Descriptions, where they differ from batch to batch.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        if data is not None and not isinstance(data, (list, tuple)):
            raise AssertionError("Data must be list of NDArrays")
        if label is not None and not isinstance(label, (list, tuple)):
            raise AssertionError("Label must be list of NDArrays")
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        data_shapes = [array.shape for array in self.data or ()]
        label_shapes = [array.shape for array in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {data_shapes} label shapes: {label_shapes}"


class DataIter:
    """Interface of the iterators.

    A subclass gives ``next``, or ``iter_next`` with ``getdata``, ``getlabel``, ``getindex`` and ``getpad``.

    Parameters
    ----------
    batch_size : int
        Rows per batch.
    """

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self.next()

    def reset(self) -> None:
        """Start again."""

    def next(self) -> Any:
        """Return the next batch, or raise ``StopIteration``."""
        if self.iter_next():
            return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(), index=self.getindex())
        raise StopIteration

    def iter_next(self) -> Any:
        """Go to the next batch; return whether there is one."""

    def getdata(self) -> Any:
        """Return the data of the current batch."""

    def getlabel(self) -> Any:
        """Return the labels of the current batch."""

    def getindex(self) -> Any:
        """Return the row numbers of the current batch, or None."""
        return None

    def getpad(self) -> Any:
        """Return how many rows of the current batch only fill it up."""
