"""CONTRACTS: what engines, storage managers, op libraries and kvstores promise.

This room imports the standard library only and is imported by every other room and by every plugin.
"""

from __future__ import annotations

from .engine import Engine, EngineCapability, Estimate, FnProperty, InlineFirst, Operation, Variable
from .errors import (
    AutogradError,
    BackendAmbiguous,
    BackendBlocked,
    BackendError,
    BackendFailed,
    BackendIncompatible,
    BackendNotInstalled,
    BackendUnavailable,
    ConfigError,
    DeferredInitializationError,
    DTypeError,
    EngineError,
    FileFormatError,
    KernelMissing,
    MXCoreError,
    OperatorError,
    OutOfDeviceMemory,
    ParameterError,
    PluginError,
    PositionError,
    ShapeError,
    StaleValueError,
    StorageError,
)
from .kvstore import KVStore, KVStoreCapability
from .oplibrary import Kernel, OperatorLibrary, OpLibraryCapability
from .records import Availability, BackendRecord, OptionRecord, always_available
from .storage import Handle, StorageCapability, StorageManager, StorageStatistics
from .versions import API, Version, compatible

__all__ = [
    "API",
    "AutogradError",
    "Availability",
    "BackendAmbiguous",
    "BackendBlocked",
    "BackendError",
    "BackendFailed",
    "BackendIncompatible",
    "BackendNotInstalled",
    "BackendRecord",
    "BackendUnavailable",
    "ConfigError",
    "DTypeError",
    "DeferredInitializationError",
    "Engine",
    "EngineCapability",
    "EngineError",
    "Estimate",
    "FileFormatError",
    "FnProperty",
    "Handle",
    "InlineFirst",
    "KVStore",
    "KVStoreCapability",
    "Kernel",
    "KernelMissing",
    "MXCoreError",
    "OpLibraryCapability",
    "Operation",
    "OperatorError",
    "OperatorLibrary",
    "OptionRecord",
    "OutOfDeviceMemory",
    "ParameterError",
    "PluginError",
    "PositionError",
    "ShapeError",
    "StaleValueError",
    "StorageCapability",
    "StorageError",
    "StorageManager",
    "StorageStatistics",
    "Variable",
    "Version",
    "always_available",
    "compatible",
]
