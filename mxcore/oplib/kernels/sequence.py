"""Kernels of the sequence operators."""
