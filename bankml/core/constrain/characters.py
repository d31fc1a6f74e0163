# SPDX-License-Identifier: MIT OR Apache-2.0
"""UTF-8 as the reference's parsers of answers decode it: overlong forms and surrogates count as characters.

Source: common_parse_utf8_codepoint, common/unicode.cpp.
"""

from __future__ import annotations

BROKEN, WHOLE, OPEN = range(3)
"""No character; a character; the beginning of one, at the end of the text."""


def character(text: bytes, at: int) -> tuple[int, int]:
    """Which of the three begins at ``at``, and of how many bytes it is."""
    if at >= len(text):
        return OPEN, 0
    first = text[at]
    if first < 0x80:
        return WHOLE, 1
    if first < 0xC0 or first >= 0xF8:
        return BROKEN, 1
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    for i in range(1, length):
        if at + i >= len(text):
            return OPEN, i
        if text[at + i] & 0xC0 != 0x80:
            return BROKEN, i
    return WHOLE, length


def open_tail(text: bytes) -> int:
    """How many bytes at the end begin a character that is not whole."""
    for back in range(1, min(3, len(text)) + 1):
        if text[-back] >= 0xC0:
            return back if character(text, len(text) - back)[0] == OPEN else 0
    return 0
