# SPDX-License-Identifier: MIT OR Apache-2.0
"""uvicorn's HTTP protocol with the limits that only a connection knows: how many, how slow to read, how slow to take."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bankml.core.http import peer
from bankml.core.http.limits import LAST_WORD
from bankml.core.http.settings import DRAIN_SECONDS, MAX_BODY, MAX_CONNECTIONS, Settings
from bankml.core.http.wanted import stopping
from bankml.core.json.writer import dump
from bankml.refusal import Refusal

_REASONS: Final = {
    400: b"Bad Request",
    403: b"Forbidden",
    408: b"Request Timeout",
    413: b"Content Too Large",
    415: b"Unsupported Media Type",
    503: b"Service Unavailable",
}
_PEER_SECONDS: Final = 0.25


def _response(refusal: Refusal) -> bytes:
    body = dump(refusal.http_body())
    head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return head % (refusal.status, _REASONS[refusal.status], len(body)) + body


def limited(settings: Settings) -> type[LimitedProtocol]:
    """The protocol with the times of these settings; uvicorn makes one for each connection and passes nothing of ours on."""
    return type("LimitedProtocol", (LimitedProtocol,), {"settings": settings})


class LimitedProtocol(H11Protocol):
    """One connection of at most 32. A further one takes the place of the one that has waited longest without a whole request,
    or is answered 503. A client that is slow to ask, or takes nothing of its answer for long, is cut off.
    """  # fmt: skip

    settings = Settings()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app_state = {**self.app_state, LAST_WORD: self.last_word}
        self._turned_away = False
        self._deaf = False
        self._dropped = 0
        self._half_closed = False
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, in the place of an idle one if need be, or turn it away."""
        if len(self.connections) >= MAX_CONNECTIONS:
            self._make_place()
        if len(self.connections) < MAX_CONNECTIONS:
            super().connection_made(transport)
            self._reading = self.loop.call_later(self.settings.read_seconds, self._too_slow)
            return
        self._turned_away = True
        self.transport = transport
        message = "bankml serve: too many connections"
        self._drop_after(Refusal("http.connections", message, status=503, kind="unavailable_error"))
        self.loop.call_later(DRAIN_SECONDS, self.transport.close)

    def _make_place(self) -> None:
        """Close the connection that has been without a whole request for the longest time."""
        idle = [each for each in self.connections if isinstance(each, LimitedProtocol) and each.idle]
        if idle:
            oldest = min(idle, key=lambda each: each.since)
            self.connections.discard(oldest)
            oldest.transport.abort()

    @property
    def idle(self) -> bool:
        """Whether no whole request of this client is there to be answered."""
        cycle = self.cycle
        return self._deaf or cycle is None or cycle.response_complete or cycle.more_body

    @property
    def since(self) -> float:
        """When the time for the request that is being waited for began, in the loop's seconds."""
        return self._reading.when() if self._reading is not None else self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._deaf:
            self._dropped += len(data)
            if self._dropped > 2 * MAX_BODY:
                self.transport.abort()
            return
        if self._reading is None and (self.cycle is None or self.cycle.response_complete):
            self._reading = self.loop.call_later(self.settings.read_seconds, self._too_slow)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_reading_clock()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more. While it holds its end, a whole request is answered; the connection ends then."""
        if self._deaf or self._turned_away or self.idle:
            return False
        self._half_closed = True
        self._watching = self.loop.create_task(self._watch_peer())
        return True

    async def _watch_peer(self) -> None:
        """Cut the connection when the client is gone: a FIN is all that a program sends that closes its socket."""
        client, server = (self.transport.get_extra_info(name)[:2] for name in ("peername", "sockname"))
        while not await asyncio.to_thread(peer.has_left, client, server):
            await asyncio.sleep(_PEER_SECONDS)
        self.transport.abort()

    def on_response_complete(self) -> None:
        """An answer was sent."""
        super().on_response_complete()
        if self._half_closed and self.idle:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._stop_reading_clock()
        self._stop_writing_clock()
        if self._watching is not None:
            self._watching.cancel()
        if not self._turned_away:
            super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._drop_after(Refusal("http.malformed", msg))
        # What the client is still sending is read and dropped for a moment, or a reset would take the answer from it.
        self.loop.call_later(DRAIN_SECONDS, self.transport.close)

    def last_word(self, refusal: Refusal) -> None:
        """Refuse a request that is still coming: answer now, drop the rest up to twice the largest body, then close."""
        self.cycle.disconnected = True
        self._drop_after(refusal)
        self.flow.resume_reading()
        if self.cycle.more_body:
            self._reading = self.loop.call_later(self.settings.read_seconds, self._too_slow)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client takes its answer slower than it is made."""
        super().pause_writing()
        self._watch_writing()

    def _watch_writing(self) -> None:
        """Look again after a while, and cut off a client that took nothing of what waits for it."""
        waiting = self.transport.get_write_buffer_size()

        def look() -> None:
            if self.transport.get_write_buffer_size() < waiting:
                self._watch_writing()
            else:
                self.transport.abort()

        self._writing = self.loop.call_later(self.settings.write_seconds, look)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._stop_writing_clock()
        super().resume_writing()

    def shutdown(self) -> None:
        """The server stops: a request that is not whole is answered so, one in progress ends by itself."""
        if self._turned_away or self._deaf:
            self.transport.close()
        elif self.cycle is not None and not self.cycle.response_complete and self.cycle.more_body:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._drop_after(stopping())
            self.transport.close()
        else:
            super().shutdown()

    def _drop_after(self, refusal: Refusal) -> None:
        self._deaf = True
        self._stop_reading_clock()
        self.transport.write(_response(refusal))

    def _too_slow(self) -> None:
        self._reading = None
        if not self.transport.is_closing():
            self.transport.close()

    def _stop_reading_clock(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _stop_writing_clock(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
