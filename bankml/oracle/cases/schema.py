# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON schemas: written ones for each keyword and each refusal, the shapes that Pydantic prints, and drawn ones."""

from __future__ import annotations

import json
import random
from typing import Any, Final

WRITTEN: Final = (
    "{}",
    '{"type": "object"}',
    '{"type": "object", "additionalProperties": true}',
    '{"type": "object", "additionalProperties": false}',
    '{"type": "object", "properties": {}}',
    '{"type": "object", "properties": {}, "additionalProperties": {"type": "null"}}',
    '{"additionalProperties": {"type": "integer", "minimum": -3}}',
    '{"type": "array"}',
    '{"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4}',
    '{"items": {"enum": ["n", 1, 1.0, 1e2, -0.0, 1e400]}}',
    '{"items": {"enum": ["n", 1, 1.0, 1e2, -0.0, 1e22, 1e-5, 0.0001, 123456789012345680, 1234567890123456.5, 0.1]}}',
    '{"enum": [18446744073709551615, 18446744073709551616, -9223372036854775808, -9223372036854775809, -0, 1E5, 5e-324]}',
    '{"enum": ["\\u00e9\\n\\t\\u0001\\u007f\\"\\\\/", "\\ud83d\\ude00", null, true, [], {}, {"b": [1, {"a": 2}], "a": 0}]}',
    '{"const": {"z": 1, "a": [1.5, "x"], "z": 2}}',
    '{"const": "line\\nbreak \\"quoted\\""}',
    '{"prefixItems": [{"type": "string"}, {"type": "boolean"}]}',
    '{"type": "array", "items": [{"type": "integer"}, {"const": 3}], "minItems": 9}',
    '{"type": "array", "items": []}',
    '{"type": "array", "prefixItems": {"type": "null"}, "maxItems": 1}',
    '{"type": "array", "maxItems": 0}',
    '{"type": "array", "items": {"type": "null"}, "maxItems": 0}',
    '{"type": "array", "minItems": 1}',
    '{"type": "string", "minLength": 3}',
    '{"type": "string", "maxLength": 0}',
    '{"type": "string", "minLength": 1, "maxLength": 4294967297}',
    '{"type": "string", "maxLength": 2147483647}',
    '{"maxLength": 5}',
    '{"format": "date"}',
    '{"type": "string", "format": "time", "minLength": 3}',
    '{"type": "string", "format": "date-time"}',
    '{"type": "string", "format": "uuid"}',
    '{"type": "object", "properties": {"id": {"format": "uuid4"}, "mail": {"type": "string", "format": "email"}}}',
    '{"type": "string", "pattern": ""}',
    '{"type": ["string", "null", "integer"], "minimum": 4, "maxLength": 2}',
    '{"type": ["object", ["array", "null"]], "properties": {"a": {"type": "number"}}}',
    '{"type": "number", "minimum": 3}',
    '{"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}',
    '{"type": "integer", "minimum": -12.5, "maximum": 7.2}',
    '{"type": "integer", "exclusiveMinimum": 0.5, "exclusiveMaximum": 9.5}',
    '{"type": "integer", "minimum": 1e30}',
    '{"type": "integer", "maximum": 18446744073709551615}',
    '{"type": "integer", "exclusiveMinimum": 9223372036854775807}',
    '{"type": "integer", "exclusiveMaximum": -9223372036854775808}',
    '{"type": "integer", "minimum": 50, "maximum": 3}',
    '{"type": "integer", "minimum": 3, "maximum": 50, "enum": [1, 2]}',
    '{"oneOf": [{"type": "boolean"}, {"anyOf": [{"const": 1}, {"const": "1"}]}], "type": "never read"}',
    '{"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "null"}}}]}',
    '{"type": "object", "allOf": [{"properties": {"a": {"const": 1}}}, {"anyOf": [{"properties": {"b": {}}}, {"$ref":'
    ' "#/$defs/c"}]}],'
    ' "$defs": {"c": {"type": "object", "properties": {"c": {"type": "integer"}, "a": {"const": 2}}}}}',
    '{"allOf": [{"enum": ["b", "a", "c"]}, {"enum": ["c", "b"]}]}',
    '{"allOf": [{"enum": ["a"]}, {"enum": ["b"]}]}',
    '{"type": "string", "allOf": [{"enum": ["a", "b"]}, {"anyOf": [{"enum": ["b"]}, {"const": "a"}]}]}',
    '{"properties": {"root": {"type": "string"}, "value": {"const": 1}, "space": {"type": "null"}, "a b": {}, "a-b":'
    ' {"const": 2},'
    ' "a_b": {"const": 3}, "": {"type": "boolean"}}, "required": ["value", "a b", "missing", 5]}',
    '{"properties": {"*": {"const": 1}, "x": {"const": 2}, "y": {"const": 3}}, "additionalProperties": {"const": 4}}',
    '{"properties": {"and": {}, "also": {}, "an": {}, "\\u00e9t\\u00e9": {}, "\\ud83d\\ude00": {}},'
    ' "additionalProperties": true}',
    '{"properties": {"": {}}, "additionalProperties": true}',
    '{"properties": {"a]": {}, "a\\"": {}, "^": {}}, "additionalProperties": true, "required": ["^"]}',
    '{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"], "additionalProperties":'
    ' {"type": "string"}}',
    '{"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "integer"}},'
    ' "required": ["v"]}}}',
    '{"anyOf": [{"$ref": "#/d/0"}, {"$ref": "#/d/1/x y"}], "d": [{"type": "null"}, {"x y": {"$ref": "#/d/0"}}]}',
    '{"properties": {"a": {"$ref": "#/d/ 1z"}}, "d": [0, {"type": "null"}]}',
    '{"properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}}',
    '{"properties": {"a": {"properties": {"b": {"properties": {"c": {"enum": [1]}}, "required": ["c"]}}}, "a-b": {"const": 0}}}',
    '{"type": "", "format": "date-time"}',
    '{"type": null, "items": {"type": "number"}}',
    '{"description": "anything", "title": "T", "default": 1, "examples": [1]}',
    # what is refused
    "[]",
    '"text"',
    "true",
    '{"type": "float"}',
    '{"type": 5}',
    '{"type": {}}',
    '{"type": []}',
    '{"type": ["string", "text"]}',
    '{"type": [["null"], 5]}',
    '{"enum": []}',
    '{"enum": "a"}',
    '{"enum": {}}',
    '{"oneOf": []}',
    '{"anyOf": {}}',
    '{"allOf": 3}',
    '{"oneOf": [{"type": "null"}, 5]}',
    '{"properties": []}',
    '{"properties": {"a": {"properties": {"b/c": {"type": "what"}}}}}',
    '{"properties": {"a": true}}',
    '{"additionalProperties": null}',
    '{"additionalProperties": "no"}',
    '{"additionalProperties": {"enum": []}}',
    '{"items": true}',
    '{"items": [{"type": "null"}, null]}',
    '{"prefixItems": [{"type": "nil"}]}',
    '{"type": "array", "minItems": -1}',
    '{"type": "array", "maxItems": 1.0}',
    '{"type": "array", "maxItems": 2147483648}',
    '{"type": "array", "minItems": "2"}',
    '{"type": "string", "minLength": true}',
    '{"type": "string", "pattern": 5}',
    '{"type": "string", "format": []}',
    '{"format": 1}',
    '{"type": "integer", "minimum": "1"}',
    '{"type": "integer", "exclusiveMaximum": null}',
    '{"$ref": 5}',
    '{"$ref": "https://example.com/x.json"}',
    '{"$ref": "#"}',
    '{"$ref": "other.json#/a"}',
    '{"$ref": "#/nowhere"}',
    '{"$ref": "#/a/3", "a": [1, 2]}',
    '{"$ref": "#/a/x", "a": [{}]}',
    '{"$ref": "#/a/-1", "a": [{}]}',
    '{"$ref": "#/a/b", "a": 5}',
    '{"$ref": "#/a/99999999999999999999999", "a": [{}]}',
    '{"properties": {"p": {"type": "string", "pattern": "^(a$"}, "q": {"pattern": "^a)$"}, "r": {"pattern": "^*$"}}}',
)

