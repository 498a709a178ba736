"""Records of random operators.

Every call draws from its own generator, made from the seed, the device and the number of random calls before it
(:mod:`mxcore.dispatch.rng`). ``_random_*`` take numbers, ``_random_*_like`` also an array that gives shape and dtype,
``_sample_*`` arrays of parameters, for each of which ``shape`` samples are drawn, ``_random_pdf_*`` are densities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Attribute, Bool, DType, Float, Int, Shape
from .record import NO_GRADIENT, ZERO_GRADIENT, Joint, Spec, error, sample
from .registry import operator


@dataclass(frozen=True, slots=True)
class OneOfDTypes(DType):
    """A dtype out of a few, or None for the first of them."""

    choices: tuple[str, ...] = field(default=())

    def accepted(self) -> str:
        return "one of " + ", ".join(map(repr, self.choices))

    def convert(self, value: Any) -> str:
        name = np.dtype(value).name
        if name not in self.choices:
            raise ValueError
        return name


_FLOAT = OneOfDTypes(None, choices=("float32", "float16", "float64"))
_float32 = np.dtype(np.float32)


def _refusal(name: str, condition: str, a: Mapping[str, Any]) -> ParameterError:
    given = ", ".join(f"{k}={v!r}" for k, v in a.items() if k not in ("shape", "dtype"))
    return ParameterError(f"operator '{name}' needs {condition}, but got {given}.", operator=name)


@dataclass(frozen=True, slots=True)
class Distribution:
    """What the operators of one distribution share.

    Attributes
    ----------
    name : str
        ``normal`` for ``_random_normal``, ``_random_normal_like`` and ``_sample_normal``.
    attributes : mapping
        Parameters as numbers.
    arrays : str
        Their names as arrays.
    text : str
        What is drawn.
    valid : callable
        Whether given numbers make a distribution. Asked by kernels, so that the error waits for the values where
        an engine lets the program go on, as MXNet's does.
    condition : str
        The same in words.
    aliases : tuple of str
    """

    name: str
    attributes: Mapping[str, Attribute]
    arrays: str
    text: str
    valid: Callable[[Mapping[str, Any]], bool]
    condition: str
    aliases: tuple[str, ...] = ()

    def check(self, name: str, a: Mapping[str, Any]) -> None:
        """Raise ParameterError unless the numbers that operator ``name`` got make a distribution."""
        if not self.valid(a):
            raise _refusal(name, self.condition, a)


def check_randint(a: Mapping[str, Any]) -> None:
    """Raise ParameterError unless there are whole numbers to draw from."""
    if a["low"] >= a["high"]:
        raise _refusal("_random_randint", "low < high", a)


DISTRIBUTIONS = (
    Distribution(
        "uniform",
        {"low": Float(0.0), "high": Float(1.0)},
        "low high",
        "numbers between ``low``, included, and ``high``",
        lambda a: a["low"] <= a["high"],
        "low <= high",
        ("uniform",),
    ),
    Distribution(
        "normal",
        {"loc": Float(0.0), "scale": Float(1.0)},
        "mu sigma",
        "normally distributed numbers of a mean and a standard deviation",
        lambda a: a["scale"] >= 0,
        "scale >= 0",
        ("normal",),
    ),
    Distribution(
        "gamma",
        {"alpha": Float(1.0), "beta": Float(1.0)},
        "alpha beta",
        "gamma distributed numbers of shape ``alpha`` and scale ``beta`` (mean ``alpha * beta``)",
        lambda a: a["alpha"] > 0 and a["beta"] > 0,
        "alpha > 0 and beta > 0",
    ),
    Distribution(
        "exponential",
        {"lam": Float(1.0)},
        "lam",
        "exponentially distributed numbers of rate ``lam`` (mean ``1 / lam``)",
        lambda a: a["lam"] > 0,
        "lam > 0",
    ),
    Distribution(
        "poisson",
        {"lam": Float(1.0)},
        "lam",
        "Poisson distributed whole numbers of mean ``lam``, as floating point numbers",
        lambda a: a["lam"] >= 0,
        "lam >= 0",
    ),
    Distribution(
        "negative_binomial",
        {"k": Int(1), "p": Float(1.0)},
        "k p",
        "the numbers of failures before success ``k``, where one trial succeeds with probability ``p``",
        lambda a: a["k"] > 0 and 0 < a["p"] <= 1,
        "k > 0 and 0 < p <= 1",
    ),
    Distribution(
        "generalized_negative_binomial",
        {"mu": Float(1.0), "alpha": Float(1.0)},
        "mu alpha",
        "negative binomial whole numbers of mean ``mu`` and variance ``mu + alpha * mu**2``",
        lambda a: a["mu"] >= 0 and a["alpha"] >= 0,
        "mu >= 0 and alpha >= 0",
    ),
)


def _declare(d: Distribution) -> None:
    numbers = ", ".join(d.attributes)

    def created(a: Mapping[str, Any]) -> Spec:
        return Spec(a["shape"] or (1,), np.dtype(a["dtype"] or "float32"))

    def sampled(a: Mapping[str, Any], x: Spec, *rest: Spec) -> Spec:
        for y in rest:
            if y.shape != x.shape:
                raise ShapeError(
                    f"operator '_sample_{d.name}': {d.arrays.replace(' ', ' and ')} must have one shape but have {x.shape} "
                    f"and {y.shape}.",
                    operator=f"_sample_{d.name}",
                    shapes=[x.shape, y.shape],
                )
        return Spec(x.shape + (a["shape"] or ()), np.dtype(a["dtype"] or "float32"))

    operator(
        f"_random_{d.name}",
        "",
        {**d.attributes, "shape": Shape(None), "dtype": _FLOAT},
        aliases=(f"random_{d.name}", *d.aliases),
        infer=created,
        gradient=NO_GRADIENT,
        random=True,
        creates=True,
        doc=f"""Draw {d.text}.

