"""``x[key]`` as an operator, for indexing that copies or is recorded."""

from __future__ import annotations

from .attributes import Value
from .record import Spec
from .registry import operator

operator(
    "_subscript",
    "data",
    {"key": Value()},
    infer=lambda a, x: Spec(a["key"].shape, x.dtype),
    gradient=(lambda F, g, y, x, key: F._subscript_backward(g, x, key=key),),
    saves="",
    doc="Select ``data[key]``; ``key`` is an indexing plan made by ``NDArray.__getitem__``. Returns a new array.",
)

operator(
    "_subscript_backward",
    "grad data",
    {"key": Value()},
    infer=lambda a, g, x: x,
    gradient=(lambda F, g, y, gg, x, key: F._subscript(g, key=key), None),
    saves="",
    doc="Zeros like ``data`` with ``grad`` added at ``key``; the gradient of ``_subscript``.",
)
