# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every source file says its licence in its first lines."""

from __future__ import annotations

import sys

from tracked import read, tracked_files

SOURCES = {".py", ".pyi", ".sh", ".c", ".cpp", ".h", ".js", ".css", ".html"}
NAMES = {"Makefile", "run"}
HEADER = "SPDX-License-Identifier: MIT OR Apache-2.0"


def main() -> int:
    """Print the files without a header; returns 1 when there are any."""
    sources = [path for path in tracked_files() if path.suffix in SOURCES or path.name in NAMES]
    bare = [path for path in sources if HEADER not in "\n".join((read(path) or "").splitlines()[:3])]
    for path in bare:
        print(f"{path}: no '{HEADER}' in its first three lines")
    print(f"licence headers: {len(sources) - len(bare)} of {len(sources)} files")
    return 1 if bare else 0


if __name__ == "__main__":
    sys.exit(main())
