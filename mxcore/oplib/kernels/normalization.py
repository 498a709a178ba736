"""Kernels of the normalization operators."""
