# SPDX-License-Identifier: MIT OR Apache-2.0
"""FORK.json: the record that pins a file's sha256, and says where the file came from."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bankml.core.home import forks_dir
from bankml.core.pins.files import changing, open_regular, ready, unreadable, write_atomic
from bankml.core.refusal import EXIT_OTHER, Refusal

LARGEST_RECORD = 16 << 20
_NO_RECORD: dict[str, Any] = {"files": []}
_SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")


class _MalformedError(ValueError):
    """The bytes are not the JSON that a record must be."""


@dataclass(frozen=True)
class Provenance:
    """Where a pinned file came from; None is what nobody knows."""

    pinned_from: str
    source_repo: str | None = None
    source_url: str | None = None
    source_revision: str | None = None
    licence_tag: str | None = None

    def members(self) -> dict[str, str | None]:
        """The members of FORK.json, with the time of now."""
        return {
            "source_repo": self.source_repo,
            "source_url": self.source_url,
            "source_revision": self.source_revision,
            "licence_tag": self.licence_tag,
            "imported_at_utc": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "pinned_from": self.pinned_from,
        }


def normal_sha256(text: str) -> str | None:
    """64 hex digits in lower case, or None when it is anything else."""
    return text.lower() if _SHA256.match(text) else None


def given_sha256(text: str) -> str:
    """The sha256 that a person gave.

    Raises:
        Refusal: it is not 64 hex digits.
    """
    digest = normal_sha256(text.strip())
    if digest is None:
        raise Refusal("pin.sha256", "that is no sha256", found=text[:80], allowed="64 hex digits", exit_code=EXIT_OTHER)
    return digest


def fork_name(file_name: str) -> str:
    """The file name of the record of ``file_name``."""
    return f"{file_name}.FORK.json"


def home_fork(file_name: str) -> Path:
    """Where the record of a file stands in bankml's own directory of pins."""
    return forks_dir() / fork_name(file_name)


def find_fork(path: Path) -> Path | None:
    """The record of a file: in bankml's directory of pins, else beside the file, else None."""
    for candidate in (home_fork(path.name), path.parent / fork_name(path.name)):
        try:
            # A link that leads nowhere is a record that cannot be read.
            candidate.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                continue
            raise unreadable(candidate, error) from error
        return candidate
    return None


def unpinned(name: str, fork: Path | None, why: str | None = None) -> Refusal:
    """The refusal for a file that no record vouches for."""
    return Refusal(
        "pin.unpinned",
        f"{name} has no sha256 record in FORK.json: unpinned, refused",
        where=str(fork) if fork is not None else None,
        found=why,
    )


def mismatch(name: str, got: str, want: str) -> Refusal:
    """The refusal for a file whose bytes are not the pinned ones."""
    return Refusal("pin.mismatch", f"{name} sha256 {got} != pinned {want}: refused")


def pinned_sha256(fork: Path, name: str) -> str:
    """The sha256 that the record ``fork`` holds for the file called ``name``.

    It counts only if exactly one value stands there: the object of ``files`` whose ``path`` equals the name, with a
    ``sha256`` of 64 hex digits.

    Raises:
        Refusal: the record cannot be read (exit code 1), or pins nothing of that name (``pin.unpinned``).
    """
    try:
        return _only_sha256(_parse(_read(fork)), name)
    except _MalformedError as error:
        raise unpinned(name, fork, str(error)) from error


def pin_of(fork: Path, name: str) -> str | None:
    """As ``pinned_sha256``, but None when a sound record says nothing of that name.

    Raises:
        Refusal: the record cannot be read (exit code 1), or is none (``pin.record``).
    """
    if any(entry.get("path") == name for entry in read_record(fork)["files"]):
        return pinned_sha256(fork, name)
    return None


def read_record(fork: Path) -> dict[str, Any]:
    """The whole record, checked to be an object with a list ``files`` of objects.

    Raises:
        Refusal: it cannot be read (exit code 1) or is not such a record (``pin.record``).
    """
    try:
        return _parse(_read(fork))
    except _MalformedError as error:
        raise Refusal("pin.record", f"{fork.name} is no FORK.json", where=str(fork), found=str(error)) from error


def write_pin(fork: Path, name: str, size: int, sha256: str, provenance: Provenance) -> None:
    """Pin a file: make the record, or add the file to the record that stands there; atomic, and one writer after the other.

    Raises:
        Refusal: what stands there cannot be read or is no record, or pins that name to another sha256 (``pin.conflict``).
        OSError: it cannot be written.
    """
    entry = {"path": name, "bytes": size, "sha256": sha256}
    with changing(fork.parent):
        record: dict[str, Any] = {**provenance.members(), "files": []}
        if os.path.lexists(fork):
            record = read_record(fork)
        standing = [old for old in record["files"] if old.get("path") == name]
        if any(normal_sha256(str(old.get("sha256"))) != sha256 for old in standing):
            raise Refusal(
                "pin.conflict",
                f"{fork.name} already pins {name} to another sha256",
                where=str(fork),
                found=str(standing[0].get("sha256")),
                allowed=sha256,
                hint="remove that record first",
            )
        if not standing:
            record["files"].append(entry)
            write_atomic(fork, _print(record))


def remove_pin(fork: Path, name: str) -> None:
    """Take a file out of its record; the record goes when nothing else stands in it, or when it is none.

    Raises:
        Refusal: it cannot be read.
        OSError: it cannot be deleted.
    """
    if not os.path.lexists(fork):
        return
    with changing(fork.parent):
        try:
            record = _parse(_read(fork)) if fork.exists() else _NO_RECORD
        except _MalformedError:
            record = _NO_RECORD
        rest = [entry for entry in record["files"] if entry.get("path") != name]
        if not rest:
            fork.unlink(missing_ok=True)
        elif len(rest) < len(record["files"]):
            write_atomic(fork, _print({**record, "files": rest}))


def _print(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, indent=2) + "\n").encode("ascii")


def _read(fork: Path) -> bytes:
    try:
        with open_regular(fork) as file:
            data = ready(file.read(LARGEST_RECORD + 1))
    except OSError as error:
        raise unreadable(fork, error) from error
    if len(data) > LARGEST_RECORD:
        raise _MalformedError(f"more than {LARGEST_RECORD} bytes")
    return data


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _MalformedError("a key stands twice in one object")
    return members


def _no_constant(word: str) -> Any:
    raise _MalformedError(f"{word} is not JSON")


def _parse(data: bytes) -> dict[str, Any]:
    try:
        record = json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except _MalformedError:
        raise
    except (ValueError, RecursionError) as error:
        raise _MalformedError(f"not JSON: {error}"[:200]) from error
    if not isinstance(record, dict) or not isinstance(record.get("files"), list):
        raise _MalformedError("no list 'files'")
    if not all(isinstance(entry, dict) for entry in record["files"]):
        raise _MalformedError("a member of 'files' that is no object")
    return record


def _only_sha256(record: dict[str, Any], name: str) -> str:
    found = {_entry_sha256(entry) for entry in record["files"] if entry.get("path") == name}
    if not found:
        raise _MalformedError("no record of that name")
    if len(found) > 1:
        raise _MalformedError("two records of that name that differ")
    return found.pop()


def _entry_sha256(entry: dict[str, Any]) -> str:
    value = entry.get("sha256")
    digest = normal_sha256(value) if isinstance(value, str) else None
    if digest is None:
        raise _MalformedError("a sha256 that is not 64 hex digits")
    return digest
