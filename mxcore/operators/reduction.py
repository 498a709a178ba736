"""Records of operators that reduce axes: sums, extrema and where they are, norms, moments, running sums.

Outputs have the dtype of the input, integers included, and a reduction over all axes has shape ``(1,)``: arrays
always have an axis (MXNet 1.9.1's behaviour).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Choice, Int, IntOrShape
from .checks import one_axis
from .record import NO_GRADIENT, ZERO_GRADIENT, Joint, Spec, error, sample
from .references import distinct
from .registry import operator

_FLOAT32 = np.dtype(np.float32)
#: What ``dtype`` of results may be, where MXNet lets it be chosen.
_RESULT_DTYPES = ("float16", "float32", "float64", "int32", "int64", "int8")


def reduced_axes(name: str, shape: tuple[int, ...], axis: Any, exclude: bool = False) -> tuple[int, ...]:
    """Return the axes that a reduction removes, sorted.

    Raises
    ------
    ShapeError
        If an axis does not exist or is named twice.
    """
    ndim = len(shape)
    if axis is None or axis == ():
        return tuple(range(ndim))
    axes = [one_axis(name, a, ndim) for a in ((axis,) if isinstance(axis, int) else axis)]
    if len(set(axes)) != len(axes):
        raise ShapeError(f"operator '{name}': axis={axis} names an axis of data {shape} twice.", operator=name)
    if exclude:
        axes = [a for a in range(ndim) if a not in axes]
    return tuple(sorted(axes))


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return ``shape`` without ``axes``, or with 1 there."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes) or (1,)


def _reduce(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec) -> Spec:
        axes = reduced_axes(name, x.shape, a["axis"], a.get("exclude", False))
        return Spec(reduced_shape(x.shape, axes, a["keepdims"]), x.dtype)

    return infer


_REDUCE_DOC = """{summary}

Parameters
----------
data : NDArray
axis : int, tuple of int, or None
    Axes to reduce; None or ``()`` means all. Negative axes count from the end.
keepdims : bool
    Keep reduced axes with length 1.
exclude : bool
    Reduce all axes but those in ``axis``.

Returns
-------
NDArray
    The dtype of ``data``; shape ``(1,)`` where no axis is left.

