"""The memory pools: what a warm request costs, and how much more than the live bytes they hold.

    python benchmarks/pools.py [--only warm,hard,training] [--seed N] [--minimalloc FOLDER] [--json FILE]

Needs ``mxcore-storage-pooled``. A bar that is missed is printed as such and makes the exit status 1. Memory is a fake
device's, of no memory at all, so only ``warm`` depends on the machine.

warm
    ``alloc`` and ``free`` of one buffer from a pool that has it, in microseconds: the best of many rounds, the pools
    taking turns. Bare ``bytearray`` objects of the same size are what that costs without a pool.
hard
    What a pool holds at most, over the most bytes that are live at once (no allocator can hold less). Eleven *generated*
    instances in the image of the public ones of MiniMalloc (google/minimalloc, ``challenging/*.csv``: 154 to 454
    buffers of many different sizes and lifetimes, nearly no slack): a rectangle of time and 1 GiB is cut at random
    into as many buffers, so that a perfect packing exists and the limit is exactly the live bytes. Requests come in the
    order of time, and the pool knows nothing of the future. ``--minimalloc FOLDER`` takes the public files instead, their
    unit as 1 KiB.
    ``best_fit`` splits no whole chunks for much smaller requests until 1,000 requests came without a new peak, and gets
    chunks of the right size instead; these instances are shorter than that. *Settled* is the same pool without that time:
    what splitting and merging alone achieve. *Calls* are requests that went to the device, of all.
training
    The same for *synthetic* traces of forty training steps (*calls*: in the last of them), long enough to settle: sizes
    and lifetimes that a framework which frees early would ask for LeNet, ResNet-18, an LSTM and a transformer block,
    written from their architectures, convolutions by columns of the whole batch; not recorded.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import pathlib
import random
import sys
import timeit
from collections.abc import Iterator
from typing import Any, NamedTuple

from mxcore_storage_pooled import pool as pool_module
from mxcore_storage_pooled.pool import PooledStorage
from run import Report

from mxcore.testing.fake_device import FakeDevice

NAMES = ("naive", "round", "unpooled", "best_fit")
STEPS = 40
WARM_US, HARD, TRAINING = 1.5, 1.6, 1.10
KIB, GIB = 1 << 10, 1 << 30
#: Buffers of the eleven instances, from 154 to 454.
COUNTS = tuple(154 + 30 * k for k in range(11))


class Buffer(NamedTuple):
    """Live from ``start`` until before ``end``."""

    start: int
    end: int
    nbytes: int


# -- instances ---------------------------------------------------------------------------------------------------


def cut(count: int, seed: int) -> list[Buffer]:
    """Cut a rectangle of time and memory into ``count`` buffers."""
    draw = random.Random(seed)
    parts = [(0, 4 * count, 0, GIB // KIB)]  # start, end, low, high
    while len(parts) < count:
        # One of the larger ones, so that sizes stay within some orders of magnitude.
        at = max(draw.sample(range(len(parts)), min(len(parts), 4)), key=lambda k: _area(parts[k]))
        start, end, low, high = parts.pop(at)
        share = draw.uniform(0.2, 0.8)
        if (draw.random() < 0.5 and end - start > 4) or high - low < 64:
            middle = min(max(start + round((end - start) * share), start + 1), end - 1)
            parts += [(start, middle, low, high), (middle, end, low, high)]
        else:
            middle = low + round((high - low) * share)
            parts += [(start, end, low, middle), (start, end, middle, high)]
    draw.shuffle(parts)
    return [Buffer(start, end, (high - low) * KIB) for start, end, low, high in parts]


def _area(part: tuple[int, int, int, int]) -> int:
    return (part[1] - part[0]) * (part[3] - part[2])


def minimalloc(folder: pathlib.Path) -> Iterator[tuple[str, list[Buffer]]]:
    """MiniMalloc's files: ``id,lower,upper,size``."""
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        yield path.stem, [Buffer(int(r["lower"]), int(r["upper"]), int(r["size"]) * KIB) for r in rows]


