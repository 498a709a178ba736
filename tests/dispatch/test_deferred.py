"""The same programs on an engine that runs everything later, in any legal order: values are bit-equal."""

from __future__ import annotations

import random

import numpy as np
import pytest

import mxcore as mx
from mxcore import autograd, nd
from mxcore.testing.engine_seeded import SeededEngine


def program(seed: int) -> list[np.ndarray]:
    """A random program over a few arrays: operators, views, overwrites, copies, gradients."""
    rng = random.Random(seed)
    values = np.random.default_rng(seed)
    xs = [nd.array(values.standard_normal((3, 4))) for _ in range(5)]
    for _ in range(40):
        a, b = rng.choice(xs), rng.choice(xs)
        kind = rng.randrange(9)
        if kind == 0:
            xs[rng.randrange(5)] = a + b * 0.5
        elif kind == 1:
            xs[rng.randrange(5)] = nd.tanh(a)
        elif kind == 2:
            a[:] = b * 0.25 if a is not b else 0.5
        elif kind == 3:
            a[rng.randrange(3)] = rng.random()
        elif kind == 4:
            a *= 0.5
        elif kind == 5:
            a[1:3] += 1
        elif kind == 6:
            xs[rng.randrange(5)] = a.reshape((4, 3)).reshape((3, 4)).copy()
        elif kind == 7:
            if a is not b:
                a.copyto(b)
        else:
            a.attach_grad()
            with autograd.record():
                y = nd.tanh(a * b if a is not b else a * 2)
            y.backward()
            xs[rng.randrange(5)] = a.grad.copy()
    return [x.asnumpy() for x in xs]


@pytest.mark.parametrize("seed", range(25))
def test_programs_are_bit_equal(seed):
    want = program(seed)
    for order in range(3):
        with mx.use(engine=SeededEngine(1000 * seed + order)):
            got = program(seed)
        for g, w in zip(got, want):
            np.testing.assert_array_equal(g, w, err_msg=f"program {seed}, order {1000 * seed + order}")


def test_shapes_are_known_before_the_values():
    with mx.use(engine=SeededEngine(0)):
        y = nd.ones((2, 3)) + 1
        assert y._data is None and y.shape == (2, 3) and y.dtype is np.float32
        assert y.asnumpy().sum() == 12


def test_random_streams_do_not_depend_on_the_engine():
    mx.random.seed(3)
    want = [nd.random.uniform(shape=(4,)).asnumpy() for _ in range(3)]
    with mx.use(engine=SeededEngine(5)):
        mx.random.seed(3)
        later = [nd.random.uniform(shape=(4,)) for _ in range(3)]
        for x, w in zip(reversed(later), reversed(want)):
            np.testing.assert_array_equal(x.asnumpy(), w)


def test_a_kernel_error_surfaces_at_the_wait_and_an_overwrite_heals():
    from mxcore.spec import MXCoreError

    with mx.use(engine=SeededEngine(1)):
        x = nd.array([[1.0, 2.0], [2.0, 4.0]])
        y = nd.linalg.potrf(x - 10)
        z = y + 1
        with pytest.raises(MXCoreError, match="_linalg_potrf"):
            z.asnumpy()
        with pytest.raises(MXCoreError, match="_linalg_potrf"):
            y.wait_to_read()
        y[:] = 5
        assert y.asnumpy().tolist() == [[5, 5], [5, 5]]


@pytest.mark.parametrize("copy", ["copyto", "as_in_context"])
def test_a_copy_on_another_device_waits_its_turn(copy):
    with mx.use(engine=SeededEngine(5)):
        a = nd.array([1.0, 2.0])
        b = a + 1
        c = getattr(b, copy)(mx.cpu(1))
        assert c.context == mx.cpu(1) and c.shape == (2,)
        assert b._data is None  # it was not waited for
        b[:] = 9
        np.testing.assert_array_equal(c.asnumpy(), [2, 3])
        np.testing.assert_array_equal((c * 2).asnumpy(), [4, 6])


def test_an_error_in_values_goes_along_to_another_device():
    with mx.use(engine=SeededEngine(6)):
        bad = nd.random.normal(0, -1, (2, 2)).copyto(mx.cpu(1))
        for x in (bad * 2, bad):
            with pytest.raises(mx.MXNetError, match="needs scale >= 0"):
                x.asnumpy()
