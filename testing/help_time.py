# SPDX-License-Identifier: MIT OR Apache-2.0
"""Holds ``bankml --help`` to its limit: the median of nine runs.

Usage: python testing/help_time.py BANKML
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIMIT = 0.15


def main(program: str) -> int:
    """Returns 0, or 1 when it takes longer."""
    seconds = []
    for _ in range(9):
        start = time.perf_counter()
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(f"bankml --help: median {median:.3f} s ({min(seconds):.3f}-{max(seconds):.3f}), limit {LIMIT} s")
    return int(median > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
