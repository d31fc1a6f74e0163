# SPDX-License-Identifier: MIT OR Apache-2.0
"""A JSON schema as nodes: what of it the reference reads, in its order of precedence, and its refusals with their paths.

Source: common_chat_schema_builder, common/json-schema.cpp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from bankml.core.constrain.integers import HIGHEST, LOWEST
from bankml.refusal import Refusal

MAX_NODES: Final = 20_000
PREFIX: Final = "JSON schema conversion failed:\n"


@dataclass
class Node:
    """Any value."""


@dataclass
class Plain(Node):
    """``null``, ``boolean`` or ``number``."""

    type: str


@dataclass
class Ref(Node):
    """A reference into the document."""

    ref: str


@dataclass
class AnyOf(Node):
    """One of several: oneOf, anyOf, or a list of types."""

    children: list[Node]


@dataclass
class AllOf(Node):
    """All of several."""

    children: list[Node]


@dataclass
class Enum(Node):
    """One of these values; ``single`` for const."""

    values: list[Any]
    single: bool = False


@dataclass
class Integer(Node):
    """Inclusive bounds."""

    low: int = LOWEST
    high: int = HIGHEST


@dataclass
class String(Node):
    """``most`` is -1 where there is no bound; ``format`` is uuid, date, time, date-time or empty."""

    pattern: str = ""
    format: str = ""
    least: int = 0
    most: int = -1


@dataclass
class Array(Node):
    """Items of one schema."""

    items: Node
    least: int = 0
    most: int = -1


@dataclass
class Tuple(Node):
    """One schema for each item."""

    items: list[Node]


@dataclass
class Object(Node):
    """Properties (name, schema, required) in their order; ``additional`` is None where no others are allowed."""

    properties: list[tuple[str, Node, bool]]
    additional: Node | None = None


@dataclass
class Document:
    """A schema and the targets of its references."""

    root: Node = field(default_factory=Node)
    refs: dict[str, Node] = field(default_factory=dict)


def read_document(schema: Any) -> Document:
    """The nodes of a schema.

    Raises:
        Refusal: ``schema.unsupported`` with the reference's message and path, or ``schema.limit``.
    """
    try:
        return _Builder(schema).build()
    except RecursionError:
        raise Refusal("schema.limit", "the schema is nested too deeply") from None


def fail(path: str, message: str) -> NoReturn:
    """Refuse a schema at a path, in the reference's words."""
    raise Refusal("schema.unsupported", f"{PREFIX}JSON schema error at {path}: {message}", where=path)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _signed(value: int, bits: int) -> int:
    """The number cut to these bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _is_true(value: Any) -> bool:
    return value is True


class _Builder:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.refs: dict[str, Node | None] = {}
        self.nodes = 0

    def build(self) -> Document:
        root = self.node(self.root, "#")
        return Document(root, {ref: node for ref, node in self.refs.items() if node is not None})

    def node(self, schema: Any, path: str) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise Refusal("schema.limit", "the schema has too many parts", allowed=f"at most {MAX_NODES}")
        if not isinstance(schema, dict):
            fail(path, "schema must be an object")
        if "$ref" in schema:
            return self._ref(schema["$ref"], path)
        for key in ("oneOf", "anyOf"):
            if key in schema:
                return AnyOf(self._alternatives(schema[key], f"{path}/{key}"))
        kind = schema.get("type")
        if isinstance(kind, list):
            if not kind:
                fail(path, "type must not be empty")
            return AnyOf([self.node({**schema, "type": each}, f"{path}/type/{i}") for i, each in enumerate(kind)])
        if "const" in schema:
            return Enum([schema["const"]], single=True)
        if "enum" in schema:
            if not isinstance(schema["enum"], list) or not schema["enum"]:
                fail(path, "enum must be a non-empty array")
            return Enum(schema["enum"])
        if kind is not None and not isinstance(kind, str):
            fail(path, "type must be a string or an array of strings")
        return self._typed(kind, schema, path) if kind else self._untyped(schema, path)

    def _typed(self, kind: str, schema: dict[str, Any], path: str) -> Node:
        if kind == "object":
            all_of = "allOf" in schema and not _has_properties(schema)
            return AllOf(self._alternatives(schema["allOf"], f"{path}/allOf")) if all_of else self._object(schema, path)
        if kind == "string":
            if "allOf" in schema:
                return AllOf(self._alternatives(schema["allOf"], f"{path}/allOf"))
            return _string(schema, path)
        if kind == "array":
            return self._array(schema, path)
        if kind == "integer":
            return _integer(schema, path)
        if kind in ("number", "boolean", "null"):
            return Plain(kind)
        fail(path, f"unrecognized type {kind}")

    def _untyped(self, schema: dict[str, Any], path: str) -> Node:
        """Without a type the keywords decide."""
        if _has_properties(schema):
            return self._object(schema, path)
        if "allOf" in schema:
            return AllOf(self._alternatives(schema["allOf"], f"{path}/allOf"))
        if "items" in schema or "prefixItems" in schema:
            return self._array(schema, path)
        if any(key in schema for key in ("pattern", "minLength", "maxLength")) or _format(schema, path):
            return _string(schema, path)
        return Node()

    def _ref(self, ref: Any, path: str) -> Node:
        if not isinstance(ref, str):
            fail(path, "$ref must be a string")
        if not ref.startswith("#/"):
            fail(path, f"unsupported $ref {ref}, only references into the same document are supported")
        if ref not in self.refs:
            # A cycle back to this reference stops here.
            self.refs[ref] = None
            self.refs[ref] = self.node(self._target(ref, path), ref)
        return Ref(ref)

    def _target(self, ref: str, path: str) -> Any:
        target = self.root
        for part in ref.split("/")[1:]:
            if isinstance(target, dict) and part in target:
                target = target[part]
            elif isinstance(target, list):
                index = _index(part)
                if index is None or index >= len(target):
                    fail(path, f"cannot resolve $ref {ref}, {part} is out of range")
                target = target[index]
            else:
                fail(path, f"cannot resolve $ref {ref}, {part} not found")
        return target

    def _alternatives(self, schemas: Any, path: str) -> list[Node]:
        if not isinstance(schemas, list):
            fail(path, "must be an array of schemas")
        if not schemas:
            fail(path, "must not be empty")
        return [self.node(each, f"{path}/{i}") for i, each in enumerate(schemas)]

    def _object(self, schema: dict[str, Any], path: str) -> Node:
        listed = schema.get("required")
        required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
        properties: list[tuple[str, Node, bool]] = []
        if "properties" in schema:
            if not isinstance(schema["properties"], dict):
                fail(path, "properties must be an object")
            for name, each in schema["properties"].items():
                properties.append((name, self.node(each, f"{path}/properties/{name}"), name in required))
        additional: Node | None = None
        if "additionalProperties" in schema:
            given = schema["additionalProperties"]
            if isinstance(given, dict):
                additional = self.node(given, f"{path}/additionalProperties")
            elif not isinstance(given, bool):
                fail(path, "additionalProperties must be a boolean or a schema")
            elif given:
                additional = Node()
        elif "properties" not in schema:
            additional = Node()
        return Object(properties, additional)

    def _array(self, schema: dict[str, Any], path: str) -> Node:
        items: Node = Node()
        for key in ("items", "prefixItems"):
            if key in schema:
                if isinstance(schema[key], list):
                    return Tuple([self.node(each, f"{path}/{key}/{i}") for i, each in enumerate(schema[key])])
                items = self.node(schema[key], f"{path}/{key}")
                break
        return Array(items, _count(schema, "minItems", path, 0), _count(schema, "maxItems", path, -1))


def _has_properties(schema: dict[str, Any]) -> bool:
    return "properties" in schema or not _is_true(schema.get("additionalProperties", True))


def _string(schema: dict[str, Any], path: str) -> Node:
    pattern = schema.get("pattern", "")
    if not isinstance(pattern, str):
        fail(path, "pattern must be a string")
    named = _format(schema, path)
    return String(pattern, named, _count(schema, "minLength", path, 0), _count(schema, "maxLength", path, -1))


def _format(schema: dict[str, Any], path: str) -> str:
    if "format" not in schema:
        return ""
    value = schema["format"]
    if not isinstance(value, str):
        fail(path, "format must be a string")
    if value in ("uuid", "uuid1", "uuid2", "uuid3", "uuid4", "uuid5"):
        return "uuid"
    return value if value in ("date", "time", "date-time") else ""


def _count(schema: dict[str, Any], key: str, path: str, default: int) -> int:
    if key not in schema:
        return default
    value = schema[key]
    if not _is_integer(value) or _signed(value, 32) < 0:
        fail(path, f"{key} must be a non-negative integer")
    return _signed(value, 32)


def _integer(schema: dict[str, Any], path: str) -> Node:
    """Bounds as whole numbers: a fractional one is rounded to those that it still admits."""
    low, high = LOWEST, HIGHEST
    if "minimum" in schema:
        low = _bound(schema, "minimum", path, True)
    elif "exclusiveMinimum" in schema:
        low = _signed(_bound(schema, "exclusiveMinimum", path, False) + 1, 64)
    if "maximum" in schema:
        high = _bound(schema, "maximum", path, False)
    elif "exclusiveMaximum" in schema:
        high = _signed(_bound(schema, "exclusiveMaximum", path, True) - 1, 64)
    return Integer(low, high)


def _bound(schema: dict[str, Any], key: str, path: str, up: bool) -> int:
    value = schema[key]
    if _is_integer(value):
        return _signed(value, 64)
    if not isinstance(value, float):
        fail(path, f"{key} must be a number")
    whole = math.ceil(value) if up else math.floor(value)
    # What the processor makes of a double that no 64-bit integer holds.
    return whole if LOWEST <= whole <= HIGHEST else LOWEST


def _index(text: str) -> int | None:
    """What ``std::stoull`` reads; None where it reads nothing or too much."""
    text = text.lstrip(" \t\n\v\f\r")
    negative = text.startswith("-")
    digits = text[1:] if text[:1] in ("-", "+") else text
    size = next((i for i, c in enumerate(digits) if c not in "0123456789"), len(digits))
    if size == 0 or size > 4000 or int(digits[:size]) >= 1 << 64:
        return None
    value = int(digits[:size])
    return -value % (1 << 64) if negative else value
