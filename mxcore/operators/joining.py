"""Records of operators that join arrays and cut them into parts. Each is the gradient of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Int, Shape
from .checks import one_axis
from .record import Joint, Spec, error, sample
from .registry import operator
from .shape import back_to


def _concat(a: Any, *specs: Spec) -> Spec:
    if not specs:
        raise ParameterError("operator 'Concat' needs at least one array.", operator="Concat")
    first = specs[0].shape
    axis = one_axis("Concat", a["dim"], len(first), "dim")
    length = 0
    for s in specs:
        if len(s.shape) != len(first) or any(n != m for i, (n, m) in enumerate(zip(s.shape, first)) if i != axis):
            raise ShapeError(
                f"operator 'Concat' along dim={a['dim']} wants arrays that differ in that axis only but got shapes "
                f"{', '.join(str(t.shape) for t in specs)}.",
                operator="Concat",
                shapes=[t.shape for t in specs],
            )
        length += s.shape[axis]
    return Spec(first[:axis] + (length,) + first[axis + 1 :], specs[0].dtype)


def _concat_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    (g,), dim = gs, a["dim"]
    if len(inputs) == 1:
        return [g]
    if F.symbolic or F.recorded:
        return F._concat_backward(g, *inputs, dim=dim, count=len(inputs))
    # Raw arrays: views of g, cut without a copy.
    lead = (slice(None),) * (dim % g.ndim)
    parts, begin = [], 0
    for x, need in zip(inputs, needs):
        end = begin + x.shape[dim]
        parts.append(g[(*lead, slice(begin, end))] if need else None)
        begin = end
    return parts


def _filled(F: Any, gs: Any, outputs: Any) -> list[Any]:
    """Return gradients of all outputs: zeros where none arrived."""
    return [F.zeros_like(y) if g is None else g for g, y in zip(gs, outputs)]


operator(
    "Concat",
    "*data",
    {"dim": Int(1)},
    aliases=("concat",),
    infer=_concat,
    gradient=Joint(_concat_back),
    saves="",
    reference=lambda *xs, dim=1: np.concatenate(xs, axis=dim),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), rng.standard_normal((2, 1)), rng.standard_normal((2, 2))),
        sample(rng.standard_normal((2, 3)), rng.standard_normal((4, 3)), dim=0),
        sample(rng.standard_normal((2, 1, 3)), rng.standard_normal((2, 1, 2)), dim=-1),
        sample(rng.standard_normal((2, 3))),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones((3, 3), "float32"), match="differ in that axis only"),
        error(np.ones(3, "float32"), np.ones(3, "float32"), match="dim=1 is out of range"),
        error(np.ones((2, 3), "float32"), np.ones((2, 3), "int32"), match="one dtype"),
    ],
    doc="""Join arrays along an existing axis.

Parameters
----------
*data : NDArray
    Equal shapes but for axis ``dim``; one dtype.
dim : int

Returns
-------
NDArray

Raises
------
ShapeError
    If the other axes differ.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.concat(mx.nd.array([[1], [2]]), mx.nd.array([[3], [4]]), dim=1).asnumpy().tolist()
