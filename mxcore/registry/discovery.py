"""What the installed distributions declare: entry points of our groups, read from metadata, nothing imported.

Ordinary installations (metadata folders on ``sys.path``) are read by :mod:`.quick`, because ``importlib.metadata``
costs 20 ms to import, at the first array operation. It is used where somebody added a finder, an archive or an egg;
a test holds the two to the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .kinds import GROUPS

#: What our groups begin with in ``entry_points.txt``.
MARKER = "[mxcore."

NO_VERSION = "its metadata has no version"


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """One line of metadata: distribution ``distribution`` provides ``name`` in ``group`` by the module ``value``.

    Attributes
    ----------
    requires : str
        The version of mxcore that the distribution asks for (``">=1.2,<2"``), from its metadata.
    problem : str
        What is wrong with the declaration itself; empty if nothing.
    load : callable or None
        Imports and returns the object; None means the module named by ``value``.
    """

    group: str
    name: str
    value: str
    distribution: str
    version: str = ""
    requires: str = ""
    problem: str = ""
    load: Callable[[], Any] | None = None

    @property
    def kind(self) -> str:
        """The kind of plugin, by group."""
        return GROUPS[self.group]


def normalized(distribution: str) -> str:
    """A distribution's name as package indexes compare it.

    Examples
    --------
    >>> normalized("MXcore_Engine.Threaded")
    'mxcore-engine-threaded'
    """
    return "-".join(filter(None, distribution.lower().replace("_", "-").replace(".", "-").split("-")))


def scan() -> list[EntryPoint]:
    """Every entry point of our groups that is installed, sorted; broken metadata becomes an entry with a problem."""
    from . import quick

    found = quick.read()
    return tidy(found) if found is not None else thorough()


def thorough() -> list[EntryPoint]:
    """As :func:`scan`, by ``importlib.metadata``."""
    import importlib.metadata  # costly

    found: list[EntryPoint] = []
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        # As importlib.metadata: of two copies on the path, the first is the one that imports find.
        name = _name(distribution)
        if normalized(name) in seen:
            continue
        seen.add(normalized(name))
        try:
            text = distribution.read_text("entry_points.txt") or ""
        except Exception:  # unreadable metadata of a stranger
            continue
        if MARKER in text:
            found.extend(_entries(distribution, name))
    return tidy(found)


def tidy(entries: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Drop identical duplicates (editable installs), mark contradictions within one distribution, and sort."""
    unique: dict[tuple[str, str, str], EntryPoint] = {}
    for entry in entries:
        key = (entry.group, entry.name, normalized(entry.distribution))
        first = unique.setdefault(key, entry)
        if first.value != entry.value and not first.problem:
            unique[key] = EntryPoint(
                entry.group,
                entry.name,
                first.value,
                first.distribution,
                first.version,
                first.requires,
                f"it declares '{entry.name}' twice in group '{entry.group}': {first.value} and {entry.value}",
            )
    return sorted(unique.values(), key=lambda entry: (entry.group, entry.name, normalized(entry.distribution)))


def _name(distribution: Any) -> str:
    """The name from the metadata, or, where that is broken, from the folder."""
    try:
        name = distribution.metadata.get("Name")
    except Exception:
        name = None
    folder = getattr(distribution, "_path", None)
    return name or (getattr(folder, "name", "unknown").rpartition(".")[0].partition("-")[0])


def _entries(distribution: Any, name: str) -> list[EntryPoint]:
    problem, version, requires = "", "", ""
    try:
        version = distribution.metadata.get("Version") or ""
        requires = requirement(distribution.requires or [])
    except Exception as error:
        problem = f"its metadata cannot be read ({type(error).__name__}: {error})"
    problem = problem or ("" if version else NO_VERSION)
    try:
        entries = [entry for entry in distribution.entry_points if entry.group in GROUPS]
    except Exception as error:
        detail = f"its entry_points.txt cannot be read ({type(error).__name__}: {error})"
        return [EntryPoint("mxcore.plugins", name, "", name, version, requires, detail)]
    return [
        EntryPoint(entry.group, entry.name, entry.value, name, version, requires, problem, entry.load)
        for entry in entries
    ]


def requirement(requirements: Iterable[str]) -> str:
    """The version part of the requirement on mxcore itself.

    Examples
    --------
    >>> requirement(["numpy>=1.26", "mxcore (>=1.2,<2)", "mxcore-x>=3"])
    '>=1.2,<2'
    """
    for requirement in requirements:
        text, _, marker = requirement.partition(";")
        rest = text.strip().removeprefix("mxcore")
        if rest == text.strip() or "extra" in marker:
            continue
        if rest.startswith("["):
            rest = rest.partition("]")[2]
        rest = rest.strip().strip("()").replace(" ", "")
        if not rest or rest[0] in "<>=!~":
            return rest
    return ""
