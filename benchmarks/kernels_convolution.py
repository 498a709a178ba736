"""Convolution and pooling kernels: GFLOP/s and the ratio to what ``np.matmul`` reaches.

::

    python benchmarks/kernels_convolution.py                                    BLAS shares each product out
    OPENBLAS_NUM_THREADS=1 python benchmarks/kernels_convolution.py --threads 2  kernels share pieces out
    ... --variants      the ways to multiply side by side     ... --only TEXT   some cases     ... --repeats N

Cases run interleaved and the least time counts, because other work on the machine only ever adds. GFLOP/s count the
multiplications of the definition, so Winograd's way can exceed the limit.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxcore.oplib.correlation import winograd
from mxcore.oplib.kernels import convolution as kernels
from mxcore.oplib.kernels.convolution import (
    convolution,
    convolution_backward_data,
    convolution_backward_weight,
)
from mxcore.oplib.kernels.pooling import pooling, pooling_backward


@dataclass(frozen=True)
class Case:
    """One convolution of a network and how often a training step calls it."""

    net: str
    batch: int
    channels: int
    size: int
    filters: int
    kernel: int
    stride: int
    pad: int
    calls: int
    first: bool = False  # the data needs no gradient

    @property
    def name(self) -> str:
        stride = f" s{self.stride}" if self.stride > 1 else ""
        return f"{self.net} {self.channels}->{self.filters} {self.kernel}x{self.kernel}{stride} @{self.size}"

    @property
    def out(self) -> int:
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.out**2 * self.filters * self.channels * self.kernel**2


CASES = [
    Case("lenet", 64, 1, 28, 20, 5, 1, 0, 1, first=True),
    Case("lenet", 64, 20, 12, 50, 5, 1, 0, 1),
    Case("resnet", 32, 3, 32, 64, 3, 1, 1, 1, first=True),
    Case("resnet", 32, 64, 32, 64, 3, 1, 1, 4),
    Case("resnet", 32, 64, 32, 128, 3, 2, 1, 1),
    Case("resnet", 32, 64, 32, 128, 1, 2, 0, 1),
    Case("resnet", 32, 128, 16, 128, 3, 1, 1, 3),
    Case("resnet", 32, 128, 16, 256, 3, 2, 1, 1),
    Case("resnet", 32, 128, 16, 256, 1, 2, 0, 1),
    Case("resnet", 32, 256, 8, 256, 3, 1, 1, 3),
    Case("resnet", 32, 256, 8, 512, 3, 2, 1, 1),
    Case("resnet", 32, 256, 8, 512, 1, 2, 0, 1),
    Case("resnet", 32, 512, 4, 512, 3, 1, 1, 3),
    Case("other", 8, 64, 28, 64, 3, 1, 1, 1),
]
POOLS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("lenet pool1 2x2/2", (64, 20, 24, 24), {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0), "pool_type": "max"}),
    ("lenet pool2 2x2/2", (64, 50, 8, 8), {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0), "pool_type": "max"}),
    ("max 3x3/2 pad 1", (32, 64, 32, 32), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"}),
    ("avg 2x2/2", (32, 64, 32, 32), {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0), "pool_type": "avg"}),
    ("avg 3x3/1 pad 1", (32, 64, 32, 32), {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1), "pool_type": "avg"}),
]


ParallelFor = Callable[[int, int, Callable[[int, int], Any]], None]


def serial(n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
    fn(0, n)


def threads(count: int) -> ParallelFor:
    """Return a ``parallel_for`` over ``count`` threads, the caller's among them, each with one equal part."""
    tasks: queue.SimpleQueue[tuple[Callable[[int, int], Any], int, int]] = queue.SimpleQueue()
    done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        while True:
            fn, low, high = tasks.get()
            try:
                fn(low, high)
                done.put(None)
            except BaseException as error:
                done.put(error)

    for _ in range(count - 1):
        threading.Thread(target=work, daemon=True).start()

    def parallel_for(n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
        parts = min(count, -(-n // grain))
        cuts = [n * i // parts for i in range(parts + 1)] if parts else [0]
        for low, high in itertools.pairwise(cuts[1:]):
            tasks.put((fn, low, high))
        if parts:
            fn(0, cuts[1])
        for error in [done.get() for _ in cuts[2:]]:
            if error is not None:
                raise error

    return parallel_for


def sgemm_limit(parallel_for: ParallelFor, size: int = 2048) -> float:
    """Return the GFLOP/s of one large float32 matmul, the limit that ratios refer to."""
    a, b = (np.random.default_rng(i).random((size, size), dtype=np.float32) for i in range(2))
    out = np.empty_like(a)

    def rows(low: int, high: int) -> None:
        np.matmul(a[low:high], b, out=out[low:high])

    return 2 * size**3 / best([lambda: parallel_for(size, size // 16, rows)], 3)[0] / 1e9


def best(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Return the least seconds of each function, run in turns."""
    least = [float("inf")] * len(functions)
    for function in functions:
        function()
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            least[i] = min(least[i], time.perf_counter() - start)
    return least


def conv_functions(case: Case, parallel_for: ParallelFor = serial) -> list[Callable[[], object]]:
    """Return forward, data gradient and weight gradient of a case as calls without arguments."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((case.batch, case.channels, case.size, case.size), dtype=np.float32)
    w = rng.standard_normal((case.filters, case.channels, case.kernel, case.kernel), dtype=np.float32)
    g = rng.standard_normal((case.batch, case.filters, case.out, case.out), dtype=np.float32)
    how: dict[str, Any] = {
        "kernel": (case.kernel,) * 2,
        "stride": (case.stride,) * 2,
        "dilate": (1, 1),
        "pad": (case.pad,) * 2,
        "num_group": 1,
        "layout": "NCHW",
        "parallel_for": parallel_for,
    }
    return [
        lambda: convolution(x, w, None, **how),
        lambda: convolution_backward_data(g, w, data_shape=x.shape, **how),
        lambda: convolution_backward_weight(x, g, weight_shape=w.shape, **how),
    ]


def forced(way: str, function: Callable[[], object]) -> None:
    """Run ``function`` with one way to multiply, whatever the kernels would choose."""
    choose, use_winograd = kernels._prefer_channel_last, winograd.USE_WINOGRAD
    try:
        winograd.USE_WINOGRAD = way == "winograd"
        kernels._prefer_channel_last = lambda *_: way != "channel-first"
        function()
    finally:
        kernels._prefer_channel_last, winograd.USE_WINOGRAD = choose, use_winograd


def compare_ways(case: Case, repeats: int, parallel_for: ParallelFor) -> None:
    """Print the times of each way; where Winograd's does not apply its column repeats channel-last."""
    ways = ("channel-first", "channel-last", "winograd")
    functions = conv_functions(case, parallel_for)
    times = best([functools.partial(forced, way, f) for f in functions for way in ways], repeats)
    cells = [" ".join(f"{t * 1e3:7.2f}" for t in times[i : i + len(ways)]) for i in range(0, len(times), len(ways))]
    print(f"{case.name:34} " + "  | ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variants", action="store_true")
    arguments = parser.parse_args()
    parallel_for = threads(arguments.threads) if arguments.threads > 1 else serial
    if arguments.variants:
        print(f"{'ms':34} forward, data gradient, weight gradient: each channel-first, channel-last, winograd")
        for case in CASES:
            if arguments.only in case.name:
                compare_ways(case, arguments.repeats, parallel_for)
        return
    limit = sgemm_limit(parallel_for)
    print(f"np.matmul limit {limit:.0f} GFLOP/s\n")
    print(f"{'case':34} {'forward':>17} {'data gradient':>17} {'weight gradient':>17}   (ms, GFLOP/s, ratio)")
    sums: dict[str, list[float]] = {}
    for case in CASES:
        if arguments.only not in case.name:
            continue
        times = best(conv_functions(case, parallel_for), arguments.repeats)
        cells = [f"{t * 1e3:6.2f} {case.flops / t / 1e9:5.0f} {case.flops / t / 1e9 / limit:4.2f}" for t in times]
        print(f"{case.name:34} " + " ".join(cells), flush=True)
        used = [times[0], times[2]] if case.first else times
        total = sums.setdefault(case.net, [0.0, 0.0])
        total[0] += case.calls * sum(used)
        total[1] += case.calls * case.flops * len(used)
    for net, (seconds, flops) in sums.items():
        at_limit = flops / limit / 1e9
        print(
            f"{net}: all convolutions of a training step {seconds * 1e3:.1f} ms, {at_limit * 1e3:.1f} ms at the limit"
        )
    for name, shape, how in POOLS:
        if arguments.only not in name:
            continue
        attributes: dict[str, Any] = {
            **how,
            "global_pool": False,
            "pooling_convention": "valid",
            "count_include_pad": True,
            "p_value": None,
            "layout": "NCHW",
            "parallel_for": parallel_for,
        }
        x = np.maximum(np.random.default_rng(0).standard_normal(shape, dtype=np.float32), 0)
        y = pooling(x, **attributes)
        g = np.ones_like(y)
        forward, backward = best(
            [lambda: pooling(x, **attributes), lambda: pooling_backward(g, x, y, **attributes)],  # noqa: B023
            arguments.repeats,
        )
        print(f"{name:34} forward {forward * 1e3:6.2f} ms   backward {backward * 1e3:6.2f} ms")


if __name__ == "__main__":
    main()
