# SPDX-License-Identifier: MIT OR Apache-2.0
"""Grammars and schemas made to explode: a real server refuses or answers them within a second of its work and 256 MiB, and
answers another client meanwhile.
"""  # fmt: skip

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from .conftest import Served

SECONDS = 1.0
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


class Gauge:
    """Work and memory of a server process, from /proc."""

    def __init__(self, pid: int) -> None:
        self._at = Path(f"/proc/{pid}")

    def seconds(self) -> float:
        after = self._at.joinpath("stat").read_text().rpartition(")")[2].split()
        return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> int:
        return self._status("VmRSS")

    def peak(self) -> int:
        return self._status("VmHWM")

    def begin_peak(self) -> None:
        """The peak is from here on."""
        self._at.joinpath("clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        lines = self._at.joinpath("status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


class Neighbour(threading.Thread):
    """Another client, that asks for tokens all the time; knows the longest wait."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self._stop_asking = threading.Event()
        self.longest = 0.0
        self.answers = 0

    def run(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            while not self._stop_asking.is_set():
                start = time.monotonic()
                answer = session.post(self._base + "/tokenize", json={"content": "a b c"}, timeout=60)
                assert len(answer.json()["tokens"]) == 3
                self.longest = max(self.longest, time.monotonic() - start)
                self.answers += 1
                time.sleep(0.01)

    def __enter__(self) -> Neighbour:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_asking.set()
        self.join()


@pytest.fixture(scope="module")
def lone(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
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
def test_it_is_refused_or_answered_soon(lone: Served, field: str, name: str) -> None:
    body = json.dumps({"n_predict": 3, "temperature": 0, **asked_for(field, name)}).encode()
    gauge = Gauge(lone.process.pid)
    held = gauge.resident()
    gauge.begin_peak()
    with Neighbour(lone.base) as neighbour:
        time.sleep(0.05)
        before, asked = gauge.seconds(), neighbour.answers
        answer = lone.post("/v1/chat/completions" if field == "response_format" else "/completion", body)
        spent, meanwhile = gauge.seconds() - before, neighbour.answers - asked
    # Answering the neighbour takes the server about a millisecond each time.
    assert spent - 0.002 * meanwhile < SECONDS
    assert gauge.peak() - held < BYTES
    assert neighbour.longest < 10
    if answer.status_code != 200:
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
    else:
        assert answer.json()["timings"]["predicted_n"] >= 1


def test_the_first_request_finds_everything_compiled(smollm2: Path, tmp_path: Path) -> None:
    server = Served(smollm2, "--ctx", "256", "--threads", "1")
    try:
        gauge = Gauge(server.process.pid)
        asked = {"prompt": "a", "n_predict": 2, "temperature": 0, "n_probs": 3}
        before = gauge.seconds()
        assert server.post("/completion", {**asked, "json_schema": {"enum": ["red", "blue"]}}).status_code == 200
        assert gauge.seconds() - before < SECONDS
    finally:
        assert server.stop() == 0
