"""Records of operators on the arrays of many weights: steps, each like its namesake in :mod:`.update`, rates, resetting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..spec.errors import ParameterError, ShapeError
from .attributes import Bool, Float, Floats, Int, Shape
from .documentation import documentation
from .record import NO_GRADIENT, Spec, sample
from .registry import operator
from .update import ADAM
from .update_rule import MEANING, RESCALE, alike

operator(
    "multi_lars",
    "lrs weights_sum_sq grads_sum_sq wds",
    {"eta": Float(), "eps": Float(), "rescale_grad": Float(1.0)},
    infer=alike("multi_lars", ["lrs", "weights_sum_sq", "grads_sum_sq", "wds"]),
    gradient=NO_GRADIENT,
    reference=lambda lrs, w, g, wds, eta, eps, rescale_grad=1.0: np.where(
        (w > 0) & (g > 0), lrs * eta * np.sqrt(w) / (np.sqrt(g) * rescale_grad + wds * np.sqrt(w) + eps), lrs
    ),
    samples=lambda rng: [
        sample(
            rng.uniform(0, 1, 4),
            np.array([1.0, 2, 0, 3]),
            np.array([1.0, 0, 2, 3]),
            rng.uniform(0, 1, 4),
            check_gradient=False,
            eta=0.1,
            eps=1e-3,
            rescale_grad=0.5,
        )
    ],
    doc="""Learning rates of LARS: ``lrs * eta * |w| / (|g| * rescale_grad + wds * |w| + eps)``; ``lrs`` where a norm is 0.

Parameters
----------
lrs, wds : NDArray
    Learning rates and weight decays, (N,).
weights_sum_sq, grads_sum_sq : NDArray
    Squared norms of weights and gradients, (N,).
eta, eps, rescale_grad : float

Returns
-------
NDArray
    (N,).

Examples
--------
>>> import mxcore as mx
>>> one = mx.nd.ones((1,))
>>> mx.nd.multi_lars(one, one * 4, one, one * 0, eta=0.5, eps=0).asnumpy().tolist()
[1.0]
""",
)

operator(
    "reset_arrays",
    "*data",
    {"num_arrays": Int()},
    infer=lambda a, *specs: Spec((1,), np.dtype(np.float32)),
    mutates=lambda a, inputs: tuple(range(inputs)),
    same_dtype=False,
    gradient=NO_GRADIENT,
    samples=lambda rng: [],
    doc="""Set arrays to 0 in place.

Parameters
----------
*data : NDArray
    Changed.
num_arrays : int
    How many there are.

Returns
-------
NDArray
    ``(1,)``, without meaning.

