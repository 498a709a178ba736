"""Kernels of the vision operators."""
