"""``mx.nd.save`` and ``mx.nd.load``: MXNet's ``.params`` format, both ways.

A file is a header, a list of array records, and a list of names (empty for a plain list); everything is little
endian. Version 2 of the array record is written, versions 0 to 3 are read. Nothing in a file is trusted: every
length is compared with what the file still holds before anything is allocated, and every failure says what was
wrong, in which array, at which byte. Writing is atomic: a file is complete or as it was before.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import secrets
import shutil
import stat
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..context import num_gpus
from ..dispatch import runtime
from ..dispatch.array import settled, wrap
from ..dispatch.context import Context
from ..spec import DTypeError, FileFormatError, MXCoreError, ShapeError
from .ndarray import NDArray

__all__ = ["load", "load_frombuffer", "save"]

LIST_MAGIC = 0x112
V1_MAGIC = 0xF993FAC8
V2_MAGIC = 0xF993FAC9
V3_MAGIC = 0xF993FACA

#: Storage types in the file.
STORAGE = {0: "default", 1: "row_sparse", 2: "csr"}
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
    """One array of a file: its values, and the device it was on."""

    values: np.ndarray
    device_type: int
    device_id: int


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


def _values(reader: Reader, shape: tuple[int, ...], what: str) -> Entry:
    """Read device, dtype and elements."""
    for n in shape:
        if n < 0:
            reader.fail(f"{what} has shape {shape}")
    device_type, device_id = reader.numbers("ii", f"the device of {what}")
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
    return Entry(reader.array(shape, dtype, what), device_type, device_id)


_NOTHING = Entry(np.empty((0,), np.float32), 1, 0)


def _record(reader: Reader, what: str) -> Entry:
    """Read one array record of any version."""
    at = reader.offset
    magic = reader.number("I", f"the head of {what}")
    if magic in (V2_MAGIC, V3_MAGIC):
        storage = reader.number("i", f"the storage type of {what}")
        if storage in (1, 2):
            raise MXCoreError(
                f"{reader.name}: {what} is sparse ('{STORAGE[storage]}'), and sparse arrays are not part of this "
                f"version of mxcore. Save it as a dense array: x.tostype('default')."
            )
        if storage != 0:
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
    MXCoreError
        For sparse arrays.
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
    values = entry.values if entry.values.ndim else entry.values.reshape(1)
    if gpu:
        values = runtime.current().library(ctx).from_host(values, ctx.device_id)
    else:
        library = runtime.current().library(ctx)
        values = values if library.xp is np else library.from_host(values, 0)
    return wrap(NDArray, values, ctx)


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
    MXCoreError
        If an array is sparse.
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
    FileFormatError, MXCoreError
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


def _write(stream: Any, names: list[bytes], arrays: Iterable[NDArray], count: int) -> None:
    stream.write(struct.pack("<QQQ", LIST_MAGIC, 0, count))
    for x in arrays:
        # Blocks until the engine has made the values.
        values = runtime.current().library(x._ctx).to_host(settled(x))
        number = NUMBERS.get(values.dtype)
        if number is None:
            raise DTypeError(f"nd.save: the file format has no dtype {values.dtype.name}; cast the array first.")
        if not values.ndim:
            raise ShapeError("nd.save: an array without axes cannot be written; reshape it to (1,).")
        device = (x._ctx.device_typeid, x._ctx.device_id)
        head = struct.pack(f"<Iii{values.ndim}qiii", V2_MAGIC, 0, values.ndim, *values.shape, *device, number)
        stream.write(head)
        stream.write(values.astype(DTYPES[number], copy=False).reshape(-1).view(np.uint8).data)
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
    path = os.path.realpath(_path(fname, "save"))
    names, arrays = _named(data)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        # A pipe or a device cannot be replaced, only written to.
        with open(path, "wb") as stream:
            _write(stream, names, arrays, len(arrays))
        return
    folder, base = os.path.split(path)
    temporary = os.path.join(folder, f".{base}.{secrets.token_hex(8)}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            _write(stream, names, arrays, len(arrays))
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":
        # The rename itself must survive a power cut, too.
        folder_handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(folder_handle)
        finally:
            os.close(folder_handle)


def load_record(buf: Any) -> NDArray:
    """Load the single array record that pickles of MXNet's NDArrays hold.

    Raises
    ------
    FileFormatError
        If the bytes are not one sound record.
    """
    reader = Reader(io.BytesIO(buf), memoryview(buf).nbytes, "the pickled array")
    return _on_device(_record(reader, "the record"))
