"""Random streams: counter-based, so that a stream depends on seed, device and call count only, never on the engine.

Each device has a key (from the seed and the device) and a counter of random calls. A call takes the next counter
at the moment of the call; its Philox generator starts there. Whoever runs the kernel, and whenever, draws the same.
(Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.)
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

_lock = threading.Lock()
_seed = 0
_keys: dict[Any, int] = {}
_counters: dict[Any, int] = {}


def seed(value: int, ctx: Any = "all") -> None:
    """Restart the stream of ``ctx``, or of all devices, from ``value``.

    Streams of different devices differ under one seed.
    """
    global _seed
    value = int(value) & 0xFFFFFFFFFFFFFFFF
    with _lock:
        if ctx == "all" or ctx is None:
            _seed = value
            _keys.clear()
            _counters.clear()
        else:
            _keys[ctx] = value
            _counters[ctx] = 0


def generator(ctx: Any) -> np.random.Generator:
    """Return the generator of the next random call on ``ctx``."""
    with _lock:
        count = _counters.get(ctx, 0)
        _counters[ctx] = count + 1
        key = _keys.get(ctx, _seed)
    device = (ctx.device_typeid << 32) | ctx.device_id
    # The third counter word leaves 2**128 draws to each call.
    return np.random.Generator(np.random.Philox(key=np.array([key, device], np.uint64), counter=[0, 0, count, 0]))