PATTERNS: Final = (
    "^abc$",
    "^$",
    "^a$|^b$",
    "abc",
    "^abc",
    "^a.c$",
    "^[a-z]+$",
    "^[^a-z]{2,3}$",
    "^(ab|cd)*e?$",
    "^(?:ab){2}$",
    "^(?<n>a)$",
    "^(?=a)$",
    "^\\d+$",
    "^\\\\d$",
    "^a\\.b\\$\\^$",
    "^\\x41\\u0042\\t\\n$",
    "^\\x4$",
    '^"quoted"$',
    "^[\\]\\-\\\\]$",
    "^[\\d]$",
    "^[a",
    "^[a$",
    "^a{3}$",
    "^a{,3}$",
    "^a{2,}$",
    "^a{0,1}$",
    "^a{0}$",
    "^a{}$",
    "^a{1,2,3}$",
    "^a{x}$",
    "^a{ 4}$",
    "^a{2x}$",
    "^a{-1}$",
    "^a{99999999999}$",
    "^a{2147483647}$",
    "^a{2$",
    "^{2}$",
    "^+a$",
    "^(|a)$",
    "^()$",
    "^(a|)+$",
    "^a]b}$",
    "^]$",
    "^a|b|c$",
    "^ab+c*d?ef{2}g$",
    "^(a{2}){3}(a{2}){4}$",
    "^[a-z]{2}[a-z]{2}[0-9]{3}$",
    "^é+ü$",
    "^[à-ÿ]{2}日本$",
    "^a\\$",
    "^a^b$",
    "^a$b$",
    "^((((a))))$",
    "^" + "(" * 100 + "a" + ")" * 100 + "$",
    "^" + "(" * 101 + "a" + ")" * 101 + "$",
    "^(a$",
    "^a)$",
    "^(a))$",
    "^a**$",
    "^.{3}.+$",
    "^(.|\\n)$",
    "^\\(?[0-9]{3}\\)?-[0-9]{4}$",
    "^[A-Z]{2,4}(-[0-9]{1,3})?(\\.[a-f0-9]+)*$",
)

