"""WAYS TO MULTIPLY windows of an array with weights, for :mod:`mxcore.oplib.kernels.convolution`.

A way is a file with ``correlate(x, jobs, bias, dtype, parallel_for)``, which writes the results of jobs
(:class:`.windows.Job`) that share one padded input, and ``weigh(x, g, dw, windows, dtype, parallel_for)``, which writes
the gradient of the weight. :mod:`.scatter` is half a way: it writes data gradients alone. All give the same sums up to
rounding; which of them runs is the caller's choice. Arrays have channels second and any strides.
"""
