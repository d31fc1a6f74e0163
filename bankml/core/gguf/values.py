# SPDX-License-Identifier: MIT OR Apache-2.0
"""The walk over names and metadata values: every length is held against the bytes that are there."""

from __future__ import annotations

import codecs
import struct
from typing import Final

from bankml.core.gguf import limits
from bankml.core.gguf.header import Array, Buffer, Scalar, Text, Truncated, at, short
from bankml.core.gguf.types import ARRAY, BOOL, STRING, STRUCT_CODES, VALUE_TYPES
from bankml.core.refusal import Refusal

_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_SCALARS: Final = {number: struct.Struct("<" + code) for number, code in STRUCT_CODES.items()}
_STEP: Final = 1 << 20
_WINDOW: Final = 1 << 16


class Walk:
    """A position in a buffer that only moves over bytes known to exist.

    Every method that reads raises Truncated where the bytes end and a Refusal (``gguf.*``) where they are wrong.
    """

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.size = len(data)
        self.pos = 0
        self.strings = 0
        self.keys = 0
        self.kept = 0
        # Most reads are of a few bytes, and come from a window of the data; all that is in it may be read.
        self._base, self._end, self._window = 0, 0, b""

    def need(self, n: int) -> None:
        """Demand ``n`` more bytes."""
        end = self.pos + n
        if end > limits.MAX_HEADER:
            raise Refusal(
                "gguf.header-size",
                "the header claims to be absurdly long",
                where=at(self.pos, "header"),
                found=f"{end} bytes up to here",
                allowed=f"{limits.MAX_HEADER} at most",
            )
        if end > self.size:
            raise Truncated(end, self.size)

    def u32(self) -> int:
        """Read an unsigned 32-bit integer."""
        start, self.pos = self.pos, self.pos + self._ready(4)
        value: int = _U32.unpack_from(self._window, start - self._base)[0]
        return value

    def u64(self) -> int:
        """Read an unsigned 64-bit integer."""
        start, self.pos = self.pos, self.pos + self._ready(8)
        value: int = _U64.unpack_from(self._window, start - self._base)[0]
        return value

    def bytes(self, n: int) -> bytes:
        """Read ``n`` bytes."""
        start, self.pos = self.pos, self.pos + self._ready(n)
        return self._window[start - self._base : self.pos - self._base]

    def _ready(self, n: int) -> int:
        """Have the next ``n`` bytes in the window; returns ``n``."""
        if self.pos + n > self._end:
            self.need(n)
            self._base, self._window = self.pos, self.data[self.pos : self.pos + max(n, _WINDOW)]
            self._end = min(self._base + len(self._window), limits.MAX_HEADER)
        return n

    def name(self, code: str, what: str, longest: int) -> str:
        """Read a key or a tensor name: not empty, not over-long, UTF-8, without a zero byte."""
        start = self.pos
        length = self.u64()
        where = at(start, what)
        if length == 0:
            raise Refusal(f"gguf.{code}-empty", f"{what} is empty", where=where, found="length 0", allowed="1 byte or more")
        if length > longest:
            raise Refusal(
                f"gguf.{code}-length",
                f"{what} is too long",
                where=where,
                found=f"length {length}",
                allowed=f"{longest} bytes at most",
            )
        raw = self.bytes(length)
        text = _text(raw, start + 8, code, what)
        if 0 in raw:
            raise Refusal(
                f"gguf.{code}-nul",
                f"{what} holds a zero byte, where b11192 would cut it",
                where=at(start + 8 + raw.index(0), what),
                found=short(raw),
                allowed="text without zero bytes",
            )
        return text

    def value_type(self, key: str) -> int:
        """Read a value type."""
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

    def value(self, number: int, key: str) -> Scalar | Array | Text:
        """Read a value of that type; an array is stepped over."""
        if number == STRING:
            return self._string(key)
        if number == ARRAY:
            return self._array(key)
        if number == BOOL:
            self.need(1)
            self._check_booleans(self.pos, self.pos + 1, key)
        shape = _SCALARS[number]
        start, self.pos = self.pos, self.pos + self._ready(shape.size)
        value: int | float = shape.unpack_from(self._window, start - self._base)[0]
        return value

    def _string(self, key: str) -> str | Text:
        start = self.pos
        length = self.u64()
        _check_length(length, limits.MAX_TEXT, start, key)
        self.need(length)
        self.kept += length
        if self.kept > limits.KEPT_TEXT:
            self.kept -= length
            self._check_text(self.pos, self.pos + length, key)
            self.pos += length
            return Text(start + 8, self.pos)
        raw = self.bytes(length)
        if 0 in raw:
            raise _nul(start + 8 + raw.index(0), key)
        return _text(raw, start + 8, "string", f"the value of {short(key)}")

    def _check_text(self, start: int, end: int, key: str) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for low in range(start, end, _STEP):
            high = min(low + _STEP, end)
            chunk = self.data[low:high]
            held = len(decoder.getstate()[0])
            if 0 in chunk:
                raise _nul(low + chunk.index(0), key)
            try:
                decoder.decode(chunk, final=high == end)
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                raise _not_utf8(low - held + error.start, byte, "string", f"the value of {short(key)}") from None

    def _array(self, key: str) -> Array:
        start = self.pos
        element = self.value_type(key)
        if element == ARRAY:
            raise self._nested(start, key)
        count_at = self.pos
        count = self.u64()
        if count > limits.MAX_ARRAY:
            raise Refusal(
                "gguf.array-length",
                f"the array {short(key)} claims an absurd number of elements",
                where=at(count_at, f"count of {short(key)}"),
                found=str(count),
                allowed=f"{limits.MAX_ARRAY} elements at most",
            )
        first = self.pos
        if element == STRING:
            self._step_over_strings(count, count_at, key)
        else:
            span = count * VALUE_TYPES[element].bytes
            self.need(span)
            if element == BOOL:
                self._check_booleans(first, first + span, key)
            self.pos = first + span
        return Array(element, count, first, self.pos)

    def _nested(self, start: int, key: str) -> Refusal:
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

    def _step_over_strings(self, count: int, count_at: int, key: str) -> None:
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
        data, read = self.data, _U64.unpack_from
        pos, left = self.pos, count
        own_zeros = 7 * count
        while left:
            self.need(pos + 8 - self.pos)
            window, place = data[pos : pos + _WINDOW], 0
            last = len(window) - 8
            for done in range(1, left + 1):  # noqa: B007 - how many there were counts below
                length = read(window, place)[0]
                if length > 255:
                    own_zeros += length.to_bytes(8, "little").count(0) - 7
                    _check_length(length, limits.MAX_STRING, pos + place, key)
                elif not length:
                    own_zeros += 1
                place += 8 + length
                if place > last:
                    break
            left -= done
            pos += place
        self.need(pos - self.pos)
        # Counting zero bytes in bulk is much cheaper than looking into each string.
        zeros = sum(data[low : min(low + _STEP, pos)].count(0) for low in range(self.pos, pos, _STEP))
        if zeros > own_zeros:
            raise self._find_zero(count, key)
        self.pos = pos

    def _find_zero(self, count: int, key: str) -> Refusal:
        pos = self.pos
        for _ in range(count):
            length = int.from_bytes(self.data[pos : pos + 8], "little")
            place = self.data[pos + 8 : pos + 8 + length].find(0)
            if place >= 0:
                return _nul(pos + 8 + place, key)
            pos += 8 + length
        # It was written between the two looks.
        return _nul(self.pos, key)

    def _check_booleans(self, start: int, end: int, key: str) -> None:
        for low in range(start, end, _STEP):
            chunk = self.data[low : min(low + _STEP, end)]
            rest = chunk.translate(None, b"\0\1")
            if rest:
                raise Refusal(
                    "gguf.bool",
                    f"a boolean of {short(key)} is neither 0 nor 1",
                    where=at(low + chunk.index(rest[0]), f"value of {short(key)}"),
                    found=f"byte {rest[0]}",
                    allowed="0 or 1",
                )


def _text(raw: bytes, start: int, code: str, what: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(start + error.start, raw[error.start], code, what) from None


def _not_utf8(offset: int, byte: int, code: str, what: str) -> Refusal:
    found = f"byte 0x{byte:02x}"
    return Refusal(f"gguf.{code}-utf8", f"{what} is not UTF-8", where=at(offset, what), found=found, allowed="UTF-8")


def _check_length(length: int, most: int, start: int, key: str) -> None:
    if length > most:
        raise Refusal(
            "gguf.string-length",
            f"a string of {short(key)} claims an absurd length",
            where=at(start, f"value of {short(key)}"),
            found=f"length {length}",
            allowed=f"{most} bytes at most",
        )


def _nul(offset: int, key: str) -> Refusal:
    return Refusal(
        "gguf.string-nul",
        f"a string of {short(key)} holds a zero byte, where b11192 would cut it",
        where=at(offset, f"value of {short(key)}"),
        found="byte 0x00",
        allowed="text without zero bytes",
    )
