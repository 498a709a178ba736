"""Records of contributed operators (``mx.nd.contrib``) and of automatic mixed precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..spec.errors import ParameterError
from .attributes import Bool, DType, Float, Int, Value
from .checks import refused
from .elementwise import same
from .record import NO_GRADIENT, ZERO_GRADIENT, Joint, Spec, error, sample
from .registry import operator

operator(
    "_contrib_div_sqrt_dim",
    "data",
    infer=same,
    gradient=(lambda F, g, y, x: F._contrib_div_sqrt_dim(g),),
    saves="",
    reference=lambda x: x / math.sqrt(x.shape[-1]),
    samples=lambda rng: [sample(rng.standard_normal((2, 3, 4)))],
    doc="""Divide by the square root of the length of the last axis (scaled dot-product attention).

Parameters
----------
data : NDArray

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.div_sqrt_dim(mx.nd.ones((1, 4))).asnumpy().tolist()
[[0.5, 0.5, 0.5, 0.5]]
""",
)

for _name, _text, _fn in (
    ("isnan", "is not a number", np.isnan),
    ("isinf", "is infinite", np.isinf),
    ("isfinite", "is neither infinite nor not a number", np.isfinite),
):
    operator(
        f"_contrib_{_name}",
        "data",
        infer=same,
        gradient=ZERO_GRADIENT,
        saves="",
        reference=(lambda fn: lambda x: fn(x).astype(np.float64))(_fn),
        samples=lambda rng: [sample(np.array([1.0, np.nan, np.inf, -np.inf, 0.0]), check_gradient=False)],
        doc=f"""Give 1 where an element {_text}, else 0, in the dtype of ``data``.

Parameters
----------
data : NDArray

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.{_name}(mx.nd.array([1, float("nan"), float("inf")])).asnumpy().tolist()
{_fn(np.array([1, np.nan, np.inf])).astype(float).tolist()}
""",
    )


def _allclose(a: Any, x: Spec, y: Spec) -> Spec:
    if x.shape != y.shape:
        raise refused("_contrib_allclose", "a and b must have equal shapes", x, y)
    return Spec((1,), np.dtype(np.uint8))


operator(
    "_contrib_allclose",
    "a b",
    {"rtol": Float(1e-5), "atol": Float(1e-8), "equal_nan": Bool(True)},
    infer=_allclose,
    gradient=NO_GRADIENT,
    reference=lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=True: np.array(
        [np.allclose(a, b, rtol, atol, equal_nan)], np.uint8
    ),
    samples=lambda rng: [
        sample(np.array([1.0, np.nan]), np.array([1.0, np.nan]), check_gradient=False),
        sample(np.array([1.0, np.nan]), np.array([1.0, np.nan]), equal_nan=False, check_gradient=False),
        sample(np.array([1.0, 2.0]), np.array([1.0, 2.1]), check_gradient=False),
        sample(np.array([1.0, 2.0]), np.array([1.0, 2.1]), atol=0.2, check_gradient=False),
    ],
    errors=lambda: [error(np.ones(2, "float32"), np.ones(3, "float32"), match="equal shapes")],
    doc="""Give 1 if ``|a - b| <= atol + rtol * |b|`` everywhere, else 0.

Parameters
----------
a, b : NDArray
    Of one shape.
rtol, atol : float
equal_nan : bool
    Whether two elements that are not numbers are close.

Returns
-------
NDArray
    (1,), uint8.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.allclose(mx.nd.ones((2,)), mx.nd.ones((2,))).asnumpy().tolist()
[1]
""",
)

operator(
    "_contrib_quadratic",
    "data",
    {"a": Float(0.0), "b": Float(0.0), "c": Float(0.0)},
    infer=same,
    gradient=(lambda F, g, y, x, a, b, c: g * (x * (2.0 * a) + b),),
    saves="data",
    reference=lambda x, a=0.0, b=0.0, c=0.0: a * x * x + b * x + c,
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), a=2.0, b=-1.0, c=0.5), sample(rng.standard_normal((3,)))],
    doc="""Compute ``a x**2 + b x + c`` for each element.

