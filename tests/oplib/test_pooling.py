"""Pooling kernels against values that MXNet 1.9.1 gave, and against a loop over windows in float64."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

from mxcore.operators.windows import pooling_output_shape
from mxcore.oplib.kernels import pooling as kernels
from mxcore.oplib.kernels.pooling import pooling, pooling_backward
from mxcore.spec.errors import ParameterError, ShapeError

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def attributes(**changes: Any) -> dict[str, Any]:
    return {
        "kernel": (2, 2),
        "pool_type": "max",
        "global_pool": False,
        "stride": (2, 2),
        "pad": (0, 0),
        "pooling_convention": "valid",
        "count_include_pad": True,
        "p_value": 2,
        "layout": "NCHW",
    } | changes


def reference(
    x, g, *, kernel, pool_type, global_pool, stride, pad, pooling_convention, count_include_pad, p_value, layout
):
    """Visit each window with clipped bounds; return the result and the gradient of x for ``g`` (None: ones)."""
    x = x.astype(np.float64)
    if layout[1] != "C":
        x = np.moveaxis(x, -1, 1)
    spatial = x.shape[2:]
    if global_pool:
        kernel, stride, pad, pooling_convention = spatial, (1,) * len(spatial), (0,) * len(spatial), "valid"
    rounded = {"valid": np.floor, "full": np.ceil}[pooling_convention]
    out = [int(rounded((n + 2 * p - k) / s)) + 1 for n, p, k, s in zip(spatial, pad, kernel, stride)]
    y, dx = np.zeros((*x.shape[:2], *out)), np.zeros(x.shape)
    if g is None:
        g = np.ones(y.shape)
    elif layout[1] != "C":
        g = np.moveaxis(g, -1, 1)
    for n, c in np.ndindex(*x.shape[:2]):
        for window in np.ndindex(*out):
            starts = [j * s - p for j, s, p in zip(window, stride, pad)]
            padded = [min(a + k, size + p) - a for a, k, size, p in zip(starts, kernel, spatial, pad)]
            index = tuple(slice(max(a, 0), min(a + k, size)) for a, k, size in zip(starts, kernel, spatial))
            seen, slope, at = x[n, c][index], dx[n, c][index], (n, c, *window)
            if pool_type == "max":
                y[at] = np.finfo(np.float64).min
                for position in np.ndindex(*seen.shape):
                    if seen[position] > y[at]:
                        y[at], best = seen[position], position
                if seen.size:
                    slope[best] += g[at]
                continue
            if seen.size == 0:
                continue
            power = p_value if pool_type == "lp" else 1
            size = 1
            if pool_type == "avg":
                size = np.prod(padded) if count_include_pad else seen.size
            total = (seen**power).sum() / size
            y[at] = {1: lambda v: v, 2: np.sqrt, 3: np.cbrt}[power](total)
            if power == 1:
                slope += g[at] / size
            elif y[at] != 0:
                slope += g[at] * (seen / y[at]) ** (power - 1)
    return (y, dx) if layout[1] == "C" else (np.moveaxis(y, 1, -1), np.moveaxis(dx, 1, -1))


X = np.float32([3, 1, 1, -2, 0, 2, 3, 3, 5, 1, -1, 3, 4, 4, 5, 0, 0, -3, 2, 5]).reshape(1, 1, 4, 5)
# (attributes that differ, shape of the result, result, gradient of x for gradient 1, 2, 3, ... of the result)
MXNET = [
    (
        {"kernel": (3, 3), "pad": (1, 1)},
        (2, 3),
        [3, 5, 5, 3, 5, 5],
        [1, 0, 0, 0, 0, 0, 4, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ),
    (
        {"pooling_convention": "full"},
        (2, 3),
        [3, 5, 1, 3, 4, 5],
        [1, 0, 0, 0, 0, 0, 0, 0, 2, 3, 0, 4, 5, 0, 6, 0, 0, 0, 0, 0],
    ),
    (
        {"pool_type": "avg", "kernel": (3, 3), "pad": (1, 1), "pooling_convention": "full"},
        (3, 3),
        [1, 1.22222, 0.44444, 0.77778, 2.33333, 2.44444, 0, -0.16667, 1.16667],
        [0.11111, 0.33333, 0.22222, 0.55556, 0.33333, 0.55556, 1.33333, 0.77778, 1.77778, 1]
        + [0.44444, 1, 0.55556, 1.22222, 0.66667, 1.61111, 3.5, 1.88889, 4.05556, 2.16667],
    ),
    (
        {"pool_type": "avg", "kernel": (3, 3), "pad": (1, 1), "pooling_convention": "full", "count_include_pad": False},
        (3, 3),
        [2.25, 1.83333, 1, 1.16667, 2.33333, 3.66667, 0, -0.33333, 3.5],
        [0.25, 0.58333, 0.33333, 1.08333, 0.75, 0.91667, 1.80556, 0.88889, 2.63889, 1.75]
        + [0.66667, 1.22222, 0.55556, 1.55556, 1, 4.16667, 7.38889, 3.22222, 8.72222, 5.5],
    ),
    (
        {"pool_type": "avg", "stride": (3, 3), "pad": (1, 1), "pooling_convention": "full"},
        (3, 3),
        [0.75, -0.25, 0, -0.25, 1.75, 0, 0, 0, 0],
        [0.25, 0, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 1, 0, 1.25, 1.25, 0, 1, 0, 1.25, 1.25, 0],
    ),
    (
        {"pool_type": "sum", "kernel": (2, 3), "stride": (1, 2)},
        (3, 2),
        [13, 8, 14, 22, 3, 17],
        [1, 1, 3, 2, 2, 4, 4, 10, 6, 6, 8, 8, 18, 10, 10, 5, 5, 11, 6, 6],
    ),
    (
        {"pool_type": "lp", "p_value": 2},
        (2, 2),
        [4.79583, 6.245, 3.16228, 6.7082],
        [0.62554, 0.20851, 0.32026, -0.64051, 0, 0.41703, 0.62554, 0.96077, 1.60128, 0]
        + [-0.94868, 2.84605, 2.38514, 2.38514, 0, 0, 0, -1.78885, 1.19257, 0],
    ),
    (
        {"pool_type": "lp", "p_value": 3},
        (2, 2),
        [3.97906, 5.25359, 2.9625, 4.77686],
        [0.56844, 0.06316, 0.07246, 0.28985, 0, 0.25264, 0.56844, 0.65217, 1.81158, 0]
        + [0.34183, 3.07644, 2.80476, 2.80476, 0, 0, 0, 1.57768, 0.7012, 0],
    ),
    (
        {"pool_type": "lp", "p_value": 1},
        (2, 2),
        [9, 7, 2, 7],
        [1, 1, 2, 2, 0, 1, 1, 2, 2, 0, 3, 3, 4, 4, 0, 3, 3, 4, 4, 0],
    ),
    ({"global_pool": True}, (1, 1), [5], [0] * 8 + [1] + [0] * 11),
    ({"pool_type": "avg", "global_pool": True}, (1, 1), [1.8], [0.05] * 20),
]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("changes", "shape", "values", "gradient"), MXNET)
def test_values_of_mxnet(changes, shape, values, gradient, layout: str) -> None:
    x, y_shape = (X, (1, 1, *shape)) if layout == "NCHW" else (X.reshape(1, 4, 5, 1), (1, *shape, 1))
    how = attributes(layout=layout, **changes)
    y = pooling(x, **how)
    assert y.shape == y_shape
    np.testing.assert_allclose(y.ravel(), values, rtol=1e-4, atol=1e-5)
    g = np.arange(1, y.size + 1, dtype=np.float32).reshape(y.shape)
    np.testing.assert_allclose(pooling_backward(g, x, y, **how).ravel(), gradient, rtol=1e-4, atol=1e-5)


def test_max_ignores_nan_and_stays_finite_like_mxnet() -> None:
    lowest = np.finfo(np.float32).min
    x = np.float32([[[1, 3, 3, 2, np.nan, 5, -np.inf, -np.inf]]])
    how = attributes(kernel=(2,), stride=(2,), pad=(0,), layout="NCW")
    y = pooling(x, **how)
    np.testing.assert_array_equal(y, np.float32([[[3, 3, 5, lowest]]]))
    g = np.float32([[[1, 2, np.inf, 4]]])
    np.testing.assert_array_equal(pooling_backward(g, x, y, **how), np.float32([[[0, 1, 2, 0, 0, np.inf, 0, 0]]]))
    how = attributes(kernel=(3,), stride=(1,), pad=(1,), layout="NCW")
    y = pooling(x, **how)
    np.testing.assert_array_equal(y, np.float32([[[3, 3, 3, 3, 5, 5, 5, lowest]]]))
    g = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 8)
    np.testing.assert_array_equal(pooling_backward(g, x, y, **how), np.float32([[[0, 6, 4, 0, 0, 18, 0, 0]]]))


def random_case(seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    while True:
        axes = int(rng.integers(1, 4))
        kernel = tuple(int(v) for v in rng.integers(1, 5, axes))
        pad = tuple(int(rng.integers(0, k)) for k in kernel)
        spatial = tuple(int(v) for v in rng.integers(1, 10 if axes < 3 else 6, axes))
        if all(k <= n + 2 * p for k, n, p in zip(kernel, spatial, pad)):
            break
    layout = LAYOUTS[axes][int(rng.integers(2))]
    # Small integers make ties common.
    x = rng.integers(-3, 4, (2, 3, *spatial)).astype(np.float64)
    if rng.random() < 0.4:
        x += rng.standard_normal(x.shape)
    if layout[1] != "C":
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    return x, attributes(
        kernel=kernel,
        pool_type=str(rng.choice(["max", "avg", "sum", "lp"])),
        global_pool=bool(rng.random() < 0.15),
        stride=tuple(int(v) for v in rng.integers(1, 4, axes)),
        pad=pad,
        pooling_convention=str(rng.choice(["valid", "full"])),
        count_include_pad=bool(rng.integers(2)),
        p_value=int(rng.integers(1, 4)),
        layout=layout,
    )


@pytest.mark.parametrize("piece", [1 << 17, 16])
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the reference takes roots of negative numbers
def test_random_windows(seed: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_PIECE", piece)
    x, how = random_case(seed)
    y = pooling(x, **how)
    g = np.random.default_rng(seed).standard_normal(y.shape)
    expected, gradient = reference(x, g, **how)
    assert y.shape == pooling_output_shape(x.shape, **how)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pooling_backward(g, x, y, **how), gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("pool_type", ["max", "avg", "sum", "lp"])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3)])
def test_smaller_dtypes(dtype: Any, pool_type: str, kernel: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 4, 8, 8)).astype(dtype)
    how = attributes(pool_type=pool_type, kernel=kernel)
    y = pooling(x, **how)
    g = rng.standard_normal(y.shape).astype(dtype)
    dx = pooling_backward(g, x, y, **how)
    expected, gradient = reference(x, g, **how)
    assert y.dtype == dx.dtype == dtype
    tolerance = 1e-2 if dtype is np.float16 else 1e-5
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(dx, gradient, rtol=tolerance, atol=2 * tolerance)


@pytest.mark.parametrize("kernel", [(2, 2), (3, 3)])
@pytest.mark.parametrize("pool_type", ["max", "avg"])
def test_result_does_not_depend_on_parallel_for(pool_type: str, kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_PIECE", 100)
    monkeypatch.setattr(kernels, "_SHARED", 1)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 4, 8, 8)).astype(np.float32)
    how = attributes(pool_type=pool_type, kernel=kernel)
    calls: list[tuple[int, int]] = []

    def in_threads(n, grain, fn) -> None:
        cuts = [0, n // 3, n]
        calls.extend(itertools.pairwise(cuts))
        threads = [threading.Thread(target=fn, args=pair) for pair in itertools.pairwise(cuts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    y = pooling(x, **how)
    np.testing.assert_array_equal(pooling(x, parallel_for=in_threads, **how), y)
    np.testing.assert_array_equal(
        pooling_backward(y, x, y, parallel_for=in_threads, **how), pooling_backward(y, x, y, **how)
    )
    assert calls == [(0, 2), (2, 6)] * 2


def test_integers_and_strided_input() -> None:
    x = np.arange(64).reshape(1, 8, 8, 1).transpose(0, 3, 2, 1)[:, :, ::2]
    np.testing.assert_array_equal(pooling(x, **attributes())[0, 0], [[10, 26, 42, 58], [14, 30, 46, 62]])


def test_same_convention() -> None:
    x = np.arange(7.0).reshape(1, 1, 7)
    how = attributes(kernel=(3,), stride=(2,), pad=(0,), pooling_convention="same", layout="NCW")
    y = pooling(x, **how)
    np.testing.assert_array_equal(y, [[[2, 4, 6, 6]]])
    np.testing.assert_array_equal(pooling_backward(y, x, y, **how), [[[0, 0, 2, 0, 4, 0, 12]]])


def test_empty_batch() -> None:
    x = np.empty((0, 3, 4, 4), np.float32)
    y = pooling(x, **attributes())
    assert y.shape == (0, 3, 2, 2)
    assert pooling_backward(y, x, y, **attributes()).shape == x.shape


@pytest.mark.parametrize(
    ("shape", "changes", "text"),
    [
        ((2, 3, 4), {}, r"data of shape \(2, 3, 4\) has 3 axes, but layout 'NCHW' has 4"),
        ((2, 3, 4, 4), {"kernel": (2, 7), "pad": (0, 1)}, r"axis 3 has 4 positions, 6 with pad=\(0, 1\)"),
        ((2, 3, 4, 4), {"pooling_convention": "same"}, "pooling_convention='same' needs one spatial axis and no pad"),
    ],
)
def test_shapes_that_do_not_fit(shape, changes, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        pooling_output_shape(shape, **attributes(**changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"pool_type": "min"}, "pool_type='min' is not one of 'max', 'avg', 'sum', 'lp'"),
        ({"pool_type": "lp", "p_value": None}, "pool_type='lp' needs p_value 1, 2 or 3, got p_value=None"),
        ({"pooling_convention": "floor"}, "pooling_convention='floor' is not one of 'valid', 'full', 'same'"),
    ],
)
def test_attributes_that_cannot_be(changes, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        pooling(np.zeros((1, 1, 4, 4)), **attributes(**changes))
