#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sends bodies made to cost more than their length to a server of its own, and measures what they cost everybody else.

    hostile_bodies.py [--seed 1] [--count 300] [--only KIND,...] [--json FILE]

The server must answer each of them, take less memory than three times the body and 100 MB, and answer GET /health
meanwhile. A row for each body says how long the slowest /health took; the exit code counts memory and answers alone, for
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SIZES = (1 << 16, 1 << 18, 1 << 20, 4 << 20, 16 << 20)
MARGIN = 100_000_000
CHAT, TEXT = "/v1/chat/completions", "/completion"
ANY = ("/tokenize", "/detokenize", "/apply-template", CHAT, TEXT, "/v1/completions")
MESSAGES = b'"max_tokens":1,"messages":[{"role":"user","content":"x"}]'
PROMPT = b'"n_predict":2,"prompt":"a"'


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


def _fill(unit: bytes, size: int) -> bytes:
    return unit * max(1, size // len(unit))


def _many(size: int, item: Callable[[int], bytes], between: bytes = b",") -> bytes:
    return between.join(map(item, range(max(1, size // (len(item(1 << 16)) + len(between))))))


def _object(*members: bytes) -> bytes:
    return b"{" + b",".join(members) + b"}"


Maker = Callable[[random.Random, int], bytes]


def _chat(member: Maker) -> Maker:
    return lambda rng, size: _object(MESSAGES, member(rng, size))


def _text(member: Maker) -> Maker:
    return lambda rng, size: _object(PROMPT, member(rng, size))


_LETTERS = (b"a", b"hello ", b"\xc3\xa9", b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b" ", b"1", b"\\n", b"\\u00e9", b'\\"', b"<|im_end|>")
_PATTERNS = (b"a", b"(", b"[a-z]|", b"a?", b"(a|b)*", b"a{1,9}", b"\\\\d")

KINDS: dict[str, tuple[tuple[str, ...], Maker]] = {
    "unclosed string": (ANY, lambda rng, size: b'{"messages":"' + _fill(rng.choice((b'\\"', b"a", b"\\\\", b'["', b"\xc3\xa9")), size)),
    "unclosed string with brackets": (ANY, lambda rng, size: b'"' + _fill(b'\\"', size) + b"[" * 129),
    "many unclosed strings": (ANY, lambda rng, size: _fill(b'"\\"', size) + b"{" * 200),
    "depth": (ANY, lambda rng, size: _fill(rng.choice((b"[", b'{"a":', b'[{"":')), size)),
    "depth in a member": (ANY, lambda rng, size: _object(MESSAGES, b'"metadata":' + b"[" * 120 + _fill(b"1,", size) + b"1" + b"]" * 120)),
    "white space": (ANY, lambda rng, size: _fill(rng.choice((b" ", b"\n", b"\t")), size) + b"{}"),
    "a long name": (ANY, lambda rng, size: _object(b'"' + _fill(b"q", size) + b'":1')),
    "long names": (ANY, lambda rng, size: _object(*(b'"' + _fill(b"q", size // 10) + b'%d":1' % i for i in range(10)))),
    "many members": (ANY, lambda rng, size: _object(_many(size, lambda i: b'"m%07d":1' % i))),
    "members of a message": ((CHAT, "/apply-template"), lambda rng, size: b'{"messages":[{"role":"user","content":"x",' + _many(size, lambda i: b'"m%07d":1' % i) + b"}]}"),
    "many messages": ((CHAT, "/apply-template"), lambda rng, size: b'{"messages":[' + _many(size, lambda i: b'{"role":"user","content":"x"}') + b"]}"),
    "a huge number": ((CHAT,), _chat(lambda rng, size: b'"temperature":' + rng.choice((_fill(b"9", size), b"0." + _fill(b"1", size), b"1e" + _fill(b"9", size), b"-" + _fill(b"9", size))))),
    "many numbers": ((CHAT,), _chat(lambda rng, size: b'"metadata":[' + _many(size, lambda i: rng.choice((b"1", b"1.5", b"123456", b"-1e5", b"1e400"))) + b"]")),
    "many values": ((CHAT,), _chat(lambda rng, size: b'"metadata":[' + _many(size, lambda i: rng.choice((b"[]", b"{}", b'""', b"true", b"null"))) + b"]")),
    "a list of prompts": ((TEXT, "/v1/completions"), lambda rng, size: b'{"n_predict":1,"prompt":[' + _many(size, lambda i: b"[1]") + b"]}"),
    "a prompt of numbers": ((TEXT, "/v1/completions"), lambda rng, size: b'{"n_predict":1,"prompt":[' + _many(size, lambda i: b"%d" % (i % 49000)) + b"]}"),
    "a long prompt": ((TEXT, "/v1/completions"), lambda rng, size: b'{"n_predict":1,"prompt":"' + _fill(rng.choice(_LETTERS), size) + b'"}'),
    "a long message": ((CHAT, "/apply-template"), lambda rng, size: b'{"max_tokens":1,"messages":[{"role":"user","content":"' + _fill(rng.choice(_LETTERS), size) + b'"}]}'),
    "tools": ((CHAT, "/apply-template"), _chat(lambda rng, size: b'"tools":' + b"[" * 120 + _fill(b"1,", size) + b"1" + b"]" * 120)),
    "stops": ((CHAT,), _chat(lambda rng, size: b'"stop":[' + _many(size, lambda i: b'"s%d"' % i) + b"]")),
    "a long stop": ((TEXT,), _text(lambda rng, size: b'"stop":"' + _fill(b"s", size) + b'"')),
    "samplers": ((TEXT,), _text(lambda rng, size: b'"samplers":[' + _many(size, lambda i: b'"top_k"') + b"]")),
    "samplers as letters": ((TEXT,), _text(lambda rng, size: b'"samplers":"' + _fill(b"kpt", size) + b'"')),
    "biases": ((TEXT,), _text(lambda rng, size: b'"logit_bias":[' + _many(size, lambda i: b"[%d,1]" % (i % 49000)) + b"]")),
    "biases of texts": ((CHAT,), _chat(lambda rng, size: b'"logit_bias":{' + _many(size, lambda i: b'"w%d":1' % i) + b"}")),
    "a bias of a long text": ((TEXT,), _text(lambda rng, size: b'"logit_bias":{"' + _fill(b"w ", size) + b'":1}')),
    "breakers": ((TEXT,), _text(lambda rng, size: b'"dry_multiplier":1,"dry_sequence_breakers":["' + _fill(b"w", size) + b'"]')),
    "property names": ((TEXT,), _text(lambda rng, size: b'"json_schema":{"type":"object","properties":{"' + _fill(b"q", size // 2) + b'":{"type":"object","properties":{' + _many(size // 2, lambda i: b'"p%d":{"type":"null"}' % i) + b"}}}}")),
    "nested property names": ((TEXT,), _text(lambda rng, size: b'"json_schema":' + (b'{"type":"object","properties":{"' + _fill(b"q", size // 60) + b'":') * 60 + b"{}" + b"}}" * 60)),
    "an enum": ((TEXT,), _text(lambda rng, size: b'"json_schema":{"enum":[' + _many(size, lambda i: b'"v%d"' % i) + b"]}")),
    "a pattern": ((TEXT,), _text(lambda rng, size: b'"json_schema":{"type":"string","pattern":"^' + _fill(rng.choice(_PATTERNS), size) + b'$"}')),
    "a format of many properties": ((CHAT,), _chat(lambda rng, size: b'"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{' + _many(size, lambda i: b'"p%d":{"type":"null"}' % i) + b"}}}}")),
    "a grammar": ((TEXT,), _text(lambda rng, size: b'"grammar":"root ::= ' + _fill(rng.choice((b'\\"a\\" ', b"[a-z]? ", b"(", b"x | ", b"[^a]", b"#")), size) + b'"')),
    "a text to tokenize": (("/tokenize",), lambda rng, size: b'{"content":"' + _fill(rng.choice(_LETTERS), size) + b'"}'),
    "pieces": (("/tokenize",), lambda rng, size: b'{"with_pieces":true,"content":"' + _fill(rng.choice(_LETTERS), size) + b'"}'),
    "a list to tokenize": (("/tokenize",), lambda rng, size: b'{"content":[' + _many(size, lambda i: b'"a"' if i % 2 else b"1") + b"]}"),
    "tokens": (("/detokenize",), lambda rng, size: b'{"tokens":[' + _many(size, lambda i: b"%d" % (i % 49000)) + b"]}"),
    "an unknown member": ((CHAT, TEXT), lambda rng, size: _object(MESSAGES, PROMPT, b'"' + _fill(b"n", size) + b'":"v"')),
    "a neutral member": ((CHAT,), _chat(lambda rng, size: b'"user":"' + _fill(b"u", size) + b'"')),
    "variables": ((CHAT, "/apply-template"), _chat(lambda rng, size: b'"chat_template_kwargs":{' + _many(size, lambda i: b'"k%d":1' % i) + b"}")),
    "a deep variable": ((CHAT,), _chat(lambda rng, size: b'"chat_template_kwargs":{"k":[' + _many(size, lambda i: b"[1]") + b"]}")),
    "response fields": ((TEXT,), _text(lambda rng, size: b'"response_fields":[' + _many(size, lambda i: b'"f/%d"' % i) + b"]")),
}  # fmt: skip
"""Where a kind of body may go, and what makes it."""


def bodies(seed: int, count: int, only: list[str] | None = None, sizes: tuple[int, ...] = SIZES) -> Iterator[Body]:
    """The bodies of a seed; each kind in turn, in sizes and details drawn from it."""
    rng = random.Random(seed)
    kinds = [kind for kind in KINDS if not only or kind in only]
    for number in range(count):
        kind = kinds[number % len(kinds)]
        routes, make = KINDS[kind]
        largest = rng.choice(sizes)
        data = make(rng, largest - 400)
        yield Body(kind, rng.choice(routes), data[:largest])


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


def main() -> int:
    """Start a server, ask it, print a row for each body; 1 where one is not answered or takes too much memory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--only", help="kinds, with commas between")
    parser.add_argument("--json", help="a file for the rows")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}, {chosen.count} bodies")
    command = [sys.executable, "-m", "bankml", "serve", "--listen", "127.0.0.1:0", "--quiet"]
    rows = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        listening = next(row for row in server.stderr if "listening on" in row)
        port = int(listening.rpartition(":")[2])
        gauge, health = Gauge(server.pid), Health(port)
        health.start()
        before = gauge.resident()
        for body in bodies(chosen.seed, chosen.count, chosen.only.split(",") if chosen.only else None):
            gauge.begin_peak()
            health.longest = 0.0
            start = time.perf_counter()
            try:
                status, length, first = _ask(port, body)
            except OSError as error:
                status, length, first = 0, 0, repr(error).encode()
            seconds = time.perf_counter() - start
            more = gauge.peak() - before
            bad = ["memory"] if more > 3 * len(body.data) + MARGIN else []
            bad += ["no answer"] if status == 0 or (status == 500 and b"internal error" in first) else []
            rows.append({"kind": body.kind, "route": body.route, "bytes": len(body.data), "status": status, "answer": length,
                         "seconds": round(seconds, 3), "health_ms": round(health.longest * 1e3, 1), "more_bytes": more, "bad": bad})  # fmt: skip
            print(f"{body.kind:30} {body.route:21} {len(body.data) / 2**20:6.2f} MiB {seconds:7.2f} s  /health {health.longest * 1e3:5.0f} ms"
                  f"  +{more >> 20:4} MiB  {status} {length:9} {first[:90] if status != 200 else b''} {' '.join(bad)}", flush=True)  # fmt: skip
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
