"""The threaded engines of mxcore: ``threaded`` and ``threaded_per_device``.

`scheduler` runs what core's dependency tracker says is ready, `lifecycle` stops, forks and ends it, `engine` is what
users see; `machine` what it runs on, real threads or the seeded
`simulator`; `costs` and `plans` what it learns; `compute` and `interrupts` how it gets on with BLAS and Ctrl-C.
"""

__version__ = "0.1.0"
