# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cuts a template's bytes into tokens, with the reference's rules of whitespace.

``trim_blocks`` and ``lstrip_blocks`` are on. Two of its habits look odd and decide bytes: the text before a block on
the very first line is dropped together with one leading character when only blanks stand between (so ``a {% if x %}``
loses its ``a``), and a sign after ``}`` or after an operator belongs to the number that follows.

Source: lexer::tokenize, common/jinja/lexer.cpp.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bankml.core.jinja.errors import SourceError

TEXT = "text"
NUMBER = "number"
STRING = "string"
NAME = "name"
COMMENT = "comment"
UNARY = "unary"
COMPARE = "compare"
ADD = "add"
MULTIPLY = "multiply"
ASSIGN = "="
OPEN_STATEMENT = "{%"
CLOSE_STATEMENT = "%}"
OPEN_EXPRESSION = "{{"
CLOSE_EXPRESSION = "}}"
END = "end"


class Token(NamedTuple):
    """One token: its kind, its text (strings unescaped) and its byte offset."""

    kind: str
    value: bytes
    pos: int


# In the order of trial: the longer spelling of a pair comes first.
_SYMBOLS: tuple[tuple[bytes, str], ...] = (
    (b"{%-", OPEN_STATEMENT),
    (b"-%}", CLOSE_STATEMENT),
    (b"{{-", OPEN_EXPRESSION),
    (b"-}}", CLOSE_EXPRESSION),
    (b"{%", OPEN_STATEMENT),
    (b"%}", CLOSE_STATEMENT),
    (b"{{", OPEN_EXPRESSION),
    (b"}}", CLOSE_EXPRESSION),
    *((c.encode(), c) for c in "(){}[],.:|"),
    *((c.encode(), COMPARE) for c in ("<=", ">=", "==", "!=", "<", ">")),
    *((c.encode(), ADD) for c in "+-~"),
    *((c.encode(), MULTIPLY) for c in "*/%"),
    (b"=", ASSIGN),
)
_SYMBOL_AT = re.compile(b"|".join(re.escape(text) for text, _ in _SYMBOLS))
_SYMBOL_KIND = dict(_SYMBOLS)

_BLOCK_START = re.compile(rb"\{[%{#]")
_SPACE = re.compile(rb"[ \t\n\v\f\r]*")
_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
_WORD = re.compile(rb"[A-Za-z0-9_]+")
_STRING_PIECE = {quote: re.compile(rb"[^\\" + quote + rb"]*") for quote in (b"'", b'"')}
_ESCAPES = dict(zip(b"ntrbfv\\'\"", (b"\n", b"\t", b"\r", b"\b", b"\f", b"\v", b"\\", b"'", b'"'), strict=True))
_BLANK = b" \t\r\n"
_SPACES = b" \t\n\v\f\r"
# A sign after one of these is an operator between two operands.
_OPERAND_ENDS = frozenset({NAME, NUMBER, STRING, ")", "]"})
_BLOCK_ENDS = frozenset({CLOSE_STATEMENT, CLOSE_EXPRESSION, COMMENT})


def normalize(source: bytes) -> bytes:
    """The source as the reference keeps it: line ends are ``\\n``, one trailing line end is dropped."""
    text = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text[:-1] if source.endswith(b"\n") else text


