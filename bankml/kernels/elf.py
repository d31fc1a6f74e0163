# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether bytes are an object file that can be linked: the linker ends the process where they are not.

Source: the ELF-64 object file format and the processor supplement for x86-64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

# What code generation may call: the C library's, which every process has.
LIBC = frozenset({"memcpy", "memset", "memmove", "syscall"})

_HEADER = struct.Struct("<4sBBB9xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _STRINGS, _RELOCATIONS, _NO_BITS = 2, 3, 4, 8
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
# Bytes that a relocation of each type patches: the types that the compiler's large code model gives, and their narrow kin.
_WIDTHS = {1: 8, 2: 4, 4: 4, 10: 4, 11: 4, 24: 8}
_MOST_ALIGNMENT = 1 << 16


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class _Damaged(Exception):
    """Its text says what is wrong."""


def objection(code: bytes, wanted: Iterable[str]) -> str | None:
    """Why these bytes must not be linked, or None: form, sections, symbols and relocations are sound, ``wanted`` is defined."""
    try:
        defined = _defined(code)
    except _Damaged as damage:
        return str(damage)
    missing = sorted(set(wanted) - defined)
    return f"it does not define {missing[0]}" if missing else None


def _defined(code: bytes) -> set[str]:
    """The names that the object file defines."""
    sections = _sections(code)
    names: set[str] = set()
    for section in sections:
        if section.type == _SYMBOLS:
            names |= _symbols(code, sections, section)
        elif section.type == _RELOCATIONS:
            _check_relocations(code, sections, section)
    return names


def _sections(code: bytes) -> list[_Section]:
    if len(code) < _HEADER.size:
        raise _Damaged("it is shorter than a header")
    magic, width, order, _, kind, machine, _, _, _, table, _, size, _, _, entry, count, names = _HEADER.unpack_from(code)
    if (magic, width, order, kind, machine) != (b"\x7fELF", 2, 1, _RELOCATABLE, _X86_64):
        raise _Damaged("it is not an object file for this processor")
    if (size, entry) != (_HEADER.size, _SECTION.size) or table + count * entry > len(code) or not 0 < names < count:
        raise _Damaged("its table of sections is damaged")
    sections = [_Section(*_SECTION.unpack_from(code, table + i * entry)) for i in range(count)]
    for section in sections:
        if section.type != _NO_BITS and section.offset + section.size > len(code):
            raise _Damaged("a section ends behind the file")
        if section.size > len(code) or section.alignment > _MOST_ALIGNMENT or section.alignment & (section.alignment - 1):
            raise _Damaged("a section has no sensible size")
        if section.link >= count:
            raise _Damaged("a section refers to one that does not exist")
    if any(_text(code, sections[names], section.name) is None for section in sections):
        raise _Damaged("a section has no name")
    return sections


def _text(code: bytes, strings: _Section, at: int) -> str | None:
    """The name at a place of a table of strings; None where there is no such place, or no end of it."""
    if strings.type != _STRINGS or at >= strings.size:
        return None
    start, end = strings.offset + at, strings.offset + strings.size
    stop = code.find(b"\0", start, end)
    return None if stop < 0 else code[start:stop].decode("utf-8", "replace")


def _symbols(code: bytes, sections: list[_Section], table: _Section) -> set[str]:
    defined = set()
    for name_at, _, _, home, value, size in _entries(code, table, _SYMBOL):
        name = _text(code, sections[table.link], name_at)
        if name is None:
            raise _Damaged("a symbol has no name")
        if home == _UNDEFINED:
            if name and name not in LIBC:
                raise _Damaged(f"it calls {name}")
        elif home < len(sections):
            if value > sections[home].size or size > sections[home].size - value:
                raise _Damaged("a symbol lies outside its section")
            defined.add(name)
        elif home not in (_ABSOLUTE, _COMMON):
            raise _Damaged("a symbol refers to a section that does not exist")
    return defined


def _check_relocations(code: bytes, sections: list[_Section], table: _Section) -> None:
    if table.info >= len(sections) or sections[table.link].type != _SYMBOLS:
        raise _Damaged("relocations refer to a section that does not exist")
    room, symbols = sections[table.info].size, sections[table.link].size // _SYMBOL.size
    for offset, info, _ in _entries(code, table, _RELOCATION):
        width = _WIDTHS.get(info & 0xFFFFFFFF)
        if width is None or offset + width > room or info >> 32 >= symbols:
            raise _Damaged("a relocation is damaged")


def _entries(code: bytes, table: _Section, form: struct.Struct) -> Iterable[tuple[int, ...]]:
    if table.entry != form.size or table.size % form.size:
        raise _Damaged("a table has entries of another size")
    return form.iter_unpack(code[table.offset : table.offset + table.size])
