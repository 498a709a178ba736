"""Ratios of mxcore to its peers, measured in turns in one run.

    python benchmarks/run.py [--mxnet PYTHON] [--torch PYTHON] [--only hotpath,lenet,mlp,resnet18,import,size] [--rounds N]

``PYTHON`` is an interpreter that has the peer installed. Every measurement is a process of its own; mxcore and peer
take turns, each with 1 and with 2 threads, and the better setting of each side counts. For training steps a process
reports its median step; of the rounds, the best of each side counts (what else runs on the machine only ever adds
time), and the range of the rounds' own ratios is printed with it. A bar that is missed is printed as such and makes the
exit status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent


def run(python: str, script: str, *arguments: str, threads: int | None = None) -> dict[str, Any]:
    """Run a benchmark program under an interpreter; return the JSON it prints last."""
    env = dict(os.environ)
    # Settings meant for other programs on this machine slow a current OpenBLAS down.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        env.pop(name, None)
    if threads:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            env[name] = str(threads)
    done = subprocess.run(
        [python, str(HERE / script), *arguments], capture_output=True, text=True, env=env, check=False, cwd=HERE
    )
    if done.returncode:
        raise SystemExit(f"{python} {script} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


class Report:
    """Collects lines and whether every bar was met."""

    def __init__(self) -> None:
        self.met = True

    def line(self, what: str, value: str, bar: str = "", met: bool | None = None) -> None:
        """Print one figure, with its bar and verdict."""
        if met is False:
            self.met = False
        verdict = "" if met is None else ("   met" if met else "   MISSED")
        print(f"{what:56s} {value:56s} {bar}{verdict}", flush=True)


def hotpath(report: Report, torch: str | None, rounds: int) -> None:
    """``a + b`` and the chain against NumPy and PyTorch."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    for _ in range(rounds):
        ours.append(run(sys.executable, "hotpath.py", "--framework", "mxcore", threads=1))
        if torch:
            theirs.append(run(torch, "hotpath.py", "--framework", "torch", threads=1))

    def median(rows: list[dict[str, float]], key: str) -> float:
        return statistics.median(r[key] for r in rows)

    add, plain = median(ours, "add"), median(ours, "numpy_add")
    report.line(
        "a + b, 4x4, against NumPy", f"{add:.2f} us / {plain:.2f} us = {add / plain:.2f}", "at most 4", add <= 4 * plain
    )
    if not torch:
        return
    for key, what, limit in (
        ("add", "a + b, 4x4, against PyTorch eager", 1.0),
        ("add_recorded", "a + b, 4x4, recorded, against requires_grad", 1.0),
        ("chain", "chain of 20, forward + backward, per operator", 0.5),
    ):
        a, b = median(ours, key), median(theirs, key)
        report.line(what, f"{a:.2f} us / {b:.2f} us = {a / b:.2f}", f"at most {limit}", a / b <= limit)


def training(report: Report, model: str, mxnet: str | None, torch: str | None, rounds: int) -> None:
    """A training step against MXNet and PyTorch, each at its better number of threads."""
    sides = {"mxcore": sys.executable, "mxnet": mxnet, "torch": torch if model != "resnet18" else None}
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for side, python in sides.items():
            if python:
                for threads in (1, 2):
                    result = run(python, "training.py", "--framework", side, "--model", model, threads=threads)
                    times.setdefault((side, threads), []).append(result["ms"])
    best: dict[str, tuple[float, int]] = {}
    for (side, threads), values in times.items():
        value = min(values)
        if side not in best or value < best[side][0]:
            best[side] = (value, threads)
    per_round = {side: [min(v[r] for (s, _), v in times.items() if s == side) for r in range(rounds)] for side in best}
    ours, own = best["mxcore"]
    limits = {"lenet": 1.0, "resnet18": 1.1, "mlp": 0.8}
    for side in ("mxnet", "torch"):
        if side not in best:
            continue
        value, threads = best[side]
        limit = limits[model] if side == "mxnet" else None
        ratios = [a / b for a, b in zip(per_round["mxcore"], per_round[side])]
        report.line(
            f"{model} training step against {side} ({own} and {threads} threads)",
            f"{ours:.2f} ms / {value:.2f} ms = {ours / value:.2f} (rounds {min(ratios):.2f} to {max(ratios):.2f})",
            f"at most {limit}" if limit else "stated",
            ours / value <= limit if limit else None,
        )
    if len(best) == 1:
        report.line(f"{model} training step ({own} threads)", f"{ours:.2f} ms")


def import_time(report: Report, rounds: int) -> None:
    """What ``import mxcore`` costs beyond NumPy's own import."""
    rows = [run(sys.executable, "import_time.py") for _ in range(rounds)]
    for key, what, limit in (
        ("bare", "import mxcore beyond NumPy", 80.0),
        ("used", "import mxcore, nd, gluon, first operator, beyond NumPy", None),
    ):
        value = statistics.median(r[key] for r in rows)
        report.line(
            what, f"{value:.0f} ms", f"at most {limit:.0f} ms" if limit else "stated", value <= limit if limit else None
        )
    scanned = any(r["scanned"] for r in rows)
    report.line("entry points scanned at import", str(scanned), "no", not scanned)


def size(report: Report) -> None:
    """Installed size of the core and its dependencies, NumPy aside."""
    result = run(sys.executable, "installed_size.py")
    value = result["bytes"] / 1e6
    report.line("installed size without NumPy", f"{value:.2f} MB ({result['parts']})", "at most 5 MB", value <= 5)


def main() -> int:
    """Run what was asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mxnet", help="python with MXNet 1.9.1")
    parser.add_argument("--torch", help="python with PyTorch")
    parser.add_argument("--only", default="hotpath,mlp,lenet,resnet18,import,size")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report = Report()
    for name in options.only.split(","):
        if name == "hotpath":
            hotpath(report, options.torch, options.rounds)
        elif name == "import":
            import_time(report, options.rounds)
        elif name == "size":
            size(report)
        else:
            training(report, name, options.mxnet, options.torch, options.rounds)
    return 0 if report.met else 1


if __name__ == "__main__":
    raise SystemExit(main())
