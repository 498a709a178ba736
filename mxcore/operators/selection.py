"""Records of taking and putting elements at positions that a kernel computed: what gradients of selections are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Spec, sample
from .registry import operator

operator(
    "_pick_flat",
    "data index",
    infer=lambda a, x, i: Spec(i.shape, x.dtype),
    same_dtype=False,
    gradient=(lambda F, g, y, x, i: F._put_flat(g, i, x), None),
    saves="index",
    reference=lambda x, i: np.where(i >= 0, x.reshape(-1)[i], 0),
    samples=lambda rng: [sample(rng.standard_normal((2, 3)), np.array([[5, -1], [0, 0]], np.int64))],
    doc="Elements of the flattened ``data`` at ``index``; 0 where it is -1.",
)
operator(
    "_put_flat",
    "grad index like",
    infer=lambda a, g, i, x: x,
    same_dtype=False,
    gradient=(lambda F, h, y, g, i, x: F._pick_flat(h, i), None, None),
    saves="index",
    doc="Zeros like ``like`` with ``grad`` added at the flat positions ``index``; the gradient of ``_pick_flat``.",
)


def by_position(F: Any, gs: Any, inputs: Any, outputs: Any, attributes: Any, needs: Any) -> Any:
    """Gradient of operators whose second, hidden output says where each element of the first came from."""
    g = F._put_flat(gs[0], outputs[1], inputs[0])
    return (g, *(F.zeros_like(x) for x in inputs[1:]))
