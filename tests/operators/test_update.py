"""Optimizer steps: states, steps in place, pieces, master copies, many weights at once."""

from __future__ import annotations

import numpy as np
import pytest

import mxcore as mx
from mxcore import operators
from mxcore.dispatch.functions import call
from mxcore.oplib.kernels import update as kernels

RULES = [r for r in operators.records() if r.name.endswith("_update") and r.reference is not None and not r.variadic]


def arrays(sample, dtype=np.float64):
    return [np.array(x, dtype if x.dtype == np.float64 else x.dtype) for x in sample.inputs]


def nds(values):
    return [mx.nd.array(v, dtype=v.dtype) for v in values]


@pytest.mark.parametrize("record", RULES, ids=lambda r: r.name)
def test_states_follow_the_formula_in_place(record):
    for sample in record.samples(np.random.default_rng(1)):
        values = arrays(sample)
        got = nds(values)
        want = [v.copy() for v in values]
        for _ in range(3):
            want[0] = record.reference(*want, **sample.attributes)
            result = call(record.name, got, sample.attributes, out=got[0])
            assert result is got[0]
        for i in (0, *record.mutates):
            np.testing.assert_allclose(got[i].asnumpy(), want[i], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(got[1].asnumpy(), values[1])


@pytest.mark.parametrize("record", RULES, ids=lambda r: r.name)
def test_without_out_the_weight_stays(record):
    sample = next(iter(record.samples(np.random.default_rng(1))))
    got = nds(arrays(sample))
    before = got[0].asnumpy()
    result = call(record.name, got, sample.attributes)
    assert np.abs(result.asnumpy() - before).max() > 0
    np.testing.assert_array_equal(got[0].asnumpy(), before)


@pytest.mark.parametrize("record", RULES, ids=lambda r: r.name)
def test_pieces_and_strided_arrays_give_the_same(record, monkeypatch):
    monkeypatch.setattr(kernels, "PIECE", 5)
    monkeypatch.setattr(kernels, "SMALL", 0)
    kernel = kernels_of(record.name)
    sample = list(record.samples(np.random.default_rng(2)))[-1]
    attributes = record.parse(sample.attributes)
    small, strided = arrays(sample), arrays(sample)
    wide = [np.stack([v, v], -1)[..., 0] if v.size > 1 else v for v in strided]
    want = arrays(sample)
    want[0] = record.reference(*want, **sample.attributes)
    kernel(*small, out=small[0], **attributes)
    kernel(*wide, out=wide[0], **attributes)
    for i in (0, *record.mutates):
        np.testing.assert_allclose(small[i], want[i], rtol=1e-9)
        np.testing.assert_allclose(wide[i], want[i], rtol=1e-9)


def kernels_of(name):
    from mxcore.oplib.numpy_library import NumpyLibrary

    return NumpyLibrary().kernel(name)


@pytest.mark.parametrize("name", ["sgd_update", "sgd_mom_update", "nag_mom_update", "_adamw_update"])
def test_master_copies(name):
    plain = operators.get(name)
    mixed = operators.get("_mp" + name if name.startswith("_") else "mp_" + name)
    for sample in mixed.samples(np.random.default_rng(3)):
        w16, g16, *rest = nds([np.array(x) for x in sample.inputs])
        at = mixed.inputs.index(next(i for i in mixed.inputs if i.name == "weight32")) - 2
        w32, *states = rest[at].copy(), *(x.copy() for i, x in enumerate(rest) if i != at)
        call(mixed.name, [w16, g16, *rest], sample.attributes, out=w16)
        call(plain.name, [w32, g16.astype("float32"), *states], sample.attributes, out=w32)
        if not np.isfinite(sample.inputs[-1]).all():
            continue
        np.testing.assert_array_equal(rest[at].asnumpy(), w32.asnumpy())
        assert w16.dtype == np.float16
        np.testing.assert_allclose(w16.asnumpy(), w32.asnumpy(), rtol=1e-3, atol=1e-3)
        for i, s in zip([i for i in range(len(rest)) if i != at], states):
            np.testing.assert_array_equal(rest[i].asnumpy(), s.asnumpy())


def test_master_copy_of_lamb():
    rng = np.random.default_rng(4)
    w, g, m, v = (rng.standard_normal(6).astype(np.float16).astype(np.float32) for _ in range(4))
    half = nds([w.astype(np.float16), g.astype(np.float16), m, np.abs(v), w])
    single = nds([w, g, m, np.abs(v)])
    kw = {"t": 2, "wd": 0.1}
    d16 = mx.nd.mp_lamb_update_phase1(*half, **kw)
    d32 = mx.nd.lamb_update_phase1(*single, **kw)
    np.testing.assert_array_equal(d16.asnumpy(), d32.asnumpy())
    r1, r2 = mx.nd.array([2.0]), mx.nd.array([3.0])
    mx.nd.mp_lamb_update_phase2(half[0], d16, r1, r2, half[4], lr=0.1, out=half[0])
    mx.nd.lamb_update_phase2(single[0], d32, r1, r2, lr=0.1, out=single[0])
    np.testing.assert_array_equal(half[4].asnumpy(), single[0].asnumpy())
    np.testing.assert_array_equal(half[0].asnumpy(), single[0].asnumpy().astype(np.float16))


MANY = [
    ("multi_sgd_update", "sgd_update", 0, {"rescale_grad": 0.5}),
    ("multi_sgd_mom_update", "sgd_mom_update", 1, {"momentum": 0.9}),
    ("multi_mp_sgd_update", "mp_sgd_update", 0, {"clip_gradient": 0.5}),
    ("multi_mp_sgd_mom_update", "mp_sgd_mom_update", 1, {"momentum": 0.9}),
]


@pytest.mark.parametrize("preloaded", [False, True])
@pytest.mark.parametrize("name,single,states,attributes", MANY, ids=[m[0] for m in MANY])
def test_many_weights(name, single, states, attributes, preloaded):
    rng = np.random.default_rng(5)
    mixed = "mp_" in name
    groups = []
    for shape in ((2, 3), (4,), (1, 5)):
        w, g, *s = (rng.standard_normal(shape).astype(np.float32) for _ in range(2 + states))
        low = np.float16 if mixed else np.float32
        groups.append(nds([w.astype(low), g.astype(low), *s, *([w] if mixed else [])]))
    lrs, wds = (0.1, 0.2, 0.3), (0.0, 0.5, 0.25)
    want = [[x.copy() for x in group] for group in groups]
    for group, lr, wd in zip(want, lrs, wds):
        call(single, group, {"lr": lr, "wd": wd, **attributes}, out=group[0])
    flat = [x for group in groups for x in group]
    weights = [group[0] for group in groups]
    if preloaded:
        rates = nds([np.array(lrs, np.float32), np.array(wds, np.float32)])
        result = call("preloaded_" + name, [*flat, *rates], {"num_weights": 3, **attributes}, out=weights)
    else:
        result = call(name, flat, {"lrs": lrs, "wds": wds, "num_weights": 3, **attributes}, out=weights)
    assert [x is w for x, w in zip(result, weights)] == [True] * 3
    for x, y in zip(flat, [y for group in want for y in group]):
        np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-6)


