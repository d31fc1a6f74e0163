# SPDX-License-Identifier: MIT OR Apache-2.0
"""A process that compiles modules of kernels into the store: reads their names, and says each again when it is done.

Usage: python -m bankml.kernels.worker CACHE_FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from bankml.kernels import native, store


def main() -> None:
    """Compile until no name comes any more."""
    store.place(Path(sys.argv[1]))
    for line in sys.stdin:
        name = line.strip()
        native.module_named(name)
        store.write(name, native.compile_object(native.entries(name)))
        print(name, flush=True)


if __name__ == "__main__":
    main()
