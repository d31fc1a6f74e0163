# SPDX-License-Identifier: MIT OR Apache-2.0
"""The JSON reader of requests: strict RFC 8259, within limits, refusing in the words that llama-server uses.

A good body costs one pass of the standard library. Only a bad one is walked again, to say what stands where.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from bankml.core.refusal import Refusal

MAX_DEPTH = 128
MAX_WALK = 1 << 20
"""Bodies longer than this get the standard library's account of their fault: the walk takes a second for each MiB."""
MAX_QUOTED = 300
BOM = b"\xef\xbb\xbf"

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

_SPACE = re.compile(rb"[ \t\n\r]*+")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_HEX4 = re.compile(rb"[0-9a-fA-F]{4}")
_STRING = re.compile(
    rb'"(?:[\x20\x21\x23-\x5b\x5d-\x7f]++'
    rb'|\\["\\/bfnrt]'
    rb"|\\u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?![dD][89a-fA-F])[0-9a-fA-F]{4})"
    rb"|[\xc2-\xdf][\x80-\xbf]"
    rb"|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*+"
)
_LITERALS = {ord("t"): (b"true", "true literal"), ord("f"): (b"false", "false literal"), ord("n"): (b"null", "null literal")}
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


def type_name(value: Any) -> str:
    """The JSON type of a value, in the words of llama-server's messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def type_error(expected: str, value: Any) -> str:
    """llama-server's sentence for a value of a wrong JSON type. Source: type_error 302 of nlohmann::json."""
    return f"[json.exception.type_error.302] type must be {expected}, but is {type_name(value)}"


def server_error(message: str) -> Refusal:
    """A refusal in the dress of llama-server's uncaught exceptions: status 500, whatever the cause.

    Source: ex_wrapper, tools/server/server.cpp.
    """
    return Refusal("http.request", message, status=500, kind="server_error")


def read_json(body: bytes) -> Any:
    """The JSON value in ``body``; the last of equal keys wins, integers beyond 64 bits become doubles.

    Raises:
        Refusal: not JSON (status 500 and the message of b11192), or nested deeper than 128 (status 400).

    Source: common_json::parse, common/json.cpp.
    """
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _limit_depth(body)
    text = body.removeprefix(BOM)
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        if len(body) > MAX_WALK:
            raise server_error(f"[json.exception.parse_error.101] parse error: {error}"[:MAX_QUOTED]) from None
        # llama-server would stop reading at a NUL byte after the value and answer; bankml reads the whole body or none of it.
        raise server_error(_Walk(body).complaint() or "the request goes on after a NUL byte") from None
    if _SURROGATE.search(text):
        _refuse_lone_surrogates(body, value)
    return value


