"""Initializers: rules that fill parameters with their first values.

An initializer is called with a description (:class:`InitDesc`: the parameter's name and attributes) and the array to
fill, in place. What is filled how follows the end of the name (``weight``, ``bias``, ``gamma``, ``beta``, ...), unless
the description's attribute ``__init__`` names another initializer. :meth:`Initializer.dumps` is the text form that
symbol files and ``create`` share.
"""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import ndarray as nd
from . import random
from ._class_registry import get_alias_func, get_create_func, get_register_func

__all__ = [
    "InitDesc",
    "Initializer",
    "register",
    "alias",
    "create",
    "Zero",
    "One",
    "Constant",
    "Uniform",
    "Normal",
    "Orthogonal",
    "Xavier",
    "MSRAPrelu",
    "Bilinear",
    "LSTMBias",
    "FusedRNN",
    "Load",
    "Mixed",
]


class InitDesc(str):
    """A parameter's name with what else decides how it is initialized.

    Parameters
    ----------
    name : str
        Name of the parameter.
    attrs : dict of str to str, optional
        Attributes of the parameter; ``__init__`` holds the dump of its own initializer.
    global_init : Initializer, optional
        What to fall back to.

    Examples
    --------
    >>> desc = InitDesc("dense0_weight", {"__lr_mult__": "0.1"})
    >>> desc, desc.attrs
    ('dense0_weight', {'__lr_mult__': '0.1'})
    """

    attrs: dict[str, str]
    global_init: Any

    def __new__(cls, name: str, attrs: dict[str, str] | None = None, global_init: Any = None) -> InitDesc:
        desc = super().__new__(cls, name)
        desc.attrs = attrs or {}
        desc.global_init = global_init
        return desc


# End of the name -> (method, what the verbose log calls it). First match counts.
_BY_SUFFIX = (
    ("weight", "_init_weight"),
    ("bias", "_init_bias"),
    ("gamma", "_init_gamma"),
    ("beta", "_init_beta"),
    ("min", "_init_zero"),
    ("max", "_init_one"),
    ("weight_quantize", "_init_quantized_weight"),
    ("bias_quantize", "_init_quantized_bias"),
)

# The older call with a plain string knows the running statistics too.
_BY_SUFFIX_LEGACY = (
    ("bias", "_init_bias"),
    ("gamma", "_init_gamma"),
    ("beta", "_init_beta"),
    ("weight", "_init_weight"),
    ("moving_mean", "_init_zero"),
    ("moving_var", "_init_one"),
    ("moving_inv_var", "_init_zero"),
    ("moving_avg", "_init_zero"),
    ("min", "_init_zero"),
    ("max", "_init_one"),
)


def _rms_text(array: Any) -> str:
    return str((nd.norm(array) / math.sqrt(array.size)).asscalar())


