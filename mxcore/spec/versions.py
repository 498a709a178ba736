"""Contract versions: ``(major, minor)`` per kind of plugin.

A plugin states the version it was written for in its light record. It is accepted when the major numbers
are equal and its minor number is not greater than the host's: new optional methods raise the minor number
and come with a capability, so older plugins stay valid.
"""

from __future__ import annotations

Version = tuple[int, int]

#: What this mxcore offers, by kind.
API: dict[str, Version] = {
    "engine": (1, 1),
    "storage": (1, 0),
    "ops": (1, 0),
    "operators": (1, 0),
    "kvstore": (1, 0),
    "plugin": (1, 0),
}


def compatible(kind: str, wanted: Version) -> bool:
    """Whether a plugin of ``kind`` written for ``wanted`` works with this mxcore.

    Examples
    --------
    >>> compatible("engine", (1, 0)), compatible("engine", (2, 0)), compatible("engine", (1, 99))
    (True, False, False)
    """
    major, minor = API[kind]
    return wanted[0] == major and wanted[1] <= minor
