"""``mx.nd.save`` and ``mx.nd.load``: MXNet's ``.params`` format, both ways.

A file is a header, a list of array records, and a list of names (empty for a plain list); everything is little
endian. Version 2 of the array record is written, versions 0 to 3 are read. Nothing in a file is trusted: every
length is compared with what the file still holds before anything is allocated, and every failure says what was
wrong, in which array, at which byte. Writing is atomic: a file is complete or as it was before.
"""

from __future__ import annotations

import io
import math
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .._files import replacing
from ..context import num_gpus
from ..dispatch import runtime
from ..dispatch.array import settled, wrap
from ..dispatch.context import Context
from ..spec import DTypeError, FileFormatError, MXCoreError, OutOfDeviceMemory, ShapeError
from .ndarray import NDArray

__all__ = ["load", "load_frombuffer", "save"]

LIST_MAGIC = 0x112
V1_MAGIC = 0xF993FAC8
V2_MAGIC = 0xF993FAC9
V3_MAGIC = 0xF993FACA

#: Storage types in the file.
_DENSE, _ROW_SPARSE, _CSR = 0, 1, 2
STORAGE = {_DENSE: "default", _ROW_SPARSE: "row_sparse", _CSR: "csr"}
#: Sparse storage type -> what its auxiliary arrays are.
_AUX = {_ROW_SPARSE: ("indices",), _CSR: ("indptr", "indices")}
#: dtype number in the file -> dtype as it lies there.
DTYPES = {
    number: np.dtype(name).newbyteorder("<")
    for number, name in enumerate(
        ("f4", "f8", "f2", "u1", "i4", "i1", "i8", "?", "i2", "u2", "u4", "u8"),
    )
}
NUMBERS = {dtype.newbyteorder("="): number for number, dtype in DTYPES.items()}
_BFLOAT16 = 12

#: More axes than this are a sign of corruption (NumPy itself allows 32 or 64).
_MAX_AXES = 32
#: The shortest array record: magic, storage type, number of axes.
_MIN_RECORD_NBYTES = 8


class Entry(NamedTuple):
    """One array of a file: its values, and the device it was on. A sparse one has its shape and auxiliary arrays too."""

    values: np.ndarray
    device_type: int
    device_id: int
    storage: int = _DENSE
    shape: tuple[int, ...] = ()
    aux: tuple[np.ndarray, ...] = ()


class Reader:
    """A stream of known size that refuses to read beyond its end.

    Parameters
    ----------
    stream : file-like
        With ``readinto``; positioned at its beginning.
    size : int
        Its length in bytes.
    name : str
        What messages call it.
    """

    def __init__(self, stream: Any, size: int, name: str) -> None:
        self.stream = stream
        self.size = size
        self.name = name
        self.offset = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self.size - self.offset

    def fail(self, why: str, offset: int | None = None) -> NoReturn:
        """Raise FileFormatError naming the file and the place."""
        at = self.offset if offset is None else offset
        raise FileFormatError(
            f"{self.name} is not a sound NDArray file: {why} (byte {at} of {self.size}). It is truncated, corrupt "
            f"or of another kind; save it again with mx.nd.save.",
            file=self.name,
            offset=at,
        )

    def need(self, nbytes: int, what: str) -> None:
        """Raise FileFormatError unless ``nbytes`` are left."""
        if nbytes > self.left:
            self.fail(f"{what} needs {nbytes} bytes but {self.left} are left")

    def _into(self, view: memoryview, what: str) -> None:
        done = 0
        while done < len(view):
            n = self.stream.readinto(view[done:])
            if not n:
                self.fail(f"{what} ends early", self.offset + done)
            done += n
        self.offset += done

    def numbers(self, layout: str, what: str) -> tuple[Any, ...]:
        """Read numbers by a ``struct`` layout."""
        nbytes = struct.calcsize("<" + layout)
        self.need(nbytes, what)
        held = bytearray(nbytes)
        self._into(memoryview(held), what)
        return struct.unpack("<" + layout, held)

    def number(self, layout: str, what: str) -> int:
        """Read one number."""
        return self.numbers(layout, what)[0]

    def text(self, nbytes: int, what: str) -> str:
        """Read a UTF-8 string."""
        self.need(nbytes, what)
        held = bytearray(nbytes)
        start = self.offset
        self._into(memoryview(held), what)
        try:
            return held.decode()
        except UnicodeDecodeError:
            self.fail(f"{what} is not UTF-8", start)

    def array(self, shape: tuple[int, ...], dtype: np.dtype, what: str) -> np.ndarray:
        """Read the elements of an array; they are counted before memory is asked for."""
        nbytes = math.prod(shape) * dtype.itemsize
        self.need(nbytes, f"{what} of shape {shape} {dtype.name}")
        # No bytes, yet lengths that NumPy cannot address: (0, 2**62).
        if math.prod(max(n, 1) for n in shape) * dtype.itemsize > np.iinfo(np.intp).max:
            self.fail(f"{what} has the impossible shape {shape}")
        values = np.empty(shape, dtype)
        if nbytes:
            self._into(values.reshape(-1).view(np.uint8).data, what)
        return values.astype(dtype.newbyteorder("="), copy=False)


