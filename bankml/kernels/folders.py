# SPDX-License-Identifier: MIT OR Apache-2.0
"""Folders of compiled kernels: each process holds its own, and removes those that no process has used for long."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from . import trust

KEEP_SECONDS = 14 * 24 * 3600
"""So long a folder stays after its last use: several versions may take turns on one machine."""

_LOCK = "in-use"
_NAME = re.compile(r"[0-9a-f]{16}-[a-z0-9]+")
_held: dict[Path, int] = {}


def hold(folder: Path) -> bool:
    """Say that this process uses a folder, until it ends; False where it was said before, or the folder cannot be written."""
    if folder in _held:
        return False
    with suppress(OSError, ImportError):
        _held[folder] = _locked(folder)
    return folder in _held


def _locked(folder: Path) -> int:
    import fcntl

    lock = folder / _LOCK
    while True:
        trust.make(folder)
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            continue
        fcntl.flock(handle, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), lock.stat()):
                os.utime(handle)
                return handle
        # Another process removed the folder while this one waited for the lock.
        os.close(handle)


def sweep(folder: Path) -> list[Path]:
    """Remove what lies beside ``folder``, is a folder of compiled kernels, and was not used for long; returns what went."""
    with suppress(OSError, ImportError):
        others = [other for other in sorted(folder.parent.iterdir()) if other != folder and _NAME.fullmatch(other.name)]
        return [other for other in others if other.is_dir() and _is_old(other) and _removed(other)]
    return []


def _is_old(folder: Path) -> bool:
    """Whether it was last used, or where that is not said last written, long ago."""
    lock = folder / _LOCK
    # A folder's own time is that of its newest file; numba wrote two levels down.
    used = lock.stat().st_mtime if lock.exists() else max(each.stat().st_mtime for each in (folder, *folder.iterdir()))
    return time.time() - used > KEEP_SECONDS


def _removed(folder: Path) -> bool:
    import fcntl

    known = (folder / _LOCK).exists()
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if known and not _is_old(folder):
            return False
        shutil.rmtree(folder)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
