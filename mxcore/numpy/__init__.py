"""``mx.numpy``: the NumPy-compatible front end, which this version does not have yet.

The module can be imported, so that programs that only mention it run; using any name of it is an error that says so.
``from mxnet import np`` fails at once, as programs that fall back to ``mx.nd`` expect.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"mx.numpy.{name}: the mx.np front end is not part of this version of mxcore. Use mx.nd, which has the same "
        f"operators under MXNet 1.x names."
    )
