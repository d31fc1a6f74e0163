# SPDX-License-Identifier: MIT OR Apache-2.0
"""A tiny model that the guard plays, and a home that no test shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from bankml.core.gguf.types import STRING
from bankml.core.gguf.writer import write_gguf


@pytest.fixture(autouse=True)
def _alone(own_home: Path) -> None:
    """Every test here has a store of its own."""


def make_tiny(path: Path, name: str = "tiny", size: int = 4096) -> Path:
    """Write a GGUF file of one F32 tensor; returns its path."""
    kv = [("general.architecture", STRING, "llama"), ("general.name", STRING, name)]
    write_gguf(path, kv, [("token_embd.weight", (32, size // 128), 0, bytes(range(256)) * (size // 256))])
    return path


def near(digest: str) -> list[str]:
    """Digests that differ from this one in one digit: the first, one in the middle, the last."""
    return [f"{digest[:place]}{int(digest[place], 16) ^ 1:x}{digest[place + 1 :]}" for place in (0, 16, 31, 63)]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    folder = tmp_path / "given"
    folder.mkdir()
    return make_tiny(folder / "Tiny-F32.gguf")
