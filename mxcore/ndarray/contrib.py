"""``mx.nd.contrib``: Contributed operators."""

from __future__ import annotations

from .contrib_functions import *  # noqa: F403
from .control_flow import *  # noqa: F403
from .namespace import prefixed

__getattr__, __dir__ = prefixed(__name__, "_contrib_")
