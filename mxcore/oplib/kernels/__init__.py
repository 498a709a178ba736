"""Kernels of the op libraries: pure functions over arrays, one file per family of operators."""
