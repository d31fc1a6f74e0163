# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bodies, grammars and schemas made to explode: a real server refuses or answers them within bytes that follow their length."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.hostile_bodies import KINDS, MARGIN, Body, Gauge, bodies

from .conftest import Served

BYTES = 256 << 20
_DOUBLING = "\n".join(f"r{i} ::= r{i + 1} r{i + 1} | {chr(34) * 2}" for i in range(60)).replace("r0 ", "root ") + '\nr60 ::= "b"'
_LOOP = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{(i + k) % 4000}"} for k in (1, 7)]} for i in range(4000)}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def doubled(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"anyOf": [schema, schema]}
    return schema


GRAMMARS = {
    "groups": "root ::= " + "(" * 100_000 + '"a"' + ")" * 100_000,
    "a thousand of a thousand": 'root ::= ("a"{1000}){1000}',
    "two thousand of a hundred": 'root ::= ("a"{0,2000}){0,100}',
    "optional parts": "root ::= " + '"a"? ' * 20_000 + '"b"',
    "optional classes": "root ::= " + "[a-z]? " * 100_000,
    "alternatives": "root ::= (" + " | ".join(f'"{i}"' for i in range(20_000)) + "){3}",
    "ranges": "root ::= (" + " | ".join(f"[\\U{3 * i:08x}-\\U{3 * i + 1:08x}]" for i in range(100, 30_000)) + ")+",
    "one class": "root ::= [" + "".join(f"\\U{3 * i:08x}" for i in range(100, 60_000)) + "]+",
    "many rules": "\n".join(f"r{i} ::= r{i + 1}" for i in range(30_000)).replace("r0 ", "root ") + '\nr30000 ::= "b"',
    "doubling rules": _DOUBLING,
    "hidden left recursion": 'root ::= e root "a" | "b"\ne ::= "" | "x"',
    "left recursion far away": "\n".join(f'r{i} ::= r{i + 1} "x"' for i in range(20_000)).replace("r0 ", "root ")
    + '\nr20000 ::= root "b"',
    "masks that branch": "root ::= (.{0,50} [a-f] | .{0,49} [g-z] | .{0,48} [0-9])*",
    "any characters": "root ::= (((.? .?){40} .?){40})",
    "palindromes": "root ::= p\np ::= " + " | ".join(f'"{c}" p "{c}"' for c in "abcdefghijklmnopqrstuvwxyz") + ' | ""',
    "stars of stars": "root ::= " + "(" * 60 + '"a"' + "*)" * 60,
    "comments": 'root ::= "a"' + "\n#x" * 300_000,
    "a long literal": f'root ::= "{"a" * 399_000}"',
}
SCHEMAS: dict[str, Any] = {
    "nesting": nested(120),
    "doubling": doubled(14),
    "a huge enum": {"enum": [str(i) * 5 for i in range(19_000)]},
    "a larger enum": {"enum": list(range(100_000))},
    "items of items": {"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 1000}},
    "texts of texts": {"type": "array", "maxItems": 2000, "items": {"type": "string", "maxLength": 2000}},
    "many properties": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5000)}},
    "names within names": {"type": "object", "properties": {"p" * i: {} for i in range(1, 600)}, "additionalProperties": True},
    "one name": {"type": "object", "properties": {"a" + "!" * (i % 60) + str(i): {"enum": [i]} for i in range(4000)}},
    "a reference to itself": {"$ref": "#"},
    "references in a circle": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "references in a net": {"$ref": "#/$defs/a0", "$defs": _LOOP},
    "all of itself": {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    "a pattern of groups": {"type": "string", "pattern": "^" + "(" * 30 + "a" + "{1,30})" * 30 + "$"},
    "a pattern of repetitions": {"type": "string", "pattern": "^((a{1000}){1000}){1000}$"},
    "a pattern of pluses": {"type": "string", "pattern": "^(((((a+)+)+)+)+)+$"},
    "a pattern of choices": {"type": "string", "pattern": "^(a|a)*(a|aa)*([a-z]|[a-y])*x$"},
    "a long pattern": {"type": "string", "pattern": "^" + "[a-z]|" * 50_000 + "b$"},
    "an open pattern": {"type": "string", "pattern": "^" + "(" * 50_000 + "$"},
    "integers": {"type": "array", "prefixItems": [{"type": "integer", "minimum": i, "maximum": 10**17 + i} for i in range(2000)]},
    "types": {"type": ["string", "null", "object", "array", "number"] * 2000},
}


@pytest.fixture(scope="module")
def lone(smollm2: Path) -> Iterator[Served]:
    """A server of its own, so that nothing but these tests adds to its memory and its work."""
    server = Served(smollm2, "--ctx", "256", "--threads", "1")
    yield server
    assert server.stop() == 0, server.rows()


CASES = [("grammar", name) for name in GRAMMARS] + [("json_schema", name) for name in SCHEMAS]
# On a template the schema's rules stand among those of the template's parser.
CASES += [("response_format", name) for name in ("nesting", "a larger enum", "many properties", "a long pattern", "integers")]


def asked_for(field: str, name: str) -> dict[str, Any]:
    if field == "grammar":
        return {"prompt": "a", field: GRAMMARS[name]}
    if field == "json_schema":
        return {"prompt": "a", field: SCHEMAS[name]}
    wanted = {"type": "json_schema", "json_schema": {"schema": SCHEMAS[name]}}
    return {"messages": [{"role": "user", "content": "a"}], field: wanted}


@pytest.mark.parametrize(("field", "name"), CASES)
def test_it_is_refused_or_answered_within_its_memory(lone: Served, field: str, name: str) -> None:
    body = json.dumps({"n_predict": 3, "temperature": 0, **asked_for(field, name)}).encode()
    gauge = Gauge(lone.process.pid)
    held = gauge.resident()
    gauge.begin_peak()
    answer = lone.post("/v1/chat/completions" if field == "response_format" else "/completion", body)
    assert gauge.peak() - held < BYTES
    if answer.status_code != 200:
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
    else:
        assert answer.json()["timings"]["predicted_n"] >= 1


@pytest.mark.parametrize("body", bodies(20261201, len(KINDS), sizes=(1 << 16, 1 << 18, 1 << 20)), ids=lambda body: body.kind)
def test_a_body_costs_memory_in_proportion_to_its_length(lone: Served, body: Body) -> None:
    gauge = Gauge(lone.process.pid)
    held = gauge.resident()
    gauge.begin_peak()
    answer = lone.post(body.route, body.data)
    assert gauge.peak() - held < 3 * len(body.data) + MARGIN
    assert answer.status_code in (200, 400, 413, 500, 501)
    assert "internal error" not in answer.text[:1000]
    if answer.status_code != 200:
        assert len(answer.content) < 10_000
    assert lone.get("/health").status_code == 200


def test_the_largest_bodies_leave_no_memory_behind(lone: Served) -> None:
    gauge = Gauge(lone.process.pid)
    body = b'{"messages":[{"role":"user","content":"x"}],"metadata":[' + b'{"a":[]},' * (1 << 20)
    lone.post("/v1/chat/completions", body)
    held = gauge.resident()
    for _ in range(4):
        assert lone.post("/v1/chat/completions", body).status_code == 413
    assert gauge.resident() - held < 16 << 20
