"""What executions cost: learned while programs run, kept from one run to the next.

Promises: a wrong, missing or hostile table changes predictions and nothing else; reading or writing the file never
raises; nothing here takes a lock or waits for a thread, so it may be called from finalizers, signal handlers and forked
children. Racing threads may lose a sample or a table entry, never corrupt one.

The model is StarPU's history (drop the first sample, trust from ten) with a windowed median in place of its mean: the
median ignores one-off outliers and follows a lasting change after half a window, so there is no error counter to flush.

An engine asks for the estimate of a key once, keeps it, and times an execution only when the estimate wants it::

    if estimate.countdown > 0:
        estimate.countdown -= 1
        run()
    else:
        start = perf_counter_ns()
        run()  # if it raises, record nothing
        estimate.record(perf_counter_ns() - start)

Compare with ``> 0``: two threads may both take the last step, and a plain truth test would then count down for ever.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import sys
from collections.abc import Hashable, Iterator
from typing import Any

__all__ = ["CostTable", "Estimate", "default_path", "fingerprint"]

WINDOW = 15  #: samples in the median
TRUST = 10  #: samples from which a median is believed
PERIOD = 16  #: one in so many executions of a trusted estimate is timed
FORMAT = 1
MAX_FILE_BYTES = 8 << 20
MAX_NS = 24 * 3600 * 10**9
_MAX_INT = 2**63 - 1
_MAX_DEPTH = 16  # of tuples within a key
_DISTRIBUTION = "mxcore-engine-threaded"
_SCALARS = frozenset((str, int, bool, type(None)))

_Row = tuple[Hashable, int, int]  # key, ns, samples


class Estimate:
    """What is known about the cost of one key.

    Attributes
    ----------
    key : hashable
    ns : int
        Predicted duration in nanoseconds; 0 while it is not trusted.
    samples : int
        How many executions were recorded, the dropped first one aside.
    countdown : int
        Executions still to pass before the next one is timed. The caller decrements it; see the module.

    Examples
    --------
    >>> estimate = Estimate(("dot", (64, 64)))
    >>> for ns in [90_000, *[1_000] * 10]:
    ...     estimate.record(ns)
    >>> estimate
    Estimate(('dot', (64, 64)), ns=1000, samples=10)
    >>> estimate.hungry
    False
    """

    __slots__ = ("_age", "_window", "countdown", "key", "ns", "samples")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.ns = 0
        self.samples = 0
        self.countdown = 0
        self._window: list[int] | None = None  # made at the first sample, which is dropped
        self._age = 1  # sweeps of the table since the last use; 0 is used since

    @property
    def hungry(self) -> bool:
        """Whether the next execution should be timed."""
        return self.countdown <= 0

    def record(self, ns: int) -> None:
        """Add the duration of one execution. Any thread; never blocks."""
        self._age = 0
        window = self._window
        if window is None:  # the first execution pays for cold caches and lazy loading
            self._window = [0] * WINDOW
            return
        if ns < 1:  # a coarse clock
            ns = 1
        count = self.samples
        window[count % WINDOW] = ns  # before the count: who sees the count sees the sample
        count += 1
        self.samples = count
        if count >= WINDOW:  # sorting so few takes less time than finding out whether it is needed
            self.ns = median = sorted(window)[WINDOW // 2]
        elif count >= TRUST:
            self.ns = median = sorted(window[:count])[(count - 1) // 2]
        else:
            return
        # Far from what was predicted: an outlier, or a lasting change that the next samples should confirm at once.
        self.countdown = 0 if ns > 2 * median or 2 * ns < median else PERIOD - 1

    def _adopt(self, ns: int, samples: int) -> None:
        """Take over what an earlier process learned; believed at once, outvoted by half a window of new samples."""
        self._window = [ns] * WINDOW
        self.samples = samples
        self.ns = ns
        self.countdown = 1  # the first execution in a process is no measure; the second one checks

    def __repr__(self) -> str:
        return f"Estimate({self.key!r}, ns={self.ns}, samples={self.samples})"


class CostTable:
    """The estimates of a process, bounded in number, kept in a file.

    A table that would outgrow its capacity drops the least recently used sixteenth; both asking for an estimate and
    recording into it count as use. Whoever holds a dropped estimate may go on using it; it is no longer saved.

    Iterating yields the estimates in memory. Neither that nor ``len`` reads the file.

    Parameters
    ----------
    path : str, path-like or None
        The file, read at the first :meth:`estimate`. None keeps everything in memory.
    capacity : int
        The most estimates held.
    fingerprint : str or None
        Whose costs these are; a file with another one is left aside. None is :func:`fingerprint`.

    Examples
    --------
    >>> table = CostTable()
    >>> table.estimate(("relu", (2, 3))) is table.estimate(("relu", (2, 3)))
    True
    >>> len(table)
    1
    """

    __slots__ = ("_capacity", "_entries", "_fingerprint", "_loaded", "_save_failed", "_saved", "path")

    def __init__(
        self, path: str | os.PathLike[str] | None = None, capacity: int = 4096, fingerprint: str | None = None
    ) -> None:
        if capacity < 1:
            raise ValueError(f"CostTable: capacity is {capacity}; it must be at least 1")
        self.path = None if path is None else os.fspath(path)
        self._capacity = capacity
        self._fingerprint = fingerprint
        self._entries: dict[Hashable, Estimate] = {}
        self._loaded = path is None
        self._save_failed = False
        self._saved: int | None = None  # hash of the rows known to be in the file

    def estimate(self, key: Hashable) -> Estimate:
        """Return the estimate of ``key``, made when it is new. The first call reads the file.

        Parameters
        ----------
        key : hashable
            Tuples of str, int, bool, None and such tuples are kept in the file; any other key in memory only.
        """
        found = self._entries.get(key)
        if found is None:
            return self._create(key)
        found._age = 0
        return found

    def _create(self, key: Hashable) -> Estimate:
        if not self._loaded:
            self.load()
            if key in self._entries:
                return self.estimate(key)
        if len(self._entries) >= self._capacity:  # before the insertion: the new one has to stay
            self._sweep(self._capacity - max(1, self._capacity // 16))
        return self._entries.setdefault(key, Estimate(key))

    def _sweep(self, keep: int) -> None:
        """Age all estimates and drop the least recently used ones until ``keep`` are left."""
        # dict.copy, setdefault and pop are each one step for other threads, also without a GIL.
        estimates = _by_use(self._entries)
        for estimate in estimates[: max(0, len(estimates) - keep)]:
            self._entries.pop(estimate.key, None)
        for estimate in estimates:
            estimate._age += 1

    def clear(self) -> None:
        """Forget everything, including what the file would bring; the next :meth:`save` empties the file."""
        self._loaded = True
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self._entries.copy().values())

    # ---- the file -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file now and add what it knows; what this process has learned already stays.

        Never raises on account of the file: one that is damaged, of a newer format, too large or unreadable is left
        aside with a warning in the log ``mxcore.engine``, one that is missing or another machine's silently.
        """
        self._loaded = True  # first: another thread need not read it too
        if self.path is None:
            return
        try:
            text = _read(self.path)
            rows = None if text is None else _parse(text, self._whose())
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            _warn(
                "the cost table '%s' is ignored: %s. Costs are learned anew; the next save replaces the file.",
                self.path,
                _reason(error),
            )
            return
        if rows is None:
            return
        self._saved = hash(frozenset(rows))
        for key, ns, samples in rows[-self._capacity :]:  # the most recently used ones come last
            estimate = self._entries.setdefault(key, Estimate(key))
            if not estimate.ns:
                estimate._adopt(ns, samples)
        if len(self._entries) > self._capacity:
            self._sweep(self._capacity)

    def save(self) -> bool:
        """Replace the file by the trusted estimates of this table. Blocks for the disk.

        Atomic: readers see the old file or the new one, whatever happens in between. Nothing is merged: of several
        processes that save, the last one wins. A table that has nothing new to say is not written.

        Returns
        -------
        bool
            Whether the file was written. A disk that is full or read-only is a warning in the log
            ``mxcore.engine``, once for each table.
        """
        if self.path is None or not self._loaded:
            return False
        rows = _rows(_by_use(self._entries))
        known = hash(frozenset(rows))
        try:
            if known == self._saved and os.path.exists(self.path):
                return False
            _write(self.path, _format(rows, self._whose()))
        except (OSError, ValueError) as error:  # ValueError: a path that no file can have
            if not self._save_failed:
                self._save_failed = True
                _warn(
                    "the cost table '%s' cannot be saved: %s. Costs are kept until this process ends; make the folder "
                    "writable, or choose another one.",
                    self.path,
                    _reason(error),
                )
            return False
        self._saved = known
        return True

    def _whose(self) -> str:
        if self._fingerprint is None:
            self._fingerprint = fingerprint()
        return self._fingerprint