Parameters
----------
{numbers} : {"float" if d.name != "negative_binomial" else "int, float"}
shape : tuple of int
    One number if not given.
dtype : {{"float32", "float16", "float64"}}
ctx : Context
    Device, the current one by default.

Returns
-------
NDArray

Raises
------
ParameterError
    Unless {d.condition}; when the values are read, with an engine that lets the program go on meanwhile.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.random_{d.name}(shape=(2, 3)).shape
(2, 3)
""",
    )
    operator(
        f"_random_{d.name}_like",
        "data",
        d.attributes,
        infer=lambda a, x: x,
        gradient=ZERO_GRADIENT,
        saves="",
        random=True,
        doc=f"Draw {d.text}, of the shape and dtype of ``data``. Parameters: {numbers} (numbers).",
    )
    arrays = d.arrays.split()
    operator(
        f"_sample_{d.name}",
        d.arrays,
        {"shape": Shape(()), "dtype": _FLOAT},
        aliases=(f"sample_{d.name}",),
        infer=sampled,
        gradient=ZERO_GRADIENT,
        saves="",
        random=True,
        errors=lambda: (
            [error(np.ones(2, "float32"), np.ones(3, "float32"), match="must have one shape")]
            if len(arrays) > 1
            else []
        ),
        doc=f"""Draw {d.text}: ``shape`` of them for each element of the parameters.

Parameters
----------
{", ".join(arrays)} : NDArray
    Parameters, of one shape (N...).
shape : tuple of int
    One sample for each element if not given.
dtype : {{"float32", "float16", "float64"}}

Returns
-------
NDArray
    (N..., *shape).

