"""Compute threads of the NumPy library: a small team that shares out the pieces of one large kernel.

Compute threads equal cores, never more: while the team works on a kernel, BLAS runs on one thread, and each member
calls it on its own piece. (OpenBLAS's own threads help a lone product by 1.2 to 1.9 on two cores, but they spin after
each call and slow whatever NumPy does next; in a training step they lose more than they win.)

Pieces depend on shapes only, so results do not depend on how many threads there are. The number of threads is the one
BLAS is set to (``OPENBLAS_NUM_THREADS``, cores) unless the option ``engine.compute_threads`` says otherwise. Where BLAS
is not one whose threads can be set, there is no team and BLAS does what it does.

A kernel that calls :func:`parallel_for` from inside another's piece, or while another thread's kernel has the team,
runs its pieces in its own thread.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import pathlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np

from .. import config
from ..spec import EngineCapability

#: Products of fewer multiplications than this are not worth waking a thread for (a wake costs about 20 microseconds).
_WORTH_SHARING = 3_000_000
#: Arrays of fewer numbers than this are not shared out, and larger ones in stretches of at least so many.
LARGE, STRETCH = 1 << 18, 1 << 17
#: The same for functions that do nothing but move memory or one multiplication a number: those win less.
LARGE_PLAIN = 1 << 20
#: OpenBLAS itself stays on one thread up to here.
_BLAS_ALONE = 262_144


class Blas:
    """The thread setting of the BLAS that NumPy carries; ``found`` is False for one that cannot be set."""

    def __init__(self) -> None:
        self._set, self._get = self._find()
        self.found = self._set is not None
        self._depth = 0
        self._before = 1
        self._lock = threading.Lock()

    @staticmethod
    def _find() -> tuple[Any, Any]:
        root = pathlib.Path(np.__file__).parent
        for folder in (root.parent / "numpy.libs", root / ".libs", root / ".dylibs"):
            for path in sorted(folder.glob("*openblas*")):
                try:
                    library = ctypes.CDLL(str(path))
                except OSError:
                    continue
                for prefix, suffix in itertools.product(("scipy_", ""), ("64_", "")):
                    name = f"{prefix}openblas_{{}}_num_threads{suffix}"
                    if hasattr(library, name.format("set")):
                        return getattr(library, name.format("set")), getattr(library, name.format("get"))
        return None, None

    def threads(self) -> int:
        """How many threads BLAS is set to, apart from what ``with blas`` does now."""
        if not self.found:
            return 1
        with self._lock:
            return int(self._before if self._depth else self._get())

    def __enter__(self) -> None:
        """Put BLAS on one thread until the matching exit; may nest, from several threads."""
        if self.found:
            with self._lock:
                if self._depth == 0:
                    self._before = self._get()
                    if self._before != 1:
                        self._set(1)
                self._depth += 1

    def __exit__(self, *exc: Any) -> None:
        if self.found:
            with self._lock:
                self._depth -= 1
                if self._depth == 0 and self._before != 1:
                    self._set(self._before)


class _Job:
    """Pieces that are being worked on."""

    __slots__ = ("done", "errors", "finished", "fn", "next", "pieces")

    def __init__(self, pieces: list[tuple[int, int]], fn: Callable[[int, int], Any]) -> None:
        self.pieces = pieces
        self.fn = fn
        self.next = itertools.count().__next__  # atomic in CPython: every piece goes to one thread
        self.finished: list[int] = []
        self.errors: list[tuple[int, BaseException]] = []
        self.done: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Take pieces until there are none left."""
        pieces, total = self.pieces, len(self.pieces)
        while True:
            i = self.next()
            if i >= total:
                return
            try:
                if not self.errors:
                    self.fn(*pieces[i])
            except BaseException as e:
                self.errors.append((i, e))
            self.finished.append(i)
            if len(self.finished) == total:
                self.done.put(None)


class Team:
    """Threads that wait for jobs; the caller of a job works too.

    Parameters
    ----------
    threads : int
        Threads that compute, the caller included.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._queues: list[SimpleQueue[_Job]] = []
        self._busy = threading.Lock()

    @property
    def cuts(self) -> bool:
        """Whether products are cut into pieces; one thread leaves them whole to BLAS."""
        return self.threads > 1

    def _start(self) -> None:
        for i in range(self.threads - 1):
            queue: SimpleQueue[_Job] = SimpleQueue()
            self._queues.append(queue)
            threading.Thread(target=self._serve, args=(queue,), name=f"mxcore-compute-{i}", daemon=True).start()

    @staticmethod
    def _serve(queue: SimpleQueue[_Job]) -> None:
        while True:
            job: _Job | None = queue.get()
            job.work()  # type: ignore[union-attr]
            job = None  # the arrays of a finished job must not wait for the next one

    def parallel_for(self, n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
        """Call ``fn(start, stop)`` over pieces of ``range(n)`` of ``grain`` items; raise the earliest piece's error."""
        pieces = [(a, min(a + grain, n)) for a in range(0, n, grain)]
        if len(pieces) < 2 or self.threads < 2 or not self._busy.acquire(blocking=False):
            for a, b in pieces:
                fn(a, b)
            return
        try:
            if not self._queues:
                self._start()
            job = _Job(pieces, fn)
            with blas:
                for queue in self._queues[: len(pieces) - 1]:
                    queue.put(job)
                job.work()
                job.done.get()
        finally:
            self._busy.release()
        if job.errors:
            raise min(job.errors, key=lambda e: e[0])[1]


blas = Blas()
_team: Team | EngineTeam | None = None
_own: Team | None = None  # the team of our own, kept while an engine's workers stand in for it


