# SPDX-License-Identifier: MIT OR Apache-2.0
"""A JSON schema as a GBNF grammar, byte for byte llama.cpp b11192's.

Source: common_chat_schema_converter, common/json-schema-to-grammar.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bankml.core.constrain.integers import HIGHEST, LOWEST, UnboundedError, integer_range
from bankml.core.constrain.pattern import InvalidError, UnsupportedError, pattern_rule
from bankml.core.constrain.rule_book import RESERVED, RuleBook, dashed, literal, repetition
from bankml.core.constrain.schema_nodes import (
    PREFIX,
    AllOf,
    AnyOf,
    Array,
    Document,
    Enum,
    Integer,
    Node,
    Object,
    Plain,
    Ref,
    String,
    Tuple,
    read_document,
)
from bankml.core.json import ordered
from bankml.refusal import Refusal

_UNBOUNDED = (1 << 31) - 1


@dataclass
class SchemaGrammar:
    """A grammar made of a schema, and what of the schema it does not hold to."""

    text: bytes
    warnings: list[str] = field(default_factory=list)


def grammar_of_text(schema: bytes) -> SchemaGrammar:
    """The grammar of a schema's JSON text.

    Raises:
        Refusal: ``schema.json``, or as :func:`grammar_of`.
    """
    return grammar_of(ordered.read(schema))


def grammar_of(schema: Any) -> SchemaGrammar:
    """The grammar of a schema that :func:`ordered.read` gave.

    Raises:
        Refusal: ``schema.unsupported`` with the reference's message, or ``schema.limit``.
    """
    book = RuleBook()
    warnings = add_schema(book, read_document(schema), "")[1]
    return SchemaGrammar(book.text().encode("latin-1"), warnings)


def add_schema(book: RuleBook, document: Document, name: str) -> tuple[str, list[str]]:
    """Write the rules of a schema into a book; returns the name of its rule and what it does not hold to.

    Raises:
        Refusal: as :func:`grammar_of`.
    """
    try:
        return _Converter(document, book).convert(name)
    except RecursionError:
        raise Refusal("schema.limit", "the schema is nested too deeply") from None


def _bytes(text: str) -> str:
    """UTF-8 as latin-1 characters."""
    return text.encode("utf-8").decode("latin-1")


def _text(raw: str) -> str:
    return raw.encode("latin-1").decode("utf-8", "replace")


def _constant(value: Any) -> str:
    return literal(_bytes(ordered.dump(value)))


class _Converter:
    def __init__(self, document: Document, book: RuleBook) -> None:
        self.document = document
        self.book = book
        self.resolving: set[str] = set()
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def convert(self, name: str) -> tuple[str, list[str]]:
        try:
            rule = self.visit(self.document.root, name)
        except UnboundedError as error:
            raise Refusal("schema.unsupported", f"{PREFIX}{error}") from None
        if self.errors:
            raise Refusal("schema.unsupported", PREFIX + "\n".join(self.errors))
        return rule, self.warnings

    def visit(self, node: Node, name: str) -> str:
        """Write the rules of a node; returns the name of its rule."""
        with self.book.naming(name):
            return self._visit(node, name)

    def _visit(self, node: Node, name: str) -> str:
        rule_name = f"{name}-" if name in RESERVED else name or "root"
        below = f"{name}-" if name else ""
        add = self.book.add
        match node:
            case Ref():
                return add(rule_name, self._reference(node.ref))
            case AnyOf():
                names = [self.visit(each, f"{below or 'alternative-'}{i}") for i, each in enumerate(node.children)]
                return add(rule_name, " | ".join(names))
            case AllOf():
                return self._all_of(node, name, rule_name)
            case Enum():
                values = [_constant(value) for value in node.values]
                return add(rule_name, values[0] if node.single else f"({' | '.join(values)})")
            case Object():
                if not node.properties and type(node.additional) is Node:
                    return add(rule_name, self.book.add_primitive("object", "object"))
                properties = [(each, schema) for each, schema, _ in node.properties]
                required = {each for each, _, needed in node.properties if needed}
                return add(rule_name, self._object(properties, required, name, node.additional))
            case Tuple():
                names = [self.visit(each, f"{below}tuple-{i}") for i, each in enumerate(node.items)]
                items = ' "," space '.join(names)
                return add(rule_name, f'"[" space {items} space "]"')
            case Array():
                if type(node.items) is Node and node.least == 0 and node.most < 0:
                    return self._primitive(rule_name, "array")
                item = self.visit(node.items, f"{below}item")
                items = repetition(item, node.least, _most(node.most), '"," space')
                return add(rule_name, f'"[" space {items} space "]"')
            case String():
                return self._string(node, rule_name)
            case Integer():
                if (node.low, node.high) == (LOWEST, HIGHEST):
                    return self._primitive(rule_name, "integer")
                return add(rule_name, f"({integer_range(node.low, node.high)})")
            case Plain():
                return self._primitive(rule_name, node.type)
        return add(rule_name, self.book.add_primitive("value", "value"))

    def _primitive(self, rule_name: str, rule: str) -> str:
        return self.book.add_primitive("root" if rule_name == "root" else rule, rule)

    def _string(self, node: String, rule_name: str) -> str:
        if node.pattern:
            return self._pattern(_bytes(node.pattern), rule_name)
        if node.format == "uuid":
            return self._primitive(rule_name, "uuid")
        if node.format:
            named = f"{node.format}-string"
            return self.book.add(rule_name, self.book.add_primitive(named, named))
        if node.least > 0 or node.most >= 0:
            char = self.book.add_primitive("char", "char")
            return self.book.add(rule_name, f'"\\"" {repetition(char, node.least, _most(node.most))} "\\""')
        return self._primitive(rule_name, "string")

    def _pattern(self, pattern: str, rule_name: str) -> str:
        """Rules of a pattern; any string where it has no grammar, with a warning."""
        kept = dict(self.book.rules)
        try:
            return pattern_rule(pattern, rule_name, self.book)
        except UnsupportedError as reason:
            self.book.rules = kept
            self.warnings.append(_text(f"pattern {pattern} is not supported ({reason}), accepting any string"))
            return self.book.add(rule_name, self.book.add_primitive("string", "string"))
        except InvalidError as reason:
            self.book.rules = kept
            self.errors.append(_text(f"Invalid pattern {pattern}: {reason}"))
            return ""

    def _reference(self, ref: str) -> str:
        raw = _bytes(ref)
        name = "ref" + dashed(raw.split("#", 1)[1])
        if name not in self.book.rules and ref not in self.resolving:
            self.resolving.add(ref)
            name = self.visit(self.document.refs[ref], name)
            self.resolving.discard(ref)
        return name

    def _all_of(self, node: AllOf, name: str, rule_name: str) -> str:
        """An object of all properties, or an enum of the values that stand in every part."""
        properties: list[tuple[str, Node]] = []
        required: set[str] = set()
        values: dict[str, int] = {}
        for child in node.children:
            needed = not isinstance(child, AnyOf)
            for part in child.children if isinstance(child, AnyOf) else [child]:
                target = self._followed(part)
                if isinstance(target, Object):
                    properties += [(each, schema) for each, schema, _ in target.properties]
                    required |= {each for each, _, _ in target.properties if needed}
                elif isinstance(target, Enum) and not target.single:
                    for value in target.values:
                        values[_constant(value)] = values.get(_constant(value), 0) + 1
        common = sorted(text for text, times in values.items() if times == len(node.children))
        if common:
            return self.book.add(rule_name, f"({' | '.join(common)})")
        return self.book.add(rule_name, self._object(properties, required, name, None))

    def _followed(self, node: Node) -> Node:
        """What a chain of references comes to.

        Raises:
            Refusal: it comes back to itself, on which the reference does not return.
        """
        seen: set[str] = set()
        while isinstance(node, Ref):
            if node.ref in seen:
                raise Refusal("schema.limit", "a $ref leads back to itself", where=node.ref)
            seen.add(node.ref)
            node = self.document.refs[node.ref]
        return node

    def _object(self, properties: list[tuple[str, Node]], required: set[str], name: str, additional: Node | None) -> str:
        below = f"{name}-" if name else ""
        pairs: dict[str, str] = {}
        needed: list[str] = []
        optional: list[str] = []
        for each, schema in properties:
            raw = _bytes(each)
            value = self.visit(schema, below + raw)
            key = literal(_bytes(ordered.dump(each)))
            pairs[raw] = self.book.add(f"{below}{raw}-kv", f'{key} space ":" space {value}')
            (needed if each in required else optional).append(raw)
        if additional is not None:
            value = (
                self.book.add_primitive("value", "value")
                if type(additional) is Node
                else self.visit(additional, f"{below}additional-value")
            )
            if properties:
                key = self.book.add(f"{below}additional-k", self._other_strings([each for each, _ in properties]))
            else:
                key = self.book.add_primitive("string", "string")
            pairs["*"] = self.book.add(f"{below}additional-kv", f'{key} ":" space {value}')
            optional.append("*")
        if not needed and not optional:
            return '"{" space "}"'
        rule = '"{" space ' + ' "," space '.join([pairs[raw] for raw in needed])
        if optional:
            ways = " | ".join(self._optional_ways(optional, pairs, below))
            rule += f' ( "," space ( {ways} ) )?' if needed else f" ({ways} )?"
        return f'{rule} space "}}"'

    def _optional_ways(self, names: list[str], pairs: dict[str, str], below: str) -> list[str]:
        """For each optional property the way that begins with it; what may follow is a rule of its own."""
        rests = [""] * (len(names) + 1)
        for i in range(len(names) - 1, 0, -1):
            way = f'( "," space {pairs[names[i]]} )' + ("*" if names[i] == "*" else "?") + rests[i]
            rests[i - 1] = " " + self.book.add(f"{below}{names[i - 1]}-rest", way)
        ways = []
        for i, each in enumerate(names):
            pair = pairs[each]
            repeated = f' ( "," space {pair} )*' if each == "*" else ""
            ways.append(pair + repeated + rests[i])
        return ways

    def _other_strings(self, strings: list[str]) -> str:
        """A JSON string that is none of these. Source: _not_strings."""
        root: dict[int, Any] = {}
        for each in strings:
            at = root
            for point in map(ord, each):
                at = at.setdefault(point, {})
        char = self.book.add_primitive("char", "char")
        return f'["] ( {"".join(_others(root, char))} ){"" if "" in strings else "?"} ["]'


def _others(node: dict[int, Any], char: str) -> Iterator[str]:
    """Ways to leave a trie of strings, or to go on after the end of one."""
    rejected = ""
    for point in sorted(node):
        letter = _bytes(chr(point))
        if rejected:
            yield " | "
        rejected += letter
        yield f"[{letter}]"
        if node[point]:
            yield " ("
            yield from _others(node[point], char)
            yield ")"
        else:
            yield f" {char}+"
    if node:
        yield f' | [^"{rejected}] {char}*'


def _most(most: int) -> int | None:
    return None if most < 0 or most == _UNBOUNDED else most
