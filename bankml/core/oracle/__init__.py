# SPDX-License-Identifier: MIT OR Apache-2.0
"""Oracles: what the reference answers, recorded and compared."""
