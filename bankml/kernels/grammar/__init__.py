# SPDX-License-Identifier: MIT OR Apache-2.0
"""A grammar as a stack machine, and its walks over a vocabulary."""
