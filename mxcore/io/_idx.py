"""IDX files, the format of MNIST: a header with the shape, then bytes."""

from __future__ import annotations

import gzip
import struct
from typing import BinaryIO

import numpy as np

from ..spec.errors import FileFormatError


def _open(path: str) -> BinaryIO:
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def read_idx(path: str) -> np.ndarray:
    """Return the uint8 array in an IDX file, gzipped (``.gz``) or not; the array is read-only.

    Raises
    ------
    FileFormatError
        If the file is of another kind, truncated or too long.
    """
    try:
        with _open(path) as file:
            header = file.read(4)
            if len(header) < 4 or header[:3] != b"\x00\x00\x08" or not header[3]:
                raise FileFormatError(f"{path} is no IDX file of bytes: it starts with {header.hex() or 'nothing'}.")
            ndim = header[3]
            sizes = file.read(4 * ndim)
            if len(sizes) < 4 * ndim:
                raise FileFormatError(f"{path} is truncated: it ends within its header.")
            shape = struct.unpack(f">{ndim}I", sizes)
            data = np.frombuffer(file.read(), dtype=np.uint8)
    except (EOFError, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path} is no whole gzip file: {error}. Get the file again.") from error
    if data.size != np.prod(shape, dtype=np.int64):
        raise FileFormatError(f"{path} holds {data.size} bytes of data, but its header says shape {shape}.")
    return data.reshape(shape)
