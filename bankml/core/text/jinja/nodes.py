# SPDX-License-Identifier: MIT OR Apache-2.0
"""The syntax tree of a template. ``kind`` is the name the reference's error reports give a node, ``pos`` its byte offset."""

from __future__ import annotations

from typing import ClassVar


class Node:
    """Any node. ``weight`` counts the nodes below and including it: what one pass over it may cost."""

    __slots__ = ("pos", "weight")
    kind: ClassVar[str] = "Statement"

    def __init__(self, pos: int, *children: Node | None) -> None:
        self.pos = pos
        self.weight: int = 1 + sum(child.weight for child in children if child is not None)


class Literal(Node):
    """Text or a string; the base of the numbers."""

    __slots__ = ("value",)
    kind = "StringLiteral"

    def __init__(self, pos: int, value: bytes | int | float) -> None:
        super().__init__(pos)
        self.value = value


class Integer(Literal):
    """An integer."""

    __slots__ = ()
    kind = "IntegerLiteral"


class Float(Literal):
    """A float."""

    __slots__ = ()
    kind = "FloatLiteral"


class Noop(Node):
    """A comment or a ``generation`` mark: prints nothing."""

    __slots__ = ()
    kind = "Noop"


class Blank(Node):
    """Nothing between brackets: ``a[]``."""

    __slots__ = ()
    kind = "BlankExpression"


class Name(Node):
    """A variable or a built-in function."""

    __slots__ = ("name",)
    kind = "Identifier"

    def __init__(self, pos: int, name: bytes) -> None:
        super().__init__(pos)
        self.name = name


class Sequence(Node):
    """An array or tuple literal."""

    __slots__ = ("is_tuple", "items")
    kind = "ArrayLiteral"

    def __init__(self, pos: int, items: list[Node], is_tuple: bool) -> None:
        super().__init__(pos, *items)
        self.items = items
        self.is_tuple = is_tuple


class ObjectLiteral(Node):
    """``{key: value}``."""

    __slots__ = ("pairs",)
    kind = "ObjectLiteral"

    def __init__(self, pos: int, pairs: list[tuple[Node, Node]]) -> None:
        super().__init__(pos, *(node for pair in pairs for node in pair))
        self.pairs = pairs


class Binary(Node):
    """``left op right``."""

    __slots__ = ("left", "op", "right")
    kind = "BinaryExpression"

    def __init__(self, pos: int, op: bytes, left: Node, right: Node) -> None:
        super().__init__(pos, left, right)
        self.op = op
        self.left = left
        self.right = right


class Unary(Node):
    """``not x``, ``-x``, ``+x``."""

    __slots__ = ("op", "operand")
    kind = "UnaryExpression"

    def __init__(self, pos: int, op: bytes, operand: Node) -> None:
        super().__init__(pos, operand)
        self.op = op
        self.operand = operand


class Ternary(Node):
    """``a if test else b``."""

    __slots__ = ("no", "test", "yes")
    kind = "Ternary"

    def __init__(self, pos: int, test: Node, yes: Node, no: Node) -> None:
        super().__init__(pos, test, yes, no)
        self.test = test
        self.yes = yes
        self.no = no


class Select(Node):
    """``a if test`` without an else; after ``for x in`` it filters the items."""

    __slots__ = ("test", "value")
    kind = "SelectExpression"

    def __init__(self, pos: int, value: Node, test: Node) -> None:
        super().__init__(pos, value, test)
        self.value = value
        self.test = test


class Test(Node):
    """``value is [not] test``."""

    __slots__ = ("negate", "operand", "test")
    kind = "TestExpression"

    def __init__(self, pos: int, operand: Node, negate: bool, test: Node) -> None:
        super().__init__(pos, operand, test)
        self.operand = operand
        self.negate = negate
        self.test = test


class Filter(Node):
    """``value | filter``."""

    __slots__ = ("filter", "operand")
    kind = "FilterExpression"

    def __init__(self, pos: int, operand: Node, filter_: Node) -> None:
        super().__init__(pos, operand, filter_)
        self.operand = operand
        self.filter = filter_


