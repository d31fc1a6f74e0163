# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of the repository, as the checks see them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tracked_files() -> list[Path]:
    """Every file that git tracks or would track, relative to the root; all files where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        hidden = {".venv", ".git", ".reference", "__pycache__"}
        files = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        return sorted(path for path in files if not hidden.intersection(path.parts))
    names = sorted(set(listed.stdout.decode().split("\0")) - {""})
    return [Path(name) for name in names if (ROOT / name).is_file()]


def read(path: Path) -> str | None:
    """The text of a tracked file, or None for a binary one."""
    data = (ROOT / path).read_bytes()
    if b"\0" in data or path.suffix == ".gz":
        return None
    return data.decode("utf-8", "replace")
