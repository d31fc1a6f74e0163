# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files on disk: opened without surprises, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO

from bankml.core.gguf.writer import replace_file
from bankml.core.refusal import EXIT_OTHER, Refusal
from bankml.kernels import trust


def unreadable(path: Path, error: OSError, verb: str = "read") -> Refusal:
    """The refusal for a file that the system does not let us read: exit code 1."""
    why = "is a directory" if isinstance(error, IsADirectoryError) else (error.strerror or str(error))
    return Refusal(f"file.{verb}", f"cannot {verb} {path.name or path}: {why}", where=str(path), status=404, exit_code=EXIT_OTHER)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for unbuffered reading; never waits on a pipe or a device.

    Raises:
        OSError: it cannot be opened, or it is a directory, a pipe, a socket or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb", buffering=0)
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a regular file", str(path))


def write_atomic(path: Path, data: bytes) -> None:
    """Put ``data`` under ``path``: a reader sees the old file or the new one, never a part."""
    trust.make(path.parent)
    replace_file(path, lambda out: _write_all(out, data))


def _write_all(out: BinaryIO, data: bytes) -> None:
    out.write(data)


def place(finished: Path, final: Path) -> None:
    """Give a finished file its final name, in one step even when it lies on another file system."""
    trust.make(final.parent)
    with finished.open("rb") as file:
        os.fsync(file.fileno())
        try:
            finished.replace(final)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            replace_file(final, lambda out: shutil.copyfileobj(file, out, 1 << 20))
            finished.unlink()
    sync_directory(final.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in ``directory`` survive a power cut, where the file system can."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_refusal(path: Path, error: OSError) -> Refusal:
    """The refusal for a write that failed; a full disk is named as such."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refusal("disk.full", f"no space left for {path.name}", where=str(path.parent), status=500, exit_code=EXIT_OTHER)
    why = error.strerror or str(error)
    return Refusal("file.write", f"cannot write {path.name}: {why}", where=str(path), status=500, exit_code=EXIT_OTHER)


def require_space(path: Path, needed: int) -> None:
    """Refuse before the first byte when ``needed`` more bytes do not fit beside ``path``.

    Raises:
        Refusal: code ``disk.full``.
    """
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise Refusal(
            "disk.full",
            f"no space for {path.name}",
            where=str(path.parent),
            found=f"{free} bytes free",
            allowed=f"at least {needed} bytes free",
            status=500,
            exit_code=EXIT_OTHER,
        )
