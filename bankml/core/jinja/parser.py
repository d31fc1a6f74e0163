# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the syntax tree of a template from its tokens.

The grammar is the reference's, not jinja2's: ``~`` binds like ``+``, a membership test like a comparison, filters and
tests bind outside a sign, commas between arguments may be missing, ``generation`` marks are skipped.

Source: common/jinja/parser.cpp.
"""

from __future__ import annotations

from bankml.core.jinja import nodes
from bankml.core.jinja.errors import LimitError, SourceError
from bankml.core.jinja.lexer import (
    ADD,
    ASSIGN,
    CLOSE_EXPRESSION,
    CLOSE_STATEMENT,
    COMMENT,
    COMPARE,
    END,
    MULTIPLY,
    NAME,
    NUMBER,
    OPEN_EXPRESSION,
    OPEN_STATEMENT,
    STRING,
    TEXT,
    UNARY,
    Token,
)

# Each level costs about six Python frames here and fewer when the template runs.
MAX_NESTING = 60
_INT64 = 1 << 63


class _Parser:
    """One pass over a list of tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0
        self.end = Token(END, b"", tokens[-1].pos if tokens else 0)

    # -- tokens

    def peek(self, ahead: int = 0) -> Token:
        index = self.at + ahead
        return self.tokens[index] if index < len(self.tokens) else self.end

    def next(self) -> Token:
        token = self.peek()
        if token.kind is END:
            raise SourceError("unexpected end of template", token.pos)
        self.at += 1
        return token

    def expect(self, kind: str) -> None:
        token = self.peek()
        if token.kind != kind:
            raise SourceError(f"expected {kind}, got {token.value.decode('utf-8', 'replace') or token.kind}", token.pos)
        self.at += 1

    def is_name(self, name: bytes) -> bool:
        token = self.peek()
        return token.kind is NAME and token.value == name

    def is_tag(self, names: tuple[bytes, ...]) -> bool:
        return self.peek().kind is OPEN_STATEMENT and self.peek(1).kind is NAME and self.peek(1).value in names

    def pos_at(self, index: int) -> int:
        return self.tokens[index].pos if index < len(self.tokens) else self.end.pos

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise LimitError("nesting of the template", f"{MAX_NESTING} levels")

    # -- statements

    def program(self) -> list[nodes.Node]:
        body = []
        while self.at < len(self.tokens):
            body.append(self.any())
        return body

    def any(self) -> nodes.Node:
        token = self.peek()
        if token.kind is TEXT:
            self.at += 1
            return nodes.Literal(token.pos, token.value)
        if token.kind is COMMENT:
            self.at += 1
            return nodes.Noop(token.pos)
        if token.kind is OPEN_EXPRESSION:
            self.at += 1
            value = self.expression()
            self.expect(CLOSE_EXPRESSION)
            return value
        if token.kind is OPEN_STATEMENT:
            self.enter()
            statement = self.statement()
            self.depth -= 1
            return statement
        raise SourceError("unexpected token between blocks", token.pos)

    def body(self, *ends: bytes) -> list[nodes.Node]:
        """The nodes up to (not including) one of the tags."""
        body = []
        while not self.is_tag(ends):
            if self.at >= len(self.tokens):
                raise SourceError(f"missing {{% {ends[-1].decode()} %}}", self.end.pos)
            body.append(self.any())
        return body

    def close(self, name: bytes) -> None:
        """``{% name %}``."""
        self.expect(OPEN_STATEMENT)
        if not self.is_name(name):
            raise SourceError(f"expected {name.decode()}", self.peek().pos)
        self.at += 1
        self.expect(CLOSE_STATEMENT)

    def statement(self) -> nodes.Node:
        self.expect(OPEN_STATEMENT)
        token = self.peek()
        if token.kind is not NAME:
            raise SourceError("unknown statement", token.pos)
        self.at += 1
        name, pos = token.value, token.pos
        if name == b"set":
            return self.set(pos)
        if name == b"if":
            node = self.if_(pos)
            self.close(b"endif")
            return node
        if name == b"for":
            return self.for_(pos)
        if name == b"macro":
            head, args = self.primary(), self.args()
            self.expect(CLOSE_STATEMENT)
            body = self.body(b"endmacro")
            self.close(b"endmacro")
            return nodes.Macro(pos, head, args, body)
        if name in (b"break", b"continue"):
            self.expect(CLOSE_STATEMENT)
            return nodes.Break(pos) if name == b"break" else nodes.Continue(pos)
        if name == b"call":
            return self.call_block(pos)
        if name == b"filter":
            filter_ = self.primary()
            if isinstance(filter_, nodes.Name) and self.peek().kind == "(":
                filter_ = self.call(filter_)
            self.expect(CLOSE_STATEMENT)
            body = self.body(b"endfilter")
            self.close(b"endfilter")
            return nodes.FilterBlock(pos, filter_, body)
        if name in (b"generation", b"endgeneration"):
            self.at += 1  # whatever follows is taken for the closing mark
            return nodes.Noop(pos)
        raise SourceError(f"unknown statement: {name.decode('utf-8', 'replace')}", pos)

    def set(self, pos: int) -> nodes.Node:
        target = self.sequence()
        if self.peek().kind is ASSIGN:
            self.at += 1
            value = self.sequence()
            self.expect(CLOSE_STATEMENT)
            return nodes.Set(pos, target, value, [])
        self.expect(CLOSE_STATEMENT)
        body = self.body(b"endset")
        self.close(b"endset")
        return nodes.Set(pos, target, None, body)

    def if_(self, pos: int) -> nodes.If:
        """One If and its elifs, up to the endif; built from the inside out so that a long chain does not recurse here."""
        arms: list[tuple[int, nodes.Node, list[nodes.Node]]] = []
        alternate: list[nodes.Node] = []
        while True:
            test = self.expression()
            self.expect(CLOSE_STATEMENT)
            arms.append((pos, test, self.body(b"elif", b"else", b"endif")))
            if self.is_tag((b"elif",)):
                pos = self.peek().pos
                self.at += 2
                continue
            if self.is_tag((b"else",)):
                self.at += 2
                self.expect(CLOSE_STATEMENT)
                alternate = self.body(b"endif")
            break
        node: nodes.If | None = None
        for arm_pos, test, body in reversed(arms):
            node = nodes.If(arm_pos, test, body, alternate if node is None else [node])
        assert node is not None
        return node

    def for_(self, pos: int) -> nodes.Node:
        target = self.sequence(primary=True)
        if not self.is_name(b"in"):
            raise SourceError("expected 'in'", self.peek().pos)
        self.at += 1
        iterable = self.expression()
        self.expect(CLOSE_STATEMENT)
        body = self.body(b"endfor", b"else")
        alternate: list[nodes.Node] = []
        if self.is_tag((b"else",)):
            self.at += 2
            self.expect(CLOSE_STATEMENT)
            alternate = self.body(b"endfor")
        self.close(b"endfor")
        return nodes.For(pos, target, iterable, body, alternate)

    def call_block(self, pos: int) -> nodes.Node:
        args = self.args() if self.peek().kind == "(" else []
        callee = self.primary()
        if not isinstance(callee, nodes.Name):
            raise SourceError("expected the name of a macro", pos)
        call = nodes.Call(pos, callee, self.args())
        self.expect(CLOSE_STATEMENT)
        body = self.body(b"endcall")
        self.close(b"endcall")
        return nodes.CallBlock(pos, call, args, body)

    # -- expressions, from the loosest binding to the tightest

    def sequence(self, primary: bool = False) -> nodes.Node:
        start = self.at
        parse = self.primary if primary else self.expression
        items = [parse()]
        if self.peek().kind != ",":
            return items[0]
        while self.peek().kind == ",":
            self.at += 1
            items.append(parse())
        return nodes.Sequence(self.pos_at(start), items, True)

    def expression(self) -> nodes.Node:
        self.enter()
        value = self.or_()
        if self.is_name(b"if"):
            pos = self.next().pos
            test = self.or_()
            if self.is_name(b"else"):
                pos = self.next().pos
                value = nodes.Ternary(pos, test, value, self.expression())
            else:
                value = nodes.Select(pos, value, test)
        self.depth -= 1
        return value

    def or_(self) -> nodes.Node:
        left = self.and_()
        while self.is_name(b"or"):
            op = self.next()
            left = nodes.Binary(op.pos, op.value, left, self.and_())
        return left

    def and_(self) -> nodes.Node:
        left = self.not_()
        while self.is_name(b"and"):
            op = self.next()
            left = nodes.Binary(op.pos, op.value, left, self.not_())
        return left

    def not_(self) -> nodes.Node:
        marks = []
        while self.is_name(b"not"):
            self.enter()
            marks.append(self.next())
        node = self.comparison()
        for mark in reversed(marks):
            node = nodes.Unary(mark.pos, mark.value, node)
        self.depth -= len(marks)
        return node

    def comparison(self) -> nodes.Node:
        left = self.additive()
        while True:
            token = self.peek()
            if self.is_name(b"not") and self.peek(1).kind is NAME and self.peek(1).value == b"in":
                self.at += 2
                left = nodes.Binary(token.pos, b"not in", left, self.additive())
            elif token.kind is COMPARE or self.is_name(b"in"):
                self.at += 1
                left = nodes.Binary(token.pos, token.value, left, self.additive())
            else:
                return left

    def additive(self) -> nodes.Node:
        left = self.multiplicative()
        while self.peek().kind is ADD:
            op = self.next()
            left = nodes.Binary(op.pos, op.value, left, self.multiplicative())
        return left

    def multiplicative(self) -> nodes.Node:
        left = self.test()
        while self.peek().kind is MULTIPLY:
            op = self.next()
            left = nodes.Binary(op.pos, op.value, left, self.test())
        return left

    def test(self) -> nodes.Node:
        operand = self.filter()
        while self.is_name(b"is"):
            pos = self.next().pos
            negate = self.is_name(b"not")
            self.at += negate
            test = self.primary()
            if self.peek().kind == "(":
                test = self.call(test)
            operand = nodes.Test(pos, operand, negate, test)
        return operand

    def filter(self) -> nodes.Node:
        operand = self.unary()
        while self.peek().kind == "|":
            pos = self.next().pos
            filter_ = self.primary()
            if self.peek().kind == "(":
                filter_ = self.call(filter_)
            operand = nodes.Filter(pos, operand, filter_)
        return operand

    def unary(self) -> nodes.Node:
        if self.peek().kind is UNARY:
            self.enter()
            op = self.next()
            node = nodes.Unary(op.pos, op.value, self.unary())
            self.depth -= 1
            return node
        member = self.members(self.primary())
        return self.call(member) if self.peek().kind == "(" else member

    def call(self, callee: nodes.Node) -> nodes.Node:
        node = callee
        while self.peek().kind == "(":
            pos = self.peek().pos
            node = self.members(nodes.Call(pos, node, self.args()))
        return node

    def args(self) -> list[nodes.Node]:
        self.expect("(")
        args: list[nodes.Node] = []
        while self.peek().kind != ")":
            token = self.peek()
            if token.kind is MULTIPLY and token.value == b"*":
                self.at += 1
                args.append(nodes.Spread(token.pos, self.expression()))
            else:
                value = self.expression()
                if self.peek().kind is ASSIGN:
                    pos = self.next().pos
                    value = nodes.KeywordArgument(pos, value, self.expression())
                args.append(value)
            if self.peek().kind == ",":
                self.at += 1
        self.at += 1
        return args

    def members(self, node: nodes.Node) -> nodes.Node:
        pos = self.peek().pos
        while self.peek().kind in (".", "["):
            if self.next().kind == "[":
                node = nodes.Member(pos, node, self.brackets(), True)
                self.expect("]")
            else:
                node = nodes.Member(pos, node, self.primary(), False)
        return node

    def brackets(self) -> nodes.Node:
        """An index or a slice: a missing bound before a colon is none, one after the last colon is left out."""
        pos = self.peek().pos
        parts: list[nodes.Node | None] = []
        is_slice = False
        while self.peek().kind != "]":
            if self.peek().kind == ":":
                self.at += 1
                parts.append(None)
                is_slice = True
            else:
                parts.append(self.expression())
                if self.peek().kind == ":":
                    self.at += 1
                    is_slice = True
        if is_slice:
            start, stop, step = (*parts, None, None, None)[:3]
            return nodes.Slice(pos, start, stop, step)
        return parts[0] if parts and parts[0] is not None else nodes.Blank(pos)

    def primary(self) -> nodes.Node:
        token = self.next()
        kind = token.kind
        if kind is NAME:
            return nodes.Name(token.pos, token.value)
        if kind is STRING:
            value = token.value
            while self.peek().kind is STRING:
                value += self.next().value
            return nodes.Literal(token.pos, value)
        if kind is NUMBER:
            return self.number(token)
        if kind == "(":
            inner = self.sequence()
            self.expect(")")
            return inner
        if kind == "[":
            items = []
            while self.peek().kind != "]":
                items.append(self.expression())
                if self.peek().kind == ",":
                    self.at += 1
            self.at += 1
            return nodes.Sequence(token.pos, items, False)
        if kind == "{":
            pairs = []
            while self.peek().kind != "}":
                key = self.expression()
                self.expect(":")
                pairs.append((key, self.expression()))
                if self.peek().kind == ",":
                    self.at += 1
            self.at += 1
            return nodes.ObjectLiteral(token.pos, pairs)
        raise SourceError(f"unexpected {token.value.decode('utf-8', 'replace')}", token.pos)

    def number(self, token: Token) -> nodes.Node:
        if b"." in token.value:
            return nodes.Float(token.pos, float(token.value))
        value = int(token.value[:25])
        if len(token.value) > 24 or not -_INT64 <= value < _INT64:
            raise SourceError("integer out of range", token.pos)
        return nodes.Integer(token.pos, value)


def parse(tokens: list[Token]) -> list[nodes.Node]:
    """The statements of a template.

    Raises:
        SourceError: where the grammar ends.
        LimitError: nesting beyond MAX_NESTING.
    """
    return _Parser(tokens).program()