Examples
--------
>>> import mxcore as mx
>>> mx.nd.sample_{d.name}({", ".join("mx.nd.array([0.5, 0.75])" for _ in arrays)}, shape=(4,)).shape
(2, 4)
""",
    )


for _distribution in DISTRIBUTIONS:
    _declare(_distribution)


operator(
    "_random_randint",
    "",
    {"low": Int(), "high": Int(), "shape": Shape(None), "dtype": OneOfDTypes(None, choices=("int32", "int64"))},
    aliases=("random_randint",),
    infer=lambda a: Spec(a["shape"] or (1,), np.dtype(a["dtype"] or "int32")),
    gradient=NO_GRADIENT,
    random=True,
    creates=True,
    errors=lambda: [error(low=3, high=3, match="low < high")],
    doc="""Draw whole numbers, each of ``low, ..., high - 1`` equally often.

Parameters
----------
low, high : int
shape : tuple of int
    One number if not given.
dtype : {"int32", "int64"}
ctx : Context
    Device, the current one by default.

Returns
-------
NDArray

Raises
------
ParameterError
    Unless low < high; when the values are read, with an engine that lets the program go on meanwhile.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.random_randint(5, 6, shape=(2,)).asnumpy().tolist()
[5, 5]
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Categories, permutations


def _multinomial(a: Mapping[str, Any], x: Spec) -> Any:
    if not x.shape or not x.shape[-1]:
        raise ShapeError("operator '_sample_multinomial': data has no categories along its last axis.")
    shape = (x.shape[:-1] + (a["shape"] or ())) or (1,)
    drawn = Spec(shape, np.dtype(a["dtype"]))
    return (drawn, Spec(shape, x.dtype)) if a["get_prob"] else drawn


def _multinomial_rule(F: Any, gs: Any, inputs: Any, outputs: Any, attributes: Any, needs: Any) -> Any:
    (data,) = inputs
    if len(gs) < 2 or gs[1] is None:
        return (F.zeros_like(data),)
    drawn = outputs[0]
    return (F._scatter_categories(gs[1] / F._gather_categories(data, drawn), drawn, data),)


operator(
    "_sample_multinomial",
    "data",
    {
        "shape": Shape(()),
        "get_prob": Bool(False),
        "dtype": OneOfDTypes("int32", choices=("int32", "int64", "uint8", "float16", "float32", "float64")),
    },
    aliases=("sample_multinomial",),
    infer=_multinomial,
    outputs=lambda a: 2 if a["get_prob"] else 1,
    gradient=Joint(_multinomial_rule),
    saves="data output",
    random=True,
    doc="""Draw categories with the probabilities that the last axis of ``data`` holds.

Parameters
----------
data : NDArray
    (N..., K), summing to 1 along the last axis.
shape : tuple of int
    Draws for each distribution; one if not given.
get_prob : bool
    Return the logarithms of the probabilities of what was drawn too; they have a gradient.
dtype : str
    Of the categories.

Returns
-------
NDArray, or list of two
    Categories ``0 ... K - 1``, (N..., *shape), and their log probabilities.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.sample_multinomial(mx.nd.array([[0, 1], [1, 0]]), shape=(3,)).asnumpy().tolist()
[[1, 1, 1], [0, 0, 0]]
""",
)

operator(
    "_gather_categories",
    "data index",
    infer=lambda a, x, i: Spec(i.shape, x.dtype),
    same_dtype=False,
    gradient=(lambda F, g, y, x, i: F._scatter_categories(g, i, x), None),
    saves="index",
    reference=lambda x, i: np.take_along_axis(x, i, -1),
    samples=lambda rng: [sample(rng.standard_normal((2, 3)), np.array([[0, 2], [1, 1]], np.int32))],
    doc="For each row of ``data``, the elements at the positions in ``index``.",
)

operator(
    "_scatter_categories",
    "grad index like",
    infer=lambda a, g, i, x: x,
    same_dtype=False,
    gradient=(lambda F, h, y, g, i, x: F._gather_categories(h, i), None, None),
    saves="index",
    doc="Zeros like ``like`` with ``grad`` added at the positions in ``index``; the gradient of ``_gather_categories``.",
)

