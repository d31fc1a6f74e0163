# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a parser reads in an answer that may not be complete: its content and its reasoning.

Source: parser_executor (common/peg-parser.cpp), common_chat_peg_parse (common/chat.cpp), the mappers of
common/chat-peg-parser.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bankml.core.answers.characters import Shortened, character, open_tail
from bankml.core.answers.json_scan import DONE, FAIL, MORE, JsonScan, string_content
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
    Repeat,
    Rule,
    Schema,
    Sequence,
    Space,
    Tag,
    Until,
)

_SPACE: Final = re.compile(rb"[ \t\n\v\f\r]*")
_WHITE: Final = b" \n\r\t"
_REPLACEMENT: Final = "\ufffd".encode()

Run = tuple[int, int]
"""Where bytes that are no character stand, and how many."""


class Marked(NamedTuple):
    """A text that is content or reasoning."""

    tag: str
    start: int
    end: int
    broken: tuple[Run, ...]


class Result(NamedTuple):
    """What one node made of the text at a place."""

    kind: int
    end: int
    marked: tuple[Marked, ...] = ()
    broken: tuple[Run, ...] = ()


class Said(NamedTuple):
    """A parsed answer: content and reasoning."""

    content: bytes = b""
    reasoning: bytes = b""


class MismatchError(Exception):
    """An answer that its parser cannot read."""


