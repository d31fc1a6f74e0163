#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sends bodies made to cost more than their length to a server of its own, and measures what they cost everybody else.

    hostile_bodies.py [--seed 1] [--count 300] [--only KIND,...] [--json FILE]

The server must answer each of them, take less memory than three times the body and 100 MB, and answer GET /health
meanwhile. What it keeps of right prompts does not count: the context is filled first, and the host's prompt cache is off.
A row for each body says how long the slowest /health took; the exit code counts memory and answers alone, for
those do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZES = (1 << 16, 1 << 18, 1 << 20, 4 << 20, 16 << 20)
MARGIN = 100_000_000
CTX = 4096
_LOOKS = 10
CHAT, TEXT, TEMPLATE = "/v1/chat/completions", "/completion", "/apply-template"
CHATS, TEXTS = (CHAT, TEMPLATE), (TEXT, "/v1/completions")
ANY = ("/tokenize", "/detokenize", *CHATS, *TEXTS)

Inside = Callable[[random.Random, int], bytes]


@dataclass(frozen=True)
class Kind:
    """What is much about a body: what stands before it and behind it, and where such a body may go."""

    routes: tuple[str, ...]
    before: bytes
    inside: Inside
    after: bytes

    def make(self, rng: random.Random, size: int) -> bytes:
        """A body of about this size."""
        return self.before + self.inside(rng, size - len(self.before) - len(self.after)) + self.after


@dataclass(frozen=True)
class Body:
    """One request.

    Attributes:
        kind: what is wrong or much about it.
        route: where it goes.
        data: its bytes.
    """

    kind: str
    route: str
    data: bytes


