"""``mx.nd.random``: sampling. Parameters are numbers, or arrays of one shape for as many distributions.

With numbers, ``shape`` samples are drawn (one by default); with arrays, ``shape`` samples for each of their elements.
``out`` is overwritten and gives shape and dtype. Streams depend on the seed (:func:`mxcore.random.seed`), the device
and the number of random calls before, never on the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import operators
from ..base import _Null, numeric_types
from ..dispatch.functions import call, make_function
from ..spec import ParameterError
from .ndarray import NDArray

__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "shuffle",
    "uniform",
]


def _draw(
    distribution: str, names: str, parameters: Sequence[Any], shape: Any, dtype: Any, ctx: Any, out: Any, kwargs: Any
) -> Any:
    """Draw with the operator for numbers or the one for arrays, as the parameters are."""
    attributes = dict(kwargs)
    attributes.pop("name", None)
    if shape is not _Null and shape is not None:
        attributes["shape"] = shape
    if dtype is not _Null and dtype is not None:
        attributes["dtype"] = dtype
    first = parameters[0]
    kind: Any = NDArray if isinstance(first, NDArray) else numeric_types
    if not isinstance(first, (NDArray, *numeric_types)):
        raise ParameterError(
            f"random.{distribution}: parameters must be NDArrays or numbers, but {names.split()[0]} is {type(first)}."
        )
    for p in parameters[1:]:
        if not isinstance(p, kind):
            # MXNet's code asserts here.
            raise AssertionError(
                f"random.{distribution}: the distribution parameters must all be NDArrays or all numbers, but got "
                f"{type(first)} and {type(p)}."
            )
    if kind is NDArray:
        return call(f"_sample_{distribution}", tuple(parameters), attributes, out, cls=NDArray)
    if out is not None:
        attributes.setdefault("shape", out.shape)
        attributes.setdefault("dtype", out.dtype)
    attributes.update(zip(names.split(), parameters))
    return call(f"_random_{distribution}", (), attributes, out, cls=NDArray, ctx=ctx)


def uniform(
    low: Any = 0, high: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Draw numbers between ``low``, included, and ``high``.

    Parameters
    ----------
    low, high : float or NDArray
    shape : int or tuple of int
    dtype : {"float32", "float16", "float64"}
    ctx : Context
        Device, with numbers; arrays decide it themselves.
    out : NDArray
        Overwritten.

    Returns
    -------
    NDArray

    Raises
    ------
    ParameterError
        If low > high.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.uniform(2, 3, shape=(4, 5)).shape
    (4, 5)
    >>> mx.nd.random.uniform(mx.nd.array([0, 1]), mx.nd.array([1, 2]), shape=3).shape
    (2, 3)
    """
    return _draw("uniform", "low high", (low, high), shape, dtype, ctx, out, kwargs)


