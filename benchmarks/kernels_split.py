"""Kernels that share pieces out: milliseconds on 1 and on 2 compute threads.

::

    python benchmarks/kernels_split.py      ... --only TEXT   some cases     ... --repeats N     ... --dtype float64

The two run in turns and the least time counts, because other work on the machine only ever adds. With ``--whole`` a
third column is the kernel on whole arrays, without pieces.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mxcore import operators
from mxcore.oplib import threads
from mxcore.oplib.numpy_library import NumpyLibrary
from mxcore.oplib.threads import Team

#: operator, shapes of the arrays (an int is a number of indices into the next shape's first axis), attributes
Case = tuple[str, list[Any], dict[str, Any]]


def _updates(size: int) -> list[Case]:
    return [
        ("sgd_update", [(size,)] * 2, {"lr": 0.1, "wd": 1e-4}),
        ("sgd_mom_update", [(size,)] * 3, {"lr": 0.1, "momentum": 0.9, "wd": 1e-4}),
        ("adam_update", [(size,)] * 4, {"lr": 0.1}),
    ]


def _batch_norm(*shape: int, axis: int = 1) -> list[Case]:
    c = (shape[axis],)
    return [
        ("BatchNorm", [shape, c, c, c, c], {"fix_gamma": False, "axis": axis, "training": True}),
        ("_backward_BatchNorm", [shape, shape, c, c, c, np.ones(1)], {"fix_gamma": False, "axis": axis}),
    ]


def _pooling(shape: tuple[int, ...], out: tuple[int, ...], **how: Any) -> list[Case]:
    return [("Pooling", [shape], how), ("_pooling_backward", [out, shape, out], how)]


def _unary(*sizes: int) -> list[Case]:
    names = ("tanh", "exp", "log", "sqrt", "sigmoid", "erf", "gammaln", "softrelu", "square")
    return [(name, [(size,)], {}) for name in names for size in sizes]


def cases() -> list[Case]:
    """Return what is measured."""
    two = {"kernel": (2, 2), "stride": (2, 2)}
    three = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}
    big = (1 << 20,)
    rows, attention = (4096, 768), (384, 128, 128)
    return [
        *_batch_norm(32, 64, 32, 32),
        *_batch_norm(32, 512, 7, 7),
        *_batch_norm(32, 32, 32, 64, axis=3),
        *_batch_norm(1, 64, 112, 112),
        *_pooling((32, 64, 32, 32), (32, 64, 16, 16), **two),
        *_pooling((32, 64, 32, 32), (32, 64, 16, 16), **three),
        *_updates(1 << 18),
        *_updates(1 << 20),
        *_updates(1 << 22),
        *_unary(1 << 18, 1 << 20, 1 << 22),
        ("LeakyReLU", [big, None], {"act_type": "leaky"}),
        ("LeakyReLU", [big, None], {"act_type": "elu"}),
        ("LeakyReLU", [big, None], {"act_type": "gelu"}),
        ("_gelu_backward", [big, big], {}),
        ("Activation", [big], {"act_type": "tanh"}),
        ("_backward_Activation", [big, big], {"act_type": "tanh"}),
        ("softmax", [(256, 1000), None], {}),
        ("softmax", [attention, None], {}),
        ("_backward_softmax", [attention, attention], {}),
        ("log_softmax", [(2048, 10000)], {}),
        ("_backward_log_softmax", [(2048, 10000)] * 2, {}),
        ("LayerNorm", [rows, (768,), (768,)], {}),
        ("_backward_LayerNorm", [rows, rows, (768,), (4096, 1), (4096, 1)], {}),
        ("take", [(50000, 256), 4096], {}),
        ("take", [(1000, 5000), 2500], {"axis": 1}),
        ("Embedding", [2048, (50000, 512)], {"input_dim": 50000, "output_dim": 512}),
        *((name, [(2048, 1024)], {"axis": axis}) for name in ("sum", "max", "norm") for axis in (0, 1, None)),
        ("prod", [(2048, 1024)], {"axis": 1}),
        ("argmax", [(2048, 1024)], {"axis": 1}),
        ("Dropout", [(1 << 21,)], {"p": 0.5, "training": True}),
        ("_mul_scalar", [(1 << 20,)], {"scalar": 1.5}),
        ("_mul_scalar", [(1 << 22,)], {"scalar": 1.5}),
        ("_power_scalar", [(1 << 20,)], {"scalar": 2.5}),
        ("broadcast_div", [(1 << 22,)] * 2, {}),
        ("broadcast_greater", [(1 << 22,)] * 2, {}),
        ("add_n", [(1 << 21,)] * 3, {}),
        ("transpose", [(2048, 1024)], {}),
        ("transpose", [(32, 64, 32, 32)], {"axes": (0, 2, 3, 1)}),
        ("_copy", [(1 << 22,)], {}),
        ("LRN", [(32, 64, 28, 28)], {"nsize": 5}),
        ("FullyConnected", [(4096, 64), (1024, 64), (1024,)], {"num_hidden": 1024}),
        (
            "Convolution",
            [(1, 256, 56, 56), (256, 1, 3, 3), (256,)],
            {"kernel": (3, 3), "pad": (1, 1), "num_filter": 256, "num_group": 256},
        ),
    ]


def call(case: Case, dtype: str) -> Callable[[], object]:
    """Return a case as a call without arguments."""
    name, shapes, given = case
    rng = np.random.default_rng(0)
    arrays = []
    for k, shape in enumerate(shapes):
        if isinstance(shape, int):
            other = shapes[1 - k]
            arrays.append(rng.integers(0, other[given.get("axis", 0)], shape))
        elif isinstance(shape, tuple):
            arrays.append(rng.uniform(0.1, 0.9, shape).astype(dtype))
        else:
            arrays.append(shape)
    record = operators.get(name)
    attributes = record.parse({k: v for k, v in given.items() if k != "training"})
    if record.training:
        attributes["training"] = given.get("training", False)
    if record.random:
        attributes["rng"] = np.random.Generator(np.random.Philox(0))
    kernel = NumpyLibrary().kernel(name)
    if record.mutates and "update" in name:
        return lambda: kernel(*arrays, out=arrays[0], **attributes)
    return lambda: kernel(*arrays, **attributes)


@contextlib.contextmanager
def uncut() -> Iterator[None]:
    """No kernel cuts by the limits of :mod:`mxcore.oplib.threads` while this lasts."""
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("mxcore.oplib")]
    before = [(m, k, getattr(m, k)) for m in modules for k in ("LARGE", "LARGE_PLAIN") if hasattr(m, k)]
    try:
        for m, k, _ in before:
            setattr(m, k, 1 << 60)
        yield
    finally:
        for m, k, value in before:
            setattr(m, k, value)


TEAMS = [Team(1), Team(2), Team(1)]


def measure(fn: Callable[[], object], repeats: int, least: list[float]) -> None:
    """Lower the least times on 1 and 2 threads and, if there is a third, on whole arrays."""
    for _ in range(repeats):
        for i in range(len(least)):
            threads._team = TEAMS[i]
            with uncut() if i == 2 else contextlib.nullcontext():
                fn()
                start = time.perf_counter()
                fn()
                least[i] = min(least[i], (time.perf_counter() - start) * 1e3)


def described(case: Case) -> str:
    name, shapes, given = case
    shape = "x".join(map(str, next(s for s in shapes if isinstance(s, tuple))))
    said = {k: v for k, v in given.items() if k in ("act_type", "axis", "kernel", "scalar")}
    return f"{name:22} {shape:16} {','.join(f'{k}={v}' for k, v in said.items()).replace(' ', '')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="in each round")
    parser.add_argument("--rounds", type=int, default=4, help="over all cases, so that a busy minute harms none alone")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    print(f"{'operator':58} {'1 thread':>9} {'2 threads':>9} {'ratio':>6}" + ("     whole" if options.whole else ""))
    chosen = [case for case in cases() if options.only in described(case)]
    least = [[float("inf")] * (3 if options.whole else 2) for _ in chosen]
    for _ in range(options.rounds):
        for case, times in zip(chosen, least):
            measure(call(case, options.dtype), options.repeats, times)
    for case, (one, two, *whole) in zip(chosen, least):
        print(f"{described(case):58} {one:9.3f} {two:9.3f} {one / two:6.2f}" + "".join(f" {w:9.3f}" for w in whole))


if __name__ == "__main__":
    main()
