# SPDX-License-Identifier: MIT OR Apache-2.0
"""GBNF text as rules of elements: what llama.cpp b11192 parses, and its reasons where it does not.

The text is bytes and ends at its first NUL, as a C string does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

from bankml.core.refusal import Refusal

END, ALT, RULE_REF, CHAR, CHAR_NOT, CHAR_RNG_UPPER, CHAR_ALT, CHAR_ANY, TOKEN, TOKEN_NOT = range(10)
"""Kinds of elements. Source: llama_gretype, src/llama-grammar.h."""

MAX_REPETITION: Final = 2000
MAX_TEXT: Final = 1 << 20
MAX_ELEMENTS: Final = 400_000
MAX_NESTING: Final = 200
QUOTED: Final = 80

Element = tuple[int, int]
Rule = list[Element]

_UNBOUNDED: Final = (1 << 64) - 1
_SPACE: Final = re.compile(rb"(?:[ \t]|#[^\r\n]*)*")
_SPACE_LINES: Final = re.compile(rb"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME: Final = re.compile(rb"[a-zA-Z0-9-]+")
_DIGITS: Final = re.compile(rb"[0-9]+")
_PLAIN: Final = re.compile(rb'[^"\\\x80-\xff]+')
_HEX: Final = re.compile(rb"[0-9a-fA-F]*")
_HEX_SIZES: Final = {ord("x"): 2, ord("u"): 4, ord("U"): 8}
_ESCAPES: Final = {ord("t"): 9, ord("r"): 13, ord("n"): 10, **{ord(c): ord(c) for c in '\\"[]-'}}
_LENGTHS: Final = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4)


class TokenizerLike(Protocol):
    """The part of a tokenizer that token terminals need."""

    def encode(self, text: str | bytes, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The ids of a text."""
        ...


@dataclass(frozen=True)
class Rules:
    """A parsed grammar: the elements of each rule, and the numbers of the names."""

    rules: list[Rule]
    symbols: dict[bytes, int]


