# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pins: sha256, FORK.json, file identity, the local store, sources."""
