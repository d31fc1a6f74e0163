# SPDX-License-Identifier: MIT OR Apache-2.0
"""The JSON reader of requests: strict RFC 8259, within limits, refusing in the words that llama-server uses.

A short text is read by the standard library. A long one, and one that the library refuses, is read token by token: time and
memory stay in proportion to its length, and no step keeps other threads waiting.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from bankml.core.abandon import go_on
from bankml.core.json.faults import server_error
from bankml.core.json.lexer import BOM, FaultError, Lexer, finite, integer
from bankml.refusal import Refusal

MAX_DEPTH: Final = 128
SHORT: Final = 1 << 15
"""Bytes up to which the standard library reads a text in about a millisecond, whatever it holds."""
FREE_BYTES: Final = 24 << 20
"""Memory that the values of any text may take, besides once its length; strings take what they take, at most four times it."""

_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_NUMBERS = re.compile(
    rb"(?:[ \t\n\r]{0,64}+-?(?:0|[1-9][0-9]{0,18}+)(?:\.[0-9]{1,20}+)?(?:[eE][+-]?[0-9]{1,3}+)?[ \t\n\r]{0,64}+,){1,512}+"
)
# Bytes that CPython takes for a value and its place in its container, rounded up.
_LIST: Final = 120
_OBJECT: Final = 260
_MEMBER: Final = 120
_PLACE: Final = 10
_NUMBER: Final = 34
_STRING: Final = 76
# Integers that CPython holds anyway.
_KEPT: Final = range(-5, 257)
_STEPS: Final = 1 << 10


def read_json(body: bytes) -> Any:
    """The JSON value in ``body``; the last of equal keys wins, integers beyond 64 bits become doubles.

    Raises:
        Refusal: not JSON (status 500 and the message of b11192), nested deeper than 128 (400), or with values that
            take more memory than a body of this length is given (413).
        Abandoned: nobody wants it any more.

    Source: common_json::parse, common/json.cpp.
    """
    if len(body) > SHORT:
        return Reader(body).read()
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _limit_depth(body)
    text = body.removeprefix(BOM)
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_no_constant, parse_float=finite, parse_int=integer)
    except (ValueError, RecursionError):
        return Reader(body).read()
    # The library takes half a surrogate pair for a character.
    return Reader(body).read() if _SURROGATE.search(text) else value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _too_deep(at: int) -> Refusal:
    return Refusal(
        "http.json-depth",
        f"the request is nested deeper than {MAX_DEPTH} levels",
        where=f"byte {at}",
        allowed=f"at most {MAX_DEPTH} levels",
    )


def _limit_depth(body: bytes) -> None:
    depth = 0
    for found in _BRACKETS.finditer(body):
        first = found[0][0]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep(found.start())
        elif first in b"]}":
            depth -= 1


class Reader:
    """Reads one text token by token, up to its first fault, and counts what its values take."""

    def __init__(self, body: bytes) -> None:
        self._lexer = Lexer(body)
        self._size = len(body)
        self._memory = len(body) + FREE_BYTES
        self._steps = 0
        self._names: dict[str, str] = {}

    def read(self) -> Any:
        """The value.

        Raises:
            Refusal: as :func:`read_json`.
        """
        lexer = self._lexer
        try:
            lexer.skip_bom()
            value = self._value(lexer.token("value"))
            kind = lexer.token("value", "end of input")
            if kind != "end of input":
                raise lexer.unexpected(kind, "value", "end of input")
        except FaultError as fault:
            raise server_error(str(fault)) from None
        if not lexer.ended:
            # llama-server would stop reading at a NUL byte after the value and answer.
            raise server_error("the request goes on after a NUL byte")
        return value

    def _value(self, kind: str) -> Any:
        """Read a value whose first token was taken. Source: parser::sax_parse_internal of nlohmann::json."""
        lexer = self._lexer
        containers: list[list[Any] | dict[str, Any]] = []
        names: list[str] = []
        value: Any
        while True:
            self._count()
            if kind == "'{'":
                value = {}
                self._charge(_OBJECT)
                kind = lexer.token("object key", "string literal")
                if kind != "'}'":
                    names.append(self._name(kind))
                    self._open(containers, value)
                    kind = lexer.token("value")
                    continue
            elif kind == "'['":
                value = []
                self._charge(_LIST)
                self._take_numbers(value)
                kind = lexer.token("value")
                if kind != "']'" or value:
                    self._open(containers, value)
                    continue
            elif kind == "end of input" and lexer.at + lexer.ended == 1:
                raise lexer.empty()
            elif not kind.endswith("literal"):
                raise lexer.unexpected(kind, "value", "'[', '{', or a literal")
            elif (overflow := lexer.overflow()) is not None:
                raise overflow
            else:
                value = lexer.value
                own = _STRING if kind == "string literal" else _NUMBER if kind == "number literal" else 0
                self._charge(_PLACE + own)
            while containers:
                container = containers[-1]
                if isinstance(container, dict):
                    container[names.pop()] = value
                    closing, context = "'}'", "object"
                else:
                    container.append(value)
                    closing, context = "']'", "array"
                kind = lexer.token(context, closing)
                if kind == closing:
                    value = containers.pop()
                    continue
                if kind != "','":
                    raise lexer.unexpected(kind, context, closing)
                if isinstance(container, dict):
                    names.append(self._name(lexer.token("object key", "string literal")))
                else:
                    self._take_numbers(container)
                kind = lexer.token("value")
                break
            else:
                return value

    def _open(self, containers: list[list[Any] | dict[str, Any]], value: list[Any] | dict[str, Any]) -> None:
        if len(containers) >= MAX_DEPTH:
            raise _too_deep(self._lexer.at)
        containers.append(value)

    def _name(self, kind: str) -> str:
        """The name of a member whose first token was taken, with its colon."""
        lexer = self._lexer
        if kind != "string literal":
            raise lexer.unexpected(kind, "object key", "string literal")
        name: str = lexer.value
        kind = lexer.token("object separator", "':'")
        if kind != "':'":
            raise lexer.unexpected(kind, "object separator", "':'")
        self._charge(_MEMBER)
        known = self._names.get(name)
        if known is not None:
            return known
        self._charge(_STRING)
        if len(self._names) < _STEPS:
            self._names[name] = name
        return name

    def _take_numbers(self, into: list[Any]) -> None:
        """Take the numbers that stand here in a row, each with its comma, some hundred at a time."""
        lexer = self._lexer
        while match := _NUMBERS.match(lexer.body, lexer.at):
            self._count()
            try:
                numbers = json.loads(b"[%b]" % match[0][:-1], parse_float=finite, parse_int=integer)
            except ValueError:
                # One of them overflows: token by token, the fault names it.
                return
            self._charge(_PLACE * len(numbers) + _NUMBER * sum(not (type(each) is int and each in _KEPT) for each in numbers))
            into += numbers
            last = match[0].rfind(b",", 0, -1) + 1
            lexer.since = match.end() - len(match[0][last:].lstrip())
            lexer.at = match.end()

    def _count(self) -> None:
        self._steps += 1
        if self._steps % _STEPS == 0:
            go_on()

    def _charge(self, size: int) -> None:
        self._memory -= size
        if self._memory < 0:
            raise Refusal(
                "http.json-values",
                "the request holds too many values for its length",
                where=f"byte {self._lexer.at}",
                allowed=f"values that take at most {(self._size + FREE_BYTES) >> 20} MiB",
                status=413,
            )