class Initializer:
    """Base of the initializers; a subclass gives ``_init_weight(name, array)``.

    Parameters
    ----------
    **kwargs
        The arguments that re-create the initializer; :meth:`dumps` writes them.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self._verbose = False
        self._print_func: Callable[[Any], str] | None = None

    def set_verbosity(self, verbose: bool = False, print_func: Callable[[Any], str] | None = None) -> Initializer:
        """Log each filled array at level INFO, with a statistic of it.

        Parameters
        ----------
        verbose : bool
            On or off.
        print_func : callable, optional
            From the array to a string; the root mean square by default.

        Returns
        -------
        Initializer
            Itself.
        """
        self._verbose = verbose
        self._print_func = _rms_text if print_func is None else print_func
        return self

    def _verbose_print(self, desc: str, init: str, arr: Any) -> None:
        if self._verbose and self._print_func:
            logging.info("Initialized %s as %s: %s", desc, init, self._print_func(arr))

    def dumps(self) -> str:
        """Return the initializer as a JSON string that :func:`create` understands.

        Examples
        --------
        >>> Normal(0.5).dumps()
        '["normal", {"sigma": 0.5}]'
        """
        return json.dumps([self.__class__.__name__.lower(), self._kwargs])

    def __call__(self, desc: str, arr: Any) -> None:
        """Fill `arr` in place, as the description says.

        Parameters
        ----------
        desc : InitDesc
            Name and attributes. A plain string works too, with a ``DeprecationWarning`` as in MXNet.
        arr : NDArray
            The array to fill.

        Raises
        ------
        ValueError
            If the end of the name does not say what to do.
        """
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        own = desc.attrs.get("__init__", "")
        if own:
            create(own)._init_weight(desc, arr)
            self._verbose_print(desc, own, arr)
            return
        for suffix, method in _BY_SUFFIX:
            if desc.endswith(suffix):
                getattr(self, method)(desc, arr)
                if self._verbose:
                    self._verbose_print(desc, suffix, arr)
                return
        self._init_default(desc, arr)

    def _legacy_init(self, name: str, arr: Any) -> None:
        warnings.warn(
            "Calling an initializer with init(str, NDArray) is deprecated; use init(mx.init.InitDesc(...), NDArray).",
            DeprecationWarning,
            stacklevel=3,
        )
        if not isinstance(name, str):
            raise TypeError(f"name must be string, not {type(name).__name__}.")
        if not isinstance(arr, nd.NDArray):
            raise TypeError(f"arr must be NDArray, not {type(arr).__name__}.")
        if name.startswith("upsampling"):
            self._init_bilinear(name, arr)
            return
        if name.startswith("stn_loc") and name.endswith(("weight", "bias")):
            (self._init_zero if name.endswith("weight") else self._init_loc_bias)(name, arr)
            return
        for suffix, method in _BY_SUFFIX_LEGACY:
            if name.endswith(suffix):
                getattr(self, method)(name, arr)
                return
        self._init_default(name, arr)

    def _init_bilinear(self, _: str, arr: Any) -> None:
        arr[:] = _bilinear_kernel(arr.shape)

    def _init_loc_bias(self, _: str, arr: Any) -> None:
        if arr.shape[0] != 6:
            raise AssertionError(f"The bias of an affine localisation net has 6 elements, not {arr.shape[0]}.")
        arr[:] = np.array([1.0, 0, 0, 0, 1.0, 0])

    def _init_zero(self, _: str, arr: Any) -> None:
        arr[:] = 0.0

    def _init_one(self, _: str, arr: Any) -> None:
        arr[:] = 1.0

    def _init_bias(self, _: str, arr: Any) -> None:
        arr[:] = 0.0

    def _init_quantized_bias(self, _: str, arr: Any) -> None:
        arr[:] = 0

    def _init_gamma(self, _: str, arr: Any) -> None:
        arr[:] = 1.0

    def _init_beta(self, _: str, arr: Any) -> None:
        arr[:] = 0.0

    def _init_weight(self, name: str, arr: Any) -> None:
        raise NotImplementedError("Must override it")

    def _init_quantized_weight(self, _: str, arr: Any) -> None:
        arr[:] = random.randint(-127, 127, shape=arr.shape, dtype="int32").asnumpy().astype(np.int8)

    def _init_default(self, name: str, _: Any) -> None:
        raise ValueError(
            f"Unknown initialization pattern for {name}: names end in weight, bias, gamma or beta by convention. "
            f"Give this parameter its own rule with mx.sym.Variable(init=mx.init.*) or Parameter(init=...)."
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs


_register = get_register_func(Initializer, "initializer")
alias = get_alias_func(Initializer, "initializer")
create = get_create_func(Initializer, "initializer")


def register(klass: type) -> type:
    """Class decorator: make a subclass of :class:`Initializer` known by its lower-case name.

    Examples
    --------
    >>> @register
    ... class Tenth(Initializer):
    ...     def _init_weight(self, _, arr):
    ...         arr[:] = 0.1
    >>> create("tenth").dumps()
    '["tenth", {}]'
    """
    return _register(klass)


class Load:
    """Fill parameters from saved ones.

    Parameters
    ----------
    param : str or dict of str to NDArray
        A parameter file or what it holds; the prefixes ``arg:`` and ``aux:`` are dropped.
    default_init : Initializer, optional
        For names that `param` lacks.
    verbose : bool
        Log where each value came from.
    """

    def __init__(
        self, param: str | dict[str, Any], default_init: Callable[..., Any] | None = None, verbose: bool = False
    ) -> None:
        if isinstance(param, str):
            param = nd.load(param)
        if not isinstance(param, dict):
            raise AssertionError(f"Load needs named parameters (a dict), got {type(param).__name__}.")
        self.param = {name[4:] if name.startswith(("arg:", "aux:")) else name: arr for name, arr in param.items()}
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name: str, arr: Any) -> None:
        saved = self.param.get(name)
        if saved is not None:
            if arr.shape != saved.shape:
                raise AssertionError(
                    f"Parameter {name} cannot be initialized from loading. "
                    f"Shape mismatch, target {arr.shape} vs loaded {saved.shape}."
                )
            arr[:] = saved
            source = "loading"
        else:
            if self.default_init is None:
                raise AssertionError(
                    f"Cannot Initialize {name}. Not found in loaded param and no default Initializer is provided."
                )
            self.default_init(name, arr)
            source = "default"
        if self.verbose:
            logging.info("Initialized %s by %s", name, source)


class Mixed:
    """Choose the initializer by regular expressions on the name; the first that matches from its start counts.

    Parameters
    ----------
    patterns : list of str
        Regular expressions.
    initializers : list of Initializer
        One for each pattern.

    Examples
    --------
    >>> import mxcore as mx
    >>> init = Mixed(["bias", ".*"], [Zero(), Constant(2.0)])
    >>> array = mx.nd.ones((2,))
    >>> init(InitDesc("fc_weight"), array)
    >>> array.asnumpy().tolist()
    [2.0, 2.0]
    """

    def __init__(self, patterns: Sequence[str], initializers: Sequence[Callable[..., Any]]) -> None:
        if len(patterns) != len(initializers):
            raise AssertionError(f"Mixed got {len(patterns)} patterns for {len(initializers)} initializers.")
        self.map = [(re.compile(pattern), init) for pattern, init in zip(patterns, initializers)]

    def __call__(self, name: str, arr: Any) -> None:
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            f'Parameter name {name} did not match any pattern. Consider adding a ".*" pattern at the end '
            f"with a default Initializer."
        )


@register
@alias("zeros")
class Zero(Initializer):
    """All zeros."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, _: str, arr: Any) -> None:
        arr[:] = 0


