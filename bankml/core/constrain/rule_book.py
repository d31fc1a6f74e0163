# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rules that a schema becomes, by name; names that are taken get a number.

Texts here are bytes written as latin-1 characters, for the reference works on bytes.

Source: common_chat_schema_converter, common/json-schema-to-grammar.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bankml.core.constrain.gbnf import MAX_TEXT
from bankml.refusal import Refusal

SPACE: Final = r'| " " | "\n"{1,2} [ \t]{0,20}'
MAX_TRIES: Final = 2_000_000

PRIMITIVES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "boolean": ('("true" | "false")', ()),
    "decimal-part": ("[0-9]{1,16}", ()),
    "integral-part": ("[0] | [1-9] [0-9]{0,15}", ()),
    "number": ('("-"? integral-part) ("." decimal-part)? ([eE] [-+]? integral-part)?', ("integral-part", "decimal-part")),
    "integer": ('("-"? integral-part)', ("integral-part",)),
    "value": (
        "object | array | string | number | boolean | null",
        ("object", "array", "string", "number", "boolean", "null"),
    ),
    "object": (
        '"{" space ( string ":" space value ("," space string ":" space value)* )? space "}"',
        ("string", "value"),
    ),
    "array": ('"[" space ( value ("," space value)* )? space "]"', ("value",)),
    "uuid": (r'"\"" ' + ' "-" '.join(f"[0-9a-fA-F]{{{size}}}" for size in (8, 4, 4, 4, 12)) + r' "\""', ()),
    "char": (r'[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})', ()),
    "string": (r'"\"" char* "\""', ("char",)),
    "null": ('"null"', ()),
}

FORMATS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "date": ('[0-9]{4} "-" ( "0" [1-9] | "1" [0-2] ) "-" ( "0" [1-9] | [1-2] [0-9] | "3" [0-1] )', ()),
    "time": (
        '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{3} )? '
        '( "Z" | ( "+" | "-" ) ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] )',
        (),
    ),
    "date-time": ('date "T" time', ("date", "time")),
    "date-string": (r'"\"" date "\""', ("date",)),
    "time-string": (r'"\"" time "\""', ("time",)),
    "date-time-string": (r'"\"" date-time "\""', ("date-time",)),
}

RESERVED: Final = frozenset({"root", *PRIMITIVES, *FORMATS})

_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9-]+")
_ESCAPED: Final = {"\r": "\\r", "\n": "\\n", '"': '\\"', "\\": "\\\\"}
_TO_ESCAPE: Final = re.compile(r'[\r\n"\\]')


def literal(text: str) -> str:
    """A text as a GBNF literal."""
    return '"' + _TO_ESCAPE.sub(lambda found: _ESCAPED[found[0]], text) + '"'


def dashed(name: str) -> str:
    """A name of which only letters, digits and dashes are left."""
    return _NO_NAME.sub("-", name)


def repetition(item: str, least: int, most: int | None, separator: str = "") -> str:
    """``item`` between ``least`` and ``most`` times; ``most`` is None where there is no bound. Source: build_repetition."""
    if most == 0:
        return ""
    if least == 0 and most == 1:
        return item + "?"
    if separator:
        rest = repetition(f"({separator} {item})", max(least - 1, 0), None if most is None else most - 1)
        return f"({item} {rest})?" if least == 0 else f"{item} {rest}"
    if most is None and least in (0, 1):
        return item + "*+"[least]
    return f"{item}{{{least},{'' if most is None else most}}}"


class RuleBook:
    """Rules by name.

    Attributes:
        rules: name to right-hand side.
    """

    def __init__(self) -> None:
        self.rules: dict[str, str] = {"space": SPACE}
        self._tries = 0
        self._size = 0
        self._begun = 0

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Write, in the block, what a rule of this name is made of; the names of unfinished rules count as written.

        Raises:
            Refusal: ``schema.limit``.
        """
        self._begun += len(name)
        self._check_size()
        yield
        self._begun -= len(name)

    def add(self, name: str, rule: str) -> str:
        """Write a rule under a name, or the name with the first number that is free or holds the same rule.

        Raises:
            Refusal: ``schema.limit`` when that takes too long, or all rules take more than a grammar may have.
        """
        name = key = dashed(name)
        number = 0
        while self.rules.get(key, rule) != rule:
            key = f"{name}{number}"
            number += 1
            self._tries += 1
            if self._tries > MAX_TRIES:
                raise Refusal("schema.limit", "too many parts of the schema have the same name")
        if key not in self.rules:
            self._size += len(key) + len(rule)
            self._check_size()
        self.rules[key] = rule
        return key

    def _check_size(self) -> None:
        if self._size + self._begun > MAX_TEXT:
            message = f"the schema's grammar is too long: bankml's limit is {MAX_TEXT} bytes"
            raise Refusal("schema.limit", message, allowed=f"at most {MAX_TEXT} bytes")

    def add_primitive(self, name: str, rule: str) -> str:
        """Write a primitive rule, named ``rule`` in the tables, and those that it needs."""
        text, needed = PRIMITIVES[rule] if rule in PRIMITIVES else FORMATS[rule]
        key = self.add(name, text)
        for each in needed:
            if each not in self.rules:
                self.add_primitive(each, each)
        return key

    def text(self) -> str:
        """All rules, by the bytes of their names."""
        return "".join([f"{name} ::= {self.rules[name]}\n" for name in sorted(self.rules)])
