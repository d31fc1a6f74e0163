# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a command reads whole: standard input, or a file that may be a pipe. None of them may be without end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path


def read_stdin() -> bytes:
    """All of standard input.

    Raises:
        Refusal: ``input.size``: there is more of it than a command reads.
    """
    from bankml.core.pins.files import read_input

    return read_input(sys.stdin.buffer, "stdin")


def read_file(path: Path) -> bytes:
    """All of a file.

    Raises:
        Refusal: ``input.size``: there is more of it than a command reads.
        OSError: it cannot be read.
    """
    from bankml.core.pins.files import read_input

    with path.open("rb") as file:
        return read_input(file, str(path))


def read_named(path: Path) -> bytes:
    """All of a file, or of standard input where the name is ``-``; raises as those do."""
    return read_stdin() if str(path) == "-" else read_file(path)


def stdin_lines() -> Iterator[bytes]:
    """The lines of standard input, as they come.

    Raises:
        Refusal: ``input.size``: a line is longer than what a command reads.
    """
    from bankml.core.pins.files import LARGEST_INPUT, too_large

    while line := sys.stdin.buffer.readline(LARGEST_INPUT + 1):
        if len(line) > LARGEST_INPUT:
            raise too_large("stdin")
        yield line
