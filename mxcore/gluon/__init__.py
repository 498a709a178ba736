"""MODELS: blocks, parameters, layers, losses, the Trainer and data loading."""

from __future__ import annotations

from . import loss, nn, utils
from .block import Block, HybridBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict, tensor_types
from .trainer import Trainer

__all__ = [
    "Block",
    "HybridBlock",
    "Parameter",
    "Constant",
    "ParameterDict",
    "DeferredInitializationError",
    "tensor_types",
    "Trainer",
    "loss",
    "nn",
    "utils",
]
