"""Kernels of the linalg operators."""
