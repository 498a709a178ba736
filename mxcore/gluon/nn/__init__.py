"""Layers: containers, dense, convolution, pooling, normalization, activation."""

from __future__ import annotations

from ..block import Block, HybridBlock
from . import activations, basic_layers, conv_layers
from .activations import *  # noqa: F403
from .basic_layers import *  # noqa: F403
from .conv_layers import *  # noqa: F403

__all__ = [
    "Block",
    "HybridBlock",
    *activations.__all__,
    *basic_layers.__all__,
    *conv_layers.__all__,
]
