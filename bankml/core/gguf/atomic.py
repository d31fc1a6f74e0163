# SPDX-License-Identifier: MIT OR Apache-2.0
"""A file that appears under its name whole, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def replace_file(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Let ``write`` fill a file under a temporary name beside ``path``, sync it, and rename it to ``path``.

    What a killed writer left is removed before. Its file has no lock, that of a living writer has.
    """
    _remove_abandoned(path)
    partial, out = _claimed(path)
    with out:
        try:
            write(out)
            out.flush()
            os.fsync(out.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _claimed(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside ``path``, locked until it is closed."""
    for number in itertools.count():
        partial = path.with_name(f".{path.name}.{os.getpid()}.{number}.part")
        try:
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue
        # Not every file system has locks; on those nothing counts as abandoned.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_named(handle, partial):
            return partial, os.fdopen(handle, "wb")
        # It was taken for abandoned before it was locked.
        os.close(handle)
    raise AssertionError("numbers do not end")


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files of ``path`` that nobody writes any more."""
    name = re.compile(rf"\.{re.escape(path.name)}\.\d+(\.\d+)?\.part")
    for other in path.parent.iterdir():
        if not name.fullmatch(other.name):
            continue
        with contextlib.suppress(OSError):
            handle = os.open(other, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_named(handle, other):
                    other.unlink()
            finally:
                os.close(handle)


def _is_named(handle: int, path: Path) -> bool:
    """Whether ``path`` names the open file."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False
