"""PROFILING: ``mx.profiler``, a timeline of what engines, storage and the program do, and statistics of it.

What it sees are the events of :mod:`mxcore.instruments`; it listens only between ``set_state('run')`` and
``set_state('stop')``, so it costs nothing otherwise. ``dump()`` writes a Chrome trace for https://ui.perfetto.dev and
chrome://tracing, ``dumps()`` returns a table or JSON of counts and times.

Examples
--------
>>> import json, os, tempfile
>>> from mxcore import profiler
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "profile.json")
...     profiler.set_config(filename=path)
...     profiler.set_state("run")
...     task = profiler.Domain("training").new_task("epoch")
...     task.start()
...     task.stop()
...     profiler.dump()
...     with open(path) as stream:
...         names = {event["name"] for event in json.load(stream)["traceEvents"]}
>>> "epoch" in names
True
>>> json.loads(profiler.dumps(reset=True, format="json"))["Time"]["training"]["epoch"]["Count"]
1
"""

from __future__ import annotations

from .control import (
    dump,
    dump_profile,
    dumps,
    pause,
    profiler_set_config,
    profiler_set_state,
    resume,
    set_config,
    set_kvstore_handle,
    set_state,
)
from .objects import Counter, Domain, Event, Frame, Marker, Task
from .scopes import Scope, scope

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Scope",
    "Task",
    "dump",
    "dump_profile",
    "dumps",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "scope",
    "set_config",
    "set_kvstore_handle",
    "set_state",
]
