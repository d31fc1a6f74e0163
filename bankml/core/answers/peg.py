# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds parsers of answers as the reference does: numbered nodes, of which it makes grammars and with which it reads.

The numbers stand in the names of rules, so nodes are made in the order in which the reference's compiled code makes them:
of ``a + b`` and ``a | b`` the right side first, of ``a << b`` the left one.

Source: common_peg_parser_builder (common/peg-parser.cpp); common_chat_peg_builder (common/chat-peg-parser.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bankml.core.answers.peg_nodes import (
    CONTENT,
    JSON_VALUE,
    REASONING,
    Ahead,
    Atomic,
    Character,
    Chars,
    Choice,
    End,
    Gbnf,
    Including,
    Literal,
    Node,
    Parser,
    Quoted,
    Reference,
    Repeat,
    Rule,
    Schema,
    Sequence,
    Space,
    Tag,
    Until,
)
from bankml.core.constrain.schema_nodes import Document

_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9-]+")
_WHITE: Final = b" \t\n\v\f\r"


class Part:
    """A node that is wanted; it is made, and gets its number, when the number is asked for."""

    def __init__(self, builder: Builder, make: Callable[[], int]) -> None:
        self._builder = builder
        self._make = make
        self._number = -1

    @property
    def number(self) -> int:
        """The node's number."""
        if self._number < 0:
            self._number = self._make()
        return self._number

    def now(self) -> Part:
        """Itself, made here: for what the reference holds in a variable."""
        _ = self.number
        return self

    def __add__(self, other: Part | str) -> Part:
        return self._joined(other, lambda left, right: (left, right), right_first=True)

    def __lshift__(self, other: Part | str) -> Part:
        space = self._builder.space
        return self._joined(other, lambda left, right: (left, space().number, right), right_first=False)

    def __or__(self, other: Part) -> Part:
        def make() -> int:
            right = other.number
            return self._builder.flat(Choice, (self.number, right))

        return Part(self._builder, make)

    def __radd__(self, text: str) -> Part:
        """A literal before it, which is made after it."""

        def make() -> int:
            right = self.number
            return self._builder.flat(Sequence, (self._builder.literal(text).number, right))

        return Part(self._builder, make)

    def __rlshift__(self, text: str) -> Part:
        def make() -> int:
            right = self.number
            left = self._builder.literal(text).number
            return self._builder.flat(Sequence, (left, self._builder.space().number, right))

        return Part(self._builder, make)

    def _joined(self, other: Part | str, order: Callable[[int, int], tuple[int, ...]], right_first: bool) -> Part:
        def make() -> int:
            if isinstance(other, str) or not right_first:
                left = self.number
                right = (self._builder.literal(other) if isinstance(other, str) else other).number
            else:
                right = other.number
                left = self.number
            return self._builder.flat(Sequence, order(left, right))

        return Part(self._builder, make)


