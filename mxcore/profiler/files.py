"""Replacing a file in one step: a reader sees the old or the new content, never half."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import Any, TextIO


@contextlib.contextmanager
def replacing(path: Any) -> Iterator[TextIO]:
    """Open a text stream whose content replaces ``path`` when the block ends without an exception.

    Blocks until the content is on disk. After an exception the old file stands and nothing is left beside it.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = os.path.realpath(os.fspath(path))
    folder, base = os.path.split(target)
    temporary = os.path.join(folder, f".{base}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "x", encoding="utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
