# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pages that are made from the code: written, or compared with what is there."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path


def write_or_compare(page: Path, text: str, source: str, arguments: Sequence[str]) -> int:
    """Write the page, or with ``--check`` compare it; returns 1 when the page is out of step."""
    if "--check" not in arguments:
        page.write_text(text, encoding="utf-8")
        return 0
    name = f"docs/{page.name}"
    written = page.read_text(encoding="utf-8") if page.exists() else ""
    for line in difflib.unified_diff(written.splitlines(), text.splitlines(), name, source, lineterm="", n=1):
        print(line)
    print(f"{name} is {'in step' if written == text else 'out of step: run make docs'}")
    return 0 if written == text else 1
