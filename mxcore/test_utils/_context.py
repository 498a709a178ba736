"""Where tests run, and what they can expect there."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

from .. import context as _context
from ..context import Context, current_context


def default_context() -> Context:
    """Return the context that tests run on: the current one."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make `ctx` the context of everything that names none."""
    Context.default_ctx = ctx


def default_dtype() -> Any:
    """Return ``numpy.float32``."""
    return np.float32


def list_gpus() -> range:
    """Return the ids of the GPUs here."""
    return range(_context.num_gpus())


def is_op_runnable() -> bool:
    """Return True: every operator runs on every device that its library serves."""
    return True


def has_tvm_ops() -> bool:
    """Return False: there are no operators built by TVM."""
    return False


def is_cd_run() -> bool:
    """Return whether MXNet's release jobs run this (``CD_JOB=1``)."""
    return os.environ.get("CD_JOB", "0") == "1"


def is_aarch64_run() -> bool:
    """Return whether this is a 64-bit ARM machine."""
    return platform.machine() == "aarch64"
