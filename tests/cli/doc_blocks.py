# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shell commands of README and docs.

Every fenced ``sh`` block is run by ``bash -eu -o pipefail`` in a directory of its own, with the files of ``doc_files``
the default model as ``model.gguf`` and ``tests/records`` in it. A comment in the line before the fence changes that:

* ``<!-- with a server -->`` runs it while ``bankml serve`` answers on the default address;
* ``<!-- shown only: REASON -->`` does not run it. The reason is for the reader of the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```\s*$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"sh", "text", "json", "python", "http", "toml", "make", "c", "jinja"}
SERVER = "<!-- with a server -->"
SHOWN = re.compile(r"<!-- shown only: (\S.*) -->")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    script: str
    mark: str

    @property
    def shown_only(self) -> str | None:
        """Why it is not run, or None."""
        match = SHOWN.fullmatch(self.mark)
        return match[1] if match else None

    @property
    def compared_records(self) -> list[Path]:
        """The committed records that it compares, where it does nothing else."""
        lines = self.script.splitlines()
        found = [re.fullmatch(r"bankml oracle compare ((?: ?tests/records/\S+)+)", line) for line in lines]
        return [ROOT / name for match in found if match for name in match[1].split()] if all(found) else []

    @property
    def with_server(self) -> bool:
        """Whether a server must answer while it runs."""
        return self.mark == SERVER

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> list[Block]:
    """Every fenced block of a page."""
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()].rstrip("\n").rsplit("\n", 1)[-1].strip()
        mark = before if before.startswith("<!--") else ""
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, match[2], match[3], mark))
    return found


def all_blocks() -> list[Block]:
    """Every fenced block of README, CONTRIBUTING and docs."""
    return [
        block
        for page in PAGES
        if page.exists()
        for block in blocks_of(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    ]
