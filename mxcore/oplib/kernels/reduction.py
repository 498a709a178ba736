"""Kernels of the reduction operators."""
