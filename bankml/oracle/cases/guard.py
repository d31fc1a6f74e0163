# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hostile and harmless GGUF files, each with what the guard must say of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bankml.core.gguf import limits
from bankml.core.gguf.types import ARRAY, BOOL, F32, I32, STRING, STRUCT_CODES, TYPES, U8, U32, U64

MINUS_ONE: Final = (1 << 64) - 1
FIRST_KEY: Final = 24
"""File offset of the first key."""


class Case(NamedTuple):
    """One file. ``code`` None: it plays. ``offset``: where the fault lies. ``reads``: how far the reference is asked to go."""

    name: str
    data: bytes
    code: str | None = None
    offset: int | None = None
    reads: str = "header"
    """``header``: the form; ``data``: the form and the tensor data; ``model``: a whole model is loaded; ``server``: by
    llama-server, which then answers a prompt."""
    stricter: bool = False
    """The guard refuses on purpose what the reference reads."""


def u32(n: int) -> bytes:
    """A little-endian 32-bit integer, taken modulo 2^32."""
    return struct.pack("<I", n & 0xFFFFFFFF)


def u64(n: int) -> bytes:
    """A little-endian 64-bit integer, taken modulo 2^64."""
    return struct.pack("<Q", n & MINUS_ONE)


def text(value: str | bytes) -> bytes:
    """A GGUF string."""
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw)) + raw


def pair(key: str | bytes, kind: int, value: object) -> bytes:
    """A metadata pair; ``value`` given as bytes is taken as it is, except for strings."""
    if kind == STRING and isinstance(value, str | bytes):
        payload = text(value)
    elif isinstance(value, bytes):
        payload = value
    else:
        payload = struct.pack("<" + STRUCT_CODES[kind], value)
    return text(key) + u32(kind) + payload


def array(key: str, kind: int, values: Sequence[object]) -> bytes:
    """A metadata pair that holds an array."""
    if kind == STRING:
        body = b"".join(text(value) for value in values if isinstance(value, str | bytes))
    else:
        body = struct.pack(f"<{len(values)}{STRUCT_CODES[kind]}", *values)
    return pair(key, ARRAY, u32(kind) + u64(len(values)) + body)