def _refuse_lone_surrogates(body: bytes, value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        complaint = _Walk(body).complaint() if len(body) <= MAX_WALK else "invalid string: a surrogate stands alone"
        raise server_error(complaint) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _integer(text: str) -> int | float:
    if len(text) > 20:
        return _finite(text)
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(value)


def _limit_depth(body: bytes) -> None:
    depth = 0
    for found in _BRACKETS.finditer(body):
        first = found[0][0]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Refusal(
                    "http.json-depth",
                    f"the request is nested deeper than {MAX_DEPTH} levels",
                    where=f"byte {found.start()}",
                    allowed=f"at most {MAX_DEPTH} levels",
                )
        elif first in b"]}":
            depth -= 1


class _FaultError(Exception):
    """What is wrong with a token, after how many bytes."""


class _Walk:
    """Walks a body that is not JSON up to its first fault, counting as nlohmann::json does.

    Attributes:
        at: bytes consumed.
        ended: 1 once the end of the input has been read, which counts as a column.
        since: where the text that messages quote begins: the start of the last string or number.

    Source: lexer and parser of vendor/nlohmann/json.hpp.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0
        self.ended = 0
        self.since = 0
        self.number = False

    def complaint(self) -> str:
        """The message of the first fault; empty when there is none."""
        try:
            self._document()
        except _FaultError as bad:
            return str(bad)
        return ""

    def _document(self) -> None:
        if self.body.startswith(b"\xef"):
            while self.at < len(BOM) and self.body[self.at : self.at + 1] == BOM[self.at : self.at + 1]:
                self.at += 1
            if self.at < len(BOM):
                self._next()
                raise self._fault("invalid BOM; must be 0xEF 0xBB 0xBF if given", "value")
        self._value(self._token("value"))
        kind = self._token("value", "end of input")
        if kind != "end of input":
            raise self._unexpected(kind, "value", "end of input")

    def _value(self, kind: str) -> None:
        open_brackets: list[str] = []
        while True:
            if kind == "'{'":
                kind = self._token("object key", "string literal")
                if kind != "'}'":
                    self._key(kind)
                    open_brackets.append("'}'")
                    kind = self._token("value")
                    continue
            elif kind == "'['":
                kind = self._token("value")
                if kind != "']'":
                    open_brackets.append("']'")
                    continue
            elif kind == "end of input" and self.at + self.ended == 1:
                raise _FaultError(
                    f"[json.exception.parse_error.101] parse error{self._position()}: attempting to parse an empty input; "
                    "check that your input string or stream contains the expected JSON"
                )
            elif not kind.endswith("literal"):
                raise self._unexpected(kind, "value", "'[', '{', or a literal")
            elif self.number:
                self._refuse_overflow()
            while open_brackets:
                closing = open_brackets[-1]
                context = "object" if closing == "'}'" else "array"
                kind = self._token(context, closing)
                if kind == closing:
                    open_brackets.pop()
                    continue
                if kind != "','":
                    raise self._unexpected(kind, context, closing)
                if context == "object":
                    self._key(self._token("object key", "string literal"))
                kind = self._token("value")
                break
            else:
                return

    def _refuse_overflow(self) -> None:
        text = self.body[self.since : self.at].decode("ascii")
        if math.isinf(float(text)):
            raise _FaultError(f"[json.exception.out_of_range.406] number overflow parsing '{text}'")

    def _key(self, kind: str) -> None:
        if kind != "string literal":
            raise self._unexpected(kind, "object key", "string literal")
        kind = self._token("object separator", "':'")
        if kind != "':'":
            raise self._unexpected(kind, "object separator", "':'")

    def _token(self, context: str, expected: str = "") -> str:
        """Consume one token; returns its name in messages."""
        self.number = False
        match = _SPACE.match(self.body, self.at)
        assert match is not None
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
        if first == ord("-") or chr(first).isdigit():
            return self._number(context, expected)
        self.at += 1
        raise self._fault("invalid literal", context, expected)

    def _literal(self, first: int, context: str, expected: str) -> str:
        word, name = _LITERALS[first]
        for letter in word:
            if self._next() != letter:
                raise self._fault("invalid literal", context, expected)
        return name

    def _number(self, context: str, expected: str) -> str:
        self.since = self.at
        match = _NUMBER.match(self.body, self.at)
        self.at = match.end() if match else self.at + 1
        following = self.body[self.at : self.at + 1]
        text = self.body[self.since : self.at]
        fault = ""
        if match is None:
            fault = "expected digit after '-'"
        elif following == b"." and not re.search(rb"[.eE]", text):
            self.at += 1
            fault = "expected digit after '.'"
        elif following in (b"e", b"E") and not re.search(rb"[eE]", text):
            self.at += 1
            fault = "expected '+', '-', or digit after exponent"
            if self.body[self.at : self.at + 1] in (b"+", b"-"):
                self.at += 1
                fault = "expected digit after exponent sign"
        if fault:
            self._next()
            raise self._fault(f"invalid number; {fault}", context, expected)
        self.number = True
        return "number literal"

    def _string(self, context: str, expected: str) -> str:
        self.since = self.at
        match = _STRING.match(self.body, self.at)
        assert match is not None
        self.at = match.end()
        if self._next() is None:
            raise self._fault("invalid string: missing closing quote", context, expected)
        found = self.body[self.at - 1]
        if found == ord('"'):
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
        if self.number and self.body[self.at : self.at + 1] == b"\n":
            # The reader looked at the line break and put it back: it lost the column by that.
            column = 0
        return f" at line {line}, column {column}"

    def _fault(self, fault: str, context: str, expected: str = "") -> _FaultError:
        quoted = "".join(
            f"<U+{ord(c):04X}>" if c <= "\x1f" else c for c in self.body[self.since : self.at].decode("utf-8", "replace")
        )
        if len(quoted) > MAX_QUOTED:
            quoted = f"{quoted[:MAX_QUOTED]}…"
        return self._error(f"{fault}; last read: '{quoted}'", context, expected)

    def _unexpected(self, kind: str, context: str, expected: str) -> _FaultError:
        return self._error(f"unexpected {kind}", context, expected)

    def _error(self, what: str, context: str, expected: str) -> _FaultError:
        wanted = f"; expected {expected}" if expected else ""
        return _FaultError(
            f"[json.exception.parse_error.101] parse error{self._position()}: "
            f"syntax error while parsing {context} - {what}{wanted}"
        )