class _Lexer:
    def __init__(self, source: bytes) -> None:
        self.src = source
        self.pos = 0
        self.tokens: list[Token] = []
        self.curly_depth = 0

    def run(self) -> list[Token]:
        src, size = self.src, len(self.src)
        while self.pos < size:
            last = self.tokens[-1].kind if self.tokens else CLOSE_STATEMENT
            if last in _BLOCK_ENDS and self._text():
                continue
            if src.startswith(b"{#", self.pos):
                self._comment()
                continue
            if last in (OPEN_EXPRESSION, OPEN_STATEMENT) and src.startswith(b"-", self.pos):
                self.pos += 1
                if self.pos >= size:
                    break
            space = _SPACE.match(src, self.pos)
            self.pos = space.end() if space else self.pos
            if self.pos < size:
                self._code()
        return self.tokens

    def _text(self) -> bool:
        """Takes the text up to the next block; false when nothing of it is left to print."""
        src, start = self.src, self.pos
        after_dash = after_newline_eater = False
        if start > 3:
            c0, c1, c2 = src[start - 3 : start - 2], src[start - 2 : start - 1], src[start - 1 : start]
            after_dash = c0 == b"-" and c1 in (b"%", b"}", b"#") and c2 == b"}"
            after_newline_eater = c1 in (b"#", b"%", b"-") and c2 == b"}"
        block = _BLOCK_START.search(src, start)
        self.pos = end = block.start() if block else len(src)
        if block and src[end + 1 : end + 2] in (b"%", b"#"):
            end = self._strip_line(start, end)
        text = src[start:end]
        if after_newline_eater and text.startswith(b"\n"):
            text = text[1:]
        if after_dash:
            text = text.lstrip(_BLANK)
        if block and src[self.pos + 2 : self.pos + 3] == b"-":
            text = text.rstrip(_BLANK)
        if text:
            self.tokens.append(Token(TEXT, text, start))
        return bool(text)

    def _strip_line(self, start: int, end: int) -> int:
        current = end
        while current > start:
            if current == 1:
                return 0
            c = self.src[current - 1]
            if c == 0x0A:
                return current
            if c not in _SPACES:
                break
            current -= 1
        return end

    def _comment(self) -> None:
        start = self.pos
        end = self.src.find(b"#}", start + 2)
        if end < 0:
            raise SourceError("missing end of comment tag", start)
        self.tokens.append(Token(COMMENT, self.src[start + 2 : end], start))
        self.pos = end + 2

    def _code(self) -> None:
        src, pos = self.src, self.pos
        c = src[pos : pos + 1]
        closes = c == b"-" and src[pos + 1 : pos + 2] in (b"%", b"}")
        if c in (b"-", b"+") and not closes:
            last = self.tokens[-1].kind if self.tokens else END
            if last in (TEXT, END):
                raise SourceError(f"unexpected character: {c.decode()}", pos)
            if last not in _OPERAND_ENDS:
                number = _NUMBER.match(src, pos + 1)
                self.pos = number.end() if number else pos + 1
                self.tokens.append(Token(NUMBER if number else UNARY, src[pos : self.pos], pos))
                return
        symbol = _SYMBOL_AT.match(src, pos)
        if symbol:
            self._symbol(symbol.group(), pos)
        elif c in (b"'", b'"'):
            self._string(c)
        elif number := _NUMBER.match(src, pos):
            self.tokens.append(Token(NUMBER, number.group(), pos))
            self.pos = number.end()
        elif word := _WORD.match(src, pos):
            self.tokens.append(Token(NAME, word.group(), pos))
            self.pos = word.end()
        else:
            raise SourceError(f"unexpected character: {c.decode('latin-1')}", pos)

    def _symbol(self, text: bytes, pos: int) -> None:
        if text == b"}}" and self.curly_depth:
            text = b"}"  # the end of an object inside an object, not of the expression
        kind = _SYMBOL_KIND[text]
        self.tokens.append(Token(kind, text, pos))
        if kind == OPEN_EXPRESSION:
            self.curly_depth = 0
        elif kind == "{":
            self.curly_depth += 1
        elif kind == "}":
            self.curly_depth -= 1
        self.pos = pos + len(text)

    def _string(self, quote: bytes) -> None:
        src, start = self.src, self.pos
        pos = start + 1
        pieces = []
        while True:
            piece = _STRING_PIECE[quote].match(src, pos)
            end = piece.end() if piece else pos
            pieces.append(src[pos:end])
            if end >= len(src):
                raise SourceError("unterminated string", start)
            if src[end : end + 1] == quote:
                break
            escape = src[end + 1] if end + 1 < len(src) else -1
            if escape not in _ESCAPES:
                raise SourceError("unknown escape character in string", end)
            pieces.append(_ESCAPES[escape])
            pos = end + 2
        self.tokens.append(Token(STRING, b"".join(pieces), start))
        self.pos = end + 1


def tokenize(source: bytes) -> list[Token]:
    """The tokens of a normalized source.

    Raises:
        SourceError: on an unknown character, an open string or comment, an unknown escape.
    """
    return _Lexer(source).run()