[[1.0, 3.0], [2.0, 4.0]]
""",
)

operator(
    "_concat_backward",
    "*data",
    {"dim": Int(), "count": Int()},
    outputs=lambda a: a["count"],
    infer=lambda a, g, *likes: likes if len(likes) > 1 else likes[0],
    gradient=Joint(
        lambda F, gs, inputs, outputs, a, needs: [
            F.Concat(*_filled(F, gs, outputs), dim=a["dim"]),
            *[None] * (len(inputs) - 1),
        ]
    ),
    saves="",
    doc="Cut the first array along ``dim`` into parts as long as the other arrays; the gradient of ``Concat``.",
)


def _stack(a: Any, *specs: Spec) -> Spec:
    if not specs:
        raise ParameterError("operator 'stack' needs at least one array.", operator="stack")
    first = specs[0].shape
    if any(s.shape != first for s in specs):
        raise ShapeError(
            f"operator 'stack' wants arrays of equal shape but got {', '.join(str(s.shape) for s in specs)}.",
            operator="stack",
            shapes=[s.shape for s in specs],
        )
    axis = one_axis("stack", a["axis"], len(first) + 1)
    return Spec(first[:axis] + (len(specs),) + first[axis:], specs[0].dtype)


def _stack_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if len(inputs) == 1:
        return [back_to(F, gs[0], inputs[0])]
    return F.SliceChannel(gs[0], num_outputs=len(inputs), axis=a["axis"], squeeze_axis=True)


operator(
    "stack",
    "*data",
    {"axis": Int(0)},
    infer=_stack,
    gradient=Joint(_stack_back),
    saves="",
    reference=lambda *xs, axis=0: np.stack(xs, axis),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), rng.standard_normal((2, 3))),
        sample(rng.standard_normal((2, 3)), rng.standard_normal((2, 3)), axis=-1),
        sample(rng.standard_normal(3), axis=1),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones((1, 3), "float32"), match="equal shape"),
        error(np.ones((2, 3), "float32"), axis=3, match="axis=3 is out of range"),
    ],
    doc="""Join arrays along a new axis.

Parameters
----------
*data : NDArray
    Equal shapes and dtypes.
axis : int
    Where the new axis stands in the result.

Returns
-------
NDArray

Raises
------
ShapeError
    If the shapes differ.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.stack(mx.nd.array([1, 2]), mx.nd.array([3, 4]), axis=1).asnumpy().tolist()
[[1.0, 3.0], [2.0, 4.0]]
""",
)


def _split(a: Any, x: Spec) -> Any:
    k = a["num_outputs"]
    axis = one_axis("SliceChannel", a["axis"], len(x.shape))
    n = x.shape[axis]
    if k < 1 or n % k or (a["squeeze_axis"] and n != k):
        wanted = (
            f"as long as num_outputs={k}, to be squeezed" if a["squeeze_axis"] else f"a multiple of num_outputs={k}"
        )
        raise ShapeError(
            f"operator 'SliceChannel': axis {axis} of data {x.shape} has length {n}, but it must be {wanted}.",
            operator="SliceChannel",
            shapes=[x.shape],
        )
    rest = () if a["squeeze_axis"] else (n // k,)
    one = Spec(x.shape[:axis] + rest + x.shape[axis + 1 :] or (1,), x.dtype)
    return one if k == 1 else (one,) * k


def _split_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if len(outputs) == 1:
        return [back_to(F, gs[0], inputs[0])]
    parts = _filled(F, gs, outputs)
    if a["squeeze_axis"]:
        # Squeezed parts of an array with one axis have shape (1,), so restore the shape after joining.
        return [back_to(F, F.stack(*parts, axis=a["axis"]), inputs[0])]
    return [F.Concat(*parts, dim=a["axis"])]


operator(
    "SliceChannel",
    "data",
    {"num_outputs": Int(), "axis": Int(1), "squeeze_axis": Bool(False)},
    aliases=("split",),
    outputs=lambda a: a["num_outputs"],
    infer=_split,
    gradient=Joint(_split_back),
    saves="",
    reference=lambda x, num_outputs, axis=1, squeeze_axis=False: [
        np.squeeze(p, axis) if squeeze_axis else p for p in np.split(x, num_outputs, axis)
    ],
    samples=lambda rng: [
        sample(rng.standard_normal((2, 6)), num_outputs=3),
        sample(rng.standard_normal((4, 3)), num_outputs=2, axis=0),
        sample(rng.standard_normal((2, 3, 4)), num_outputs=3, axis=-2, squeeze_axis=True),
        sample(rng.standard_normal(3), num_outputs=3, axis=0, squeeze_axis=True),
        sample(rng.standard_normal((2, 3)), num_outputs=1),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), num_outputs=2, match="a multiple of num_outputs=2"),
        error(np.ones((2, 4), "float32"), num_outputs=2, squeeze_axis=True, match="to be squeezed"),
        error(np.ones((2, 3), "float32"), num_outputs=1, axis=4, match="axis=4 is out of range"),
    ],
    doc="""Cut an array along an axis into equal parts.

Parameters
----------
data : NDArray
num_outputs : int
    How many parts.
