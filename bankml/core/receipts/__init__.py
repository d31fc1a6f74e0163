# SPDX-License-Identifier: MIT OR Apache-2.0
"""Receipts: what answered, from which file, and hashes that a reader can compute again.

May import: core.json, core.sampling.
"""
