"""Kernels of the windowed operators."""
