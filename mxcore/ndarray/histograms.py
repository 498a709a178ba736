"""``mx.nd.histogram``: counts of elements in intervals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..dispatch.functions import call
from .creation import array
from .ndarray import NDArray

__all__ = ["histogram"]


def histogram(a: NDArray, bins: Any = 10, range: Any = None) -> Any:
    """Count the elements of an array in intervals.

    Parameters
    ----------
    a : NDArray
    bins : int or NDArray
        The number of equal intervals, or their rising edges.
    range : tuple of float or None
        Where the first interval begins and the last ends. With None the result is NumPy's for the smallest and
        the largest element, in float32, with a warning; that blocks until the values are there.

    Returns
    -------
    list of NDArray, or tuple
        Counts and edges.

    Raises
    ------
    ValueError
        If ``bins`` is neither.

    Examples
    --------
    >>> import mxcore as mx
    >>> counts, edges = histogram(mx.nd.array([1, 2, 4]), bins=2, range=(0, 4))
    >>> counts.asnumpy().tolist(), edges.asnumpy().tolist()
    ([1, 2], [0.0, 2.0, 4.0])
    """
    if isinstance(bins, NDArray):
        return call("_histogram", (a, bins))
    if isinstance(bins, int | np.integer):
        if range is None:
            warnings.warn("nd.histogram: no range was given, so NumPy's own is used.", UserWarning, stacklevel=2)
            counts, edges = np.histogram(a.asnumpy(), bins=int(bins))
            return array(counts), array(edges)
        return call("_histogram", (a, None), {"bin_cnt": int(bins), "range": tuple(float(v) for v in range)})
    raise ValueError(f"nd.histogram: bins must be a number or an NDArray but is {type(bins).__name__}.")
