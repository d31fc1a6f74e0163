# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where bankml keeps its files. ``BANKML_HOME`` moves all of it."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The directory of everything that bankml stores: ``BANKML_HOME``, else ``~/.local/share/bankml``."""
    moved = os.environ.get("BANKML_HOME")
    return Path(moved).expanduser() if moved else Path.home() / ".local" / "share" / "bankml"


def models_dir() -> Path:
    """Model files."""
    return home() / "models"


def forks_dir() -> Path:
    """Pins: ``<file>.FORK.json``; ``BANKML_FORKS`` moves just these."""
    moved = os.environ.get("BANKML_FORKS")
    return Path(moved).expanduser() if moved else home() / "forks"


def cache_dir() -> Path:
    """Compiled kernels and unfinished downloads: all of it may be deleted."""
    return home() / "cache"
