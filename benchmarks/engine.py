"""The threaded engines as schedulers: what a push costs, and how near the order of the work comes to the best possible.

    python benchmarks/engine.py [--only push,makespan,products,chain,metg,wake] [--work compute|sleep] [--graphs N]
                                [--rounds N] [--json FILE] [--tiny]

Functions are pushed to the engines directly; no arrays. Everything that is compared runs in this one process and takes
turns; of the rounds the best of each side counts (what else runs on the machine only ever adds time), after a
collection of garbage. A bar that is missed is printed as such and makes the exit status 1. Run it on a quiet machine
with at least two cores; about two minutes.

push
    A no-op with two reads and one write, pushed 5,000 times, then a wait: microseconds per task. Dask's threaded
    scheduler gets the same graph (less of it: it is much slower) already built; the standard library's pool gets the
    functions without any dependencies.
makespan
    Five families of graphs, 1 ms a task on average, two workers: the time from the first push to the end of the wait,
    over the limit ``max(critical path, work / 2)`` that no order can beat. The limit comes from the durations that
    NaiveEngine needs for the same functions in the same rounds. *Learned* is the default after enough passes to know
    the costs and the plan; *FIFO* is ``learn=False``; *simulated* is a list scheduler without any overhead, on the same
    durations, in order of readiness and by critical path with the mean cost of each class; it is also done with the ranks
    that the engine gave its pushes, which tells a bad order from a slow engine. ``--work compute`` hashes
    (PBKDF2: one call into C, without the GIL, no memory); ``--work sleep`` sleeps, which shows the order alone,
    whatever the cores are doing.
products
    Two independent chains of 1024 x 1024 products against NaiveEngine, BLAS on one thread in both; and two bare threads.
chain
    1,000 functions of 5 to 50 microseconds that depend on each other, against NaiveEngine: learning must cost nothing.
metg
    Task Bench's METG(50 %): the shortest task at which half of the time of all cores is useful work. A stencil of eight
    points; *pushed* through two workers, and *inline* in the caller, where one core is all there is.
wake
    One push to a worker that sleeps: until the function starts, and until the caller's wait ends.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import heapq
import json
import math
import os
import pathlib
import platform
import queue
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from mxcore_engine_threaded.engine import ThreadedEngine, ThreadedEnginePerDevice
from run import Report
from threadpoolctl import threadpool_limits

from mxcore.engine.naive import NaiveEngine

WORKERS = 2
clock = time.perf_counter_ns


class Options(NamedTuple):
    """What was asked for; ``tiny`` is for trying the program out."""

    work: str
    graphs: int
    rounds: int
    tiny: bool

    def size(self, full: int, tiny: int) -> int:
        """Return ``full``, or ``tiny`` for a trial."""
        return tiny if self.tiny else full


class Rows(Report):
    """Prints lines and keeps them, with their numbers, for ``--json``."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.section = ""

    def add(self, what: str, value: str, bar: str = "stated", met: bool | None = None, **numbers: Any) -> None:
        """Print one figure and keep it."""
        self.line(what, value, bar, met)
        self.rows.append(
            {"section": self.section, "what": what, "value": value, "bar": bar, "met": met, "numbers": numbers}
        )


def timed(run: Callable[[], Any]) -> int:
    """Return the nanoseconds of one run, after a collection of garbage."""
    gc.collect()
    began = clock()
    run()
    return clock() - began