Parameters
----------
data : NDArray
a, b, c : float

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.quadratic(mx.nd.array([1, 2]), a=1, b=2, c=3).asnumpy().tolist()
[6.0, 11.0]
""",
)

operator(
    "_contrib_gradientmultiplier",
    "data",
    {"scalar": Value(1.0), "is_int": Bool(True)},
    infer=same,
    gradient=(lambda F, g, y, x, scalar, is_int: g * scalar,),
    saves="",
    reference=lambda x, scalar=1.0: x,
    # Differences see the identity, not the factor.
    samples=lambda rng: [sample(rng.standard_normal((3, 4)), scalar=3.0, check_gradient=False)],
    doc="""Return the values; gradients are multiplied by ``scalar`` (-1 turns them round).

Parameters
----------
data : NDArray
scalar : float

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> x = mx.nd.array([2.0])
>>> x.attach_grad()
>>> with mx.autograd.record():
...     y = mx.nd.contrib.gradientmultiplier(x * x, scalar=-1)
>>> y.backward()
>>> x.grad.asnumpy().tolist()
[-4.0]
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Automatic mixed precision


def _amp_cast(a: Any, x: Spec) -> Spec:
    return Spec(x.shape, np.dtype(a["dtype"])) if x.dtype.kind == "f" else x


operator(
    "amp_cast",
    "data",
    {"dtype": DType()},
    infer=_amp_cast,
    gradient=(lambda F, g, y, x, dtype: F._cast_like(g, x),),
    saves="",
    reference=lambda x, dtype: x.astype(dtype) if x.dtype.kind == "f" else x,
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), dtype="float32", check_gradient=False),
        sample(np.arange(3, dtype=np.int32), dtype="float16", check_gradient=False),
    ],
    doc="""Cast floating point arrays to ``dtype``; leave others as they are. The gradient is cast back.

Parameters
----------
data : NDArray
dtype : str or numpy.dtype

Returns
-------
NDArray

Examples
--------
>>> import mxcore as mx
>>> mx.nd.amp_cast(mx.nd.ones((1,)), dtype="float16").dtype
<class 'numpy.float16'>
""",
)


def _amp_multicast(a: Any, *specs: Spec) -> Any:
    if a["num_outputs"] != len(specs):
        raise ParameterError(
            f"operator 'amp_multicast' with num_outputs={a['num_outputs']} got {len(specs)} arrays.",
            operator="amp_multicast",
        )
    floats = [s.dtype for s in specs if s.dtype.kind == "f"]
    if not floats:
        return specs
    common = (min if a["cast_narrow"] else max)(floats, key=lambda d: d.itemsize)
    return tuple(Spec(s.shape, common) if s.dtype.kind == "f" else s for s in specs)


