# SPDX-License-Identifier: MIT OR Apache-2.0
"""Clients that are slow to ask or slow to take, too many of them, and half-closed ones: real sockets, a clock that tests move."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from bankml.core.http.limits import BODY
from bankml.core.http.settings import MAX_BODY, MAX_CONNECTIONS

from .virtual import Server, rest

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def error(answer: bytes) -> dict[str, Any]:
    found = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_client_that_does_not_ask_is_cut_off(sent: bytes) -> None:
    with Server(read_seconds=30) as server, server.dial() as client:
        if sent:
            server.send(client, sent)
        server.loop.advance(29)
        assert len(server.state.connections) == 1
        server.loop.advance(2)
        assert rest(client) == b""


def test_a_client_that_asks_drop_by_drop_is_cut_off() -> None:
    with Server(read_seconds=30) as server, server.dial() as client:
        for byte in b"GET /health HTTP/1.1\r\nX: ":
            server.send(client, bytes([byte]))
            server.loop.advance(1)
        assert len(server.state.connections) == 1
        server.loop.advance(30)
        assert rest(client) == b""


def test_a_body_that_does_not_come_is_refused() -> None:
    with Server(read_seconds=30) as server, server.dial() as client:
        server.send(client, POST % 100 + b'{"tokens":')
        server.loop.advance(29)
        assert len(server.state.connections) == 1
        server.loop.advance(2)
        client.shutdown(socket.SHUT_WR)
        answer = rest(client)
    assert status(answer) == 408
    assert error(answer)["message"] == "the body did not come within 30 s"


def test_a_connection_is_kept_until_it_is_silent_for_long() -> None:
    with Server(read_seconds=30) as server, server.dial() as client:
        for _ in range(3):
            server.send(client, GET)
            assert status(client.recv(1 << 16)) == 200
            server.loop.advance(20)
        server.loop.advance(20)
        assert rest(client) == b""


async def much(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Sends 32 MiB."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % (32 << 20))]})
    for left in range(31, -1, -1):
        await send({"type": "http.response.body", "body": b"x" * (1 << 20), "more_body": left > 0})


def test_a_client_that_takes_nothing_is_cut_off() -> None:
    with Server(much, write_seconds=120) as server, server.dial() as client:
        server.send(client, GET)
        connection = next(iter(server.state.connections))
        server.until(lambda: connection._writing is not None)
        server.loop.advance(119)
        assert len(server.state.connections) == 1
        server.loop.advance(2)
        server.until(lambda: not server.state.connections)
        taken = 0
        try:
            while chunk := client.recv(1 << 20):
                taken += len(chunk)
        except ConnectionResetError:
            pass
    assert taken < 32 << 20


def test_a_client_that_takes_its_time_has_its_answer() -> None:
    with Server(much, write_seconds=120) as server, server.dial() as client:
        server.send(client, GET)
        received = 0
        while received < 32 << 20:
            for _ in range(1 << 10):
                received += len(client.recv(1 << 12))
                if received >= 32 << 20:
                    break
            server.loop.advance(100)
    assert received >= 32 << 20


def test_a_silent_connection_makes_place_for_the_33rd() -> None:
    with Server() as server:
        clients = []
        for _ in range(MAX_CONNECTIONS):
            clients.append(server.dial())
            server.loop.advance(0.1)
        late = server.dial()
        server.send(late, GET)
        assert status(late.recv(1 << 16)) == 200
        # The one that had been silent for longest went.
        assert rest(clients[0]) == b""
        server.send(clients[1], GET)
        assert status(clients[1].recv(1 << 16)) == 200
        for each in (*clients, late):
            each.close()


def test_the_33rd_connection_is_turned_away_where_all_are_being_answered() -> None:
    held = []

    async def never(scope: dict[str, Any], receive: Any, send: Any) -> None:
        held.append(scope)
        while (await receive())["type"] != "http.disconnect":
            pass

    with Server(never) as server:
        clients = [server.dial() for _ in range(MAX_CONNECTIONS)]
        for client in clients:
            server.send(client, GET)
        server.until(lambda: len(held) == MAX_CONNECTIONS)
        with socket.create_connection(("127.0.0.1", server.port)) as late:
            late.sendall(GET)
            answer = late.recv(1 << 16)
            assert status(answer) == 503
            assert error(answer)["message"] == "bankml serve: too many connections"
            server.loop.advance(1)
        for client in clients:
            client.close()
        server.until(lambda: not server.state.connections)


def test_a_client_that_ends_its_side_has_its_answer() -> None:
    async def patient(scope: dict[str, Any], receive: Any, send: Any) -> None:
        connection = next(iter(server.state.connections))
        while not connection._half_closed:
            await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    with Server(patient) as server, server.dial() as client:
        client.sendall(POST % 2 + b"{}")
        client.shutdown(socket.SHUT_WR)
        assert rest(client).endswith(b"\r\n\r\nok")
        server.until(lambda: not server.state.connections)


def test_a_client_that_closes_is_gone() -> None:
    held: list[Any] = []

    async def waiting(scope: dict[str, Any], receive: Any, send: Any) -> None:
        held.append(scope[BODY].take())
        held.append(await receive())

    with Server(waiting) as server:
        client = server.dial()
        server.send(client, POST % 2 + b"{}")
        client.close()
        server.until(lambda: len(held) == 2)
    assert held == [b"{}", {"type": "http.disconnect"}]


def test_a_request_cut_short_is_not_answered() -> None:
    asked: list[bytes] = []

    async def noted(scope: dict[str, Any], receive: Any, send: Any) -> None:
        asked.append(scope[BODY].take())

    with Server(noted) as server, server.dial() as client:
        server.send(client, POST % 10 + b"{}")
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b""
    assert not asked


@pytest.mark.parametrize("length", [str(MAX_BODY + 1), "1" + "0" * 19, "9" * 20])
def test_a_body_that_is_too_large_is_refused_before_it_comes(length: str) -> None:
    with Server() as server, server.dial() as client:
        server.send(client, POST.replace(b"%d", length.encode()) + b"{")
        answer = client.recv(1 << 16)
        assert status(answer) == 413
        # What still comes is read and dropped, so that no reset takes the answer away; not for ever.
        server.send(client, b" " * (1 << 20))
        server.loop.advance(31)
        assert rest(client) == b""


def test_bodies_wait_where_memory_is_promised_to_others() -> None:
    with Server() as server:
        clients = [server.dial() for _ in range(6)]
        for client in clients:
            client.sendall(POST % MAX_BODY)
        server.until(lambda: all(each.cycle is not None for each in server.state.connections))
        server.loop.advance(0)
        room = server.limits._room
        assert (room._left, len(room._waiting)) == (0, 2)
        clients[0].close()
        server.until(lambda: len(room._waiting) == 1)
        for client in clients[1:]:
            client.close()
        server.until(lambda: room._left == 4 * MAX_BODY)


def test_a_stopping_server_answers_a_request_that_is_still_coming() -> None:
    with Server() as server, server.dial() as client:
        server.send(client, POST % 10 + b"{}")
        connection = next(iter(server.state.connections))
        server.loop.call_soon_threadsafe(connection.shutdown)
        answer = rest(client)
    assert status(answer) == 503
    assert error(answer)["message"] == "bankml serve is stopping"


def test_small_writes_are_sent_at_once() -> None:
    with Server() as server, server.dial():
        connection = next(iter(server.state.connections))
        taken = connection.transport.get_extra_info("socket")
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
