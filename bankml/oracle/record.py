# SPDX-License-Identifier: MIT OR Apache-2.0
"""The record of an oracle: a JSON file, gzipped when its name ends in ``.gz``."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bankml.core.pins.files import read_input, write_atomic
from bankml.refusal import EXIT_TRUNCATED, Refusal

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Record:
    """What the reference answered, and what it was made from."""

    kind: str
    made_with: dict[str, Any]
    """Version, variant, compiler, library hashes and flags of the reference."""
    model_sha256: str | None
    date: str
    options: dict[str, Any]
    body: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The members in the order of the file."""
        return {
            "kind": self.kind,
            "made_with": self.made_with,
            "model_sha256": self.model_sha256,
            "date": self.date,
            "options": self.options,
            "body": self.body,
        }


_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "made_with": (dict,),
    "model_sha256": (str, type(None)),
    "date": (str,),
    "options": (dict,),
    "body": (dict,),
}


def write_record(record: Record, path: Path) -> None:
    """Write the record under its final name in one step; equal records give equal bytes."""
    zipped = path.suffix == ".gz"
    text = json.dumps(
        record.as_dict(),
        ensure_ascii=True,
        allow_nan=False,
        indent=None if zipped else 1,
        separators=(",", ":" if zipped else ": "),
    )
    data = (text + "\n").encode("ascii")
    if zipped:
        data = gzip.compress(data, compresslevel=9, mtime=0)
    write_atomic(path, data)


def read_record(path: Path) -> Record:
    """Read a record, gzipped or not.

    Raises:
        Refusal: the file is not a record.
    """
    with path.open("rb") as file:
        data = read_input(file, str(path))
    if data[:2] == _GZIP_MAGIC:
        try:
            data = gzip.decompress(data)
        except EOFError as error:
            raise Refusal(
                "oracle.record", "the record ends before its gzip stream does", where=str(path), exit_code=EXIT_TRUNCATED
            ) from error
        except (OSError, zlib.error) as error:
            raise _malformed(path, str(error)) from error
    try:
        members = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _malformed(path, str(error)) from error
    if not isinstance(members, dict):
        raise _malformed(path, type(members).__name__)
    for name, types in _TYPES.items():
        if name not in members:
            raise _malformed(path, f"no member {name!r}")
        if not isinstance(members[name], types):
            raise _malformed(path, f"{name!r} is a {type(members[name]).__name__}")
    return Record(**{name: members[name] for name in _TYPES})


def _malformed(path: Path, found: str) -> Refusal:
    return Refusal(
        "oracle.record",
        "this is not a record of an oracle",
        where=str(path),
        found=found,
        allowed=f"a JSON object with {', '.join(_TYPES)}",
    )