Examples
--------
>>> import mxcore as mx
>>> x, y = mx.nd.ones((2,)), mx.nd.ones((1,))
>>> _ = mx.nd.reset_arrays(x, y, num_arrays=2)
>>> x.asnumpy().tolist(), y.asnumpy().tolist()
([0.0, 0.0], [0.0])
""",
)


def _groups(name: str, per: int, trailing: int, count: str, each: tuple[str, ...]) -> Callable[..., Any]:
    """Inference: the number of arrays and of numbers fits the number of weights; the results are like the weights."""

    def infer(a: Any, *specs: Spec) -> Any:
        n = a[count]
        if len(specs) != n * per + trailing:
            raise ParameterError(
                f"operator '{name}' with {count}={n} takes {n * per + trailing} arrays, {per} for each weight"
                f"{f' and {trailing} more' if trailing else ''}, but got {len(specs)}.",
                operator=name,
            )
        for key in each:
            if len(a[key]) != n:
                raise ParameterError(
                    f"operator '{name}' with {count}={n} needs {n} numbers in {key}, but got {len(a[key])}.",
                    operator=name,
                )
        weights = specs[: n * per : per]
        for i, w in enumerate(weights):
            for s in specs[i * per : (i + 1) * per]:
                if s.shape != w.shape:
                    raise ShapeError(
                        f"operator '{name}': the arrays of weight {i} have shapes "
                        f"{[t.shape for t in specs[i * per : (i + 1) * per]]}; they must be equal.",
                        operator=name,
                        shapes=[t.shape for t in specs],
                    )
        return tuple(weights)

    return infer


def many(
    name: str,
    like: str,
    arrays: str,
    attributes: Mapping[str, Any],
    *,
    trailing: str = "",
    count: str = "num_weights",
    each: tuple[str, ...] = (),
) -> None:
    """Declare a step on many weights; ``arrays`` names those of one weight, ``trailing`` those after all of them."""
    complete = {**attributes, count: Int(1)}
    per = len(arrays.split())
    after = f", then {trailing}" if trailing else ""
    text = "\n".join(
        f"{k} : {'tuple' if isinstance(a, Floats | Shape) else 'number'}\n    {MEANING.get(k, f'See ``{like}``.')}"
        for k, a in complete.items()
    )
    operator(
        name,
        "*data",
        complete,
        infer=_groups(name, per, len(trailing.split()), count, each),
        outputs=lambda a: a[count],
        # Whatever follows weight and gradient of each group is a state.
        mutates=lambda a, inputs: tuple(i * per + k for i in range(a[count]) for k in range(2, per)),
        same_dtype=False,
        gradient=NO_GRADIENT,
        samples=lambda rng: [],
        doc=documentation(
            f"Do ``{like}`` on many weights.",
            f"*data : NDArray\n    For each weight {arrays}{after}; states are changed.\n{text}",
            "list of NDArray\n    The new weights, one array for one weight; give a list of the weights as ``out`` to have "
            "them in place.",
        ),
    )


_MULTI = {"lrs": Floats(), "wds": Floats()}
_ONE_MOMENTUM = {"momentum": Float(0.0)}
many("multi_sgd_update", "sgd_update", "weight grad", {**_MULTI, **RESCALE}, each=("lrs", "wds"))
many(
    "multi_sgd_mom_update",
    "sgd_mom_update",
    "weight grad mom",
    {**_MULTI, **_ONE_MOMENTUM, **RESCALE},
    each=("lrs", "wds"),
)
many("multi_mp_sgd_update", "mp_sgd_update", "weight grad weight32", {**_MULTI, **RESCALE}, each=("lrs", "wds"))
many(
    "multi_mp_sgd_mom_update",
    "mp_sgd_mom_update",
    "weight grad mom weight32",
    {**_MULTI, **_ONE_MOMENTUM, **RESCALE},
    each=("lrs", "wds"),
)
many("preloaded_multi_sgd_update", "sgd_update", "weight grad", dict(RESCALE), trailing="lrs wds")
many(
    "preloaded_multi_sgd_mom_update",
    "sgd_mom_update",
    "weight grad mom",
    {**_ONE_MOMENTUM, **RESCALE},
    trailing="lrs wds",
)
many("preloaded_multi_mp_sgd_update", "mp_sgd_update", "weight grad weight32", dict(RESCALE), trailing="lrs wds")
many(
    "preloaded_multi_mp_sgd_mom_update",
    "mp_sgd_mom_update",
    "weight grad mom weight32",
    {**_ONE_MOMENTUM, **RESCALE},
    trailing="lrs wds",
)
_MULTI_ADAMW = {"lrs": Floats(), **ADAM, "wds": Floats(), "etas": Floats(), "clip_gradient": Float(-1.0)}
_MULTI_LAMB = {
    "learning_rates": Floats(),
    "beta1": Float(0.9),
    "beta2": Float(0.999),
    "epsilon": Float(1e-6),
    "wds": Floats(),
    "rescale_grad": Float(1.0),
    "lower_bound": Float(-1.0),
    "upper_bound": Float(-1.0),
    "clip_gradient": Float(-1.0),
    "bias_correction": Bool(True),
    "step_count": Shape(),
}
for _prefix, _master in (("", ""), ("mp_", " weight32")):
    many(
        f"_multi_{_prefix}adamw_update",
        f"_{_prefix}adamw_update",
        f"weight grad mean var{_master}",
        _MULTI_ADAMW,
        trailing="rescale_grad",
        each=("lrs", "wds", "etas"),
    )
    many(
        f"_multi_{_prefix}lamb_update",
        f"{_prefix}lamb_update_phase1 and phase2",
        f"weight grad mean var{_master}",
        _MULTI_LAMB,
        count="num_tensors",
        each=("learning_rates", "wds", "step_count"),
    )
