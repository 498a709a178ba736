"""The memory pools of mxcore: ``naive``, ``round``, ``unpooled`` and ``best_fit``.

`rounding` says which sizes blocks have, `containers` keeps the free ones, `allocators` get memory from a device, and
`pool` is what users see: a manager of exact accounts over one of each per device.
"""

__version__ = "0.1.0"
