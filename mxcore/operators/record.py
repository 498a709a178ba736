"""The operator record: an operator is declared once, and everything else follows from the declaration.

From a record come the ``nd`` function with its real signature, symbol-file parsing, the gradient to any order,
the reference test, the gradient check, backend conformance and the documentation page. Kernels are apart
(:mod:`mxcore.oplib`): a record says *what* an operator is, a kernel *how* one array library computes it.

Gradient rules are programs in operators. A rule receives ``F``, a namespace of operators, and values that
support infix arithmetic. Dispatch runs the same rule with three meanings: on raw arrays (ordinary backward), on
recorded NDArrays (derivatives of derivatives), and on symbols (graphs). A rule must therefore use ``F`` and infix
arithmetic only, and never ask for values (no ``if`` on array contents); shapes may be read where ``F`` is not symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..spec.errors import ParameterError
from .attributes import REQUIRED, Attribute


class Spec(NamedTuple):
    """Shape and dtype of one array."""

    shape: tuple[int, ...]
    dtype: np.dtype


class _Marker:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


#: "This operator has no gradient": reaching it in backward is an error that says so.
NO_GRADIENT: Any = _Marker("NO_GRADIENT")
#: "The gradient of this operator is zero everywhere" (comparisons, rounding, argmax).
ZERO_GRADIENT: Any = _Marker("ZERO_GRADIENT")

#: ``rule(F, g, y, *inputs, **attributes) -> gradient of one input``; ``y`` is the first output.
InputRule = Callable[..., Any]


class Joint(NamedTuple):
    """One rule for all inputs: ``fn(F, grads, inputs, outputs, attributes, needs) -> sequence``.

    ``grads`` has one entry per output (None where nothing arrived), ``needs`` one bool per input; the result has
    one entry per input, None where there is no gradient.

    Attributes
    ----------
    separate : bool
        The gradient of one input costs nothing that another one needs too: an engine may ask for them one by one.
    """

    fn: Callable[..., Any]
    separate: bool = False


class Broadcasting(NamedTuple):
    """Rules of a broadcasting operator of two arrays, ``rule(F, g, y, a, b)``.

    Their results still have the shape of the output; whoever runs them sums them to the shape of the input.
    """

    left: InputRule
    right: InputRule


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor input: its name, and whether it may be left out (``bias?``) or repeats (``*data``)."""

    name: str
    optional: bool = False
    variadic: bool = False


