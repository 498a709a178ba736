"""Kernels of the contrib operators."""
