# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels, compiled by numba: they know shapes and addresses, nothing of models.

May import: home.
"""
