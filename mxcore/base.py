"""``mx.base``: the error class and small types that MXNet code imports from here."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .spec.errors import MXCoreError

MXNetError = MXCoreError

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.int32, np.int64)
#: Default dtype of new arrays.
mx_real_t = np.float32
#: There are no C handles here; the names exist for ``isinstance`` checks of user code.
NDArrayHandle = object


class NotImplementedForSymbol(MXCoreError):
    """An NDArray function was called on a Symbol."""

    def __init__(self, function: Any = None, alias: str | None = None, *args: Any) -> None:
        name = getattr(function, "__name__", str(function))
        hint = f" Use {alias} in its place." if alias else ""
        super().__init__(f"function {name} is not implemented for Symbol and only available in NDArray.{hint}")


class NotSupportedForSparseNDArray(MXCoreError):
    """A dense-array function was called on a sparse array."""

    def __init__(self, function: Any = None, alias: str | None = None, *args: Any) -> None:
        name = getattr(function, "__name__", str(function))
        super().__init__(f"function {name} is not supported for sparse NDArrays; use {alias or 'tostype'} first.")


class _NullType:
    """Stands for "use the operator's default" in MXNet signatures."""

    def __repr__(self) -> str:
        return "_Null"

    def __bool__(self) -> bool:
        return False


_Null = _NullType()


def _as_list(obj: Any) -> Any:
    """Return ``obj`` if it is a list or tuple, else a list of it."""
    return obj if isinstance(obj, list | tuple) else [obj]


def data_dir() -> str:
    """Return the folder for downloaded data: ``MXNET_HOME``, or ``~/.mxnet``."""
    return os.environ.get("MXNET_HOME", os.path.join(os.path.expanduser("~"), ".mxnet"))


def py_str(x: Any) -> str:
    """Decode bytes to str; leave str alone."""
    return x.decode("utf-8") if isinstance(x, bytes) else x


def c_str(string: str) -> str:
    """Return ``string``: there is no C interface here."""
    return string