def _shape(reader: Reader, layout: str, count: int, what: str) -> tuple[int, ...]:
    """Read the lengths of ``count`` axes."""
    if not 0 <= count <= _MAX_AXES:
        reader.fail(f"{what} claims {count} axes")
    return reader.numbers(f"{count}{layout}", f"the shape of {what}")


def _check_lengths(reader: Reader, shape: tuple[int, ...], what: str) -> None:
    if any(n < 0 for n in shape):
        reader.fail(f"{what} has shape {shape}")


def _dtype(reader: Reader, shape: tuple[int, ...], what: str) -> np.dtype:
    """Read a dtype number."""
    at = reader.offset
    number = reader.number("i", f"the dtype of {what}")
    if number == _BFLOAT16:
        raise DTypeError(
            f"{reader.name}: {what} {shape} holds bfloat16, a dtype that NumPy does not have. Convert it to float32 "
            f"where it was saved."
        )
    dtype = DTYPES.get(number)
    if dtype is None:
        reader.fail(f"{what} has the unknown dtype number {number}", at)
    return dtype


def _values(reader: Reader, shape: tuple[int, ...], what: str) -> Entry:
    """Read device, dtype and elements."""
    _check_lengths(reader, shape, what)
    device_type, device_id = reader.numbers("ii", f"the device of {what}")
    dtype = _dtype(reader, shape, what)
    return Entry(reader.array(shape, dtype, what), device_type, device_id)


