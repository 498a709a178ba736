"""What surrounds a test: retries, environment variables, silence, dummy input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import io as _io
from .. import ndarray as nd


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Decorator: run a test up to `n` times until no ``AssertionError`` is raised."""
    if n <= 0:
        raise AssertionError(f"retry: n must be positive, got {n}.")

    def decorate(f: Callable[..., Any]) -> Callable[..., None]:
        def wrapper(*args: Any, **kwargs: Any) -> None:
            for left in reversed(range(n)):
                try:
                    f(*args, **kwargs)
                    return
                except AssertionError:
                    if not left:
                        raise
                    nd.waitall()

        wrapper.__name__ = getattr(f, "__name__", "wrapper")
        return wrapper

    return decorate


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Set environment variables within a ``with`` block; a value of None removes one.

    Parameters
    ----------
    *args
        A name and a value, or a dict of them.

    Examples
    --------
    >>> import os
    >>> with environment("MXCORE_EXAMPLE", "1"):
    ...     os.environ["MXCORE_EXAMPLE"]
    '1'
    >>> "MXCORE_EXAMPLE" in os.environ
    False
    """
    if len(args) == 1 and isinstance(args[0], dict):
        wanted = args[0]
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise AssertionError("Expecting one dict arg or two args: env var name and value")

    def apply(values: dict[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    before = {name: os.environ.get(name) for name in wanted}
    apply(wanted)
    try:
        yield
    finally:
        nd.waitall()
        apply(before)


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Throw away what is written to the standard error stream, by other languages' libraries too."""
    numbers = {2}
    try:
        numbers.add(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # replaced by an object without a file
        pass
    saved = {number: os.dup(number) for number in numbers}
    try:
        with open(os.devnull, "w") as nothing:
            for number in numbers:
                os.dup2(nothing.fileno(), number)
        yield
    finally:
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


class DummyIter(_io.DataIter):
    """Gives the first batch of another iterator for ever, to time everything but the reading of data.

    Parameters
    ----------
    real_iter : DataIter
        The other iterator.
    """

    def __init__(self, real_iter: Any) -> None:
        super().__init__()
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(real_iter)

    def __iter__(self) -> DummyIter:
        return self

    def next(self) -> Any:
        return self.the_batch
