# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guard: judges a GGUF file by its header alone, before anything believes it."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

from bankml.core.gguf.header import Header, parse_header
from bankml.core.refusal import EXIT_OTHER, Refusal


def map_file(path: Path) -> mmap.mmap:
    """The file's bytes, mapped read-only.

    Raises:
        Refusal: ``gguf.unreadable`` with exit code 1 (no such file, a directory, a pipe, no permission), or an empty file.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                what = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
                raise Refusal("gguf.unreadable", f"cannot read {path}", found=what, allowed="a GGUF file", exit_code=EXIT_OTHER)
            if status.st_size == 0:
                raise Refusal("gguf.magic", "not a GGUF file", where="offset 0", found="an empty file", allowed="b'GGUF'")
            return mmap.mmap(handle, status.st_size, prot=mmap.PROT_READ)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refusal(
            "gguf.unreadable", f"cannot read {path}", found=reason, allowed="a GGUF file", exit_code=EXIT_OTHER
        ) from None


def admit(data: mmap.mmap, engine: str, name: str) -> Header:
    """The header of a file that plays.

    Raises:
        Refusal: the guard's first reason.
    """
    return parse_header(data)
