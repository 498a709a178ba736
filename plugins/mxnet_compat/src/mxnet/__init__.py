"""``import mxnet`` answered by mxcore: every ``mxnet.x.y`` is the module object ``mxcore.x.y``.

Importing this module replaces itself in ``sys.modules`` by mxcore, after installing a finder for its submodules and
making sure that no real MXNet is installed beside it, since the two would mix.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import pathlib
import sys
from collections.abc import Sequence
from types import ModuleType

_PREFIX = "mxnet."
#: The MXNet version whose behaviour mxcore follows, for version checks of user code.
_FOLLOWS = "1.9.1"


def _real_mxnet() -> pathlib.Path | None:
    """Return where a real MXNet is installed, or None."""
    here = pathlib.Path(__file__).resolve().parent
    for place in [here, *(pathlib.Path(p or ".").resolve() / "mxnet" for p in sys.path)]:
        if (place / "libinfo.py").exists() or any(place.glob("libmxnet*")):
            return place
    return None


class _Loader(importlib.abc.Loader):
    """Hands out an mxcore module under its MXNet name."""

    def __init__(self, target: ModuleType) -> None:
        self._target = target
        self._spec = target.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._target

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just put the alias's spec on the module; the module stays what it was.
        module.__spec__ = self._spec


class _Finder(importlib.abc.MetaPathFinder):
    """Finds ``mxnet.x.y`` as ``mxcore.x.y``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        name = "mxcore." + fullname[len(_PREFIX) :]
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name is None or not (name == e.name or name.startswith(e.name + ".")):
                raise
            raise ModuleNotFoundError(
                f"No module named '{fullname}': this part of MXNet is not in mxcore "
                f"{sys.modules['mxcore'].mxcore_version}.",
                name=fullname,
            ) from None
        return importlib.machinery.ModuleSpec(fullname, _Loader(module), is_package=hasattr(module, "__path__"))


def _install() -> None:
    place = _real_mxnet()
    if place is not None:
        raise ImportError(
            f"mxcore-mxnet answers 'import mxnet' with mxcore, but a real MXNet is installed in {place}. The two cannot "
            f"share an environment: remove it with 'pip uninstall mxnet' (or mxnet-cu..., mxnet-mkl) and reinstall "
            f"mxcore-mxnet, or write 'import mxcore as mx' and leave it."
        )
    mxcore = importlib.import_module("mxcore")
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    mxcore.__version__ = _FOLLOWS
    sys.modules["mxnet"] = mxcore


_install()