def tensor(name: str | bytes, dims: Sequence[int], kind: int, offset: int, n_dims: int | None = None) -> bytes:
    """A tensor's entry in the header."""
    return text(name) + u32(len(dims) if n_dims is None else n_dims) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def gguf(
    pairs: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    n_tensors: int | None = None,
    n_kv: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A file of these parts; the counts may lie."""
    head = magic + u32(version) + u64(len(tensors) if n_tensors is None else n_tensors)
    head += u64(len(pairs) if n_kv is None else n_kv) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


_ARCH: Final = pair("general.architecture", STRING, "test")
_FIRST_TENSOR: Final = FIRST_KEY + len(_ARCH)
_ROW: Final = bytes(128)


def _one(entry: bytes, data: bytes = _ROW) -> bytes:
    return gguf([_ARCH], [entry], data)


def _two(second: bytes, data: bytes = _ROW * 2, first: bytes | None = None) -> bytes:
    return gguf([_ARCH], [first or tensor("a", [32], 0, 0), second], data)


def header_cases() -> Iterator[Case]:
    """Magic, version and counts."""
    yield Case("empty header", gguf())
    yield Case("version 2", gguf(version=2))
    yield Case("bad magic", gguf(magic=b"FUGG"), "gguf.magic", 0)
    yield Case("ggml magic", gguf(magic=b"lmgg"), "gguf.magic", 0)
    yield Case("three bytes", b"GGU", "gguf.truncated", 3)
    yield Case("magic alone", b"GGUF", "gguf.truncated", 4)
    yield Case("counts cut", gguf()[:20], "gguf.truncated", 20)
    yield Case("version 0", gguf(version=0), "gguf.version", 4)
    yield Case("version 1", gguf(version=1), "gguf.version-1", 4)
    yield Case("version 4", gguf(version=4), "gguf.version", 4)
    yield Case("version -1", gguf(version=-1), "gguf.version", 4)
    yield Case("big-endian", gguf(version=0x03000000), "gguf.big-endian", 4)
    for n in (MINUS_ONE, 1 << 63, 1 << 62, limits.MAX_TENSORS + 1):
        yield Case(f"{n} tensors", gguf(n_tensors=n), "gguf.tensor-count", 8)
        yield Case(f"{n} keys", gguf(n_kv=n), "gguf.kv-count", 16)
    yield Case("a thousand tensors claimed", gguf(n_tensors=1000), "gguf.truncated", 32)
    yield Case("a thousand keys claimed", gguf(n_kv=1000), "gguf.truncated", 32)


def key_cases() -> Iterator[Case]:
    """Keys, value types and values."""
    first = FIRST_KEY
    value = FIRST_KEY + 8 + 1 + 4
    yield Case("one key", gguf([pair("k", U32, 1)]))
    yield Case("key length -1", gguf([u64(-1) + pair("k", U32, 1)[8:]]), "gguf.key-length", first)
    yield Case("key length past the end", gguf([u64(999) + pair("k", U32, 1)[8:]]), "gguf.truncated", 64)
    yield Case("empty key", gguf([pair("", U32, 1)]), "gguf.key-empty", first)
    long_key = "k" * (limits.MAX_KEY + 1)
    yield Case("over-long key", gguf([pair(long_key, U32, 1)]), "gguf.key-length", first, stricter=True)
    yield Case("longest key", gguf([pair(long_key[1:], U32, 1)]))
    yield Case("key is not UTF-8", gguf([pair(b"k\xff", U32, 1)]), "gguf.key-utf8", first + 9, stricter=True)
    yield Case("zero byte in key", gguf([pair(b"k\0x", U32, 1)]), "gguf.key-nul", first + 9, stricter=True)
    again = first + len(pair("k", U32, 1))
    yield Case("duplicate key", gguf([pair("k", U32, 1), pair("k", U32, 1)]), "gguf.key-duplicate", again)
    for number in (13, 99, -1):
        bad = gguf([text("k") + u32(number) + u64(0)])
        yield Case(f"value type {number}", bad, "gguf.value-type", first + 9)
    yield Case("value cut", gguf([pair("k", U64, b"\1\0")], alignment=1), "gguf.truncated", 39)
    yield Case("bool 7", gguf([pair("k", BOOL, b"\7")]), "gguf.bool", value, stricter=True)
    yield Case("bools", gguf([pair("k", BOOL, True), array("l", BOOL, [True, False])]))
    bools = gguf([pair("k", ARRAY, u32(BOOL) + u64(3) + b"\0\1\2")])
    yield Case("bool 2 in an array", bools, "gguf.bool", value + 14, stricter=True)
    yield Case("string length -1", gguf([text("k") + u32(STRING) + u64(-1)]), "gguf.string-length", value)
    yield Case("string past the end", gguf([text("k") + u32(STRING) + u64(1 << 20)]), "gguf.truncated", 64)
    absurd = gguf([text("k") + u32(STRING) + u64(limits.MAX_TEXT + 1)])
    yield Case("absurdly long string", absurd, "gguf.string-length", value)
    yield Case("string is not UTF-8", gguf([pair("k", STRING, b"ab\xc3")]), "gguf.string-utf8", value + 10, stricter=True)
    yield Case("zero byte in string", gguf([pair("k", STRING, b"a\0b")]), "gguf.string-nul", value + 9, stricter=True)


def array_cases() -> Iterator[Case]:
    """Arrays: their element types, counts and nesting."""
    value = FIRST_KEY + 8 + 1 + 4
    strings = ["a", "", "bc" * 200, "d"]
    yield Case("arrays", gguf([array("k", STRING, strings), array("l", F32, [1.0, 2.0]), array("m", U8, [])]))
    nul = gguf([array("k", STRING, [*strings, b"x\0y"])])
    place = value + 12 + sum(8 + len(each) for each in strings) + 9
    yield Case("zero byte in an array's string", nul, "gguf.string-nul", place, stricter=True)
    yield Case("array of type 13", gguf([pair("k", ARRAY, u32(13) + u64(0))]), "gguf.value-type", value)
    for depth in (2, 64):
        nested = (u32(ARRAY) + u64(1)) * (depth - 1) + u32(U8) + u64(1) + b"\1"
        yield Case(f"{depth} nested arrays", gguf([pair("k", ARRAY, nested)]), "gguf.array-nested", value)
    deep = (u32(ARRAY) + u64(1)) * 2000
    yield Case("2000 nested arrays", gguf([pair("k", ARRAY, deep)]), "gguf.array-depth", value)
    for n in (MINUS_ONE, 1 << 62, limits.MAX_ARRAY + 1):
        for kind in (U8, U64, STRING):
            absurd = gguf([pair("k", ARRAY, u32(kind) + u64(n))])
            yield Case(f"array of {n} of type {kind}", absurd, "gguf.array-length", value + 4)
    most = gguf([pair("k", ARRAY, u32(U64) + u64(limits.MAX_ARRAY))])
    yield Case("array past every header", most, "gguf.header-size", value + 12)
    end = gguf([pair("k", ARRAY, u32(U64) + u64(1 << 20))])
    yield Case("array past the end", end, "gguf.truncated", 64)
    many = gguf([pair("k", ARRAY, u32(STRING) + u64(limits.MAX_STRINGS + 1))])
    yield Case("absurdly many strings", many, "gguf.string-count", value + 4)
    few = gguf([pair("k", ARRAY, u32(STRING) + u64(1000))])
    yield Case("strings past the end", few, "gguf.truncated", 64)
    length = gguf([pair("k", ARRAY, u32(STRING) + u64(2) + text("a") + u64(-1))])
    yield Case("string length -1 in an array", length, "gguf.string-length", value + 12 + 9)


def alignment_cases() -> Iterator[Case]:
    """The alignment's type and value."""
    value = FIRST_KEY + 8 + len("general.alignment") + 4
    key = "general.alignment"
    yield Case("alignment 64", gguf([pair(key, U32, 64)]))
    yield Case("alignment 0", gguf([pair(key, U32, 0)]), "gguf.alignment", value)
    yield Case("alignment 13", gguf([pair(key, U32, 13)]), "gguf.alignment-power", value)
    yield Case("alignment -32", gguf([pair(key, I32, -32)]), "gguf.alignment", value)
    yield Case("alignment i32", gguf([pair(key, I32, 32)]), "gguf.alignment-type", value - 4)
    yield Case("alignment u64", gguf([pair(key, U64, 32)]), "gguf.alignment-type", value - 4)
    yield Case("alignment true", gguf([pair(key, BOOL, True)]), "gguf.alignment-type", value - 4)
    yield Case("alignment false", gguf([pair(key, BOOL, False)]), "gguf.alignment", value)
    yield Case("alignment 32.0", gguf([pair(key, F32, 32.0)]), "gguf.alignment", value)
    yield Case("alignment as text", gguf([pair(key, STRING, "32")]), "gguf.alignment", value)
    yield Case("alignment as array", gguf([array(key, U32, [32])]), "gguf.alignment", value)
    for n in (1 << 22, 1 << 31):
        yield Case(f"alignment {n}", gguf([pair(key, U32, n)]), "gguf.alignment-size", value, stricter=True)


def name_cases() -> Iterator[Case]:
    """Tensor names."""
    first = _FIRST_TENSOR
    yield Case("one tensor", _one(tensor("a", [32], 0, 0)), reads="data")
    yield Case("longest tensor name", _one(tensor("a" * 63, [32], 0, 0)), reads="data")
    yield Case("over-long tensor name", _one(tensor("a" * 64, [32], 0, 0)), "gguf.tensor-name-length", first)
    yield Case("tensor name length -1", _one(u64(-1) + tensor("a", [32], 0, 0)[8:]), "gguf.tensor-name-length", first)
    yield Case("empty tensor name", _one(tensor("", [32], 0, 0)), "gguf.tensor-name-empty", first, stricter=True)
    bad = _one(tensor(b"a\xff", [32], 0, 0))
    yield Case("tensor name is not UTF-8", bad, "gguf.tensor-name-utf8", first + 9, stricter=True)
    bad = _one(tensor(b"a\0b", [32], 0, 0))
    yield Case("zero byte in tensor name", bad, "gguf.tensor-name-nul", first + 9, stricter=True)
    same = _two(tensor("a", [32], 0, 128))
    yield Case("duplicate tensor", same, "gguf.tensor-duplicate", first + len(tensor("a", [32], 0, 0)))


def dimension_cases() -> Iterator[Case]:
    """Tensor dimensions."""
    first = _FIRST_TENSOR
    count = first + 9
    dims = first + 13
    yield Case("no dimensions", _one(tensor("a", [], 0, 0), bytes(32)), reads="data")
    yield Case("four dimensions", _one(tensor("a", [4, 2, 2, 2], 0, 0)), reads="data")
    yield Case("five dimensions", _one(tensor("a", [2, 2, 2, 2, 2], 0, 0)), "gguf.tensor-dims", count)
    yield Case("2^32-1 dimensions", _one(tensor("a", [2], 0, 0, n_dims=-1)), "gguf.tensor-dims", count)
    yield Case("dimension -1", _one(tensor("a", [-1], 0, 0)), "gguf.tensor-elements", dims)
    yield Case("dimension 2^63", _one(tensor("a", [32, 1 << 63], 0, 0)), "gguf.tensor-elements", dims + 8)
    yield Case("dimension 0", _one(tensor("a", [32, 0], 0, 0), b""), "gguf.tensor-zero-dim", dims + 8, stricter=True)
    yield Case("only dimension 0", _one(tensor("a", [0], 0, 0), b""), "gguf.tensor-zero-dim", dims, stricter=True)
    big = 4 * (2**31 - 1)
    yield Case("too many elements", _one(tensor("a", [big, big], 0, 0)), "gguf.tensor-elements", dims + 8)
    yield Case("elements wrap to 0", _one(tensor("a", [1 << 32, 1 << 32], 0, 0)), "gguf.tensor-elements", dims + 8, stricter=True)
    wrap = _one(tensor("a", [1 << 32, 1 << 31, 2, 32], 0, 0))
    yield Case("elements wrap in three", wrap, "gguf.tensor-elements", dims + 8, stricter=True)
    root = 1_534_000_000
    yield Case("too many bytes", _one(tensor("a", [root, root], 27, 0)), "gguf.tensor-bytes", dims)
    yield Case("rows end in a block", _one(tensor("a", [33], 2, 0)), "gguf.tensor-partial-block", dims)
    yield Case("rows of 128 in blocks of 256", _one(tensor("a", [128, 2], 12, 0)), "gguf.tensor-partial-block", dims)


def tensor_type_cases() -> Iterator[Case]:
    """Tensor types."""
    place = _FIRST_TENSOR + 13 + 8
    for kind in TYPES.values():
        data = bytes(-(-kind.bytes // 32) * 32)
        yield Case(f"type {kind.name}", _one(tensor("a", [kind.block], kind.id, 0), data), reads="data")
    for number in (4, 5, 31, 32, 33, 36, 37, 38):
        yield Case(f"removed type {number}", _one(tensor("a", [256], number, 0)), "gguf.type-removed", place)
    for number in (43, 99, 141, 144, -1):
        yield Case(f"unknown type {number}", _one(tensor("a", [256], number, 0)), "gguf.type-unknown", place)
    for number in (142, 143):
        yield Case(f"fork's type {number}", _one(tensor("a", [256], number, 0)), "gguf.type-fork", place)


def span_cases() -> Iterator[Case]:
    """Tensor offsets and the file's size."""
    one, first = tensor("a", [32], 0, 0), _FIRST_TENSOR
    offset = first + len(one) - 8
    second = offset + len(one)
    yield Case("two tensors", _two(tensor("b", [32], 0, 128)), reads="data")
    yield Case("trailing bytes", _two(tensor("b", [32], 0, 128), bytes(1000)), reads="data")
    yield Case("offset -1", _one(tensor("a", [32], 0, -1)), "gguf.tensor-misaligned", offset)
    yield Case("first offset 32", _one(tensor("a", [32], 0, 32), bytes(160)), "gguf.tensor-gap", offset)
    yield Case("misaligned", _two(tensor("b", [32], 0, 129), bytes(300)), "gguf.tensor-misaligned", second)
    yield Case("equal offsets", _two(tensor("b", [32], 0, 0)), "gguf.tensor-same-offset", second)
    rows = tensor("a", [32, 3], 0, 0)
    short = gguf([_ARCH], [rows, tensor("b", [32], 0, 256)], bytes(512))
    yield Case("one row short", short, "gguf.tensor-overlap", second + len(rows) - len(one))
    yield Case("gap", _two(tensor("b", [32], 0, 160), bytes(288)), "gguf.tensor-gap", second)
    swapped = gguf([_ARCH], [tensor("a", [32], 0, 128), tensor("b", [32], 0, 0)], bytes(256))
    yield Case("swapped", swapped, "gguf.tensor-gap", offset)
    q2 = gguf([_ARCH], [tensor("a", [256, 4], 42, 0), tensor("b", [256, 4], 42, 288)], bytes(576))
    yield Case("Q2_0", q2, reads="data")
    old = gguf([_ARCH], [tensor("a", [256, 4], 42, 0), tensor("b", [256, 4], 42, 288 - 16 * 1)], bytes(560))
    yield Case("Q2_0 of group 128", old, "gguf.q2-legacy", first + len(tensor("a", [256, 4], 42, 0)) - 8)
    yield Case("no data section", gguf([_ARCH], [one], alignment=1), "gguf.tensor-outside", offset)
    yield Case("data one byte short", _one(one, _ROW[1:]), "gguf.data-short", offset, "data")
    yield Case("a tensor's data missing", _two(tensor("b", [32], 0, 128), _ROW), "gguf.tensor-outside", second, "data")
    huge = 0x7FFFFFFFFFFFFFC0
    memory = gguf([_ARCH], [tensor("a", [huge], 24, 0), tensor("b", [huge], 24, huge)], _ROW)
    yield Case("memory size overflows", memory, "gguf.data-short", offset, "data")
    for n, padded in ((1, False), (64, True)):
        head = [_ARCH, pair("general.alignment", U32, n)]
        place = FIRST_KEY + sum(map(len, head)) + len(one)
        tensors = [one, tensor("b", [32], 0, 128)]
        if padded:
            yield Case(f"alignment {n} kept", gguf(head, tensors, _ROW * 2, alignment=n), reads="data")
            tensors[0] = tensor("a", [8], 0, 0)
            tensors[1] = tensor("b", [32], 0, 32)
            code = "gguf.tensor-misaligned"
            yield Case(f"alignment {n} not kept", gguf(head, tensors, _ROW * 2, alignment=n), code, place + len(one) - 8)
        else:
            odd = gguf(head, tensors, _ROW * 2, alignment=n)
            yield Case(f"alignment {n}", odd, "gguf.data-alignment", place + len(one), stricter=True)


def form_cases() -> Iterator[Case]:
    """Every case above."""
    for cases in (
        header_cases,
        key_cases,
        array_cases,
        alignment_cases,
        name_cases,
        dimension_cases,
        tensor_type_cases,
        span_cases,
    ):
        yield from cases()
