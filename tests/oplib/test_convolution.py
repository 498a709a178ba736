"""Convolution kernels against direct loops in float64, their adjoints, and the temporaries they work in."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mxcore.operators.windows import convolution_output_shape, deconvolution_output_shape
from mxcore.oplib import workspace
from mxcore.oplib.correlation import depthwise, pieces, scatter
from mxcore.oplib.correlation import winograd as winograds_way
from mxcore.oplib.kernels.convolution import (
    convolution,
    convolution_backward_data,
    convolution_backward_weight,
)
from mxcore.spec.errors import ShapeError

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def reference(x, w, bias, *, kernel, stride, dilate, pad, num_group, layout):
    """Sum over kernel positions in float64, one slice each."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    if layout[1] != "C":
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1)
    n, channels, *spatial = x.shape
    filters = w.shape[0]
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    out = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in zip(spatial, pad, dilate, kernel, stride)]
    y = np.zeros((n, filters, *out))
    per_in, per_out = channels // num_group, filters // num_group
    for group in range(num_group):
        ins, outs = slice(group * per_in, (group + 1) * per_in), slice(group * per_out, (group + 1) * per_out)
        for position in itertools.product(*map(range, kernel)):
            window = tuple(
                slice(i * d, i * d + (o - 1) * s + 1, s) for i, d, o, s in zip(position, dilate, out, stride)
            )
            seen = padded[(slice(None), ins, *window)]
            y[:, outs] += np.moveaxis(np.tensordot(seen, w[(outs, slice(None), *position)], axes=(1, 1)), -1, 1)
    if bias is not None:
        y += bias.astype(np.float64).reshape(-1, *(1,) * len(kernel))
    return y if layout[1] == "C" else np.moveaxis(y, 1, -1)


