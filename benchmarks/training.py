"""The time of one training step of small models: run with the interpreter of the framework to measure.

    python benchmarks/training.py --framework mxcore|mxnet|torch --model lenet|resnet18|mlp [--steps N]

The Gluon code is one and the same for mxcore and MXNet. Data are random; a step is forward, loss, backward, SGD with
momentum, and a wait for the weights. Prints one JSON line with the median in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

SHAPES = {"lenet": (64, 1, 28, 28), "resnet18": (32, 3, 32, 32), "mlp": (64, 784)}
STEPS = {"lenet": 60, "resnet18": 8, "mlp": 200}


def gluon_model(mx: Any, name: str) -> Any:
    """Build a model from Gluon layers."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    if name == "mlp":
        net.add(nn.Dense(512, activation="relu"), nn.Dense(512, activation="relu"), nn.Dense(10))
    elif name == "lenet":
        net.add(
            nn.Conv2D(20, 5, activation="relu"),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(50, 5, activation="relu"),
            nn.MaxPool2D(2, 2),
            nn.Flatten(),
            nn.Dense(128, activation="relu"),
            nn.Dense(10),
        )
    else:
        net.add(nn.Conv2D(64, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            net.add(basic_block(mx, channels, stride, channels != 64), basic_block(mx, channels, 1, False))
        net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def basic_block(mx: Any, channels: int, stride: int, project: bool) -> Any:
    """Build a ResNet basic block (He et al., 2015)."""
    nn = mx.gluon.nn

    class Basic(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.body = nn.HybridSequential()
                self.body.add(
                    nn.Conv2D(channels, 3, stride, 1, use_bias=False),
                    nn.BatchNorm(),
                    nn.Activation("relu"),
                    nn.Conv2D(channels, 3, 1, 1, use_bias=False),
                    nn.BatchNorm(),
                )
                self.short = None
                if project:
                    self.short = nn.HybridSequential()
                    self.short.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            rest = self.short(x) if self.short is not None else x
            return F.Activation(self.body(x) + rest, act_type="relu")

    return Basic()


def gluon_steps(mx: Any, model: str, steps: int) -> list[float]:
    """Run training steps; return their times in seconds."""
    rng = np.random.default_rng(0)
    x = mx.nd.array(rng.standard_normal(SHAPES[model]).astype("float32"))
    y = mx.nd.array(rng.integers(0, 10, SHAPES[model][0]).astype("float32"))
    net = gluon_model(mx, model)
    net.initialize(mx.init.Xavier())
    loss_fn = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    times = []
    for step in range(steps + 3):
        start = time.perf_counter()
        with mx.autograd.record():
            loss = loss_fn(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        mx.nd.waitall()
        if step >= 3:
            times.append(time.perf_counter() - start)
    return times


def torch_steps(model: str, steps: int) -> list[float]:
    """The same with PyTorch."""
    import torch
    from torch import nn

    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal(SHAPES[model]).astype("float32"))
    y = torch.from_numpy(rng.integers(0, 10, SHAPES[model][0]))
    if model == "mlp":
        net: Any = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    elif model == "lenet":
        net = nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
    else:
        raise SystemExit("the PyTorch side has mlp and lenet")
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    times = []
    for step in range(steps + 3):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss_fn(net(x), y).backward()
        optimizer.step()
        if step >= 3:
            times.append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("mxcore", "mxnet", "torch"), default="mxcore")
    parser.add_argument("--model", choices=tuple(SHAPES), default="lenet")
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    count = options.steps or STEPS[options.model]
    if options.framework == "torch":
        seconds = torch_steps(options.model, count)
    else:
        import importlib

        seconds = gluon_steps(importlib.import_module(options.framework), options.model, count)
    print(json.dumps({"ms": statistics.median(seconds) * 1e3, "min_ms": min(seconds) * 1e3, "steps": count}))
