"""One backend that could be chosen, its state, and the record of what went wrong with it.

::

    discovered ─> blocked | incompatible | failed(stage) | registered ─> unavailable | available ─> active
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..spec.records import BackendRecord
from .discovery import EntryPoint


class State(enum.Enum):
    """How far a candidate got."""

    DISCOVERED = "discovered"  #: named by metadata, nothing imported
    BLOCKED = "blocked"  #: the user does not want it imported
    INCOMPATIBLE = "incompatible"  #: written for another contract version
    FAILED = "failed"  #: see the failure's stage
    REGISTERED = "registered"  #: imported; its light record is known
    UNAVAILABLE = "unavailable"  #: sound, but says it cannot be used here
    AVAILABLE = "available"  #: says it can be used here
    ACTIVE = "active"  #: created


class Stage(enum.Enum):
    """Where a plugin failed."""

    METADATA = "metadata"
    IMPORT = "import"
    REGISTER = "register"
    PROBE = "probe"
    CREATE = "create"


class LoadError(Exception):
    """A stage of loading failed; ``error`` is what was raised there."""

    def __init__(self, stage: Stage, error: BaseException) -> None:
        super().__init__(stage.value)
        self.stage = stage
        self.error = error


@contextmanager
def guard(stage: Stage) -> Iterator[None]:
    """Turn whatever a plugin raises into :class:`LoadError`."""
    try:
        yield
    except (KeyboardInterrupt, LoadError):
        raise
    except BaseException as error:  # SystemExit, GeneratorExit, C extensions' own
        raise LoadError(stage, error) from error


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with a plugin, kept for whoever asks.

    Attributes
    ----------
    stage : Stage
    error : BaseException
        The original exception.
    trace : str
        Its traceback as text.
    distribution, version : str
    remedy : str
        What to do, as a sentence.
    """

    stage: Stage
    error: BaseException
    trace: str
    distribution: str
    version: str
    remedy: str

    @property
    def summary(self) -> str:
        """The exception in one line.

        Examples
        --------
        >>> Failure(Stage.IMPORT, ImportError("no lib"), "", "d", "1", "").summary
        'ImportError: no lib'
        """
        text = " ".join(str(self.error).split())
        return f"{type(self.error).__name__}: {text}" if text else type(self.error).__name__

    @classmethod
    def of(cls, candidate: Candidate, stage: Stage, error: BaseException, remedy: str) -> Failure:
        """The record of ``error``, which ``candidate`` raised."""
        import traceback  # only failures need it

        trace = "".join(traceback.format_exception(error))
        return cls(stage, error, trace, candidate.distribution, candidate.version, remedy)


@dataclass(slots=True, eq=False)
class Candidate:
    """One name of one kind that one distribution provides.

    Attributes
    ----------
    source : EntryPoint or None
        The metadata it came from; None for built-ins and what the program registered.
    record : BackendRecord or None
        Known once registered.
    reason, hint : str
        Why it is blocked or unavailable, and what would help.
    """

    kind: str
    name: str
    distribution: str
    version: str
    source: EntryPoint | None = None
    record: BackendRecord | None = None
    state: State = State.DISCOVERED
    failure: Failure | None = None
    reason: str = ""
    hint: str = ""
    contributions: list[Any] = field(default_factory=list)
    loading: bool = False

    @property
    def qualified(self) -> str:
        """The name that no other distribution can take: ``'dist:name'``."""
        return f"{self.distribution}:{self.name}"

    @property
    def builtin(self) -> bool:
        """Whether it needs no installed metadata."""
        return self.source is None

    def serves(self, device_type: str | None) -> bool:
        """Whether it is for devices of this type (always, if its record names none)."""
        types = self.record.device_types if self.record else frozenset()
        return device_type is None or not types or device_type in types


def check_record(record: BackendRecord) -> str:
    """What is wrong with the fields of a record; empty if nothing."""
    if not isinstance(record.name, str) or not record.name or set(record.name) & set(" :,=\t\n"):
        return "its name has to be a word without blanks, ':', ',' or '='"
    api = record.api
    if not (isinstance(api, tuple) and len(api) == 2 and all(isinstance(number, int) for number in api)):
        return f"its api is {api!r} instead of (major, minor)"
    if not callable(record.factory):
        return "its factory cannot be called"
    if not callable(record.available):
        return "its available cannot be called"
    if isinstance(record.device_types, str):
        return "its device_types is a string instead of a frozenset of strings"
    return ""