axis : int
squeeze_axis : bool
    Remove the axis, whose parts must have length 1.

Returns
-------
list of NDArray, or NDArray for one part

Raises
------
ShapeError
    If the axis cannot be divided equally.

Examples
--------
>>> import mxcore as mx
>>> [y.asnumpy().tolist() for y in mx.nd.split(mx.nd.array([[1, 2, 3, 4]]), num_outputs=2)]
[[[1.0, 2.0]], [[3.0, 4.0]]]
""",
)


def cuts_of(a: Any, n: int) -> list[tuple[int, int]]:
    """Return begin and end of every part that ``_split_v2`` makes of an axis of length ``n``."""
    if a["sections"] > 0:
        k = a["sections"]
        return [(i * (n // k), (i + 1) * (n // k)) for i in range(k)]
    begins = a["indices"]
    return list(zip(begins, [*begins[1:], n]))


def _split_v2(a: Any, x: Spec) -> Any:
    axis = one_axis("_split_v2", a["axis"], len(x.shape))
    n, k = x.shape[axis], a["sections"]
    if k > 0 and n % k:
        raise ShapeError(
            f"operator '_split_v2': axis {axis} of data {x.shape} has length {n}, not a multiple of sections={k}.",
            operator="_split_v2",
            shapes=[x.shape],
        )
    cuts = cuts_of(a, n)
    if not cuts or any(not 0 <= b <= e <= n for b, e in cuts):
        raise ShapeError(
            f"operator '_split_v2': indices={a['indices']} must begin with 0, rise, and stay within axis {axis} of "
            f"data {x.shape}.",
            operator="_split_v2",
            shapes=[x.shape],
        )
    specs = []
    for b, e in cuts:
        if a["squeeze_axis"] and e - b != 1:
            raise ShapeError(
                f"operator '_split_v2': a part of length {e - b} along axis {axis} of data {x.shape} cannot be "
                f"squeezed.",
                operator="_split_v2",
                shapes=[x.shape],
            )
        rest = () if a["squeeze_axis"] else (e - b,)
        specs.append(Spec(x.shape[:axis] + rest + x.shape[axis + 1 :] or (1,), x.dtype))
    return specs[0] if len(specs) == 1 else tuple(specs)


def _split_v2_back(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    if len(outputs) == 1 and not a["squeeze_axis"] and (a["sections"] == 1 or a["indices"] == (0,)):
        return [back_to(F, gs[0], inputs[0])]
    return _split_back(F, gs, inputs, outputs, a, needs)


operator(
    "_split_v2",
    "data",
    {"indices": Shape(), "axis": Int(1), "squeeze_axis": Bool(False), "sections": Int(0)},
    outputs=lambda a: a["sections"] if a["sections"] > 0 else len(a["indices"]),
    infer=_split_v2,
    gradient=Joint(_split_v2_back),
    saves="",
    reference=lambda x, indices, axis=1, squeeze_axis=False, sections=0: [
        np.squeeze(p, axis) if squeeze_axis else p for p in np.split(x, sections or indices[1:], axis)
    ],
    samples=lambda rng: [
        sample(rng.standard_normal((2, 5)), indices=(0, 1, 3)),
        sample(rng.standard_normal((4, 3)), indices=(), sections=2, axis=0),
        sample(rng.standard_normal((3, 2)), indices=(0, 1, 2), axis=0, squeeze_axis=True),
        sample(rng.standard_normal((3, 2)), indices=(0,), axis=0),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), indices=(0, 5), match="stay within axis 1"),
        error(np.ones((2, 3), "float32"), indices=(), sections=2, match="not a multiple of sections=2"),
        error(np.ones((2, 3), "float32"), indices=(0, 1), squeeze_axis=True, match="cannot be squeezed"),
    ],
    doc="""Cut an array along an axis at given positions, or into equal parts.

Parameters
----------
data : NDArray
indices : tuple of int
    Where each part begins, 0 first; used where ``sections`` is 0.
axis : int
squeeze_axis : bool
    Remove the axis, whose parts must have length 1.
sections : int
    Number of equal parts.

Returns
-------
list of NDArray, or NDArray for one part
""",
)
