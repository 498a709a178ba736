"""MODELS: blocks, parameters, layers, losses, the Trainer and data loading."""

from __future__ import annotations

import importlib
from typing import Any

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
    "data",
    "loss",
    "nn",
    "utils",
]


def __getattr__(name: str) -> Any:
    # Data loading is imported when first touched: inference does without it.
    if name == "data":
        return importlib.import_module(".data", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
