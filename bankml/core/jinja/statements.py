# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles statements to closures over (scope, run, output).

The scopes are the reference's. A loop has one scope of its own for all its passes, so what a pass sets the next one
sees and nobody after the loop; a macro runs in a copy of the scope it is called from, not of the one it was written in.
A ``break`` or ``continue`` throws away what the ``if`` around it had printed so far, and a loop whose every pass ended
in ``continue`` runs its ``else``.

Source: common/jinja/runtime.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from bankml.core.jinja import nodes
from bankml.core.jinja.errors import BreakSignal, ContinueSignal, LocatedError, TemplateError
from bankml.core.jinja.expressions import Expression, ExpressionCompiler, Scope
from bankml.core.jinja.run import Run, is_held
from bankml.core.jinja.strings import joined
from bankml.core.jinja.trace import mark
from bankml.core.jinja.values import Args, Func, Loop, Undefined, as_text, pairs_of, type_name

Statement = Callable[[Scope, Run, list[Any]], None]
Place = Callable[[TemplateError], LocatedError]
_Target = Callable[[Scope, Any], None]


def emit(value: Any, run: Run, out: list[Any]) -> None:
    """Prints a value: strings and numbers as text, arrays element by element, everything else not at all.

    An array is printed as it is when the block around it ends, so it stays in the output until :func:`settle`.
    """
    if isinstance(value, bytes):
        run.printed(value)
        out.append(value)
    elif isinstance(value, (int, float)):
        text = as_text(value, run)
        run.hold(40 + len(text))
        run.printed(text)
        out.append(text)
    elif isinstance(value, (list, tuple)):
        run.holds_arrays = True
        run.spend(1)
        out.append(value)


def settle(out: list[Any], start: int, run: Run) -> None:
    """Puts the elements of arrays in their place, from an index on."""
    waiting, out[start:] = out[start:], []
    for value in waiting:
        _elements(value, run, out)


def _elements(value: Any, run: Run, out: list[Any]) -> None:
    if isinstance(value, (list, tuple)):
        run.spend(1 + 2 * len(value))
        run.enter(1)
        for item in value:
            _elements(item, run, out)
        run.depth += 1
    else:
        emit(value, run, out)


def text_of(out: list[Any], run: Run) -> bytes:
    """What was printed, as one string."""
    if run.holds_arrays:
        settle(out, 0, run)
    run.room(sum(map(len, out)))
    return joined(out, run) if run.pieces else b"".join(out)


