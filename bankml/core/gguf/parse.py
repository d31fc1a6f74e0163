# SPDX-License-Identifier: MIT OR Apache-2.0
"""A GGUF header, parsed from the first bytes of a file without believing any count in it."""

from __future__ import annotations

import struct
from typing import Final

from bankml.core.gguf import limits
from bankml.core.gguf.header import Array, Buffer, Entry, Header, TensorInfo, Truncated, at, short
from bankml.core.gguf.types import TYPES, U32, VALUE_TYPES
from bankml.core.gguf.values import Walk
from bankml.core.refusal import Refusal

MAGIC: Final = b"GGUF"
_MIN_KV: Final = 8 + 1 + 4 + 1
_MIN_TENSOR: Final = 8 + 1 + 4 + 4 + 8
_PREAMBLE: Final = 24


def parse_header(data: Buffer) -> Header:
    """The header at the start of ``data``.

    Costs time and memory in proportion to the bytes that are there, never to a count that is only claimed.

    Raises:
        Truncated: the bytes end first.
        Refusal: the header is malformed (``gguf.*``).

    Source: gguf_init_from_reader, ggml/src/gguf.cpp.
    """
    walk = Walk(data)
    version = _preamble(walk)
    n_tensors = _count(walk, "tensors", "gguf.tensor-count", limits.MAX_TENSORS)
    n_kv = _count(walk, "keys", "gguf.kv-count", limits.MAX_KV)
    header = Header(version, n_tensors, n_kv)
    walk.need(n_kv * _MIN_KV + n_tensors * _MIN_TENSOR)
    for index in range(n_kv):
        _pair(walk, index, header.entries)
    header.alignment = _alignment(header)
    names: dict[str, int] = {}
    tensors = []
    for index in range(n_tensors):
        tensor = _tensor(walk, index)
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
    header.header_end = walk.pos
    # Without tensors there is no data section, so nothing is padded.
    header.data_start = _padded(walk.pos, header.alignment) if tensors else walk.pos
    header.tensors = [tensor._replace(offset=header.data_start + tensor.relative) for tensor in tensors]
    return header


