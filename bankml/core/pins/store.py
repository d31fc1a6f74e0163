# SPDX-License-Identifier: MIT OR Apache-2.0
"""The models on this machine: their names, their files, their pins."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bankml.core.home import models_dir
from bankml.core.pins import default
from bankml.core.pins.files import unreadable
from bankml.core.pins.record import find_fork, home_fork, pinned_sha256, read_record, remove_pin
from bankml.core.refusal import EXIT_OTHER, Refusal

_WEIGHT_TYPE = re.compile(r"[-._](?:[fq]\d+|bf16|i?q\d+_\w+|tq\d+_\d|p(?:q2_0|tq1_0)|mxfp4)(?:_g\d+)?\Z")


@dataclass(frozen=True)
class Entry:
    """One model file in the store.

    Args:
        name: what commands call it: the file's stem in lower case.
        sha256: what its record says, None when unpinned.
        problem: why it is unpinned, where a record stands that cannot be used.
    """

    name: str
    path: Path
    size: int
    sha256: str | None
    source: str | None
    problem: str | None = None

    @property
    def base(self) -> str:
        """The name without its weight type: ``smollm2-135m-instruct`` of ``smollm2-135m-instruct.q4_1``."""
        return _WEIGHT_TYPE.sub("", self.name)

    def arch(self) -> str | None:
        """``general.architecture`` as the header says, None when the guard does not play the file."""
        from bankml.core.gguf.guard import judge

        try:
            arch = judge(self.path).as_dict().get("arch")
        except (OSError, Refusal):
            return None
        return arch if isinstance(arch, str) else None

    def as_dict(self) -> dict[str, Any]:
        """For ``bankml list --json``."""
        return {
            "name": self.name,
            "file": self.path.name,
            "path": str(self.path),
            "bytes": self.size,
            "sha256": self.sha256,
            "pinned": self.sha256 is not None,
            "problem": self.problem,
            "source": self.source,
            "arch": self.arch(),
        }


def entries() -> list[Entry]:
    """Every model file of the store by name; of two files whose names differ only in case, the first."""
    found: dict[str, Entry] = {}
    directory = models_dir()
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix.lower() == ".gguf" and path.is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(directory, error) from error
    for path in paths:
        entry = _entry(path)
        found.setdefault(entry.name, entry)
    return [found[name] for name in sorted(found)]


def find_exact(name: str) -> Entry | None:
    """The model of that name: stem or file name in any case, with or without ``:latest``."""
    wanted = _plain(name)
    return next((entry for entry in entries() if entry.name == wanted), None)


def find(name: str) -> Entry | None:
    """The model of that name, or the only one whose name is that with a weight type behind it."""
    exact = find_exact(name)
    if exact is not None:
        return exact
    wanted = _plain(name)
    alike = [entry for entry in entries() if entry.base == wanted]
    return alike[0] if len(alike) == 1 else None


def _plain(name: str) -> str:
    return name.lower().removesuffix(":latest").removesuffix(".gguf")


def resolve_model(name_or_path: str | Path | None) -> Path:
    """The file that a person means: a path, a name from ``bankml list``, or (None) the default model.

    Raises:
        Refusal: there is no such file or name (exit code 1, HTTP 404); it says what to do.
    """
    if name_or_path is None:
        path = models_dir() / default.DEFAULT.file
        if not path.is_file():
            raise _missing(f"the default model, {default.DEFAULT.file}, is not on this machine", "`bankml pull` fetches it")
        return path
    path = Path(name_or_path)
    try:
        if path.is_file():
            return path
        if isinstance(name_or_path, Path) or os.sep in name_or_path:
            raise _obstacle(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:  # a NUL in the name
        raise _missing(f"cannot read {name_or_path!r}", "that is no file name") from error
    entry = find(str(name_or_path))
    if entry is None:
        if os.path.lexists(path):
            raise unreadable(path, _obstacle(path))
        raise _missing(
            f"cannot read {name_or_path}: no such file, and no model of that name",
            "`bankml list` shows the names, `bankml pull` fetches the default model",
        )
    return entry.path


def _obstacle(path: Path) -> OSError:
    """Why what stands under a path is not a file to read, or why nothing stands there."""
    try:
        path.stat()
    except FileNotFoundError as error:
        return OSError(error.errno, "is a link that leads nowhere") if path.is_symlink() else error
    except OSError as error:
        return error
    return IsADirectoryError() if path.is_dir() else OSError(errno.EINVAL, "is not a regular file")


def remove(entry: Entry) -> None:
    """Delete a model of the store and its pin; of a link, the link alone.

    Raises:
        Refusal: its record cannot be read, or is none.
        OSError: it cannot be deleted.
    """
    entry.path.unlink()
    remove_pin(home_fork(entry.path.name), entry.path.name)


def _missing(message: str, hint: str) -> Refusal:
    return Refusal("model.not_found", message, hint=hint, status=404, exit_code=EXIT_OTHER)


def _entry(path: Path) -> Entry:
    sha256 = source = problem = None
    try:
        fork = find_fork(path)
        if fork is not None:
            sha256 = pinned_sha256(fork, path.name)
            source = _source(read_record(fork))
    except Refusal as refusal:
        sha256 = None
        problem = refusal.found or refusal.message
    return Entry(path.stem.lower(), path, path.stat().st_size, sha256, source, problem)


def _source(record: dict[str, Any]) -> str | None:
    repo, revision, url = (record.get(key) for key in ("source_repo", "source_revision", "source_url"))
    if isinstance(repo, str):
        return f"{repo} {revision}" if isinstance(revision, str) else repo
    if isinstance(url, str):
        return url
    came_from = record.get("pinned_from")
    return came_from if isinstance(came_from, str) else None
