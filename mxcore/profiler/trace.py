"""A recording as text in Chrome's trace format, which Perfetto and chrome://tracing read.

A process row stands for a device (functions), the host (waits, counters) or a domain of the program; a track in it
for a thread. Arrows lead from the function that last wrote something to the next ones that read or write it, and
from its readers to the next writer: what an engine has to wait for. Times are microseconds since the start.

Lines are put together by hand: a record may hold a million events, and ``json.dumps`` takes five times as long.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from .recording import COUNTER, FRAME, GAP, MARKER, MEMORY, MOMENT, PUSH, SPAN, TASK, WAIT, Recording, Track

#: The row of what belongs to no device.
HOST = "cpu"

_Record = tuple[Any, ...]


def lines(recording: Recording) -> Iterator[str]:
    """Yield the file line by line, of what was recorded until now."""
    running = recording.running.copy()
    records = list(recording.records)  # after: what ends in between is in both, and not lost
    dropped = recording.dropped
    writer = _Writer(recording.started_ns)
    yield '{"traceEvents":['
    yield f'{{"ph":"M","name":"process_labels","pid":{writer.row(HOST)},"args":{{"labels":"pid {os.getpid()}"}}}}'
    for line in writer.events(records, running):
        yield "," + line
    for line in writer.names():
        yield "," + line
    other = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(recording.started_at)),
        "process": os.getpid(),
        "events": len(records),
        "max_events": recording.max_events,
        "dropped_events": dropped,
    }
    yield f'],"displayTimeUnit":"ms","otherData":{json.dumps(other)}}}'


def arrows(records: Iterable[_Record]) -> Iterator[tuple[int, int]]:
    """Yield pairs of tasks of which the second has to wait for the first, in the order of the pushes.

    Examples
    --------
    >>> track = Track("main")
    >>> pushes = [((), "a"), ("a", "b"), ("a", "c"), ((), "a")]
    >>> list(arrows([(PUSH, 0, track, n, 0, tuple(reads), tuple(writes)) for n, (reads, writes) in enumerate(pushes)]))
    [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]
    """
    writer: dict[Hashable, int] = {}
    readers: dict[Hashable, list[int]] = {}
    for record in records:
        if record[0] != PUSH:
            continue
        task, reads, writes = record[3], record[5], record[6]
        sources: dict[int, None] = {}
        for identity in (*reads, *writes):
            if identity in writer:
                sources[writer[identity]] = None
        for identity in writes:
            sources.update(dict.fromkeys(readers.pop(identity, ())))
        for identity in writes:
            writer[identity] = task
        for identity in reads:
            if identity not in writes:
                readers.setdefault(identity, []).append(task)
        for source in sources:
            if source != task:
                yield source, task


class _Writer:
    """Numbers rows and tracks, and makes the lines."""

    def __init__(self, started_ns: int) -> None:
        self._start = started_ns
        self._rows: dict[str, int] = {}
        self._tracks: dict[Track, int] = {}
        self._named: dict[tuple[int, int], str] = {}
        self._texts: dict[str, str] = {}
        self._devices: dict[Any, str] = {}
        self._next_id = 0

    def row(self, name: str) -> int:
        """The number of a row."""
        return self._rows.setdefault(name, len(self._rows))

    def names(self) -> Iterator[str]:
        """The names of all rows and tracks that lines were made for."""
        for name, row in self._rows.items():
            yield f'{{"ph":"M","name":"process_name","pid":{row},"args":{{"name":{self._text(name)}}}}}'
            yield f'{{"ph":"M","name":"process_sort_index","pid":{row},"args":{{"sort_index":{row}}}}}'
        for (row, track), name in self._named.items():
            yield f'{{"ph":"M","name":"thread_name","pid":{row},"tid":{track},"args":{{"name":{self._text(name)}}}}}'

    def events(self, records: list[_Record], running: dict[int, _Record]) -> Iterator[str]:
        """The lines of all records and of the functions that have not ended."""
        pushes = {record[3]: record for record in records if record[0] == PUSH}
        spans = {record[7]: record for record in records if record[0] == SPAN}
        live: dict[str, int] = {}
        pending: set[int] = set()
        # An outer function ends, and is recorded, after inner ones; viewers want it before.
        for record in sorted(records, key=_order):
            kind = record[0]
            if kind == SPAN:
                yield self._function(record, pushes.get(record[7]))
            elif kind == WAIT:
                _, begin, end, track, what = record
                yield self._slice(self._place(HOST, track), begin, end, "wait", what)
            elif kind == MOMENT:
                _, begin, end, track, category, name = record
                yield self._slice(self._place(category, track), begin, end, category, name)
            elif kind in (TASK, FRAME):
                yield from self._asynchronous(record)
            elif kind == COUNTER:
                _, moment, track, domain, name, value = record
                yield self._counter(domain, track, moment, name, value)
            elif kind == MARKER:
                _, moment, track, domain, name, scope = record
                yield (
                    f'{{"ph":"i",{self._place(domain, track)},"ts":{self._us(moment)},'
                    f'"cat":{self._text(domain)},"name":{self._text(name)},"s":"{scope}"}}'
                )
            elif kind == MEMORY:
                _, moment, track, device, nbytes = record
                name = f"Memory: {self._device(device)}"
                live[name] = live.get(name, 0) + nbytes
                yield self._counter(self._device(device), track, moment, name, live[name])
            elif kind == GAP:
                for name in live:
                    live[name] = 0
        # Levels change where functions end, which is another order.
        changes = [(record[1], True, record[3], record[2]) for record in pushes.values()]
        changes += [(record[2], False, task, record[3]) for task, record in spans.items()]
        gaps = sorted((record[1] for record in records if record[0] == GAP), reverse=True)
        for moment, pushed, task, track in sorted(changes, key=lambda change: change[0]):
            while gaps and gaps[-1] < moment:
                gaps.pop()
                pending.clear()
            if pushed or task in pending:
                (pending.add if pushed else pending.discard)(task)
                yield self._counter(HOST, track, moment, "pending functions", len(pending))
        for source, target in arrows(records):
            if source in spans and target in spans:
                yield from self._arrow(spans[source], spans[target])
        for task, (begin, track, category, name, device) in running.items():
            if task in spans:
                continue
            yield (
                f'{{"ph":"B",{self._place(self._device(device), track)},"ts":{self._us(begin)},'
                f'"cat":{self._text(category)},"name":{self._text(name)},'
                f'"args":{{"task":{task},"unfinished":true}}}}'
            )

    # -- one line each -----------------------------------------------------------------------------------------

    def _function(self, record: _Record, push: _Record | None) -> str:
        _, begin, end, track, category, name, device, task, error = record
        arguments = f'"task":{task}'
        if push is not None:
            arguments += f',"priority":{push[4]},"queued_us":{(begin - push[1]) / 1000:.3f}'
        if error is not None:
            arguments += f',"error":{json.dumps(error)}'
        return self._slice(self._place(self._device(device), track), begin, end, category, name, arguments)

    def _slice(self, place: str, begin: int, end: int, category: str, name: str, arguments: str = "") -> str:
        return (
            f'{{"ph":"X",{place},"ts":{self._us(begin)},"dur":{(end - begin) / 1000:.3f},'
            f'"cat":{self._text(category)},"name":{self._text(name)},"args":{{{arguments}}}}}'
        )

    def _asynchronous(self, record: _Record) -> Iterator[str]:
        _, begin, end, track, category, name = record
        self._next_id += 1
        rest = (
            f'{self._place(category, track)},"cat":{self._text(category)},"name":{self._text(name)},'
            f'"id":{self._next_id}'
        )
        yield f'{{"ph":"b","ts":{self._us(begin)},{rest}}}'
        yield f'{{"ph":"e","ts":{self._us(end)},{rest}}}'

    def _counter(self, row: str, track: Track, moment: int, name: str, value: int) -> str:
        text = self._text(name)
        return f'{{"ph":"C",{self._place(row, track)},"ts":{self._us(moment)},"name":{text},"args":{{{text}:{value}}}}}'

    def _arrow(self, source: _Record, target: _Record) -> Iterator[str]:
        self._next_id += 1
        rest = f'"cat":"dependency","name":"dependency","id":{self._next_id}'
        # A start binds to the slice around it, and the end of a slice is no more inside.
        inside = max(source[1], source[2] - 1)
        yield f'{{"ph":"s",{self._place(self._device(source[6]), source[3])},"ts":{self._us(inside)},{rest}}}'
        yield (
            f'{{"ph":"f","bp":"e",{self._place(self._device(target[6]), target[3])},"ts":{self._us(target[1])},{rest}}}'
        )

    # -- parts of lines ----------------------------------------------------------------------------------------

    def _place(self, row_name: str, track: Track) -> str:
        row = self.row(row_name)
        number = self._tracks.setdefault(track, len(self._tracks) + 1)
        self._named[row, number] = track.name
        return f'"pid":{row},"tid":{number}'

    def _us(self, moment: int) -> str:
        return f"{(moment - self._start) / 1000:.3f}"

    def _device(self, device: Any) -> str:
        name = self._devices.get(device)
        if name is None:
            name = self._devices[device] = HOST if device is None else str(device)
        return name

    def _text(self, text: str) -> str:
        quoted = self._texts.get(text)
        if quoted is None:
            quoted = self._texts[text] = json.dumps(text)
        return quoted


def _order(record: _Record) -> tuple[int, int]:
    return record[1], -record[2] if record[0] in (SPAN, WAIT, MOMENT) else 0