operator(
    "_shuffle",
    "data",
    aliases=("shuffle",),
    infer=lambda a, x: x,
    gradient=ZERO_GRADIENT,
    saves="",
    random=True,
    doc="""Shuffle along the first axis.

Parameters
----------
data : NDArray

Returns
-------
NDArray
    The same rows in random order; every order is equally likely.

Examples
--------
>>> import mxcore as mx
>>> sorted(mx.nd.shuffle(mx.nd.array([3, 1, 2])).asnumpy().tolist())
[1.0, 2.0, 3.0]
""",
)


def _zipfian(a: Mapping[str, Any]) -> Any:
    shape = a["shape"]
    if shape is None or len(shape) != 2 or shape[1] > a["range_max"]:
        raise ParameterError(
            f"operator '_sample_unique_zipfian' needs a shape of two numbers, rows and samples in each, with at most "
            f"range_max={a['range_max']} samples, but got shape={shape}.",
            operator="_sample_unique_zipfian",
        )
    return Spec(shape, np.dtype(np.int64)), Spec(shape[:1], np.dtype(np.int64))


operator(
    "_sample_unique_zipfian",
    "",
    {"range_max": Int(), "shape": Shape(None)},
    infer=_zipfian,
    outputs=2,
    gradient=NO_GRADIENT,
    random=True,
    creates=True,
    errors=lambda: [error(range_max=3, shape=(1, 4), match="at most")],
    doc="""Draw distinct whole numbers, small ones more often: ``P(i) = ln((i + 2) / (i + 1)) / ln(range_max + 1)``.

Parameters
----------
range_max : int
    Numbers are below it.
shape : tuple of int
    (N, K): rows, and samples without repetition in each.

Returns
-------
list of NDArray
    Samples (N, K) and how many draws each row took (N,), int64.

Examples
--------
>>> import mxcore as mx
>>> samples, tries = mx.nd._internal._sample_unique_zipfian(4, shape=(1, 4))
>>> sorted(samples.asnumpy()[0].tolist())
[0, 1, 2, 3]
""",
)

# ---------------------------------------------------------------------------------------------------------------
# Densities. Each is a formula in log, gammaln and arithmetic, which kernels and gradients share


@dataclass(frozen=True, slots=True)
class Density:
    """The logarithm of a density: ``log(lib, x, *parameters)``, with ``lib.log`` and ``lib.gammaln``.

    Attributes
    ----------
    name, arrays : str
        Name of the distribution and of its parameters.
    text : str
        What the parameters are.
    log : callable
    scipy : callable
        ``scipy(stats, x, *parameters)``, the density, for tests.
    discrete : bool
    """

    name: str
    arrays: str
    text: str
    log: Callable[..., Any]
    scipy: Callable[..., Any]
    discrete: bool = False


def _log_negative_binomial(lib: Any, x: Any, k: Any, p: Any) -> Any:
    return lib.gammaln(x + k) - lib.gammaln(x + 1.0) - lib.gammaln(k) + k * lib.log(p) + x * lib.log(1.0 - p)


def _log_generalized(lib: Any, x: Any, mu: Any, alpha: Any) -> Any:
    return _log_negative_binomial(lib, x, 1.0 / alpha, 1.0 / (mu * alpha + 1.0))