class Member(Node):
    """``a.b`` or, computed, ``a[b]``."""

    __slots__ = ("computed", "object", "property")
    kind = "MemberExpression"

    def __init__(self, pos: int, object_: Node, property_: Node, computed: bool) -> None:
        super().__init__(pos, object_, property_)
        self.object = object_
        self.property = property_
        self.computed = computed


class Slice(Node):
    """``start:stop:step`` between brackets."""

    __slots__ = ("start", "step", "stop")
    kind = "SliceExpression"

    def __init__(self, pos: int, start: Node | None, stop: Node | None, step: Node | None) -> None:
        super().__init__(pos, start, stop, step)
        self.start = start
        self.stop = stop
        self.step = step


class Call(Node):
    """``callee(args)``."""

    __slots__ = ("args", "callee")
    kind = "CallExpression"

    def __init__(self, pos: int, callee: Node, args: list[Node]) -> None:
        super().__init__(pos, callee, *args)
        self.callee = callee
        self.args = args


class KeywordArgument(Node):
    """``key=value`` in a call or a macro's head."""

    __slots__ = ("key", "value")
    kind = "KeywordArgumentExpression"

    def __init__(self, pos: int, key: Node, value: Node) -> None:
        super().__init__(pos, key, value)
        self.key = key
        self.value = value


class Spread(Node):
    """``*args``: parsed, never executable."""

    __slots__ = ("argument",)
    kind = "SpreadExpression"

    def __init__(self, pos: int, argument: Node) -> None:
        super().__init__(pos, argument)
        self.argument = argument


class If(Node):
    """``{% if %}``; an ``elif`` is an If alone in ``alternate``."""

    __slots__ = ("alternate", "body", "test")
    kind = "If"

    def __init__(self, pos: int, test: Node, body: list[Node], alternate: list[Node]) -> None:
        super().__init__(pos, test, *body, *alternate)
        self.test = test
        self.body = body
        self.alternate = alternate


class For(Node):
    """``{% for target in iterable %}``."""

    __slots__ = ("alternate", "body", "iterable", "target")
    kind = "For"

    def __init__(self, pos: int, target: Node, iterable: Node, body: list[Node], alternate: list[Node]) -> None:
        super().__init__(pos, target, iterable, *body, *alternate)
        self.target = target
        self.iterable = iterable
        self.body = body
        self.alternate = alternate


class Break(Node):
    """``{% break %}``."""

    __slots__ = ()
    kind = "Break"


class Continue(Node):
    """``{% continue %}``."""

    __slots__ = ()
    kind = "Continue"


class Set(Node):
    """``{% set target = value %}`` or, without a value, the block form."""

    __slots__ = ("body", "target", "value")
    kind = "Set"

    def __init__(self, pos: int, target: Node, value: Node | None, body: list[Node]) -> None:
        super().__init__(pos, target, value, *body)
        self.target = target
        self.value = value
        self.body = body


class Macro(Node):
    """``{% macro name(args) %}``."""

    __slots__ = ("args", "body", "name")
    kind = "Macro"

    def __init__(self, pos: int, name: Node, args: list[Node], body: list[Node]) -> None:
        super().__init__(pos, name, *args, *body)
        self.name = name
        self.args = args
        self.body = body


class CallBlock(Node):
    """``{% call(args) macro(...) %}``."""

    __slots__ = ("args", "body", "call")
    kind = "CallStatement"

    def __init__(self, pos: int, call: Call, args: list[Node], body: list[Node]) -> None:
        super().__init__(pos, call, *args, *body)
        self.call = call
        self.args = args
        self.body = body


class FilterBlock(Node):
    """``{% filter name %}``."""

    __slots__ = ("body", "filter")
    kind = "FilterStatement"

    def __init__(self, pos: int, filter_: Node, body: list[Node]) -> None:
        super().__init__(pos, filter_, *body)
        self.filter = filter_
        self.body = body
