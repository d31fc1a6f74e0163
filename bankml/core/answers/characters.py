# SPDX-License-Identifier: MIT OR Apache-2.0
"""UTF-8 as the reference's parsers of answers decode it: overlong forms and surrogates count as characters.

Source: common_parse_utf8_codepoint, common/unicode.cpp.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

_OVERLONG: Final = re.compile(rb"[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f][\x80-\xbf]|\xf0[\x80-\x8f][\x80-\xbf]{2}")

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


def any_form(characters: str) -> bytes:
    """A regular expression for one of these ASCII characters, in any form, overlong ones included."""
    forms = [bytes([0xC0 | n >> 6, 0x80 | n & 0x3F]) for n in characters.encode()]
    longer = [start + bytes([0x80 | form[0] & 0x3F, form[1]]) for start in (b"\xe0", b"\xf0\x80") for form in forms]
    return b"(?:[%b]|%b)" % (re.escape(characters.encode()), b"|".join(map(re.escape, (*forms, *longer))))


class Shortened:
    """A text with every overlong form made the shortest of its character.

    Attributes:
        text: the text so made.
    """

    def __init__(self, text: bytes) -> None:
        parts, done = [], 0
        self._ends: list[int] = []
        self._whole_ends: list[int] = []
        self._lost = [0]
        for found in _OVERLONG.finditer(text):
            short = _shortest(found[0])
            parts += [text[done : found.start()], short]
            done = found.end()
            self._lost.append(self._lost[-1] + len(found[0]) - len(short))
            self._whole_ends.append(done)
            self._ends.append(done - self._lost[-1])
        self.text = b"".join((*parts, text[done:])) if parts else text

    def inside(self, place: int) -> int:
        """Where a place of the whole text, at a character's beginning, is in the short one."""
        return place - self._lost[bisect_right(self._whole_ends, place)]

    def back(self, place: int) -> int:
        """Where a place of the short text is in the whole one."""
        return place + self._lost[bisect_right(self._ends, place)]


def _shortest(form: bytes) -> bytes:
    number = form[0] & (0x7F >> len(form))
    for byte in form[1:]:
        number = number << 6 | byte & 0x3F
    return chr(number).encode("utf-8", "surrogatepass")