DENSITIES = (
    Density(
        "uniform",
        "low high",
        "bounds; ``sample`` is taken to lie between them",
        lambda lib, x, low, high: x * 0.0 - lib.log(high - low),
        lambda stats, x, low, high: stats.uniform.pdf(x, low, high - low),
    ),
    Density(
        "normal",
        "mu sigma",
        "mean and standard deviation",
        lambda lib, x, mu, sigma: ((x - mu) / sigma) ** 2 * -0.5 - lib.log(sigma * math.sqrt(2.0 * math.pi)),
        lambda stats, x, mu, sigma: stats.norm.pdf(x, mu, sigma),
    ),
    Density(
        "gamma",
        "alpha beta",
        "shape and rate (``sample_gamma`` takes a scale)",
        lambda lib, x, alpha, beta: alpha * lib.log(beta) + (alpha - 1.0) * lib.log(x) - beta * x - lib.gammaln(alpha),
        lambda stats, x, alpha, beta: stats.gamma.pdf(x, alpha, scale=1 / beta),
    ),
    Density(
        "exponential",
        "lam",
        "rate",
        lambda lib, x, lam: lib.log(lam) - lam * x,
        lambda stats, x, lam: stats.expon.pdf(x, scale=1 / lam),
    ),
    Density(
        "poisson",
        "lam",
        "mean",
        lambda lib, x, lam: x * lib.log(lam) - lib.gammaln(x + 1.0) - lam,
        lambda stats, x, lam: stats.poisson.pmf(x, lam),
        discrete=True,
    ),
    Density(
        "negative_binomial",
        "k p",
        "number of successes and their probability",
        _log_negative_binomial,
        lambda stats, x, k, p: stats.nbinom.pmf(x, k, p),
        discrete=True,
    ),
    Density(
        "generalized_negative_binomial",
        "mu alpha",
        "mean and dispersion",
        _log_generalized,
        lambda stats, x, mu, alpha: stats.nbinom.pmf(x, 1 / alpha, 1 / (mu * alpha + 1)),
        discrete=True,
    ),
)


def _stats() -> Any:
    import scipy.stats

    return scipy.stats


def _density(d: Density) -> None:
    name = f"_random_pdf_{d.name}"
    arrays = d.arrays.split()

    def infer(a: Mapping[str, Any], x: Spec, *parameters: Spec) -> Spec:
        for p in parameters:
            if p.shape != parameters[0].shape or x.shape[: len(p.shape)] != p.shape:
                raise ShapeError(
                    f"operator '{name}': the parameters must have one shape, with which the shape of sample starts, but got "
                    f"{[s.shape for s in parameters]} for sample {x.shape}.",
                    operator=name,
                    shapes=[x.shape, p.shape],
                )
        return x

    def composed(F: Any, x: Any, *parameters: Any, is_log: bool) -> Any:
        axes = len(x.shape) - len(parameters[0].shape)
        wide = [F._expand_like(p, x, axes=axes) if axes else p for p in parameters]
        y = d.log(F, x, *wide)
        return y if is_log else F.exp(y)

    def reference(x: Any, *parameters: Any, is_log: bool = False) -> Any:
        wide = [p.reshape(p.shape + (1,) * (x.ndim - p.ndim)) for p in parameters]
        y = d.scipy(_stats(), x, *wide)
        return np.log(y) if is_log else y

    def samples(rng: np.random.Generator) -> Any:
        for shape, draws, is_log in (((2,), (3,), False), ((2, 2), (), True)):
            low = rng.uniform(0.5, 0.9, shape)
            parameters = [low, low + rng.uniform(1, 2, shape)] if d.name == "uniform" else [low] * len(arrays)
            x = rng.uniform(1.0, 1.4, shape + draws)
            if d.discrete:
                x = rng.integers(0, 5, shape + draws).astype(np.float64)
            yield sample(x, *parameters, is_log=is_log)

    operator(
        name,
        "sample " + d.arrays,
        {"is_log": Bool(False)},
        aliases=(f"random_pdf_{d.name}",),
        infer=infer,
        gradient=NO_GRADIENT,
        composed=composed,
        saves="",
        reference=reference,
        samples=samples,
        rtol=1e-4,
        errors=lambda: [
            error(
                np.ones((2, 3), "float32"), *(np.ones(3, "float32") for _ in arrays), match="the shape of sample starts"
            )
        ],
        doc=f"""Compute the density of a {d.name.replace("_", " ")} distribution{" (its probabilities)" if d.discrete else ""}.

Parameters
----------
sample : NDArray
    (N..., M...).
{", ".join(arrays)} : NDArray
    (N...): {d.text}.
is_log : bool
    Give the logarithm.

Returns
-------
NDArray
    (N..., M...).

Examples
--------
>>> import mxcore as mx
>>> one = mx.nd.array([0.5])
>>> mx.nd.random_pdf_{d.name}(mx.nd.array([[1, 1]]), {", ".join(["one", "one * 2"][: len(arrays)])}).shape
(1, 2)
""",
    )


