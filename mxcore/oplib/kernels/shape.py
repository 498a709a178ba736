"""Kernels of the shape operators."""