def _sparse_values(reader: Reader, storage: int, what: str) -> Entry:
    """Read the rest of a sparse record, and check that its auxiliary arrays are sound."""
    stored = _shape(reader, "q", reader.number("i", f"the number of stored axes of {what}"), what)
    shape = _shape(reader, "q", reader.number("i", f"the number of axes of {what}"), what)
    if not shape:
        return _NOTHING
    at = reader.offset
    _check_lengths(reader, stored, what)
    _check_lengths(reader, shape, what)
    if storage == _CSR and (len(shape) != 2 or len(stored) != 1):
        reader.fail(f"{what} is csr but has shape {shape} and {stored} values", at)
    if storage == _ROW_SPARSE and (len(stored) != len(shape) or stored[1:] != shape[1:]):
        reader.fail(f"{what} is row_sparse of shape {shape} but its rows have shape {stored}", at)
    device_type, device_id = reader.numbers("ii", f"the device of {what}")
    dtype = _dtype(reader, shape, what)
    aux = []
    for name in _AUX[storage]:
        label = f"{name} of {what}"
        aux_dtype = _dtype(reader, stored, label)
        lengths = _shape(reader, "q", reader.number("i", f"the number of axes of {label}"), label)
        if storage == _ROW_SPARSE and stored[0] == 0 and len(lengths) == 1 and lengths[0] > 0:
            # MXNet may note the number of rows before they are computed; the rows are there nevertheless.
            stored = (lengths[0], *stored[1:])
        wanted = (shape[0] + 1,) if name == "indptr" else stored[:1]
        if lengths != wanted or aux_dtype.kind not in "iu":
            reader.fail(f"{label} are {aux_dtype.name} {lengths}, not integers {wanted}")
        aux.append((label, lengths, aux_dtype))
    values = reader.array(stored, dtype, what)
    parts = [reader.array(lengths, t, label).astype(np.int64, copy=False) for label, lengths, t in aux]
    indices = parts[-1]
    if indices.size and not (indices.min() >= 0 and indices.max() < shape[1 if storage == _CSR else 0]):
        reader.fail(f"indices of {what} are outside of its shape {shape}")
    if storage == _CSR and not (parts[0][0] == 0 and parts[0][-1] == stored[0] and (np.diff(parts[0]) >= 0).all()):
        reader.fail(f"indptr of {what} does not rise from 0 to {stored[0]}")
    return Entry(values, device_type, device_id, storage, shape, tuple(parts))


_NOTHING = Entry(np.empty((0,), np.float32), 1, 0)


def _record(reader: Reader, what: str) -> Entry:
    """Read one array record of any version."""
    at = reader.offset
    magic = reader.number("I", f"the head of {what}")
    if magic in (V2_MAGIC, V3_MAGIC):
        storage = reader.number("i", f"the storage type of {what}")
        if magic == V2_MAGIC and storage in _AUX:
            return _sparse_values(reader, storage, what)
        if storage != _DENSE:
            reader.fail(f"{what} has the unknown storage type {storage}", at + 4)
        shape = _shape(reader, "q", reader.number("i", f"the number of axes of {what}"), what)
        # An array that never had a shape has no elements and no further fields.
        if (magic == V2_MAGIC and not shape) or (magic == V3_MAGIC and -1 in shape):
            return _NOTHING
    elif magic == V1_MAGIC:
        shape = _shape(reader, "q", reader.number("i", f"the number of axes of {what}"), what)
        if not shape:
            return _NOTHING
    else:
        # The oldest layout has no magic: the first number is the number of axes.
        if magic > _MAX_AXES:
            reader.fail(f"{what} begins with {magic:#x}, which is no known version", at)
        shape = _shape(reader, "I", magic, what)
        if not shape:
            return _NOTHING
    return _values(reader, shape, what)


def read(reader: Reader) -> tuple[list[Entry], list[str]]:
    """Read a whole file: its arrays, and their names (none for a list).

    Raises
    ------
    FileFormatError
        For anything that is not a sound file.
    """
    magic, _, count = reader.numbers("QQQ", "the header")
    if magic != LIST_MAGIC:
        reader.fail(f"it begins with {magic:#x}, not with {LIST_MAGIC:#x}", 0)
    if count * _MIN_RECORD_NBYTES > reader.left:
        reader.fail(f"it claims {count} arrays, which {reader.left} bytes cannot hold", 16)
    entries = [_record(reader, f"array {i}") for i in range(count)]
    at = reader.offset
    named = reader.number("Q", "the number of names")
    if named not in (0, count):
        reader.fail(f"it has {count} arrays but {named} names", at)
    return entries, [reader.text(reader.number("Q", f"the length of name {i}"), f"name {i}") for i in range(named)]


def _result(reader: Reader) -> Any:
    entries, names = read(reader)
    arrays = [_on_device(e) for e in entries]
    return dict(zip(names, arrays)) if names else arrays