for _d in DENSITIES:
    _density(_d)


def _dirichlet(a: Mapping[str, Any], x: Spec, alpha: Spec) -> Spec:
    n = len(alpha.shape) - 1
    if n < 0 or len(x.shape) < n + 1 or x.shape[-1] != alpha.shape[-1] or x.shape[:n] != alpha.shape[:-1]:
        raise ShapeError(
            f"operator '_random_pdf_dirichlet': sample and alpha must be (N..., M..., K) and (N..., K), but got {x.shape} and "
            f"{alpha.shape}.",
            operator="_random_pdf_dirichlet",
            shapes=[x.shape, alpha.shape],
        )
    return Spec(x.shape[:-1] or (1,), x.dtype)


def log_dirichlet(lib: Any, total: Callable[[Any], Any], x: Any, alpha: Any) -> Any:
    """Logarithm of the density; ``total`` sums over the last axis, ``alpha`` broadcasts against ``x``."""
    return total((alpha - 1.0) * lib.log(x)) + lib.gammaln(total(alpha)) - total(lib.gammaln(alpha))


def _composed_dirichlet(F: Any, x: Any, alpha: Any, is_log: bool) -> Any:
    middle = len(x.shape) - len(alpha.shape)
    wide = F.reshape(alpha, shape=(*alpha.shape[:-1], *(1,) * middle, alpha.shape[-1])) if middle else alpha
    y = log_dirichlet(F, lambda v: F._fold(v, axes=1), x, wide)
    return y if is_log else F.exp(y)


def _dirichlet_reference(x: Any, alpha: Any, is_log: bool = False) -> Any:
    y = np.empty(x.shape[:-1])
    for i in np.ndindex(*y.shape):
        a = alpha[i[: alpha.ndim - 1]]
        # SciPy wants sums of exactly 1; differences move them.
        y[i] = np.exp(((a - 1) * np.log(x[i])).sum() + math.lgamma(a.sum()) - sum(map(math.lgamma, a)))
    return np.log(y) if is_log else y


operator(
    "_random_pdf_dirichlet",
    "sample alpha",
    {"is_log": Bool(False)},
    aliases=("random_pdf_dirichlet",),
    infer=_dirichlet,
    gradient=NO_GRADIENT,
    composed=_composed_dirichlet,
    saves="",
    reference=_dirichlet_reference,
    samples=lambda rng: [
        sample(rng.dirichlet((1, 2, 3), (2, 4)), rng.uniform(0.5, 3, (2, 3))),
        sample(rng.dirichlet((1, 2, 3), (2,)), rng.uniform(0.5, 3, (2, 3)), is_log=True),
    ],
    rtol=1e-4,
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones((2, 2), "float32"), match="(N..., K)")],
    doc="""Compute the density of a Dirichlet distribution.

Parameters
----------
sample : NDArray
    (N..., M..., K), summing to 1 along the last axis.
alpha : NDArray
    (N..., K), concentrations.
is_log : bool
    Give the logarithm.

Returns
-------
NDArray
    (N..., M...), or ``(1,)``.

Examples
--------
>>> import mxcore as mx
>>> mx.nd.random_pdf_dirichlet(mx.nd.array([0.25, 0.75]), mx.nd.array([1, 1])).asnumpy().round(4).tolist()
[1.0]
""",
)
