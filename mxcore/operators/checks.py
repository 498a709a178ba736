"""Checks of shapes, dtypes and axes that the inference of several families of operators makes.

Each raises, or returns, the error that says what the operator wants and what it got.
"""

from __future__ import annotations

from typing import Any

from ..spec.errors import DTypeError, ParameterError, ShapeError
from .record import Spec


def refused(name: str, why: str, *specs: Spec) -> ShapeError:
    """Return the error of an operator that wants what ``why`` says of the shapes of ``specs``."""
    shapes = [s.shape for s in specs]
    return ShapeError(
        f"operator '{name}': {why}, but got {' and '.join(map(str, shapes))}.", operator=name, shapes=shapes
    )


def check_floats(name: str, x: Spec) -> None:
    """Raise DTypeError unless ``x`` holds floats."""
    if x.dtype.kind != "f":
        raise DTypeError(
            f"operator '{name}' works on floats but data is {x.dtype}. Cast it with astype('float32').",
            operator=name,
            dtypes=[x.dtype],
        )


def one_axis(name: str, axis: int, ndim: int, attribute: str = "axis") -> int:
    """Return ``axis`` counted from the front.

    Raises
    ------
    ShapeError
        If the array has no such axis.
    """
    if not -ndim <= axis < ndim:
        raise ShapeError(
            f"operator '{name}': {attribute}={axis} is out of range for an array of {ndim} axes; it takes "
            f"{-ndim} to {ndim - 1}.",
            operator=name,
            axis=axis,
        )
    return axis % ndim


def check_axis(name: str, axis: int, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless ``axis`` is an axis of ``shape``."""
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(
            f"operator '{name}': axis={axis} does not exist in data {shape}; it must be from {-len(shape)} to "
            f"{len(shape) - 1}.",
            operator=name,
            shapes=[shape],
        )


def check_bias(name: str, no_bias: bool, bias: Any, length: int) -> None:
    """Raise unless a bias is given exactly where ``no_bias`` is False, with one number per output.

    Raises
    ------
    ParameterError, ShapeError
    """
    if (bias is None) != no_bias:
        got = "no bias was given" if bias is None else f"a bias {bias.shape} was given"
        raise ParameterError(
            f"operator '{name}': no_bias={no_bias} but {got}. Pass bias exactly where no_bias=False.",
            operator=name,
            attribute="no_bias",
        )
    if bias is not None and bias.shape != (length,):
        raise ShapeError(
            f"operator '{name}': bias must have shape {(length,)} but has {bias.shape}.",
            operator=name,
            shapes=[bias.shape],
        )


def check_lengths(name: str, a: Any, names: tuple[str, ...], n: int) -> None:
    """Raise ShapeError unless each of the tuples named has one entry per spatial axis, or none at all."""
    for key in names:
        if a[key] and len(a[key]) != n:
            raise ShapeError(
                f"operator '{name}': {key}={a[key]} must have {n} entries, one per spatial axis.", operator=name
            )
