"""How a block learns the shapes of its own parameters from its first input.

A block with parameters of unknown shape is run once with :class:`UnknownArray` in their place and with
:class:`InferringNamespace` as ``F``. The first operator that takes an unknown array together with known ones tells
its shape (:data:`SHAPE_RULES`); the array is made then and there, and the operator runs as usual. So the first
forward pass is an ordinary one: computed once, recorded, random numbers drawn once.

Limits: only operators in :data:`SHAPE_RULES` can tell a shape, so an unknown array must reach one of them directly,
not reshaped or otherwise computed with before. ``dot`` and broadcasting do not determine a shape, as in MXNet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from types import ModuleType
from typing import Any

from .. import ndarray
from ..spec.errors import ShapeError

Shape = tuple[int, ...]


# -- what an operator's inputs must look like, given its data ------------------------------------------------


def fully_connected(data: Shape, num_hidden: int, flatten: bool = True, **_: Any) -> dict[str, Shape]:
    """Weight ``(num_hidden, in_units)`` and bias ``(num_hidden,)``."""
    in_units = prod(data[1:]) if flatten else data[-1]
    return {"weight": (num_hidden, in_units), "bias": (num_hidden,)}


def _spatial(layout: str | None, ndim: int) -> tuple[int, bool]:
    """Where the channel axis of data is, and whether channels come last."""
    last = layout is not None and layout.endswith("C")
    return (ndim - 1 if last else 1), last


def convolution(
    data: Shape, kernel: Sequence[int], num_filter: int, num_group: int = 1, layout: str | None = None, **_: Any
) -> dict[str, Shape]:
    """Weight ``(num_filter, C / num_group, *kernel)``, channels last if the layout says so; bias ``(num_filter,)``."""
    axis, last = _spatial(layout, len(data))
    channels = data[axis] // num_group
    weight = (num_filter, *kernel, channels) if last else (num_filter, channels, *kernel)
    return {"weight": weight, "bias": (num_filter,)}


def deconvolution(
    data: Shape, kernel: Sequence[int], num_filter: int, num_group: int = 1, layout: str | None = None, **_: Any
) -> dict[str, Shape]:
    """Weight ``(C, num_filter / num_group, *kernel)``, channels last if the layout says so; bias ``(num_filter,)``."""
    axis, last = _spatial(layout, len(data))
    filters = num_filter // num_group
    weight = (data[axis], *kernel, filters) if last else (data[axis], filters, *kernel)
    return {"weight": weight, "bias": (num_filter,)}


def _batch_norm(data: Shape, axis: int = 1, **_: Any) -> dict[str, Shape]:
    return dict.fromkeys(("gamma", "beta", "moving_mean", "moving_var"), (data[axis],))


def _layer_norm(data: Shape, axis: int = -1, **_: Any) -> dict[str, Shape]:
    return dict.fromkeys(("gamma", "beta"), (data[axis],))


def _instance_norm(data: Shape, **_: Any) -> dict[str, Shape]:
    return dict.fromkeys(("gamma", "beta"), (data[1],))


def _group_norm(data: Shape, num_groups: int = 1, **_: Any) -> dict[str, Shape]:
    return dict.fromkeys(("gamma", "beta"), (num_groups,))


def _embedding(data: Shape, input_dim: int, output_dim: int, **_: Any) -> dict[str, Shape]:
    return {"weight": (input_dim, output_dim)}


def _leaky_relu(data: Shape, **_: Any) -> dict[str, Shape]:
    return {"gamma": (data[1],) if len(data) > 1 else (1,)}


def _same_shape(known: Shape) -> dict[str, Shape]:
    return {"lhs": known, "rhs": known}


_BATCH_NORM_INPUTS = ("data", "gamma", "beta", "moving_mean", "moving_var")

#: Operator -> (names of its array inputs, rule). A rule takes the shape of ``data`` and the operator's attributes.
SHAPE_RULES: dict[str, tuple[tuple[str, ...], Callable[..., dict[str, Shape]]]] = {
    "FullyConnected": (("data", "weight", "bias"), fully_connected),
    "Convolution": (("data", "weight", "bias"), convolution),
    "Deconvolution": (("data", "weight", "bias"), deconvolution),
    "BatchNorm": (_BATCH_NORM_INPUTS, _batch_norm),
    "BatchNormWithReLU": (_BATCH_NORM_INPUTS, _batch_norm),
    "SyncBatchNorm": (_BATCH_NORM_INPUTS, _batch_norm),
    "LayerNorm": (("data", "gamma", "beta"), _layer_norm),
    "InstanceNorm": (("data", "gamma", "beta"), _instance_norm),
    "GroupNorm": (("data", "gamma", "beta"), _group_norm),
    "Embedding": (("data", "weight"), _embedding),
    "LeakyReLU": (("data", "gamma"), _leaky_relu),
}
#: Operators of two arrays of one shape: either tells the other's.
ELEMENTWISE = frozenset(("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "add", "subtract", "multiply"))


# -- what stands for an array whose shape is not known ---------------------------------------------------------


class UnknownArray(ndarray.NDArray):
    """Stands for a parameter's array until an operator tells its shape; afterwards behaves like that array.

    It is an NDArray only so that Python asks it first when it stands on the right of ``x * unknown``.

    Parameters
    ----------
    parameter : Parameter
        Whose array it is.
    make : callable
        ``make(parameter)`` returns the array once ``parameter.shape`` is known.
    """

    __slots__ = ("array", "make", "parameter")

    def __init__(self, parameter: Any, make: Callable[[Any], Any]) -> None:
        self.parameter = parameter
        self.make = make
        self.array: Any = None

    def resolve(self, shape: Shape) -> Any:
        """Fill in the shape and return the array."""
        if self.array is None:
            self.parameter.shape = shape
            self.array = self.make(self.parameter)
        return self.array

    def _like(self, other: Any) -> Any:
        if self.array is None:
            if not _is_known_array(other):
                raise _cannot_infer(self.parameter, f"an operation with {type(other).__name__}")
            self.resolve(other.shape)
        return self.array

    # Arithmetic between symbols means equal shapes in MXNet, so an array tells the shape of its partner.
    def __add__(self, other: Any) -> Any:
        return self._like(other) + other

    def __radd__(self, other: Any) -> Any:
        return other + self._like(other)

    def __sub__(self, other: Any) -> Any:
        return self._like(other) - other

    def __rsub__(self, other: Any) -> Any:
        return other - self._like(other)

    def __mul__(self, other: Any) -> Any:
        return self._like(other) * other

    def __rmul__(self, other: Any) -> Any:
        return other * self._like(other)

    def __truediv__(self, other: Any) -> Any:
        return self._like(other) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self._like(other)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN_NAMES or name.startswith("__"):
            return object.__getattribute__(self, name)
        if self.array is None:
            raise _cannot_infer(self.parameter, f"its attribute '{name}'")
        return getattr(self.array, name)


_OWN_NAMES = frozenset((*UnknownArray.__slots__, "resolve", "_like"))


def _is_known_array(value: Any) -> bool:
    return isinstance(value, ndarray.NDArray) and not isinstance(value, UnknownArray)


def _cannot_infer(parameter: Any, used_by: str) -> ShapeError:
    return ShapeError(
        f"Deferred initialization failed: the shape {parameter.shape} of Parameter '{parameter.name}' is not fully "
        f"known and cannot be inferred from {used_by}. Pass the parameter straight to an operator that determines its "
        f"shape ({', '.join(SHAPE_RULES)}), or declare the whole shape.",
        parameter=parameter.name,
    )


class InferringNamespace:
    """``F`` for the first forward pass: the operators of ``namespace``, which resolve unknown arrays they are given."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._namespace, name)
        if isinstance(target, ModuleType):
            return InferringNamespace(target)
        if not callable(target) or isinstance(target, type):
            return target

        def operator(*args: Any, **kwargs: Any) -> Any:
            known_args, known_kwargs = _resolve_inputs(name, args, kwargs)
            return target(*known_args, **known_kwargs)

        operator.__name__ = name
        return operator