def test_many_weights_of_lamb_and_adamw():
    rng = np.random.default_rng(6)
    kw = {"rescale_grad": 0.5, "lower_bound": 0.1}
    a, b = nds([rng.standard_normal(4).astype(np.float32) for _ in range(3)] + [np.ones(4, np.float32)]), None
    b = [x.copy() for x in a]
    (w,) = [
        mx.nd._internal._multi_lamb_update(
            *a, learning_rates=(0.1,), wds=(0.2,), step_count=(3,), num_tensors=1, out=a[0], **kw
        )
    ]
    d = mx.nd.lamb_update_phase1(*b, t=3, wd=0.2, rescale_grad=0.5)
    mx.nd.lamb_update_phase2(b[0], d, b[0].norm(), d.norm(), lr=0.1, lower_bound=0.1, out=b[0])
    assert w is a[0]
    for x, y in zip(a, b):
        np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-5)
    scale = mx.nd.array([0.5])
    mx.nd._internal._multi_adamw_update(*a, scale, lrs=(0.1,), wds=(0.2,), etas=(0.5,), num_weights=1, out=a[0])
    mx.nd._internal._adamw_update(*b, scale, lr=0.1, wd=0.2, eta=0.5, out=b[0])
    for x, y in zip(a, b):
        np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-5)


