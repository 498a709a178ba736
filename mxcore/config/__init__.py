"""OPTIONS: typed options; argument > context > set() > environment > file > plugin default > default.

The functions here act on the one :class:`Config` of the process.

Examples
--------
>>> from mxcore import config
>>> with config.context(engine="naive"):
...     value, origin = config.explain("engine")
>>> value, str(origin)
('naive', 'context')
"""

from __future__ import annotations

from .resolver import Config, ConfigWarning
from .values import LEVELS, Choice, Origin, Setting, did_you_mean

_process = Config()

child_environment = _process.child_environment
context = _process.context
declare = _process.declare
explain = _process.explain
get = _process.get
layers = _process.layers
refresh = _process.refresh
set = _process.set


def process_config() -> Config:
    """The :class:`Config` that the functions of this module act on."""
    return _process


__all__ = [
    "LEVELS",
    "Choice",
    "Config",
    "ConfigWarning",
    "Origin",
    "Setting",
    "child_environment",
    "context",
    "declare",
    "did_you_mean",
    "explain",
    "get",
    "layers",
    "process_config",
    "refresh",
    "set",
]
