"""The exception tree of mxcore: one root, every message says what, why and what to do.

::

    MXCoreError (RuntimeError)             everything mxcore raises on purpose
    ├── OperatorError                      an operator call that cannot work
    │   ├── ShapeError (ValueError)        shapes do not fit the operator
    │   ├── DTypeError (TypeError)         dtypes do not fit the operator
    │   ├── PositionError (IndexError)      an index array points outside
    │   └── ParameterError (ValueError, TypeError)   an attribute is missing, unknown or out of range
    ├── AutogradError                      recording or differentiation misused
    │   └── StaleValueError                a value that backward needs was overwritten
    ├── DeferredInitializationError        a parameter whose shape is not known yet was read
    ├── EngineError                        the engine was misused (deleted variable, stopped engine, ...)
    ├── StorageError
    │   └── OutOfDeviceMemory (MemoryError)
    ├── ConfigError (ValueError)           an option has a value that cannot be
    ├── FileFormatError (ValueError)       a file is truncated, corrupt or of another kind
    └── PluginError
        └── BackendError                   a backend asked for by name cannot be used
            ├── BackendNotInstalled
            ├── BackendFailed              import, registration, creation or probe raised
            ├── BackendIncompatible        written for another contract version
            ├── BackendAmbiguous           two distributions provide the name
            ├── BackendBlocked             the user blocked it
            ├── BackendUnavailable         installed and sound, but not usable on this machine
            └── KernelMissing              the library has no kernel for this operator

``MXNetError`` is the same class as :class:`MXCoreError` under MXNet's name.
The fields that a message quotes are attributes too (keyword arguments of the constructor).
"""

from __future__ import annotations

from typing import Any


class MXCoreError(RuntimeError):
    """Root of all errors that mxcore raises on purpose.

    Parameters
    ----------
    message : str
        The whole sentence: what happened, why, and what to do.
    **fields
        The values the message quotes; each becomes an attribute.

    Examples
    --------
    >>> from mxcore.spec.errors import ShapeError
    >>> error = ShapeError("dot: ...", operator="dot", shapes=[(2, 3), (2, 3)])
    >>> error.operator
    'dot'
    """

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.fields = fields
        for key, value in fields.items():
            setattr(self, key, value)

    def __reduce__(self) -> Any:
        # Errors cross process borders (data loader workers), fields included.
        return (_rebuild, (type(self), str(self), self.fields))


def _rebuild(kind: type[MXCoreError], message: str, fields: dict[str, Any]) -> MXCoreError:
    return kind(message, **fields)


class OperatorError(MXCoreError):
    """An operator call that cannot work; fields: ``operator``, ``shapes``, ``dtypes``."""


class ShapeError(OperatorError, ValueError):
    """Shapes do not fit the operator."""


class DTypeError(OperatorError, TypeError):
    """Dtypes do not fit the operator."""


class ParameterError(OperatorError, ValueError, TypeError):
    """An operator attribute is missing, unknown or has a value that cannot be."""


class PositionError(OperatorError, IndexError):
    """An index array points outside the axis it indexes."""


class AutogradError(MXCoreError):
    """Recording or differentiation was misused."""


class StaleValueError(AutogradError):
    """A value that backward needs was overwritten after it was recorded."""


class DeferredInitializationError(MXCoreError):
    """A parameter was read before its shape was known."""


class EngineError(MXCoreError):
    """The engine was misused: deleted variable, stopped engine, wait that cannot end."""


class StorageError(MXCoreError):
    """A storage manager cannot serve or take back a buffer."""


class OutOfDeviceMemory(StorageError, MemoryError):
    """No memory: fields ``asked``, ``live``, ``cached``, ``limit`` in bytes."""


class ConfigError(MXCoreError, ValueError):
    """An option has a value that cannot be."""


class FileFormatError(MXCoreError, ValueError):
    """A file is truncated, corrupt or of another kind."""


class PluginError(MXCoreError):
    """Something is wrong with a plugin."""


class BackendError(PluginError):
    """A backend asked for by name cannot be used; fields: ``kind``, ``name``."""


class BackendNotInstalled(BackendError):
    """No installed distribution provides the name."""


class BackendFailed(BackendError):
    """Import, registration, creation or probe raised; the cause is chained."""


class BackendIncompatible(BackendError):
    """The backend was written for another contract version."""


class BackendAmbiguous(BackendError):
    """More than one distribution provides the name."""


class BackendBlocked(BackendError):
    """The user blocked the plugin."""


class BackendUnavailable(BackendError):
    """Installed and sound, but not usable on this machine."""


class KernelMissing(BackendError):
    """The library has no kernel for this operator."""