@register
@alias("ones")
class One(Initializer):
    """All ones."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, _: str, arr: Any) -> None:
        arr[:] = 1


@register
class Constant(Initializer):
    """A given value.

    Parameters
    ----------
    value : float, NDArray, numpy.ndarray or list
        One number, or an array that broadcasts to the parameter's shape.
    """

    def __init__(self, value: Any) -> None:
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, _: str, arr: Any) -> None:
        arr[:] = np.asarray(self.value) if isinstance(self.value, list) else self.value

    def dumps(self) -> str:
        value = self._kwargs["value"]
        if not np.isscalar(value) and not isinstance(value, list):
            self._kwargs["value"] = (value if isinstance(value, np.ndarray) else value.asnumpy()).tolist()
        return super().dumps()


@register
class Uniform(Initializer):
    """Uniform in ``[-scale, scale)``.

    Parameters
    ----------
    scale : float
        Bound of the values.
    """

    def __init__(self, scale: float = 0.07) -> None:
        super().__init__(scale=scale)
        self.scale = scale

    def _init_weight(self, _: str, arr: Any) -> None:
        random.uniform(-self.scale, self.scale, shape=arr.shape, out=arr)


@register
class Normal(Initializer):
    """Normal with mean 0.

    Parameters
    ----------
    sigma : float
        Standard deviation.
    """

    def __init__(self, sigma: float = 0.01) -> None:
        super().__init__(sigma=sigma)
        self.sigma = sigma

    def _init_weight(self, _: str, arr: Any) -> None:
        random.normal(0, self.sigma, shape=arr.shape, out=arr)


@register
class Orthogonal(Initializer):
    """A random orthogonal matrix, scaled (https://arxiv.org/abs/1312.6120).

    The array counts as a matrix ``(shape[0], product of the rest)``.

    Parameters
    ----------
    scale : float
        Factor on the matrix.
    rand_type : {'uniform', 'normal'}
        Distribution of the matrix that is made orthogonal.
    """

    def __init__(self, scale: float = 1.414, rand_type: str = "uniform") -> None:
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type

    def _init_weight(self, name: str, arr: Any) -> None:
        shape = (arr.shape[0], math.prod(arr.shape[1:]))
        if self.rand_type == "uniform":
            sample = random.uniform(-1.0, 1.0, shape=shape).asnumpy()
        elif self.rand_type == "normal":
            sample = random.normal(0.0, 1.0, shape=shape).asnumpy()
        else:
            raise ValueError(f"Orthogonal: rand_type is 'uniform' or 'normal', not {self.rand_type!r} (for {name}).")
        u, _, v = np.linalg.svd(sample, full_matrices=False)
        basis = u if u.shape == sample.shape else v
        arr[:] = self.scale * basis.reshape(arr.shape)


@register
class Xavier(Initializer):
    """Keep the scale of signals alike across layers (Glorot and Bengio).

    The variance is ``magnitude / factor``, with the fan-in ``shape[1] * prod(shape[2:])`` and the fan-out
    ``shape[0] * prod(shape[2:])``.

    Parameters
    ----------
    rnd_type : {'uniform', 'gaussian'}
        Uniform in ``[-c, c)`` or normal with deviation ``c``, ``c = sqrt(magnitude / factor)``.
    factor_type : {'avg', 'in', 'out'}
        Which fan is the factor.
    magnitude : float
        See above.

    Raises
    ------
    ValueError
        For arrays of less than two axes and for unknown types.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        super().__init__(rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: str, arr: Any) -> None:
        shape = arr.shape
        if len(shape) < 2:
            raise ValueError(
                f"Xavier initializer cannot be applied to vector {name} of shape {shape}. It requires at least 2D."
            )
        receptive = math.prod(shape[2:])
        fan_in, fan_out = shape[1] * receptive, shape[0] * receptive
        if self.factor_type == "avg":
            factor = (fan_in + fan_out) / 2.0
        elif self.factor_type == "in":
            factor = fan_in
        elif self.factor_type == "out":
            factor = fan_out
        else:
            raise ValueError(f"Incorrect factor type {self.factor_type!r}: use 'avg', 'in' or 'out'.")
        scale = math.sqrt(self.magnitude / factor)
        if self.rnd_type == "uniform":
            random.uniform(-scale, scale, shape=shape, out=arr)
        elif self.rnd_type == "gaussian":
            random.normal(0, scale, shape=shape, out=arr)
        else:
            raise ValueError(f"Unknown random type {self.rnd_type!r}: use 'uniform' or 'gaussian'.")


@register
class MSRAPrelu(Xavier):
    """Gaussian weights for layers followed by (P)ReLU (https://arxiv.org/abs/1502.01852).

    Parameters
    ----------
    factor_type : {'avg', 'in', 'out'}
        As for :class:`Xavier`.
    slope : float
        First slope of the PReLU on the negative side; the variance is ``2 / (1 + slope**2) / factor``.
    """

    def __init__(self, factor_type: str = "avg", slope: float = 0.25) -> None:
        super().__init__("gaussian", factor_type, 2.0 / (1 + slope**2))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


def _bilinear_kernel(shape: tuple[int, ...]) -> np.ndarray:
    """Return the upsampling kernel of `shape` ``(N, C, H, W)``; every channel holds the same triangle."""
    height, width = shape[2], shape[3]
    half = math.ceil(width / 2.0)
    centre = (2 * half - 1 - half % 2) / (2.0 * half)
    rows = 1 - np.abs(np.arange(height) / half - centre)
    columns = 1 - np.abs(np.arange(width) / half - centre)
    return np.broadcast_to(np.outer(rows, columns), shape).astype(np.float32)


@register
class Bilinear(Initializer):
    """The kernel with which a transposed convolution interpolates linearly, for arrays ``(N, C, H, W)``."""

    def __init__(self) -> None:
        super().__init__()

    def _init_weight(self, _: str, arr: Any) -> None:
        arr[:] = _bilinear_kernel(arr.shape)


@register
class LSTMBias(Initializer):
    """Zeros, but `forget_bias` for the forget gate, the second quarter.

    Parameters
    ----------
    forget_bias : float
        First bias of the forget gate.
    """

    def __init__(self, forget_bias: float = 1.0) -> None:
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias

    def _init_weight(self, _: str, arr: Any) -> None:
        arr[:] = 0.0
        num_hidden = int(arr.shape[0] / 4)
        arr[num_hidden : 2 * num_hidden] = self.forget_bias


# Gates of a fused recurrent layer, in the order of its packed parameters.
_GATES: Mapping[str, tuple[str, ...]] = {
    "rnn_relu": ("",),
    "rnn_tanh": ("",),
    "lstm": ("_i", "_f", "_c", "_o"),
    "gru": ("_r", "_z", "_o"),
}


@register
class FusedRNN(Initializer):
    """Fill the packed parameter vector of a fused recurrent layer, gate by gate.

    The vector holds, layer by layer and direction by direction, all input-to-hidden and hidden-to-hidden weights, and
    after all weights the biases in the same order.

    Parameters
    ----------
    init : Initializer or str or None
        For the unpacked weights and biases; the global initializer if None.
    num_hidden, num_layers : int
        Size of the layer.
    mode : {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'}
        Kind of cell.
    bidirectional : bool
        Whether a layer has two directions.
    forget_bias : float
        Value of the forget gates' biases of an LSTM.
    """

    def __init__(
        self,
        init: Initializer | str | None,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ) -> None:
        if isinstance(init, str):
            init = create(init)
        super().__init__(
            init=init.dumps() if isinstance(init, Initializer) else None,
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        if mode not in _GATES:
            raise ValueError(f"FusedRNN: unknown mode {mode!r}; use one of {', '.join(_GATES)}.")
        self._init = init
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._forget_bias = forget_bias

    def _pieces(self, size: int) -> list[tuple[str, tuple[int, ...]]]:
        """Return names and shapes of the gates' parameters in their packed order."""
        gates, hidden = _GATES[self._mode], self._num_hidden
        directions = "lr" if self._bidirectional else "l"
        # size = everything but the first layer's input weights + their input width times the rows
        rows = len(gates) * hidden * len(directions)
        inner = (self._num_layers - 1) * (hidden * len(directions) + hidden + 2) + hidden + 2
        input_size = size // rows - inner
        pieces: list[tuple[str, tuple[int, ...]]] = []
        for layer in range(self._num_layers):
            width = input_size if layer == 0 else hidden * len(directions)
            for direction in directions:
                for group, columns in (("i2h", width), ("h2h", hidden)):
                    pieces += [(f"{direction}{layer}_{group}{gate}_weight", (hidden, columns)) for gate in gates]
        for layer in range(self._num_layers):
            for direction in directions:
                for group in ("i2h", "h2h"):
                    pieces += [(f"{direction}{layer}_{group}{gate}_bias", (hidden,)) for gate in gates]
        total = sum(math.prod(shape) for _, shape in pieces)
        if total != size:
            raise ValueError(
                f"FusedRNN: a {self._mode} of {self._num_layers} layers of {hidden} units cannot have {size} "
                f"parameters."
            )
        return pieces

    def _init_weight(self, desc: str, arr: Any) -> None:
        fallback: Any = self._init if self._init is not None else getattr(desc, "global_init", None)
        packed = np.empty(arr.size, dtype=np.float32)
        offset = 0
        for name, shape in self._pieces(arr.size):
            piece = nd.zeros(shape)
            if self._mode == "lstm" and name.endswith("_f_bias"):
                piece[:] = self._forget_bias
            else:
                if fallback is None:
                    raise ValueError(f"FusedRNN: neither an own nor a global initializer is given for {desc}.")
                fallback(InitDesc(name, global_init=getattr(desc, "global_init", None)), piece)
            packed[offset : offset + piece.size] = piece.asnumpy().ravel()
            offset += piece.size
        arr[:] = packed.reshape(arr.shape)
