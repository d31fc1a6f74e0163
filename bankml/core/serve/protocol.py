# SPDX-License-Identifier: MIT OR Apache-2.0
"""uvicorn's HTTP protocol with the limits that only a connection knows: how many, how slow to read, how slow to take."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bankml.core.refusal import Refusal
from bankml.core.serve.settings import DRAIN_SECONDS, MAX_CONNECTIONS, Settings
from bankml.core.serve.shapes import dump

_REASONS = {400: b"Bad Request", 503: b"Service Unavailable"}


def _response(refusal: Refusal) -> bytes:
    body = dump(refusal.http_body())
    head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return head % (refusal.status, _REASONS[refusal.status], len(body)) + body


def limited(settings: Settings) -> type[LimitedProtocol]:
    """The protocol with the times of these settings; uvicorn makes one for each connection and passes nothing of ours on."""
    return type("LimitedProtocol", (LimitedProtocol,), {"settings": settings})


class LimitedProtocol(H11Protocol):
    """One connection. Beyond 32 at once it is answered 503 and closed; a client that is slow to ask, or takes nothing of its
    answer for long, is cut off.
    """  # fmt: skip

    settings = Settings()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._turned_away = False
        self._deaf = False
        self._reading: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or turn it away."""
        if len(self.connections) < MAX_CONNECTIONS:
            super().connection_made(transport)
            self._reading = self.loop.call_later(self.settings.read_seconds, self._too_slow)
            return
        self._turned_away = True
        self.transport = transport
        message = "bankml serve: too many connections"
        self._last_word(Refusal("http.connections", message, status=503, kind="unavailable_error"))

    def data_received(self, data: bytes) -> None:
        """Bytes of the client."""
        if self._deaf:
            return
        if self._reading is None and (self.cycle is None or self.cycle.response_complete):
            self._reading = self.loop.call_later(self.settings.read_seconds, self._too_slow)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_reading_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._stop_reading_clock()
        self._stop_writing_clock()
        if not self._turned_away:
            super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._last_word(Refusal("http.malformed", msg))

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
        """The server stops."""
        if not self._turned_away:
            super().shutdown()

    def _last_word(self, refusal: Refusal) -> None:
        self._deaf = True
        self.transport.write(_response(refusal))
        # What the client is still sending is read and dropped for a moment, or a reset would take the answer from it.
        self.loop.call_later(DRAIN_SECONDS, self.transport.close)

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
