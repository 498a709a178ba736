"""Records of special functions of each element (``erf`` is declared with the other elementwise functions)."""

from __future__ import annotations

import math
from typing import Any

from .attributes import Int
from .elementwise import same, unary
from .record import sample
from .registry import operator


def _scipy(name: str) -> Any:
    def reference(*args: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return reference


unary(
    "erfinv",
    "the inverse of erf",
    lambda F, g, y, x: g * F.exp(y * y) * (math.sqrt(math.pi) / 2.0),
    _scipy("erfinv"),
    low=-0.95,
    high=0.95,
    saves="output",
    example=([0, 0.5], "[0.0, 0.4769]"),
)
unary(
    "gamma",
    "the gamma function, (x - 1)! for whole numbers",
    lambda F, g, y, x: g * y * F._polygamma(x),
    _scipy("gamma"),
    low=0.3,
    high=6.0,
    saves="data output",
    example=([5, 0.5], "[24.0, 1.7725]"),
)
unary(
    "gammaln",
    "ln |gamma(x)|",
    lambda F, g, y, x: g * F._polygamma(x),
    _scipy("gammaln"),
    low=0.3,
    high=6.0,
    example=([1, 5], "[0.0, 3.1781]"),
)

operator(
    "_polygamma",
    "data",
    {"n": Int(0)},
    infer=same,
    gradient=(lambda F, g, y, x, n: g * F._polygamma(x, n=n + 1),),
    saves="data",
    reference=lambda x, n=0: _scipy("polygamma")(n, x),
    samples=lambda rng: [
        sample(rng.uniform(0.3, 30, (3, 4))),
        sample(rng.uniform(-3.8, -3.2, (3, 4))),
        sample(rng.uniform(0.3, 30, (3, 4)), n=1),
        sample(rng.uniform(0.5, 3, (3, 4)), n=2),
    ],
    doc="Derivative ``n + 1`` of ``gammaln``: the digamma function for ``n=0``, the trigamma function for ``n=1``, ...",
)
