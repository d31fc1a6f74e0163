# SPDX-License-Identifier: MIT OR Apache-2.0
"""Attention over both caches, and the rotation of queries and keys."""
