"""The threaded engines of mxcore: ``threaded`` and ``threaded_per_device``.

`engine` is the scheduler, around core's dependency tracker; `machine` what it runs on, real threads or the seeded
`simulator`; `costs` and `plans` what it learns; `compute` and `interrupts` how it gets on with BLAS and Ctrl-C.
"""

__version__ = "0.1.0"
