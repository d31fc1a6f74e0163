# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numba kernels: they know shapes and addresses, nothing of models."""