def normal(
    loc: Any = 0,
    scale: Any = 1,
    shape: Any = _Null,
    dtype: Any = _Null,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Draw normally distributed numbers of mean ``loc`` and standard deviation ``scale``.

    Parameters
    ----------
    loc, scale : float or NDArray
    shape : int or tuple of int
    dtype : {"float32", "float16", "float64"}
    ctx : Context
        Device, with numbers; arrays decide it themselves.
    out : NDArray
        Overwritten.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.normal(shape=2, dtype="float64").dtype
    <class 'numpy.float64'>
    """
    return _draw("normal", "loc scale", (loc, scale), shape, dtype, ctx, out, kwargs)


def randn(*shape: int, **kwargs: Any) -> NDArray:
    """Draw normally distributed numbers; the axes are positional arguments.

    Parameters
    ----------
    *shape : int
    loc, scale, dtype, ctx, out
        As for :func:`normal`.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.randn(2, 3, loc=5).shape
    (2, 3)
    """
    return normal(shape=shape, **kwargs)


def exponential(
    scale: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Draw exponentially distributed numbers of mean ``scale``.

    Parameters
    ----------
    scale : float or NDArray
    shape, dtype, ctx, out
        As for :func:`uniform`.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> bool((mx.nd.random.exponential(2, shape=5) >= 0).min() == 1)
    True
    """
    return _draw("exponential", "lam", (1.0 / scale,), shape, dtype, ctx, out, kwargs)


def gamma(
    alpha: Any = 1,
    beta: Any = 1,
    shape: Any = _Null,
    dtype: Any = _Null,
    ctx: Any = None,
    out: Any = None,
    **kwargs: Any,
) -> NDArray:
    """Draw gamma distributed numbers of shape ``alpha`` and scale ``beta``.

    Parameters
    ----------
    alpha, beta : float or NDArray
    shape, dtype, ctx, out
        As for :func:`uniform`.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.gamma(9, 0.5, shape=(2,)).shape
    (2,)
    """
    return _draw("gamma", "alpha beta", (alpha, beta), shape, dtype, ctx, out, kwargs)


def poisson(
    lam: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Draw Poisson distributed whole numbers of mean ``lam``, as floating point numbers.

    Parameters
    ----------
    lam : float or NDArray
    shape, dtype, ctx, out
        As for :func:`uniform`.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.poisson(0, shape=2).asnumpy().tolist()
    [0.0, 0.0]
    """
    return _draw("poisson", "lam", (lam,), shape, dtype, ctx, out, kwargs)


def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Draw numbers of failures before success ``k``, where one trial succeeds with probability ``p``.

    Parameters
    ----------
    k : int or NDArray
    p : float or NDArray
    shape, dtype, ctx, out
        As for :func:`uniform`.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.negative_binomial(3, 1.0).asnumpy().tolist()
    [0.0]
    """
    return _draw("negative_binomial", "k p", (k, p), shape, dtype, ctx, out, kwargs)


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Draw negative binomial whole numbers of mean ``mu`` and variance ``mu + alpha * mu**2``.

    Parameters
    ----------
    mu, alpha : float or NDArray
    shape, dtype, ctx, out
        As for :func:`uniform`.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.generalized_negative_binomial(10, 0.1, shape=(2, 2)).shape
    (2, 2)
    """
    return _draw("generalized_negative_binomial", "mu alpha", (mu, alpha), shape, dtype, ctx, out, kwargs)


def randint(
    low: int, high: int, shape: Any = _Null, dtype: Any = _Null, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Draw whole numbers, each of ``low, ..., high - 1`` equally often.

    Parameters
    ----------
    low, high : int
    shape : int or tuple of int
    dtype : {"int32", "int64"}
    ctx : Context
    out : NDArray
        Overwritten.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.randint(7, 8, shape=2).asnumpy()
    array([7, 7], dtype=int32)
    """
    return _draw("randint", "low high", (low, high), shape, dtype, ctx, out, kwargs)


def multinomial(
    data: NDArray, shape: Any = _Null, get_prob: bool = False, out: Any = None, dtype: Any = "int32", **kwargs: Any
) -> Any:
    """Draw categories with the probabilities that the last axis of ``data`` holds.

    Parameters
    ----------
    data : NDArray
        (N..., K), summing to 1 along the last axis.
    shape : int or tuple of int
        Draws for each distribution; one if not given.
    get_prob : bool
        Return the log probabilities of what was drawn too; they have a gradient.
    out : NDArray
        Overwritten.
    dtype : str
        Of the categories.

    Returns
    -------
    NDArray, or list of two
        Categories (N..., *shape), and their log probabilities.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.multinomial(mx.nd.array([0, 1]), shape=3).asnumpy()
    array([1, 1, 1], dtype=int32)
    """
    attributes = {**kwargs, "get_prob": get_prob, "dtype": dtype}
    attributes.pop("name", None)
    if shape is not _Null and shape is not None:
        attributes["shape"] = shape
    return call("_sample_multinomial", (data,), attributes, out, cls=NDArray)


def shuffle(data: NDArray, **kwargs: Any) -> NDArray:
    """Return the rows (first axis) of ``data`` in random order.

    Parameters
    ----------
    data : NDArray
    out : NDArray
        Overwritten.

    Returns
    -------
    NDArray

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.nd.random.shuffle(mx.nd.array([[1, 2]])).asnumpy().tolist()
    [[1.0, 2.0]]
    """
    return call("_shuffle", (data,), {}, kwargs.get("out"), cls=NDArray)


def __getattr__(name: str) -> Any:
    # uniform_like(data, low, high), normal_like, ...: the operators themselves.
    if name.endswith("_like") and operators.known(f"_random_{name}"):
        function = globals()[name] = make_function(operators.get(f"_random_{name}"), NDArray, name, __name__)
        return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    likes = [n.removeprefix("_random_") for n in operators.names() if n.startswith("_random_") and n.endswith("_like")]
    return sorted({*globals(), *likes})
