# SPDX-License-Identifier: MIT OR Apache-2.0
"""A GGUF header, parsed from the first bytes of a file without believing any count in it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from mmap import mmap
from typing import Final, NamedTuple

from bankml.core.gguf import limits
from bankml.core.gguf.types import (
    ARRAY,
    BOOL,
    STRING,
    STRUCT_CODES,
    TYPES,
    U32,
    VALUE_TYPES,
)
from bankml.core.refusal import EXIT_TRUNCATED, Refusal

Buffer = bytes | mmap
Scalar = int | float | bool | str

_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_SCALARS: Final = {number: struct.Struct("<" + code) for number, code in STRUCT_CODES.items()}
_MIN_KV: Final = 8 + 1 + 4 + 1
_MIN_TENSOR: Final = 8 + 1 + 4 + 4 + 8
_STEP: Final = 1 << 20


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
    """An array value as it lies in the file: element type, count, and the span of its elements."""

    type: int
    n: int
    start: int
    end: int


class Entry(NamedTuple):
    """One metadata pair: value type, scalar or :class:`Array`, offsets of the key and of the value."""

    type: int
    value: Scalar | Array
    offset: int
    value_offset: int


class TensorInfo(NamedTuple):
    """One tensor: ``dims[0]`` is the row length; ``offset`` counts from the start of the file."""

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


@dataclass
class Header:
    """What the header says; only :attr:`unknown_types` may still stand in the way of reading the tensors."""

    version: int
    n_tensors: int
    n_kv: int
    entries: dict[str, Entry] = field(default_factory=dict)
    tensors: list[TensorInfo] = field(default_factory=list)
    alignment: int = limits.DEFAULT_ALIGNMENT
    header_end: int = 0
    data_start: int = 0

    def scalar(self, key: str) -> Scalar | None:
        """The value of a key that holds no array, or None."""
        entry = self.entries.get(key)
        return None if entry is None or isinstance(entry.value, Array) else entry.value


def short(data: bytes | str, limit: int = 48) -> str:
    """The text in quotes, cut to ``limit`` characters, for a message."""
    text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
    return f'"{text}"' if len(text) <= limit else f'"{text[:limit]}…" ({len(data)} long)'


def at(offset: int, what: str) -> str:
    """A place in the file, for :attr:`Refusal.where`."""
    return f"offset {offset}, {what}"


class _Parser:
    """Walks one buffer; ``pos`` never passes ``size`` before the bytes in between were known to exist."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.size = len(data)
        self.pos = 0
        self.strings = 0

    def need(self, n: int) -> None:
        if self.pos + n > self.size:
            raise Truncated(self.pos + n, self.size)

    def u32(self) -> int:
        self.need(4)
        value: int = _U32.unpack_from(self.data, self.pos)[0]
        self.pos += 4
        return value

    def u64(self) -> int:
        self.need(8)
        value: int = _U64.unpack_from(self.data, self.pos)[0]
        self.pos += 8
        return value

    def bytes(self, n: int) -> bytes:
        self.need(n)
        value = self.data[self.pos : self.pos + n]
        self.pos += n
        return value

    def name(self, field_name: str, what: str, longest: int) -> str:
        """A key or a tensor name: not empty, not over-long, UTF-8, without a zero byte."""
        start = self.pos
        length = self.u64()
        where = at(start, what)
        if length == 0:
            raise Refusal(f"gguf.{field_name}-empty", f"{what} is empty", where=where, found="length 0", allowed="1 byte or more")
        if length > longest:
            raise Refusal(
                f"gguf.{field_name}-length",
                f"{what} is too long",
                where=where,
                found=f"length {length}",
                allowed=f"{longest} bytes at most",
            )
        raw = self.bytes(length)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refusal(
                f"gguf.{field_name}-utf8",
                f"{what} is not UTF-8",
                where=at(start + 8 + error.start, what),
                found=f"byte 0x{raw[error.start]:02x} in {short(raw)}",
                allowed="UTF-8",
            ) from None
        if "\0" in text:
            raise Refusal(
                f"gguf.{field_name}-nul",
                f"{what} holds a zero byte, where b11192 would cut it",
                where=at(start + 8 + raw.index(0), what),
                found=short(raw),
                allowed="text without zero bytes",
            )
        return text

    def string(self, key: str) -> str:
        start = self.pos
        length = self.u64()
        self.check_string(length, start, key)
        raw = self.bytes(length)
        if 0 in raw:
            raise _nul(start + 8 + raw.index(0), key)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refusal(
                "gguf.string-utf8",
                f"the value of {short(key)} is not UTF-8",
                where=at(start + 8 + error.start, f"value of {short(key)}"),
                found=f"byte 0x{raw[error.start]:02x}",
                allowed="UTF-8",
            ) from None

    @staticmethod
    def check_string(length: int, start: int, key: str) -> None:
        if length > limits.MAX_STRING:
            raise Refusal(
                "gguf.string-length",
                f"a string of {short(key)} claims an absurd length",
                where=at(start, f"value of {short(key)}"),
                found=f"length {length}",
                allowed=f"{limits.MAX_STRING} bytes at most",
            )

    def value_type(self, key: str) -> int:
        start = self.pos
        number = self.u32()
        if number not in VALUE_TYPES:
            raise Refusal(
                "gguf.value-type",
                f"unknown gguf value type {number} of key {short(key)}",
                where=at(start, f"value type of {short(key)}"),
                found=str(number),
                allowed="0 to 12",
            )
        return number

    def boolean(self, key: str) -> bool:
        start = self.pos
        byte = self.bytes(1)[0]
        if byte > 1:
            raise _boolean(start, byte, key)
        return bool(byte)

    def array(self, key: str) -> Array:
        start = self.pos
        element = self.value_type(key)
        if element == ARRAY:
            raise self.nested(start, key)
        count_at = self.pos
        count = self.u64()
        if count > limits.MAX_ARRAY:
            raise Refusal(
                "gguf.array-length",
                f"the array {short(key)} claims an absurd count",
                where=at(count_at, f"count of {short(key)}"),
                found=str(count),
                allowed=f"{limits.MAX_ARRAY} elements at most",
            )
        first = self.pos
        if element == STRING:
            self.step_over_strings(count, count_at, key)
        else:
            span = count * VALUE_TYPES[element].bytes
            self.need(span)
            if element == BOOL:
                self.check_booleans(first, first + span, key)
            self.pos = first + span
        return Array(element, count, first, self.pos)

    def nested(self, start: int, key: str) -> Refusal:
        """The refusal for an array of arrays: b11192 reads none; past the depth limit the walk itself stops."""
        depth = 1
        element = ARRAY
        while element == ARRAY:
            depth += 1
            if depth > limits.MAX_DEPTH:
                return Refusal(
                    "gguf.array-depth",
                    f"gguf arrays nested deeper than {limits.MAX_DEPTH} in {short(key)}",
                    where=at(start, f"value of {short(key)}"),
                    found=f"more than {limits.MAX_DEPTH} levels",
                    allowed="arrays of scalars or strings",
                )
            self.u64()
            element = self.value_type(key)
        return Refusal(
            "gguf.array-nested",
            f"{short(key)} is an array of arrays, which b11192 does not read",
            where=at(start, f"value of {short(key)}"),
            found=f"{depth} levels",
            allowed="arrays of scalars or strings",
        )

    def step_over_strings(self, count: int, count_at: int, key: str) -> None:
        self.strings += count
        if self.strings > limits.MAX_STRINGS:
            raise Refusal(
                "gguf.string-count",
                f"more strings than any vocabulary has, in {short(key)}",
                where=at(count_at, f"count of {short(key)}"),
                found=f"{self.strings} strings up to here",
                allowed=f"{limits.MAX_STRINGS} in all",
            )
        self.need(count * 8)
        data, size, pos, read = self.data, self.size, self.pos, _U64.unpack_from
        own_zeros = 7 * count
        try:
            for _ in range(count):
                length = read(data, pos)[0]
                if not 0 < length < 256:
                    own_zeros += length.to_bytes(8, "little").count(0) - 7
                    self.check_string(length, pos, key)
                pos += 8 + length
        except struct.error:
            raise Truncated(pos + 8, size) from None
        if pos > size:
            raise Truncated(pos, size)
        # Counting zero bytes in bulk is much cheaper than looking into each string.
        if self.zeros(self.pos, pos) > own_zeros:
            raise self.find_zero(count, key)
        self.pos = pos

    def zeros(self, start: int, end: int) -> int:
        return sum(self.data[low : min(low + _STEP, end)].count(0) for low in range(start, end, _STEP))

    def find_zero(self, count: int, key: str) -> Refusal:
        pos = self.pos
        for _ in range(count):
            length = _U64.unpack_from(self.data, pos)[0]
            place = self.data[pos + 8 : pos + 8 + length].find(0)
            if place >= 0:
                return _nul(pos + 8 + place, key)
            pos += 8 + length
        raise AssertionError("a zero byte was counted and not found")

    def check_booleans(self, start: int, end: int, key: str) -> None:
        for low in range(start, end, _STEP):
            chunk = self.data[low : min(low + _STEP, end)]
            rest = chunk.translate(None, b"\0\1")
            if rest:
                raise _boolean(low + chunk.index(rest[0]), rest[0], key)

    def value(self, number: int, key: str) -> Scalar | Array:
        if number == STRING:
            return self.string(key)
        if number == ARRAY:
            return self.array(key)
        if number == BOOL:
            return self.boolean(key)
        shape = _SCALARS[number]
        self.need(shape.size)
        value: int | float = shape.unpack_from(self.data, self.pos)[0]
        self.pos += shape.size
        return value

    def pair(self, index: int, entries: dict[str, Entry]) -> None:
        start = self.pos
        key = self.name("key", f"key {index}", limits.MAX_KEY)
        if key in entries:
            raise Refusal(
                "gguf.key-duplicate",
                f"key {short(key)} appears twice",
                where=at(start, f"key {index}"),
                found=f"first at offset {entries[key].offset}",
                allowed="each key once",
            )
        number = self.value_type(key)
        value_at = self.pos
        entries[key] = Entry(number, self.value(number, key), start, value_at)

    def tensor(self, index: int) -> TensorInfo:
        start = self.pos
        name = self.name("tensor-name", f"name of tensor {index}", limits.MAX_NAME)
        dims_at = self.pos
        n_dims = self.u32()
        if n_dims > limits.MAX_DIMS:
            raise Refusal(
                "gguf.tensor-dims",
                f"tensor {short(name)} has too many dimensions",
                where=at(dims_at, f"tensor {short(name)}"),
                found=str(n_dims),
                allowed=f"{limits.MAX_DIMS} at most",
            )
        self.need(8 * n_dims + 12)
        dims = struct.unpack_from(f"<{n_dims}Q", self.data, self.pos)
        elements = _elements(name, dims, self.pos)
        self.pos += 8 * n_dims
        type_id = self.u32()
        relative = self.u64()
        kind = TYPES.get(type_id)
        size = 0
        if kind is not None:
            row = dims[0] if dims else 1
            if row % kind.block:
                raise Refusal(
                    "gguf.tensor-partial-block",
                    f"rows of tensor {short(name)} end inside a {kind.name} block",
                    where=at(dims_at + 4, f"tensor {short(name)}"),
                    found=f"{row} elements a row",
                    allowed=f"a multiple of {kind.block}",
                )
            size = elements // kind.block * kind.bytes
        return TensorInfo(name, dims, type_id, 0, size, elements, relative, start)


