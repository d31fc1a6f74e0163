# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tokens of a JSON text, and the first fault in the words of nlohmann::json.

No step holds the interpreter for longer than some thousand characters take, however long a token is.

Source: lexer of vendor/nlohmann/json.hpp.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

MAX_QUOTED: Final = 300
_DIGITS: Final = 1000
_POWER: Final = 1_000_000_000
BOM: Final = b"\xef\xbb\xbf"

_SPACE = re.compile(rb"[ \t\n\r]{0,65536}+")
_NUMBER = re.compile(rb"(-?)(0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_HEX4 = re.compile(rb"[0-9a-fA-F]{4}")
# A part of a string that ends between two characters, escapes and surrogate pairs whole.
_CHARACTERS = re.compile(
    rb"(?:[\x20\x21\x23-\x5b\x5d-\x7f]{1,1024}+"
    rb'|\\["\\/bfnrt]'
    rb"|\\u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?![dD][89a-fA-F])[0-9a-fA-F]{4})"
    rb"|[\xc2-\xdf][\x80-\xbf]"
    rb"|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}){0,1024}+"
)
_LITERALS = {ord("t"): (b"true", "true literal"), ord("f"): (b"false", "false literal"), ord("n"): (b"null", "null literal")}
_VALUES = {"true literal": True, "false literal": False, "null literal": None}
_PUNCTUATION = frozenset(b"[]{}:,")
_CONTROL = "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
_CONTROL_NAMES = _CONTROL.split()
_SHORT_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}
# Second and later bytes that UTF-8 allows after each first byte.
_TAIL = (0x80, 0xBF)
_WELL_FORMED = (
    ((0xC2, 0xDF), (_TAIL,)),
    ((0xE0, 0xE0), ((0xA0, 0xBF), _TAIL)),
    ((0xE1, 0xEC), (_TAIL, _TAIL)),
    ((0xED, 0xED), ((0x80, 0x9F), _TAIL)),
    ((0xEE, 0xEF), (_TAIL, _TAIL)),
    ((0xF0, 0xF0), ((0x90, 0xBF), _TAIL, _TAIL)),
    ((0xF1, 0xF3), (_TAIL, _TAIL, _TAIL)),
    ((0xF4, 0xF4), ((0x80, 0x8F), _TAIL, _TAIL)),
)


class FaultError(Exception):
    """The first fault of a text, in nlohmann's words."""


def double(sign: bytes, whole: bytes, fraction: bytes, exponent: bytes) -> float:
    """The parts of a number as a double, infinite where it overflows; time follows the first thousand digits only.

    Digits behind them decide a rounding only by whether one of them is not 0.
    """
    digits = (whole + fraction[1:]).lstrip(b"0")
    power = _exponent(exponent) - len(fraction[1:])
    if len(digits) > _DIGITS:
        power += len(digits) - _DIGITS
        digits = digits[:_DIGITS] + (b"1" if digits[_DIGITS:].strip(b"0") else b"0")
        power -= 1
    return float(f"{sign.decode()}{(digits or b'0').decode()}e{power}")


def _exponent(text: bytes) -> int:
    """An exponent as a number, held to what no number of 16 MiB can balance."""
    digits = text[1:].lstrip(b"+-").lstrip(b"0")
    power = int(digits or b"0") if len(digits) < len(str(_POWER)) else _POWER
    return -power if text[1:2] == b"-" else power


def finite(text: str) -> float:
    """A number's text as a double. Raises: ValueError where it overflows."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def integer(text: str) -> int | float:
    """An integer's text as nlohmann::json keeps it: a double beyond 64 bits. Raises: ValueError where that overflows."""
    if len(text) > 20:
        return finite(text)
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(value)


def _number(match: re.Match[bytes]) -> int | float:
    sign, whole, fraction, exponent = match.groups(b"")
    if not fraction and not exponent and len(whole) <= 20:
        value = int(sign + whole)
        return value if -(2**63) <= value < 2**64 else float(value)
    return double(sign, whole, fraction, exponent)


