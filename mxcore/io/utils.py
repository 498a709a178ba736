"""What :class:`NDArrayIter` does to its sources: name them, convert them, permute them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from .. import ndarray as nd


def is_h5py_dataset(value: Any) -> bool:
    """Return whether `value` is a dataset of an HDF5 file, which is read batch by batch."""
    return type(value).__module__.startswith("h5py") and hasattr(value, "shape")


def _init_data(data: Any, allow_empty: bool, default_name: str) -> list[tuple[str, Any]]:
    """Return sources as ``[(name, array), ...]`` in the order of their names.

    Parameters
    ----------
    data : array, list, dict or None
        One array, several, or several by name. NumPy arrays become NDArrays.
    allow_empty : bool
        Whether there may be none.
    default_name : str
        Name of one array; several get ``_0_name``, ``_1_name``, ...

    Raises
    ------
    TypeError
        If something is no array.
    """
    if data is None:
        if not allow_empty:
            raise AssertionError("NDArrayIter: data must not be None.")
        data = []
    if isinstance(data, (np.ndarray, nd.NDArray)) or is_h5py_dataset(data):
        data = [data]
    if isinstance(data, list):
        if not allow_empty and not data:
            raise AssertionError("NDArrayIter: data must not be an empty list.")
        if len(data) == 1:
            data = OrderedDict([(default_name, data[0])])
        else:
            data = OrderedDict((f"_{i}_{default_name}", value) for i, value in enumerate(data))
    if not isinstance(data, dict):
        raise TypeError(
            f"Input must be NDArray, numpy.ndarray, h5py.Dataset a list of them or dict with them as values, "
            f"not {type(data).__name__}"
        )
    arrays = {}
    for name, value in data.items():
        if not isinstance(value, nd.NDArray) and not is_h5py_dataset(value):
            try:
                value = nd.array(value)
            except Exception as error:
                raise TypeError(
                    f"Invalid type '{type(value)}' for {name}, should be NDArray, numpy.ndarray or h5py.Dataset"
                ) from error
        arrays[name] = value
    return sorted(arrays.items())


def _has_instance(data: list[tuple[str, Any]], dtype: Any) -> bool:
    """Return whether any source is an instance of `dtype`."""
    return any(isinstance(array, dtype) for _, array in data)


def _getdata_by_idx(data: list[tuple[str, Any]], idx: np.ndarray, axis: int = 0) -> list[tuple[str, Any]]:
    """Return the sources with their rows, along `axis`, in the order `idx`; HDF5 datasets stay as they are."""
    return [
        (name, value)
        if is_h5py_dataset(value)
        else (name, nd.array(np.take(value.asnumpy(), idx, axis=axis), ctx=value.context, dtype=value.dtype))
        for name, value in data
    ]
