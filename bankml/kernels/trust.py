# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether machine code on disk may be believed: only this user or root can have written it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
FOLDER_MODE = 0o755
"""Folders of ours are made with it, whatever the umask lets through."""


def objection(path: Path, found: os.stat_result) -> str | None:
    """Why what lies at ``path`` is not believed, or None."""
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user (uid {found.st_uid})"
    if found.st_mode & _OTHERS:
        return f"others may write {path} (mode {stat.S_IMODE(found.st_mode):o}); chmod go-w would help"
    return None


def folder_objection(folders: Iterable[Path]) -> str | None:
    """Why one of these folders is not believed, or None; links are followed, and what does not exist yet will be ours."""
    for folder in folders:
        try:
            reason = objection(folder, folder.stat())
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{folder}: {error.strerror}"
        if reason is not None:
            return reason
    return None


def make(folder: Path) -> None:
    """Make a folder and those above it that are missing, so that nobody else may write them.

    Raises:
        OSError: one cannot be made, or is no folder.
    """
    for each in (*reversed(folder.parents), folder):
        try:
            each.mkdir(FOLDER_MODE)
        except OSError:
            if not each.is_dir():
                raise
