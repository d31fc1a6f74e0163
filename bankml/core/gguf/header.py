# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a GGUF header says: its metadata pairs and its tensors, as plain records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from bankml.core.gguf import limits
from bankml.core.gguf.file import FileBytes
from bankml.core.refusal import EXIT_TRUNCATED, Refusal

Buffer = bytes | FileBytes
Scalar = int | float | bool | str


class Truncated(Refusal):
    """The bytes end before the header does: ``need`` bytes at least are wanted."""

    def __init__(self, need: int, have: int) -> None:
        super().__init__(
            "gguf.truncated",
            f"guard needs {need} header bytes: file truncated",
            where=f"offset {have}",
            found=f"{have} bytes",
            allowed=f"at least {need} bytes",
            hint="fetch the file again",
            exit_code=EXIT_TRUNCATED,
        )
        self.need = need


class Array(NamedTuple):
    """An array value as it lies in the file: element type, number of elements, and the span of their bytes."""

    type: int
    n: int
    start: int
    end: int


class Text(NamedTuple):
    """A long string as it lies in the file: the span of its bytes, known to be UTF-8 without zero bytes."""

    start: int
    end: int


class Entry(NamedTuple):
    """One metadata pair: value type, scalar or where it lies, file offsets of the key and of the value."""

    type: int
    value: Scalar | Array | Text
    offset: int
    value_offset: int


class TensorInfo(NamedTuple):
    """One tensor: ``dims[0]`` is the row length; ``offset`` counts from the start of the file.

    ``n_bytes`` is 0 where the type has no known layout; such a file does not pass the mainline guard.
    """

    name: str
    dims: tuple[int, ...]
    type_id: int
    offset: int
    n_bytes: int
    n_elements: int
    relative: int
    """The offset as written, from the start of the data section."""
    entry: int
    """File offset of this tensor's entry in the header."""
    tail: int
    """File offset of the entry's last two fields, type and offset."""


@dataclass
class Header:
    """A header whose form is sound; whether the file may be played is the guard's question."""

    version: int
    n_tensors: int
    n_kv: int
    entries: dict[str, Entry] = field(default_factory=dict)
    tensors: list[TensorInfo] = field(default_factory=list)
    alignment: int = limits.DEFAULT_ALIGNMENT
    header_end: int = 0
    data_start: int = 0

    def scalar(self, key: str) -> Scalar | None:
        """The value of a key that holds no array and no long string, or None."""
        entry = self.entries.get(key)
        return None if entry is None or isinstance(entry.value, Array | Text) else entry.value

    def text(self, key: str) -> str | None:
        """The value of a key that holds a string of no absurd length, or None."""
        value = self.scalar(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        """The value of a key that holds an integer (a boolean counts as one), or None."""
        value = self.scalar(key)
        return int(value) if isinstance(value, int) else None


def short(data: bytes | str, limit: int = 48) -> str:
    """The text in quotes, cut to ``limit`` characters, for a message."""
    text = data if isinstance(data, str) else data[: 4 * limit].decode("utf-8", "backslashreplace")
    return f'"{text}"' if len(text) <= limit else f'"{text[:limit]}…" ({len(data)} long)'


def at(offset: int, what: str) -> str:
    """A place in the file, for :attr:`Refusal.where`."""
    return f"offset {offset}, {what}"