def _padded(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def _preamble(walk: Walk) -> int:
    magic = walk.data[:4]
    if magic != MAGIC:
        if magic and magic == MAGIC[: walk.size]:
            raise Truncated(_PREAMBLE, walk.size)
        raise Refusal("gguf.magic", "not a GGUF file", where=at(0, "magic"), found=repr(magic), allowed=repr(MAGIC))
    walk.pos = 4
    version = walk.u32()
    if version in limits.VERSIONS:
        return version
    where = at(4, "version")
    allowed = "version 2 or 3"
    if version and not version & 0xFFFF:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        found = f"version {swapped} in big-endian order"
        raise Refusal("gguf.big-endian", "a big-endian GGUF file", where=where, found=found, allowed="little-endian files")
    if version == 1:
        hint = "convert the model again"
        raise Refusal("gguf.version-1", "GGUF version 1 is no longer read", where=where, found="1", allowed=allowed, hint=hint)
    raise Refusal("gguf.version", "a GGUF version that b11192 does not read", where=where, found=str(version), allowed=allowed)


def _count(walk: Walk, what: str, code: str, most: int) -> int:
    start = walk.pos
    count = walk.u64()
    if count > most:
        raise Refusal(
            code,
            f"the header claims an absurd number of {what}",
            where=at(start, f"count of {what}"),
            found=str(count),
            allowed=f"{most} at most",
        )
    return count


def _pair(walk: Walk, index: int, entries: dict[str, Entry]) -> None:
    start = walk.pos
    key = walk.name("key", f"key {index}", limits.MAX_KEY)
    walk.keys += len(key)
    if walk.keys > limits.MAX_KEYS:
        found = f"{walk.keys} bytes of keys up to here"
        allowed = f"{limits.MAX_KEYS} at most"
        raise Refusal("gguf.keys-size", "the keys are absurdly long", where=at(start, "key"), found=found, allowed=allowed)
    if key in entries:
        raise Refusal(
            "gguf.key-duplicate",
            f"key {short(key)} appears twice",
            where=at(start, f"key {index}"),
            found=f"first at offset {entries[key].offset}",
            allowed="each key once",
        )
    number = walk.value_type(key)
    value_at = walk.pos
    entries[key] = Entry(number, walk.value(number, key), start, value_at)


def _alignment(header: Header) -> int:
    entry = header.entries.get("general.alignment")
    if entry is None:
        return limits.DEFAULT_ALIGNMENT
    value = entry.value
    where = at(entry.value_offset, "general.alignment")
    kind = VALUE_TYPES[entry.type].name
    if isinstance(value, Array) or not isinstance(value, int) or value <= 0:
        shown = f"<array {value.n}>" if isinstance(value, Array) else "<text>" if kind == "str" else str(value)
        raise Refusal(
            "gguf.alignment",
            f"general.alignment {shown} is not a positive integer",
            where=where,
            found=f"{kind} {shown}",
            allowed="a u32 power of two",
        )
    if entry.type != U32:
        message = f"general.alignment is of type {kind}"
        where = at(entry.value_offset - 4, "value type of general.alignment")
        raise Refusal("gguf.alignment-type", message, where=where, found=kind, allowed="u32")
    if value & (value - 1):
        message = f"general.alignment {value} is not a power of two"
        raise Refusal("gguf.alignment-power", message, where=where, found=str(value), allowed="a power of two")
    if value > limits.MAX_ALIGNMENT:
        message = f"general.alignment {value} is absurd"
        raise Refusal("gguf.alignment-size", message, where=where, found=str(value), allowed=f"{limits.MAX_ALIGNMENT} at most")
    return value


def _tensor(walk: Walk, index: int) -> TensorInfo:
    start = walk.pos
    name = walk.name("tensor-name", f"name of tensor {index}", limits.MAX_NAME)
    dims_at = walk.pos
    n_dims = walk.u32()
    if n_dims > limits.MAX_DIMS:
        raise Refusal(
            "gguf.tensor-dims",
            f"tensor {short(name)} has too many dimensions",
            where=at(dims_at, f"tensor {short(name)}"),
            found=str(n_dims),
            allowed=f"{limits.MAX_DIMS} at most",
        )
    walk.need(8 * n_dims + 12)
    # A tensor without dimensions is one element, as in ggml.
    dims = struct.unpack(f"<{n_dims}Q", walk.bytes(8 * n_dims)) or (1,)
    elements = _elements(name, dims, dims_at + 4)
    tail = walk.pos
    type_id = walk.u32()
    relative = walk.u64()
    size = _bytes(name, dims[0], elements, type_id, dims_at + 4)
    return TensorInfo(name, dims, type_id, 0, size, elements, relative, start, tail)


def _elements(name: str, dims: tuple[int, ...], dims_at: int) -> int:
    elements = 1
    for place, count in enumerate(dims):
        where = at(dims_at + 8 * place, f"dimension {place} of tensor {short(name)}")
        if count == 0:
            message = f"tensor {short(name)} has an empty dimension"
            raise Refusal("gguf.tensor-zero-dim", message, where=where, found="0", allowed="1 or more")
        # b11192 checks by division that the product stays below the signed 64-bit limit.
        if count > limits.INT64_MAX or (place and limits.INT64_MAX // count <= elements):
            raise Refusal(
                "gguf.tensor-elements",
                f"tensor {short(name)} has more elements than can be counted",
                where=where,
                found=" × ".join(map(str, dims)),
                allowed=f"fewer than {limits.INT64_MAX} elements",
            )
        elements *= count
    return elements


def _bytes(name: str, row: int, elements: int, type_id: int, dims_at: int) -> int:
    kind = TYPES.get(type_id)
    if kind is None:
        return 0
    if row % kind.block:
        raise Refusal(
            "gguf.tensor-partial-block",
            f"rows of tensor {short(name)} end inside a {kind.name} block",
            where=at(dims_at, f"tensor {short(name)}"),
            found=f"{row} elements a row",
            allowed=f"a multiple of {kind.block}",
        )
    size = elements // kind.block * kind.bytes
    if size > limits.INT64_MAX:
        raise Refusal(
            "gguf.tensor-bytes",
            f"tensor {short(name)} has more bytes than can be addressed",
            where=at(dims_at, f"tensor {short(name)}"),
            found=f"{size} bytes",
            allowed=f"{limits.INT64_MAX} bytes at most",
        )
    return size
