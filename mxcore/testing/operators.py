"""Checks that an operator record yields by itself: values, gradients to second order, inference, refusals.

Every check takes a record and a sample of it and works on any op library that the current Runtime binds. Gradients
are compared with central differences of the operator's own float64 kernel, taken along random directions:
for ``L(x) = <h, f(x)>``, the gradient g must satisfy ``<g, v> = (L(x + e v) - L(x - e v)) / 2e`` for random v. The
second order does the same with ``<k, g(x)>`` in place of ``L``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import autograd
from ..dispatch.array import Array, settled
from ..dispatch.call import invoke
from ..dispatch.context import cpu
from ..dispatch.functions import resolve
from ..ndarray.ndarray import NDArray, array_of
from ..operators import NO_GRADIENT, ZERO_GRADIENT, Operator, Sample
from ..spec import MXCoreError

_STEP = 1e-6


def arrays_of(sample: Sample, dtype: Any) -> list[Any]:
    """Return the sample's inputs as NDArrays; float inputs in ``dtype``, others as they are."""
    out: list[Any] = []
    for x in sample.inputs:
        if x is None:
            out.append(None)
            continue
        x = np.asarray(x)
        out.append(array_of(np.array(x, dtype=dtype if x.dtype == np.float64 else x.dtype, order="C"), cpu()))
    return out


def run(operator: Operator, inputs: Sequence[Any], sample: Sample) -> list[Any]:
    """Call the operator; return all visible outputs as a list."""
    result = invoke(resolve(operator, dict(sample.attributes)), inputs)
    return [result] if isinstance(result, Array) else list(result)


def check_reference(operator: Operator, sample: Sample, dtype: Any = np.float64) -> None:
    """Compare the kernel with the record's reference, computed in float64."""
    assert operator.reference is not None
    inputs = arrays_of(sample, dtype)
    sources = [None if x is None else np.array(x, copy=True) for x in sample.inputs]
    want = operator.reference(*sources, **sample.attributes)
    got = run(operator, inputs, sample)
    wants = list(want) if isinstance(want, tuple | list) else [want]
    assert len(got) >= len(wants), f"{operator.name}: {len(got)} outputs, the reference gives {len(wants)}"
    single = np.dtype(dtype) != np.float64
    rtol, atol = (operator.rtol, operator.atol) if single else (min(operator.rtol, 1e-7), min(operator.atol, 1e-9))
    for g, w in zip(got, wants):
        g, w = g.asnumpy(), np.asarray(w)
        assert g.shape == (w.shape or (1,)), f"{operator.name}: shape {g.shape}, the reference gives {w.shape}"
        np.testing.assert_allclose(g.astype(np.float64), w.reshape(g.shape).astype(np.float64), rtol=rtol, atol=atol)


def check_inference(operator: Operator, sample: Sample) -> None:
    """Compare the inferred shapes and dtypes with what the kernel returns."""
    inputs = arrays_of(sample, np.float32)
    bound = resolve(operator, dict(sample.attributes))
    specs = bound.infer(inputs)
    if specs is None:
        return
    for spec, y in zip(specs, run(operator, inputs, sample)):
        assert tuple(spec.shape) == y.shape, f"{operator.name}: inferred {spec.shape}, got {y.shape}"
        assert np.dtype(spec.dtype) == np.dtype(y.dtype), f"{operator.name}: inferred {spec.dtype}, got {y.dtype}"


def check_no_alias(operator: Operator, sample: Sample) -> None:
    """A result never shares memory with an input, and inputs not declared as mutated stay as they were."""
    inputs = arrays_of(sample, np.float32)
    before = [None if x is None else x.asnumpy() for x in inputs]
    outputs = run(operator, inputs, sample)
    for i, (x, b) in enumerate(zip(inputs, before)):
        if x is None:
            continue
        for y in outputs:
            assert not np.shares_memory(x._data, y._data), f"{operator.name}: an output is a view of input {i}"
        if i not in operator.written(dict(sample.attributes), len(inputs)):
            np.testing.assert_array_equal(x.asnumpy(), b, err_msg=f"{operator.name} changed its input {i}")


def _loss(operator: Operator, values: Sequence[Any], sample: Sample, weights: Sequence[np.ndarray]) -> float:
    ys = run(operator, [None if v is None else array_of(v.copy(), cpu()) for v in values], sample)
    return float(sum((w * y.asnumpy()).sum() for w, y in zip(weights, ys)))


def _gradients(
    operator: Operator, values: Sequence[Any], sample: Sample, weights: Sequence[np.ndarray], which: Sequence[int]
) -> list[np.ndarray]:
    inputs: list[Any] = [None if v is None else array_of(v.copy(), cpu()) for v in values]
    for i in which:
        inputs[i].attach_grad()
    with autograd.record():
        ys = run(operator, inputs, sample)
    autograd.backward(ys, [array_of(w.copy(), cpu()) for w in weights])
    return [inputs[i].grad.asnumpy() for i in which]


