"""Kernels of the loss operators."""