Raises
------
ShapeError
    If an axis does not exist or is named twice.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.{name}(mx.nd.array({value}), {arguments}).asnumpy().tolist()
{shown}
"""


def _axes_for(x: np.ndarray, axis: Any, exclude: bool) -> tuple[int, ...]:
    if axis is None or axis == ():
        return tuple(range(x.ndim))
    axes = tuple(a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis))
    return tuple(a for a in range(x.ndim) if a not in axes) if exclude else axes


def _reference(fn: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: np.ndarray, axis: Any = None, keepdims: bool = False, exclude: bool = False) -> Any:
        return np.asarray(fn(x, axis=_axes_for(x, axis, exclude), keepdims=keepdims))

    return reference


def _axis_errors() -> Any:
    yield error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range")
    yield error(np.ones((2, 3), "float32"), axis=(0, -2), match="twice")
    yield error(np.ones((2, 3), "float32"), axis="x", match="a whole number")


def _varied(draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]) -> Callable[..., Any]:
    def samples(rng: np.random.Generator) -> Any:
        yield sample(draw(rng, (3, 4)))
        yield sample(draw(rng, (3, 4)), axis=1)
        yield sample(draw(rng, (2, 3, 4)), axis=(0, -1), keepdims=True)
        yield sample(draw(rng, (2, 3, 4)), axis=1, exclude=True)
        yield sample(draw(rng, (2, 3)), axis=(), keepdims=True)
        yield sample(draw(rng, (2, 3)), axis=(0, 1), exclude=True)
        yield sample(draw(rng, (4,)), axis=0)

    return samples


def reduction(
    name: str,
    summary: str,
    gradient: Callable[..., Any],
    reference: Callable[..., Any],
    *,
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray],
    example: tuple[Any, str, str],
    samples: Callable[..., Any] = _varied,
    aliases: tuple[str, ...] = (),
    saves: str = "",
) -> None:
    """Declare a reduction; ``gradient`` is ``rule(F, g, y, x, **attributes)``."""
    operator(
        name,
        "data",
        {"axis": IntOrShape(None), "keepdims": Bool(False), "exclude": Bool(False)},
        aliases=aliases,
        infer=_reduce(name),
        gradient=(gradient,),
        saves=saves,
        reference=_reference(reference),
        samples=samples(draw),
        errors=_axis_errors,
        doc=_REDUCE_DOC.format(summary=summary, name=name, value=example[0], arguments=example[1], shown=example[2]),
    )


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def _some_nan(draw: Callable[..., np.ndarray]) -> Callable[..., Any]:
    def samples(rng: np.random.Generator) -> Any:
        yield from _varied(draw)(rng)
        x = draw(rng, (3, 4))
        x[1, 2] = np.nan
        yield sample(x, axis=1, check_gradient=False)

    return samples


def _extremum(F: Any, g: Any, y: Any, x: Any, axis: Any, keepdims: bool, exclude: bool) -> Any:
    # Every element equal to the extremum gets the whole gradient, as in MXNet.
    y, g = F._with_axes(y, x, axis=axis, exclude=exclude), F._with_axes(g, x, axis=axis, exclude=exclude)
    return F.broadcast_equal(x, y) * g


def _product(F: Any, g: Any, y: Any, x: Any, axis: Any, keepdims: bool, exclude: bool) -> Any:
    return F._with_axes(g * y, x, axis=axis, exclude=exclude) / x


reduction(
    "sum",
    "Add up elements over axes. float16 is added up in float32.",
    lambda F, g, y, x, axis, keepdims, exclude: F._expand_reduced(g, x, axis=axis, exclude=exclude),
    np.sum,
    draw=_normal,
    example=([[1, 2], [3, 4]], "axis=1", "[3.0, 7.0]"),
    aliases=("sum_axis",),
)
reduction(
    "mean",
    "Average elements over axes. float16 is added up in float32; means of integers are cut off towards zero.",
    lambda F, g, y, x, axis, keepdims, exclude: F._expand_reduced(g, x, axis=axis, exclude=exclude, mean=True),
    np.mean,
    draw=_normal,
    example=([[1, 2], [3, 4]], "axis=1", "[1.5, 3.5]"),
)
reduction(
    "max",
    "Return the largest element over axes; NaN where there is one. Equal maxima each get the whole gradient.",
    _extremum,
    np.max,
    draw=distinct,
    example=([[1, 2], [4, 3]], "axis=1", "[2.0, 4.0]"),
    aliases=("max_axis",),
    saves="data output",
)
reduction(
    "min",
    "Return the smallest element over axes; NaN where there is one. Equal minima each get the whole gradient.",
    _extremum,
    np.min,
    draw=distinct,
    example=([[1, 2], [4, 3]], "axis=1", "[1.0, 3.0]"),
    aliases=("min_axis",),
    saves="data output",
)
reduction(
    "prod",
    "Multiply elements over axes. The gradient is ``output / data``, which is not a number at 0.",
    _product,
    np.prod,
    draw=lambda rng, shape: rng.uniform(0.5, 2, shape),
    example=([[1, 2], [3, 4]], "axis=1", "[2.0, 12.0]"),
    saves="data output",
)
reduction(
    "nansum",
    "Add up elements over axes, NaN counting as 0.",
    lambda F, g, y, x, axis, keepdims, exclude: (
        F._expand_reduced(g, x, axis=axis, exclude=exclude) * F.broadcast_equal(x, x)
    ),
    np.nansum,
    samples=_some_nan,
    draw=_normal,
    example=('[[1, float("nan")]]', "axis=1", "[1.0]"),
    saves="data",
)
reduction(
    "nanprod",
    "Multiply elements over axes, NaN counting as 1.",
    lambda F, g, y, x, axis, keepdims, exclude: F._nan_to_zero(_product(F, g, y, x, axis, keepdims, exclude)),
    np.nanprod,
    samples=_some_nan,
    draw=lambda rng, shape: rng.uniform(0.5, 2, shape),
    example=([[3, 2]], "axis=1", "[6.0]"),
    saves="data output",
)

operator(
    "_nan_to_zero",
    "data",
    infer=lambda a, x: x,
    gradient=(lambda F, g, y, x: g * F.broadcast_equal(x, x),),
    saves="data",
    doc="Replace NaN by 0; part of the gradient of ``nanprod``.",
)


def _with_axes(a: Any, g: Spec, like: Spec) -> Spec:
    axes = reduced_axes("_with_axes", like.shape, a["axis"], a["exclude"])
    return Spec(reduced_shape(like.shape, axes, True), g.dtype)


operator(
    "_with_axes",
    "data like",
    {"axis": IntOrShape(None), "exclude": Bool(False)},
    same_dtype=False,
    infer=_with_axes,
    gradient=(lambda F, g, y, x, like, **_: F.reshape_like(g, x), None),
    saves="",
    doc="Put back, with length 1, the axes that a reduction of ``like`` removed.",
)

operator(
    "_expand_reduced",
    "data like",
    {"axis": IntOrShape(None), "exclude": Bool(False), "mean": Bool(False)},
    same_dtype=False,
    infer=lambda a, g, like: Spec(like.shape, g.dtype),
    gradient=(
        lambda F, g, y, x, like, axis, exclude, mean: F.reshape_like(
            (F.mean if mean else F.sum)(g, axis=axis, exclude=exclude), x
        ),
        None,
    ),
    saves="",
    doc="Repeat the result of a reduction of ``like`` along the reduced axes, divided by their length if ``mean``.",
)


# ---------------------------------------------------------------------------------------------------------------
# Norms, moments, sums of squares


def _norm(a: Any, x: Spec) -> Spec:
    if a["ord"] not in (1, 2):
        raise ParameterError(
            f"operator 'norm': ord={a['ord']} is not supported; it takes 1 (sum of magnitudes) or 2 (Euclidean).",
            operator="norm",
        )
    axes = reduced_axes("norm", x.shape, a["axis"])
    return Spec(reduced_shape(x.shape, axes, a["keepdims"]), np.dtype(a["out_dtype"] or x.dtype))


def _norm_gradient(F: Any, g: Any, y: Any, x: Any, ord: int, axis: Any, out_dtype: Any, keepdims: bool) -> Any:
    if ord == 1:
        return F._expand_reduced(F._cast_like(g, x), x, axis=axis) * F.sign(x)
    return F._with_axes(F._cast_like(g / y, x), x, axis=axis) * x


operator(
    "norm",
    "data",
    {
        "ord": Int(2),
        "axis": IntOrShape(None),
        "out_dtype": Choice(None, choices=_RESULT_DTYPES),
        "keepdims": Bool(False),
    },
    infer=_norm,
    gradient=(_norm_gradient,),
    saves="data output",
    reference=lambda x, ord=2, axis=None, out_dtype=None, keepdims=False: np.asarray(
        np.sum(np.abs(x) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)
    ),
    samples=lambda rng: [
        sample(rng.uniform(0.3, 2, (3, 4))),
        sample(rng.uniform(0.3, 2, (3, 4)), ord=1, axis=1),
        sample(-rng.uniform(0.3, 2, (2, 3, 4)), axis=(0, 2), keepdims=True),
        sample(-rng.uniform(0.3, 2, (2, 3)), ord=1),
        sample(rng.uniform(0.3, 2, (2, 3)), axis=-1, out_dtype="float64"),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), ord=3, match="ord=3 is not supported"),
        error(np.ones((2, 3), "float32"), axis=5, match="axis=5 is out of range"),
    ],
    doc="""Compute the norm over axes: ``sum(|x|)`` for ``ord=1``, ``sqrt(sum(x**2))`` for ``ord=2``.

