# SPDX-License-Identifier: MIT OR Apache-2.0
"""The grammar that binds an answer to a parser, byte for byte the reference's.

Source: common_peg_arena::build_grammar (common/peg-parser.cpp), common_aho_corasick (common/trie.cpp).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from bankml.core.answers.peg_nodes import (
    Atomic,
    Character,
    Chars,
    Choice,
    Gbnf,
    Including,
    Literal,
    Node,
    Parser,
    Quoted,
    Repeat,
    Rule,
    Schema,
    Sequence,
    Space,
    Tag,
    Until,
)
from bankml.core.constrain.rule_book import RuleBook, literal
from bankml.core.constrain.schema import SchemaGrammar, add_schema

_STRING = r'( [^"\\] | "\\" ( ["\\/ bfnrt] | "u" [0-9a-fA-F]{4} ) )*'
_IN_CLASS = {"\n": "\\n", "\t": "\\t", "\r": "\\r", **{char: "\\" + char for char in "-][\\"}}


def grammar_of_parser(parser: Parser) -> SchemaGrammar:
    """The grammar of what a parser reads.

    Raises:
        Refusal: a schema in it has no grammar: ``schema.unsupported``, ``schema.limit``.
    """
    return _Writer(parser).written()


class _Writer:
    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.book = RuleBook()
        self.warnings: list[str] = []

    def written(self) -> SchemaGrammar:
        for number in self._reachable():
            node = self.parser.nodes[number]
            if isinstance(node, Rule):
                self.book.add(node.name, self.text(node.child))
        self.book.add("root", self.text(self.parser.root))
        return SchemaGrammar(self.book.text().encode("latin-1"), self.warnings)

    def _reachable(self) -> Iterator[int]:
        """The rules that the root comes to."""
        seen: set[int] = set()
        waiting = [self.parser.root]
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            node = self.parser.nodes[number]
            if isinstance(node, Rule):
                yield number
            waiting += getattr(node, "children", ())
            child = getattr(node, "child", None)
            if child is not None:
                waiting.append(child)

    def text(self, number: int) -> str:
        """The right-hand side of a node."""
        node = self.parser.nodes[number]
        match node:
            case Literal():
                return literal(node.text.decode("latin-1"))
            case Sequence():
                texts = [self._grouped(child, (Choice, Sequence)) for child in node.children]
                return " ".join([each for each in texts if each])
            case Choice():
                return self._alternatives(node)
            case Repeat():
                return _times(self._grouped(node.child, (Choice, Sequence), always=True), node.least, node.most)
            case Character():
                return "."
            case Space():
                return "space"
            case Chars():
                return _times(node.pattern, node.least, node.most)
            case Quoted():
                return _STRING
            case Until():
                return _excluding(self.book, f"until-{number}", node.marks) if node.marks else ".*"
            case Including():
                return _including(self.book, f"ac-{number}", node.marks)
            case Schema():
                name, warnings = add_schema(self.book, node.document, node.name)
                self.warnings += warnings
                return name
            case Rule():
                return node.name
            case Tag() | Atomic():
                return self.text(node.child)
            case Gbnf():
                return node.text
        return ""

    def _grouped(self, number: int, kinds: tuple[type[Node], ...], always: bool = False) -> str:
        """The text of a child, in brackets where it is of one of these kinds."""
        text = self.text(number)
        node = self.parser.nodes[number]
        while isinstance(node, Tag | Atomic):
            node = self.parser.nodes[node.child]
        return f"({text})" if isinstance(node, kinds) and (text or always) else text

    def _alternatives(self, node: Choice) -> str:
        """Source: the bar stands only where something is written already."""
        text = ""
        for child in node.children:
            text += (" | " if text else "") + self._grouped(child, (Choice,), always=True)
        return text


def _times(item: str, least: int, most: int) -> str:
    sign = {(0, 1): "?", (0, -1): "*", (1, -1): "+", (1, 1): ""}.get((least, most))
    if sign is not None:
        return item + sign
    if most == -1:
        return f"{item}{{{least},}}"
    return f"{item}{{{least}}}" if least == most else f"{item}{{{least},{most}}}"


def _class(points: list[int], negated: bool = False) -> str:
    return ("[^" if negated else "[") + "".join([_in_class(point) for point in points]) + "]"


def _in_class(point: int) -> str:
    char = chr(point)
    if char in _IN_CLASS:
        return _IN_CLASS[char]
    if 0x20 <= point <= 0x7E:
        return char
    if point <= 0xFF:
        return f"\\x{point:02X}"
    return f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"


def _points(word: bytes) -> list[int]:
    """Characters up to the first byte that is none."""
    try:
        return [ord(char) for char in word.decode("utf-8")]
    except UnicodeDecodeError as error:
        return [ord(char) for char in word[: error.start].decode("utf-8")]


class _Automaton:
    """Which of some words a text has come how far in: a trie with the ways back."""

    def __init__(self, words: tuple[bytes, ...]) -> None:
        self.children: list[dict[int, int]] = [{}]
        ends = {self._insert(_points(word)) for word in words}
        self.back = [0] * len(self.children)
        self.ends = [state in ends for state in range(len(self.children))]
        waiting = deque([0])
        while waiting:
            state = waiting.popleft()
            self.ends[state] |= state != 0 and self.ends[self.back[state]]
            for point in sorted(self.children[state]):
                child = self.children[state][point]
                if state:
                    self.back[child] = self.next(self.back[state], point)
                waiting.append(child)
        self.alphabet = sorted({point for each in self.children for point in each})

    def _insert(self, points: list[int]) -> int:
        state = 0
        for point in points:
            if point not in self.children[state]:
                self.children[state][point] = len(self.children)
                self.children.append({})
            state = self.children[state][point]
        return state

    def next(self, state: int, point: int) -> int:
        """The state after a character."""
        while state and point not in self.children[state]:
            state = self.back[state]
        return self.children[state].get(point, 0)


def _scan(book: RuleBook, prefix: str, words: tuple[bytes, ...], rule: Callable[[list[int], dict[int, list[int]]], str]) -> str:
    """A rule for each state of the automaton that is no end; returns the name of the first.

    ``rule`` is given the characters that complete a word, and those that lead to each other state but the first.
    """
    automaton = _Automaton(words)
    if automaton.ends[0]:
        book.add(prefix, "|")
    for state in range(len(automaton.children)):
        if automaton.ends[state]:
            continue
        completing: list[int] = []
        leading: dict[int, list[int]] = {}
        for point in automaton.alphabet:
            after = automaton.next(state, point)
            if automaton.ends[after]:
                completing.append(point)
            elif after:
                leading.setdefault(after, []).append(point)
        book.add(_state(prefix, state), rule(completing, leading))
    return prefix


def _state(prefix: str, state: int) -> str:
    return f"{prefix}-{state:02}" if state else prefix


def _ways(prefix: str, completing: list[int], leading: dict[int, list[int]]) -> list[str]:
    ways = [f"{_class(leading[state])} {_state(prefix, state)}" for state in sorted(leading)]
    named = sorted([*completing, *(point for points in leading.values() for point in points)])
    return [*ways, f"{_class(named, negated=True)} {prefix}"]


def _excluding(book: RuleBook, prefix: str, words: tuple[bytes, ...]) -> str:
    """Rules of a text in which none of the words stands."""
    return _scan(book, prefix, words, lambda completing, leading: "| " + " | ".join(_ways(prefix, completing, leading)))


def _including(book: RuleBook, prefix: str, words: tuple[bytes, ...]) -> str:
    """Rules of a text that ends with the first of the words that stands in it."""

    def rule(completing: list[int], leading: dict[int, list[int]]) -> str:
        return " | ".join([*([_class(completing)] if completing else []), *_ways(prefix, completing, leading)])

    return _scan(book, prefix, words, rule)
