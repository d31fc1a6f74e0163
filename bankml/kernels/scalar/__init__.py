# SPDX-License-Identifier: MIT OR Apache-2.0
"""The readable definition of every kernel: plain float32 steps in the reference's order, no vector instruction.

Tests hold the fast kernels to these models bit for bit, and these models to what the reference answered. They are slow. A weight
type is one module here, named in ``products.TYPES``.
"""
