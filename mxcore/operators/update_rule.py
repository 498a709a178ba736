"""How the record of an optimizer's step is declared: :func:`rule`, and the parts of it that other steps share.

States are changed in place; the new weight is the result, which ``out=weight`` puts in place too. Operators whose
names start with ``mp_`` keep a float32 master copy of a weight of low precision. None has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..spec.errors import DTypeError, ShapeError
from .attributes import Bool, Float
from .documentation import documentation
from .record import NO_GRADIENT, Spec, error, sample
from .registry import operator

#: Attributes that rules share.
RESCALE = {"rescale_grad": Float(1.0), "clip_gradient": Float(-1.0)}
LAZY = {"lazy_update": Bool(True)}

#: What attributes mean, by name.
MEANING = {
    "lr": "Learning rate.",
    "wd": "Weight decay.",
    "rescale_grad": "Factor on the gradient, before anything else.",
    "clip_gradient": "Bound of each element of the gradient; none if negative.",
    "clip_grad": "Bound of each element of the gradient; none if negative.",
    "clip_weights": "Bound of each element of the weight; none if negative.",
    "lazy_update": "Concerns sparse gradients only.",
    "momentum": "Factor on the momentum.",
    "t": "Number of this update, from 1.",
    "epsilon": "Keeps the division finite.",
    "bias_correction": "Whether the averages are freed of their start at 0.",
    "eta": "Factor on the whole step.",
    "num_weights": "How many weights there are.",
    "num_tensors": "How many weights there are.",
    "lrs": "Learning rates, one for each weight.",
    "learning_rates": "Learning rates, one for each weight.",
    "wds": "Weight decays, one for each weight.",
    "etas": "Factors on the whole step, one for each weight.",
    "step_count": "Numbers of this update, one for each weight.",
    "lower_bound": "Least norm of the weight taken; none if negative.",
    "upper_bound": "Largest norm of the weight taken; none if negative.",
}


def parameters_of(inputs: str, attributes: Mapping[str, Any]) -> str:
    """Return what documentation says of a step's arrays and attributes."""
    names = ", ".join(n.strip("*?") for n in inputs.split())
    text = f"{names} : NDArray\n    Of one shape; all but the weight and the gradient are changed."
    for name, a in attributes.items():
        kind = {"Int": "int", "Bool": "bool", "Shape": "tuple of int", "Floats": "tuple of float"}
        text += f"\n{name} : {kind.get(type(a).__name__, 'float')}\n    {MEANING.get(name, 'See the formula.')}"
    return text


_NEW_WEIGHT = "The new weight; give ``out=weight`` to have it in place."


def step_doc(summary: str, inputs: str, attributes: Mapping[str, Any], example: str, returns: str = _NEW_WEIGHT) -> str:
    """Return the documentation of a step."""
    return documentation(
        summary,
        parameters_of(inputs, attributes),
        f"NDArray\n    {returns}",
        example,
        raises="ShapeError\n    If the shapes differ.",
    )


def alike(name: str, names: list[str], mixed: bool = False, free: int = 0) -> Callable[..., Spec]:
    """Inference: all inputs but the last ``free`` have one shape; with ``mixed`` all after the gradient are float32."""

    def infer(a: Any, *specs: Spec) -> Spec:
        weight = specs[0]
        for label, s in zip(names, specs[: len(specs) - free]):
            if s.shape != weight.shape:
                raise ShapeError(
                    f"operator '{name}': {label} has shape {s.shape} but weight has {weight.shape}; they must be equal.",
                    operator=name,
                    shapes=[s.shape for s in specs],
                )
        if mixed:
            check_mixed(name, names, specs)
        return weight

    return infer


def check_mixed(name: str, names: list[str], specs: Any) -> None:
    """Raise DTypeError unless weight and gradient share a dtype and all else is float32."""
    for i, (label, s) in enumerate(zip(names, specs)):
        want = specs[0].dtype if i < 2 else np.dtype(np.float32)
        if s.dtype != want:
            raise DTypeError(
                f"operator '{name}': {label} is {s.dtype} but must be {want}: weight and gradient share a dtype, the rest "
                f"is float32.",
                operator=name,
                dtypes=[s.dtype for s in specs],
            )