def one_of(*units: bytes) -> Inside:
    """One of the units, again and again."""

    def inside(rng: random.Random, size: int) -> bytes:
        unit = rng.choice(units)
        return unit * max(1, size // len(unit))

    return inside


def many(*formats: bytes) -> Inside:
    """Items with commas between, each of one of the formats, numbered where it has a place for a number."""

    def inside(rng: random.Random, size: int) -> bytes:
        form = rng.choice(formats)
        numbered = b"%" in form
        length = len(form % 123456 if numbered else form) + 1
        return b",".join([form % i if numbered else form for i in range(max(1, size // length))])

    return inside


def chat(before: bytes, inside: Inside, after: bytes, routes: tuple[str, ...] = CHATS) -> Kind:
    """A chat with a member more."""
    return Kind(routes, b'{"max_tokens":1,"messages":[{"role":"user","content":"x"}],' + before, inside, after + b"}")


def text(before: bytes, inside: Inside, after: bytes) -> Kind:
    """A text to continue, with a member more."""
    return Kind(TEXTS, b'{"n_predict":2,"prompt":"a",' + before, inside, after + b"}")


def schema(before: bytes, inside: Inside, after: bytes) -> Kind:
    """A text to continue under a schema."""
    return text(b'"json_schema":' + before, inside, after)


def _nested(rng: random.Random, size: int) -> bytes:
    return (b'{"type":"object","properties":{"' + b"q" * (size // 60 - 35) + b'":') * 60 + b"{}" + b"}}" * 60


def _wide_below_long(rng: random.Random, size: int) -> bytes:
    inner = many(b'"p%d":{"type":"null"}')(rng, size // 2)
    return b'"' + b"q" * (size // 2) + b'":{"type":"object","properties":{' + inner + b"}}"


LETTERS = one_of(
    b"a", b"hello ", b"\xc3\xa9", b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b" ", b"1", b"\\n", b"\\u00e9", b'\\"', b"<|im_end|>"
)  # fmt: skip
OBJECT = b'{"type":"object","properties":{'
DEEP = b"[" * 120

KINDS = {
    "an unclosed string": Kind(ANY, b'{"messages":"', one_of(b'\\"', b"a", b"\\\\", b'["', b"\xc3\xa9"), b""),
    "an unclosed string with brackets": Kind(ANY, b'"', one_of(b'\\"'), b"[" * 129),
    "many unclosed strings": Kind(ANY, b"", one_of(b'"\\"'), b"{" * 200),
    "depth": Kind(ANY, b"", one_of(b"[", b'{"a":', b'[{"":'), b""),
    "depth in a member": chat(b'"metadata":' + DEEP, many(b"1"), b"]" * 120, ANY),
    "white space": Kind(ANY, b"", one_of(b" ", b"\n", b"\t"), b"{}"),
    "a long name": Kind(ANY, b'{"', one_of(b"q", b"\xe2\x82\xac"), b'":1}'),
    "many names": Kind(ANY, b"{", many(b'"m%d":1', b'"m%d":{}', b'"m%d":""'), b"}"),
    "names of a message": Kind(CHATS, b'{"messages":[{"role":"user","content":"x",', many(b'"m%d":1'), b"}]}"),
    "many messages": Kind(CHATS, b'{"messages":[', many(b'{"role":"user","content":"x"}'), b"]}"),
    "a huge number": chat(b'"temperature":', one_of(b"9"), b""),
    "a long fraction": chat(b'"temperature":0.', one_of(b"1"), b""),
    "a huge exponent": chat(b'"temperature":-1e', one_of(b"9"), b""),
    "many numbers": chat(b'"metadata":[', many(b"1", b"1.5", b"%d", b"-1e5", b"1e400"), b"]"),
    "many values": chat(b'"metadata":[', many(b"[]", b"{}", b'""', b"true", b"null"), b"]"),
    "many prompts": Kind(TEXTS, b'{"n_predict":1,"prompt":[', many(b"[1]", b'"a"'), b"]}"),
    "a prompt of numbers": Kind(TEXTS, b'{"n_predict":1,"prompt":[', many(b"7", b"%d"), b"]}"),
    "a long prompt": Kind(TEXTS, b'{"n_predict":1,"prompt":"', LETTERS, b'"}'),
    "a long message": Kind(CHATS, b'{"max_tokens":1,"messages":[{"role":"user","content":"', LETTERS, b'"}]}'),
    "tools": chat(b'"tools":' + DEEP, many(b"1"), b"]" * 120),
    "stops": chat(b'"stop":[', many(b'"s%d"'), b"]"),
    "a long stop": text(b'"stop":"', one_of(b"s"), b'"'),
    "samplers": text(b'"samplers":[', many(b'"top_k"'), b"]"),
    "samplers as letters": text(b'"samplers":"', one_of(b"kpt"), b'"'),
    "biases": text(b'"logit_bias":[', many(b"[%d,1]", b"[7,false]"), b"]"),
    "biases of texts": chat(b'"logit_bias":{', many(b'"w%d":1'), b"}"),
    "a bias of a long text": text(b'"logit_bias":{"', one_of(b"w "), b'":1}'),
    "a long breaker": text(b'"dry_multiplier":1,"dry_sequence_breakers":["', one_of(b"w"), b'"]'),
    "many breakers": text(b'"dry_multiplier":1,"dry_sequence_breakers":[', many(b'"%d"'), b"]"),
    "many properties below a long name": schema(OBJECT, _wide_below_long, b"}}"),
    "nested long names": schema(b"", _nested, b""),
    "a long property": schema(OBJECT + b'"', one_of(b"q"), b'":{}},"additionalProperties":true}'),
    "an enum": schema(b'{"enum":[', many(b'"v%d"', b"%d"), b"]}"),
    "a pattern": schema(b'{"pattern":"^', one_of(b"a", b"(", b"[a-z]|", b"a?", b"(a|b)*", b"a{1,9}", b"\\\\d"), b'$"}'),
    "a format of many properties": chat(
        b'"response_format":{"type":"json_schema","json_schema":{"schema":' + OBJECT, many(b'"p%d":{"type":"null"}'), b"}}}}"
    ),
    "a grammar": text(b'"grammar":"root ::= ', one_of(b'\\"a\\" ', b"[a-z]? ", b"(", b"x | ", b"[^a]", b"#"), b'"'),
    "a text to tokenize": Kind(("/tokenize",), b'{"content":"', LETTERS, b'"}'),
    "a text to tokenize into pieces": Kind(("/tokenize",), b'{"with_pieces":true,"content":"', LETTERS, b'"}'),
    "a list to tokenize": Kind(("/tokenize",), b'{"content":[', many(b'"a",1'), b"]}"),
    "tokens": Kind(("/detokenize",), b'{"tokens":[', many(b"2", b"%d", b"11111"), b"]}"),
    "an unknown member": chat(b'"', one_of(b"n"), b'":1'),
    "a neutral member": chat(b'"user":"', one_of(b"u"), b'"'),
    "variables": chat(b'"chat_template_kwargs":{', many(b'"k%d":1'), b"}"),
    "a deep variable": chat(b'"chat_template_kwargs":{"k":[', many(b"[1]"), b"]}"),
    "response fields": text(b'"response_fields":[', many(b'"f/%d"'), b"]"),
}
"""By what is much about them."""


def bodies(seed: int, count: int, only: list[str] | None = None, sizes: tuple[int, ...] = SIZES) -> list[Body]:
    """The bodies of a seed: each kind in turn, in sizes and details drawn from it; made anew by :func:`body`."""
    return [body(seed, number, only, sizes) for number in range(count)]


def body(seed: int, number: int, only: list[str] | None = None, sizes: tuple[int, ...] = SIZES) -> Body:
    """One of the bodies of a seed."""
    rng = random.Random(f"{seed} {number}")
    names = [name for name in KINDS if not only or name in only]
    name = names[number % len(names)]
    size = rng.choice(sizes)
    return Body(name, rng.choice(KINDS[name].routes), KINDS[name].make(rng, size)[:size])


class Gauge:
    """Memory of a process, from /proc."""

    def __init__(self, pid: int) -> None:
        self._at = Path(f"/proc/{pid}")

    def resident(self) -> int:
        """Bytes now."""
        return self._status("VmRSS")

    def peak(self) -> int:
        """The most bytes since :meth:`begin_peak`."""
        return self._status("VmHWM")

    def begin_peak(self) -> None:
        """The peak is from here on."""
        self._at.joinpath("clear_refs").write_text("5")

    def settle(self) -> int:
        """Bytes when they no longer fall: what was taken for an answer is given back after it."""
        least, looks = self.resident(), 0
        while looks < _LOOKS:
            time.sleep(0.01)
            now = self.resident()
            least, looks = (now, 0) if now < least else (least, looks + 1)
        return least

    def _status(self, name: str) -> int:
        lines = self._at.joinpath("status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


class Health(threading.Thread):
    """Asks for /health all the time; knows the longest wait since it was last asked."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self.stopped = False
        self._port = port

    def run(self) -> None:
        """Ask until stopped."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        while not self.stopped:
            start = time.perf_counter()
            connection.request("GET", "/health")
            connection.getresponse().read()
            self.longest = max(self.longest, time.perf_counter() - start)
            time.sleep(0.01)


def _ask(port: int, body: Body) -> tuple[int, int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", body.route, body.data, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    first, length = answer.read(200), 0
    while part := answer.read(1 << 20):
        length += len(part)
    connection.close()
    return answer.status, len(first) + length, first


def _line(row: dict[str, Any], first: bytes) -> str:
    shown = first[:90].decode("utf-8", "replace") if row["status"] != 200 else ""
    return (
        f"{row['kind']:34} {row['route']:21} {row['bytes'] / 2**20:6.2f} MiB {row['seconds']:7.2f} s  /health "
        f"{row['health_ms']:5.0f} ms  {row['more_bytes'] >> 20:+4} MiB  {row['status']} {row['answer']:9} "
        f"{' '.join(row['bad'])} {shown}"
    )


def main() -> int:
    """Start a server, ask it, print a row for each body; 1 where one is not answered or takes too much memory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--only", help="kinds, with commas between")
    parser.add_argument("--json", help="a file for the rows")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}, {chosen.count} bodies")
    command = [sys.executable, "-m", "bankml", "serve", "--listen", "127.0.0.1:0", "--quiet", "--ctx", str(CTX)]
    environment = os.environ | {"BANKML_CACHE_RAM": "0"}
    rows: list[dict[str, Any]] = []
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        listening = next(row for row in server.stderr if "listening on" in row)
        port = int(listening.rpartition(":")[2])
        gauge, health = Gauge(server.pid), Health(port)
        health.start()
        _ask(port, Body("a full context", TEXT, json.dumps({"prompt": [1] * (CTX - 2), "n_predict": 1}).encode()))
        before = gauge.settle()
        only = chosen.only.split(",") if chosen.only else None
        for number in range(chosen.count):
            asked = body(chosen.seed, number, only)
            gauge.settle()
            gauge.begin_peak()
            health.longest = 0.0
            start = time.perf_counter()
            try:
                status, length, first = _ask(port, asked)
            except OSError as error:
                status, length, first = 0, 0, repr(error).encode()
            row = {
                "kind": asked.kind,
                "route": asked.route,
                "bytes": len(asked.data),
                "status": status,
                "answer": length,
                "seconds": round(time.perf_counter() - start, 3),
                "health_ms": round(health.longest * 1e3, 1),
                "more_bytes": gauge.peak() - before,
                "bad": [],
            }
            if row["more_bytes"] > 3 * len(asked.data) + MARGIN:
                row["bad"].append("memory")
            if status == 0 or b"internal error" in first:
                row["bad"].append("no answer")
            rows.append(row)
            print(_line(row, first), flush=True)
        health.stopped = True
        health.join()
        server.send_signal(signal.SIGTERM)
        code = server.wait()
    slow = sorted((row["health_ms"] for row in rows), reverse=True)
    failed = sum(bool(row["bad"]) for row in rows)
    print(f"{len(rows)} bodies, {failed} bad; /health at most {slow[0]} ms, above 100 ms in {sum(each > 100 for each in slow)}; "
          f"load {os.getloadavg()[0]:.1f}; exit code {code}")  # fmt: skip
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(failed > 0 or code != 0)


if __name__ == "__main__":
    sys.exit(main())
