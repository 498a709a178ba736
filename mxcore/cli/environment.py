"""versions, plugins, hardware hints and variables, for bug reports"""

from __future__ import annotations

import argparse
import glob
import os
import platform
import sys
from importlib import metadata
from typing import Any

from .._version import __version__
from ..config import process_config
from ..config.files import search
from ..registry import process_registry
from ..registry.builtins import KNOWN, KNOWN_DEVICES
from .render import add_json, print_fields, print_json

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "JAX_PLATFORMS")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    report = describe()
    if arguments.json:
        print_json(report)
        return 0
    for title, part in report.items():
        if part:
            print(f"{title}:")
            if isinstance(part, dict):
                print_fields(part, "  ")
            else:
                print("\n".join(f"  {line}" for line in part))
    return 0


def describe() -> dict[str, Any]:
    """What a bug report needs; reads metadata and files only, imports no plugin and touches no driver."""
    registry, config = process_registry(), process_config()
    plugins = [one for one in registry.candidates() if not one.builtin]
    gpus = sorted(glob.glob("/dev/nvidia[0-9]*"))
    hints = []
    if gpus and not any(one.kind == "ops" and one.name in KNOWN_DEVICES["gpu"] for one in plugins):
        hints.append(
            f"{len(gpus)} NVIDIA device(s) but no op library for them; pip install {KNOWN['ops', 'cupy']} serves them"
        )
    ignored = config.ignored_mxnet_variables()
    if ignored:
        hints.append(f"these MXNet variables mean nothing to mxcore: {', '.join(ignored)}")
    shown = [name for name in sorted(os.environ) if name.startswith(("MXCORE_", "MXNET_")) or name in _VARIABLES]
    return {
        "versions": {
            "mxcore": __version__,
            "python": f"{platform.python_version()} ({sys.executable})",
            "numpy": _version("numpy"),
            "pluggy": _version("pluggy"),
            "platform": platform.platform(),
        },
        "hardware": {"cpus": os.cpu_count(), "nvidia devices": gpus},
        "plugins": [
            f"{one.kind} {one.name} ({one.distribution} {one.version}) {one.state.value}".strip() for one in plugins
        ],
        "environment": {name: os.environ[name] for name in shown},
        "files": search(os.environ),
        "hints": hints,
    }


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
