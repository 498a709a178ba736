"""Kernels of the ordering operators."""
