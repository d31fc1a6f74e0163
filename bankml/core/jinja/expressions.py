# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles expressions to closures over (scope, run).

Each closure gives an error that has no place yet the place of its own node, which is what the reference's statements do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from bankml.core.jinja import nodes
from bankml.core.jinja.errors import LocatedError, TemplateError, locate
from bankml.core.jinja.filters import bound, filter_of
from bankml.core.jinja.functions import GLOBALS, TESTS
from bankml.core.jinja.operators import binary, member, static_member
from bankml.core.jinja.run import Run
from bankml.core.jinja.trace import mark
from bankml.core.jinja.values import (
    Args,
    Func,
    Kwarg,
    Obj,
    Pair,
    Undefined,
    as_int,
    as_text,
    check_key,
    equal,
    is_number,
    type_name,
)

Scope = dict[bytes, Any]
Expression = Callable[[Scope, Run], Any]

_ALIASES = {b"count": b"length", b"d": b"default", b"e": b"escape", b"trim": b"strip"}
# Filters that first make a string of anything that is not one; only without arguments.
_COERCING = frozenset({b"capitalize", b"lower", b"replace", b"strip", b"title", b"upper", b"wordcount"})
_ABSENT: Any = object()


class ExpressionCompiler:
    """Closures for the expressions of one template.

    Args:
        source: the normalized source, for the places in errors.
        trace: whether the closures note what is done with traced values.
    """

    def __init__(self, source: bytes, trace: bool) -> None:
        self.source = source
        self.trace = trace
        self.places: dict[int, tuple[str, int]] = {}
        # How many frames above its macro, or above the template, the node that is being compiled will run.
        self.level = 0

    def place(self, node: nodes.Node) -> Callable[[TemplateError], LocatedError]:
        """What gives an error of this node its place."""
        kind, pos = self.places.get(id(node), (node.kind, node.pos))
        return lambda error: locate(error, kind, pos, self.source)

    def expression(self, node: nodes.Node) -> Expression:
        """The closure of an expression; of a node that is none, one that refuses as the reference does."""
        method = self._METHODS.get(type(node))
        if method is None:
            return self.refuse(node, b"cannot exec " + node.kind.encode())
        self.level += node.frames
        compiled = method(self, node)
        self.level -= node.frames
        return compiled

    def refuse(self, node: nodes.Node, message: bytes) -> Expression:
        """A closure that only raises, at the node's place."""
        place = self.place(node)

        def refused(scope: Scope, run: Run) -> Any:
            raise place(TemplateError(message))

        return refused

    def _literal(self, node: nodes.Literal) -> Expression:
        value = node.value
        return lambda scope, run: value

    def _blank(self, node: nodes.Node) -> Expression:
        return lambda scope, run: Undefined()

    def _name(self, node: nodes.Name) -> Expression:
        name = node.name
        handler = GLOBALS.get(name)
        fallback = Undefined(name) if handler is None else Func(name, handler)

        def look_up(scope: Scope, run: Run) -> Any:
            value = scope.get(name, fallback)
            return fallback if type(value) is Undefined else value

        def look_up_traced(scope: Scope, run: Run) -> Any:
            value = look_up(scope, run)
            mark(value)
            return value

        return look_up_traced if self.trace else look_up

    def _sequence(self, node: nodes.Sequence) -> Expression:
        items = [self.expression(item) for item in node.items]
        place, is_tuple, size = self.place(node), node.is_tuple, 64 + 40 * len(node.items) + 240 * node.is_tuple

        def build(scope: Scope, run: Run) -> Any:
            run.hold(size)
            values = [item(scope, run) for item in items]
            if not is_tuple:
                return values
            try:
                return Pair.of(values)
            except TemplateError as error:
                raise place(error) from None

        return build

    def _object(self, node: nodes.ObjectLiteral) -> Expression:
        pairs = [(self.expression(key), self.expression(value)) for key, value in node.pairs]
        place, size = self.place(node), 240 + 120 * len(node.pairs)

        def build(scope: Scope, run: Run) -> Any:
            run.hold(size)
            result = Obj()
            for key_of, value_of in pairs:
                key, value = key_of(scope, run), value_of(scope, run)
                try:
                    check_key(key, run)
                except TemplateError as error:
                    raise place(error) from None
                result[key] = value
            return result

        return build

    def _binary(self, node: nodes.Binary) -> Expression:
        if node.op in (b"and", b"or"):
            return self._logical(node)
        if node.op in nodes.SUMS:
            return self._sum(node)
        left, right, op = self.expression(node.left), self.expression(node.right), node.op
        place = self.place(node)
        if op in (b"==", b"!="):
            wanted = op == b"=="
            return lambda scope, run: equal(left(scope, run), right(scope, run), run) is wanted

        def apply(scope: Scope, run: Run) -> Any:
            a, b = left(scope, run), right(scope, run)
            try:
                return binary(op, a, b, run)
            except TemplateError as error:
                raise place(error) from None

        return apply

    def _logical(self, node: nodes.Binary) -> Expression:
        left, right, place = self.expression(node.left), self.expression(node.right), self.place(node)
        stops_at = node.op == b"or"

        def apply(scope: Scope, run: Run) -> Any:
            value = left(scope, run)
            try:
                stops = bool(value) is stops_at
            except TemplateError as error:
                raise place(error) from None
            return value if stops else right(scope, run)

        return apply

    def _sum(self, node: nodes.Binary) -> Expression:
        """A chain of ``+``, ``-`` and ``~``, from the left, in one closure."""
        links: list[tuple[bytes, Expression, Callable[[TemplateError], LocatedError]]] = []
        first: nodes.Node = node
        while isinstance(first, nodes.Binary) and first.op in nodes.SUMS:
            links.append((first.op, self.expression(first.right), self.place(first)))
            first = first.left
        links.reverse()
        start = self.expression(first)

        def apply(scope: Scope, run: Run) -> Any:
            value = start(scope, run)
            made = False
            for op, operand, place in links:
                other = operand(scope, run)
                if type(value) is bytes and type(other) is bytes and op != b"-" and not run.pieces:
                    run.copy(len(value) + len(other))
                    value += other
                    made = True
                    continue
                try:
                    value = binary(op, value, other, run)
                except TemplateError as error:
                    raise place(error) from None
            if made and type(value) is bytes:
                run.hold(40 + len(value))
            return value

        return apply

    def _unary(self, node: nodes.Unary) -> Expression:
        operand, op, place = self.expression(node.operand), node.op, self.place(node)

        def apply(scope: Scope, run: Run) -> Any:
            value = operand(scope, run)
            if op != b"not":
                if not is_number(value):
                    raise place(TemplateError(b"Unary %b operator requires numeric operand" % op))
                return -value if op == b"-" else value
            try:
                return not value
            except TemplateError as error:
                raise place(error) from None

        return apply

    def _ternary(self, node: nodes.Ternary) -> Expression:
        test, yes, no = self.expression(node.test), self.expression(node.yes), self.expression(node.no)
        place = self.place(node)

        def choose(scope: Scope, run: Run) -> Any:
            value = test(scope, run)
            try:
                chosen = yes if value else no
            except TemplateError as error:
                raise place(error) from None
            return chosen(scope, run)

        return choose

    def _select(self, node: nodes.Select) -> Expression:
        # Its two parts run without a place of their own, so their errors are reported at this node.
        for part in (node.test, node.value):
            self.places[id(part)] = (node.kind, node.pos)
        test, value, place = self.expression(node.test), self.expression(node.value), self.place(node)

        def choose(scope: Scope, run: Run) -> Any:
            wanted = test(scope, run)
            try:
                if not wanted:
                    return Undefined()
            except TemplateError as error:
                raise place(error) from None
            return value(scope, run)

        return choose

    def _test(self, node: nodes.Test) -> Expression:
        operand, place, negate = self.expression(node.operand), self.place(node), node.negate
        name, args, complaint = self._callee(node.test, b"Test callee must be an identifier", b"Invalid test expression")
        test = TESTS.get(name)

        def judge(value: Any, scope: Scope, run: Run) -> Any:
            if complaint:
                raise TemplateError(complaint)
            values = [value, *[arg(scope, run) for arg in args]]
            if test is None:
                raise TemplateError(b"Unknown test '%b'" % name)
            if run.trace:
                mark(value, b"test_is_" + name)
            result = test(Args(b"", run, scope, values))
            return not result if negate else result

        def apply(scope: Scope, run: Run) -> Any:
            value = operand(scope, run)
            try:
                return judge(value, scope, run)
            except TemplateError as error:
                raise place(error) from None

        return apply

    def _callee(self, node: nodes.Node, not_a_name: bytes, invalid: bytes) -> tuple[bytes, list[Expression], bytes]:
        """The name and the arguments of a filter or test, or the reference's complaint about its form."""
        if isinstance(node, nodes.Name):
            return node.name, [], b""
        if isinstance(node, nodes.Call):
            if isinstance(node.callee, nodes.Name):
                return node.callee.name, [self.expression(arg) for arg in node.args], b""
            return b"", [], not_a_name
        return b"", [], invalid

    def filter_function(self, node: nodes.Node) -> Callable[[Any, Scope, Run], Any]:
        """What a filter does to a value; raises TemplateError."""
        name, args, complaint = self._callee(node, b"Filter callee must be an identifier", b"Invalid filter expression")
        name = _ALIASES.get(name, name)
        coerces = isinstance(node, nodes.Name) and name in _COERCING

        def apply(value: Any, scope: Scope, run: Run) -> Any:
            if complaint:
                raise TemplateError(complaint)
            if coerces and not isinstance(value, (bytes, Undefined)):
                value = as_text(value, run)
            values = [arg(scope, run) for arg in args]
            if run.trace:
                mark(value, name)
            return filter_of(name, value)(Args(name, run, scope, [value, *values]))

        return apply

    def _filter(self, node: nodes.Filter) -> Expression:
        operand, apply, place = self.expression(node.operand), self.filter_function(node.filter), self.place(node)

        def filtered(scope: Scope, run: Run) -> Any:
            value = operand(scope, run)
            try:
                return apply(value, scope, run)
            except TemplateError as error:
                raise place(error) from None

        return filtered

    def _member(self, node: nodes.Member) -> Expression:
        if node.computed and isinstance(node.property, nodes.Slice):
            return self._slice(node, node.property)
        owner, place = self.expression(node.object), self.place(node)
        if node.computed:
            key = self.expression(node.property)

            def computed(scope: Scope, run: Run) -> Any:
                value, at = owner(scope, run), key(scope, run)
                if type(value) is Obj and type(at) is bytes:
                    found = value.get(at, _ABSENT)
                    if found is not _ABSENT and type(found) is not Undefined:
                        return found
                try:
                    return member(value, at, run)
                except TemplateError as error:
                    raise place(error) from None

            return computed
        if isinstance(node.property, nodes.Name):
            return self._static(owner, node.property.name, place)
        literal = node.property.value if isinstance(node.property, nodes.Literal) else None
        is_index = isinstance(literal, int)

        def indexed(scope: Scope, run: Run) -> Any:
            value = owner(scope, run)
            if not is_index:
                raise place(TemplateError(b"Static member property must be an identifier"))
            try:
                return member(value, literal, run)
            except TemplateError as error:
                raise place(error) from None

        return indexed

    def _static(self, owner: Expression, name: bytes, place: Callable[[TemplateError], LocatedError]) -> Expression:
        is_builtin = bound(name, Obj()) is not None

        def static(scope: Scope, run: Run) -> Any:
            value = owner(scope, run)
            if type(value) is Obj and not is_builtin:
                found = value.get(name, _ABSENT)
                return found if found is not _ABSENT and type(found) is not Undefined else Undefined(name)
            try:
                return static_member(value, name, run)
            except TemplateError as error:
                raise place(error) from None

        return static

    def _slice(self, node: nodes.Member, cut: nodes.Slice) -> Expression:
        owner, place = self.expression(node.object), self.place(node)
        start_of, stop_of, step_of = (self.expression(part) if part else None for part in (cut.start, cut.stop, cut.step))

        def slice_(scope: Scope, run: Run) -> Any:
            value = owner(scope, run)
            size = len(value) if isinstance(value, (list, tuple, bytes)) else 0
            step = step_of(scope, run) if step_of else 1
            try:
                start = start_of(scope, run) if start_of else (size - 1 if as_int(step) < 0 else 0)
                stop = stop_of(scope, run) if stop_of else (-1 if as_int(step) < 0 else size)
                if run.trace:
                    mark(value, b"slice")
                return filter_of(b"slice", value)(Args(b"slice", run, scope, [value, start, stop, step]))
            except TemplateError as error:
                raise place(error) from None

        return slice_

    def _call(self, node: nodes.Call) -> Expression:
        callee, args = self.expression(node.callee), [self.expression(arg) for arg in node.args]
        place, level = self.place(node), self.level

        def call(scope: Scope, run: Run) -> Any:
            values = [arg(scope, run) for arg in args]
            function = callee(scope, run)
            if type(function) is not Func:
                raise place(TemplateError(b"Callee is not a function: got " + type_name(function)))
            run.enter(level)
            try:
                value = function.handler(Args(function.name, run, scope, [*function.this, *values]))
            except TemplateError as error:
                raise place(error) from None
            run.depth += level
            return value

        return call

    def _keyword(self, node: nodes.KeywordArgument) -> Expression:
        if not isinstance(node.key, nodes.Name):
            return self.refuse(node, b"Keyword argument key must be identifiers")
        key, value = node.key.name, self.expression(node.value)
        return lambda scope, run: Kwarg(key, value(scope, run))

    _METHODS: ClassVar[dict[type[nodes.Node], Callable[[Any, Any], Expression]]] = {
        nodes.Literal: _literal,
        nodes.Integer: _literal,
        nodes.Float: _literal,
        nodes.Noop: _blank,
        nodes.Blank: _blank,
        nodes.Name: _name,
        nodes.Sequence: _sequence,
        nodes.ObjectLiteral: _object,
        nodes.Binary: _binary,
        nodes.Unary: _unary,
        nodes.Ternary: _ternary,
        nodes.Select: _select,
        nodes.Test: _test,
        nodes.Filter: _filter,
        nodes.Member: _member,
        nodes.Call: _call,
        nodes.KeywordArgument: _keyword,
    }