def clipped(x: Any, bound: float) -> Any:
    """Return ``x`` within ``bound``, as it is for a negative one."""
    return np.clip(x, -bound, bound) if bound >= 0 else x


def rule(
    name: str,
    states: str,
    attributes: Mapping[str, Any],
    formula: str,
    reference: Callable[..., Any],
    example: str,
    *,
    mixed: str | None = None,
    positive: tuple[str, ...] = (),
    settings: tuple[dict[str, Any], ...] = (),
) -> None:
    """Declare the step of one optimizer.

    Parameters
    ----------
    states : str
        Names of the states.
    reference : callable
        ``reference(weight, grad, *states, **attributes)`` returns the new weight and changes the states.
    positive : tuple of str
        States that are never negative.
    settings : tuple of dict
        Attributes of the samples.
    """
    names = ["weight", "grad", *states.split()]
    complete = {**{k: a.default for k, a in attributes.items()}}

    def full(w: Any, g: Any, *rest: Any, **given: Any) -> Any:
        return reference(w, g, *rest, **{**complete, **given})

    def draw(rng: np.random.Generator) -> list[Any]:
        return [
            np.abs(rng.standard_normal((3, 4))) + 1 if n in positive else rng.standard_normal((3, 4)) for n in names
        ]

    inputs = " ".join(names)
    operator(
        name,
        inputs,
        attributes,
        infer=alike(name, names),
        gradient=NO_GRADIENT,
        mutates=tuple(range(2, len(names))),
        reference=full,
        samples=lambda rng: [sample(*draw(rng), check_gradient=False, **kw) for kw in settings],
        errors=lambda: [
            error(
                np.ones((2, 3), "float32"),
                *(np.ones((3, 2), "float32") for _ in names[1:]),
                match="they must be equal",
                **settings[0],
            )
        ],
        doc=step_doc(formula, inputs, attributes, example),
    )
    if mixed is not None:
        _mixed(mixed, [*names, "weight32"], attributes, settings, draw, name)


def _mixed(
    name: str,
    names: list[str],
    attributes: Mapping[str, Any],
    settings: Any,
    draw: Any,
    plain: str,
) -> None:
    def samples(rng: np.random.Generator) -> Any:
        for kw in settings:
            w, g, *states = draw(rng)
            yield sample(
                w.astype(np.float16),
                g.astype(np.float16),
                *(s.astype(np.float32) for s in states),
                w.astype(np.float32),
                check_gradient=False,
                **kw,
            )

    inputs = " ".join(names)
    operator(
        name,
        inputs,
        attributes,
        infer=alike(name, names, mixed=True),
        same_dtype=False,
        gradient=NO_GRADIENT,
        mutates=tuple(range(2, len(names))),
        # The result is float16: tests/operators/test_update.py compares with the operator on one precision.
        samples=samples,
        errors=lambda: [
            error(
                np.ones(2, "float16"),
                np.ones(2, "float16"),
                *(np.ones(2, "float16") for _ in names[2:]),
                match="must be float32",
                **settings[0],
            )
        ],
        doc=step_doc(
            f"Like ``{plain}``, on the float32 master copy ``weight32``; the result is that copy in the dtype of ``weight``.",
            inputs,
            attributes,
            f">>> w = mx.nd.ones((2,), dtype='float16')\n>>> states = [mx.nd.zeros((2,)) for _ in range({len(names) - 3})]\n"
            f">>> mx.nd.{name}(w, w * 0, *states, mx.nd.array([1, 2]), {_arguments(settings[0])}).dtype == w.dtype\nTrue",
        ),
    )


def _arguments(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v!r}" for k, v in settings.items())


def example_of(call: str, result: str, states: int) -> str:
    """Return the doctest of a step on two weights with ``states`` states of zeros."""
    lines = [">>> w, g = mx.nd.array([1, 2]), mx.nd.array([1, -1])"]
    if states:
        lines.append(f">>> states = [mx.nd.zeros((2,)) for _ in range({states})]")
    lines += [f">>> mx.nd.{call}.astype('float64').asnumpy().round(4).tolist()", result]
    return "\n".join(lines)