class SyntaxFaultError(Exception):
    """The parser's reason; ``at`` is a byte offset, and the reason ends with the text from there where ``quotes`` says so."""

    def __init__(self, reason: str, at: int | None = None, quotes: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at
        self.quotes = quotes


def parse(text: bytes | str, tokenizer: TokenizerLike | None = None) -> Rules:
    """The rules of a grammar; ``tokenizer`` reads terminals such as ``<think>``.

    Raises:
        Refusal: ``grammar.syntax`` with the parser's reason, ``grammar.limit`` where the grammar is larger than bankml takes.

    Source: llama_grammar_parser::parse, src/llama-grammar.cpp.
    """
    source = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    source = source.split(b"\0", 1)[0]
    if len(source) > MAX_TEXT:
        raise limit("the grammar's text is too long", f"{len(source)} bytes", f"{MAX_TEXT} bytes")
    try:
        return _Parser(source, tokenizer).parse()
    except SyntaxFaultError as fault:
        raise _refused(source, fault) from None


def limit(message: str, found: str | None, allowed: str) -> Refusal:
    """A grammar that is larger than bankml takes, whatever the reference does with it."""
    return Refusal("grammar.limit", f"{message}: bankml's limit is {allowed}", found=found, allowed=f"at most {allowed}")


def quoted(source: bytes, at: int) -> str:
    """The text from ``at`` on, as much of it as messages show."""
    rest = source[at:]
    return rest[:QUOTED].decode("utf-8", "replace") + ("…" if len(rest) > QUOTED else "")


def _refused(source: bytes, fault: SyntaxFaultError) -> Refusal:
    if fault.at is None:
        return Refusal("grammar.syntax", fault.reason)
    line = source.count(b"\n", 0, fault.at) + 1
    column = fault.at - source.rfind(b"\n", 0, fault.at)
    message = f"{fault.reason} at {quoted(source, fault.at)}" if fault.quotes else fault.reason
    return Refusal("grammar.syntax", message, where=f"line {line}, column {column}")


class _Parser:
    def __init__(self, source: bytes, tokenizer: TokenizerLike | None) -> None:
        self.source = source + b"\0\0\0"
        self.end = len(source)
        self.tokenizer = tokenizer
        self.symbols: dict[bytes, int] = {}
        self.rules: list[Rule] = []
        self.elements = 0

    def parse(self) -> Rules:
        at = self._space(0, True)
        while at < self.end:
            at = self._rule(at)
        self._check_defined()
        if not self.rules:
            raise SyntaxFaultError("failed to parse grammar")
        return Rules(self.rules, self.symbols)

    def _check_defined(self) -> None:
        names = {number: name for name, number in self.symbols.items()}
        for rule in self.rules:
            if not rule:
                raise SyntaxFaultError("Undefined rule")
            for kind, value in rule:
                if kind == RULE_REF and (value >= len(self.rules) or not self.rules[value]):
                    raise SyntaxFaultError(f"Undefined rule identifier '{names[value].decode('latin-1')}'")

    def _rule(self, at: int) -> int:
        name_end = self._name(at)
        name = self.source[at:name_end]
        at = self._space(name_end, False)
        number = self._symbol(name)
        if self.source[at : at + 3] != b"::=":
            raise SyntaxFaultError("expecting ::=", at)
        at = self._space(at + 3, True)
        at = self._alternates(at, name, number, 0)
        if self.source[at] == ord("\r"):
            at += 2 if self.source[at + 1] == ord("\n") else 1
        elif self.source[at] == ord("\n"):
            at += 1
        elif at < self.end:
            raise SyntaxFaultError("expecting newline or end", at)
        return self._space(at, True)

    def _alternates(self, at: int, name: bytes, number: int, depth: int) -> int:
        if depth > MAX_NESTING:
            raise limit("the grammar's groups are nested too deeply", None, f"{MAX_NESTING} levels")
        rule: Rule = []
        at = self._sequence(at, name, rule, depth)
        while self.source[at] == ord("|"):
            rule.append((ALT, 0))
            at = self._space(at + 1, True)
            at = self._sequence(at, name, rule, depth)
        rule.append((END, 0))
        self._add_rule(number, rule)
        return at

    def _sequence(self, at: int, name: bytes, rule: Rule, depth: int) -> int:
        """One alternative. A repetition takes the symbol before it; ``grown`` counts the rules it has already become."""
        start, grown = len(rule), 1
        lines = depth > 0
        while at < self.end:
            c = self.source[at]
            if c in b"*+?":
                at = self._space(at + 1, lines)
                low, high = {ord("*"): (0, _UNBOUNDED), ord("+"): (1, _UNBOUNDED), ord("?"): (0, 1)}[c]
                grown = self._repeat(at, name, rule, start, low, high, grown)
                continue
            if c == ord("{"):
                at, low, high = self._bounds(at, lines)
                grown = self._repeat(at, name, rule, start, low, high, grown)
                continue
            if c not in _STARTS:
                break
            start, grown = len(rule), 1
            if c == ord('"'):
                at = self._literal(at + 1, rule)
            elif c == ord("["):
                at = self._class(at + 1, rule)
            elif c in b"<!":
                kind = TOKEN_NOT if c == ord("!") else TOKEN
                token, at = self._token(at + (kind == TOKEN_NOT))
                rule.append((kind, token))
            elif c == ord("."):
                rule.append((CHAR_ANY, 0))
                at += 1
            elif c == ord("("):
                at, grown = self._group(at, name, rule, depth)
            else:
                name_end = self._name(at)
                rule.append((RULE_REF, self._symbol(self.source[at:name_end])))
                at = name_end
            at = self._space(at, lines)
        return at

    def _literal(self, at: int, rule: Rule) -> int:
        while self.source[at] != ord('"'):
            if at >= self.end:
                raise SyntaxFaultError("unexpected end of input")
            plain = _PLAIN.match(self.source, at, self.end)
            if plain:
                rule += [(CHAR, c) for c in plain[0]]
                at = plain.end()
            else:
                point, at = self._char(at)
                rule.append((CHAR, point))
        return at + 1

    def _class(self, at: int, rule: Rule) -> int:
        kind = CHAR
        if self.source[at] == ord("^"):
            at, kind = at + 1, CHAR_NOT
        while self.source[at] != ord("]"):
            if at >= self.end:
                raise SyntaxFaultError("unexpected end of input")
            point, at = self._char(at)
            rule.append((kind, point))
            kind = CHAR_ALT
            if self.source[at] == ord("-") and self.source[at + 1] != ord("]"):
                if at + 1 >= self.end:
                    raise SyntaxFaultError("unexpected end of input")
                point, at = self._char(at + 1)
                rule.append((CHAR_RNG_UPPER, point))
        return at + 1

    def _group(self, at: int, name: bytes, rule: Rule, depth: int) -> tuple[int, int]:
        at = self._space(at + 1, True)
        before = len(self.symbols)
        number = self._new_symbol(name)
        at = self._alternates(at, name, number, depth + 1)
        rule.append((RULE_REF, number))
        if self.source[at] != ord(")"):
            raise SyntaxFaultError("expecting ')'", at)
        return at + 1, max(1, len(self.symbols) - before)

    def _bounds(self, at: int, lines: bool) -> tuple[int, int, int]:
        at = self._space(at + 1, lines)
        found = _DIGITS.match(self.source, at)
        if not found:
            raise SyntaxFaultError("expecting an int", at)
        low = high = _unsigned(found[0], "stoull")
        at = self._space(found.end(), lines)
        if self.source[at] == ord(","):
            high = _UNBOUNDED
            at = self._space(at + 1, lines)
            found = _DIGITS.match(self.source, at)
            if found:
                high = _unsigned(found[0], "stoull")
                at = self._space(found.end(), lines)
            if self.source[at] != ord("}"):
                raise SyntaxFaultError("expecting '}'", at)
        elif self.source[at] != ord("}"):
            raise SyntaxFaultError("expecting ','", at)
        at = self._space(at + 1, lines)
        if low > MAX_REPETITION:
            raise SyntaxFaultError("number of repetitions exceeds sane defaults, please reduce the number of repetitions")
        return at, low, _UNBOUNDED if high > MAX_REPETITION else high

    def _repeat(self, at: int, name: bytes, rule: Rule, start: int, low: int, high: int, grown: int) -> int:
        """Write out ``low`` times the last symbol and rules for what may follow; returns how many rules it has become.

        Source: handle_repetitions in llama_grammar_parser::parse_sequence, src/llama-grammar.cpp.
        """
        if start == len(rule):
            raise SyntaxFaultError("expecting preceding item to */+/?/{", at)
        unbounded = high == _UNBOUNDED
        total = high if not unbounded and high > 0 else max(low, 1)
        if grown * total > MAX_REPETITION:
            raise SyntaxFaultError(
                "number of rules that are going to be repeated multiplied by the new repetition exceeds sane defaults, "
                "please reduce the number of repetitions or rule complexity"
            )
        if high < low:
            raise SyntaxFaultError(f"a repetition of at least {low} and at most {high} times", at, quotes=False)
        repeated = rule[start:]
        optional = 1 if unbounded else high - low
        self._count((low + optional) * len(repeated))
        if low == 0:
            del rule[start:]
        else:
            rule += repeated * (low - 1)
        last = 0
        for i in range(optional):
            number = self._new_symbol(name)
            again = [(RULE_REF, number if unbounded else last)] if i > 0 or unbounded else []
            self._add_rule(number, [*repeated, *again, (ALT, 0), (END, 0)])
            last = number
        if optional:
            rule.append((RULE_REF, last))
        return grown * total

    def _token(self, at: int) -> tuple[int, int]:
        """A terminal ``<[id]>`` or ``<text>``."""
        if self.source[at] != ord("<"):
            raise SyntaxFaultError("expecting '<'", at)
        if self.source[at + 1] == ord("["):
            digits = _DIGITS.match(self.source, at + 2)
            if not digits:
                raise SyntaxFaultError("expecting integer", at + 2)
            token = _unsigned(digits[0], "stoul")
            if token > 0xFFFFFFFF:
                raise SyntaxFaultError("parsed token id is too big", at + 2)
            for offset, wanted in enumerate("]>"):
                if self.source[digits.end() + offset] != ord(wanted):
                    raise SyntaxFaultError(f"expecting '{wanted}'", digits.end() + offset)
            return token, digits.end() + 2
        if self.tokenizer is None:
            raise SyntaxFaultError("no vocab to parse token", at)
        end = self.source.find(b">", at, self.end)
        if end < 0:
            raise SyntaxFaultError("expecting '>'", self.end)
        text = self.source[at : end + 1]
        ids = self.tokenizer.encode(text, False, True)
        if len(ids) != 1:
            raise SyntaxFaultError(f"invalid token '{text.decode('utf-8', 'replace')}'", at, quotes=False)
        return ids[0], end + 1

    def _char(self, at: int) -> tuple[int, int]:
        """One code point: escaped, or as lenient UTF-8."""
        first = self.source[at]
        if first == ord("\\"):
            kind = self.source[at + 1]
            if kind in _HEX_SIZES:
                size = _HEX_SIZES[kind]
                digits = _HEX.match(self.source, at + 2, min(at + 2 + size, self.end))
                assert digits is not None
                if len(digits[0]) != size:
                    raise SyntaxFaultError(f"expecting {size} hex chars", at + 2)
                return int(digits[0], 16), at + 2 + size
            if kind not in _ESCAPES:
                raise SyntaxFaultError("unknown escape", at)
            return _ESCAPES[kind], at + 2
        if at >= self.end:
            raise SyntaxFaultError("unexpected end of input")
        length = _LENGTHS[first >> 4]
        value = first & ((1 << (8 - length)) - 1)
        end = min(at + length, self.end)
        for byte in self.source[at + 1 : end]:
            value = (value << 6) + (byte & 0x3F)
        return value, end

    def _space(self, at: int, lines: bool) -> int:
        found = (_SPACE_LINES if lines else _SPACE).match(self.source, at, self.end)
        assert found is not None
        return found.end()

    def _name(self, at: int) -> int:
        found = _NAME.match(self.source, at)
        if not found:
            raise SyntaxFaultError("expecting name", at)
        return found.end()

    def _symbol(self, name: bytes) -> int:
        return self.symbols.setdefault(name, len(self.symbols))

    def _new_symbol(self, name: bytes) -> int:
        number = len(self.symbols)
        self.symbols[b"%s_%d" % (name, number)] = number
        return number

    def _add_rule(self, number: int, rule: Rule) -> None:
        self._count(len(rule))
        while len(self.rules) <= number:
            self.rules.append([])
        self.rules[number] = rule

    def _count(self, elements: int) -> None:
        self.elements += elements
        if self.elements > MAX_ELEMENTS:
            raise limit("the grammar's rules, repetitions written out, are too long", None, f"{MAX_ELEMENTS} elements")


_STARTS: Final = frozenset(b'"[<!.(-' + b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _unsigned(digits: bytes, reader: str) -> int:
    value = int(digits) if len(digits) < 4000 else 1 << 64
    if value >= 1 << 64:
        raise SyntaxFaultError(reader)
    return value
