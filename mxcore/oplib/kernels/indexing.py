"""Kernels of the indexing operators."""
