# SPDX-License-Identifier: MIT OR Apache-2.0
"""A GGUF file that passed the guard, opened for reading: metadata decoded and tensors read on demand."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bankml.core.gguf.file import FileBytes
from bankml.core.gguf.header import Array, Buffer, Entry, Header, Scalar, TensorInfo, Text, at, short
from bankml.core.gguf.parse import parse_header
from bankml.core.gguf.types import STRING, STRUCT_CODES
from bankml.core.refusal import Refusal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["GgufFile", "Header", "TensorInfo", "Value", "read_header"]

Value = Scalar | list[int] | list[float] | list[bool] | list[str]


def read_header(data: bytes | bytearray | memoryview) -> Header:
    """The header of a GGUF file of which ``data`` holds the first bytes.

    Raises:
        Truncated: ``data`` ends before the header does.
        Refusal: the header is malformed.
    """
    return parse_header(data if isinstance(data, bytes) else bytes(data))


class _Values(Mapping[str, Value]):
    """Metadata by key; arrays are decoded at first access and kept."""

    def __init__(self, entries: dict[str, Entry], data: Buffer) -> None:
        self._entries = entries
        self._data = data
        self._decoded: dict[str, Value] = {}

    def __getitem__(self, key: str) -> Value:
        value = self._entries[key].value
        if isinstance(value, Text):
            return self._data[value.start : value.end].decode("utf-8")
        if not isinstance(value, Array):
            return value
        if key not in self._decoded:
            self._decoded[key] = _strings(self._data, value, key) if value.type == STRING else _numbers(self._data, value)
        return self._decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries


def _numbers(data: Buffer, array: Array) -> list[int] | list[float] | list[bool]:
    return list(struct.unpack(f"<{array.n}{STRUCT_CODES[array.type]}", data[array.start : array.end]))


def _raw_strings(data: Buffer, array: Array) -> list[bytes]:
    region = data[array.start : array.end]
    found = []
    pos = 0
    read = struct.Struct("<Q").unpack_from
    for _ in range(array.n):
        start = pos + 8
        pos = start + read(region, pos)[0]
        found.append(region[start:pos])
    return found


def _strings(data: Buffer, array: Array, key: str) -> list[str]:
    raw = _raw_strings(data, array)
    try:
        return [text.decode() for text in raw]
    except UnicodeDecodeError:
        pos = array.start
        for index, text in enumerate(raw):
            try:
                text.decode()
            except UnicodeDecodeError as error:
                raise Refusal(
                    "gguf.string-utf8",
                    f"string {index} of {short(key)} is not UTF-8",
                    where=at(pos + 8 + error.start, f"value of {short(key)}"),
                    found=f"byte 0x{text[error.start]:02x}",
                    allowed="UTF-8",
                ) from None
            pos += 8 + len(text)
        raise


class GgufFile:
    """A GGUF file whose header the guard lets play, open for reading until :meth:`close`."""

    def __init__(self, path: Path, header: Header, data: FileBytes) -> None:
        self.path = path
        self.header = header
        self.kv: Mapping[str, Value] = _Values(header.entries, data)
        self.tensors: dict[str, TensorInfo] = {tensor.name: tensor for tensor in header.tensors}
        self._data = data

    @classmethod
    def open(cls, path: Path | str, engine: str = "mainline") -> Self:
        """Open the file after the guard has judged it.

        Raises:
            Refusal: the guard's first reason, with the others in ``extra["reasons"]``; or the file cannot be read.
        """
        from bankml.core.gguf.guard import admit

        place = Path(path)
        data = FileBytes.open(place)
        try:
            return cls(place, admit(data, engine, place.name), data)
        except BaseException:
            data.close()
            raise

    def get(self, key: str, default: Value | None = None) -> Value | None:
        """The value of ``key``, or ``default``."""
        return self.kv.get(key, default)

    def raw_strings(self, key: str) -> list[bytes]:
        """The elements of a string array as the bytes they are.

        Raises:
            KeyError: the key is absent or holds no array of strings.
        """
        value = self.header.entries[key].value
        if not isinstance(value, Array) or value.type != STRING:
            raise KeyError(key)
        return _raw_strings(self._data, value)

    def data(self, name: str) -> npt.NDArray[np.uint8]:
        """The tensor's bytes, read-only.

        Raises:
            Refusal: the file was cut short since it was opened.
        """
        import numpy as np

        tensor = self.tensors[name]
        return np.frombuffer(self._data[tensor.offset : tensor.offset + tensor.n_bytes], np.uint8)

    def read_into(self, place: npt.NDArray[np.uint8], name: str, first: int) -> None:
        """Fill an array with a tensor's bytes from ``first`` on.

        Raises:
            Refusal: as for ``data``.
        """
        self._data.read_into(place, self.tensors[name].offset + first)

    def close(self) -> None:
        """Close the file: nothing can be read any more, what was read stays."""
        self._data.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