Parameters
----------
data : NDArray
ord : {1, 2}
axis : int, tuple of int, or None
    Axes to reduce; None means all.
out_dtype : str or None
    dtype of the result; None means that of ``data``.
keepdims : bool
    Keep reduced axes with length 1.

Returns
-------
NDArray

Raises
------
ShapeError
    If an axis does not exist.
ParameterError
    If ``ord`` is neither 1 nor 2.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.norm(mx.nd.array([[3, 4], [6, 8]]), axis=1).asnumpy().tolist()
[5.0, 10.0]
""",
)


def _moments(a: Any, x: Spec) -> tuple[Spec, Spec]:
    if not a["axes"]:
        raise ParameterError(
            f"operator 'moments' needs axes; for all of data {x.shape} pass axes={tuple(range(len(x.shape)))}.",
            operator="moments",
        )
    shape = reduced_shape(x.shape, reduced_axes("moments", x.shape, a["axes"]), a["keepdims"])
    return Spec(shape, x.dtype), Spec(shape, x.dtype)


def _moments_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    (x,), axes, d = inputs, a["axes"], None
    if gs[0] is not None:
        d = F._expand_reduced(gs[0], x, axis=axes, mean=True)
    if gs[1] is not None:
        centred = F.broadcast_sub(x, F._with_axes(outputs[0], x, axis=axes))
        of_variance = F._expand_reduced(gs[1], x, axis=axes, mean=True) * centred * 2.0
        d = of_variance if d is None else d + of_variance
    return (d,)


operator(
    "moments",
    "data",
    {"axes": IntOrShape(None), "keepdims": Bool(False)},
    outputs=2,
    infer=_moments,
    gradient=Joint(_moments_gradient),
    saves="data output",
    reference=lambda x, axes, keepdims=False: (
        np.asarray(x.mean(axes, keepdims=keepdims)),
        np.asarray(x.var(axes, keepdims=keepdims)),
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4)), axes=(0,)),
        sample(rng.standard_normal((2, 3, 4)), axes=(0, 2), keepdims=True),
        sample(rng.standard_normal((2, 3)), axes=(0, 1)),
        sample(rng.standard_normal((2, 3)), axes=-1),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), match="needs axes"),
        error(np.ones((2, 3), "float32"), axes=(3,), match="axis=3 is out of range"),
    ],
    doc="""Compute mean and variance over axes; the variance divides by the number of elements.

