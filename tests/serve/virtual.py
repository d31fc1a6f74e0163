# SPDX-License-Identifier: MIT OR Apache-2.0
"""bankml's HTTP protocol and limits over real sockets, on a clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from uvicorn.server import ServerState

from bankml.core.http.limits import BODY, Limits
from bankml.core.http.server import bound_socket, configured
from bankml.core.http.settings import Settings

Inner = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class StandingClock(asyncio.SelectorEventLoop):
    """An event loop whose time passes only by :meth:`advance`."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """From any thread; returns once everything that was due then has run."""

        async def move() -> None:
            self._now += seconds
            for _ in range(20):
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(move(), self).result()


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the body of the request."""
    data = scope[BODY].take()
    head = [(b"content-length", b"%d" % len(data))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": data})


class Server:
    """A server in a thread of its own. Use it in a ``with`` statement.

    Args:
        app: what answers behind the limits.
        whole: an app that brings its limits along, in the place of ``app``.
    """

    def __init__(self, app: Inner = echo, whole: Any = None, **settings: Any) -> None:
        self.loop = StandingClock()
        self.state = ServerState()
        bound, self.settings = bound_socket(Settings(port=0, **settings))
        self.port = self.settings.port
        self.limits = Limits(app, self.settings, None)  # type: ignore[arg-type]
        config = configured(whole or self.limits, self.settings)
        config.load()

        def connection() -> Any:
            return config.http_protocol_class(config=config, server_state=self.state, app_state={})  # type: ignore[call-arg]

        self._server = self.loop.run_until_complete(self.loop.create_server(connection, sock=bound))
        self._thread = threading.Thread(target=self.loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self._server.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        for each in list(self.state.connections):
            each.transport.abort()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def dial(self) -> socket.socket:
        """A connection that the server has taken, or turned away."""
        known = self._connections()
        client = socket.create_connection(("127.0.0.1", self.port))
        self.until(lambda: self._connections() != known)
        return client

    def _connections(self) -> set[int]:
        return {id(each) for each in self.state.connections}

    def until(self, there: Callable[[], bool]) -> None:
        """Return when the loop has come to where ``there`` is true."""

        async def look() -> None:
            while not there():
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(look(), self.loop).result()

    def send(self, client: socket.socket, data: bytes) -> None:
        """Send bytes, and return when the server has read them."""
        name = client.getsockname()
        connection = next(each for each in self.state.connections if each.client == name)
        seen: list[int] = []
        original = connection.data_received

        def counted(received: bytes) -> None:
            original(received)
            seen.append(len(received))

        connection.data_received = counted
        client.sendall(data)
        self.until(lambda: sum(seen) >= len(data) or connection.transport.is_closing())
        connection.data_received = original


def rest(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    received = b""
    while chunk := client.recv(1 << 16):
        received += chunk
    return received
