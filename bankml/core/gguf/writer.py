# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes GGUF version 3 files: whole or not at all."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, TypeAlias, cast

from bankml.core.gguf import limits
from bankml.core.gguf.atomic import replace_file
from bankml.core.gguf.types import ARRAY, BOOL, STRING, STRUCT_CODES, U32, VALUE_TYPES, row_bytes
from bankml.core.refusal import Refusal

if TYPE_CHECKING:
    import numpy.typing as npt

Raw: TypeAlias = "bytes | bytearray | memoryview | npt.NDArray[Any]"

VERSION: Final = 3

ValueKind: TypeAlias = int | tuple[int, int]
"""A value type, or ``(ARRAY, element type)``."""

Pair: TypeAlias = tuple[str, ValueKind, object]
"""Key, value type, value: a Python number, bool, str or bytes, or a sequence of them for an array."""


class Tensor(NamedTuple):
    """A tensor to write: ``dims[0]`` is the row length; ``data`` holds exactly the type's bytes for them."""

    name: str
    dims: tuple[int, ...]
    type_id: int
    data: Raw


def write_gguf(path: Path | str, kv: Sequence[Pair], tensors: Sequence[Tensor | tuple[str, tuple[int, ...], int, Raw]]) -> None:
    """Write a file that the guard's form rules accept; it appears under its name only when all of it is on the disk.

    ``general.alignment`` among the keys sets the alignment.

    Raises:
        Refusal: ``gguf.write``: a value does not fit its type, a name is wrong, a tensor's data has the wrong size.
        OSError: the file system refuses; nothing is left behind.
    """
    items = [Tensor(*tensor) for tensor in tensors]
    alignment = _alignment(kv)
    head = header_bytes(kv, items)
    replace_file(Path(path), lambda out: _write(out, head, items, alignment))


def header_bytes(kv: Sequence[Pair], tensors: Sequence[Tensor]) -> bytes:
    """The header up to the padding before the data section.

    Raises:
        Refusal: ``gguf.write``.
    """
    alignment = _alignment(kv)
    parts = [b"GGUF", struct.pack("<IQQ", VERSION, len(tensors), len(kv))]
    keys = set()
    for key, kind, value in kv:
        if key in keys:
            raise _refusal(f'key "{key}" is given twice')
        keys.add(key)
        parts += [_name(key, limits.MAX_KEY), _value(key, kind, value)]
    names = set()
    offset = 0
    for tensor in tensors:
        if tensor.name in names:
            raise _refusal(f'tensor "{tensor.name}" is given twice')
        names.add(tensor.name)
        size = _tensor_bytes(tensor)
        dims = tensor.dims
        parts.append(_name(tensor.name, limits.MAX_NAME))
        parts.append(struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, tensor.type_id, offset))
        offset += _padded(size, alignment)
    return b"".join(parts)


def _write(out: BinaryIO, head: bytes, tensors: list[Tensor], alignment: int) -> None:
    out.write(head)
    if tensors:
        out.write(bytes(_padded(len(head), alignment) - len(head)))
    for tensor in tensors:
        data = _view(tensor.data)
        out.write(data)
        out.write(bytes(_padded(len(data), alignment) - len(data)))


def _view(data: Raw) -> memoryview:
    # numpy's stubs tell of the buffer protocol only from Python 3.12 on.
    return memoryview(cast(bytes, data)).cast("B")


def _padded(n: int, alignment: int) -> int:
    return -(-n // alignment) * alignment


def _alignment(kv: Sequence[Pair]) -> int:
    for key, kind, value in kv:
        if key == "general.alignment":
            if kind != U32 or not isinstance(value, int) or value <= 0 or value & (value - 1) or value > limits.MAX_ALIGNMENT:
                raise _refusal(f"general.alignment {value!r} is not a u32 power of two")
            return value
    return limits.DEFAULT_ALIGNMENT


def _name(text: str, longest: int) -> bytes:
    raw = _utf8(text)
    if not 0 < len(raw) <= longest or 0 in raw:
        raise _refusal(f"{text!r} is no name of 1 to {longest} bytes")
    return struct.pack("<Q", len(raw)) + raw


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise _refusal(f"{text!r} is not UTF-8") from None


def _value(key: str, kind: ValueKind, value: object) -> bytes:
    if isinstance(kind, tuple):
        element = kind[1]
        if kind[0] != ARRAY or element not in VALUE_TYPES or element == ARRAY or not isinstance(value, Sequence):
            raise _refusal(f'"{key}" is no array of scalars or strings')
        return struct.pack("<IIQ", ARRAY, element, len(value)) + _elements(key, element, value)
    if kind not in VALUE_TYPES or kind == ARRAY:
        raise _refusal(f'"{key}" has the unknown value type {kind}')
    return struct.pack("<I", kind) + _elements(key, kind, [value])


def _elements(key: str, kind: int, values: Sequence[object]) -> bytes:
    if kind == STRING:
        parts = []
        for text in values:
            if not isinstance(text, str | bytes):
                raise _refusal(f'"{key}" holds {text!r} where a string belongs')
            raw = text if isinstance(text, bytes) else _utf8(text)
            parts += [struct.pack("<Q", len(raw)), raw]
        return b"".join(parts)
    if kind == BOOL and not all(isinstance(value, bool) for value in values):
        raise _refusal(f'"{key}" holds something else than booleans')
    try:
        return struct.pack(f"<{len(values)}{STRUCT_CODES[kind]}", *values)
    except (struct.error, OverflowError) as error:
        raise _refusal(f'"{key}" does not fit {VALUE_TYPES[kind].name}: {error}') from None


def _tensor_bytes(tensor: Tensor) -> int:
    dims = tensor.dims
    if not 0 < len(dims) <= limits.MAX_DIMS or any(n <= 0 for n in dims):
        raise _refusal(f'tensor "{tensor.name}" has the dimensions {dims}')
    try:
        size = row_bytes(tensor.type_id, dims[0])
    except (KeyError, ValueError) as error:
        raise _refusal(f'tensor "{tensor.name}" cannot be laid out as type {tensor.type_id}: {error}') from None
    for n in dims[1:]:
        size *= n
    given = _view(tensor.data).nbytes
    if given != size:
        raise _refusal(f'tensor "{tensor.name}" has {given} bytes of data where {size} belong')
    return size


def _refusal(message: str) -> Refusal:
    return Refusal("gguf.write", f"cannot write the file: {message}")