def parse_inputs(text: str) -> tuple[Input, ...]:
    """Read the short form: ``"data weight bias?"`` or ``"*data"``.

    Examples
    --------
    >>> [i.name for i in parse_inputs("data weight bias?")], parse_inputs("*data")[0].variadic
    (['data', 'weight', 'bias'], True)
    """
    return tuple(Input(t.strip("*?"), optional=t.endswith("?"), variadic=t.startswith("*")) for t in text.split())


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs and attributes the operator must work on.

    Attributes
    ----------
    inputs : tuple of numpy.ndarray
        Float inputs in float64 (tests cast them); None for an optional input left out.
    attributes : dict
    check_gradient : bool
        False where finite differences make no sense (ties, kinks, integer inputs).
    """

    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    check_gradient: bool = True


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """A call that must fail, and words its message must hold."""

    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    match: str = ""


def sample(*inputs: Any, check_gradient: bool = True, **attributes: Any) -> Sample:
    """Short form of :class:`Sample`."""
    return Sample(inputs, attributes, check_gradient)


def error(*inputs: Any, match: str, **attributes: Any) -> ErrorSample:
    """Short form of :class:`ErrorSample`."""
    return ErrorSample(inputs, attributes, match)


@dataclass(frozen=True, eq=False)
class Operator:
    """Everything mxcore knows about an operator, kernels apart.

    Attributes
    ----------
    name : str
        The canonical name, MXNet's where MXNet has the operator.
    inputs : tuple of Input
    attributes : mapping of str to Attribute
        In signature order, after the inputs.
    infer : callable or None
        ``infer(attributes, *specs) -> Spec or tuple of Spec``, one per output, hidden ones included; raises
        :class:`~mxcore.spec.errors.ShapeError` or :class:`~mxcore.spec.errors.DTypeError` saying what was wanted.
        A left-out optional input is None. ``infer=None``: the shape depends on values.
    gradient : tuple of InputRule or None, Broadcasting, Joint, ZERO_GRADIENT or NO_GRADIENT
        One rule per input (None: that input has no gradient).
    outputs, visible : int or callable
        How many arrays the kernel returns, and how many of them the user gets (``callable(attributes)``).
    mutates : tuple of int, or callable
        Positions of inputs that the kernel writes (moving averages, optimizer states);
        ``callable(attributes, number of inputs)`` for operators of any number of arrays.
    same_dtype : bool
        All inputs must have one dtype.
    random : bool
        The kernel takes ``rng``, a ``numpy.random.Generator`` that dispatch derives from seed and call count.
    training : bool
        The kernel takes ``training``, True under ``autograd.record(train_mode=True)``.
    creates : bool
        No tensor inputs: the operator takes ``ctx`` and makes an array there.
    saves : str or None
        Names of the values that the gradient rule reads by value, ``"output"`` for the output: changing one of
        them before backward is an error. None: all inputs and the outputs.
    composed : callable or None
        ``composed(F, *inputs, **attributes)``: the same operator in terms of others. Run in place of the kernel
        while gradients of gradients are recorded, for fused operators without a rule of their own.
    reference : callable or None
        ``reference(*float64 arrays, **attributes)``: an independent formula in NumPy or SciPy.
    samples, errors : callable returning an iterable
        ``samples(rng)`` and ``errors()``.
    rtol, atol : float
        Tolerances of float32 kernels against ``reference``.
    doc : str
    """

    name: str
    inputs: tuple[Input, ...]
    attributes: Mapping[str, Attribute]
    infer: Callable[..., Any] | None
    gradient: Any
    doc: str
    aliases: tuple[str, ...] = ()
    outputs: int | Callable[[Mapping[str, Any]], int] = 1
    visible: int | Callable[[Mapping[str, Any]], int] | None = None
    mutates: tuple[int, ...] | Callable[[Mapping[str, Any], int], tuple[int, ...]] = ()
    same_dtype: bool = True
    random: bool = False
    training: bool = False
    creates: bool = False
    saves: str | None = None
    composed: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    samples: Callable[[np.random.Generator], Iterable[Sample]] | None = None
    errors: Callable[[], Iterable[ErrorSample]] | None = None
    rtol: float = 1e-5
    atol: float = 1e-6

    @property
    def variadic(self) -> bool:
        """Whether the operator takes any number of tensors."""
        return bool(self.inputs) and self.inputs[0].variadic

    def parse(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all attributes, typed, with defaults filled in.

        Raises
        ------
        ParameterError
            For an unknown, missing or invalid attribute.
        """
        unknown = [k for k in given if k not in self.attributes]
        if unknown:
            raise ParameterError(
                f"operator '{self.name}' has no attribute '{unknown[0]}'; it takes "
                + (", ".join(self.attributes) or "none")
                + ".",
                operator=self.name,
                attribute=unknown[0],
            )
        parsed = {}
        for name, attribute in self.attributes.items():
            if name in given:
                parsed[name] = attribute.parse(given[name], self.name, name)
            elif attribute.default is REQUIRED:
                raise ParameterError(
                    f"operator '{self.name}' needs attribute '{name}', which takes {attribute.accepted()}.",
                    operator=self.name,
                    attribute=name,
                )
            else:
                parsed[name] = attribute.default
        return parsed

    def written(self, attributes: Mapping[str, Any], inputs: int) -> tuple[int, ...]:
        """Positions of the inputs that a call with this many inputs writes."""
        mutates = self.mutates
        return mutates(attributes, inputs) if callable(mutates) else mutates

    def count(self, which: Any, attributes: Mapping[str, Any]) -> int:
        """Resolve ``outputs`` or ``visible`` for given attributes."""
        return which(attributes) if callable(which) else which

    def __repr__(self) -> str:
        return f"<Operator {self.name}>"
