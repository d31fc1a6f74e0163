# SPDX-License-Identifier: MIT OR Apache-2.0
"""Responses: a JSON body that was written off the event loop, and a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from itertools import islice
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bankml.core.http import sse
from bankml.core.http.desk import Desk
from bankml.core.http.wanted import Gone, Wanted
from bankml.core.json.writer import blocks, dump
from bankml.refusal import Refusal

_JSON = {"content-type": "application/json; charset=utf-8"}


def small_json(value: Any) -> Response:
    """A value whose size follows no request."""
    return Response(dump(value), headers=_JSON)


def refusal_body(refusal: Refusal) -> Response:
    """A refusal; the connection ends with it, as llama-server's do."""
    return Response(dump(refusal.http_body()), refusal.status, {**_JSON, "connection": "close"})


async def json_body(desk: Desk, wanted: Wanted, size: int, value: Any) -> Response:
    """A value of any size, written block by block in a thread of the desk.

    Args:
        wanted: who waits for it.
        size: bytes of the request that it answers.

    Raises:
        Gone: the client left.
        Refusal: the server is stopping.
    """
    written = blocks(value)
    first = await desk.run(wanted, size, lambda: list(islice(written, 2)))
    return Response(first[0], headers=_JSON) if len(first) == 1 else Blocks(desk, wanted, size, first, written)


class Blocks(Response):
    """A body sent in chunks, because it is too long to be made before it is sent."""

    def __init__(self, desk: Desk, wanted: Wanted, size: int, first: list[bytes], rest: Iterator[bytes]) -> None:
        super().__init__(headers=_JSON)
        del self.headers["content-length"]
        self._desk = desk
        self._wanted = wanted
        self._size = size
        self._first = first
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all blocks; one that its client leaves ends where it is."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        with contextlib.suppress(Gone):
            parts, self._first = self._first, []
            while parts:
                await send({"type": "http.response.body", "body": b"".join(parts), "more_body": True})
                parts = await self._desk.run(self._wanted, self._size, lambda: list(islice(self._rest, 4)))
            await send({"type": "http.response.body", "body": b""})


class EventStream(Response):
    """An answer sent event by event; a comment when it stays silent for long."""

    def __init__(self, events: AsyncGenerator[bytes], ping_seconds: int) -> None:
        super().__init__(headers={"content-type": "text/event-stream", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._ping = ping_seconds if ping_seconds > 0 else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the last one."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with contextlib.aclosing(self._with_pings()) as events:
            async for data in events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _with_pings(self) -> AsyncGenerator[bytes]:
        following: asyncio.Future[bytes] | None = None
        try:
            while True:
                if following is None:
                    following = asyncio.ensure_future(anext(self._events))
                done, _ = await asyncio.wait((following,), timeout=self._ping)
                if not done:
                    yield sse.PING
                    continue
                try:
                    data = following.result()
                except StopAsyncIteration:
                    return
                following = None
                yield data
        finally:
            if following is not None:
                following.cancel()
                await asyncio.wait((following,))
            await self._events.aclose()