def _nul(offset: int, key: str) -> Refusal:
    return Refusal(
        "gguf.string-nul",
        f"a string of {short(key)} holds a zero byte, where b11192 would cut it",
        where=at(offset, f"value of {short(key)}"),
        found="byte 0x00",
        allowed="text without zero bytes",
    )


def _boolean(offset: int, byte: int, key: str) -> Refusal:
    return Refusal(
        "gguf.bool",
        f"a boolean of {short(key)} is neither 0 nor 1",
        where=at(offset, f"value of {short(key)}"),
        found=f"byte {byte}",
        allowed="0 or 1",
    )


def _elements(name: str, dims: tuple[int, ...], dims_at: int) -> int:
    elements = 1
    for place, count in enumerate(dims):
        where = at(dims_at + 8 * place, f"dimension {place} of tensor {short(name)}")
        if count == 0:
            raise Refusal(
                "gguf.tensor-zero-dim",
                f"tensor {short(name)} has an empty dimension",
                where=where,
                found="0",
                allowed="1 or more",
            )
        # b11192 asks for a product strictly below the signed 64-bit limit, checked by division.
        if count > limits.INT64_MAX or (place and limits.INT64_MAX // count <= elements):
            raise Refusal(
                "gguf.tensor-elements",
                f"tensor {short(name)} has more elements than can be counted",
                where=where,
                found=" × ".join(map(str, dims)),
                allowed=f"less than {limits.INT64_MAX} elements",
            )
        elements *= count
    return elements


def _count(parser: _Parser, what: str, code: str, most: int) -> int:
    start = parser.pos
    count = parser.u64()
    if count > most:
        raise Refusal(
            code,
            f"the header claims an absurd number of {what}",
            where=at(start, f"count of {what}"),
            found=str(count),
            allowed=f"{most} at most",
        )
    return count


def _preamble(parser: _Parser) -> int:
    magic = parser.data[:4]
    if magic != b"GGUF":
        if parser.size < 4 and magic == b"GGUF"[: parser.size] and parser.size:
            raise Truncated(24, parser.size)
        raise Refusal("gguf.magic", "not a GGUF file", where=at(0, "magic"), found=repr(magic), allowed="b'GGUF'")
    parser.pos = 4
    version = parser.u32()
    if version in limits.VERSIONS:
        return version
    where = at(4, "version")
    allowed = "version 2 or 3"
    if version & 0xFFFF == 0 and version:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        raise Refusal(
            "gguf.big-endian",
            "a big-endian GGUF file",
            where=where,
            found=f"version {swapped} in big-endian order",
            allowed="little-endian files",
        )
    if version == 1:
        raise Refusal(
            "gguf.version-1",
            "GGUF version 1 is no longer read",
            where=where,
            found="1",
            allowed=allowed,
            hint="convert the model again",
        )
    raise Refusal("gguf.version", "a GGUF version that b11192 does not read", where=where, found=str(version), allowed=allowed)


def _alignment(header: Header) -> int:
    entry = header.entries.get("general.alignment")
    if entry is None:
        return limits.DEFAULT_ALIGNMENT
    value = entry.value
    where = at(entry.value_offset, "general.alignment")
    if isinstance(value, Array) or not isinstance(value, int) or value <= 0:
        shown = f"<array {value.n}>" if isinstance(value, Array) else str(value) if not isinstance(value, str) else short(value)
        raise Refusal(
            "gguf.alignment",
            f"general.alignment {shown} is not a positive integer",
            where=where,
            found=f"{VALUE_TYPES[entry.type].name} {shown}",
            allowed="a u32 power of two",
        )
    if entry.type != U32:
        raise Refusal(
            "gguf.alignment-type",
            "general.alignment has the wrong type",
            where=at(entry.value_offset - 4, "value type of general.alignment"),
            found=VALUE_TYPES[entry.type].name,
            allowed="u32",
        )
    if value & (value - 1):
        raise Refusal(
            "gguf.alignment-power",
            f"general.alignment {value} is not a power of two",
            where=where,
            found=str(value),
            allowed="a power of two",
        )
    if value > limits.MAX_ALIGNMENT:
        raise Refusal(
            "gguf.alignment-size",
            f"general.alignment {value} is absurd",
            where=where,
            found=str(value),
            allowed=f"{limits.MAX_ALIGNMENT} at most",
        )
    return value


def parse_header(data: Buffer) -> Header:
    """The header at the start of ``data``; tensor offsets are those of the file.

    Costs time and memory in proportion to the bytes that are there, never to a count that is only claimed.

    Raises:
        Truncated: the bytes end first.
        Refusal: the header is malformed (``gguf.*``).

    Source: gguf_init_from_reader, ggml/src/gguf.cpp.
    """
    parser = _Parser(data)
    version = _preamble(parser)
    n_tensors = _count(parser, "tensors", "gguf.tensor-count", limits.MAX_TENSORS)
    n_kv = _count(parser, "keys", "gguf.kv-count", limits.MAX_KV)
    header = Header(version, n_tensors, n_kv)
    parser.need(n_kv * _MIN_KV + n_tensors * _MIN_TENSOR)
    for index in range(n_kv):
        parser.pair(index, header.entries)
    header.alignment = _alignment(header)
    names: dict[str, int] = {}
    tensors = []
    for index in range(n_tensors):
        tensor = parser.tensor(index)
        if tensor.name in names:
            raise Refusal(
                "gguf.tensor-duplicate",
                f"tensor {short(tensor.name)} appears twice",
                where=at(tensor.entry, f"name of tensor {index}"),
                found=f"first at offset {names[tensor.name]}",
                allowed="each name once",
            )
        names[tensor.name] = tensor.entry
        tensors.append(tensor)
    header.header_end = parser.pos
    header.data_start = -(-parser.pos // header.alignment) * header.alignment
    header.tensors = [tensor._replace(offset=header.data_start + tensor.relative) for tensor in tensors]
    return header