PYDANTIC: Final = (
    '{"$defs": {"Color": {"enum": ["red", "green"], "title": "Color", "type": "string"}, "Point": {"properties":'
    ' {"x": {"title": "X",'
    ' "type": "number"}, "y": {"default": 0.0, "title": "Y", "type": "number"}}, "required": ["x"], "title": "Point", "type":'
    ' "object"}}, "properties": {"name": {"maxLength": 20, "minLength": 1, "title": "Name", "type": "string"},'
    ' "color": {"$ref":'
    ' "#/$defs/Color"}, "points": {"items": {"$ref": "#/$defs/Point"}, "maxItems": 3, "title": "Points", "type":'
    ' "array"}, "note":'
    ' {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "Note"}}, "required": ["name",'
    ' "color", "points"],'
    ' "title": "Drawing", "type": "object"}',
    '{"$defs": {"Tree": {"properties": {"value": {"exclusiveMinimum": 0, "title": "Value", "type": "integer"},'
    ' "left": {"anyOf":'
    ' [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": null}, "right": {"anyOf": [{"$ref": "#/$defs/Tree"},'
    ' {"type": "null"}],'
    ' "default": null}}, "required": ["value"], "title": "Tree", "type": "object"}}, "$ref": "#/$defs/Tree"}',
    '{"additionalProperties": false, "properties": {"when": {"format": "date-time", "title": "When", "type":'
    ' "string"}, "day": {"format":'
    ' "date", "type": "string"}, "id": {"format": "uuid", "title": "Id", "type": "string"}, "tags":'
    ' {"additionalProperties": {"type":'
    ' "integer"}, "title": "Tags", "type": "object"}, "pair": {"maxItems": 2, "minItems": 2, "prefixItems": [{"type":'
    ' "integer"},'
    ' {"type": "string"}], "title": "Pair", "type": "array"}}, "required": ["when", "id"], "title": "Event", "type": "object"}',
    '{"$defs": {"Cat": {"properties": {"kind": {"const": "cat", "title": "Kind", "type": "string"}, "lives":'
    ' {"maximum": 9, "minimum": 1,'
    ' "type": "integer"}}, "required": ["kind", "lives"], "type": "object"}, "Dog": {"properties": {"kind": {"const":'
    ' "dog", "type":'
    ' "string"}, "good": {"default": true, "type": "boolean"}}, "required": ["kind"], "type": "object"}}, "properties": {"pet":'
    ' {"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"}, "oneOf": [{"$ref":'
    ' "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "title": "Pet"}, "phone": {"pattern": "^\\\\+[0-9]{1,3}'
    ' [0-9]{4,10}$", "type": "string"},'
    ' "score": {"anyOf": [{"maximum": 1, "minimum": 0, "type": "number"}, {"type": "null"}]}}, "required": ["pet"],'
    ' "type": "object"}',
)

_NAMES: Final = ("a", "b", "a-b", "ab", "item", "root", "value", "", "ä", "*", "kv", "x y", "0", "date", "abc")
_BOUNDS: Final = (-100, -10, -1, 0, 1, 7, 9, 10, 99, 100, 101, 12345, -98765, 1.5, -0.5, 2**40, -(2**63), 2**63 - 1, "3", None)
_VALUES: Final = ("a", "b", 1, 1.5, -3, True, None, [1, "x"], {"k": [2]}, 'q"\n', 1e16, 0.00001, "é")
_COUNTS: Final = (0, 1, 2, 3, 7, 300)


