"""What the engine predicted, what happened, and why each function ran where it did, as a table."""

from __future__ import annotations

from statistics import median
from typing import Any

__all__ = ["explained"]


def _time(ns: float) -> str:
    if not ns:
        return "-"
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def _reason(predicted: int, where: str, why: str) -> str:
    if why:
        return why
    if where == "caller":
        return "nothing pending"
    return "not known to be cheap yet" if not predicted else f"predicted {_time(predicted)}: worth a worker"


def explained(engine: Any) -> str:
    """Return the table for what the engine has noted since the last time, and empty its notes.

    Timed executions only: every one until a cost is known, then one in sixteen.
    """
    groups: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    while engine.journal:
        name, predicted, ns, where, why = engine.journal.popleft()
        groups.setdefault((name or "(no name)", where, _reason(predicted, where, why)), []).append((predicted, ns))
    stream = engine.stream
    plan = stream.plan
    lines = [
        f"engine '{engine.name}': {engine.threads} compute threads, the caller's included; "
        f"learning is {'on' if engine.learn else 'off'}",
        f"plan: {f'{len(plan.tokens)} pushes, replayed {plan.rounds} times' if plan is not None else 'none'}; "
        f"{stream.replayed} pushes foreseen, {stream.dropped} plans dropped",
    ]
    if not groups:
        return "\n".join([*lines, "nothing was timed since the last explanation"])
    rows = [("function", "timed", "predicted", "took", "where", "why")]
    by_time = sorted(groups.items(), key=lambda item: -sum(ns for _, ns in item[1]))
    for (name, where, why), times in by_time:
        known = [predicted for predicted, _ in times if predicted]
        rows.append(
            (
                name,
                str(len(times)),
                _time(median(known)) if known else "-",
                _time(median(ns for _, ns in times)),
                where,
                why,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines += ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[5]]).rstrip() for row in rows]
    return "\n".join(lines)
