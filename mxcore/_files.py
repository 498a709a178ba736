"""Replacing a file in one step: a reader sees the old or the new content, never half, whatever fails meanwhile."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def replacing(path: Any, *, text: bool = False) -> Iterator[Any]:
    """Open a stream whose content replaces ``path`` when the block ends without an exception.

    Blocks until the content is on disk. After an exception the old file stands and nothing is left beside it. Links
    are followed, and permissions kept. What is not a regular file (a pipe, a device) is written to directly, since it
    cannot be replaced.

    Parameters
    ----------
    path : str or path-like
    text : bool
        Open a text stream (UTF-8) rather than a binary one.

    Raises
    ------
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "x.txt")
    ...     with replacing(path, text=True) as stream:
    ...         _ = stream.write("whole")
    ...     with open(path) as stream:
    ...         stream.read(), os.listdir(folder)
    ('whole', ['x.txt'])
    """
    target = os.path.realpath(os.fspath(path))
    kind, encoding = ("t", "utf-8") if text else ("b", None)
    mode = os.stat(target).st_mode if os.path.exists(target) else None
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "w" + kind, encoding=encoding) as stream:
            yield stream
        return
    folder, base = os.path.split(target)
    temporary = os.path.join(folder, f".{base}.{os.urandom(8).hex()}.part")
    try:
        with open(temporary, "x" + kind, encoding=encoding) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if os.name == "posix":
        # The rename itself must survive a power cut, too.
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
