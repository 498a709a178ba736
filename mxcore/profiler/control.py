"""The state of the profiler: configured, running, paused, dumped; one per process.

The lock is held while the state changes and while records are counted, never while a file is written, and a fork
waits for it. A forked child starts stopped and empty: it cannot see the parent's threads and must not write the
parent's file.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import warnings
from typing import Any

from .. import config
from .._files import replacing
from ..config.options import CORE_OPTIONS
from ..spec.errors import ConfigError, MXCoreError
from . import trace
from .recording import Recording
from .statistics import SORT_KEYS, Statistics

_SECTION = "profiler."
#: What ``set_config`` takes: every option of the section but the one that starts it.
_KEYWORDS = tuple(
    record.name.removeprefix(_SECTION)
    for record in CORE_OPTIONS
    if record.name.startswith(_SECTION) and record.name != f"{_SECTION}autostart"
)
_FUNCTION_EVENTS = ("push", "begin", "end")
_WAIT_EVENTS = ("wait", "wait_end")
_MEMORY_EVENTS = ("alloc", "free")

#: Continuous dumping takes at most this part of the time.
_DUMP_SHARE = 0.05


class Profiler:
    """Settings, state, the current recording and the statistics. May be used from any thread."""

    def __init__(self) -> None:
        self._hooked = False
        self._settings: dict[str, Any] | None = None
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._running = self._paused = self._keep_at_exit = False
        self._recording: Recording | None = None
        self._finished = False
        self._written = 0
        self._statistics = Statistics()
        self._stop_dumping: threading.Event | None = None
        #: Read on every start of an object, hence an attribute of its own.
        self.active: Recording | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in force: those of ``set_config``, or of the options."""
        if self._settings is None:
            self._settings = _settings({})
        return self._settings

    def configure(self, keywords: dict[str, Any]) -> None:
        settings = _settings(keywords)
        moved = settings["filename"] != self.settings["filename"]
        if moved and self._unwritten() and self.settings["continuous_dump"]:
            self.dump(finished=False)
        with self._lock:
            self._settings = settings
            if moved and self._recording is not None:
                self._begin_anew()
            self._apply()

    def run(self) -> None:
        with self._lock:
            self._hook()
            if self._recording is None or self._finished:
                self._begin_anew()
            self._running, self._paused = True, False
            self._apply()

    def stop(self) -> None:
        with self._lock:
            self._running = False
            self._apply()

    def pause(self, paused: bool) -> None:
        with self._lock:
            self._paused = paused
            self._apply()

    def keep_at_exit(self) -> None:
        """Write the file when the program ends, whatever ``continuous_dump`` says."""
        self._keep_at_exit = True

    def dump(self, finished: bool) -> None:
        with self._lock:
            recording = self._recording
            if recording is None or self._finished:
                raise MXCoreError(
                    "profiler.dump: there is nothing to write, because the profiler has not run"
                    + (" since it was dumped with finished=True" if self._finished else "")
                    + ". Call profiler.set_state('run') before the work to be profiled."
                )
            filename = self.settings["filename"]
            if finished:
                self.stop()
                self._finished = True
            self._written = len(recording.records)
        with self._writing, replacing(filename, text=True) as stream:
            for line in trace.lines(recording):
                stream.write(line)
                stream.write("\n")

    def dumps(self, reset: bool, format: str, sort_by: str, ascending: bool) -> str:
        with self._lock:
            statistics = self._statistics
            if self._recording is not None:
                statistics.fold(self._recording)
            make = statistics.as_json if format == "json" else statistics.as_table
            text = make(sort_by, ascending)
            if reset:
                statistics.clear()
        return text

    # -- inside, lock held -------------------------------------------------------------------------------------

    def _begin_anew(self) -> None:
        if self._recording is not None:
            self._recording.unlisten()
            self._statistics.fold(self._recording)
        self._recording = Recording(self.settings["max_events"])
        self._finished = False
        self._written = 0

    def _apply(self) -> None:
        """Make listeners and the dumping thread fit the state."""
        listening = self._running and not self._paused and self._recording is not None
        if self._recording is not None:
            if listening:
                self._recording.listen(_events(self.settings))
            else:
                self._recording.unlisten()
        self.active = self._recording if listening else None
        if self._stop_dumping is not None:
            self._stop_dumping.set()
            self._stop_dumping = None
        if self._running and self.settings["continuous_dump"]:
            self._stop_dumping = threading.Event()
            threading.Thread(
                target=self._dump_again_and_again,
                args=(self._stop_dumping, self.settings["dump_period"]),
                name="mxcore-profiler",
                daemon=True,
            ).start()

    def _unwritten(self) -> bool:
        recording = self._recording
        return recording is not None and not self._finished and len(recording.records) > self._written

    # -- without being asked -----------------------------------------------------------------------------------

    def _dump_again_and_again(self, stopped: threading.Event, period_s: float) -> None:
        wait_s = period_s
        while not stopped.wait(wait_s):
            begin = time.monotonic()
            try:
                with self._lock:
                    if stopped.is_set() or not self._unwritten():
                        continue
                self.dump(finished=False)
            except Exception:
                if not stopped.is_set():
                    import logging  # only failures pay for it

                    logging.getLogger("mxcore.profiler").exception(
                        "continuous dumping to %r failed and ends", self.settings["filename"]
                    )
                return
            wait_s = max(period_s, (time.monotonic() - begin) / _DUMP_SHARE)

    def _hook(self) -> None:
        if self._hooked:
            return
        self._hooked = True
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork_in_child
            )

    def _at_exit(self) -> None:
        if self._unwritten() and (self._keep_at_exit or self.settings["continuous_dump"]):
            self.dump(finished=True)

    def _before_fork(self) -> None:
        self._lock.acquire()

    def _after_fork(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        if self._recording is not None:
            self._recording.unlisten()
        self._reset()


def _settings(keywords: dict[str, Any]) -> dict[str, Any]:
    """Every setting: the keyword, or the option's value."""
    for name in keywords:
        if name == "profile_process":
            _check_process("set_config", keywords[name])
        elif name == "gpu_memory_profile_filename_prefix":
            raise ConfigError(
                "profiler.set_config: there is no memory profile of GPUs as a table of its own. Leave out "
                f"{name}; profile_memory=True draws the memory of every device into the timeline.",
                option=name,
            )
        elif name not in _KEYWORDS:
            closest = config.did_you_mean(name, _KEYWORDS)
            raise ConfigError(
                f"profiler.set_config: unknown keyword '{name}'. "
                + (f"Did you mean '{closest}'? " if closest else "")
                + f"Keywords: {', '.join((*_KEYWORDS, 'profile_process'))}.",
                option=name,
            )
    settings: dict[str, Any] = {}
    for name in _KEYWORDS:
        value = keywords.get(name)
        if name == "filename" and value is not None:
            value = os.fspath(value)
        settings[name] = config.explain(_SECTION + name, value).value
    for name in ("dump_period", "max_events"):
        if settings[name] <= 0:
            raise ConfigError(
                f"profiler.set_config: {name} is {settings[name]}. Give a number greater than 0.",
                option=_SECTION + name,
                value=settings[name],
            )
    return settings


def _events(settings: dict[str, Any]) -> tuple[str, ...]:
    everything = settings["profile_all"]
    events: tuple[str, ...] = ()
    if everything or settings["profile_imperative"] or settings["profile_symbolic"]:
        events += _FUNCTION_EVENTS
    if everything or settings["profile_api"]:
        events += _WAIT_EVENTS
    if everything or settings["profile_memory"]:
        events += _MEMORY_EVENTS
    return events


def _check(function: str, name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            f"profiler.{function}: {name} is {value!r}. Give {' or '.join(map(repr, choices))}.",
            option=name,
            value=value,
        )


def _check_process(function: str, profile_process: str) -> None:
    _check(function, "profile_process", profile_process, ("worker", "server"))
    if profile_process == "server":
        raise MXCoreError(
            f"profiler.{function}: profile_process='server' asks to profile the server process of a distributed "
            "key-value store, and there is none. Profile this process with profile_process='worker'."
        )


_profiler = Profiler()


def active_recording() -> Recording | None:
    """Where the program's own tasks, counters and markers go; None while nothing is recorded."""
    return _profiler.active


def autostart() -> None:
    """Start if the option ``profiler.autostart`` says so; the file is written when the program ends."""
    if config.get(f"{_SECTION}autostart"):
        _profiler.keep_at_exit()
        _profiler.run()


def set_config(**kwargs: Any) -> None:
    """Configure the profiler. What is not given gets the value of its option (its default), as in MXNet.

    A new ``filename`` starts a new record.

    Parameters
    ----------
    filename : str or path-like
        Where :func:`dump` writes; ``'profile.json'``.
    profile_all : bool
        Everything below. False.
    profile_symbolic, profile_imperative : bool
        Functions that the engine or dispatch runs; either of them means all functions. True.
    profile_memory : bool
        Buffers that storage managers hand out. True.
    profile_api : bool
        Waits of the program for the engine. True.
    continuous_dump : bool
        Write the file every ``dump_period`` seconds while running, and when the program ends. False (MXNet: True);
        it takes a twentieth of the time at most.
    dump_period : float
        Seconds. 1.0.
    aggregate_stats : bool
        Accepted for MXNet's sake: :func:`dumps` always works, its numbers are made when asked for.
    max_events : int
        How many events the record holds; later ones are counted and dropped. 1000000.
    profile_process : {'worker'}
        ``'server'`` is refused: there are no server processes.

    Raises
    ------
    ConfigError
        If a keyword does not exist or a value cannot be.
    MXCoreError
        If a server is to be profiled.
    """
    _profiler.configure(kwargs)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start or stop recording. Does not wait for what is under way: call ``mx.nd.waitall()`` before stopping.

    Parameters
    ----------
    state : {'run', 'stop'}
        ``'run'`` goes on with the record, or starts one after a finished :func:`dump`; it ends a pause.
    profile_process : {'worker'}

    Raises
    ------
    ConfigError
        For another state.
    """
    _check("set_state", "state", state, ("run", "stop"))
    _check_process("set_state", profile_process)
    if state == "run":
        _profiler.run()
    else:
        _profiler.stop()


def pause(profile_process: str = "worker") -> None:
    """Record nothing until :func:`resume` or the next ``set_state('run')``."""
    _check_process("pause", profile_process)
    _profiler.pause(True)


def resume(profile_process: str = "worker") -> None:
    """End a pause. Nothing is recorded if the profiler is stopped."""
    _check_process("resume", profile_process)
    _profiler.pause(False)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the record to the configured file, replacing it as a whole. Blocks until it is on disk.

    Does not wait for work under way; functions that have not ended are written as unfinished.

    Parameters
    ----------
    finished : bool
        Stop profiling; the next ``set_state('run')`` starts a new record. Otherwise the record goes on, and the next
        dump writes all of it again.
    profile_process : {'worker'}

    Raises
    ------
    MXCoreError
        If the profiler has not run since the last finished dump.
    OSError
        If the file cannot be written; an old file is left as it was.
    """
    _check_process("dump", profile_process)
    _profiler.dump(bool(finished))


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """Return counts and times by name, of everything recorded since the last reset.

    Parameters
    ----------
    reset : bool
        Start counting anew afterwards. The record that :func:`dump` writes stays.
    format : {'table', 'json'}
    sort_by : {'total', 'avg', 'min', 'max', 'count'}
        Order within each category. Memory and counters have no total; they are sorted by their maximum then.
    ascending : bool

    Returns
    -------
    str
        JSON has ``Time`` (category, name, then ``Count``, ``Total``, ``Min``, ``Max``, ``Avg`` in ms), ``Memory``
        (live bytes of each device since profiling started, in kB), ``Counter``, ``Unit``, ``Failed`` (functions that
        ended with an error) and ``Dropped`` (events there was no room for).

    Raises
    ------
    ConfigError
        If an argument is none of the above.
    """
    _check("dumps", "format", format, ("table", "json"))
    _check("dumps", "sort_by", sort_by, tuple(SORT_KEYS))
    _check("dumps", "ascending", ascending, (False, True))
    _check("dumps", "reset", reset, (False, True))
    return _profiler.dumps(bool(reset), format, sort_by, bool(ascending))


def set_kvstore_handle(handle: Any) -> None:
    """Accept the handle of a distributed key-value store, and do nothing with it.

    MXNet sends commands for ``profile_process='server'`` through it. There are no server processes here, and every
    function that takes ``profile_process`` refuses ``'server'``.
    """


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Old name of :func:`set_config`; ``mode`` is ``'symbolic'``, ``'imperative'``, ``'api'``, ``'memory'`` or ``'all'``."""
    _deprecated("profiler_set_config", "set_config")
    set_config(**{f"profile_{mode}": True, "filename": filename})


def profiler_set_state(state: str = "stop") -> None:
    """Old name of :func:`set_state`."""
    _deprecated("profiler_set_state", "set_state")
    set_state(state)


def dump_profile() -> None:
    """Old name of :func:`dump`."""
    _deprecated("dump_profile", "dump")
    dump(True)


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"profiler.{old} is deprecated. Use profiler.{new}.", DeprecationWarning, stacklevel=3)