def team() -> Team | EngineTeam:
    """Return the team of this process, made at first use."""
    global _own, _team
    if _team is None:
        wanted = config.get("engine.compute_threads")
        _team = _own = Team(max(1, wanted or blas.threads()) if blas.found else 1)
    return _team


def parallel_for(n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
    """Share the pieces of ``range(n)`` out to the team; see :meth:`Team.parallel_for`."""
    team().parallel_for(n, grain, fn)


def stretch_for(numbers: int, least: int = 0) -> int:
    """Return how many of so many numbers go in a piece: a quarter of them, once to twice ``least`` (``STRETCH``).

    Longer pieces would leave the cache; shorter ones are many short NumPy calls, whose threads wait for the
    interpreter's lock (measured: half the gain at a quarter of the length).
    """
    least = least or STRETCH
    return min(max(least, numbers // 4), 2 * least)


def elementwise(fn: Callable[..., Any], *arrays: np.ndarray) -> None:
    """Call ``fn(*parts)`` on equal stretches of C-ordered arrays of one shape, shared out where they are large.

    ``fn`` writes into some of its parts; all arrays that it writes are mutated.
    """
    size = arrays[0].size
    if size < LARGE:
        fn(*arrays)
        return
    flat = [a.reshape(-1) for a in arrays]
    parallel_for(size, stretch_for(size), lambda i, j: fn(*[a[i:j] for a in flat]))


def mapped(fn: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """Return ``fn(*arrays)`` of a function of several passes that works element by element on equal arrays.

    Large C-ordered arrays go through it in stretches, shared out, so that its temporaries are small, too. The result
    then has the dtype of the first array.

    Examples
    --------
    >>> mapped(lambda a, b: (a + b) * a, np.full(3, 2.0), np.ones(3)).tolist()
    [6.0, 6.0, 6.0]
    """
    first = arrays[0]
    size = first.size
    if size < LARGE or not all(a.flags.c_contiguous and a.shape == first.shape for a in arrays):
        return fn(*arrays)
    y = np.empty(first.shape, first.dtype)
    to, flat = y.reshape(-1), [a.reshape(-1) for a in arrays]

    def run(i: int, j: int) -> None:
        to[i:j] = fn(*[a[i:j] for a in flat])

    parallel_for(size, stretch_for(size), run)
    return y


def rows(fn: Callable[[int, int], Any], n: int, width: int, least: int = 0) -> None:
    """Call ``fn(start, stop)`` for ``n`` rows of ``width`` numbers: once, or where that is much, in pieces shared out.

    Parameters
    ----------
    least : int
        From how many numbers on the rows are cut into pieces; by default ``LARGE``.
    """
    if n * width < (least or LARGE):
        fn(0, n)
    else:
        parallel_for(n, max(1, stretch_for(n * width) // width), fn)


class EngineTeam:
    """The workers of an engine as the team: those that have nothing else to do help with a kernel's pieces.

    Parameters
    ----------
    engine : Engine
        With :attr:`~mxcore.spec.EngineCapability.PARALLEL_FOR`, and ``threads``, how many threads compute.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @property
    def threads(self) -> int:
        """Threads that compute, the caller included."""
        return self._engine.threads if blas.found else 1

    @property
    def cuts(self) -> bool:
        """Whether products are cut into pieces: also in a forked child with one thread, whose bits are its parent's."""
        return blas.found and (self._engine.threads > 1 or getattr(self._engine, "forked", False))

    def parallel_for(self, n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
        """See :meth:`Team.parallel_for`."""
        if n <= grain or self._engine.threads < 2:
            with blas:
                for a in range(0, n, grain):
                    fn(a, min(a + grain, n))
            return
        self._engine.parallel_for(n, grain, fn)  # in our BLAS scope, which it has as its limit


def scheduled_by(engine: Any) -> None:
    """Use the workers of ``engine`` as the team if it has any, else a team of our own.

    The engine gets our BLAS scope, so that one object decides how many threads BLAS has.
    """
    global _team
    if EngineCapability.PARALLEL_FOR in engine.capabilities and hasattr(engine, "threads"):
        _team = EngineTeam(engine)
        if hasattr(engine, "limit"):
            engine.limit = blas
    elif isinstance(_team, EngineTeam):
        _team = _own  # the one there was: its threads live as long as the process


def _forget() -> None:
    global _own, _team
    _own = None  # a forked child has the queues but not the threads
    if isinstance(_team, Team):
        _team = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _parts(length: int) -> int:
    """Into how many parts a side of a product is cut: a power of two, by its length alone."""
    return 1 if length < 128 else 2 if length < 512 else 1 << ((length // 256).bit_length() - 1)


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return ``a @ b`` of matrices, the longer side of the result shared out where it is worth it.

    Parameters
    ----------
    a, b : numpy.ndarray
        ``(M, K)`` and ``(K, N)``, of one dtype; any strides.
    out : numpy.ndarray or None
        ``(M, N)``; mutated.

    Examples
    --------
    >>> matmul(np.ones((2, 3)), np.ones((3, 1))).tolist()
    [[3.0], [3.0]]
    """
    (m, k), n = a.shape, b.shape[1]
    work = m * n * k
    if work <= _BLAS_ALONE or not team().cuts:
        return np.matmul(a, b, out=out) if out is not None else np.matmul(a, b)
    if work < _WORTH_SHARING:
        with blas:
            return np.matmul(a, b, out=out) if out is not None else np.matmul(a, b)
    y = np.empty((m, n), a.dtype) if out is None else out
    long = max(m, n)
    step = -(-long // _parts(long))
    step += -step % 16
    if m >= n:
        parallel_for(m, step, lambda i, j: np.matmul(a[i:j], b, out=y[i:j]))
    else:
        parallel_for(n, step, lambda i, j: np.matmul(a, b[:, i:j], out=y[:, i:j]))
    return y
