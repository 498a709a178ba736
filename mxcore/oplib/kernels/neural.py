"""Kernels of the neural operators."""