class Lexer:
    """Takes the tokens of a text one after the other, counting columns as nlohmann::json does.

    Attributes:
        body: the text.
        at: bytes consumed.
        ended: 1 once the end of the input has been read, which counts as a column.
        since: where the text that messages quote begins: the start of the last string or number.
        value: what the last literal, number or string means.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0
        self.ended = 0
        self.since = 0
        self.value: Any = None
        self._number = False

    def skip_bom(self) -> None:
        """Pass a byte order mark; nlohmann wants all of it once its first byte is there."""
        if self.body[:1] != BOM[:1]:
            return
        while self.at < len(BOM) and self.body[self.at : self.at + 1] == BOM[self.at : self.at + 1]:
            self.at += 1
        if self.at < len(BOM):
            self._next()
            raise self._fault("invalid BOM; must be 0xEF 0xBB 0xBF if given", "value")

    def token(self, context: str, expected: str = "") -> str:
        """Consume one token; returns its name in messages, and leaves its meaning in :attr:`value`.

        Args:
            context: what is being read.
            expected: what would be right here.

        Raises:
            FaultError: there is no token here.
        """
        self._number = False
        while (match := _SPACE.match(self.body, self.at)) and match.end() > self.at:
            self.at = match.end()
        if self.at == len(self.body):
            self.ended = 1
            return "end of input"
        first = self.body[self.at]
        if first in _PUNCTUATION:
            self.at += 1
            return f"'{chr(first)}'"
        if first == 0:
            self.at += 1
            return "end of input"
        if first in _LITERALS:
            return self._literal(first, context, expected)
        if first == ord('"'):
            return self._string(context, expected)
        if first == ord("-") or 0x30 <= first <= 0x39:
            return self._number_token(context, expected)
        self.at += 1
        raise self._fault("invalid literal", context, expected)

    def unexpected(self, kind: str, context: str, expected: str) -> FaultError:
        """The fault of a token that may not stand here."""
        return self._error(f"unexpected {kind}", context, expected)

    def empty(self) -> FaultError:
        """The fault of a text without a token."""
        return FaultError(
            f"[json.exception.parse_error.101] parse error{self._position()}: attempting to parse an empty input; "
            "check that your input string or stream contains the expected JSON"
        )

    def _literal(self, first: int, context: str, expected: str) -> str:
        word, name = _LITERALS[first]
        for letter in word:
            if self._next() != letter:
                raise self._fault("invalid literal", context, expected)
        self.value = _VALUES[name]
        return name

    def _number_token(self, context: str, expected: str) -> str:
        self.since = self.at
        match = _NUMBER.match(self.body, self.at)
        self.at = match.end() if match else self.at + 1
        following = self.body[self.at : self.at + 1]
        fault = ""
        if match is None:
            fault = "expected digit after '-'"
        elif following == b"." and match[3] is None and match[4] is None:
            self.at += 1
            fault = "expected digit after '.'"
        elif following in (b"e", b"E") and match[4] is None:
            self.at += 1
            fault = "expected '+', '-', or digit after exponent"
            if self.body[self.at : self.at + 1] in (b"+", b"-"):
                self.at += 1
                fault = "expected digit after exponent sign"
        if fault or match is None:
            self._next()
            raise self._fault(f"invalid number; {fault}", context, expected)
        self._number = True
        self.value = _number(match)
        return "number literal"

    def overflow(self) -> FaultError | None:
        """The fault of a number beyond a double, None where the last token is no such number."""
        if not self._number or not math.isinf(self.value):
            return None
        text = bytes(self.body[self.since : min(self.at, self.since + MAX_QUOTED)]).decode("ascii")
        cut = "…" if self.at - self.since > MAX_QUOTED else ""
        return FaultError(f"[json.exception.out_of_range.406] number overflow parsing '{text}{cut}'")

    def _string(self, context: str, expected: str) -> str:
        self.since = self.at
        self.at += 1
        parts = []
        while True:
            match = _CHARACTERS.match(self.body, self.at)
            assert match is not None
            if match.end() == self.at:
                break
            part = match[0]
            parts.append(json.loads(b'"%b"' % part) if b"\\" in part else part.decode("utf-8"))
            self.at = match.end()
        if self._next() is None:
            raise self._fault("invalid string: missing closing quote", context, expected)
        found = self.body[self.at - 1]
        if found == ord('"'):
            self.value = "".join(parts)
            return "string literal"
        if found == ord("\\"):
            fault = self._escape()
        elif found < 0x20:
            also = f" or {_SHORT_ESCAPES[found]}" if found in _SHORT_ESCAPES else ""
            fault = f"control character U+{found:04X} ({_CONTROL_NAMES[found]}) must be escaped to \\u{found:04X}{also}"
        else:
            fault = self._ill_formed(found)
        raise self._fault(f"invalid string: {fault}", context, expected)

    def _ill_formed(self, first: int) -> str:
        for (low, high), tails in _WELL_FORMED:
            if low <= first <= high:
                for tail_low, tail_high in tails:
                    byte = self._next()
                    if byte is None or not tail_low <= byte <= tail_high:
                        break
        return "ill-formed UTF-8 byte"

    def _escape(self) -> str:
        if self._next() != ord("u"):
            return "forbidden character after backslash"
        unit = self._hex4()
        if unit is None:
            return "'\\u' must be followed by 4 hex digits"
        if 0xDC00 <= unit <= 0xDFFF:
            return "surrogate U+DC00..U+DFFF must follow U+D800..U+DBFF"
        if self._next() == ord("\\") and self._next() == ord("u") and self._hex4() is None:
            return "'\\u' must be followed by 4 hex digits"
        return "surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF"

    def _hex4(self) -> int | None:
        match = _HEX4.match(self.body, self.at)
        if match:
            self.at += 4
            return int(match[0], 16)
        byte = self._next()
        while byte is not None and chr(byte) in "0123456789abcdefABCDEF":
            byte = self._next()
        return None

    def _next(self) -> int | None:
        if self.at == len(self.body):
            self.ended = 1
            return None
        self.at += 1
        return self.body[self.at - 1]

    def _position(self) -> str:
        line = self.body.count(b"\n", 0, self.at) + 1
        column = self.at - (self.body.rfind(b"\n", 0, self.at) + 1) + self.ended
        if self._number and self.body[self.at : self.at + 1] == b"\n":
            # The reader looked at the line break and put it back: it lost the column by that.
            column = 0
        return f" at line {line}, column {column}"

    def _fault(self, fault: str, context: str, expected: str = "") -> FaultError:
        # A character takes at most four bytes, so these hold all that is quoted.
        read = bytes(self.body[self.since : min(self.at, self.since + 4 * MAX_QUOTED + 4)]).decode("utf-8", "replace")
        quoted = "".join(f"<U+{ord(c):04X}>" if c <= "\x1f" else c for c in read)
        if len(quoted) > MAX_QUOTED:
            quoted = f"{quoted[:MAX_QUOTED]}…"
        return self._error(f"{fault}; last read: '{quoted}'", context, expected)

    def _error(self, what: str, context: str, expected: str) -> FaultError:
        wanted = f"; expected {expected}" if expected else ""
        return FaultError(
            f"[json.exception.parse_error.101] parse error{self._position()}: "
            f"syntax error while parsing {context} - {what}{wanted}"
        )
