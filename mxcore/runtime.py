"""``mx.runtime``: which optional features this installation has."""

from __future__ import annotations

from typing import Any

from .context import num_gpus

#: MXNet's feature names. What mxcore decides at run time is asked below; everything else is off.
_NAMES = [
    "CUDA",
    "CUDNN",
    "NCCL",
    "CUDA_RTC",
    "TENSORRT",
    "CPU_SSE",
    "CPU_SSE2",
    "CPU_SSE3",
    "CPU_SSE4_1",
    "CPU_SSE4_2",
    "CPU_SSE4A",
    "CPU_AVX",
    "CPU_AVX2",
    "OPENMP",
    "SSE",
    "F16C",
    "JEMALLOC",
    "BLAS_OPEN",
    "BLAS_ATLAS",
    "BLAS_MKL",
    "BLAS_APPLE",
    "LAPACK",
    "MKLDNN",
    "OPENCV",
    "CAFFE",
    "PROFILER",
    "DIST_KVSTORE",
    "CXX14",
    "INT64_TENSOR_SIZE",
    "SIGNAL_HANDLER",
    "DEBUG",
    "TVM_OP",
]
_ALWAYS = frozenset({"LAPACK", "INT64_TENSOR_SIZE", "SIGNAL_HANDLER"})


class Feature:
    """One feature: ``name`` and ``enabled``."""

    def __init__(self, name: str, enabled: bool) -> None:
        self.name = name
        self.enabled = enabled

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def feature_list() -> list[Feature]:
    """Return every feature MXNet names, enabled or not."""
    gpus = num_gpus() > 0
    return [Feature(n, n in _ALWAYS or (gpus and n in ("CUDA", "CUDNN"))) for n in _NAMES]


class Features(dict[str, Any]):
    """Mapping of feature name to :class:`Feature`.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.runtime.Features().is_enabled("LAPACK")
    True
    """

    def __init__(self) -> None:
        super().__init__((f.name, f) for f in feature_list())

    def is_enabled(self, feature_name: str) -> bool:
        """Whether a feature is enabled.

        Raises
        ------
        RuntimeError
            For a name that MXNet does not know.
        """
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"feature '{feature_name}' is unknown, known features are: {', '.join(self)}")
        return self[name].enabled

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self.values()))}]"
