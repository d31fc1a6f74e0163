# SPDX-License-Identifier: MIT OR Apache-2.0
"""The nodes of a parser of answers: what each matches, and the parser that they make together.

Source: common_peg_parser_variant, common/peg-parser.h.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from bankml.core.constrain.schema_nodes import Document

CONTENT: Final = "content"
REASONING: Final = "reasoning"
JSON_VALUE: Final = "json-value"


@dataclass(frozen=True)
class Node:
    """A parser that matches nothing, and always."""


@dataclass(frozen=True)
class End(Node):
    """The end of the text."""


@dataclass(frozen=True)
class Character(Node):
    """One character; only a place where a rule will stand."""


@dataclass(frozen=True)
class Space(Node):
    """Any number of blanks."""


@dataclass(frozen=True)
class Literal(Node):
    """These bytes."""

    text: bytes


@dataclass(frozen=True)
class Sequence(Node):
    """One after the other."""

    children: tuple[int, ...]


@dataclass(frozen=True)
class Choice(Node):
    """The first that does not fail."""

    children: tuple[int, ...]


@dataclass(frozen=True)
class Repeat(Node):
    """Repeat the child between ``least`` and ``most`` times; -1 means unbounded."""

    child: int
    least: int
    most: int


@dataclass(frozen=True)
class Ahead(Node):
    """What follows is the child, or is not; nothing is consumed."""

    child: int
    wanted: bool


@dataclass(frozen=True)
class Chars(Node):
    """Characters of an ASCII class, between ``least`` and ``most``."""

    pattern: str
    least: int
    most: int


@dataclass(frozen=True)
class Quoted(Node):
    """What stands between double quotes."""


@dataclass(frozen=True)
class Until(Node):
    """Everything before the first of these marks; with none, everything."""

    marks: tuple[bytes, ...]


@dataclass(frozen=True)
class Including(Node):
    """The child, which ends with one of these marks; a grammar takes everything up to and with the mark."""

    child: int
    marks: tuple[bytes, ...]


@dataclass(frozen=True)
class Schema(Node):
    """The child; a grammar takes what the schema describes."""

    child: int
    name: str
    document: Document = field(compare=False)


@dataclass(frozen=True)
class Rule(Node):
    """The child, under a name."""

    name: str
    child: int
    trigger: bool = False


@dataclass(frozen=True)
class Reference(Node):
    """The rule of that name; gone once the parser is built."""

    name: str


@dataclass(frozen=True)
class Atomic(Node):
    """The child, of which nothing is taken before it is complete."""

    child: int


@dataclass(frozen=True)
class Tag(Node):
    """The child, whose text is content or reasoning."""

    child: int
    tag: str


@dataclass(frozen=True)
class Gbnf(Node):
    """The child; a grammar has this text in its place."""

    child: int
    text: str


@dataclass(frozen=True)
class Parser:
    """A finished parser.

    Attributes:
        rules: name to node.
        root: the node that reads an answer.
    """

    nodes: list[Node]
    rules: dict[str, int]
    root: int
