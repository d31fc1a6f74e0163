# SPDX-License-Identifier: MIT OR Apache-2.0
"""sha256 of whole files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from bankml.core.pins.files import open_regular, ready, unreadable
from bankml.core.pins.identity import Identity
from bankml.core.refusal import Refusal

Progress = Callable[[str, int, int | None], None]
"""Called as work goes on: what is being done (``hash NAME``), bytes done, bytes in all (None: unknown)."""

PIECE = 1 << 20
_REPORT_EVERY = 16 * PIECE


def changed(name: str, doing: str = "hashed") -> Refusal:
    """The refusal for a file that was written, replaced or removed under our hands."""
    return Refusal("pin.changed", f"{name} changed while it was being {doing}: refused", status=503)


def sha256_file(path: Path | str, progress: Progress | None = None) -> str:
    """The sha256 of a file as 64 lower-case hex digits, of one state of the file or of none.

    Pieces of 1 MiB go into one buffer; the interpreter lock is free while a piece is hashed.

    Raises:
        Refusal: it cannot be read (exit code 1), or it changed meanwhile.
    """
    path = Path(path)
    what = f"hash {path.name}"
    digest = hashlib.sha256()
    buffer = bytearray(PIECE)
    view = memoryview(buffer)
    done = 0
    reported = 0
    try:
        with open_regular(path) as file:
            before = Identity.of_open(path, file.fileno())
            while count := ready(file.readinto(buffer)):  # type: ignore[attr-defined]  # a raw file has it
                digest.update(view[:count])
                done += count
                if progress is not None and done - reported >= _REPORT_EVERY:
                    progress(what, done, before.size)
                    reported = done
            after = Identity.of_open(path, file.fileno())
    except OSError as error:
        raise unreadable(path, error, "hash") from error
    if done != before.size or after != before or before.changed():
        raise changed(path.name)
    if progress is not None:
        progress(what, done, before.size)
    return digest.hexdigest()