class Tape:
    """Writes the requests of training steps: every result is a buffer, freed after its last use."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int]] = []
        self._next = 0

    def new(self, elements: int) -> int:
        """Allocate an array of 32-bit floats."""
        self._next += 1
        self.events.append(("alloc", self._next, 4 * elements))
        return self._next

    def drop(self, buffer: int) -> None:
        """Free it."""
        self.events.append(("free", buffer, 0))

    def steps(self, layers: list[tuple[int, int, int]], count: int) -> list[tuple[str, int, int]]:
        """``layers``: elements of the result, of the parameters, and of the scratch memory while it is computed."""
        for _, parameters, _ in layers:
            if parameters:
                for _ in range(3):  # the parameter, its gradient, its momentum
                    self.new(parameters)
        for _ in range(count):
            kept = []
            for result, _, scratch in layers:
                temporary = self.new(scratch) if scratch else None
                kept.append(self.new(result))
                if temporary:
                    self.drop(temporary)
            gradient = self.new(layers[-1][0])
            for at in reversed(range(len(layers))):
                _, parameters, scratch = layers[at]
                temporary = self.new(scratch) if scratch else None
                update = self.new(parameters) if parameters else None
                below = self.new(layers[at - 1][0]) if at else None
                for done in (temporary, gradient, kept[at], update):
                    if done:
                        self.drop(done)
                gradient = below  # type: ignore[assignment]
        return self.events


def lenet(batch: int = 64) -> list[tuple[int, int, int]]:
    """Two convolutions with pooling, two dense layers."""
    rows = [
        (20 * 24 * 24, 500, 25 * 24 * 24),
        (20 * 24 * 24, 0, 0),
        (20 * 12 * 12, 0, 0),
        (50 * 8 * 8, 25_000, 500 * 8 * 8),
        (50 * 8 * 8, 0, 0),
        (50 * 4 * 4, 0, 0),
        (500, 400_000, 0),
        (500, 0, 0),
        (10, 5_000, 0),
        (10, 0, 0),
    ]
    return [(batch * result, parameters, batch * scratch) for result, parameters, scratch in rows]


def resnet18(batch: int = 8) -> list[tuple[int, int, int]]:
    """Images of 224 x 224; convolution, normalization and activation each a result, columns as scratch memory."""
    layers: list[tuple[int, int, int]] = []

    def convolution(inputs: int, outputs: int, kernel: int, side: int) -> None:
        points = batch * side * side
        layers.append((outputs * points, inputs * outputs * kernel**2, inputs * kernel**2 * side * side))
        layers.append((outputs * points, 2 * outputs, 0))

    convolution(3, 64, 7, 112)
    layers.append((64 * batch * 112**2, 0, 0))
    layers.append((64 * batch * 56**2, 0, 0))
    inputs = 64
    for outputs, side in ((64, 56), (128, 28), (256, 14), (512, 7)):
        for block in range(2):
            points = batch * side * side
            convolution(inputs, outputs, 3, side)
            layers.append((outputs * points, 0, 0))
            convolution(outputs, outputs, 3, side)
            if block == 0 and inputs != outputs:
                convolution(inputs, outputs, 1, side)
            layers += [(outputs * points, 0, 0)] * 2
            inputs = outputs
    return layers + [(512 * batch, 0, 0), (1000 * batch, 512_000, 0), (1000 * batch, 0, 0)]


def lstm(length: int = 35, batch: int = 32, width: int = 200) -> list[tuple[int, int, int]]:
    """Two layers, a loop over time: products, gates, cell and state."""
    once = [(4 * batch * width, 0, 4 * batch * width)] + [(batch * width, 0, 0)] * 7
    weights = [(batch * width, 4 * width * width, 0)] * 4
    return weights + once * (2 * length) + [(length * batch * 10_000, 10_000 * width, 0), (length * batch, 0, 0)]


def transformer(batch: int = 8, length: int = 128, width: int = 256, heads: int = 4) -> list[tuple[int, int, int]]:
    """Self-attention, projection, two normalizations and the two dense layers."""
    points = batch * length
    one = (points * width, 0, 0)
    scores = (batch * heads * length * length, 0, 0)
    dense = (points * width, width * width, 0)
    wide = (4 * points * width, 4 * width * width, 0)
    return [
        one,
        dense,
        dense,
        dense,
        one,
        scores,
        scores,
        one,
        dense,
        one,
        one,
        wide,
        (wide[0], 0, 0),
        (*dense[:1], wide[1], 0),
        one,
    ]


# -- measuring ---------------------------------------------------------------------------------------------------


def events(buffers: list[Buffer]) -> list[tuple[str, int, int]]:
    """In the order of time; what ends is freed before what begins."""
    order = [(b.start, 1, k) for k, b in enumerate(buffers)] + [(b.end, 0, k) for k, b in enumerate(buffers)]
    return [("alloc" if begins else "free", k, buffers[k].nbytes) for _, begins, k in sorted(order)]


class Held(NamedTuple):
    """Most bytes that a pool held over the most that were live; requests that went to the device, all, and in the end."""

    ratio: float
    calls: int
    late: int


def held(name: str, requests: list[tuple[str, int, int]], late: int = 0) -> Held:
    """Replay; ``late``: how many requests at the end are counted apart. ``settled`` is ``best_fit`` that has settled."""
    fake = FakeDevice(1 << 60)
    pool = PooledStorage("best_fit" if name == "settled" else name, allocators={"gpu": lambda device: fake})
    handles: dict[int, Any] = {}
    live = most = before = 0
    for at, (what, key, nbytes) in enumerate(requests):
        if at == len(requests) - late:
            before = fake.allocations
        if what == "alloc":
            handles[key] = pool.alloc(nbytes, "gpu")
            live += nbytes
            most = max(most, live)
        else:
            handle = handles.pop(key)
            live -= handle.nbytes
            pool.free(handle)
    return Held(fake.peak / most, fake.allocations, fake.allocations - before)


def warm(report: Report, figures: dict[str, Any], rounds: int = 15, number: int = 10_000) -> None:
    """``alloc`` and ``free`` of what is there."""
    for nbytes in (1000, 256 * KIB, 4 << 20):
        best: dict[str, float] = {}
        pools = {name: PooledStorage(name) for name in NAMES}
        for _ in range(rounds):
            for name, pool in pools.items():
                few = number if name != "unpooled" else 300
                seconds = timeit.timeit(
                    lambda pool=pool, nbytes=nbytes: pool.free(pool.alloc(nbytes, "cpu")), number=few
                )
                best[name] = min(best.get(name, math.inf), seconds / few * 1e6)
            seconds = timeit.timeit(lambda nbytes=nbytes: bytearray(nbytes), number=100)
            best["bytearray"] = min(best.get("bytearray", math.inf), seconds / 100 * 1e6)
        for name, value in best.items():
            barred = name not in ("unpooled", "bytearray")
            figures[f"warm.{name}.{nbytes}"] = value
            report.line(
                f"alloc + free, {nbytes} bytes, {name}",
                f"{value:.2f} us",
                f"at most {WARM_US}" if barred else "",
                value <= WARM_US if barred else None,
            )


def table(
    report: Report, figures: dict[str, Any], title: str, rows: dict[str, list[Any]], bar: float, steps: int = 1
) -> None:
    """One line per trace, a column per pool, and the bar of ``best_fit`` on its worst."""
    columns = (*NAMES, "settled")
    results: dict[str, dict[str, Held]] = {name: {} for name in columns}
    for name in columns:
        kept = pool_module.SETTLED
        pool_module.SETTLED = 0 if name == "settled" else kept
        try:
            for row, requests in rows.items():
                results[name][row] = held(name, requests, len(requests) // steps)
        finally:
            pool_module.SETTLED = kept
    print(
        f"\n{title}: most bytes held / most bytes live\n{'':28s}"
        + "".join(f"{name:>12s}" for name in columns)
        + "   calls"
    )
    for row, requests in rows.items():
        asked = sum(r[0] == "alloc" for r in requests) // steps
        line = f"{row} ({asked})"
        calls = f"   {results['best_fit'][row].late}, settled {results['settled'][row].late}, of {asked}"
        print(f"{line:28s}" + "".join(f"{results[name][row].ratio:12.3f}" for name in columns) + calls)
    means = {name: math.exp(sum(math.log(h.ratio) for h in of.values()) / len(of)) for name, of in results.items()}
    print(f"{'geometric mean':28s}" + "".join(f"{means[name]:12.3f}" for name in columns))
    worst = max(h.ratio for h in results["best_fit"].values())
    figures[title] = {name: {row: h._asdict() for row, h in of.items()} for name, of in results.items()}
    report.line(f"{title}: best_fit, worst", f"{worst:.3f}", f"at most {bar}", worst <= bar)


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="warm,hard,training")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minimalloc", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    wanted, report, figures = options.only.split(","), Report(), {}  # type: ignore[var-annotated]
    if "warm" in wanted:
        warm(report, figures)
    if "hard" in wanted:
        if options.minimalloc:
            title, instances = "MiniMalloc's instances", dict(minimalloc(options.minimalloc))
        else:
            title = "generated hard instances"
            instances = {f"cut {count}": cut(count, options.seed * 1000 + count) for count in COUNTS}
        table(report, figures, title, {name: events(buffers) for name, buffers in instances.items()}, HARD)
    if "training" in wanted:
        nets = {"LeNet": lenet(), "ResNet-18": resnet18(), "LSTM": lstm(), "transformer block": transformer()}
        rows = {name: Tape().steps(layers, STEPS) for name, layers in nets.items()}
        table(report, figures, "synthetic training", rows, TRAINING, STEPS)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if report.met else 1


if __name__ == "__main__":
    sys.exit(main())