def check_gradient(operator: Operator, sample: Sample, order: int = 2, rtol: float = 2e-4, atol: float = 2e-6) -> None:
    """Compare gradients with finite differences, to first or second order."""
    if operator.gradient is NO_GRADIENT and operator.composed is None:
        return
    assert not operator.random, "samples of random operators must say check_gradient=False"
    rng = np.random.default_rng(7)
    inputs = arrays_of(sample, np.float64)
    values: list[Any] = [None if x is None else x.asnumpy() for x in inputs]
    rules = operator.gradient
    which = [
        i
        for i, v in enumerate(values)
        if v is not None
        and v.dtype == np.float64
        and not (isinstance(rules, tuple) and not hasattr(rules, "fn") and i < len(rules) and rules[i] is None)
        and i not in operator.written(dict(sample.attributes), len(values))
    ]
    if not which:
        return
    ys = run(operator, [None if v is None else array_of(v.copy(), cpu()) for v in values], sample)
    weights = [rng.standard_normal(y.shape).astype(y.asnumpy().dtype) for y in ys]
    if any(w.dtype != np.float64 for w in weights):
        return
    got = _gradients(operator, values, sample, weights, which)
    direction: list[np.ndarray] = [rng.standard_normal(values[i].shape) for i in which]

    def moved(step: float) -> list[Any]:
        out = list(values)
        for i, v in zip(which, direction):
            out[i] = values[i] + step * v
        return out

    h = _STEP
    want = (_loss(operator, moved(h), sample, weights) - _loss(operator, moved(-h), sample, weights)) / (2 * h)
    have = sum(float((g * v).sum()) for g, v in zip(got, direction))
    scale = max(1.0, sum(float(np.abs(g * v).sum()) for g, v in zip(got, direction)))
    assert abs(want - have) <= atol * scale + rtol * abs(want), (
        f"{operator.name}{dict(sample.attributes)}: first derivative along a direction is {have}, differences give {want}"
    )
    if order < 2 or operator.gradient is ZERO_GRADIENT:
        return
    second: list[np.ndarray] = [rng.standard_normal(values[i].shape) for i in which]

    def first_order(step: float) -> float:
        gs = _gradients(operator, moved(step), sample, weights, which)
        return sum(float((g * k).sum()) for g, k in zip(gs, second))

    want = (first_order(h) - first_order(-h)) / (2 * h)
    arrays: list[Any] = [None if v is None else array_of(v.copy(), cpu()) for v in values]
    for i in which:
        arrays[i].attach_grad()
    with autograd.record():
        ys = run(operator, arrays, sample)
        gs = autograd.grad(
            ys, [arrays[i] for i in which], [array_of(w.copy(), cpu()) for w in weights], create_graph=True
        )
    linked = [(g, k) for g, k in zip(gs, second) if g._tape is not None]
    if linked:
        autograd.backward([g for g, _ in linked], [array_of(k.copy(), cpu()) for _, k in linked])
    have = sum(float((arrays[i].grad.asnumpy() * v).sum()) for i, v in zip(which, direction))
    scale = max(1.0, sum(float(np.abs(arrays[i].grad.asnumpy() * v).sum()) for i, v in zip(which, direction)))
    assert abs(want - have) <= 10 * atol * scale + 10 * rtol * abs(want), (
        f"{operator.name}{dict(sample.attributes)}: second derivative along directions is {have}, differences give {want}"
    )


def check_errors(operator: Operator) -> None:
    """Every error sample raises an MXCoreError that names the operator and says what is expected; inputs survive."""
    for bad in operator.errors() if operator.errors else ():
        inputs = [None if x is None else array_of(np.array(x, order="C"), cpu()) for x in bad.inputs]
        before = [None if x is None else x.asnumpy() for x in inputs]
        written: tuple[int, ...] = ()
        try:
            result = invoke(resolve(operator, dict(bad.attributes)), inputs, cls=None if inputs else NDArray)
            written = operator.written(resolve(operator, dict(bad.attributes)).attributes, len(inputs))
            for y in result if isinstance(result, list) else [result]:
                settled(y)  # an error in the values surfaces here, unless the engine runs everything at its push
        except MXCoreError as e:
            text = str(e)
            assert bad.match in text, f"{operator.name}: the error says {text!r}, expected {bad.match!r} in it"
            assert operator.name in text, f"{operator.name}: the error does not name the operator: {text!r}"
        else:
            raise AssertionError(f"{operator.name}: {bad} did not fail but gave {result!r}")
        for i, (x, b) in enumerate(zip(inputs, before)):
            if x is not None and i not in written:
                np.testing.assert_array_equal(x.asnumpy(), b)