operator(
    "amp_multicast",
    "*data",
    {"num_outputs": Int(), "cast_narrow": Bool(False)},
    same_dtype=False,
    infer=_amp_multicast,
    outputs=lambda a: a["num_outputs"],
    gradient=Joint(
        lambda F, gs, inputs, outputs, attributes, needs: [
            None if g is None else F._cast_like(g, x) for g, x in zip(gs, inputs)
        ]
    ),
    saves="",
    samples=lambda rng: [
        sample(np.ones(2, np.float16), np.ones(3, np.float32), num_outputs=2, check_gradient=False),
        sample(np.ones(2, np.float16), np.ones(3, np.float32), num_outputs=2, cast_narrow=True, check_gradient=False),
        sample(np.ones(2, np.int32), np.ones(3, np.float16), num_outputs=2, check_gradient=False),
        sample(np.ones(2), np.ones(3), num_outputs=2),
    ],
    errors=lambda: [error(np.ones(2, "float32"), num_outputs=2, match="got 1 arrays")],
    doc="""Cast floating point arrays to the widest dtype among them, or the narrowest.

Parameters
----------
*data : NDArray
num_outputs : int
    How many there are.
cast_narrow : bool

Returns
-------
list of NDArray

Examples
--------
>>> import mxcore as mx
>>> half, single = mx.nd.ones((1,), dtype="float16"), mx.nd.ones((1,))
>>> [y.dtype.__name__ for y in mx.nd.amp_multicast(half, single, num_outputs=2)]
['float32', 'float32']
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Multi-head attention on interleaved projections: (L, N, heads * parts * D) holds, for each head, parts vectors


def _head_size(name: str, x: Spec, heads: int, parts: int) -> tuple[int, int, int]:
    if len(x.shape) != 3 or heads < 1 or x.shape[2] % (heads * parts):
        raise refused(name, f"the projections must be (L, N, {parts} * heads * D) with heads={heads}", x)
    return x.shape[0], x.shape[1], x.shape[2] // (heads * parts)


def _take_heads(a: Mapping[str, Any], x: Spec) -> Spec:
    length, batch, size = _head_size("_take_heads", x, a["heads"], a["parts"])
    return Spec((batch * a["heads"], length, size), x.dtype)


def _put_heads(a: Mapping[str, Any], x: Spec) -> Spec:
    n, length, size = x.shape
    return Spec((length, n // a["heads"], a["heads"] * a["parts"] * size), x.dtype)


_HEADS = {"heads": Int(), "parts": Int(1), "part": Int(0)}

operator(
    "_take_heads",
    "data",
    _HEADS,
    infer=_take_heads,
    gradient=(lambda F, g, y, x, **kw: F._put_heads(g, **kw),),
    saves="",
    reference=lambda x, heads, parts=1, part=0: (
        x.reshape(x.shape[0], x.shape[1], heads, parts, -1)[:, :, :, part]
        .transpose(1, 2, 0, 3)
        .reshape(x.shape[1] * heads, x.shape[0], -1)
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((4, 2, 12)), heads=2, parts=3, part=1),
        sample(rng.standard_normal((4, 2, 6)), heads=3),
    ],
    doc="One vector per head out of ``parts`` interleaved ones: (L, N, heads * parts * D) to (N * heads, L, D).",
)
operator(
    "_put_heads",
    "data",
    _HEADS,
    infer=_put_heads,
    gradient=(lambda F, g, y, x, **kw: F._take_heads(g, **kw),),
    saves="",
    samples=lambda rng: [
        sample(rng.standard_normal((4, 3, 2)), heads=2, parts=3, part=1),
        sample(rng.standard_normal((6, 2, 3)), heads=3),
    ],
    doc="The gradient of ``_take_heads``: (N * heads, L, D) to (L, N, heads * parts * D), zeros in the other parts.",
)


def _scores(name: str, parts: tuple[int, ...]) -> Callable[..., Spec]:
    """Inference of a product of queries and keys; with one entry in ``parts``, they share one array."""

    def infer(a: Mapping[str, Any], *specs: Spec) -> Spec:
        sizes = [_head_size(name, s, a["heads"], p) for s, p in zip(specs, parts)]
        if any(s[1:] != sizes[0][1:] for s in sizes):
            raise refused(name, "queries and keys must agree in N and D", *specs)
        return Spec((sizes[0][1] * a["heads"], sizes[0][0], sizes[-1][0]), specs[0].dtype)

    return infer


def _mixed(name: str, parts: int) -> Callable[..., Spec]:
    def infer(a: Mapping[str, Any], x: Spec, attention: Spec) -> Spec:
        length, batch, size = _head_size(name, x, a["heads"], parts)
        s = attention.shape
        if len(s) != 3 or s[0] != batch * a["heads"] or s[2] != length:
            raise refused(name, f"attention must be ({batch * a['heads']}, L, {length})", x, attention)
        return Spec((s[1], batch, a["heads"] * size), x.dtype)

    return infer


def _scale(F: Any, x: Any) -> Any:
    return F._contrib_div_sqrt_dim(x)


def _qk_reference(q: Any, k: Any, heads: int, qparts: int, kparts: int) -> Any:
    q = q.reshape(q.shape[0], q.shape[1], heads, qparts, -1)[:, :, :, 0]
    k = k.reshape(k.shape[0], k.shape[1], heads, kparts, -1)[:, :, :, 1 if kparts == 3 else 0]
    y = np.einsum("inhd,jnhd->nhij", q, k) / math.sqrt(q.shape[-1])
    return y.reshape(-1, *y.shape[2:])


def _valatt_reference(x: Any, attention: Any, heads: int, parts: int) -> Any:
    v = x.reshape(x.shape[0], x.shape[1], heads, parts, -1)[:, :, :, parts - 1]
    a = attention.reshape(x.shape[1], heads, *attention.shape[1:])
    y = np.einsum("nhij,jnhd->inhd", a, v)
    return y.reshape(y.shape[0], y.shape[1], -1)


def _selfatt_qk_rule(F: Any, g: Any, y: Any, x: Any, heads: int) -> Any:
    q = F._take_heads(x, heads=heads, parts=3, part=0)
    k = F._take_heads(x, heads=heads, parts=3, part=1)
    dq = F._put_heads(_scale(F, F.batch_dot(g, k)), heads=heads, parts=3, part=0)
    return dq + F._put_heads(_scale(F, F.batch_dot(g, q, transpose_a=True)), heads=heads, parts=3, part=1)


def _of_values(parts: int) -> Callable[..., Any]:
    return lambda F, g, y, x, attention, heads: F._put_heads(
        F.batch_dot(attention, F._take_heads(g, heads=heads), transpose_a=True),
        heads=heads,
        parts=parts,
        part=parts - 1,
    )


def _of_attention(parts: int) -> Callable[..., Any]:
    return lambda F, g, y, x, attention, heads: F.batch_dot(
        F._take_heads(g, heads=heads), F._take_heads(x, heads=heads, parts=parts, part=parts - 1), transpose_b=True
    )


_LAYOUT = (
    "``L`` is the length of a sequence, ``N`` the batch, ``D`` the size of a head. For each head the last axis holds, side "
    "by side,"
)

operator(
    "_contrib_interleaved_matmul_selfatt_qk",
    "queries_keys_values",
    {"heads": Int()},
    infer=_scores("_contrib_interleaved_matmul_selfatt_qk", (3,)),
    gradient=(_selfatt_qk_rule,),
    saves="queries_keys_values",
    reference=lambda x, heads: _qk_reference(x, x, heads, 3, 3),
    samples=lambda rng: [sample(rng.standard_normal((4, 2, 18)), heads=3)],
    errors=lambda: [error(np.ones((2, 2, 4), "float32"), heads=2, match="(L, N, 3 * heads * D)")],
    doc=f"""Multiply queries and keys of self-attention, divided by ``sqrt(D)``.

{_LAYOUT} its query, key and value.

Parameters
----------
queries_keys_values : NDArray
    (L, N, heads * 3 * D).
heads : int

Returns
-------
NDArray
    (N * heads, L, L).

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.interleaved_matmul_selfatt_qk(mx.nd.ones((5, 2, 24)), heads=2).shape
(4, 5, 5)
""",
)

operator(
    "_contrib_interleaved_matmul_selfatt_valatt",
    "queries_keys_values attention",
    {"heads": Int()},
    infer=_mixed("_contrib_interleaved_matmul_selfatt_valatt", 3),
    gradient=(_of_values(3), _of_attention(3)),
    reference=lambda x, attention, heads: _valatt_reference(x, attention, heads, 3),
    samples=lambda rng: [sample(rng.standard_normal((4, 2, 18)), rng.standard_normal((6, 4, 4)), heads=3)],
    errors=lambda: [
        error(
            np.ones((2, 2, 12), "float32"), np.ones((4, 2, 3), "float32"), heads=2, match="attention must be (4, L, 2)"
        )
    ],
    doc=f"""Mix values of self-attention by attention weights.

{_LAYOUT} its query, key and value.

Parameters
----------
queries_keys_values : NDArray
    (L, N, heads * 3 * D).
attention : NDArray
    (N * heads, L, L).
heads : int

Returns
-------
NDArray
    (L, N, heads * D).

Examples
--------
>>> import mxcore as mx
>>> x, attention = mx.nd.ones((5, 2, 24)), mx.nd.ones((4, 5, 5))
>>> mx.nd.contrib.interleaved_matmul_selfatt_valatt(x, attention, heads=2).shape
(5, 2, 8)
""",
)

operator(
    "_contrib_interleaved_matmul_encdec_qk",
    "queries keys_values",
    {"heads": Int()},
    infer=_scores("_contrib_interleaved_matmul_encdec_qk", (1, 2)),
    gradient=(
        lambda F, g, y, q, kv, heads: F._put_heads(
            _scale(F, F.batch_dot(g, F._take_heads(kv, heads=heads, parts=2, part=0))), heads=heads
        ),
        lambda F, g, y, q, kv, heads: F._put_heads(
            _scale(F, F.batch_dot(g, F._take_heads(q, heads=heads), transpose_a=True)), heads=heads, parts=2, part=0
        ),
    ),
    saves="queries keys_values",
    reference=lambda q, kv, heads: _qk_reference(q, kv, heads, 1, 2),
    samples=lambda rng: [sample(rng.standard_normal((5, 2, 6)), rng.standard_normal((4, 2, 12)), heads=3)],
    errors=lambda: [
        error(np.ones((2, 2, 4), "float32"), np.ones((2, 3, 8), "float32"), heads=2, match="must agree in N and D")
    ],
    doc=f"""Multiply queries of a decoder with keys of an encoder, divided by ``sqrt(D)``.

{_LAYOUT} a key and a value of the encoder.

Parameters
----------
queries : NDArray
    (Lq, N, heads * D).
keys_values : NDArray
    (Lk, N, heads * 2 * D).
heads : int

Returns
-------
NDArray
    (N * heads, Lq, Lk).

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.interleaved_matmul_encdec_qk(mx.nd.ones((3, 2, 8)), mx.nd.ones((5, 2, 16)), heads=2).shape
(4, 3, 5)
""",
)

operator(
    "_contrib_interleaved_matmul_encdec_valatt",
    "keys_values attention",
    {"heads": Int()},
    infer=_mixed("_contrib_interleaved_matmul_encdec_valatt", 2),
    gradient=(_of_values(2), _of_attention(2)),
    reference=lambda x, attention, heads: _valatt_reference(x, attention, heads, 2),
    samples=lambda rng: [sample(rng.standard_normal((4, 2, 12)), rng.standard_normal((6, 5, 4)), heads=3)],
    errors=lambda: [
        error(
            np.ones((2, 2, 8), "float32"), np.ones((4, 2, 3), "float32"), heads=2, match="attention must be (4, L, 2)"
        )
    ],
    doc=f"""Mix values of an encoder by attention weights of a decoder.

{_LAYOUT} a key and a value of the encoder.

Parameters
----------
keys_values : NDArray
    (Lk, N, heads * 2 * D).
attention : NDArray
    (N * heads, Lq, Lk).
heads : int

Returns
-------
NDArray
    (Lq, N, heads * D).

Examples
--------
>>> import mxcore as mx
>>> x, attention = mx.nd.ones((5, 2, 16)), mx.nd.ones((4, 3, 5))
>>> mx.nd.contrib.interleaved_matmul_encdec_valatt(x, attention, heads=2).shape
(3, 2, 8)
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Fourier transforms, complex numbers as pairs side by side

_FFT = {"compute_size": Int(128)}


def _interleave(z: Any) -> Any:
    return np.stack([z.real, z.imag], -1).reshape(*z.shape[:-1], -1)


def _ifft(a: Any, x: Spec) -> Spec:
    if not x.shape or x.shape[-1] % 2:
        raise refused("_contrib_ifft", "the last axis must hold pairs of real and imaginary parts", x)
    return Spec((*x.shape[:-1], x.shape[-1] // 2), x.dtype)


operator(
    "_contrib_fft",
    "data",
    _FFT,
    infer=lambda a, x: Spec((*x.shape[:-1], 2 * x.shape[-1]), x.dtype),
    gradient=(lambda F, g, y, x, **_: F._contrib_ifft(g),),
    saves="",
    reference=lambda x, **_: _interleave(np.fft.fft(x)),
    samples=lambda rng: [sample(rng.standard_normal((3, 4))), sample(rng.standard_normal((2, 3, 5)))],
    rtol=1e-4,
    atol=1e-5,
    doc="""Fourier transform along the last axis; results are pairs of real and imaginary parts.

Parameters
----------
data : NDArray
    (..., D).
compute_size : int
    Without effect.

Returns
-------
NDArray
    (..., 2 D).

Examples
--------
>>> import mxcore as mx
>>> mx.nd.contrib.fft(mx.nd.array([[1, 2]])).asnumpy().tolist()
[[3.0, 0.0, -1.0, 0.0]]
""",
)
operator(
    "_contrib_ifft",
    "data",
    _FFT,
    infer=_ifft,
    gradient=(lambda F, g, y, x, **_: F._contrib_fft(g),),
    saves="",
    reference=lambda x, **_: (np.fft.ifft(x[..., ::2] + 1j * x[..., 1::2]) * (x.shape[-1] // 2)).real,
    samples=lambda rng: [sample(rng.standard_normal((3, 8))), sample(rng.standard_normal((2, 3, 10)))],
    errors=lambda: [error(np.ones((2, 3), "float32"), match="pairs of real and imaginary parts")],
    rtol=1e-4,
    atol=1e-5,
    doc="""Real part of the inverse Fourier transform along the last axis, not divided by its length.

Parameters
----------
data : NDArray
    (..., 2 D), pairs of real and imaginary parts.
compute_size : int
    Without effect.

Returns
-------
NDArray
    (..., D).

Examples
--------
>>> import mxcore as mx
>>> (mx.nd.contrib.ifft(mx.nd.contrib.fft(mx.nd.array([[1, 2]]))) / 2).asnumpy().tolist()
[[1.0, 2.0]]
""",
)
