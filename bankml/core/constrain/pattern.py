# SPDX-License-Identifier: MIT OR Apache-2.0
"""A regular expression as GBNF, as far as the reference translates it.

Texts are bytes written as latin-1 characters: a quantifier after a character of several bytes takes its last byte, as there.

Source: common_chat_schema_converter::_pattern_to_rule, common/json-schema-to-grammar.cpp.
"""

from __future__ import annotations

import re
from typing import Final

from bankml.core.constrain.rule_book import RuleBook, repetition

MAX_DEPTH: Final = 100
_SPECIAL: Final = frozenset("|.()[]{}*+?^$")
_ESCAPE: Final = re.compile(r'\\(?:[trn\\"\[\]-]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})')
_INTEGER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")

Part = tuple[str, bool]
"""A piece of a sequence, and whether it is the inside of a literal."""


class UnsupportedError(Exception):
    """A regular expression that has no grammar."""


class InvalidError(Exception):
    """No regular expression."""


def pattern_rule(pattern: str, name: str, book: RuleBook) -> str:
    """The rule of a JSON string that a pattern matches; returns its name.

    Raises:
        UnsupportedError: there is no grammar for it.
        InvalidError: it is no pattern.
    """
    if len(pattern) < 2 or pattern[0] != "^" or pattern[-1] != "$":
        raise UnsupportedError("not anchored with '^' and '$'")
    return _Pattern(pattern[1:-1], name, book).rule()


class _Pattern:
    def __init__(self, text: str, name: str, book: RuleBook) -> None:
        self.text = text
        self.name = name
        self.book = book
        self.at = 0
        self.depth = 0
        self.named: dict[str, str] = {}

    def rule(self) -> str:
        inner = self._sequence()
        if self.depth:
            raise InvalidError("unbalanced parentheses")
        return self.book.add(self.name, f'"\\"" ({inner}) "\\""')

    def _sequence(self) -> str:
        """Everything up to the group's end."""
        parts: list[Part] = []
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == ")":
                self.at += 1
                if self.depth == 0:
                    raise InvalidError("unbalanced parentheses")
                self.depth -= 1
                break
            if c in "*+?":
                if not parts:
                    raise InvalidError("nothing to repeat")
                parts[-1] = (_shown(parts[-1]) + c, False)
                self.at += 1
            elif c == "{":
                self._braces(parts)
            else:
                parts.append(self._part(c))
        return _joined(parts)

    def _part(self, c: str) -> Part:
        if c == ".":
            self.at += 1
            return self.book.add("dot", r"[^\x0A\x0D]"), False
        if c == "(":
            return self._group(), False
        if c in "^$":
            raise UnsupportedError("anchor inside the pattern")
        if c == "[":
            return self._class(), False
        if c == "|":
            self.at += 1
            return "|", False
        return self._literal(c), True

    def _group(self) -> str:
        self.at += 1
        if self.text.startswith("?", self.at):
            if not self.text.startswith("?:", self.at):
                raise UnsupportedError("unsupported group syntax")
            self.at += 2
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnsupportedError("pattern nesting too deep")
        return f"({self._sequence()})"

    def _class(self) -> str:
        start = self.at
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != "]":
            if self.text[self.at] == "\\":
                escape = _ESCAPE.match(self.text, self.at)
                if not escape:
                    raise UnsupportedError(f"unsupported escape in character class: {self.text[self.at : self.at + 2]}")
                self.at = escape.end()
            else:
                self.at += 1
        if self.at >= len(self.text):
            raise InvalidError("unterminated character class")
        self.at += 1
        return self.text[start : self.at]

    def _braces(self, parts: list[Part]) -> None:
        end = self.text.find("}", self.at)
        if end < 0:
            raise UnsupportedError("unterminated curly brackets")
        numbers = self.text[self.at + 1 : end].split(",")
        self.at = end + 1
        if len(numbers) > 2:
            raise UnsupportedError("wrong number of values in curly brackets")
        least, most = 0, None
        if len(numbers) == 1:
            least = _read_integer(numbers[0])
            most = _bounded(least)
        else:
            least = _read_integer(numbers[0]) if numbers[0] else 0
            most = _bounded(_read_integer(numbers[1])) if numbers[1] else None
        if not parts:
            raise InvalidError("nothing to repeat")
        text, is_literal = parts[-1]
        if is_literal:
            item = f'"{text}"'
        else:
            if text not in self.named:
                self.named[text] = self.book.add(f"{self.name}-{len(self.named) + 1}", text)
            item = self.named[text]
        parts[-1] = (repetition(item, least, most), False)

    def _literal(self, first: str) -> str:
        text, out, end = self.text, [], len(self.text)
        while self.at < end:
            c = text[self.at]
            if c == "\\":
                if self.at == end - 1:
                    raise InvalidError("trailing backslash")
                if text[self.at + 1] in _SPECIAL:
                    out.append(text[self.at + 1])
                    self.at += 2
                    continue
                escape = _ESCAPE.match(text, self.at)
                if not escape:
                    raise UnsupportedError(f"unsupported escape: {text[self.at : self.at + 2]}")
                out.append(escape[0])
                self.at = escape.end()
            elif c == '"':
                out.append('\\"')
                self.at += 1
            elif c not in _SPECIAL and (
                self.at == end - 1 or not out or text[self.at + 1] == "." or text[self.at + 1] not in _SPECIAL
            ):
                out.append(c)
                self.at += 1
            else:
                break
        if not out:
            raise UnsupportedError(f"unsupported character: {first}")
        return "".join(out)


def _shown(part: Part) -> str:
    text, is_literal = part
    return f'"{text}"' if is_literal else text


def _joined(parts: list[Part]) -> str:
    """The parts side by side, literals that touch made one."""
    out: list[str] = []
    run: list[str] = []
    for text, is_literal in [*parts, ("", False)]:
        if is_literal:
            run.append(text)
            continue
        if "".join(run):
            out.append(f'"{"".join(run)}"')
        run = []
        out.append(text)
    return " ".join(out[:-1])


def _read_integer(text: str) -> int:
    """What ``std::stoi`` reads."""
    found = _INTEGER.match(text)
    value = int(found[1]) if found and len(found[1]) < 40 else 1 << 40
    if not -(1 << 31) <= value < 1 << 31:
        raise UnsupportedError("invalid number in curly brackets")
    return value


def _bounded(most: int) -> int | None:
    """None for the number that stands for no bound."""
    return None if most == (1 << 31) - 1 else most
