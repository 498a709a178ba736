"""Training steps on the threaded engine against NaiveEngine and MXNet, and the bits of trained weights on every engine.

    python benchmarks/engine_training.py [--models mlp,lenet,resnet18,inception] [--rounds N] [--mxnet /path/to/python]
    python benchmarks/engine_training.py --hashes [--steps 200 --repeats 10]

Engines take turns in one process, training one net; the median step of each side counts. NaiveEngine stands twice: with the
op library's own team of compute threads (what mxcore does by default), and with BLAS alone on all cores. MXNet runs in
processes of its own, with 1 and 2 OpenMP threads, and its better setting counts. Steps end with a wait for the weights.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import training

BATCH = {**training.SHAPES, "inception": (32, 64, 28, 28), "small": (16, 3, 12, 12)}
BARS = {"mlp": 1.0, "lenet": 1.0, "resnet18": 0.85, "inception": 0.85}
SIDES = ("threaded_per_device", "naive", "naive, BLAS only")


def inception(mx: Any) -> Any:
    """Build a block of two branches (Szegedy et al., 2014), and a classifier."""
    nn = mx.gluon.nn

    class Branches(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.left, self.right = nn.HybridSequential(), nn.HybridSequential()
                self.left.add(nn.Conv2D(48, 1, activation="relu"), nn.Conv2D(64, 3, padding=1, activation="relu"))
                self.right.add(nn.Conv2D(32, 1, activation="relu"), nn.Conv2D(48, 5, padding=2, activation="relu"))

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.concat(self.left(x), self.right(x), dim=1)

    net = nn.HybridSequential()
    net.add(Branches(), nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def small(mx: Any) -> Any:
    """Build a small convolutional net with batch normalization and dropout."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(8, 3, padding=1),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.MaxPool2D(2, 2),
        nn.Dense(32, activation="tanh"),
        nn.Dropout(0.3),
        nn.Dense(10),
    )
    return net


def model_of(mx: Any, name: str) -> Any:
    """Build a model by its name."""
    return {"inception": inception, "small": small}.get(name, lambda mx: training.gluon_model(mx, name))(mx)


def trainer_of(mx: Any, name: str) -> tuple[Callable[[], None], Any]:
    """Return ``step()`` and the net."""
    rng = np.random.default_rng(0)
    shape = BATCH[name]
    x = mx.nd.array(rng.standard_normal(shape).astype("float32"))
    y = mx.nd.array(rng.integers(0, 10, shape[0]).astype("float32"))
    mx.random.seed(1)
    np.random.seed(1)
    net = model_of(mx, name)
    net.initialize(mx.init.Xavier())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step() -> None:
        with mx.autograd.record():
            total = loss(net(x), y)
        total.backward()
        trainer.step(shape[0])
        mx.nd.waitall()

    return step, net


def compare(name: str, rounds: int) -> dict[str, Any]:
    """Return the median milliseconds of a step on each side.

    All sides train one net, so that none has the better places in memory; they take turns of some steps.
    """
    import mxcore as mx
    from mxcore.dispatch import runtime
    from mxcore.oplib import threads

    alone = threads.Team(1)  # kernels in one thread, BLAS with its own
    step = trainer_of(mx, name)[0]
    engines = {}
    for side in SIDES:
        with mx.use(engine=side.split(",")[0]):
            engines[side] = runtime.current().engine
    times: dict[str, list[float]] = {side: [] for side in SIDES}

    def turn(side: str, steps: int) -> None:
        with mx.use(engine=engines[side]):
            team = threads._team
            if side.endswith("only"):
                threads._team = alone
            try:
                step()
                for _ in range(steps):
                    began = time.perf_counter()
                    step()
                    times[side].append((time.perf_counter() - began) * 1e3)
            finally:
                threads._team = team

    turn("naive", 3)
    took = times["naive"][-1]
    for side in SIDES:
        turn(side, 30 if took < 100 else 14)  # costs become known
        times[side].clear()
    steps = max(1, min(25, int(100 / took)))
    for _ in range(rounds):
        for side in SIDES[:2]:
            turn(side, steps)
    for _ in range(max(2, rounds // 3)):
        turn(
            SIDES[2], steps
        )  # apart: BLAS's threads spin for a while after their last product, and would cost the next side
    best = {side: statistics.median(of) for side, of in times.items()}
    ours = best[SIDES[0]]
    return {
        "model": name,
        "ms": best,
        "against naive": ours / best["naive"],
        "against naive, BLAS only": ours / best["naive, BLAS only"],
        "bar": BARS.get(name),
    }


def mxnet_ms(python: str, name: str) -> dict[str, float]:
    """Return MXNet's milliseconds by number of OpenMP threads."""
    found = {}
    for number in ("1", "2"):
        env = dict(os.environ, OMP_NUM_THREADS=number, MXNET_ENGINE_TYPE="ThreadedEnginePerDevice")
        command = [python, str(pathlib.Path(training.__file__)), "--framework", "mxnet", "--model", name]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        found[number] = json.loads(done.stdout.strip().splitlines()[-1])["ms"]
    return found


def hashes(engines: Sequence[str], models: Sequence[str], steps: int, repeats: int) -> dict[str, set[str]]:
    """Return by model the hashes of the weights after training on every engine, ``repeats`` times each."""
    import mxcore as mx

    found: dict[str, set[str]] = {}
    for model in models:
        found[model] = set()
        for engine in engines:
            for _ in range(repeats):
                with mx.use(engine=engine):
                    step, net = trainer_of(mx, model)
                    for _ in range(steps):
                        step()
                    digest = hashlib.sha256()
                    for parameter in net.collect_params().values():
                        digest.update(parameter.data().asnumpy().tobytes())
                    found[model].add(digest.hexdigest()[:16])
    return found


def main() -> int:
    """Run the command line; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", default="mlp,lenet,resnet18,inception")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--mxnet", help="an interpreter that has MXNet 1.9.1")
    parser.add_argument("--hashes", action="store_true", help="train on every engine and compare the weights' bits")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", help="write the figures there")
    options = parser.parse_args()
    missed = False
    results: list[Any] = []
    if options.hashes:
        models = ("mlp", "lenet", "small")
        for model, digests in hashes(
            ("naive", "threaded", "threaded_per_device"), models, options.steps, options.repeats
        ).items():
            print(f"{model:10} {options.steps} steps, {options.repeats} times on each of 3 engines: {sorted(digests)}")
            missed |= len(digests) != 1
            results.append({"model": model, "hashes": sorted(digests)})
    else:
        for model in options.models.split(","):
            row = compare(model, options.rounds)
            text = f"{model:10} " + "  ".join(f"{side} {ms:.2f} ms" for side, ms in row["ms"].items())
            text += f"  ratio {row['against naive']:.3f}, to BLAS only {row['against naive, BLAS only']:.3f} (bar {row['bar']})"
            if options.mxnet and model in training.SHAPES:
                row["mxnet"] = mxnet_ms(options.mxnet, model)
                least = min(row["mxnet"].values())
                text += f"  MXNet {row['mxnet']} ratio {row['ms'][SIDES[0]] / least:.3f}"
            print(text, flush=True)
            missed |= row["bar"] is not None and row["against naive"] > row["bar"]
            results.append(row)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