class Builder:
    """Makes the nodes of one parser. Text is str; a byte that is no UTF-8 stands as a surrogate escape."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._rules: dict[str, int] = {}

    def build(self, root: Part) -> Parser:
        """The parser whose root this is."""
        number = self._resolved(root.number)
        return Parser([self._without_references(node) for node in self._nodes], dict(self._rules), number)

    def _resolved(self, number: int) -> int:
        node = self._nodes[number]
        return self._rules[node.name] if isinstance(node, Reference) else number

    def _without_references(self, node: Node) -> Node:
        if isinstance(node, Sequence | Choice):
            return replace(node, children=tuple(self._resolved(each) for each in node.children))
        if isinstance(node, Repeat | Ahead | Including | Schema | Rule | Atomic | Tag | Gbnf):
            return replace(node, child=self._resolved(node.child))
        return node

    def add(self, node: Node) -> int:
        """Number a node."""
        self._nodes.append(node)
        return len(self._nodes) - 1

    def flat(self, kind: type[Sequence] | type[Choice], children: tuple[int, ...]) -> int:
        """Add a sequence or a choice; one of its own kind among the children gives its children."""
        flattened: list[int] = []
        for child in children:
            node = self._nodes[child]
            flattened += node.children if isinstance(node, kind) else (child,)
        return self.add(kind(tuple(flattened)))

    def _plain(self, node: Node) -> Part:
        return Part(self, lambda: self.add(node))

    def _around(self, child: Part, make: Callable[[int], Node]) -> Part:
        return Part(self, lambda: self.add(make(child.number)))

    def eps(self) -> Part:
        """Nothing."""
        return self._plain(Node())

    def end(self) -> Part:
        """The end of the text."""
        return self._plain(End())

    def space(self) -> Part:
        """Blanks."""
        return self._plain(Space())

    def literal(self, text: str) -> Part:
        """These characters."""
        return self._plain(Literal(text.encode("utf-8", "surrogateescape")))

    def chars(self, pattern: str, least: int = 1, most: int = -1) -> Part:
        """Characters of a class."""
        return self._plain(Chars(pattern, least, most))

    def until(self, *marks: str) -> Part:
        """Everything before the first of these."""
        return self._plain(Until(tuple(mark.encode("utf-8", "surrogateescape") for mark in marks)))

    def rest(self) -> Part:
        """Everything."""
        return self.until()

    def sequence(self, *parts: Part) -> Part:
        """One after the other, made in that order."""
        return Part(self, lambda: self.flat(Sequence, tuple(part.number for part in parts)))

    def choice(self, *parts: Part) -> Part:
        """The first that does not fail; made in that order."""
        return Part(self, lambda: self.flat(Choice, tuple(part.number for part in parts)))

    def repeat(self, part: Part, least: int, most: int) -> Part:
        """A part several times."""
        return self._around(part, lambda child: Repeat(child, least, most))

    def optional(self, part: Part) -> Part:
        """A part or nothing."""
        return self.repeat(part, 0, 1)

    def many(self, part: Part) -> Part:
        """A part any number of times."""
        return self.repeat(part, 0, -1)

    def peek(self, part: Part) -> Part:
        """A part follows."""
        return self._around(part, lambda child: Ahead(child, True))

    def negate(self, part: Part) -> Part:
        """A part does not follow."""
        return self._around(part, lambda child: Ahead(child, False))

    def content(self, part: Part) -> Part:
        """The part's text is the answer's content."""
        return self._around(part, lambda child: Tag(child, CONTENT))

    def reasoning(self, part: Part) -> Part:
        """The part's text is the answer's reasoning."""
        return self._around(part, lambda child: Tag(child, REASONING))

    def atomic(self, part: Part) -> Part:
        """A part as a whole."""
        return self._around(part, Atomic)

    def gbnf(self, part: Part, text: str) -> Part:
        """A part, in grammars this text."""
        return self._around(part, lambda child: Gbnf(child, text))

    def including(self, part: Part, mark: str) -> Part:
        """A part that ends with the mark."""
        return self._around(part, lambda child: Including(child, (mark.encode("utf-8", "surrogateescape"),)))

    def schema(self, part: Part, name: str, document: Document) -> Part:
        """A part, in grammars what the schema describes."""
        return self._around(part, lambda child: Schema(child, name, document))

    def ref(self, name: str) -> Part:
        """The rule of that name."""
        return self._plain(Reference(name))

    def rule(self, name: str, part: Part, trigger: bool = False) -> Part:
        """A part under a name, and a reference to it."""
        clean = _NO_NAME.sub("-", name)

        def make() -> int:
            self._rules[clean] = self.add(Rule(clean, part.number, trigger))
            return self.ref(clean).number

        return Part(self, make)

    def _recursive(self, name: str, make_part: Callable[[], Part]) -> Part:
        """A rule that may speak of itself; made once."""

        def make() -> int:
            if name not in self._rules:
                self._rules[name] = self.add(Rule(name, self.add(Character())))
                child = make_part().number
                self._rules[name] = self.add(Rule(name, child))
            return self.ref(name).number

        return Part(self, make)

    def json(self) -> Part:
        """A JSON value."""
        return self._recursive(
            JSON_VALUE,
            lambda: self.choice(
                self._recursive("json-object", self._object),
                self._recursive("json-array", self._array),
                self._string(),
                self._recursive("json-number", self._number),
                self._recursive("json-bool", lambda: self.choice(self.literal("true"), self.literal("false"))),
                self._recursive("json-null", lambda: self.literal("null")),
            ),
        )

    def _string(self) -> Part:
        quote = self.literal
        return self._recursive("json-string", lambda: self.sequence(quote('"'), self._plain(Quoted()), quote('"')))

    def _object(self) -> Part:
        ws = self.space().now()
        member = self.sequence(self._string(), ws, self.literal(":"), ws, self.json()).now()
        more = self.many(self.sequence(ws, self.literal(","), ws, member))
        members = self.sequence(member, more).now()
        return self._bracketed("{", ws, members, "}")

    def _array(self) -> Part:
        ws = self.space().now()
        elements = self.sequence(self.json(), self.many(self.sequence(ws, self.literal(","), ws, self.json()))).now()
        return self._bracketed("[", ws, elements, "]")

    def _bracketed(self, opening: str, ws: Part, items: Part, closing: str) -> Part:
        full = self.sequence(items, ws, self.literal(closing))
        return self.sequence(self.literal(opening), ws, self.choice(self.literal(closing), full))

    def _number(self) -> Part:
        first = self.chars("[1-9]", 1, 1).now()
        digits = self.chars("[0-9]").now()
        whole = self.choice(self.literal("0"), self.sequence(first, self.chars("[0-9]", 0, -1))).now()
        fraction = self.sequence(self.literal("."), digits).now()
        sign = self.optional(self.chars("[+-]", 1, 1))
        exponent = self.sequence(self.choice(self.literal("e"), self.literal("E")), sign, digits).now()
        over = self.negate(self.chars("[0-9.eE+-]", 1, 1)).now()
        return self.sequence(self.optional(self.literal("-")), whole, self.optional(fraction), self.optional(exponent), over)

    def prefix(self, text: str, mark: str) -> Part:
        """A text up to a mark in it; a mark that is empty or not there leaves it whole."""
        if not text:
            return self.eps()
        return self.literal(text.partition(mark)[0] if mark else text)

    def optspace(self, tag: str) -> Part:
        """A text whose outer blanks may each be missing."""

        def make() -> int:
            raw = tag.encode("utf-8", "surrogateescape")
            before = len(raw) - len(raw.lstrip(_WHITE))
            after = len(raw.rstrip(_WHITE)) if before < len(raw) else len(raw)
            pieces = [self.optional(self.literal(tag[i])) for i in range(before)]
            pieces.append(self._plain(Literal(raw[before:after])))
            pieces += [self.optional(self._plain(Literal(raw[i : i + 1]))) for i in range(after, len(raw))]
            whole = self.eps().number
            for piece in pieces:
                whole = self.flat(Sequence, (whole, piece.number))
            return whole

        return Part(self, make)
