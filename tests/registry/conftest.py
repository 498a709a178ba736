"""A registry that sees exactly the distributions that a test installs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fault_plugins import Distribution

from mxcore.config import Config
from mxcore.instruments import Instruments
from mxcore.registry import Registry, discovery


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Registry]]:
    """``make(*distributions, **environ)``: install them and return a registry with that environment."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(*distributions: Distribution, **environ: str) -> Registry:
        names = set()
        for distribution in distributions:
            distribution.install(tmp_path)
            names.add(distribution.name)
        importlib.invalidate_caches()
        return Registry(
            config=Config(environ={"HOME": str(tmp_path / "nowhere"), **environ}),
            entry_points=lambda: [entry for entry in discovery.scan() if entry.distribution in names],
            instruments=Instruments(),
        )

    yield make
    for name in set(sys.modules) - before:
        if name.startswith(("fault_", "good_", "dist", "a_engine", "b_engine")):
            del sys.modules[name]
