# SPDX-License-Identifier: MIT OR Apache-2.0
"""A file's bytes, read when they are asked for.

Not mapped: where another program cuts a mapped file short, the next look at it ends the process. Here it is a Refusal.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bankml.core.refusal import EXIT_OTHER, EXIT_REFUSED, Refusal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_WINDOW = 1 << 18


class FileBytes:
    """The bytes of an open file, as many as it had when it was opened; slices are read from it, through a window.

    Any thread may read. Make it with :meth:`open`; end it with :meth:`close`.
    """

    def __init__(self, path: Path, handle: int, size: int) -> None:
        self.path = path
        self._handle = handle
        self._size = size
        self._window: tuple[int, bytes] = 0, b""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a regular file.

        Raises:
            Refusal: ``gguf.unreadable`` with exit code 1 (no such file, a directory, a pipe, no permission), or an empty file.
        """
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise unreadable(path, reason) from None
        try:
            return cls(path, handle, _size(path, os.fstat(handle)))
        except BaseException:
            os.close(handle)
            raise

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, span: slice) -> bytes:
        """The bytes of a span.

        Raises:
            Refusal: the file was cut short since it was opened, or cannot be read.
        """
        start, stop, _ = span.indices(self._size)
        base, window = self._window
        if not base <= start <= stop <= base + len(window):
            if stop - start > _WINDOW:
                return self._read(start, stop - start)
            base, window = self._window = start, self._read(start, min(_WINDOW, self._size - start))
        return window[start - base : stop - base]

    def read_into(self, place: npt.NDArray[np.uint8], offset: int) -> None:
        """Fill an array with the bytes from ``offset`` on. The interpreter is free for other threads meanwhile.

        Raises:
            Refusal: as for slices.
        """
        rest = place.data
        while rest:
            try:
                count = os.preadv(self._handle, [rest], offset)
            except OSError as error:
                raise unreadable(self.path, error.strerror or str(error)) from None
            if not count:
                raise unreadable(self.path, "it was cut short while it was read")
            rest, offset = rest[count:], offset + count

    def _read(self, start: int, count: int) -> bytes:
        parts = []
        while count:
            try:
                part = os.pread(self._handle, count, start)
            except OSError as error:
                raise unreadable(self.path, error.strerror or str(error)) from None
            if not part:
                raise unreadable(self.path, "it was cut short while it was read")
            parts.append(part)
            start, count = start + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _size(path: Path, status: os.stat_result) -> int:
    """The size of a regular file that is not empty."""
    if not stat.S_ISREG(status.st_mode):
        raise unreadable(path, "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file")
    if not status.st_size:
        place, allowed = "offset 0, magic", "b'GGUF'"
        raise Refusal(
            "gguf.magic", "not a GGUF file", where=place, found="an empty file", allowed=allowed, exit_code=EXIT_REFUSED
        )
    return status.st_size


def unreadable(path: Path, reason: str) -> Refusal:
    """The refusal for a file that cannot be read, or changes under our hands."""
    return Refusal("gguf.unreadable", f"cannot read {path}", found=reason, allowed="a GGUF file", exit_code=EXIT_OTHER)
