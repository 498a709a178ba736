"""Comparison of optimizers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .. import random as _random
from ._arrays import rand_ndarray
from ._compare import assert_almost_equal, compare_ndarray_tuple
from ._context import default_context


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: Any,
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Raise ``AssertionError`` unless two optimizers make the same step from the same random weights.

    Parameters
    ----------
    opt1, opt2 : Optimizer
        The optimizers; for several tensors `opt1` is called for each and `opt2` once with lists.
    shape : tuple or list of tuple
        Shape of the weight, or of each of `ntensors` weights.
    dtype : dtype
        Of weights and gradients.
    w_stype, g_stype : str
        Storage types for `opt2`.
    rtol, atol : float
        Tolerances.
    compare_states : bool
        Compare the states too.
    ntensors : int
        Number of weights.
    """
    ctx = default_context()
    if not isinstance(shape, list):
        if ntensors != 1:
            raise AssertionError("compare_optimizer: several tensors need a list of shapes.")

        def twice(stype: str, density: float | None) -> tuple[Any, Any]:
            if stype == "default":
                second = _random.uniform(shape=shape, ctx=ctx, dtype=dtype)
                return second.copyto(ctx), second
            second = rand_ndarray(shape, stype, density=density, dtype=dtype)
            return second.copyto(ctx).tostype("default"), second

        w1, w2 = twice(w_stype, 1)
        g1, g2 = twice(g_stype, None)
        state1 = opt1.create_state_multi_precision(0, w1)
        state2 = opt2.create_state_multi_precision(0, w2)
        if compare_states:
            compare_ndarray_tuple(state1, state2)
        opt1.update_multi_precision(0, w1, g1, state1)
        opt2.update_multi_precision(0, w2, g2, state2)
        if compare_states:
            compare_ndarray_tuple(state1, state2, rtol=rtol, atol=atol)
        assert_almost_equal(w1, w2, rtol=rtol, atol=atol)
        return
    weights1 = [_random.uniform(shape=s, ctx=ctx, dtype=dtype) for s in shape]
    grads1 = [_random.uniform(shape=s, ctx=ctx, dtype=dtype) for s in shape]
    weights2, grads2 = deepcopy(weights1), deepcopy(grads1)
    states2 = [opt2.create_state_multi_precision(0, weights2[i]) for i in range(ntensors)]
    opt2.update_multi_precision(list(range(ntensors)), weights2, grads2, states2)
    for i in range(ntensors):
        state1 = opt1.create_state_multi_precision(i, weights1[i])
        opt1.update_multi_precision(i, weights1[i], grads1[i], state1)
        if compare_states:
            compare_ndarray_tuple(state1, states2[i], rtol, atol)
        compare_ndarray_tuple(weights1[i], weights2[i], rtol, atol)