def schemas(drawn: int) -> list[str]:
    """All schemas as JSON texts."""
    written = [*WRITTEN, *PYDANTIC, *[json.dumps({"type": "string", "pattern": each}, ensure_ascii=False) for each in PATTERNS]]
    ranges = [
        json.dumps({"type": "integer", "minimum": low, "maximum": high})
        for low in (-1234, -99, -10, -9, -1, 0, 5, 10, 100, 1095)
        for high in (-100, -10, -5, 0, 3, 9, 10, 11, 99, 109, 999, 2000, 40404)
    ]
    ranges += [
        json.dumps({"type": "integer", key: each}) for key in ("minimum", "maximum") for each in (*range(-31, 32), 4711, -4711)
    ]
    return written + ranges + [json.dumps(_Draw(i).schema(3), ensure_ascii=i % 2 == 0) for i in range(drawn)]


class _Draw:
    """Schemas from a stream that is the same everywhere."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret

    def schema(self, depth: int) -> dict[str, Any]:
        pick = self.random.choice
        kind = pick(("object", "object", "array", "string", "integer", "enum", "union", "all", "ref", "plain", "list"))
        made: dict[str, Any] = getattr(self, f"_{kind}")(max(depth, 0)) if depth > 0 or kind in _FLAT else {"type": "null"}
        if depth == 3:
            made["$defs"] = {name: self.schema(1) for name in ("A", "B")}
            if self.random.random() < 0.03:
                made["type"] = pick(("text", 5, [], ["null", "integer"]))
        return made

    def _object(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(_NAMES, self.random.randrange(5))
        made: dict[str, Any] = {"properties": {name: self.schema(depth - 1) for name in names}}
        if self.random.random() < 0.7:
            made["type"] = "object"
        if self.random.random() < 0.6:
            made["required"] = [name for name in names if self.random.random() < 0.5]
        if self.random.random() < 0.5:
            made["additionalProperties"] = self.random.choice((True, False, self.schema(depth - 1)))
        return made

    def _array(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "array", self.random.choice(("items", "items", "prefixItems")): self.schema(depth - 1)}
        for key in ("minItems", "maxItems"):
            if self.random.random() < 0.4:
                made[key] = self.random.choice(_COUNTS)
        return made

    def _list(self, depth: int) -> dict[str, Any]:
        key = self.random.choice(("items", "prefixItems"))
        return {key: [self.schema(depth - 1) for _ in range(self.random.randrange(4))]}

    def _string(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "string"}
        roll = self.random.random()
        if roll < 0.3:
            made["pattern"] = self.random.choice(PATTERNS)
        elif roll < 0.5:
            made["format"] = self.random.choice(("date", "time", "date-time", "uuid", "uuid3", "uri"))
        elif roll < 0.8:
            made[self.random.choice(("minLength", "maxLength"))] = self.random.choice(_COUNTS)
        return made

    def _integer(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "integer"}
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if self.random.random() < 0.35:
                made[key] = self.random.choice(_BOUNDS[:-2] if self.random.random() < 0.97 else _BOUNDS)
        return made

    def _enum(self, depth: int) -> dict[str, Any]:
        if self.random.random() < 0.3:
            return {"const": self.random.choice(_VALUES)}
        return {"enum": [self.random.choice(_VALUES) for _ in range(1 + self.random.randrange(4))]}

    def _union(self, depth: int) -> dict[str, Any]:
        return {self.random.choice(("oneOf", "anyOf")): [self.schema(depth - 1) for _ in range(1 + self.random.randrange(3))]}

    def _all(self, depth: int) -> dict[str, Any]:
        parts = [
            self.random.choice((self._object, self._enum, self._union))(depth - 1) for _ in range(1 + self.random.randrange(3))
        ]
        return {"allOf": parts}

    def _ref(self, depth: int) -> dict[str, Any]:
        return {"$ref": self.random.choice(("#/$defs/A", "#/$defs/B", "#/$defs/A", "#/$defs/B", "#/$defs/C"))}

    def _plain(self, depth: int) -> dict[str, Any]:
        kinds = ("null", "boolean", "number", "object", "array", "string")
        return {"type": self.random.choice(kinds)} if self.random.random() < 0.8 else {"type": self.random.sample(kinds, 2)}


_FLAT: Final = frozenset({"string", "integer", "enum", "ref", "plain"})
