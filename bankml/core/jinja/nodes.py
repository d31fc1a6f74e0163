# SPDX-License-Identifier: MIT OR Apache-2.0
"""The syntax tree of a template. ``kind`` is the name the reference's error reports give a node, ``pos`` its byte offset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from bankml.core.jinja.errors import LimitError

MAX_LEVELS = 200  # frames that a node may take, calls of macros apart
BODY_FRAMES = 2  # of a body and of a printed expression in it


class Node:
    """Any node.

    Attributes:
        weight: the prices of it and all below it, the bodies of statements apart: what one pass over it may cost.
        levels: how many Python frames a pass over it takes at most, calls apart.

    Raises:
        LimitError: it has more than MAX_LEVELS.
    """

    __slots__ = ("levels", "pos", "weight")
    kind: ClassVar[str] = "Statement"
    frames: ClassVar[int] = 1
    """Of its own, above those of the deepest child."""
    price: ClassVar[int] = 1
    """In steps, of its own."""

    def __init__(self, pos: int, *children: Node | None) -> None:
        self.pos = pos
        there = [child for child in children if child is not None]
        self.weight: int = self.price + sum(child.weight for child in there)
        self.levels: int = self.frames
        self.deepen(there, self.frames)

    def deepen(self, children: Iterable[Node], frames: int) -> None:
        """Take in children that stand this number of frames above the node's own."""
        self.levels = max(self.levels, frames + max((child.levels for child in children), default=0))
        if self.levels > MAX_LEVELS:
            raise LimitError("depth of the template or of its values", f"{MAX_LEVELS} levels")


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
    frames = 2
    price = 2

    def __init__(self, pos: int, items: list[Node], is_tuple: bool) -> None:
        super().__init__(pos, *items)
        self.items = items
        self.is_tuple = is_tuple


class ObjectLiteral(Node):
    """``{key: value}``."""

    __slots__ = ("pairs",)
    kind = "ObjectLiteral"
    price = 3

    def __init__(self, pos: int, pairs: list[tuple[Node, Node]]) -> None:
        super().__init__(pos, *(node for pair in pairs for node in pair))
        self.pairs = pairs


SUMS = (b"+", b"-", b"~")


class Binary(Node):
    """``left op right``."""

    __slots__ = ("left", "op", "right")
    kind = "BinaryExpression"
    price = 3

    def __init__(self, pos: int, op: bytes, left: Node, right: Node) -> None:
        super().__init__(pos, right)
        self.op = op
        # A chain of sums is one closure.
        chained = op in SUMS and isinstance(left, Binary) and left.op in SUMS
        self.weight += left.weight
        self.deepen([left], 0 if chained else self.frames)
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
    frames = 3
    price = 5

    def __init__(self, pos: int, operand: Node, negate: bool, test: Node) -> None:
        super().__init__(pos, operand, test)
        self.operand = operand
        self.negate = negate
        self.test = test


class Filter(Node):
    """``value | filter``."""

    __slots__ = ("filter", "operand")
    kind = "FilterExpression"
    frames = 3
    price = 6

    def __init__(self, pos: int, operand: Node, filter_: Node) -> None:
        super().__init__(pos, operand, filter_)
        self.operand = operand
        self.filter = filter_


class Member(Node):
    """``a.b`` or, computed, ``a[b]``."""

    __slots__ = ("computed", "object", "property")
    kind = "MemberExpression"
    price = 2

    def __init__(self, pos: int, object_: Node, property_: Node, computed: bool) -> None:
        super().__init__(pos, object_, property_)
        self.object = object_
        self.property = property_
        self.computed = computed


class Slice(Node):
    """``start:stop:step`` between brackets."""

    __slots__ = ("start", "step", "stop")
    kind = "SliceExpression"
    price = 6

    def __init__(self, pos: int, start: Node | None, stop: Node | None, step: Node | None) -> None:
        super().__init__(pos, start, stop, step)
        self.start = start
        self.stop = stop
        self.step = step


class Call(Node):
    """``callee(args)``."""

    __slots__ = ("args", "callee")
    kind = "CallExpression"
    frames = 2
    price = 5

    def __init__(self, pos: int, callee: Node, args: list[Node]) -> None:
        super().__init__(pos, callee, *args)
        self.callee = callee
        self.args = args


class KeywordArgument(Node):
    """``key=value`` in a call or a macro's head."""

    __slots__ = ("key", "value")
    kind = "KeywordArgumentExpression"
    price = 2

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
        # The tests of a chain of elifs stand side by side.
        chain = alternate[0] if len(alternate) == 1 and isinstance(alternate[0], If) else None
        super().__init__(pos, test)
        self.test = test
        self.body = body
        self.alternate = alternate
        self.deepen(body, self.frames + BODY_FRAMES)
        if chain is None:
            self.deepen(alternate, self.frames + BODY_FRAMES)
        else:
            self.weight += chain.weight
            self.deepen([chain], 0)


class For(Node):
    """``{% for target in iterable %}``."""

    __slots__ = ("alternate", "body", "iterable", "target")
    kind = "For"
    frames = 2

    def __init__(self, pos: int, target: Node, iterable: Node, body: list[Node], alternate: list[Node]) -> None:
        super().__init__(pos, target, iterable)
        self.deepen([*body, *alternate], self.frames + BODY_FRAMES)
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
        super().__init__(pos, target, value)
        self.deepen(body, self.frames + 1 + BODY_FRAMES)
        self.target = target
        self.value = value
        self.body = body


class Macro(Node):
    """``{% macro name(args) %}``."""

    __slots__ = ("args", "body", "name")
    kind = "Macro"
    frames = 3  # of a call
    price = 4

    def __init__(self, pos: int, name: Node, args: list[Node], body: list[Node]) -> None:
        super().__init__(pos, name, *args)
        self.name = name
        self.args = args
        self.body = body
        self.deepen(body, self.frames + BODY_FRAMES)


class CallBlock(Node):
    """``{% call(args) macro(...) %}``."""

    __slots__ = ("args", "body", "call")
    kind = "CallStatement"
    frames = 3
    price = 8

    def __init__(self, pos: int, call: Call, args: list[Node], body: list[Node]) -> None:
        super().__init__(pos, call, *args)
        self.deepen(body, self.frames + BODY_FRAMES)
        self.call = call
        self.args = args
        self.body = body


class FilterBlock(Node):
    """``{% filter name %}``."""

    __slots__ = ("body", "filter")
    kind = "FilterStatement"
    price = 8

    def __init__(self, pos: int, filter_: Node, body: list[Node]) -> None:
        super().__init__(pos, filter_, *body)
        self.filter = filter_
        self.body = body
