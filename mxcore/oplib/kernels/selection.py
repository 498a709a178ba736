"""Kernels of taking and putting elements at flat positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..table import kernel


@kernel("_pick_flat")
def pick_flat(xp: Any, x: Any, index: Any) -> Any:
    return xp.where(index >= 0, x.reshape(-1)[index], xp.zeros((), x.dtype))


@kernel("_put_flat", numpy=True)
def put_flat(g: Any, index: Any, like: Any) -> Any:
    y = np.zeros(like.size, g.dtype)
    known = index >= 0
    np.add.at(y, index[known], g[known])
    return y.reshape(like.shape)
