"""Which dtype kernels compute in: half precision has no BLAS and loses its digits in sums."""

from __future__ import annotations

from typing import Any

import numpy as np


def wide(dtype: Any) -> Any:
    """Return the dtype to compute in: float32 for float16, others as they are."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype
