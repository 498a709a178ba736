"""Kernels of ``x[key]``."""

from __future__ import annotations

from typing import Any

from ..table import kernel


@kernel("_subscript")
def subscript(xp: Any, x: Any, *, key: Any) -> Any:
    y = x[key.key]
    return xp.array(y, order="C").reshape(key.shape)


@kernel("_subscript_backward")
def subscript_backward(xp: Any, g: Any, x: Any, *, key: Any) -> Any:
    d = xp.zeros(x.shape, g.dtype)
    if key.scalar:
        d[key.key] = g.reshape(())
    elif key.advanced:
        # The same element may be selected more than once.
        xp.add.at(d, key.key, g.reshape(d[key.key].shape))
    else:
        d[key.key] = g.reshape(d[key.key].shape)
    return d
