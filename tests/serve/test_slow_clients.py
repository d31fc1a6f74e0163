# SPDX-License-Identifier: MIT OR Apache-2.0
"""Clients that are slow to ask or slow to take, over real sockets; the limits are a second here."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Served

SECONDS = 1.0
HEAD = b"POST /detokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def strict(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    options = ("--ctx", "256", "--read-timeout", str(SECONDS), "--write-timeout", str(SECONDS))
    server = Served(smollm2, tmp_path_factory.mktemp("slow") / "log", *options)
    yield server
    assert server.stop() == 0, server.rows()
    assert "Traceback" not in server.rows()


def ended(connection: socket.socket) -> tuple[bytes, float]:
    """All that comes until the server closes, and the seconds until then."""
    start = time.monotonic()
    received = b""
    while chunk := connection.recv(1 << 16):
        received += chunk
    return received, time.monotonic() - start


def dialled(server: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_client_that_does_not_ask_is_cut_off(strict: Served, sent: bytes) -> None:
    with dialled(strict) as connection:
        connection.sendall(sent)
        received, seconds = ended(connection)
    assert received == b""
    assert SECONDS - 0.1 < seconds < 10


def test_a_client_that_asks_drop_by_drop_is_cut_off(strict: Served) -> None:
    with dialled(strict) as connection:
        start = time.monotonic()
        with pytest.raises(OSError, match=r"."):
            for byte in b"GET /health HTTP/1.1\r\nX: " + b"x" * 500:
                connection.send(bytes([byte]))
                time.sleep(0.05)
        assert SECONDS - 0.1 < time.monotonic() - start < 10


def test_a_body_that_does_not_come_is_told(strict: Served) -> None:
    with dialled(strict) as connection:
        connection.sendall(HEAD % 100 + b'{"tokens":')
        received, seconds = ended(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"408"
    assert json.loads(body)["error"]["message"] == "the body did not come within 1 s"
    assert SECONDS - 0.1 < seconds < 10


def test_a_connection_is_kept_until_it_is_silent_for_long(strict: Served) -> None:
    asked = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with dialled(strict) as connection:
        for _ in range(3):
            connection.sendall(asked)
            answer = b""
            while not answer.endswith(b'"ok"}'):
                answer += connection.recv(1 << 16)
            time.sleep(SECONDS / 2)
        received, seconds = ended(connection)
    assert received == b""
    assert seconds < 10


def test_a_client_that_takes_nothing_is_cut_off_and_others_are_answered(strict: Served) -> None:
    body = json.dumps({"tokens": [2] * 2_000_000}).encode()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with connection:
        connection.settimeout(30)
        connection.connect(("127.0.0.1", strict.port))
        connection.sendall(HEAD % len(body) + body)
        first = connection.recv(16)
        assert first.startswith(b"HTTP/1.1 200")
        time.sleep(SECONDS + 1)
        assert strict.get("/health").status_code == 200
        taken = len(first)
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 20):
                taken += len(chunk)
    # "<|im_end|>" for each token: 20 MB.
    assert taken < 19_000_000


def test_a_client_that_takes_its_time_has_its_answer(strict: Served) -> None:
    body = json.dumps({"tokens": [2] * 4_000_000}, separators=(",", ":")).encode()
    with dialled(strict) as connection:
        connection.sendall(HEAD % len(body) + body)
        received = bytearray()
        while not received.endswith(b'"}'):
            chunk = connection.recv(1 << 20)
            assert chunk, "cut off"
            received += chunk
            time.sleep(SECONDS * len(chunk) / (12 << 20))
    # 40 MB at 12 MiB a second: longer than the limit, but never silent for as long.
    assert received.count(b"<|im_end|>") == 4_000_000