Parameters
----------
data : NDArray
axes : int or tuple of int
keepdims : bool
    Keep reduced axes with length 1.

Returns
-------
list of NDArray
    Mean and variance.

Raises
------
ParameterError
    If no axes are given.

Examples
--------
>>> import mxcore as mx
>>> mean, var = mx.nd.moments(mx.nd.array([[1, 3], [5, 9]]), axes=(1,))
>>> mean.asnumpy().tolist(), var.asnumpy().tolist()
([2.0, 7.0], [1.0, 4.0])
""",
)

operator(
    "_square_sum",
    "data",
    {"axis": IntOrShape(None), "keepdims": Bool(False), "exclude": Bool(False)},
    infer=_reduce("_square_sum"),
    gradient=(lambda F, g, y, x, axis, keepdims, exclude: F._with_axes(g, x, axis=axis, exclude=exclude) * x * 2.0,),
    saves="data",
    reference=_reference(lambda x, axis, keepdims: (x * x).sum(axis=axis, keepdims=keepdims)),
    samples=_varied(_normal),
    errors=_axis_errors,
    doc="Add up squares over axes; arguments as of ``sum``.",
)


# ---------------------------------------------------------------------------------------------------------------
# Where the extremum is


def _where(name: str, best: Callable[..., Any], example: str) -> None:
    def infer(a: Any, x: Spec) -> Spec:
        axis = a["axis"]
        if axis is not None:
            axis = one_axis(name, axis, len(x.shape))
        axes = tuple(range(len(x.shape))) if axis is None else (axis,)
        dtype = x.dtype if x.dtype != np.bool_ else _FLOAT32
        return Spec(reduced_shape(x.shape, axes, a["keepdims"]), dtype)

    def reference(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
        if axis is None and keepdims:
            return np.full((1,) * x.ndim, best(x))
        return np.asarray(best(x, axis=axis, keepdims=keepdims) if axis is not None else best(x))

    operator(
        name,
        "data",
        {"axis": Int(None), "keepdims": Bool(False)},
        infer=infer,
        gradient=ZERO_GRADIENT,
        saves="",
        reference=reference,
        samples=lambda rng: [
            sample(distinct(rng, (3, 4)), axis=1),
            sample(distinct(rng, (3, 4))),
            sample(distinct(rng, (2, 3, 4)), axis=-2, keepdims=True),
            sample(distinct(rng, (2, 3)), keepdims=True),
            sample(distinct(rng, (4,)), axis=0),
            sample(np.array([[2.0, 1, 2, 1], [5, 5, 0, 0]]), axis=1, check_gradient=False),
            sample(np.array([[2, 1, 2], [5, 7, 0]], "int32"), axis=0, check_gradient=False),
        ],
        errors=lambda: [error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range")],
        doc=f"""Return the position of the {"largest" if best is np.argmax else "smallest"} element along an axis.