def _by_use(entries: dict[Hashable, Estimate]) -> list[Estimate]:
    """The estimates, least recently used first. (Sorting is stable: of equal age, the older entry.)"""
    return sorted(entries.copy().values(), key=lambda estimate: -estimate._age)


# ---- the file's text: JSON, one estimate a line -----------------------------------------------------------------------


def _rows(estimates: list[Estimate]) -> list[_Row]:
    """What of the estimates is worth keeping, and can be."""
    return [
        (estimate.key, min(estimate.ns, MAX_NS), min(estimate.samples, _MAX_INT))
        for estimate in estimates
        if estimate.ns and estimate.samples >= TRUST and _storable(estimate.key)
    ]


def _format(rows: list[_Row], whose: str) -> str:
    """The text of a file; of more rows than it may hold, the last ones."""
    import json

    encode = json.JSONEncoder(separators=(",", ":")).encode
    head = f'{{"format":{FORMAT},"fingerprint":{encode(whose)},"entries":[\n'
    lines = [encode(row) for row in rows]
    room = MAX_FILE_BYTES - len(head) - 4
    first = len(lines)
    while first and room >= len(lines[first - 1]) + 2:  # in bytes: the text is ASCII
        first -= 1
        room -= len(lines[first]) + 2
    return head + ",\n".join(lines[first:]) + "\n]}\n"


