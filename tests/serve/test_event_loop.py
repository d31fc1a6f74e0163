# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work that follows the size of a request runs in threads: the event loop takes no more steps for a large body."""

from __future__ import annotations

import asyncio
import http.client
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bankml.core.abandon import Abandoned, go_on
from bankml.core.engine import Engine, EngineOptions
from bankml.core.serve.app import create_app
from testing.hostile_bodies import KINDS, bodies

from .virtual import Server

# A request costs the loop some thousand calls in all; a body of 256 KiB has more values than that in every kind.
MOST_CALLS = 6000


@pytest.fixture(scope="module")
def server(smollm2: Path) -> Iterator[Server]:
    with Engine.open(smollm2, EngineOptions(n_ctx=256, threads=1)) as engine:
        engine.warm()
        with Server(whole=create_app(engine)) as running:
            yield running


class Counter:
    """Counts the calls that each step of the event loop makes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, patch: pytest.MonkeyPatch) -> None:
        self.most = self._calls = 0
        original = asyncio.Handle._run

        def counted(handle: asyncio.Handle) -> Any:
            if handle._loop is not loop:  # type: ignore[attr-defined]
                return original(handle)
            self._calls = 0
            sys.setprofile(self._count)
            try:
                return original(handle)
            finally:
                sys.setprofile(None)
                self.most = max(self.most, self._calls)

        patch.setattr(asyncio.Handle, "_run", counted)

    def _count(self, frame: Any, event: str, argument: Any) -> None:
        self._calls += event in ("call", "c_call")


def test_what_a_client_that_left_asked_for_ends_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, left = threading.Event(), threading.Event()
    outcomes: list[str] = []

    def watched() -> None:
        begun.set()
        left.wait()
        try:
            go_on()
            outcomes.append("went on")
        except Abandoned:
            outcomes.append("ended")
            raise

    monkeypatch.setattr("bankml.core.tokenizer.tokenizer.go_on", watched)
    client = server.dial()
    body = b'{"content":"%s"}' % (b"hello " * (1 << 17))
    client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    client.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    begun.wait()
    client.close()
    server.until(lambda: not server.state.connections)
    left.set()
    with server.dial() as other:
        other.sendall(
            b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        assert other.recv(12) == b"HTTP/1.1 200"
    assert outcomes[:1] == ["ended"]
    assert outcomes.count("went on") == 0


@pytest.mark.parametrize("body", bodies(7, len(KINDS), sizes=(1 << 18,)), ids=lambda body: body.kind)
def test_the_loop_only_passes_bytes_on(server: Server, body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter(server.loop, monkeypatch)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", body.route, body.data, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status in (200, 400, 413, 500, 501)
    assert 0 < counter.most < MOST_CALLS