Parameters
----------
data : NDArray
axis : int or None
    None means the position in the flattened array.
keepdims : bool
    Keep the reduced axis with length 1.

Returns
-------
NDArray
    Positions in the dtype of ``data``; the first of equal elements. NaN counts as the extremum.

Raises
------
ShapeError
    If the axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.{name}(mx.nd.array([[1, 5, 2], [9, 0, 3]]), axis=1).asnumpy().tolist()
{example}
""",
    )


_where("argmax", np.argmax, "[1.0, 0.0]")
_where("argmin", np.argmin, "[0.0, 1.0]")


def _argmax_channel(a: Any, x: Spec) -> Spec:
    if len(x.shape) < 2:
        raise ShapeError(
            f"operator 'argmax_channel' takes the position along axis 1, but data {x.shape} has one axis only. "
            f"Use argmax(axis=0).",
            operator="argmax_channel",
            shapes=[x.shape],
        )
    return Spec(reduced_shape(x.shape, (1,), False), x.dtype)


operator(
    "argmax_channel",
    "data",
    infer=_argmax_channel,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=lambda x: np.argmax(x, axis=1),
    samples=lambda rng: [sample(distinct(rng, (3, 4))), sample(distinct(rng, (2, 3, 4)))],
    errors=lambda: [error(np.ones(3, "float32"), match="axis 1")],
    doc="""Return the position of the largest element along axis 1.

Parameters
----------
data : NDArray
    Shape ``(N, C, ...)``.

Returns
-------
NDArray
    Shape ``(N, ...)``, in the dtype of ``data``.

Raises
------
ShapeError
    If ``data`` has only one axis.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.argmax_channel(mx.nd.array([[1, 5, 2], [9, 0, 3]])).asnumpy().tolist()
[1.0, 0.0]
""",
)


# ---------------------------------------------------------------------------------------------------------------
# Running sums


def _cumsum(a: Any, x: Spec) -> Spec:
    dtype = np.dtype(a["dtype"] or x.dtype)
    if a["axis"] is None:
        return Spec((int(np.prod(x.shape)),), dtype)
    one_axis("cumsum", a["axis"], len(x.shape))
    return Spec(x.shape, dtype)


def _cumsum_gradient(F: Any, g: Any, y: Any, x: Any, axis: Any, dtype: Any) -> Any:
    # The sum of all later gradients: a running sum from the other end.
    along = 0 if axis is None else axis
    d = F.reverse(F.cumsum(F.reverse(g, axis=(along,)), axis=along), axis=(along,))
    return F._cast_like(F.reshape_like(d, x), x)


operator(
    "cumsum",
    "a",
    {"axis": Int(None), "dtype": Choice(None, choices=_RESULT_DTYPES)},
    aliases=("_np_cumsum",),
    infer=_cumsum,
    gradient=(_cumsum_gradient,),
    saves="",
    reference=lambda a, axis=None, dtype=None: np.cumsum(a, axis=axis),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(rng.standard_normal((3, 4)), axis=0),
        sample(rng.standard_normal((2, 3, 4)), axis=-2),
        sample(rng.standard_normal((3, 2)), axis=1, dtype="float64"),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), axis=2, match="axis=2 is out of range")],
    doc="""Compute running sums along an axis.

