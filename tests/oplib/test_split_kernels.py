"""Kernels in pieces: the same bits for any number of threads, and what the kernel gives on whole arrays.

Two ways to cut are compared: pieces so small that small arrays make many, of odd sizes, and none at all. The second is
the path that the tests of the operators check on their small arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mxcore import operators
from mxcore.oplib import threads
from mxcore.oplib.kernels import neural, normalization, pooling, reduction, sharing, special, update
from mxcore.oplib.numpy_library import NumpyLibrary
from mxcore.oplib.threads import Team

LIBRARY = NumpyLibrary()

#: module -> how it is cut
SMALL_PIECES: dict[Any, dict[str, int]] = {
    threads: {"STRETCH": 60},
    normalization: {"STRETCH": 60},
    update: {"SMALL": 8, "PIECE": 30},
    special: {"_PIECE": 50},
    neural: {"_PIECE": 50, "_LARGE": 20},
    reduction: {"_MANY": 128, "STRETCH": 60},
    sharing: {"_LONG_RUN": 1},
    pooling: {"_PIECE": 200, "_SHARED": 1},
}


def cut(monkeypatch: pytest.MonkeyPatch, pieces: bool) -> None:
    """Make kernels cut everything into small pieces, or nothing."""
    for module, names in SMALL_PIECES.items():
        for name, value in names.items():
            monkeypatch.setattr(module, name, value if pieces else 1 << 60)
    for name, module in list(sys.modules.items()):
        if name.startswith("mxcore.oplib"):
            for limit in ("LARGE", "LARGE_PLAIN"):
                if hasattr(module, limit):
                    monkeypatch.setattr(module, limit, 100 if pieces else 1 << 60)


Make = Callable[[np.random.Generator], Any]


def normal(*shape: int) -> Make:
    return lambda rng: rng.standard_normal(shape)


def positive(*shape: int) -> Make:
    return lambda rng: rng.uniform(0.1, 0.9, shape)


def whole(high: int, *shape: int) -> Make:
    return lambda rng: rng.integers(-1, high + 1, shape)


A = (7, 5, 9)
EACH = "exact"
UNARY_NAMES = """
    exp log log2 log10 log1p expm1 sqrt cbrt square negative abs sign trunc fix ceil floor sin cos tan arcsin arccos arctan
    sinh cosh tanh arcsinh arccosh arctanh degrees radians rsqrt rcbrt round rint sigmoid softsign softrelu relu erf
    gammaln gamma erfinv _copy
