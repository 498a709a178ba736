"""What one small operator costs: run with the interpreter of the framework to measure.

    python benchmarks/hotpath.py --framework mxcore|torch|mxnet

Prints one JSON line: microseconds for ``a + b`` on two 4x4 float32 arrays (not recording, recording), for the same
with NumPy, and per operator for a chain of 20 forward and backward. Medians of many short rounds, so that another
process on the machine disturbs few of them. ``benchmarks/run.py`` starts this under each interpreter and prints ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np

ROUNDS = 60


def microseconds(fn: Callable[[], object], number: int) -> float:
    """Median over rounds of the mean time of ``number`` calls."""
    for _ in range(number):
        fn()
    times = []
    clock = time.perf_counter
    for _ in range(ROUNDS):
        start = clock()
        for _ in range(number):
            fn()
        times.append((clock() - start) / number)
    return statistics.median(times) * 1e6


def measure(framework: str) -> dict[str, float]:
    """Return the figures of one framework."""
    x = np.ones((4, 4), np.float32)
    y = np.full((4, 4), 0.5, np.float32)
    out = {"numpy_add": microseconds(lambda: x + y, 2000)}
    if framework == "torch":
        import torch

        torch.set_num_threads(1)
        a, b = torch.from_numpy(x), torch.from_numpy(y)
        out["add"] = microseconds(lambda: a + b, 2000)
        w = torch.from_numpy(x.copy()).requires_grad_()
        out["add_recorded"] = microseconds(lambda: w + b, 2000)

        def chain() -> None:
            z = w
            for _ in range(10):
                z = z * b
                z = z + b
            z.sum().backward()

        out["chain"] = microseconds(chain, 50) / 20
        return out
    if framework == "mxnet":
        import mxnet as mx
    else:
        import mxcore as mx
    a, b = mx.nd.array(x), mx.nd.array(y)
    wait = mx.nd.waitall

    def add() -> None:
        a + b

    out["add"] = microseconds(add, 2000)
    wait()
    w = mx.nd.array(x)
    w.attach_grad()
    with mx.autograd.record():
        out["add_recorded"] = microseconds(lambda: w + b, 2000)
    wait()

    def chain() -> None:
        with mx.autograd.record():
            z = w
            for _ in range(10):
                z = z * b
                z = z + b
            s = z.sum()
        s.backward()

    out["chain"] = microseconds(chain, 50) / 20
    wait()
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("mxcore", "torch", "mxnet"), default="mxcore")
    print(json.dumps(measure(parser.parse_args().framework)))
