# SPDX-License-Identifier: MIT OR Apache-2.0
"""Words that a reader must read twice stand in no source and on no page: CONTRIBUTING says what to write for them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tracked import ROOT, tracked_files

WORDS = re.compile(r"(?<![a-z])(?:told|seldom)(?![a-z])|\b(?:lets? go|so many|be it|in its way)\b", re.IGNORECASE)
# The changelog keeps its history; a template of the oracle has one in a message that is recorded; CONTRIBUTING lists them.
_KEPT = {"CHANGELOG.md", "CONTRIBUTING.md", "scripts/check_english.py", "bankml/oracle/cases/template_samples.py"}


def check(root: Path, files: list[Path]) -> list[str]:
    """A line for each such word in these files, which are relative to ``root``."""
    found = []
    for file in files:
        if file.suffix not in {".py", ".md"} or file.parts[0] == "tests" or str(file) in _KEPT:
            continue
        for number, line in enumerate((root / file).read_text(encoding="utf-8").splitlines(), 1):
            found += [f"{file}:{number}: {match[0]!r}" for match in WORDS.finditer(line)]
    return found


def main() -> int:
    """Print the words; returns 1 when there are any."""
    wrong = check(ROOT, tracked_files())
    print("\n".join([*wrong, f"words to replace: {len(wrong) or 'none'}"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
