"""Kernels of the update operators."""
