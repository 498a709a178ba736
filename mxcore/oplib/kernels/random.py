"""Kernels of the random operators."""
