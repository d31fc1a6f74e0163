# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which file it is: what tells that a hashed file is still the one on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """Device, inode, size, modification and change time (in nanoseconds) of a file; two are equal when these five are.

    A program may set the modification time back after it wrote; the change time is the kernel's own, and no program sets it.
    """

    path: Path = field(compare=False)
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, path: Path | str) -> Identity:
        """The identity of the file that ``path`` names now, links followed.

        Raises:
            OSError: there is no such file.
        """
        path = Path(path)
        return cls._from(path, path.stat())

    @classmethod
    def of_open(cls, path: Path, descriptor: int) -> Identity:
        """The identity of an open file, whatever its name now stands for."""
        return cls._from(path, os.fstat(descriptor))

    @classmethod
    def _from(cls, path: Path, found: os.stat_result) -> Identity:
        return cls(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def changed(self) -> bool:
        """Whether the path no longer names this very file with this size and these times; a missing file has changed."""
        try:
            return Identity.of(self.path) != self
        except OSError:
            return True
