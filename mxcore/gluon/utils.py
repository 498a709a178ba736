"""Helpers for training with Gluon: splitting batches, clipping gradients, fetching files.

Nothing here keeps state; :class:`HookHandle` is the receipt of a registered hook.
"""

from __future__ import annotations

import collections
import hashlib
import math
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import ndarray
from ..base import MXNetError

__all__ = [
    "split_data",
    "split_and_load",
    "clip_global_norm",
    "check_sha1",
    "download",
    "replace_file",
    "shape_is_known",
    "HookHandle",
]

_DEFAULT_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"


def split_data(data: Any, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[Any]:
    """Cut an array into ``num_slice`` consecutive pieces along ``batch_axis``.

    Parameters
    ----------
    data : NDArray
        The batch, of any shape.
    num_slice : int
        How many pieces to make.
    batch_axis : int
        The axis to cut.
    even_split : bool
        Insist on pieces of equal size. When false, the first ``size % num_slice`` pieces are one longer.

    Returns
    -------
    list of NDArray
        ``num_slice`` pieces, in order. Pieces along axis 0 are views of ``data``.

    Raises
    ------
    ValueError
        ``even_split`` is true and the axis does not divide.

    Examples
    --------
    >>> import mxcore as mx
    >>> [piece.shape for piece in mx.gluon.utils.split_data(mx.nd.zeros((7, 2)), 3, even_split=False)]
    [(3, 2), (2, 2), (2, 2)]
    """
    size = data.shape[batch_axis]
    each, extra = divmod(size, num_slice)
    if even_split and extra:
        raise ValueError(
            f"cannot split an array of shape {data.shape} evenly into {num_slice} slices along axis {batch_axis}, "
            f"because {size} is not a multiple of {num_slice}. Use a batch size that is, or pass even_split=False."
        )
    ends = [(index + 1) * each + min(index + 1, extra) for index in range(num_slice)]
    starts = [0] + ends[:-1]
    if batch_axis == 0:
        return [data[start:end] for start, end in zip(starts, ends)]
    return [ndarray.slice_axis(data, axis=batch_axis, begin=start, end=end) for start, end in zip(starts, ends)]


def split_and_load(data: Any, ctx_list: Sequence[Any], batch_axis: int = 0, even_split: bool = True) -> list[Any]:
    """Cut a batch into one piece per context and copy each piece to its context.

    Parameters
    ----------
    data : NDArray or array-like
        The batch; anything but an NDArray is first copied to ``ctx_list[0]``.
    ctx_list : sequence of Context
        Where the pieces go.
    batch_axis : int
        The axis to cut.
    even_split : bool
        See :func:`split_data`.

    Returns
    -------
    list of NDArray
        One piece per context, in the order of ``ctx_list``.
    """
    if not isinstance(data, ndarray.NDArray):
        data = ndarray.array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    pieces = split_data(data, len(ctx_list), batch_axis, even_split)
    return [piece.as_in_context(ctx) for piece, ctx in zip(pieces, ctx_list)]


def clip_global_norm(arrays: Sequence[Any], max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale arrays in place so that the 2-norm of them all together is at most ``max_norm``.

    Parameters
    ----------
    arrays : list of NDArray
        Usually gradients. Mutated.
    max_norm : float
        The largest norm allowed.
    check_isfinite : bool
        Read the norm back (this blocks) and warn if it is nan or infinite.

    Returns
    -------
    float or NDArray
        The norm before clipping: a float if ``check_isfinite``, else an NDArray of shape ``(1,)``.

    Examples
    --------
    >>> import mxcore as mx
    >>> gradients = [mx.nd.ones((3, 3)), mx.nd.ones((4, 4))]
    >>> float(mx.gluon.utils.clip_global_norm(gradients, 1.0))
    5.0
    """
    if not arrays:
        raise AssertionError("clip_global_norm needs at least one array, got an empty list.")
    ctx = arrays[0].ctx
    squares = [_sum_of_squares(array).as_in_context(ctx) for array in arrays]
    total = ndarray.sqrt(ndarray.add_n(*squares))
    if check_isfinite:
        norm = total.asscalar()
        if not math.isfinite(norm):
            warnings.warn(
                UserWarning(f"the global norm of the arrays is {norm}, so clipping them is undefined."), stacklevel=2
            )
    # min(1, x) as an operator rather than in Python, so that nothing blocks when check_isfinite is false.
    scale = ndarray.broadcast_minimum(max_norm / (total + 1e-8), ndarray.ones((1,), ctx=ctx, dtype=total.dtype))
    for array in arrays:
        array *= scale.as_in_context(array.ctx)
    return norm if check_isfinite else total


def _sum_of_squares(array: Any) -> Any:
    if array.stype == "default":
        flat = array.reshape((-1,))
        return ndarray.dot(flat, flat)
    return array.norm().square()


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Whether a file's SHA-1 is ``sha1_hash`` (hexadecimal)."""
    digest = hashlib.sha1()
    with open(filename, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == sha1_hash


def replace_file(src: str, dst: str) -> None:
    """Move ``src`` over ``dst`` atomically; on failure remove ``src`` and raise ``OSError``."""
    try:
        os.replace(src, dst)
    except OSError as error:
        try:
            os.remove(src)
        except OSError:
            pass
        raise OSError(f"could not move {src} to {dst}: {error}. The temporary file was removed; try again.") from error


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Fetch a file and return where it lies; does nothing if it is already there.

    The file is written beside its destination and moved there when complete, so a broken download never
    passes for a whole one.

    Parameters
    ----------
    url : str
        What to fetch: ``http``, ``https`` or ``file``.
    path : str, optional
        Destination file or folder. By default the last part of ``url`` in the current folder.
    overwrite : bool
        Fetch even if the file exists.
    sha1_hash : str, optional
        Expected SHA-1. An existing file with another hash is fetched again.
    retries : int
        How many further attempts to make after a failed one.
    verify_ssl : bool
        Check the server's certificate.

    Returns
    -------
    str
        Path of the file.

    Raises
    ------
    MXNetError
        The file could not be fetched, or what came has another hash.
    """
    if path is None:
        fname = url.split("/")[-1]
        if not fname:
            raise AssertionError(f"cannot tell a file name from the URL {url!r}. Pass `path`.")
    else:
        path = os.path.expanduser(path)
        fname = os.path.join(path, url.split("/")[-1]) if os.path.isdir(path) else path
    if retries < 0:
        raise AssertionError(f"retries must be 0 or more, got {retries}.")
    if not verify_ssl:
        warnings.warn(f"fetching {url} without checking the server's certificate (verify_ssl=False).", stacklevel=2)
    if not overwrite and os.path.exists(fname) and (sha1_hash is None or check_sha1(fname, sha1_hash)):
        return fname
    folder = os.path.dirname(os.path.abspath(fname))
    os.makedirs(folder, exist_ok=True)
    for attempt in range(retries + 1):
        try:
            _fetch(url, fname, folder, verify_ssl)
            break
        except OSError as error:  # URLError is one
            if attempt == retries:
                raise MXNetError(
                    f"could not download {url} to {fname} in {attempt + 1} attempts: {error}. Check the network and "
                    f"the address; without a network, put the file at {os.path.abspath(fname)} yourself."
                ) from error
    if sha1_hash and not check_sha1(fname, sha1_hash):
        raise MXNetError(
            f"{fname}, fetched from {url}, does not have the SHA-1 {sha1_hash}. The download may be incomplete or the "
            "file may have changed at its source."
        )
    return fname


def _fetch(url: str, fname: str, folder: str, verify_ssl: bool) -> None:
    # Imported here: they would take a third of the time of `import mxcore.gluon`.
    import shutil
    import ssl
    import tempfile
    import urllib.request

    context = None if verify_ssl else ssl._create_unverified_context()
    descriptor, partial = tempfile.mkstemp(dir=folder, prefix=os.path.basename(fname) + ".")
    try:
        with os.fdopen(descriptor, "wb") as file, urllib.request.urlopen(url, context=context) as response:
            shutil.copyfileobj(response, file, 1 << 20)
    except BaseException:
        os.remove(partial)
        raise
    replace_file(partial, fname)


def _get_repo_url() -> str:
    """Where models and data sets are hosted (``MXNET_GLUON_REPO`` overrides)."""
    url = os.environ.get("MXNET_GLUON_REPO", _DEFAULT_REPOSITORY)
    return url if url.endswith("/") else url + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """The address of one hosted file."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def _indent(text: str, count: int) -> str:
    """Indent every line but the first."""
    return text.replace("\n", "\n" + " " * count)


def _brief_print_list(names: Iterable[Any], limit: int = 7) -> str:
    """Quoted names, the middle left out when there are more than ``limit``."""
    names = list(names)
    if len(names) <= limit:
        return ", ".join(f"'{name}'" for name in names)
    head, tail = names[: limit // 2], names[-(limit - limit // 2) :]
    return f"{_brief_print_list(head)}, ..., {_brief_print_list(tail)}"


class HookHandle:
    """The receipt of a registered hook: :meth:`detach` it, or use it in a ``with`` statement."""

    def __init__(self) -> None:
        self._hooks_dict_ref: Any = None
        self._id: int | None = None

    def attach(self, hooks_dict: collections.OrderedDict[int, Callable], hook: Callable) -> None:
        """Put ``hook`` into ``hooks_dict``. Once per handle."""
        if self._hooks_dict_ref:
            raise AssertionError("this handle already holds a hook; make a new HookHandle for another.")
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks_dict_ref = weakref.ref(hooks_dict)

    def detach(self) -> None:
        """Remove the hook. Doing so twice is harmless."""
        hooks_dict = self._hooks_dict_ref()
        if hooks_dict is not None:
            hooks_dict.pop(self._id, None)

    def __getstate__(self) -> tuple[Any, int | None]:
        return (self._hooks_dict_ref(), self._id)

    def __setstate__(self, state: tuple[Any, int | None]) -> None:
        hooks_dict, self._id = state
        self._hooks_dict_ref = weakref.ref(collections.OrderedDict() if hooks_dict is None else hooks_dict)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.detach()


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Whether every dimension of a shape is known.

    Unknown dimensions are written 0 (MXNet's classic arrays) or -1 (its NumPy arrays); ``()`` and ``None``
    are unknown too, because classic arrays have at least one dimension.

    Examples
    --------
    >>> from mxcore.gluon.utils import shape_is_known
    >>> shape_is_known((2, 3)), shape_is_known((2, 0)), shape_is_known(None)
    (True, False, False)
    """
    return shape is not None and len(shape) > 0 and all(size > 0 for size in shape)
