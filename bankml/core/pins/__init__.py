# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pins: sha256, FORK.json, file identity, the local store, sources.

May import: core.gguf, home, kernels, refusal.
"""

from bankml.core.pins.digest import Progress, sha256_file
from bankml.core.pins.gate import Verified, measure, verify
from bankml.core.pins.identity import Identity
from bankml.core.pins.sources import Pulled, fetch_model, pull
from bankml.core.pins.store import resolve_model

__all__ = [
    "Identity",
    "Progress",
    "Pulled",
    "Verified",
    "fetch_model",
    "measure",
    "pull",
    "resolve_model",
    "sha256_file",
    "verify",
]
