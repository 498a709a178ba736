"""Where the weights of a fused recurrent network lie in its one vector of parameters.

What inference checks the length of the vector with, and what kernels cut it by.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

#: How many gates a cell of each mode has.
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the weights of a recurrent network lie in its one vector of parameters.

    All weights come first, layer by layer and direction by direction: input ``(G H, I)``, state ``(G H, R)`` and, with
    a projection, ``(R, H)``; then all biases in the same order, input ``(G H,)`` and state ``(G H,)``. ``R`` is the
    size of what goes from step to step, ``H`` unless projected.
    """

    mode: str
    inputs: int
    size: int
    layers: int
    directions: int
    projection: int | None

    @property
    def recurrent(self) -> int:
        """The size of what goes from step to step."""
        return self.projection or self.size

    @property
    def rows(self) -> int:
        """The number of rows of a weight: gates times state size."""
        return GATES[self.mode] * self.size

    def shapes(self) -> Iterator[list[tuple[int, ...]]]:
        """Yield the shapes of the weights of each layer and direction."""
        for layer in range(self.layers):
            inputs = self.inputs if layer == 0 else self.directions * self.recurrent
            for _ in range(self.directions):
                shapes: list[tuple[int, ...]] = [(self.rows, inputs), (self.rows, self.recurrent)]
                if self.projection:
                    shapes.append((self.projection, self.size))
                yield shapes

    @property
    def length(self) -> int:
        """The number of parameters."""
        weights = sum(math.prod(s) for shapes in self.shapes() for s in shapes)
        return weights + self.layers * self.directions * 2 * self.rows

    def cut(self, vector: np.ndarray) -> list[list[np.ndarray]]:
        """Return views of the weights, then the two biases, of each layer and direction."""
        start, cells = 0, []
        for shapes in self.shapes():
            parts = []
            for shape in shapes:
                parts.append(vector[start : start + math.prod(shape)].reshape(shape))
                start += math.prod(shape)
            cells.append(parts)
        for parts in cells:
            for _ in range(2):
                parts.append(vector[start : start + self.rows])
                start += self.rows
        return cells
