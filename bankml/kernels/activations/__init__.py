# SPDX-License-Identifier: MIT OR Apache-2.0
"""Activation rows between the products: norm, SwiGLU, and the forms that the products read."""
