"""mxcore: MXNet's architecture as a small Python core with swappable engines, storage and operator libraries.

``import mxcore as mx``, then as with MXNet 1.x: ``mx.nd``, ``mx.autograd``, ``mx.gluon``. Parts are imported when
first touched, so that importing mxcore costs little more than importing NumPy.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from ._version import __version__
from ._version import __version__ as mxcore_version
from .spec.errors import MXCoreError

if TYPE_CHECKING:
    from .context import Context as Context

MXNetError = MXCoreError

#: attribute -> module
_MODULES = {
    "attribute": ".attribute",
    "autograd": ".autograd",
    "base": ".base",
    "config": ".config",
    "context": ".context",
    "engine": ".engine",
    "gluon": ".gluon",
    "image": ".image",
    "img": ".image",
    "init": ".initializer",
    "initializer": ".initializer",
    "instruments": ".instruments",
    "io": ".io",
    "lr_scheduler": ".lr_scheduler",
    "metric": ".metric",
    "name": ".name",
    "nd": ".ndarray",
    "ndarray": ".ndarray",
    "operators": ".operators",
    "operator": ".operator",
    "opt": ".optimizer",
    "optimizer": ".optimizer",
    "profiler": ".profiler",
    "random": ".random",
    "rnd": ".random",
    "runtime": ".runtime",
    "spec": ".spec",
    "test_utils": ".test_utils",
    "testing": ".testing",
    "util": ".util",
}
#: attribute -> (module, name in it)
_NAMES = {
    "AttrScope": (".attribute", "AttrScope"),
    "Context": (".context", "Context"),
    "cpu": (".context", "cpu"),
    "cpu_pinned": (".context", "cpu_pinned"),
    "current_context": (".context", "current_context"),
    "gpu": (".context", "gpu"),
    "is_np_array": (".util", "is_np_array"),
    "is_np_shape": (".util", "is_np_shape"),
    "np_array": (".util", "np_array"),
    "np_shape": (".util", "np_shape"),
    "set_np_shape": (".util", "set_np_shape"),
    "use_np": (".util", "use_np"),
    "use_np_array": (".util", "use_np_array"),
    "use_np_shape": (".util", "use_np_shape"),
    "waitall": (".ndarray", "waitall"),
    "use": (".dispatch.runtime", "use"),
    "hookimpl": (".registry", "hookimpl"),
}

#: Parts of MXNet that a program may ask for, and what they wait for.
_LATER = {
    **dict.fromkeys(("sym", "symbol", "mod", "module", "model", "executor", "visualization", "viz"), "it needs graphs"),
    **dict.fromkeys(("np", "npx", "numpy_extension"), "use mx.nd, which has the same operators under 1.x names"),
    **dict.fromkeys(("kv", "kvstore"), "gluon.Trainer adds up gradients over contexts without it"),
    **dict.fromkeys(("recordio",), "gluon.data.vision has datasets of local files"),
    **dict.fromkeys(("rnn", "callback", "monitor", "mon", "contrib", "log", "rtc", "library"), "it is to come"),
}

__all__ = ["MXCoreError", "MXNetError", "__version__", "mxcore_version", *sorted(set(_MODULES) | set(_NAMES))]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(_MODULES[name], __name__)
    elif name in _NAMES:
        module, attribute = _NAMES[name]
        value = getattr(importlib.import_module(module, __name__), attribute)
    elif name in _LATER:
        raise AttributeError(
            f"mx.{name} is not part of mxcore {mxcore_version}: {_LATER[name]}. See docs/guide/from-mxnet.md for what is."
        )
    else:
        raise AttributeError(f"module 'mxcore' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if "MXNET_PROFILER_AUTOSTART" in os.environ or "MXCORE_PROFILER__AUTOSTART" in os.environ:
    importlib.import_module(".profiler.control", __name__).autostart()
