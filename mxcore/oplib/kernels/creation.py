"""Kernels of the creation operators."""
