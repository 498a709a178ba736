"""Optimizer steps with a row_sparse gradient: only the rows that the gradient stores change ("lazy updates").

As in MXNet, rows without a gradient keep weight and state: there is no weight decay and no momentum for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch.call import Bound

#: Operators ``(weight, grad, *states)`` that work on the rows of a row_sparse gradient.
LAZY = frozenset(
    [
        "sgd_update",
        "sgd_mom_update",
        "adam_update",
        "ftrl_update",
        "_adagrad_update",
        "_contrib_group_adagrad_update",
    ]
)


class RowsBound(Bound):
    """An optimizer step that is run on the stored rows of its gradient.

    Parameters
    ----------
    bound : Bound
        The step on whole arrays.
    rows : numpy.ndarray or None
        The rows stored; None means those that are not zero.
    """

    __slots__ = ("rows",)

    def __init__(self, bound: Bound, rows: np.ndarray | None) -> None:
        super().__init__(bound.operator, bound.attributes)
        self.rows = rows

    def rebind(self, library: Any) -> None:
        """Resolve the kernel in ``library``, for rows."""
        super().rebind(library)
        step, given, xp = self.kernel, self.rows, library.xp

        def kernel(weight: Any, grad: Any, *states: Any, out: Any = None) -> Any:
            rows = given
            if rows is None:
                rows = xp.flatnonzero((grad != 0).any(axis=tuple(range(1, grad.ndim))))
            if out is None:
                out = xp.array(weight, copy=True)
            parts = [s[rows] for s in states]
            out[rows] = step(weight[rows], grad[rows], *parts)
            for state, part in zip(states, parts):
                state[rows] = part
            return out

        self.kernel = kernel
        self.takes_out = True


def applies(bound: Bound, inputs: Any) -> bool:
    """Whether a call is such a step."""
    return (
        bound.operator.name in LAZY
        and inputs[1].stype == "row_sparse"
        and bound.attributes.get("lazy_update", True)
        and not isinstance(bound, RowsBound)
    )
