"""Trying a plugin in a process of its own: what crashes or hangs there is reported here.

The parent calls :func:`examine`. The child runs :func:`worker`, which notes each stage in a file before it enters it,
so that the parent knows where a child died.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..spec.errors import BackendError, BackendFailed
from .candidate import Candidate, State

#: A light module that takes longer to import is reported.
SLOW_IMPORT_S = 0.1

_OUTPUT_TAIL = 2000


@dataclass(slots=True)
class Report:
    """What became of one candidate in a process of its own.

    Attributes
    ----------
    status : str
        A state's name, or ``"crashed"`` or ``"hangs"``.
    stage : str
        How far it got: ``import``, ``probe``, ``create``.
    message, trace, output : str
        The error text, its traceback, and the end of what the process printed (when it died).
    import_s : float or None
        Seconds that loading the light module took.
    imports : list of str
        Third-party packages that the light module pulled in.
    """

    kind: str
    name: str
    distribution: str
    version: str
    status: str = State.DISCOVERED.value
    stage: str = ""
    message: str = ""
    trace: str = ""
    output: str = ""
    import_s: float | None = None
    imports: list[str] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def problem(self) -> bool:
        """Whether something is wrong with the plugin (being blocked, or not usable on this machine, is not)."""
        fine = (State.BLOCKED, State.REGISTERED, State.AVAILABLE, State.ACTIVE, State.UNAVAILABLE)
        return self.status not in {state.value for state in fine} or bool(self.remarks)

    @property
    def remarks(self) -> list[str]:
        """What the author should change although it works."""
        remarks = []
        if self.imports:
            remarks.append(
                f"its light module imports {', '.join(self.imports)}; heavy imports belong inside the factory"
            )
        elif self.import_s is not None and self.import_s > SLOW_IMPORT_S:
            remarks.append(f"its light module takes {self.import_s:.1f} s to import (limit: {SLOW_IMPORT_S} s)")
        return remarks


def examine(
    candidate: Candidate, *, timeout_s: float = 30.0, create: bool = True, environ: Mapping[str, str] | None = None
) -> Report:
    """Load, probe and (with ``create``) make a candidate in a child process. Blocks for at most ``timeout_s``.

    Parameters
    ----------
    environ : mapping, optional
        Variables added to the child's environment.
    """
    report = Report(candidate.kind, candidate.name, candidate.distribution, candidate.version)
    if candidate.state is State.BLOCKED:
        report.status, report.message = State.BLOCKED.value, f"{candidate.reason}. {candidate.hint}"
        return report
    with tempfile.TemporaryDirectory(prefix="mxcore-doctor-") as folder:
        notes, output = Path(folder, "notes"), Path(folder, "output")
        notes.touch()
        wanted = "create" if create else "probe"
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", __name__]
        command += [candidate.kind, candidate.qualified, str(notes), wanted]
        ended = _run(command, output, timeout_s, environ or {})
        for line in notes.read_text(encoding="utf-8").splitlines():
            for key, value in json.loads(line).items():
                setattr(report, key, value)
        finished = report.status != State.DISCOVERED.value
        report.output = output.read_text(encoding="utf-8", errors="replace")[-_OUTPUT_TAIL:].strip()
    if ended is None:
        report.status = "hangs"
        report.message = f"it had not finished stage '{report.stage}' after {timeout_s:g} s and was stopped"
    elif not finished or ended != 0:
        report.status = "crashed"
        report.message = f"it ended the process at stage '{report.stage}' with {_how(ended)}"
    else:
        report.output = ""
    return report


def _run(command: list[str], output: Path, timeout_s: float, environ: Mapping[str, str]) -> int | None:
    """The exit status, or None after a timeout (with everything the child started stopped)."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)  # the same plugins as here
    with open(output, "wb") as stream:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env={**os.environ, **environ, "PYTHONPATH": path},
            start_new_session=os.name == "posix",
        )
        try:
            return child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if os.name == "posix":
                try:
                    os.killpg(child.pid, signal.SIGKILL)  # the group is the child's own
                except ProcessLookupError:
                    pass
            else:
                child.kill()
            child.wait()


def _how(status: int) -> str:
    if status < 0:
        try:
            return f"signal {signal.Signals(-status).name}"
        except ValueError:
            return f"signal {-status}"
    return f"exit status {status}"


def worker(kind: str, name: str, notes: str, wanted: str) -> None:
    """Run in the child: note stages and the outcome as lines of JSON."""
    import pluggy  # noqa: F401  (its import time is not the plugin's)

    from . import process_registry

    def note(**values: Any) -> None:
        with open(notes, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(values) + "\n")

    registry = process_registry()
    candidate = registry.find(kind, name)
    before = set(sys.modules)
    started = time.perf_counter()
    note(stage="import")
    try:
        registry.load(candidate)
        note(import_s=time.perf_counter() - started, imports=_third_party(before, candidate))
        if candidate.record is not None:
            note(record=_described(candidate), stage="probe")
            registry.probe(candidate)
            if wanted == "create":
                note(stage="create")
                backend = registry.create(kind, name)
                if kind == "engine":
                    _must_run(backend, name)
                getattr(backend, "shutdown", lambda: None)()
        note(status=candidate.state.value)
    except BackendError as error:
        failure = candidate.failure
        note(
            status=candidate.state.value,
            message=str(error),
            trace=failure.trace if failure else "",
            **({"stage": failure.stage.value} if failure else {}),
        )


def _must_run(engine: Any, name: str) -> None:
    """Raise BackendFailed unless the engine runs a function that is pushed on it."""
    ran: list[int] = []
    variable = engine.new_variable()
    engine.push(lambda: ran.append(1), (), (variable,))
    engine.wait_for_variable(variable)
    if not ran:
        raise BackendFailed(
            f"engine '{name}' was made, but a function pushed on it had not run when the wait for it returned. Run the "
            f"conformance class mxcore.testing.engine_conformance.EngineConformance on it.",
            kind="engine",
            name=name,
        )


def _third_party(before: set[str], candidate: Candidate) -> list[str]:
    own = candidate.source.value.partition(":")[0].partition(".")[0] if candidate.source else "mxcore"
    fine = {own, "mxcore", "pluggy", "numpy", "importlib_metadata", "zipp"} | sys.stdlib_module_names
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    return sorted(name for name in new - fine if not name.startswith("_"))


def _described(candidate: Candidate) -> dict[str, Any]:
    record = candidate.record
    assert record is not None
    module = sys.modules.get(candidate.source.value.partition(":")[0]) if candidate.source else None
    return {
        "api": ".".join(map(str, record.api)),
        "capabilities": sorted(getattr(item, "value", str(item)) for item in record.capabilities),
        "priority": record.priority,
        "device_types": sorted(record.device_types),
        "doc": record.doc,
        "file": getattr(module, "__file__", None),
    }


if __name__ == "__main__":
    worker(*sys.argv[1:])