def random_case(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    while True:
        axes = int(rng.integers(1, 4))
        bounds = ((1, 5), (1, 4), (1, 3), (0, 4), (1, 13 if axes < 3 else 7))
        kernel, stride, dilate, pad, spatial = (tuple(map(int, rng.integers(*pair, axes))) for pair in bounds)
        fits = all(d * (k - 1) < n + 2 * p for d, k, n, p in zip(dilate, kernel, spatial, pad))
        if fits:
            break
    group = int(rng.choice([1, 1, 2, 3]))
    per_in, per_out = int(rng.choice([1, 2, 5, 17])), int(rng.choice([1, 2, 9]))
    layout = LAYOUTS[axes][int(rng.integers(2))]
    x = rng.standard_normal((int(rng.integers(1, 6)), group * per_in, *spatial))
    w = rng.standard_normal((group * per_out, per_in, *kernel))
    if layout[1] != "C":
        x, w = np.ascontiguousarray(np.moveaxis(x, 1, -1)), np.ascontiguousarray(np.moveaxis(w, 1, -1))
    how = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_group": group, "layout": layout}
    return {"x": x, "w": w, "bias": rng.standard_normal(group * per_out), "how": how, "rng": rng}


def small_pieces(monkeypatch: pytest.MonkeyPatch, few_channels: int = 0) -> None:
    """Make every loop over pieces go round many times on small data."""
    monkeypatch.setattr(pieces, "_POSITIONS", 7)
    monkeypatch.setattr(pieces, "_COLUMNS", 64)
    monkeypatch.setattr(pieces, "_LARGE_WEIGHT", 1)
    monkeypatch.setattr(depthwise, "_FLOATS", 40)
    monkeypatch.setattr(scatter, "_FEW_CHANNELS", few_channels)


def check(case: dict[str, Any], dtype: Any, tolerance: float) -> None:
    """Compare forward with the reference, and both gradients through <y, g> = <x, dx> = <w, dw>."""
    x, w, bias = (case[name].astype(dtype) for name in ("x", "w", "bias"))
    how = case["how"]
    expected = reference(x, w, bias, **how)
    y = convolution(x, w, bias, **how)
    assert y.dtype == dtype
    assert y.shape == expected.shape == convolution_output_shape(x.shape, w.shape, **how)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(y, expected, rtol=0, atol=tolerance * scale)
    # Each gradient entry by entry: the adjoint identity for unit data and unit weights, in random directions.
    g = case["rng"].standard_normal(y.shape).astype(dtype)
    dx = convolution_backward_data(g, w, data_shape=x.shape, **how)
    dw = convolution_backward_weight(x, g, weight_shape=w.shape, **how)
    assert (dx.dtype, dx.shape) == (dtype, x.shape)
    assert (dw.dtype, dw.shape) == (dtype, w.shape)
    norm = np.linalg.norm(g.astype(np.float64))
    for _ in range(4):
        direction = case["rng"].standard_normal(x.shape).astype(dtype)
        left = (reference(direction, w, None, **how) * g).sum()
        right = (direction.astype(np.float64) * dx).sum()
        size = norm * np.linalg.norm(reference(direction, w, None, **how))
        assert abs(left - right) <= tolerance * max(size, 1)
        direction = case["rng"].standard_normal(w.shape).astype(dtype)
        left = (reference(x, direction, None, **how) * g).sum()
        right = (direction.astype(np.float64) * dw).sum()
        size = norm * np.linalg.norm(reference(x, direction, None, **how))
        assert abs(left - right) <= tolerance * max(size, 1)


@pytest.mark.parametrize("seed", range(40))
def test_random_shapes(seed: int) -> None:
    check(random_case(seed), np.float64, 1e-12)


@pytest.mark.parametrize("seed", range(40, 80))
def test_random_shapes_in_many_pieces(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch, few_channels=seed % 5)
    check(random_case(seed), np.float64, 1e-12)


@pytest.mark.parametrize("seed", range(80, 90))
def test_float32(seed: int) -> None:
    check(random_case(seed), np.float32, 1e-5)


@pytest.mark.parametrize("seed", range(90, 94))
def test_float16_sums_in_float32(seed: int) -> None:
    check(random_case(seed), np.float16, 2e-3)


PATHS = {
    "channel-last": {"x": (3, 32, 9, 9), "w": (8, 32, 3, 3), "stride": (1, 1), "pad": (1, 1), "group": 1},
    "channel-first": {"x": (3, 1, 20, 20), "w": (8, 1, 3, 3), "stride": (1, 1), "pad": (0, 0), "group": 1},
    "1x1": {"x": (3, 16, 8, 9), "w": (8, 16, 1, 1), "stride": (1, 1), "pad": (0, 0), "group": 1},
    "1x1 strided": {"x": (3, 16, 8, 9), "w": (8, 16, 1, 1), "stride": (2, 2), "pad": (0, 0), "group": 1},
    "strided": {"x": (3, 32, 9, 8), "w": (8, 32, 3, 3), "stride": (2, 2), "pad": (1, 1), "group": 1},
    "kernel smaller than stride": {"x": (3, 32, 9, 8), "w": (8, 32, 2, 1), "stride": (3, 3), "pad": (1, 0), "group": 1},
    "pad larger than kernel": {"x": (2, 32, 4, 4), "w": (8, 32, 2, 2), "stride": (1, 1), "pad": (3, 3), "group": 1},
    "no pad": {"x": (3, 20, 12, 12), "w": (8, 20, 5, 5), "stride": (1, 1), "pad": (0, 0), "group": 1},
    "grouped": {"x": (3, 12, 9, 9), "w": (9, 4, 3, 3), "stride": (1, 1), "pad": (1, 1), "group": 3},
    "wide groups": {"x": (3, 128, 5, 5), "w": (4, 64, 3, 3), "stride": (1, 1), "pad": (1, 1), "group": 2},
    "depthwise": {"x": (3, 6, 9, 9), "w": (6, 1, 3, 3), "stride": (1, 1), "pad": (1, 1), "group": 6},
    "depthwise strided": {"x": (3, 6, 9, 9), "w": (12, 1, 3, 3), "stride": (2, 2), "pad": (1, 1), "group": 6},
    "4096-byte channels": {"x": (2, 24, 32, 32), "w": (4, 24, 3, 3), "stride": (1, 1), "pad": (1, 1), "group": 1},
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("path", PATHS)
def test_each_path(path: str, layout: str) -> None:
    spec = PATHS[path]
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal(spec["x"]), rng.standard_normal(spec["w"])
    if layout == "NHWC":
        x, w = np.moveaxis(x, 1, -1).copy(), np.moveaxis(w, 1, -1).copy()
    how = {
        "kernel": spec["w"][2:],
        "stride": spec["stride"],
        "dilate": (1, 1),
        "pad": spec["pad"],
        "num_group": spec["group"],
        "layout": layout,
    }
    check({"x": x, "w": w, "bias": rng.standard_normal(spec["w"][0]), "how": how, "rng": rng}, np.float64, 1e-12)


@pytest.fixture
def winograd(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which of the two Winograd functions ran."""
    ran: list[str] = []
    for name in ("correlate", "weigh"):
        function = getattr(winograds_way, name)

        def noted(*args: Any, name: str = name, function: Callable[..., Any] = function) -> Any:
            ran.append(name)
            return function(*args)

        monkeypatch.setattr(winograds_way, name, noted)
    return ran


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("size", "pad", "large"),
    [((12, 12), (1, 1), 1 << 19), ((13, 18), (1, 2), 1), ((17, 14), (0, 0), 1 << 19), ((8, 8), (2, 1), 1)],
)
def test_winograd(size, pad, large: int, layout: str, winograd: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_LARGE_WEIGHT", large)
    monkeypatch.setattr(winograds_way, "_FLOATS", 1 << 14)
    monkeypatch.setattr(winograds_way, "_SUM_TILES", 20)
    monkeypatch.setattr(winograds_way, "_TILES", 32)
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((9, 33, *size)), rng.standard_normal((40, 33, 3, 3))
    if layout == "NHWC":
        x, w = np.moveaxis(x, 1, -1).copy(), np.moveaxis(w, 1, -1).copy()
    how = {"kernel": (3, 3), "stride": (1, 1), "dilate": (1, 1), "pad": pad, "num_group": 1, "layout": layout}
    case = {"x": x, "w": w, "bias": rng.standard_normal(40), "how": how, "rng": rng}
    check(case, np.float32, 3e-5)
    assert winograd == ["correlate", "correlate", "weigh"]
    # Entry by entry against the direct way in float64, which never takes Winograd's.
    x, w = x.astype(np.float32), w.astype(np.float32)
    g = rng.standard_normal(convolution_output_shape(x.shape, w.shape, **how)).astype(np.float32)
    for function, a, b, shape in (
        (convolution_backward_data, g, w, {"data_shape": x.shape}),
        (convolution_backward_weight, x, g, {"weight_shape": w.shape}),
    ):
        exact = function(a.astype(np.float64), b.astype(np.float64), **shape, **how)
        fast = function(a, b, **shape, **how)
        np.testing.assert_allclose(fast, exact, rtol=0, atol=3e-5 * np.abs(exact).max())
        np.testing.assert_array_equal(function(a, b, parallel_for=in_threads, **shape, **how), fast)
    y = convolution(x, w, None, **how)
    np.testing.assert_array_equal(convolution(x, w, None, parallel_for=in_threads, **how), y)
    assert len(winograd) == 9


def test_winograd_can_be_switched_off(winograd: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograds_way, "USE_WINOGRAD", False)
    rng = np.random.default_rng(6)
    x = rng.standard_normal((4, 32, 16, 16)).astype(np.float32)
    w = rng.standard_normal((32, 32, 3, 3)).astype(np.float32)
    how = {"kernel": (3, 3), "stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "num_group": 1, "layout": "NCHW"}
    expected = reference(x, w, None, **how)
    np.testing.assert_allclose(convolution(x, w, None, **how), expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    assert winograd == []


def test_gradients_by_finite_differences() -> None:
    case = random_case(7)
    x, w, how = case["x"], case["w"], case["how"]
    g = case["rng"].standard_normal(convolution_output_shape(x.shape, w.shape, **how))
    dx = convolution_backward_data(g, w, data_shape=x.shape, **how)
    dw = convolution_backward_weight(x, g, weight_shape=w.shape, **how)
    step = 1e-4
    for array, gradient in ((x, dx), (w, dw)):
        for index in case["rng"].integers(0, array.size, 6):
            values = []
            for sign in (1, -1):
                array.flat[index] += sign * step
                values.append((convolution(x, w, None, **how) * g).sum())
                array.flat[index] -= sign * step
            assert (values[0] - values[1]) / (2 * step) == pytest.approx(gradient.flat[index], abs=1e-6)


def test_inputs_may_have_any_strides() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((10, 12, 12, 3)).transpose(3, 0, 2, 1)[:, ::2]
    w = rng.standard_normal((3, 3, 5, 7)).transpose(3, 2, 1, 0)
    how = {"kernel": (3, 3), "stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "num_group": 1, "layout": "NCHW"}
    g = rng.standard_normal((12, 12, 3, 7)).transpose(2, 3, 0, 1)
    np.testing.assert_allclose(convolution(x, w, None, **how), reference(x, w, None, **how), atol=1e-11)
    for gradient, plain in (
        (
            convolution_backward_data(g, w, data_shape=x.shape, **how),
            convolution_backward_data(g.copy(), w.copy(), data_shape=x.shape, **how),
        ),
        (
            convolution_backward_weight(x, g, weight_shape=w.shape, **how),
            convolution_backward_weight(x.copy(), g.copy(), weight_shape=w.shape, **how),
        ),
    ):
        np.testing.assert_allclose(gradient, plain, atol=1e-11)


def in_threads(n: int, grain: int, fn: Callable[[int, int], None]) -> None:
    cuts = list(range(0, n, max(grain, -(-n // 3)))) + [n]
    threads = [threading.Thread(target=fn, args=pair) for pair in itertools.pairwise(cuts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("path", PATHS)
def test_result_does_not_depend_on_parallel_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)
    spec = PATHS[path]
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(spec[name]).astype(np.float32) for name in ("x", "w"))
    how = {
        "kernel": spec["w"][2:],
        "stride": spec["stride"],
        "dilate": (1, 1),
        "pad": spec["pad"],
        "num_group": spec["group"],
        "layout": "NCHW",
    }
    y = convolution(x, w, None, **how)
    g = rng.standard_normal(y.shape).astype(np.float32)
    np.testing.assert_array_equal(convolution(x, w, None, parallel_for=in_threads, **how), y)
    np.testing.assert_array_equal(
        convolution_backward_data(g, w, data_shape=x.shape, parallel_for=in_threads, **how),
        convolution_backward_data(g, w, data_shape=x.shape, **how),
    )
    np.testing.assert_array_equal(
        convolution_backward_weight(x, g, weight_shape=w.shape, parallel_for=in_threads, **how),
        convolution_backward_weight(x, g, weight_shape=w.shape, **how),
    )


@pytest.mark.parametrize("group", [1, 4])
def test_empty_batch(group: int) -> None:
    x, w = np.empty((0, 4, 5, 5), np.float32), np.ones((4, 4 // group, 3, 3), np.float32)
    how = {"kernel": (3, 3), "stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "num_group": group, "layout": "NCHW"}
    y = convolution(x, w, None, **how)
    assert y.shape == (0, 4, 5, 5)
    assert convolution_backward_data(y, w, data_shape=x.shape, **how).shape == x.shape
    assert not convolution_backward_weight(x, y, weight_shape=w.shape, **how).any()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("group", [1, 2])
def test_deconvolution_is_the_data_gradient(layout: str, group: int) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 6, 4, 5)), rng.standard_normal((6, 3, 4, 3))
    how = {"kernel": (4, 3), "stride": (2, 3), "dilate": (1, 2), "num_group": group, "layout": layout}
    expected = np.zeros((2, 3 * group, 2 * 3 + 4 + 1, 3 * 4 + 5 + 2))
    for (n, c, i, j), value in np.ndenumerate(x):
        first = c // (6 // group) * 3
        expected[n, first : first + 3, 2 * i : 2 * i + 4, 3 * j : 3 * j + 5 : 2] += value * w[c]
    expected = expected[:, :, 1:-1, 1:-1]
    if layout == "NHWC":
        x, w, expected = (np.moveaxis(a, 1, -1).copy() for a in (x, w, expected))
    shape, pad = deconvolution_output_shape(x.shape, w.shape, pad=(1, 1), adj=(1, 2), target_shape=(), **how)
    assert shape == expected.shape
    y = convolution_backward_data(x, w, data_shape=shape, pad=pad, **how)
    np.testing.assert_allclose(y, expected, atol=1e-12)


def test_deconvolution_target_shape_replaces_pad() -> None:
    how = {"kernel": (4,), "stride": (2,), "dilate": (1,), "num_group": 1, "layout": "NCW"}
    shape, pad = deconvolution_output_shape((2, 3, 5), (3, 4, 4), pad=(9,), adj=(0,), target_shape=(9,), **how)
    assert (shape, pad) == ((2, 4, 9), (2,))
    with pytest.raises(ShapeError, match="target_shape is larger than 12, the most that axis 2 can reach"):
        deconvolution_output_shape((2, 3, 5), (3, 4, 4), pad=(0,), adj=(0,), target_shape=(13,), **how)
    with pytest.raises(ShapeError, match="adj must be smaller than the stride, but axis 2 has 2 and 2"):
        deconvolution_output_shape((2, 3, 5), (3, 4, 4), pad=(0,), adj=(2,), target_shape=(0,), **how)
    with pytest.raises(ShapeError, match="axis 2 would have 0 positions; use less pad"):
        deconvolution_output_shape((2, 3, 5), (3, 4, 4), pad=(6,), adj=(0,), target_shape=(0,), **how)
    with pytest.raises(ShapeError, match=r"the weight must have shape \(3, 4, 4\)"):
        deconvolution_output_shape((2, 3, 5), (2, 4, 4), pad=(0,), adj=(0,), target_shape=(0,), **how)


@pytest.mark.parametrize(
    ("data", "weight", "change", "text"),
    [
        ((2, 4, 5), (6, 4, 3, 3), {}, "a kernel of 2 axes needs data of 4 axes"),
        ((2, 4, 5, 5), (6, 3, 3, 3), {}, r"the weight must have shape \(6, 4, 3, 3\)"),
        ((2, 4, 5, 5), (6, 4, 3, 3), {"num_group": 3}, "4 channels and 6 filters must both divide by num_group"),
        ((2, 4, 2, 5), (6, 4, 3, 3), {"pad": (0, 0)}, "spans 3 positions of axis 2, which has 2 with its pad"),
        ((2, 4, 5, 5), (6, 4, 3, 3), {"stride": (0, 1)}, "stride and dilate must be at least 1"),
    ],
)
def test_shapes_that_do_not_fit(data, weight, change, text: str) -> None:
    how = {
        "kernel": (3, 3),
        "stride": (1, 1),
        "dilate": (1, 1),
        "pad": (1, 1),
        "num_group": 1,
        "layout": "NCHW",
    } | change
    with pytest.raises(ShapeError, match=text) as caught:
        convolution_output_shape(data, weight, **how)
    assert str(caught.value).startswith(f"Convolution: data {data} (NCHW) and weight {weight} with kernel=(3, 3)")
    assert caught.value.shapes == [data, weight]


def test_workspace_lends_again_and_nests() -> None:
    workspace.release()
    with workspace.borrow("test", (4, 5), np.float32) as outer:
        assert outer.shape == (4, 5)
        assert outer.ctypes.data % 64 == 0
        with workspace.borrow("test", (2,), np.float32) as inner:
            assert not np.shares_memory(outer, inner)
        address = outer.ctypes.data
    assert workspace.cached_nbytes() == 80  # the larger of the two
    with workspace.borrow("test", (3, 2), np.float32) as again:
        assert again.ctypes.data == address
    with workspace.borrow("test", (3, 2), np.float64) as other:
        assert other.ctypes.data != address
    assert workspace.release() == 80 + 48
    assert workspace.cached_nbytes() == 0


def test_workspace_keeps_no_more_than_its_limit() -> None:
    workspace.release()
    earlier = workspace.set_limit(100)
    try:
        with workspace.borrow("small", (20,), np.float32):
            pass
        with workspace.borrow("large", (20,), np.float64) as array:
            array.fill(1)
        assert workspace.cached_nbytes() == 80
    finally:
        workspace.set_limit(earlier)
        workspace.release()


def test_workspace_is_per_thread() -> None:
    workspace.release()
    with workspace.borrow("test", (8,), np.float32):
        pass
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(workspace.cached_nbytes()))
    thread.start()
    thread.join()
    assert seen == [0]
    assert workspace.release() == 32


def test_workspace_buffer_comes_back_after_an_error() -> None:
    workspace.release()
    with pytest.raises(KeyError), workspace.borrow("test", (8,), np.float32):
        raise KeyError
    assert workspace.release() == 32
