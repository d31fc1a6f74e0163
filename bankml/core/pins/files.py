# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files on disk: opened without surprises, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from bankml.core.gguf.atomic import replace_file
from bankml.core.refusal import EXIT_OTHER, Refusal
from bankml.kernels import trust

T = TypeVar("T")

LEFT_FREE = 64 << 20
"""Bytes that a download or a copy leaves free on a large disk."""

LARGEST_INPUT = 256 << 20
"""More than any text that a command reads whole."""


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


def ready(got: T | None) -> T:
    """What a read gave.

    Raises:
        BlockingIOError: it gave nothing yet: some files of /proc count as regular, and would be waited for.
    """
    if got is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return got


def read_input(stream: BinaryIO, where: str) -> bytes:
    """All that comes from a stream, which may be a pipe.

    Raises:
        Refusal: ``input.size``: it has more than ``LARGEST_INPUT`` bytes, or no end.
    """
    pieces = []
    left = LARGEST_INPUT
    while piece := stream.read(1 << 20):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise too_large(where)
    return b"".join(pieces)


def too_large(where: str) -> Refusal:
    """The refusal for a text that is longer than any, or that has no end."""
    found, allowed = f"more than {LARGEST_INPUT} bytes", f"{LARGEST_INPUT} bytes"
    return Refusal("input.size", "there is more text than a command reads", where=where, found=found, allowed=allowed)


def write_atomic(path: Path, data: bytes) -> None:
    """Put ``data`` under ``path``: a reader sees the old file or the new one, never a part."""
    trust.make(path.parent)
    replace_file(path, lambda out: _write_all(out, data))


def _write_all(out: BinaryIO, data: bytes) -> None:
    out.write(data)


@contextlib.contextmanager
def changing(directory: Path) -> Iterator[None]:
    """Read, change and write a record in ``directory``, which is made, while nobody else does; waits for whoever does.

    The lock is on the directory itself, so nothing is left there. On a file system without locks nobody waits.
    """
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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
        message = f"the disk is full: no space left for {path.name}"
        return Refusal("disk.full", message, where=str(path.parent), status=500, exit_code=EXIT_OTHER)
    why = error.strerror or str(error)
    return Refusal("file.write", f"cannot write {path.name}: {why}", where=str(path), status=500, exit_code=EXIT_OTHER)


def require_space(path: Path, needed: int) -> None:
    """Refuse when ``needed`` more bytes beside ``path`` would leave less free than a sixteenth of the disk, or 64 MiB.

    Raises:
        Refusal: code ``disk.full``.
    """
    disk = shutil.disk_usage(path.parent)
    left = min(LEFT_FREE, disk.total // 16)
    if needed + left > disk.free:
        raise Refusal(
            "disk.full",
            f"the disk is full: no space for {path.name}",
            where=str(path.parent),
            found=f"{disk.free} bytes free",
            allowed=f"at least {needed + left} bytes free",
            status=500,
            exit_code=EXIT_OTHER,
        )