def in_turns(sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[int]]:
    """Time all sides, one after the other in each round."""
    times: dict[str, list[int]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            times[name].append(timed(run))
    return times


# ---- work of a given duration ------------------------------------------------------------------------------------------


class Hashing:
    """Computes for a given time in one call without the GIL and without touching memory."""

    def __init__(self) -> None:
        def best(rounds: int) -> int:
            times = []
            for _ in range(300):  # without the collection of timed(): what is called again and again is warm
                began = clock()
                self._hash(rounds)
                times.append(clock() - began)
            return min(times)

        short, long = best(1), best(501)
        self._per_round = (long - short) / 500
        self._fixed = short

    @staticmethod
    def _hash(rounds: int) -> None:
        hashlib.pbkdf2_hmac("sha256", b"key", b"salt", rounds)

    def function(self, ns: float) -> Callable[[], None]:
        """Return a function that takes about ``ns``."""
        rounds = max(1, round((ns - self._fixed) / self._per_round) + 1)
        hash_ = self._hash
        return lambda: hash_(rounds)


class Sleeping:
    """Sleeps for a given time; what ``time.sleep`` takes longer is measured first and taken off."""

    def __init__(self) -> None:
        self._late = statistics.median(timed(lambda: time.sleep(1e-4)) - 100_000 for _ in range(50))

    def function(self, ns: float) -> Callable[[], None]:
        """Return a function that takes about ``ns``."""
        seconds = max(0.0, ns - self._late) / 1e9
        return lambda: time.sleep(seconds)


# ---- graphs ------------------------------------------------------------------------------------------------------------


class Node(NamedTuple):
    """One push of a graph: the class of its function, its cost in any unit, and its variables by number."""

    kind: str
    cost: float
    reads: tuple[int, ...]
    writes: tuple[int, ...]


class Graph:
    """A list of pushes under construction; every :meth:`add` returns a new variable unless it is told what to write."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.variables = 0

    def variable(self) -> int:
        """Return the number of a variable that nothing in the graph has written yet."""
        self.variables += 1
        return self.variables - 1

    def add(self, kind: str, cost: float, reads: Sequence[int], write: int | None = None) -> int:
        """Append a push; return the variable that it writes."""
        out = self.variable() if write is None else write
        self.nodes.append(Node(kind, cost, tuple(reads), (out,)))
        return out


def layered(draw: random.Random) -> Graph:
    """Thirty layers of one to six nodes, each with one to three inputs from the layer before; five very unequal classes."""
    graph = Graph()
    before: list[int] = []
    for _ in range(30):
        layer: list[int] = []
        for _ in range(draw.randint(1, 6)):
            k = draw.randrange(5)
            cost = (1, 2, 5, 10, 30)[k] * draw.uniform(0.9, 1.1)
            layer.append(graph.add(f"op{k}", cost, draw.sample(before, min(len(before), draw.randint(1, 3)))))
        before = layer
    return graph


def inception(draw: random.Random) -> Graph:
    """Twelve blocks of four branches of unequal length that meet again."""
    graph = Graph()
    x = graph.variable()
    for _ in range(12):
        x = graph.add("split", 1, [x])
        ends = []
        for branch, (cost, length) in enumerate(((3, 1), (8, 2), (15, 3), (6, 1))):
            y = x
            for _ in range(length):
                y = graph.add(f"branch{branch}", cost * draw.uniform(0.9, 1.1), [y])
            ends.append(y)
        x = graph.add("concat", 1, ends)
    return graph


def cholesky(draw: random.Random) -> Graph:
    """The factorization of a matrix of 9 x 9 tiles, in place."""
    graph, n = Graph(), 9
    tile = {(i, j): graph.variable() for i in range(n) for j in range(i + 1)}

    def update(kind: str, cost: float, at: tuple[int, int], *others: tuple[int, int]) -> None:
        graph.add(kind, cost * draw.uniform(0.95, 1.05), [*(tile[o] for o in others), tile[at]], tile[at])

    for k in range(n):
        update("potrf", 4, (k, k))
        for i in range(k + 1, n):
            update("trsm", 9, (i, k), (k, k))
        for i in range(k + 1, n):
            for j in range(k + 1, i):
                update("gemm", 12, (i, j), (i, k), (j, k))
            update("syrk", 9, (i, i), (i, k))
    return graph


def lstm(draw: random.Random) -> Graph:
    """Three layers of 24 steps: each cell reads the cell before it in time and the one below it."""
    graph = Graph()
    state = [graph.variable() for _ in range(3)]
    for _ in range(24):
        below: list[int] = []
        for layer in range(3):
            state[layer] = graph.add("cell", 10 * draw.uniform(0.9, 1.1), [state[layer], *below])
            below = [state[layer]]
    return graph


def backward(draw: random.Random) -> Graph:
    """24 dense layers forward, then for each the gradients of its input and its weight, and the update of the weight."""
    graph, layers = Graph(), 24
    weights = [graph.variable() for _ in range(layers)]
    x = [graph.variable()]
    for weight in weights:
        x.append(graph.add("forward", 8, [x[-1], weight]))
    dx = x[-1]
    for k in reversed(range(layers)):
        below = graph.add("grad input", 8, [dx, weights[k]])
        gradient = graph.add("grad weight", 8, [dx, x[k]])
        graph.add("update", 2, [gradient, weights[k]], weights[k])
        dx = below
    return graph


FAMILIES = {
    "random layered": layered,
    "inception-like branches": inception,
    "tiled Cholesky 9x9": cholesky,
    "3-layer LSTM wavefront": lstm,
    "forward and backward": backward,
}


def successors(nodes: Sequence[Node]) -> list[list[int]]:
    """Return for each node the later ones that must wait for it, by the engine's rules for reads and writes."""
    after: list[set[int]] = [set() for _ in nodes]
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for k, node in enumerate(nodes):
        for v in node.reads:
            if v in writer:
                after[writer[v]].add(k)
            readers.setdefault(v, []).append(k)
        for v in node.writes:
            if v in writer:
                after[writer[v]].add(k)
            for reader in readers.pop(v, ()):
                after[reader].add(k)
            writer[v] = k
    return [sorted(s - {k}) for k, s in enumerate(after)]


def bottom_levels(after: Sequence[Sequence[int]], costs: Sequence[float]) -> list[float]:
    """Return for each node the length of the longest chain that begins with it."""
    levels = [0.0] * len(costs)
    for k in reversed(range(len(costs))):
        levels[k] = costs[k] + max((levels[s] for s in after[k]), default=0.0)
    return levels


def limit(after: Sequence[Sequence[int]], costs: Sequence[float]) -> float:
    """Return the time that no schedule on the workers can beat."""
    return max(max(bottom_levels(after, costs)), sum(costs) / WORKERS)


def class_means(nodes: Sequence[Node], costs: Sequence[float]) -> list[float]:
    """Return for each node the mean cost of its class."""
    of: dict[str, list[float]] = {}
    for node, cost in zip(nodes, costs):
        of.setdefault(node.kind, []).append(cost)
    return [statistics.fmean(of[node.kind]) for node in nodes]


def simulate(after: Sequence[Sequence[int]], costs: Sequence[float], ranks: Sequence[float]) -> float:
    """Return the makespan of list scheduling without overhead: the largest rank first, and then who was ready first."""
    missing = [0] * len(costs)
    for followers in after:
        for s in followers:
            missing[s] += 1
    order = 0
    ready: list[tuple[float, int, int]] = []
    for k, count in enumerate(missing):
        if not count:
            heapq.heappush(ready, (-ranks[k], order, k))
            order += 1
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < WORKERS:
            k = heapq.heappop(ready)[2]
            heapq.heappush(running, (now + costs[k], k))
        now, ended = heapq.heappop(running)
        for s in after[ended]:
            missing[s] -= 1
            if not missing[s]:
                heapq.heappush(ready, (-ranks[s], order, s))
                order += 1
    return now


class Player:
    """A graph bound to the variables of one engine, to be pushed again and again."""

    def __init__(self, engine: Any, graph: Graph, work: Any, unit_ns: float) -> None:
        self.engine = engine
        #: Nanoseconds that each function took in the last pass.
        self.durations = [0] * len(graph.nodes)
        variables = [engine.new_variable() for _ in range(graph.variables)]
        self._pushes = [
            (
                self._function(k, work.function(node.cost * unit_ns)),
                tuple(variables[v] for v in node.reads),
                tuple(variables[v] for v in node.writes),
                node.kind,
            )
            for k, node in enumerate(graph.nodes)
        ]

    def _function(self, k: int, compute: Callable[[], None]) -> Callable[[], None]:
        durations = self.durations

        def run() -> None:
            began = clock()
            compute()
            durations[k] = clock() - began

        return run

    def play(self) -> None:
        """Push everything and wait."""
        push = self.engine.push
        for fn, reads, writes, name in self._pushes:
            push(fn, reads, writes, name=name)
        self.engine.wait_for_all()


# ---- push + complete ---------------------------------------------------------------------------------------------------


def noop(*_: Any) -> None:
    """What is pushed when only the pushing counts."""


def push_all(engine: Any, n: int) -> Callable[[], None]:
    """Return a run of ``n`` pushes and a wait: task k reads what tasks k-64 and k-63 wrote and writes one variable."""
    ring = [engine.new_variable() for _ in range(128)]
    sets = [((ring[k % 128], ring[(k + 1) % 128]), (ring[(k + 64) % 128],)) for k in range(128)]

    def run() -> None:
        push = engine.push
        for k in range(n):
            reads, writes = sets[k & 127]
            push(noop, reads, writes)
        engine.wait_for_all()

    return run


def push_to_dask(pool: ThreadPoolExecutor, n: int) -> Callable[[], None] | None:
    """Return a run of the same graph through Dask's threaded scheduler; None without Dask."""
    try:
        from dask.threaded import get
    except ImportError:
        return None
    graph: dict[Any, Any] = {("start", k): None for k in range(-64, 1)}
    key = {k: ("start" if k <= 0 else "task", k) for k in range(-64, n + 1)}
    for k in range(1, n + 1):
        graph[key[k]] = (noop, key[k - 64], key[k - 63])
    try:  # what Dask makes of such tuples first, every time; newer versions take it ready-made
        from dask._task_spec import convert_legacy_graph
    except ImportError:
        pass
    else:
        graph = convert_legacy_graph(graph)
    last = [key[k] for k in range(max(1, n - 63), n + 1)]

    def run() -> None:
        get(graph, last, pool=pool)

    return run


def push_to_pool(pool: ThreadPoolExecutor, n: int) -> Callable[[], None]:
    """Return a run of ``n`` functions without dependencies through the standard library's pool."""

    def run() -> None:
        futures = [pool.submit(noop) for _ in range(n)]
        for future in futures:
            future.result()

    return run


def bench_push(report: Rows, options: Options) -> None:
    """Microseconds per no-op task."""
    n = options.size(5000, 200)
    n_dask = min(n, 1000)
    engines: dict[str, Any] = {"NaiveEngine": NaiveEngine()}
    for made in (ThreadedEngine, ThreadedEnginePerDevice):
        engines[f"{made.__name__}, learned (inline)"] = made(workers=WORKERS)
        engines[f"{made.__name__}, through workers"] = made(workers=WORKERS, learn=False)
    sides: dict[str, Callable[[], Any]] = {name: push_all(engine, n) for name, engine in engines.items()}
    counts = dict.fromkeys(sides, n)
    with ThreadPoolExecutor(WORKERS) as pool:
        sides["ThreadPoolExecutor"] = push_to_pool(pool, n)
        counts["ThreadPoolExecutor"] = n
        dask = push_to_dask(pool, n_dask)
        if dask is not None:
            sides["dask.threaded"] = dask
            counts["dask.threaded"] = n_dask
        for run in sides.values():
            run()
        times = in_turns(sides, options.size(2, 1) * options.rounds)
    for engine in engines.values():
        engine.shutdown()
    us = {name: min(values) / counts[name] / 1e3 for name, values in times.items()}
    for name, value in us.items():
        if not name.startswith("Threaded"):
            report.add(f"no-op task, {name}", f"{value:.2f} us", us=value)
            continue
        rivals = {rival: us[rival] / value for rival in us if not rival.startswith("Threaded")}
        text = ", ".join(f"{rival} x{ratio:.2f}" for rival, ratio in rivals.items())
        report.add(f"no-op task, {name}", f"{value:.2f} us", "at most 6 us", value <= 6, us=value, rivals=rivals)
        print(f"    {text}", flush=True)
    if dask is None:
        print("    dask cannot be imported here: not compared")


# ---- makespan ----------------------------------------------------------------------------------------------------------


class Ranks:
    """Stands in for the stream of an engine for one pass, to keep the rank that each push got."""

    def __init__(self, engine: Any, play: Callable[[], None]) -> None:
        self.ranks: list[float] = []
        self._stream = engine.stream
        engine.stream = self
        try:
            play()
        finally:
            engine.stream = self._stream

    def observe(self, *push: Any) -> int:
        """Hand the push on."""
        rank: int = self._stream.observe(*push)
        self.ranks.append(rank)
        return rank

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Outcome(NamedTuple):
    """Makespans of one graph over its limit."""

    learned: float
    fifo: float
    simulated: float
    simulated_fifo: float
    planned: float
    learned_own: float
    fifo_own: float
    foreseen: float
    whole: bool


def one_graph(graph: Graph, engines: dict[str, Any], work: Any, unit_ns: float, options: Options) -> Outcome:
    """Let the learned engine learn a graph, then run it in turns with the others."""
    nodes, after = graph.nodes, successors(graph.nodes)
    players = {name: Player(engine, graph, work, unit_ns) for name, engine in engines.items()}
    learner = engines["learned"]
    for _ in range(options.size(7, 6)):
        players["learned"].play()
    planned = Ranks(learner, players["learned"].play).ranks
    players["fifo"].play()
    serial: list[list[int]] = []
    took: dict[str, list[int]] = {name: [] for name in players}
    own: dict[str, list[float]] = {name: [] for name in players}
    stream = learner.stream
    foreseen = pushed = 0
    for _ in range(options.rounds):
        for name, player in players.items():
            replayed = stream.replayed
            ns = timed(player.play)
            took[name].append(ns)
            own[name].append(ns / limit(after, player.durations))
            if name == "learned":
                foreseen += stream.replayed - replayed
                pushed += len(nodes)
            elif name == "serial":
                serial.append(list(player.durations))
    costs = min(serial, key=sum)
    best = limit(after, costs)
    ranks = bottom_levels(after, class_means(nodes, costs))
    return Outcome(
        learned=min(took["learned"]) / best,
        fifo=min(took["fifo"]) / best,
        simulated=simulate(after, costs, ranks) / best,
        simulated_fifo=simulate(after, costs, [0] * len(nodes)) / best,
        planned=simulate(after, costs, planned) / best if len(planned) == len(nodes) else 0.0,
        learned_own=min(own["learned"]),
        fifo_own=min(own["fifo"]),
        foreseen=foreseen / pushed,
        whole=stream.plan is not None and len(stream.plan.tokens) == len(nodes),
    )


def bench_makespan(report: Rows, options: Options) -> None:
    """Makespan over its limit on five families of graphs, learned order and FIFO."""
    work: Any = Sleeping() if options.work == "sleep" else Hashing()
    task_ns = options.size(1_000_000, 20_000)
    if options.work == "compute":
        two_threads(report, work.function(50e6 if not options.tiny else 1e6), options)
    for family, make in FAMILIES.items():
        graphs = [make(random.Random(seed)) for seed in range(options.graphs)]
        unit_ns = task_ns / statistics.fmean(node.cost for graph in graphs for node in graph.nodes)
        engines = {
            "serial": NaiveEngine(),
            "fifo": ThreadedEngine(workers=WORKERS, learn=False),
            "learned": ThreadedEngine(workers=WORKERS),
        }
        outcomes = [one_graph(graph, engines, work, unit_ns, options) for graph in graphs]
        for engine in engines.values():
            engine.shutdown()
        columns = {name: [getattr(outcome, name) for outcome in outcomes] for name in Outcome._fields}
        mean = {name: statistics.fmean(values) for name, values in columns.items()}
        worst = {name: max(values) for name, values in columns.items()}
        report.add(
            f"makespan / limit, {family}, learned",
            f"{mean['learned']:.3f}, worst {worst['learned']:.3f} (simulated {mean['simulated']:.3f})",
            "mean at most 1.10, worst 1.20",
            mean["learned"] <= 1.10 and worst["learned"] <= 1.20,
            **columns,
        )
        report.add(
            f"makespan / limit, {family}, FIFO",
            f"{mean['fifo']:.3f}, worst {worst['fifo']:.3f} (simulated {mean['simulated_fifo']:.3f})",
        )
        margin, expected = mean["fifo"] - mean["learned"], mean["simulated_fifo"] - mean["simulated"]
        report.add(
            f"  learned better than FIFO by, {family}",
            f"{margin:+.3f} (simulated {expected:+.3f})",
            "at least simulated - 0.03",
            margin >= expected - 0.03,
            margin=margin,
            expected=expected,
        )
        print(
            f"    simulated with the engine's own ranks {mean['planned']:.3f}; pushes foreseen by a plan {mean['foreseen']:.0%}, "
            f"plans of the whole graph {mean['whole']:.0%}; over the limit of the run's own durations: "
            f"learned {mean['learned_own']:.3f}, FIFO {mean['fifo_own']:.3f}",
            flush=True,
        )


def two_threads(report: Rows, fn: Callable[[], None], options: Options) -> None:
    """State what two bare threads gain here: below 2 the cores share something, and no engine can do better."""

    def together() -> None:
        threads = [threading.Thread(target=fn) for _ in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    times = in_turns({"alone": fn, "together": together}, options.rounds)
    gain = WORKERS * min(times["alone"]) / min(times["together"])
    report.add("two bare threads, hashing", f"x{gain:.2f} of one", gain=gain)


# ---- chains of products ------------------------------------------------------------------------------------------------


def bench_products(report: Rows, options: Options) -> None:
    """Two chains of matrix products side by side."""
    n, length = options.size(1024, 64), options.size(6, 2)
    draw = np.random.default_rng(0)
    factor = (draw.standard_normal((n, n)) / math.sqrt(n)).astype("float32")
    chains = [[draw.standard_normal((n, n)).astype("float32"), np.empty((n, n), "float32")] for _ in range(WORKERS)]

    def product(chain: list[Any], k: int) -> Callable[[], Any]:
        source, target = chain[k % 2], chain[(k + 1) % 2]
        return lambda: np.dot(factor, source, out=target)

    steps = [[product(chain, k) for k in range(length)] for chain in chains]

    def pushed(engine: Any) -> Callable[[], None]:
        variables = [engine.new_variable() for _ in chains]

        def run() -> None:
            for k in range(length):
                for chain, x in enumerate(variables):
                    engine.push(steps[chain][k], (x,), (x,), name="dot")
            engine.wait_for_all()

        return run

    def one(chain: int) -> None:
        for step in steps[chain]:
            step()

    def bare() -> None:
        threads = [threading.Thread(target=one, args=(chain,)) for chain in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    naive, threaded = NaiveEngine(), ThreadedEngine(workers=WORKERS)
    sides = {"naive": pushed(naive), "threaded": pushed(threaded), "bare": bare}

    def limited(run: Callable[[], Any]) -> Callable[[], None]:
        def inner() -> None:
            with threadpool_limits(1):  # the threaded engine sees to that itself
                run()

        return inner

    for name in ("naive", "bare"):
        sides[name] = limited(sides[name])
    for _ in range(options.size(3, 1)):
        sides["threaded"]()  # learns what a product costs, in a few rounds
    times = in_turns(sides, options.rounds + options.size(2, 0))
    threaded.shutdown()
    best = {name: min(values) for name, values in times.items()}
    gain, bare_gain = best["naive"] / best["threaded"], best["naive"] / best["bare"]
    report.add(
        f"two chains of {length} products, {n} x {n}",
        f"x{gain:.2f} of NaiveEngine (two bare threads x{bare_gain:.2f})",
        "at least 1.8",
        gain >= 1.8,
        gain=gain,
        bare=bare_gain,
        ms=[value / 1e6 for value in best.values()],
    )


# ---- a chain of small functions ----------------------------------------------------------------------------------------


def bench_chain(report: Rows, options: Options) -> None:
    """A chain of small functions of ten kinds."""
    n, work, draw = options.size(1000, 60), Hashing(), random.Random(0)
    graph = Graph()
    x = graph.variable()
    for _ in range(n):
        kind = draw.randrange(10)
        graph.add(f"op{kind}", 5 + 5 * kind, [x], x)
    naive, learned, workers = (
        NaiveEngine(),
        ThreadedEngine(workers=WORKERS),
        ThreadedEngine(workers=WORKERS, learn=False),
    )
    engines = {"naive": naive, "learned": learned, "workers": workers}
    sides = {name: Player(engine, graph, work, 1000).play for name, engine in engines.items()}
    for _ in range(3):
        sides["learned"]()
    sides["workers"]()
    times = in_turns(sides, options.size(8, 1) * options.rounds)
    for engine in engines.values():
        engine.shutdown()
    best = {name: min(values) for name, values in times.items()}
    for name, what in (("learned", "learned"), ("workers", "through workers")):
        ratio = best[name] / best["naive"]
        middle = statistics.median(a / b for a, b in zip(times[name], times["naive"]))
        report.add(
            f"chain of {n} functions of 5 to 50 us, {what}",
            f"{best[name] / 1e6:.2f} ms / {best['naive'] / 1e6:.2f} ms = {ratio:.3f} (median {middle:.3f})",
            "at most 1.02" if name == "learned" else "stated",
            ratio <= 1.02 if name == "learned" else None,
            ratio=ratio,
            median=middle,
            us_per_task=(best[name] - best["naive"]) / n / 1e3,
        )


# ---- METG --------------------------------------------------------------------------------------------------------------


def metg(efficiency: dict[float, float]) -> float:
    """Return the duration from which on efficiency stays at 50 % or more; between two points on a logarithmic scale."""
    points = sorted(efficiency.items())
    enough = math.inf
    for k in reversed(range(len(points))):
        t, e = points[k]
        if e < 0.5:
            if k + 1 < len(points):
                t1, e1 = points[k + 1]
                enough = t * (t1 / t) ** ((0.5 - e) / (e1 - e))
            return enough
        enough = t
    return enough


def bench_metg(report: Rows, options: Options) -> None:
    """The shortest task that keeps the cores half busy."""
    work = Hashing()
    steps, width = options.size(100, 5), 8
    modes: tuple[tuple[str, bool, int, tuple[float, ...], float], ...] = (
        ("pushed, two workers", False, WORKERS, (6, 10, 15, 22, 33, 50, 75, 110), 40),
        ("inline, one core", True, 1, (2.5, 3, 4, 5, 7, 10), 5),
    )
    for what, learn, cores, durations, bar in modes:
        efficiency: dict[float, float] = {}
        for us in durations[:: options.size(1, 3)]:
            fn = work.function(us * 1000)
            engine = ThreadedEngine(workers=WORKERS, learn=learn)
            rows = [[engine.new_variable() for _ in range(width)] for _ in range(2)]

            def stencil(engine: Any = engine, rows: Any = rows, fn: Any = fn) -> None:
                push = engine.push
                for step in range(steps):
                    before, now = rows[step % 2], rows[(step + 1) % 2]
                    for i in range(width):
                        push(fn, (before[i - 1], before[i], before[(i + 1) % width]), (now[i],))
                engine.wait_for_all()

            def bare(fn: Any = fn) -> None:
                for _ in range(steps * width):
                    fn()

            stencil()
            times = in_turns({"bare": bare, "engine": stencil}, options.rounds)
            engine.shutdown()
            useful = min(times["bare"])
            efficiency[useful / (steps * width) / 1e3] = useful / min(times["engine"]) / cores
        value = metg(efficiency)
        exact = "at most " if value == min(efficiency) else ""
        text = ", ".join(f"{t:.0f} us {e:.0%}" for t, e in sorted(efficiency.items()))
        report.add(
            f"METG(50 %), {what}",
            f"{exact}{value:.1f} us" if value < math.inf else f"above {max(efficiency):.0f} us",
            f"at most {bar} us",
            value <= bar,
            us=value if value < math.inf else None,
            points=efficiency,
        )
        print(f"    {text}", flush=True)


# ---- waking ------------------------------------------------------------------------------------------------------------


def bench_wake(report: Rows, options: Options) -> None:
    """One function for a sleeping worker, and what the primitives below it take."""
    n = options.size(400, 20)
    engine = ThreadedEngine(workers=WORKERS, learn=False)
    x = engine.new_variable()
    started = [0]

    def note() -> None:
        started[0] = clock()

    def through_engine() -> None:
        engine.push(note, (), (x,))
        engine.wait_for_variable(x)

    requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def answer() -> None:
        while requests.get():
            note()
            answers.put(True)

    def through_queues() -> None:
        requests.put(True)
        answers.get()

    thread = threading.Thread(target=answer)
    thread.start()
    starts: dict[str, list[int]] = {}
    ends: dict[str, list[int]] = {}
    with ThreadPoolExecutor(1) as pool:
        sides = {
            "engine": through_engine,
            "two SimpleQueues": through_queues,
            "ThreadPoolExecutor": lambda: pool.submit(note).result(),
        }
        for _ in range(n):
            for name, run in sides.items():
                time.sleep(2e-4)  # all others asleep
                began = clock()
                run()
                ended = clock()
                starts.setdefault(name, []).append(started[0] - began)
                ends.setdefault(name, []).append(ended - began)
    requests.put(False)
    thread.join()
    engine.shutdown()
    floor = statistics.median(ends["two SimpleQueues"])
    for name in sides:
        start, end = statistics.median(starts[name]) / 1e3, statistics.median(ends[name]) / 1e3
        low = min(ends[name]) / 1e3
        report.add(
            f"push to a sleeping thread and wait, {name}",
            f"started {start:.1f} us, ended {end:.1f} us (best {low:.1f}), x{end * 1e3 / floor:.2f}",
            start_us=start,
            end_us=end,
            best_us=low,
        )


BENCHMARKS: dict[str, Callable[[Rows, Options], None]] = {
    "push": bench_push,
    "makespan": bench_makespan,
    "products": bench_products,
    "chain": bench_chain,
    "metg": bench_metg,
    "wake": bench_wake,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="names, with commas between them")
    parser.add_argument("--work", choices=("compute", "sleep"), default="compute", help="what the tasks of makespan do")
    parser.add_argument("--graphs", type=int, help="random graphs of each family (default 8)")
    parser.add_argument("--rounds", type=int, help="(default 3)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--tiny", action="store_true", help="sizes too small to mean anything")
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"--only {name}: there is no such benchmark; choose from {', '.join(BENCHMARKS)}")
    options = Options(
        given.work,
        given.graphs or (1 if given.tiny else 8),
        given.rounds or (1 if given.tiny else 3),
        given.tiny,
    )
    report = Rows()
    began = clock()
    for name in names:
        report.section = name
        BENCHMARKS[name](report, options)
    print(f"{(clock() - began) / 1e9:.0f} s", flush=True)
    if given.json:
        about = {
            "python": sys.version.split()[0],
            "numpy": np.__version__,
            "machine": platform.machine(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "switch_interval": sys.getswitchinterval(),
            "options": options._asdict(),
        }
        given.json.write_text(
            json.dumps({"about": about, "rows": report.rows}, indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )
    return 0 if report.met else 1


if __name__ == "__main__":
    raise SystemExit(main())
