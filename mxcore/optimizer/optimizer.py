"""The optimizers under the dotted path that MXNet has for them, ``mx.optimizer.optimizer``."""

from __future__ import annotations

from ..ndarray import abs as NDabs
from ._adaptive import FTML, AdaDelta, AdaGrad, Adam, Adamax, Ftrl, Nadam, RMSProp, Test
from ._base import Optimizer, create, register
from ._large_batch import LAMB, LARS, LBSGD
from ._momentum import DCASGD, NAG, SGD, SGLD, Signum, ccSGD
from ._updater import Updater, get_updater

__all__ = [
    "AdaDelta",
    "AdaGrad",
    "Adam",
    "Adamax",
    "DCASGD",
    "FTML",
    "Ftrl",
    "LARS",
    "LBSGD",
    "NAG",
    "NDabs",
    "Nadam",
    "Optimizer",
    "RMSProp",
    "SGD",
    "SGLD",
    "Signum",
    "LAMB",
    "Test",
    "Updater",
    "ccSGD",
    "create",
    "get_updater",
    "register",
]