def _on_device(entry: Entry) -> NDArray:
    # Arrays of a GPU go back there if it exists, else they stay on the CPU, as in MXNet.
    gpu = entry.device_type == 2 and 0 <= entry.device_id < num_gpus()
    ctx = Context("gpu", entry.device_id) if gpu else Context("cpu", 0)
    if entry.storage != _DENSE:
        return _sparse_on_device(entry, ctx)
    values = entry.values if entry.values.ndim else entry.values.reshape(1)
    if gpu:
        values = runtime.current().library(ctx).from_host(values, ctx.device_id)
    else:
        library = runtime.current().library(ctx)
        values = values if library.xp is np else library.from_host(values, 0)
    return wrap(NDArray, values, ctx)


def _sparse_on_device(entry: Entry, ctx: Context) -> NDArray:
    from . import sparse

    make = sparse.csr_matrix if entry.storage == _CSR else sparse.row_sparse_array
    nbytes = math.prod(entry.shape) * entry.values.itemsize
    try:
        if nbytes > np.iinfo(np.intp).max:
            raise MemoryError
        # csr_matrix takes the indices before indptr.
        return make((entry.values, *entry.aux[::-1]), shape=entry.shape, ctx=ctx)
    except MemoryError as e:
        raise OutOfDeviceMemory(
            f"a {STORAGE[entry.storage]} array of shape {entry.shape} is held as a dense one of {nbytes} bytes, which "
            f"{ctx} does not have. Save fewer rows, or read it with MXNet."
        ) from e


def load(fname: Any) -> Any:
    """Load arrays from a file. Blocks.

    Parameters
    ----------
    fname : str or path-like
        Written by :func:`save` or by any version of MXNet.

    Returns
    -------
    list of NDArray, or dict of str to NDArray
        A dict where the file has names. Arrays of a GPU that does not exist here are on ``cpu(0)``.

    Raises
    ------
    FileFormatError
        If the file is truncated, corrupt or of another kind; says at which byte.
    OutOfDeviceMemory
        If a sparse array is too large for the dense one that holds it.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> import mxcore as mx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mx.nd.save(os.path.join(folder, "x.params"), {"x": mx.nd.array([1, 2])})
    ...     mx.nd.load(os.path.join(folder, "x.params"))["x"].asnumpy().tolist()
    [1.0, 2.0]
    """
    path = _path(fname, "load")
    with open(path, "rb") as stream:
        return _result(Reader(stream, os.fstat(stream.fileno()).st_size, f"file '{path}'"))


def load_frombuffer(buf: Any) -> Any:
    """Load arrays from the bytes of a file; see :func:`load`.

    Parameters
    ----------
    buf : bytes-like

    Returns
    -------
    list of NDArray, or dict of str to NDArray

    Raises
    ------
    TypeError
        If ``buf`` is not bytes.
    FileFormatError, OutOfDeviceMemory
        As :func:`load`.
    """
    if not isinstance(buf, bytes | bytearray | memoryview):
        raise TypeError(f"nd.load_frombuffer: buf must be bytes but is {type(buf).__name__}.")
    return _result(Reader(io.BytesIO(buf), memoryview(buf).nbytes, "the buffer"))


def _path(fname: Any, what: str) -> str:
    if not isinstance(fname, str | os.PathLike):
        raise TypeError(f"nd.{what}: fname must be a string or a path but is {type(fname).__name__}.")
    path = os.fspath(fname)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    scheme = path.partition("://")
    if scheme[1] and scheme[0].isalnum():
        raise MXCoreError(
            f"nd.{what}: '{path}' is a remote file; copy it here first, only local files are read and written."
        )
    return path