def _known(value: Any) -> Any:
    """The array behind an unknown array that has been resolved; anything else as it is."""
    if isinstance(value, UnknownArray) and value.array is not None:
        return value.array
    if isinstance(value, (list, tuple)) and any(isinstance(item, UnknownArray) for item in value):
        return type(value)(_known(item) for item in value)
    return value


def _find_unknown(value: Any) -> UnknownArray | None:
    if isinstance(value, UnknownArray):
        return value
    if isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, UnknownArray):
                return item
    return None


def _resolve_inputs(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Replace unknown arrays among an operator's arguments by real ones."""
    args_list = [_known(value) for value in args]
    kwargs = {key: _known(value) for key, value in kwargs.items()}
    unknown = next((u for u in map(_find_unknown, (*args_list, *kwargs.values())) if u is not None), None)
    if unknown is None:
        return args_list, kwargs
    if name in ELEMENTWISE:
        names: tuple[str, ...] = ("lhs", "rhs")
    elif name in SHAPE_RULES:
        names, rule = SHAPE_RULES[name]
    else:
        raise _cannot_infer(unknown.parameter, f"operator {name}")
    inputs = {**dict(zip(names, args_list)), **{key: kwargs[key] for key in names if key in kwargs}}
    if name in ELEMENTWISE:
        known = [value for value in inputs.values() if _is_known_array(value)]
        if not known:
            raise _cannot_infer(unknown.parameter, f"operator {name}, whose inputs are all unknown")
        shapes = _same_shape(known[0].shape)
    else:
        data: Any = inputs.get("data")
        if not _is_known_array(data):
            raise _cannot_infer(unknown.parameter, f"operator {name}, whose data is unknown too")
        shapes = rule(data.shape, **{key: value for key, value in kwargs.items() if key not in names})
    for index, key in enumerate(names):
        value = inputs.get(key)
        if isinstance(value, UnknownArray):
            if key not in shapes:
                raise _cannot_infer(value.parameter, f"operator {name}, as its input '{key}'")
            array = value.resolve(shapes[key])
            if index < len(args_list):
                args_list[index] = array
            else:
                kwargs[key] = array
    return args_list, kwargs


# -- how the current thread is running blocks ------------------------------------------------------------------


class Probe:
    """A dry run that fills in ``shape`` or ``dtype`` of parameters and leaves their values alone.

    Blocks run on throw-away zeros instead of their parameters, whether these are initialized or not, so the dry
    run costs about one forward pass.
    """

    def __init__(self) -> None:
        self.dtypes: dict[Any, Any] = {}

    def array(self, parameter: Any, ctx: Any, dtype: Any) -> Any:
        """Throw-away zeros in place of a parameter of known shape; notes the dtype."""
        dtype = self.dtypes.setdefault(parameter, dtype)
        return ndarray.zeros(parameter.shape, ctx=ctx, dtype=dtype)


class _Running(threading.local):
    """What the current thread is doing: ``None`` (plain calls), ``'hybrid'`` (inside a hybridized block) or a Probe."""

    mode: Any = None


running = _Running()