"""
UNARY = [
    # erfinv goes on until all numbers of a piece are exact.
    ((name, [positive(*A)], {}), "close" if name == "erfinv" else EACH)
    for name in UNARY_NAMES.split()
]
BINARY = [
    ((name, [normal(*A), normal(*A)], {}), EACH)
    for name in ("broadcast_div", "broadcast_hypot", "broadcast_equal", "broadcast_greater", "_relu_backward")
]
SCALAR = [
    ((name, [positive(*A)], {"scalar": scalar}), EACH)
    for name, scalar in (
        ("_plus_scalar", 1.5),
        ("_minus_scalar", 1.5),
        ("_rminus_scalar", 1.5),
        ("_mul_scalar", 1.5),
        ("_div_scalar", 1.5),
        ("_rdiv_scalar", 1.5),
        ("_maximum_scalar", 0.5),
        ("_power_scalar", 2.5),
        ("_power_scalar", 3.0),
        ("_rpower_scalar", 2.5),
        ("_greater_scalar", 0.5),
        ("smooth_l1", 1.0),
    )
]
ACTIVATIONS = [
    case
    for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign")
    for case in (
        (("Activation", [normal(*A)], {"act_type": kind}), EACH),
        (("_backward_Activation", [normal(*A), positive(*A)], {"act_type": kind}), EACH),
    )
] + [
    (("LeakyReLU", [normal(*A), positive(5)], {"act_type": kind}), EACH)
    for kind in ("leaky", "prelu", "elu", "selu", "gelu")
]
AXES = [
    ((name, [*arrays], {"axis": axis}), "close")
    for axis in (-1, 1, 0)
    for name, arrays in (
        ("softmax", [normal(6, 20, 17), lambda rng: None]),
        ("softmin", [normal(6, 20, 17)]),
        ("log_softmax", [normal(6, 20, 17)]),
        ("_backward_softmax", [normal(6, 20, 17), positive(6, 20, 17)]),
        ("_backward_log_softmax", [normal(6, 20, 17), positive(6, 20, 17)]),
    )
]
REDUCTIONS = [
    ((name, [normal(6, 20, 17)], {"axis": axis, "keepdims": keepdims}), "close")
    for axis in (None, 0, 1, 2, (0, 2), (1, 2))
    for keepdims in (False, True)
    for name in ("sum", "mean", "max", "min", "prod", "norm")
] + [
    ((name, [normal(6, 20, 17)], {"axis": axis, "keepdims": False}), EACH)
    for axis in (0, 1, 2)
    for name in ("argmax", "argmin")
]
BN = {"fix_gamma": False}


def batch_norm(*shape: int, axis: int = 1) -> list[Make]:
    c = shape[axis]
    return [normal(*shape), positive(c), normal(c), normal(c), positive(c)]


def batch_norm_back(*shape: int, batch: int = 1, axis: int = 1) -> list[Make]:
    c = shape[axis]
    return [normal(*shape), normal(*shape), positive(c), normal(c), positive(c), lambda rng: np.array([batch])]


NORMS = [
    (("BatchNorm", batch_norm(3, 7, 9, 11), {**BN, "training": True}), "close"),
    (("BatchNorm", batch_norm(9, 7, 3, 3), {**BN, "training": True}), "close"),
    (("BatchNorm", batch_norm(5, 3, 11, 7, axis=3), {**BN, "axis": 3, "training": True}), "close"),
    (("BatchNorm", batch_norm(150, 7), {**BN, "training": True}), "close"),
    (("BatchNorm", batch_norm(3, 7, 9, 11), {**BN, "training": False}), "close"),
    (("BatchNorm", [lambda rng: rng.standard_normal((9, 7, 3, 3)) + 50, *batch_norm(9, 7)[1:]], {"training": True}), "close"),
    (("BatchNorm", [lambda rng: rng.standard_normal((2, 7, 9, 9)) + 50, *batch_norm(9, 7)[1:]], {"training": True}), "close"),
    (("_contrib_BatchNormWithReLU", batch_norm(3, 7, 9, 11), {"training": True}), "close"),
    (("_backward_BatchNorm", batch_norm_back(3, 7, 9, 11), BN), "close"),
    (("_backward_BatchNorm", batch_norm_back(9, 7, 3, 3), BN), "close"),
    (("_backward_BatchNorm", batch_norm_back(5, 3, 11, 7, axis=3), {**BN, "axis": 3}), "close"),
    (("_backward_BatchNorm", batch_norm_back(3, 7, 9, 11, batch=0), BN), "close"),
    (("LayerNorm", [normal(5, 9, 21), normal(21), normal(21)], {}), "close"),
    (("LayerNorm", [normal(5, 9, 21), normal(9), normal(9)], {"axis": 1}), "close"),
    (("LayerNorm", [normal(5, 90), normal(5), normal(5)], {"axis": 0}), "close"),
    (("_backward_LayerNorm", [normal(5, 9, 21), normal(5, 9, 21), normal(21), normal(5, 9, 1), positive(5, 9, 1)], {}), "close"),
    (("_backward_LayerNorm", [normal(5, 9, 21)] * 2 + [normal(9), normal(5, 1, 21), positive(5, 1, 21)], {"axis": 1}), "close"),
    (("GroupNorm", [normal(5, 6, 7, 3), normal(3), normal(3)], {"num_groups": 3}), "close"),
    (("_backward_GroupNorm", [normal(5, 6, 7, 3)] * 2 + [normal(3), normal(5, 3), positive(5, 3)], {"num_groups": 3}), "close"),
    (("InstanceNorm", [normal(5, 6, 7, 3), normal(6), normal(6)], {}), "close"),
    (("LRN", [normal(5, 6, 7, 3)], {"nsize": 3}), EACH),
    *((("L2Normalization", [normal(5, 6, 7, 3)], {"mode": mode}), "close") for mode in ("instance", "channel", "spatial")),
]  # fmt: skip
POOLINGS = []
for _how in (
    {"kernel": (2, 2), "stride": (2, 2)},
    {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)},
    {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg"},
    {"global_pool": True, "pool_type": "avg"},
):
    POOLINGS.append((("Pooling", [normal(3, 5, 8, 8)], _how), "close"))
    _side = 1 if "global_pool" in _how else 4
    POOLINGS.append(
        (
            ("_pooling_backward", [normal(3, 5, _side, _side), normal(3, 5, 8, 8), normal(3, 5, _side, _side)], _how),
            "close",
        )
    )
POOLINGS.append((("Pooling", [normal(3, 8, 8, 5)], {"kernel": (2, 2), "stride": (2, 2), "layout": "NHWC"}), "close"))
UPDATES = [
    ((name, [normal(31, 23), normal(31, 23), *[positive(31, 23)] * states], attributes), EACH)
    for name, states, attributes in (
        ("sgd_update", 0, {"lr": 0.1, "wd": 0.01}),
        ("sgd_mom_update", 1, {"lr": 0.1, "momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5}),
        ("nag_mom_update", 1, {"lr": 0.1, "momentum": 0.9}),
        ("adam_update", 2, {"lr": 0.1, "wd": 0.01}),
        ("rmsprop_update", 1, {"lr": 0.1}),
        ("ftrl_update", 2, {"lr": 0.1}),
        ("lamb_update_phase1", 2, {"t": 1, "wd": 0.01}),
    )
]
DEPTHWISE = {"kernel": (3, 3), "num_filter": 6, "num_group": 6}
OTHERS = [
    (("take", [normal(11, 13), whole(11, 7, 9)], {}), EACH),
    (("take", [normal(11, 13), whole(11, 7, 9)], {"mode": "wrap"}), EACH),
    (("take", [normal(11, 13, 3), whole(13, 7)], {"axis": 1}), EACH),
    (("Embedding", [whole(11, 7, 9), normal(11, 13)], {"input_dim": 11, "output_dim": 13}), EACH),
    (("transpose", [normal(67, 71)], {}), EACH),
    (("transpose", [normal(5, 6, 7, 3)], {"axes": (0, 2, 3, 1)}), EACH),
    (("transpose", [normal(1, 6, 7, 3)], {"axes": (0, 2, 3, 1)}), EACH),
    (("clip", [normal(*A)], {"a_min": -0.5, "a_max": 0.5}), EACH),
    (("hard_sigmoid", [normal(*A)], {}), EACH),
    (("add_n", [normal(*A)] * 3, {}), EACH),
    (("_sum_like", [normal(*A), normal(5, 1)], {}), "close"),
    (("_sum_like", [normal(31, 23), normal(23)], {}), EACH),
    (("_square_sum", [normal(*A)], {}), "close"),
    (("_square_sum", [normal(*A)], {"axis": 1}), EACH),
    (("_backward_prelu", [normal(*A), normal(*A), positive(5)], {}), "close"),
    (("_backward_prelu", [normal(*A), normal(*A), positive(7, 5, 1)], {}), "close"),
    (("_gelu_backward", [normal(*A), normal(*A)], {}), EACH),
    (("_leaky_backward", [normal(*A), normal(*A)], {"slope": 0.1}), EACH),
    (("FullyConnected", [normal(31, 8), normal(16, 8), normal(16)], {"num_hidden": 16}), "close"),
    (("Convolution", [normal(2, 6, 9, 9), normal(6, 1, 3, 3), normal(6)], DEPTHWISE), EACH),
]  # fmt: skip
CASES = [
    *UNARY, *BINARY, *SCALAR, *ACTIVATIONS, *AXES, *REDUCTIONS, *NORMS, *POOLINGS, *UPDATES, *OTHERS,
]  # fmt: skip


def given(case: Any, dtype: str, strided: bool) -> list[Any]:
    """Return the arrays of a case, made afresh so that kernels may write to them."""
    rng = np.random.default_rng(0)
    arrays = []
    for make in case[1]:
        x = make(rng)
        if x is not None:
            x = x.astype(dtype)
            if strided and x.ndim:
                # Every other number of the last axis, and the axes in reverse order in memory.
                wide = np.zeros((2 * x.shape[-1], *x.shape[:-1][::-1]), dtype)
                view = wide[::2].transpose(tuple(range(x.ndim))[::-1])
                view[...] = x
                x = view
        arrays.append(x)
    return arrays


def run(case: Any, dtype: str, strided: bool) -> list[np.ndarray]:
    """Return what the kernel gives, and its inputs, to some of which it may write."""
    name, _, attributes = case
    record = operators.get(name)
    arrays = given(case, dtype, strided)
    typed = dict(attributes)
    training = typed.pop("training", None)
    typed = record.parse(typed)
    if record.training:
        typed["training"] = bool(training)
    if name == "LeakyReLU" and attributes["act_type"] != "prelu":
        arrays[1] = None
    results = LIBRARY.kernel(name)(*arrays, **typed)
    found = list(results) if isinstance(results, tuple) else [results]
    return [*found, *[a for a in arrays if a is not None]]


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case, tolerance", CASES, ids=[f"{i}-{case[0]}" for i, (case, _) in enumerate(CASES)])
def test_pieces(case, tolerance, dtype, strided, monkeypatch):
    with monkeypatch.context() as patch:
        cut(patch, pieces=False)
        patch.setattr(threads, "_team", Team(1))
        whole_ = run(case, dtype, strided)
    cut(monkeypatch, pieces=True)
    pieces = {}
    for count in (1, 2, 3):
        team = Team(count)
        monkeypatch.setattr(threads, "_team", team)
        pieces[count] = run(case, dtype, strided)
    for one, two, three, want in zip(pieces[1], pieces[2], pieces[3], whole_):
        assert one.dtype == want.dtype and one.shape == want.shape
        assert one.tobytes() == two.tobytes() == three.tobytes(), "the number of threads changed the result"
        if tolerance == EACH:
            np.testing.assert_array_equal(one, want)
        else:
            digits = 2e-5 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(one, want, rtol=digits, atol=digits)


def test_most_cases_are_cut(monkeypatch):
    """So that the test above compares something: kernels hand more than one piece to the team."""
    cut(monkeypatch, pieces=True)
    team = Team(2)
    monkeypatch.setattr(threads, "_team", team)
    alone = []
    for case, _ in CASES:
        counts: list[int] = []
        monkeypatch.setattr(
            team,
            "parallel_for",
            lambda n, grain, fn, counts=counts: (counts.append(-(-n // grain)), fn_over(n, grain, fn)),
        )
        run(case, "float32", False)
        if max(counts, default=0) < 2:
            alone.append(case[0])
    # Those that work along axis 0, or all axes at once.
    along = {"softmax", "softmin", "log_softmax", "_backward_softmax", "_backward_log_softmax", "LayerNorm"}
    assert set(alone) <= along | {"_backward_prelu", "prod", "sum", "mean", "norm"}


def fn_over(n: int, grain: int, fn: Callable[[int, int], Any]) -> None:
    for i in range(0, n, grain):
        fn(i, min(n, i + grain))


@pytest.mark.parametrize("name", ["exp", "relu", "_plus_scalar", "_power_scalar"])
def test_out_that_overlaps_its_input(name, monkeypatch):
    """A piece must not overwrite what a later piece reads."""
    typed = {"scalar": 1.5} if "scalar" in name else {}
    typed = operators.get(name).parse(typed)
    memory = np.random.default_rng(0).uniform(0.1, 1, 1001).astype(np.float32)
    want = LIBRARY.kernel(name)(memory[:-1].copy(), **typed)
    cut(monkeypatch, pieces=True)
    monkeypatch.setattr(threads, "_team", Team(2))
    got = LIBRARY.kernel(name)(memory[:-1], out=memory[1:], **typed)
    np.testing.assert_array_equal(got, want)
    again = want.copy()
    np.testing.assert_array_equal(LIBRARY.kernel(name)(again, out=again, **typed), LIBRARY.kernel(name)(want, **typed))


@pytest.mark.parametrize("p", [0.5, 0.3])
def test_dropout_draws_the_same_mask(p, monkeypatch):
    x = np.ones((37, 29), np.float32)
    results = []
    for pieces in (False, True):
        cut(monkeypatch, pieces)
        for count in (1, 2, 3):
            monkeypatch.setattr(threads, "_team", Team(count))
            rng = np.random.Generator(np.random.Philox(7))
            results.append(
                LIBRARY.kernel("Dropout")(x, **operators.get("Dropout").parse({"p": p}), rng=rng, training=True)
            )
    for y, mask in results[1:]:
        np.testing.assert_array_equal(y, results[0][0])
        np.testing.assert_array_equal(mask, results[0][1])
    assert set(np.unique(results[0][1])) == {np.float32(0), np.float32(1 / (1 - p))}


def test_sizes_that_are_cut_as_shipped(monkeypatch):
    """No patches: the limits that ship cut these, and the results are those of the parts."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1025, 1031)).astype(np.float32)
    results = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "_team", Team(count))
        softmax = LIBRARY.kernel("softmax")(x, None, **operators.get("softmax").parse({}))
        results.append((LIBRARY.kernel("tanh")(x), softmax, LIBRARY.kernel("_plus_scalar")(x, scalar=1.5)))
    for r in results[1:]:
        for a, b in zip(r, results[0]):
            assert a.tobytes() == b.tobytes()
    np.testing.assert_array_equal(results[0][0][::300], np.tanh(x[::300]))
    np.testing.assert_allclose(results[0][1].sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(results[0][2], x + np.float32(1.5))


def test_swapping_engines_makes_no_more_threads():
    import threading

    import mxcore as mx

    x = mx.nd.ones((600, 600))
    for _ in range(2):
        with mx.use(engine="naive"):
            mx.nd.dot(x, x).wait_to_read()
    before = threading.active_count()
    for _ in range(10):
        with mx.use(engine="naive"):
            mx.nd.dot(x, x).wait_to_read()
    assert threading.active_count() <= before
