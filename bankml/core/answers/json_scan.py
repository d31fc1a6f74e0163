# SPDX-License-Identifier: MIT OR Apache-2.0
"""How far a text is a JSON value: a scan that goes on where it stopped when more of the text comes.

It tells the same as the reference's parser of JSON does, rule by rule, without its depth of calls.

Source: json(), json_object() and their kin, and handle_escape_sequence, common/peg-parser.cpp.
"""

from __future__ import annotations

import re
from typing import Final

from bankml.core.answers.characters import any_form, character, open_tail

FAIL, DONE, MORE = range(3)
"""It is none; it is one; it may become one."""

Outcome = tuple[int, int]
"""One of the three, and where."""

_SPACE: Final = re.compile(rb"[ \t\n\v\f\r]*")
_PLAIN: Final = re.compile(rb'[^"\\\x80-\xff]*')
_ESCAPE: Final = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_OPEN_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?")
# The reference decodes characters for digits and the exponent's sign, so that overlong forms pass, and compares bytes elsewhere.
_DIGIT, _NOT_ZERO, _SIGN = any_form("0123456789"), any_form("123456789"), any_form("+-")
_WHOLE: Final = re.compile(rb"-?(?:0|%b%b*)" % (_NOT_ZERO, _DIGIT))
_FRACTION: Final = re.compile(rb"\.%b+" % _DIGIT)
_EXPONENT: Final = re.compile(rb"[eE]%b?%b+" % (_SIGN, _DIGIT))
_OPEN_NUMBER: Final = re.compile(
    rb"-?(?:(?:0|%b%b*)(?:\.%b*)?(?:(?<!\.)[eE]%b?%b*)?)?" % (_NOT_ZERO, _DIGIT, _DIGIT, _SIGN, _DIGIT)
)
_GOES_ON: Final = re.compile(any_form("0123456789.eE+-"))
_WORDS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}

_VALUE, _FIRST_KEY, _KEY, _COLON, _FIRST_ITEM, _AFTER = range(6)


class JsonScan:
    """The scan of one value.

    ``run`` may be asked again and again with a text that has grown; what was scanned is not looked at twice.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self._at = start
        self._wanted = _VALUE
        self._open: list[int] = []
        self._result: Outcome | None = None

    def run(self, text: bytes) -> Outcome:
        """How far the value goes in the text so far."""
        while self._result is None:
            kind, end = self._step(text)
            if kind != DONE:
                return (FAIL, self._start) if kind == FAIL else (kind, end)
            self._at = end
            if self._wanted == _AFTER and not self._open:
                self._result = DONE, end
        return self._result

    def _step(self, text: bytes) -> Outcome:
        """The next piece between two blanks, and what is wanted behind it."""
        at = self._at
        if self._wanted != _VALUE or self._open:
            found = _SPACE.match(text, at)
            at = found.end() if found else at
        if at >= len(text):
            return MORE, at
        byte = text[at]
        match self._wanted:
            case 1 if byte == ord("}"):
                return self._closed(at)
            case 4 if byte == ord("]"):
                return self._closed(at)
            case 1 | 2:
                return self._quoted(text, at, _COLON)
            case 3:
                return self._sign(byte, ":", at, _VALUE)
            case 5:
                return self._after(byte, at)
        return self._value(text, at, byte)

    def _after(self, byte: int, at: int) -> Outcome:
        opening = self._open[-1]
        if byte == (ord("}") if opening == ord("{") else ord("]")):
            return self._closed(at)
        return self._sign(byte, ",", at, _KEY if opening == ord("{") else _VALUE)

    def _sign(self, byte: int, sign: str, at: int, then: int) -> Outcome:
        if byte != ord(sign):
            return FAIL, at
        self._wanted = then
        return DONE, at + 1

    def _closed(self, at: int) -> Outcome:
        self._open.pop()
        self._wanted = _AFTER
        return DONE, at + 1

    def _value(self, text: bytes, at: int, byte: int) -> Outcome:
        if byte in b"{[":
            self._open.append(byte)
            self._wanted = _FIRST_KEY if byte == ord("{") else _FIRST_ITEM
            return DONE, at + 1
        if byte == ord('"'):
            return self._quoted(text, at, _AFTER)
        if byte in _WORDS:
            word = _WORDS[byte]
            here = text[at : at + len(word)]
            if here == word:
                self._wanted = _AFTER
                return DONE, at + len(word)
            return (MORE, len(text)) if word.startswith(here) and at + len(here) == len(text) else (FAIL, at)
        kind, end = number(text, at)
        if kind == DONE:
            self._wanted = _AFTER
        return kind, end

    def _quoted(self, text: bytes, at: int, then: int) -> Outcome:
        if text[at] != ord('"'):
            return FAIL, at
        kind, end = string_content(text, at + 1)
        if kind != DONE:
            return kind, end
        self._wanted = then
        return DONE, end + 1


def string_content(text: bytes, at: int) -> Outcome:
    """How far the inside of a string goes; done before its closing quote."""
    while True:
        found = _PLAIN.match(text, at)
        at = found.end() if found else at
        if at >= len(text):
            return MORE, at
        if text[at] == ord('"'):
            return DONE, at
        if text[at] == ord("\\"):
            escape = _ESCAPE.match(text, at)
            if escape is None:
                open_escape = _OPEN_ESCAPE.match(text, at)
                return (MORE, at) if open_escape and open_escape.end() == len(text) else (FAIL, at)
            at = escape.end()
        else:
            whole, length = character(text, at)
            if whole != DONE:
                return whole, at
            at += length


def number(text: bytes, at: int) -> Outcome:
    """A number, which is done once something follows that cannot be part of one."""
    last = len(text) - open_tail(text)
    found = _WHOLE.match(text, at, last)
    if found is None:
        return (MORE, last) if text[at:last] in (b"", b"-") else (FAIL, at)
    end = found.end()
    for part in (_FRACTION, _EXPONENT):
        found = part.match(text, end, last)
        end = found.end() if found else end
    if end == last:
        return MORE, end
    if not _GOES_ON.match(text, end):
        return DONE, end
    return (MORE, last) if _OPEN_NUMBER.fullmatch(text, at, last) else (FAIL, at)
