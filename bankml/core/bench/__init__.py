# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measuring: models and kernels against the reference."""
