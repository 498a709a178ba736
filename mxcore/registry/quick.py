"""Reading our entry points from metadata folders without ``importlib.metadata``.

Understands what installers write: ``*.dist-info`` and ``*.egg-info`` folders directly on ``sys.path``. Says so when
there is anything else that might hold a distribution. Nothing is imported.
"""

from __future__ import annotations

import os
import sys

from .discovery import MARKER, NO_VERSION, EntryPoint, normalized, requirement
from .kinds import GROUPS


def read() -> list[EntryPoint] | None:
    """Every entry point of our groups, in no particular order; None if ``importlib.metadata`` has to be asked."""
    for finder in sys.meta_path:
        module = getattr(finder, "__module__", "")
        if hasattr(finder, "find_distributions") and not module.startswith("_frozen_importlib"):
            return None  # somebody else's: may know distributions that are not on the path
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for path in dict.fromkeys(entry or "." for entry in sys.path):
        try:
            with os.scandir(path) as items:
                names = [item.name for item in items if item.name.endswith((".dist-info", ".egg-info", ".egg"))]
        except NotADirectoryError:
            return None  # an archive
        except OSError:
            continue
        for name in names:
            if name.endswith(".egg"):
                return None
            distribution = normalized(name.rpartition(".")[0].partition("-")[0])
            if distribution in seen:  # of two copies on the path, the first is the one that imports find
                continue
            seen.add(distribution)
            found.extend(_folder(os.path.join(path, name)))
    return found


def _folder(path: str) -> list[EntryPoint]:
    """The entry points of one metadata folder."""
    text = _text(os.path.join(path, "entry_points.txt"))
    if text is None or MARKER not in text:
        return []
    header = _text(os.path.join(path, "METADATA")) or _text(os.path.join(path, "PKG-INFO")) or ""
    fields: dict[str, list[str]] = {}
    for line in header.splitlines():
        if not line.strip():
            break  # the description follows
        key, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            fields.setdefault(key.lower(), []).append(value.strip())
    folder = os.path.basename(path).rpartition(".")[0].partition("-")[0]
    name = fields.get("name", [folder])[0]
    version = fields.get("version", [""])[0]
    requires = requirement(fields.get("requires-dist", []))
    problem = "" if version else NO_VERSION
    entries, group = [], ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group in GROUPS and line and not line.startswith("#"):
            key, _, value = map(str.strip, line.partition("="))
            value = value.partition("[")[0].strip()  # extras say nothing here
            entries.append(EntryPoint(group, key, value, name, version, requires, problem))
    return entries


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None