class Reader:
    """Reads one answer as it grows.

    Args:
        parser: the parser.
        keeps_blank: a reasoning of nothing but blanks counts as one.
    """

    def __init__(self, parser: Parser, keeps_blank: bool = False) -> None:
        self._parser = parser
        self._keeps_blank = keeps_blank
        self._classes: dict[str, re.Pattern[bytes]] = {}
        self._scans: dict[int, JsonScan] = {}
        self._text = b""
        self._short = Shortened(b"")
        self._ways: dict[type[Node], Callable[[Any, int], Result]] = {
            Literal: self._literal,
            Sequence: self._sequence,
            Choice: self._choice,
            Repeat: self._repeat,
            Ahead: self._ahead,
            Space: self._space,
            Chars: self._chars,
            Quoted: self._quoted,
            Until: self._until,
            Tag: self._tag,
            Atomic: self._atomic,
            Rule: self._rule,
            Gbnf: self._child,
            Including: self._child,
            Schema: self._child,
            End: self._end,
            Character: self._character,
        }

    def read(self, text: bytes, partial: bool) -> Said:
        """What is content and what reasoning in a text that begins with the last one.

        Args:
            text: the generation prompt and the answer.
            partial: whether more may come; then a text that does not fit says nothing.

        Raises:
            MismatchError: the text does not fit.
        """
        self._text = text
        self._short = Shortened(text)
        result = self._run(self._parser.root, 0)
        if result.kind == FAIL:
            if partial and result.end > 0:
                return Said()
            raise MismatchError
        texts = {CONTENT: b"", REASONING: b""}
        for marked in result.marked:
            texts[marked.tag] += self._whole_characters(marked)
        reasoning = texts[REASONING]
        if not self._keeps_blank and not reasoning.strip(_WHITE):
            reasoning = b""
        return Said(texts[CONTENT], reasoning)

    def _whole_characters(self, marked: Marked) -> bytes:
        """The text, each run of bytes that are no character replaced."""
        text, at = b"", marked.start
        for place, length in marked.broken:
            text += self._text[at:place] + _REPLACEMENT
            at = place + length
        return text + self._text[at : marked.end]

    def _run(self, number: int, at: int) -> Result:
        node = self._parser.nodes[number]
        way = self._ways.get(type(node))
        return way(node, at) if way else Result(DONE, at)

    def _child(self, node: Gbnf | Including | Schema, at: int) -> Result:
        return self._run(node.child, at)

    def _literal(self, node: Literal, at: int) -> Result:
        if self._text.startswith(node.text, at):
            return Result(DONE, at + len(node.text))
        here = self._text[at : at + len(node.text)]
        opened = at + len(here) == len(self._text) and node.text.startswith(here)
        return Result(MORE, len(self._text)) if opened else Result(FAIL, at)

    def _choice(self, node: Choice, at: int) -> Result:
        for child in node.children:
            result = self._run(child, at)
            if result.kind != FAIL:
                return result
        return Result(FAIL, at)

    def _ahead(self, node: Ahead, at: int) -> Result:
        kind = self._run(node.child, at).kind
        return Result(kind if node.wanted or kind == MORE else DONE + FAIL - kind, at)

    def _space(self, node: Space, at: int) -> Result:
        found = _SPACE.match(self._text, at)
        return Result(DONE, found.end() if found else at)

    def _quoted(self, node: Quoted, at: int) -> Result:
        return Result(*string_content(self._text, at))

    def _tag(self, node: Tag, at: int) -> Result:
        result = self._run(node.child, at)
        if result.kind == FAIL:
            return result
        return Result(result.kind, result.end, (Marked(node.tag, at, result.end, result.broken),), result.broken)

    def _atomic(self, node: Atomic, at: int) -> Result:
        result = self._run(node.child, at)
        return Result(MORE, result.end, (), result.broken) if result.kind == MORE else result

    def _rule(self, node: Rule, at: int) -> Result:
        if node.name != JSON_VALUE:
            return self._run(node.child, at)
        scan = self._scans.get(at)
        if scan is None:
            scan = self._scans[at] = JsonScan(at)
        return Result(*scan.run(self._text))

    def _end(self, node: End, at: int) -> Result:
        return Result(DONE if at >= len(self._text) else FAIL, at)

    def _character(self, node: Character, at: int) -> Result:
        kind, length = character(self._text, at)
        return Result(kind, at + length if kind == DONE else at)

    def _sequence(self, node: Sequence, at: int) -> Result:
        marked: tuple[Marked, ...] = ()
        broken: tuple[Run, ...] = ()
        for child in node.children:
            result = self._run(child, at)
            if result.kind == FAIL:
                return Result(FAIL, result.end)
            marked += result.marked
            broken += result.broken
            at = result.end
            if result.kind == MORE:
                return Result(MORE, at, marked, broken)
        return Result(DONE, at, marked, broken)

    def _repeat(self, node: Repeat, at: int) -> Result:
        marked: tuple[Marked, ...] = ()
        broken: tuple[Run, ...] = ()
        count = 0
        while (node.most == -1 or count < node.most) and at < len(self._text):
            result = self._run(node.child, at)
            if result.kind == FAIL or (result.kind == DONE and result.end == at):
                break
            marked += result.marked
            broken += result.broken
            at = result.end
            count += 1
            if result.kind == MORE:
                return Result(MORE, at, marked, broken)
        if count < node.least:
            return Result(MORE, at, marked, broken) if at >= len(self._text) else Result(FAIL, at)
        return Result(DONE, at, marked, broken)

    def _chars(self, node: Chars, at: int) -> Result:
        pattern = self._classes.get(node.pattern)
        if pattern is None:
            pattern = self._classes[node.pattern] = re.compile(node.pattern.encode() + b"*")
        text, start = self._short.text, self._short.inside(at)
        found = pattern.match(text, start, len(text) if node.most == -1 else start + node.most)
        taken = found.end() - start if found else 0
        end = self._short.back(start + taken)
        if taken >= node.least:
            return Result(DONE, end)
        return Result(MORE if character(self._text, end)[0] == MORE else FAIL, end)

    def _until(self, node: Until, at: int) -> Result:
        """Up to a mark, or up to what may become one, from one byte that is no character to the next."""
        text, back = self._short.text, self._short.back
        at = self._short.inside(at)
        marks = [mark for mark in node.marks if mark]
        last = len(text) - open_tail(text[at:])
        broken: tuple[Run, ...] = ()
        while True:
            end = _readable(text, at, last)
            places = [place for mark in marks if (place := text.find(mark, at, end)) >= 0]
            kind, length = character(text, end)
            # The reference takes a mark that bytes break off for one that may still be completed.
            if kind != DONE or end == last:
                places += [place for mark in marks if (place := _opened(text, mark, at, end)) >= 0]
            if places:
                return Result(DONE, back(min(places)), (), broken)
            if end == last:
                return Result(MORE, back(last), (), broken)
            broken += ((back(end), length),) if kind == FAIL else ()
            at = end + length


def _readable(text: bytes, at: int, last: int) -> int:
    """Where the first bytes stand that Python takes for no character."""
    try:
        text[at:last].decode("utf-8")
    except UnicodeDecodeError as error:
        return at + error.start
    return last


def _begins(text: bytes, mark: bytes, at: int, last: int) -> bool:
    """Whether the whole characters from ``at`` on to the text's end are the beginning of a mark."""
    return at < last and mark.startswith(text[at:last])


def _opened(text: bytes, mark: bytes, at: int, last: int) -> int:
    """Where the longest beginning of a mark that ends the whole characters begins, -1 where there is none."""
    for place in range(max(at, last - len(mark) + 1), last):
        if text[place] & 0xC0 != 0x80 and _begins(text, mark, place, last):
            return place
    return -1