class Compiler(ExpressionCompiler):
    """Closures for the statements of one template."""

    def statement(self, node: nodes.Node) -> Statement:
        """The closure of a node between texts: a statement, or an expression that is printed."""
        method = self._STATEMENTS.get(type(node))
        if method is not None:
            self.level += node.frames
            compiled = method(self, node)
            self.level -= node.frames
            return compiled
        if isinstance(node, nodes.Literal) and isinstance(node.value, bytes):
            return self._text(node.value)
        value_of = self.expression(node)

        def show(scope: Scope, run: Run, out: list[Any]) -> None:
            value = value_of(scope, run)
            if type(value) is bytes:
                run.printed(value)
                out.append(value)
            else:
                emit(value, run, out)

        return show

    def body(self, statements: list[nodes.Node]) -> Statement:
        """The closure of statements in a row."""
        self.level += nodes.BODY_FRAMES
        compiled = [self.statement(node) for node in statements if not isinstance(node, nodes.Noop)]
        self.level -= nodes.BODY_FRAMES
        weight = 1 + sum(node.weight for node in statements)

        def run_all(scope: Scope, run: Run, out: list[Any]) -> None:
            run.spend(weight)
            for statement in compiled:
                statement(scope, run, out)

        return run_all

    def block(self, statements: list[nodes.Node]) -> Callable[[Scope, Run], bytes]:
        """The closure of statements whose output is a value."""
        body = self.body(statements)

        def collect(scope: Scope, run: Run) -> bytes:
            out: list[Any] = []
            body(scope, run, out)
            return text_of(out, run)

        return collect

    def _text(self, text: bytes) -> Statement:
        def show(scope: Scope, run: Run, out: list[Any]) -> None:
            run.printed(text)
            out.append(text)

        return show

    def _noop(self, node: nodes.Node) -> Statement:
        return lambda scope, run, out: None

    def _break(self, node: nodes.Node) -> Statement:
        def leave(scope: Scope, run: Run, out: list[Any]) -> None:
            raise BreakSignal

        return leave

    def _continue(self, node: nodes.Node) -> Statement:
        def skip(scope: Scope, run: Run, out: list[Any]) -> None:
            raise ContinueSignal

        return skip

    def _if(self, node: nodes.If) -> Statement:
        arms: list[tuple[Expression, Statement, Place]] = []
        last: list[nodes.Node] = [node]
        while len(last) == 1 and isinstance(last[0], nodes.If):
            arm = last[0]
            arms.append((self.expression(arm.test), self.body(arm.body), self.place(arm)))
            last = arm.alternate
        otherwise = self.body(last)

        def choose(scope: Scope, run: Run, out: list[Any]) -> None:
            printed = len(out)
            try:
                for test, body, place in arms:
                    value = test(scope, run)
                    try:
                        if not value:
                            continue
                    except TemplateError as error:
                        raise place(error) from None
                    body(scope, run, out)
                    break
                else:
                    otherwise(scope, run, out)
            except (BreakSignal, ContinueSignal):
                del out[printed:]
                raise
            if run.holds_arrays:
                settle(out, printed, run)

        return choose

    def _for(self, node: nodes.For) -> Statement:
        select = node.iterable if isinstance(node.iterable, nodes.Select) else None
        iterable = self.expression(select.value if select else node.iterable)
        test = self.expression(select.test) if select else None
        body, otherwise, place = self.body(node.body), self.body(node.alternate), self.place(node)
        assign, arity = self._loop_target(node.target)
        selecting = 4 + node.iterable.weight

        def items_of(scope: Scope, run: Run) -> list[Any]:
            """The values to pass through, those that the condition drops already left out."""
            values = iterable(scope, run)
            if run.trace:
                mark(values, b"array_access", *([b"object_access"] if isinstance(values, dict) else []))
            if isinstance(values, (list, tuple, dict)):
                run.grow(len(values))
            if isinstance(values, dict):
                items = pairs_of(values, run) if arity else list(values)
            elif isinstance(values, (list, tuple)):
                items = list(values)
            elif isinstance(values, Undefined):
                items = []
            else:
                raise TemplateError(b"Expected iterable or object type in for loop: got " + type_name(values))
            if arity:
                run.spend(4 * len(items))
                for item in items:
                    _check_arity(item, arity, b"Cannot unpack non-iterable type: ", b"")
            elif assign is None and items:
                raise TemplateError(b"Invalid loop variable(s): " + node.target.kind.encode())
            if test is None or assign is None:
                return items
            kept = []
            for item in items:
                run.spend(selecting)
                inner = run.copied(scope)
                assign(inner, item)
                if test(inner, run):
                    kept.append(item)
            return kept

        def loop(outer: Scope, run: Run, out: list[Any]) -> None:
            scope, printed, depth = run.copied(outer), len(out), run.depth
            try:
                items = items_of(scope, run)
            except TemplateError as error:
                raise place(error) from None
            count, finished = len(items), False
            for i, item in enumerate(items):
                run.spend(_PASS)
                before, scope[b"loop"] = scope[b"loop"] if i else None, _loop_variable(items, i, count)
                if i and is_held(before):
                    run.hold(_LOOP)
                try:
                    if assign is not None:
                        assign(scope, item)
                except TemplateError as error:
                    raise place(error) from None
                try:
                    body(scope, run, out)
                except ContinueSignal:
                    run.depth = depth
                    continue
                except BreakSignal:
                    run.depth = depth
                    break
                finished = True
            if not finished:
                otherwise(outer, run, out)
            if run.holds_arrays:
                settle(out, printed, run)

        return loop

    def _loop_target(self, target: nodes.Node) -> tuple[_Target | None, int]:
        """How a pass names its item, and how many names an item is unpacked into (0: none)."""
        if isinstance(target, nodes.Name):
            name = target.name

            def assign(scope: Scope, item: Any) -> None:
                scope[name] = item

            return assign, 0
        if isinstance(target, nodes.Sequence) and target.is_tuple:
            return self._unpack(target.items, b"Cannot unpack non-identifier type: "), len(target.items)
        return None, 0

    def _unpack(self, targets: list[nodes.Node], complaint: bytes) -> _Target:
        names = [target.name if isinstance(target, nodes.Name) else target for target in targets]

        def assign(scope: Scope, item: Any) -> None:
            for name, value in zip(names, item, strict=True):
                if isinstance(name, nodes.Node):
                    raise TemplateError(complaint + name.kind.encode())
                scope[name] = value

        return assign

    def _set(self, node: nodes.Set) -> Statement:
        value_of: Expression = self.expression(node.value) if node.value is not None else self.block(node.body)
        place, target = self.place(node), node.target
        if isinstance(target, nodes.Name):
            name = target.name

            def set_name(scope: Scope, run: Run, out: list[Any]) -> None:
                value = value_of(scope, run)
                old = scope.get(name)
                scope[name] = value
                run.replaced(old)

            return set_name
        assign = self._set_target(target)

        def set_(scope: Scope, run: Run, out: list[Any]) -> None:
            value = value_of(scope, run)
            try:
                assign(scope, run, value)
            except TemplateError as error:
                raise place(error) from None

        return set_

    def _set_target(self, target: nodes.Node) -> Callable[[Scope, Run, Any], None]:
        if isinstance(target, nodes.Sequence) and target.is_tuple:
            unpack = self._unpack(target.items, b"Cannot unpack to non-identifier in set: ")
            arity = len(target.items)

            def set_names(scope: Scope, run: Run, value: Any) -> None:
                _check_arity(value, arity, b"Cannot unpack non-iterable type in set: ", b" in set")
                unpack(scope, value)

            return set_names
        if not isinstance(target, nodes.Member):
            return self._no_target(b"Invalid LHS inside assignment expression: " + target.kind.encode())
        if target.computed:
            return self._no_target(b"Cannot assign to computed member")
        if not isinstance(target.property, nodes.Name):
            return self._no_target(b"Cannot assign to member with non-identifier property")
        owner, name = self.expression(target.object), target.property.name

        def set_member(scope: Scope, run: Run, value: Any) -> None:
            holder = owner(scope, run)
            if not isinstance(holder, dict):
                raise TemplateError(b"Cannot assign to member of non-object")
            old = holder.get(name)
            holder[name] = value
            run.replaced(old)

        return set_member

    def _no_target(self, message: bytes) -> Callable[[Scope, Run, Any], None]:
        def refuse(scope: Scope, run: Run, value: Any) -> None:
            raise TemplateError(message)

        return refuse

    def _macro(self, node: nodes.Macro) -> Statement:
        place = self.place(node)
        if not isinstance(node.name, nodes.Name):
            refused = self.refuse(node, b"Macro name must be an identifier")

            def refuse(scope: Scope, run: Run, out: list[Any]) -> None:
                refused(scope, run)

            return refuse
        name, levels, weight = node.name.name, node.levels, node.weight
        bind, block = self._called(name, node, place)

        def handler(args: Args) -> bytes:
            run = args.run
            run.spend(weight)
            run.reach(levels)
            scope = run.copied(args.scope)
            bind(args, scope)
            return block(scope, run)

        def define(scope: Scope, run: Run, out: list[Any]) -> None:
            scope[name] = Func(name, handler)

        return define

    def _called(
        self, name: bytes, node: nodes.Macro | nodes.CallBlock, place: Place
    ) -> tuple[Callable[[Args, Scope], None], Callable[[Scope, Run], bytes]]:
        """The parameters and the body of what is called from elsewhere: frames are counted from there on."""
        level, self.level = self.level, node.frames
        parts = self._parameters(name, node.args, place), self.block(node.body)
        self.level = level
        return parts

    def _parameters(self, name: bytes, heads: list[nodes.Node], place: Place) -> Callable[[Args, Scope], None]:
        """Binds arguments as the reference does: by their number, so a default stands only behind the last argument."""
        heads_of: list[tuple[bytes | None, bytes, Expression | None]] = []
        for head in heads:
            if isinstance(head, nodes.Name):
                heads_of.append((head.name, b"", None))
            elif isinstance(head, nodes.KeywordArgument) and isinstance(head.key, nodes.Name):
                heads_of.append((head.key.name, b"", self.expression(head.value)))
            elif isinstance(head, nodes.KeywordArgument):
                heads_of.append((None, b"Keyword argument key must be an identifier in '%b'" % name, None))
            else:
                heads_of.append((None, b"Invalid parameter type in '%b'" % name, None))

        def bind(args: Args, scope: Scope) -> None:
            given = len(args.values)
            for i, (key, complaint, default) in enumerate(heads_of):
                if i >= given and default is None and not complaint.startswith(b"Keyword"):
                    raise TemplateError(b"Not enough arguments provided to '%b'" % name)
                if key is None:
                    raise TemplateError(complaint)
                if i < given:
                    scope[key] = args.named(key, i)
                elif default is not None:
                    scope[key] = default(args.scope, args.run)

        return bind

    def _call_block(self, node: nodes.CallBlock) -> Statement:
        callee, args = self.expression(node.call.callee), [self.expression(arg) for arg in node.call.args]
        place, level = self.place(node), self.level
        bind, block = self._called(b"caller", node, place)
        levels, weight = node.levels, node.weight

        def call(scope: Scope, run: Run, out: list[Any]) -> None:
            function = callee(scope, run)
            if type(function) is not Func:
                raise place(TemplateError(b"Callee is not a function: got " + type_name(function)))
            written_in = run.copied(scope)
            # The macro may keep its caller, and that the scope.
            run.hold(1000 + 100 * len(written_in))

            def caller(inner: Args) -> bytes:
                run.spend(weight)
                run.reach(levels)
                own = run.copied(written_in)
                bind(inner, own)
                return block(own, run)

            called_from = {**run.copied(scope), b"caller": Func(b"caller", caller)}
            run.enter(level)
            try:
                emit(function.invoke(run, called_from, [arg(scope, run) for arg in args]), run, out)
            except TemplateError as error:
                raise place(error) from None
            run.depth += level

        return call

    def _filter_block(self, node: nodes.FilterBlock) -> Statement:
        block, apply, place = self.block(node.body), self.filter_function(node.filter), self.place(node)

        def filtered(scope: Scope, run: Run, out: list[Any]) -> None:
            text = block(scope, run)
            try:
                emit(apply(text, scope, run), run, out)
            except TemplateError as error:
                raise place(error) from None

        return filtered

    _STATEMENTS: ClassVar[dict[type[nodes.Node], Callable[[Any, Any], Statement]]] = {
        nodes.Noop: _noop,
        nodes.Break: _break,
        nodes.Continue: _continue,
        nodes.If: _if,
        nodes.For: _for,
        nodes.Set: _set,
        nodes.Macro: _macro,
        nodes.CallBlock: _call_block,
        nodes.FilterBlock: _filter_block,
    }


def _check_arity(value: Any, arity: int, not_iterable: bytes, where: bytes) -> None:
    if not isinstance(value, (list, tuple)):
        raise TemplateError(not_iterable + type_name(value))
    if len(value) != arity:
        raise TemplateError(b"Too %b items to unpack%b" % (b"few" if arity > len(value) else b"many", where))


_PASS = 6  # steps of a pass, its body apart: the loop's variable has nine members
_LOOP = 400  # bytes of that variable


def _loop_variable(items: list[Any], i: int, count: int) -> Loop:
    return Loop(
        {
            b"index": i + 1,
            b"index0": i,
            b"revindex": count - i,
            b"revindex0": count - i - 1,
            b"first": i == 0,
            b"last": i == count - 1,
            b"length": count,
            b"previtem": items[i - 1] if i else _NO_PREVIOUS,
            b"nextitem": items[i + 1] if i + 1 < count else _NO_NEXT,
        }
    )


_NO_PREVIOUS = Undefined(b"previtem")
_NO_NEXT = Undefined(b"nextitem")