def _storable(key: Any, depth: int = 0) -> bool:
    if isinstance(key, tuple):
        return depth < _MAX_DEPTH and all(_storable(item, depth + 1) for item in key)
    return key is None or isinstance(key, str) or (isinstance(key, int) and -_MAX_INT <= key <= _MAX_INT)


def _parse(text: str, whose: str) -> list[_Row] | None:
    """The checked rows of a file, None for another machine's; ValueError says what is wrong with it."""
    import json

    try:
        table = json.loads(text, parse_int=_integer, parse_float=_refuse, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is damaged ({error})") from error
    if not isinstance(table, dict):
        raise ValueError(f"it holds a {type(table).__name__} instead of an object")
    version = table.get("format")
    if type(version) is not int or version < 1:
        raise ValueError(f"its format is {str(version)[:40]!r} instead of a number")
    if version > FORMAT:
        raise ValueError(f"it has format {version}, newer than the format {FORMAT} that this version reads")
    if not isinstance(table.get("fingerprint"), str):
        raise ValueError("it does not say whose costs it holds")
    if table["fingerprint"] != whose:
        return None
    entries = table.get("entries")
    if not isinstance(entries, list):
        raise ValueError("it has no list of entries")
    return [_row(number, entry) for number, entry in enumerate(entries)]


def _row(number: int, entry: Any) -> _Row:
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError(f"its entry {number} is not of the form [key, ns, samples]")
    key, ns, samples = entry
    if type(ns) is not int or not 1 <= ns <= MAX_NS:
        raise ValueError(f"the duration of its entry {number} is not a number from 1 to {MAX_NS} nanoseconds")
    if type(samples) is not int or not TRUST <= samples <= _MAX_INT:
        raise ValueError(f"the samples of its entry {number} are not a number from {TRUST} to {_MAX_INT}")
    return _key(number, key), ns, samples


def _key(number: int, value: Any, depth: int = 0) -> Hashable:
    if type(value) in _SCALARS:
        return value
    if type(value) is list and depth < _MAX_DEPTH:
        # Scalars are passed here and not by a call: most of the time of loading is spent here.
        return tuple([item if type(item) in _SCALARS else _key(number, item, depth + 1) for item in value])
    raise ValueError(f"the key of its entry {number} is not built of lists, strings and integers")


def _integer(digits: str) -> int:
    if len(digits) > 20:  # conversion takes quadratic time
        raise ValueError("it holds a number that is too large")
    number = int(digits)
    if not -_MAX_INT <= number <= _MAX_INT:
        raise ValueError("it holds a number that is too large")
    return number


def _refuse(number: str) -> Any:
    raise ValueError(f"it holds {number[:40]}, which is not an integer")


# ---- effects --------------------------------------------------------------------------------------------------------


def _read(path: str) -> str | None:
    """The text of a file, None if there is none."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its other end
            raise ValueError("it is not a regular file")
        with open(path, "rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is damaged ({error})") from error


def _write(path: str, text: str) -> None:
    """Replace a file in one step, or leave it as it is and raise. What is no file (``/dev/null``, a pipe) is never replaced."""
    if os.path.lexists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file ('none' keeps costs nowhere)")
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, mode=0o700, exist_ok=True)
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(6).hex()}.tmp")
    # O_BINARY, where there is one: the newlines are meant as they are.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(text.encode("ascii"))
            stream.flush()
            os.fsync(stream.fileno())  # a crash after the rename must not leave an empty file
        os.replace(temporary, path)
    except BaseException:  # also Ctrl-C
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _warn(message: str, *values: Any) -> None:
    import logging

    logging.getLogger("mxcore.engine").warning(message, *values)


def default_path(whose: str | None = None) -> str | None:
    """Where this user keeps the costs of this machine and these versions; None for a user without a home.

    Parameters
    ----------
    whose : str or None
        The fingerprint; None is :func:`fingerprint`.
    """
    import zlib

    environ = os.environ
    if sys.platform == "win32":
        folder = os.path.join(environ.get("LOCALAPPDATA") or "~\\AppData\\Local", "mxcore", "Cache")
    elif sys.platform == "darwin":
        folder = "~/Library/Caches/mxcore"
    else:
        base = environ.get("XDG_CACHE_HOME", "")
        folder = os.path.join(base if os.path.isabs(base) else "~/.cache", "mxcore")
    folder = os.path.expanduser(folder)
    if not os.path.isabs(folder):
        return None
    code = zlib.crc32((fingerprint() if whose is None else whose).encode("utf-8", "replace"))
    return os.path.join(folder, f"costs-{code:08x}.json")  # the file holds the whole fingerprint: a clash is seen


@functools.cache
def fingerprint() -> str:
    """What costs depend on besides their key: the machine, and the versions of what runs on it."""
    import platform

    free_threaded = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else " free-threaded"
    return "; ".join(
        (
            f"{platform.system()} {platform.machine()}",
            _processor() or "unknown processor",
            f"{os.cpu_count()} cpus",
            f"{platform.python_implementation()} {platform.python_version()}{free_threaded}",
            *(f"{name} {_version(name)}" for name in ("numpy", "mxcore", _DISTRIBUTION)),
        )
    )


def _processor() -> str:
    """The processor's model. (``platform.processor()`` may start a program to find out, and seldom does.)"""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            start = stream.read(1 << 14)  # one processor's paragraph; machines may have hundreds
    except OSError:
        return os.environ.get("PROCESSOR_IDENTIFIER", "")
    for line in start.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Hardware", "cpu model", "CPU part"):
            return value.strip()
    return ""


def _version(distribution: str) -> str:
    # What is imported knows its version; importing the reader of metadata takes tens of milliseconds.
    loaded = getattr(sys.modules.get(distribution.replace("-", "_")), "__version__", None)
    if isinstance(loaded, str):
        return loaded
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"
