# SPDX-License-Identifier: MIT OR Apache-2.0
"""Text collapsed to one byte per code point: ASCII as it is, anything else as the byte of its class."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_PART: Final = 1 << 16
LETTER: Final = 0xD2
HAN_LETTER: Final = 0xD6
HAN_OTHER: Final = 0xD7

# The byte of each class outside ASCII; white space becomes a vertical tab, which is white space to every pattern.
_BYTES: Final = {"l": 0xD2, "n": 0xD1, "m": 0xD4, "p": 0xD3, "s": 0xD5, "w": 0x0B, "o": 0xD0}

# What a category matches in collapsed text, as the inside of a bracket. ASCII members are those of the Unicode category.
_MEMBERS: Final = {
    "L": r"A-Za-z\xd2",
    "N": r"0-9\xd1",
    "M": r"\xd4",
    "P": r"!-#%-*,-/:;?@\[-\]_{}\xd3",
    "S": r"$+<->^`|~\xd5",
    "Han": r"\xd6\xd7",
}

_HAN: Final = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2EBEF),
    (0x2F800, 0x2FA1F),
)


@cache
def _table() -> bytes:
    from bankml.core.tokenizer.pretokenizer_table import RUNS

    table = b"".join(bytes([_BYTES[run[0]]]) * int(run[1:]) for run in RUNS.split())
    return bytes(range(128)) + table[128:]


@cache
def _han_table() -> bytes:
    table = bytearray(_table())
    for first, last in _HAN:
        span = table[first : last + 1]
        table[first : last + 1] = bytes(HAN_LETTER if kind == LETTER else HAN_OTHER for kind in span)
    return bytes(table)


@cache
def _spaces() -> re.Pattern[str]:
    wide = (chr(point) for point, kind in enumerate(_table()) if kind == _BYTES["w"] and point > 127)
    return re.compile(f"[{''.join(wide)}]")


def collapse(text: str) -> bytes:
    """One byte per code point: what patterns over Unicode categories run on.

    Source: unicode_regex_split, src/unicode.cpp.
    """
    return text.encode() if text.isascii() else _classes(text, _table())


def collapse_han(text: str) -> bytes:
    """As :func:`collapse`, with Chinese characters in two classes of their own, by whether they are letters."""
    return text.encode() if text.isascii() else _classes(text, _han_table())


def _classes(text: str, table: bytes) -> bytes:
    # Part by part: one long call would keep all other threads waiting.
    parts = [bytes(map(table.__getitem__, map(ord, text[at : at + _PART]))) for at in range(0, len(text), _PART)]
    return b"".join(parts)


def widen(text: str) -> str:
    """The text with every non-ASCII white space as a vertical tab: what patterns without categories run on."""
    if text.isascii():
        return text
    return "".join([_spaces().sub("\x0b", text[at : at + _PART]) for at in range(0, len(text), _PART)])


def compile_collapsed(pattern: str) -> re.Pattern[bytes]:
    r"""Compile a pattern in which ``\p{L}``, ``\p{N}``, … stand inside brackets, for collapsed text."""
    return re.compile(re.sub(r"\\p\{(\w+)\}", lambda match: _MEMBERS[match[1]], pattern).encode("ascii"))


def compile_wide(pattern: str) -> re.Pattern[str]:
    r"""Compile a pattern without categories for widened text; ``\s`` and ``\d`` are ASCII's."""
    return re.compile(pattern, re.ASCII)