def test_wrong_numbers_of_arrays_and_rates_are_named():
    x = mx.nd.ones((2,))
    with pytest.raises(mx.MXNetError, match=r"multi_sgd_update.*num_weights=2 takes 4 arrays.*got 3"):
        mx.nd.multi_sgd_update(x, x, x, lrs=(1, 1), wds=(0, 0), num_weights=2)
    with pytest.raises(mx.MXNetError, match=r"needs 1 numbers in wds, but got 2"):
        mx.nd.multi_sgd_update(x, x, lrs=(1,), wds=(0, 0), num_weights=1)


def test_version_of_weight_and_state_rises():
    w, m = mx.nd.ones((2,)), mx.nd.ones((2,))
    mx.nd.sgd_mom_update(w, mx.nd.ones((2,)), m, lr=0.1, momentum=0.9, out=w)
    assert w._cell.version == 1
    assert m._cell.version == 1


def test_functions_on_lists():
    from mxcore.ndarray import contrib_functions as functions

    rng = np.random.default_rng(7)

    def fresh(low=np.float32):
        out = []
        for n in (3, 4):
            w, g, m, v = (rng.standard_normal(n).astype(np.float32) for _ in range(4))
            out.append(nds([w.astype(low), g.astype(low), m, np.abs(v), w]))
        return [list(x) for x in zip(*out)]

    for scale in (0.5, mx.nd.array([0.5])):
        w, g, m, v, _ = fresh()
        want = [[x.copy() for x in y] for y in (w, g, m, v)]
        functions.multi_adamw_update(w, g, m, v, scale, [0.1, 0.2], [0.0, 0.1], [1.0, 0.5], out=w)
        for a, lr, wd, eta in zip(zip(*want), (0.1, 0.2), (0.0, 0.1), (1.0, 0.5)):
            functions.adamw_update(*a, scale, lr=lr, eta=eta, wd=wd, out=a[0])
        for x, y in zip(w + m + v, want[0] + want[2] + want[3]):
            np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-6)
    w, g, m, v, w32 = fresh(np.float16)
    want = [[x.copy() for x in y] for y in (w, g, m, v, w32)]
    functions.multi_mp_adamw_update(w, g, m, v, w32, 1.0, [0.1, 0.2], [0.0, 0.1], [1.0, 0.5], out=w)
    for a, lr, wd, eta in zip(zip(*want), (0.1, 0.2), (0.0, 0.1), (1.0, 0.5)):
        functions.mp_adamw_update(*a, 1.0, lr=lr, eta=eta, wd=wd, out=a[0])
    for x, y in zip(w + w32, want[0] + want[4]):
        np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-6)
    w, g, m, v, w32 = fresh(np.float16)
    single = [[x.astype("float32") for x in y] for y in (w, g, m, v)]
    single[0] = [x.copy() for x in w32]
    functions.multi_mp_lamb_update(w, g, m, v, w32, [1, 2], [0.1, 0.2], [0.0, 0.1], out=w)
    functions.multi_lamb_update(*single, [1, 2], [0.1, 0.2], [0.0, 0.1], out=single[0])
    for x, y in zip(w32, single[0]):
        np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-6)