Parameters
----------
a : NDArray
axis : int or None
    None means over the flattened array.
dtype : str or None
    dtype of the result; None means that of ``a``.

Returns
-------
NDArray
    Shape of ``a``, or one axis where ``axis`` is None.

Raises
------
ShapeError
    If the axis does not exist.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.cumsum(mx.nd.array([[1, 2], [3, 4]]), axis=1).asnumpy().tolist()
[[1.0, 3.0], [3.0, 7.0]]
""",
)


# ---------------------------------------------------------------------------------------------------------------
# Checks and sums over several arrays


def _counted(name: str, shape: Callable[[int], tuple[int, ...]]) -> Callable[..., Spec]:
    def infer(a: Any, *specs: Spec) -> Spec:
        if a["num_arrays"] != len(specs):
            raise ParameterError(
                f"operator '{name}': num_arrays={a['num_arrays']} but {len(specs)} array(s) were given.", operator=name
            )
        return Spec(shape(len(specs)), _FLOAT32)

    return infer


operator(
    "all_finite",
    "data",
    {"init_output": Bool(True)},
    infer=lambda a, x: Spec((1,), _FLOAT32),
    gradient=NO_GRADIENT,
    saves="",
    reference=lambda x, init_output=True: np.isfinite(x).all().astype(np.float64),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(np.array([1.0, np.inf])),
        sample(np.array([np.nan])),
    ],
    doc="""Return ``[1]`` if no element is infinite or NaN, else ``[0]``.

Parameters
----------
data : NDArray
init_output : bool
    Without effect: the output is always written.

Returns
-------
NDArray
    Shape ``(1,)``, float32.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.all_finite(mx.nd.array([1, float("inf")])).asnumpy().tolist()
[0.0]
""",
)

operator(
    "multi_all_finite",
    "*data",
    {"num_arrays": Int(1), "init_output": Bool(True)},
    same_dtype=False,
    infer=_counted("multi_all_finite", lambda n: (1,)),
    gradient=NO_GRADIENT,
    saves="",
    reference=lambda *xs, num_arrays: np.float64(all(np.isfinite(x).all() for x in xs)),
    samples=lambda rng: [
        sample(rng.standard_normal(3), rng.standard_normal((2, 2)), num_arrays=2),
        sample(rng.standard_normal(3), np.array([np.nan]), num_arrays=2),
    ],
    errors=lambda: [error(np.ones(2, "float32"), num_arrays=2, match="1 array(s) were given")],
    doc="""Return ``[1]`` if no element of any array is infinite or NaN, else ``[0]``.

Parameters
----------
*data : NDArray
num_arrays : int
    How many arrays are given.
init_output : bool
    Without effect: the output is always written.

Returns
-------
NDArray
    Shape ``(1,)``, float32.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.multi_all_finite(mx.nd.array([1]), mx.nd.array([2]), num_arrays=2).asnumpy().tolist()
[1.0]
""",
)

operator(
    "multi_sum_sq",
    "*data",
    {"num_arrays": Int()},
    infer=_counted("multi_sum_sq", lambda n: (n,)),
    gradient=NO_GRADIENT,
    saves="",
    reference=lambda *xs, num_arrays: np.array([(x * x).sum() for x in xs]),
    samples=lambda rng: [sample(rng.standard_normal(3), rng.standard_normal((2, 2)), num_arrays=2)],
    errors=lambda: [error(np.ones(2, "float32"), num_arrays=2, match="1 array(s) were given")],
    doc="""Compute the sum of squares of each array.

Parameters
----------
*data : NDArray
    Of one dtype; float16 is added up in float32.
num_arrays : int
    How many arrays are given.

Returns
-------
NDArray
    Shape ``(num_arrays,)``, float32.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.multi_sum_sq(mx.nd.array([1, 2]), mx.nd.array([3]), num_arrays=2).asnumpy().tolist()
[5.0, 9.0]
""",
)
