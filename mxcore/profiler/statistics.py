"""Counts and times by category and name, folded from recordings as they grow, and printed as table or JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .recording import COUNTER, FRAME, GAP, MEMORY, MOMENT, SPAN, TASK, WAIT, Recording

#: What ``sort_by`` may be, and the entry of the JSON that it stands for.
SORT_KEYS = {"total": "Total", "avg": "Avg", "min": "Min", "max": "Max", "count": "Count"}

#: MXNet's name for the memory handed out by storage managers.
_STORAGE = "Device Storage"

_MS = 1e6  # nanoseconds
_KB = 1e3  # bytes


@dataclass(slots=True)
class _Entry:
    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0
    last: int = 0

    def add(self, value: int) -> None:
        self.least = value if not self.count else min(self.least, value)
        self.most = value if not self.count else max(self.most, value)
        self.count += 1
        self.total += value
        self.last = value

    def scaled(self, unit: float, **more: Any) -> dict[str, Any]:
        """The entry as MXNet's keys; an average of what was seen, not of the extremes."""
        numbers = {"Min": self.least, "Max": self.most, "Avg": self.total / self.count}
        return {"Count": self.count, **more, **{key: round(value / unit, 6) for key, value in numbers.items()}}


_Table = dict[str, dict[str, _Entry]]


class Statistics:
    """Folds recordings; each tuple is counted once. One thread at a time."""

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._next = 0
        self._live: dict[str, int] = {}
        self._dropped_before = 0
        self.clear()

    def clear(self) -> None:
        """Forget what was counted; what was folded is not counted again."""
        self._times: _Table = {}
        self._memory: dict[str, _Entry] = {}
        self._counters: _Table = {}
        self._failed = 0
        self._dropped_before = self._recording.dropped if self._recording else 0

    @property
    def dropped(self) -> int:
        """Events that the last recording had no room for, since :meth:`clear`."""
        return (self._recording.dropped if self._recording else 0) - self._dropped_before

    def fold(self, recording: Recording) -> None:
        """Count what ``recording`` got since the last time."""
        if recording is not self._recording:
            self._recording, self._next, self._live, self._dropped_before = recording, 0, {}, 0
        end = len(recording.records)
        for record in recording.records[self._next : end]:
            kind = record[0]
            if kind == SPAN:
                _entry(self._times, record[4], record[5]).add(record[2] - record[1])
                self._failed += record[8] is not None
            elif kind == WAIT:
                _entry(self._times, "wait", record[4]).add(record[2] - record[1])
            elif kind in (TASK, FRAME, MOMENT):
                _entry(self._times, record[4], record[5]).add(record[2] - record[1])
            elif kind == COUNTER:
                _entry(self._counters, record[3], record[4]).add(record[5])
            elif kind == MEMORY:
                name = f"Memory: {record[3]}"
                self._live[name] = self._live.get(name, 0) + record[4]
                self._memory.setdefault(name, _Entry()).add(self._live[name])
            elif kind == GAP:
                self._live = {}
        self._next = end

    def as_dict(self, sort_by: str, ascending: bool) -> dict[str, Any]:
        """The statistics under MXNet's keys, in milliseconds and kilobytes.

        MXNet lists counters among the times, a thousandth of their values as milliseconds; here they have a key of
        their own, with their values.
        """

        def ordered(entries: dict[str, dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
            return dict(sorted(entries.items(), key=lambda item: item[1][key], reverse=not ascending))

        key = SORT_KEYS[sort_by]
        memory_key = "Max" if sort_by == "total" else key  # a sum of levels means nothing
        times = {
            category: ordered(
                {name: entry.scaled(_MS, Total=round(entry.total / _MS, 6)) for name, entry in entries.items()}, key
            )
            for category, entries in sorted(self._times.items())
        }
        memory = {name: entry.scaled(_KB) for name, entry in self._memory.items()}
        counters = {
            domain: ordered({name: entry.scaled(1, Last=entry.last) for name, entry in entries.items()}, memory_key)
            for domain, entries in sorted(self._counters.items())
        }
        return {
            "Time": times,
            "Memory": {_STORAGE: ordered(memory, memory_key)} if memory else {},
            "Counter": counters,
            "Unit": {"Time": "ms", "Memory": "kB"},
            "Failed": self._failed,
            "Dropped": self.dropped,
        }

    def as_json(self, sort_by: str, ascending: bool) -> str:
        """:meth:`as_dict` as text."""
        return json.dumps(self.as_dict(sort_by, ascending), indent=4)

    def as_table(self, sort_by: str, ascending: bool) -> str:
        """:meth:`as_dict` as a table for people."""
        found = self.as_dict(sort_by, ascending)
        lines = ["", "Profile Statistics:"]
        parts = (
            (found["Time"], (("Count", ""), ("Total", " (ms)"), ("Min", " (ms)"), ("Max", " (ms)"), ("Avg", " (ms)"))),
            (found["Memory"], (("Count", ""), ("Min", " (kB)"), ("Max", " (kB)"), ("Avg", " (kB)"))),
            (found["Counter"], (("Count", ""), ("Last", ""), ("Min", ""), ("Max", ""), ("Avg", ""))),
        )
        for categories, columns in parts:
            for category, entries in categories.items():
                width = max(25, *(len(name) + 1 for name in entries))
                heads = [f"{key}{unit}" for key, unit in columns]
                lines += [category, "=" * len(category)]
                lines.append(f"{'Name':<{width}}" + "".join(f"{head:>16}" for head in heads))
                lines.append(f"{'----':<{width}}" + "".join(f"{'-' * len(head):>16}" for head in heads))
                for name, entry in entries.items():
                    lines.append(f"{name:<{width}}" + "".join(f"{_number(entry[key]):>16}" for key, _ in columns))
                lines.append("")
        if found["Failed"]:
            lines.append(f"{found['Failed']} functions ended with an error.")
        if found["Dropped"]:
            lines.append(_dropped_text(found["Dropped"], self._recording))
        return "\n".join(lines) + "\n"


def _entry(table: _Table, category: str, name: str) -> _Entry:
    entries = table.get(category)
    if entries is None:
        entries = table[category] = {}
    entry = entries.get(name)
    if entry is None:
        entry = entries[name] = _Entry()
    return entry


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def _dropped_text(dropped: int, recording: Recording | None) -> str:
    limit = recording.max_events if recording else 0
    return (
        f"{dropped} events were dropped after the first {limit}. Profile less at once (pause and resume), or raise "
        "max_events."
    )