def _named(data: Any) -> tuple[list[bytes], list[NDArray]]:
    """Return names (none for a list) and arrays of what is to be saved."""
    if isinstance(data, NDArray):
        return [], [data]
    if isinstance(data, Mapping):
        names: list[bytes] = []
        for key in data:
            if not isinstance(key, str | bytes):
                raise TypeError(f"nd.save takes a dict of str to NDArray, but a key is {type(key).__name__} ({key!r}).")
            names.append(key.encode() if isinstance(key, str) else key)
        arrays = list(data.values())
    elif isinstance(data, list):
        names, arrays = [], data
    else:
        raise ValueError(
            f"nd.save takes an NDArray, a list of NDArrays or a dict of str to NDArray, but data is "
            f"{type(data).__name__}."
        )
    for position, x in enumerate(arrays):
        if not isinstance(x, NDArray):
            where = f"the value of {names[position].decode(errors='replace')!r}" if names else f"element {position}"
            raise TypeError(
                f"nd.save takes NDArrays, in a list or a dict of str to NDArray, but {where} is {type(x).__name__}. "
                f"Make one with mx.nd.array(...)."
            )
    return names, arrays


_STORAGE_NUMBERS = {name: number for number, name in STORAGE.items()}


def _raw(values: np.ndarray, dtype: np.dtype) -> memoryview:
    return values.astype(dtype, copy=False).reshape(-1).view(np.uint8).data


def _write(stream: Any, names: list[bytes], arrays: Iterable[Any], count: int) -> None:
    stream.write(struct.pack("<QQQ", LIST_MAGIC, 0, count))
    for x in arrays:
        # Blocks until the engine has made the values.
        aux: list[np.ndarray] = []
        if x._sparse:
            values, *aux = x._parts()
        else:
            values = runtime.current().library(x._ctx).to_host(settled(x))
        number = NUMBERS.get(values.dtype)
        if number is None:
            raise DTypeError(f"nd.save: the file format has no dtype {values.dtype.name}; cast the array first.")
        if not values.ndim:
            raise ShapeError("nd.save: an array without axes cannot be written; reshape it to (1,).")
        device = (x._ctx.device_typeid, x._ctx.device_id)
        stream.write(struct.pack("<Ii", V2_MAGIC, _STORAGE_NUMBERS[x.stype]))
        shapes = [values.shape, x.shape] if x._sparse else [values.shape]
        for shape in shapes:
            stream.write(struct.pack(f"<i{len(shape)}q", len(shape), *shape))
        stream.write(struct.pack("<iii", *device, number))
        for part in aux:
            stream.write(struct.pack("<ii1q", NUMBERS[part.dtype], 1, len(part)))
        stream.write(_raw(values, DTYPES[number]))
        for part in aux:
            stream.write(_raw(part, DTYPES[NUMBERS[part.dtype]]))
    stream.write(struct.pack("<Q", len(names)))
    for name in names:
        stream.write(struct.pack("<Q", len(name)))
        stream.write(name)


def save(fname: Any, data: Any) -> None:
    """Save arrays to a file that any MXNet 1.x can load. Blocks until their values are there and on disk.

    Parameters
    ----------
    fname : str or path-like
        Replaced as a whole: whoever reads it meanwhile, and whatever fails here, sees the old file or the new one.
    data : NDArray, list of NDArray, or dict of str to NDArray

    Raises
    ------
    TypeError, ValueError
        If ``data`` is something else.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> import mxcore as mx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mx.nd.save(os.path.join(folder, "list.params"), [mx.nd.zeros((2, 3)), mx.nd.ones(4)])
    ...     [x.shape for x in mx.nd.load(os.path.join(folder, "list.params"))]
    [(2, 3), (4,)]
    """
    path = _path(fname, "save")
    names, arrays = _named(data)
    with replacing(path) as stream:
        _write(stream, names, arrays, len(arrays))


def load_record(buf: Any) -> NDArray:
    """Load the single array record that pickles of MXNet's NDArrays hold.

    Raises
    ------
    FileFormatError
        If the bytes are not one sound record.
    """
    reader = Reader(io.BytesIO(buf), memoryview(buf).nbytes, "the pickled array")
    return _on_device(_record(reader, "the record"))
