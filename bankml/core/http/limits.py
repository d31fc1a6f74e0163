# SPDX-License-Identifier: MIT OR Apache-2.0
"""What every request passes first: header limits, the loopback rule, the body's size and type, CORS; and its log row."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bankml.core.http.log import Log
from bankml.core.http.settings import MAX_BODIES, MAX_BODY, MAX_HEADERS, MAX_LINE, Settings
from bankml.core.json.writer import dump
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

BODY: Final = "bankml.body"
NOTE: Final = "bankml.note"
LAST_WORD: Final = "bankml.last_word"
"""In a scope's state: what answers a client that is still sending, and drops the rest."""
_SMALL: Final = 1 << 16


def refused(status: int, message: str, kind: str, code: str) -> Refusal:
    """A refusal that only HTTP knows."""
    return Refusal(code, message, status=status, kind=kind)


class Room:
    """Memory for bodies that are being received or read; the next one waits, unread, until there is room."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Wait for room, in the order of asking."""
        if not self._waiting and size <= self._left:
            self._left -= size
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give(size)
            raise

    def give(self, size: int) -> None:
        """Give room back."""
        self._left += size
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] <= self._left):
            wanted, future = self._waiting.popleft()
            if not future.done():
                self._left -= wanted
                future.set_result(None)


class Body:
    """The body of a request, held until it was read.

    Attributes:
        data: the bytes.
    """

    def __init__(self, room: Room, size: int) -> None:
        self._room = room
        self._size = size
        self.data = b""

    def take(self) -> bytes:
        """The bytes, held no longer here."""
        data, self.data = self.data, b""
        return data

    def free(self) -> None:
        """Make room for others; whoever took the bytes has dropped them."""
        self.data = b""
        if self._size:
            self._room.give(self._size)
            self._size = 0


class Limits:
    """Middleware around the app, which finds the :class:`Body` in ``scope[BODY]`` and may leave a note in ``scope[NOTE]``."""

    def __init__(self, app: ASGIApp, settings: Settings, log: Log | None) -> None:
        self._app = app
        self._settings = settings
        self._log = log
        self._room = Room(MAX_BODIES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        allowed = origin if origin in self._settings.allow_origin else ""
        status = 0
        scope[NOTE] = ""

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if allowed:
                    message = {**message, "headers": [*message.get("headers", []), *_cors(allowed)]}
            await send(message)

        try:
            refusal = _refusal(scope, headers, self._settings)
            if refusal is None and scope["method"] == "OPTIONS":
                if allowed:
                    await _send(watched, 204, b"", _preflight(headers))
                    return
                refusal = refused(403, "this origin is not allowed", "permission_error", "http.origin")
            if refusal is None:
                await self._pass_on(scope, headers, receive, watched)
            else:
                status = await self._refuse(scope, headers, refusal, receive, watched)
        finally:
            self._note(scope, status, time.perf_counter() - start)

    async def _pass_on(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        """Read the body, then let the app answer."""
        length = int(headers.get(b"content-length", b"0"))
        size = length if length > _SMALL else 0
        await self._room.take(size)
        body = scope[BODY] = Body(self._room, size)
        try:
            data = await _read(receive, self._settings.read_seconds)
            if isinstance(data, Refusal):
                await self._refuse(scope, headers, data, receive, send)
            elif data is not None:
                body.data = data
                del data
                await self._app(scope, receive, send)
        finally:
            body.free()

    async def _refuse(self, scope: Scope, headers: dict[bytes, bytes], refusal: Refusal, receive: Receive, send: Send) -> int:
        """Refuse a request whose body nobody reads."""
        scope[NOTE] = refusal.message
        last_word = scope.get("state", {}).get(LAST_WORD)
        if last_word is not None and headers.get(b"content-length", b"0") != b"0":
            # A client that is still sending would lose the answer to a reset.
            last_word(refusal)
            return refusal.status
        close = [(b"connection", b"close"), (b"content-type", b"application/json; charset=utf-8")]
        await _send(send, refusal.status, dump(refusal.http_body()), close)
        return refusal.status

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        if self._log is None:
            return
        path = scope["path"][:200].encode("unicode_escape").decode("ascii")[:200]
        note = scope[NOTE][:300].encode("unicode_escape").decode("ascii")[:300] if scope[NOTE] else ""
        row = f"bankml serve: {time.strftime('%H:%M:%S')} {scope['method']} {path} {status or '-'} {seconds * 1e3:.0f} ms"
        self._log.row(f"{row} - {note}" if note else row)


def _refusal(scope: Scope, headers: dict[bytes, bytes], settings: Settings) -> Refusal | None:
    if (
        len(scope["headers"]) > MAX_HEADERS
        or len(scope.get("raw_path", b"")) + len(scope["query_string"]) > MAX_LINE
        or any(len(name) + len(value) > MAX_LINE for name, value in scope["headers"])
    ):
        return refused(
            400,
            f"at most {MAX_HEADERS} header lines of {MAX_LINE >> 10} KiB are accepted",
            "invalid_request_error",
            "http.headers",
        )
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or not settings.answers_to(hosts[0].decode("latin-1")):
        return refused(403, "bankml serve: loopback clients only", "permission_error", "http.host")
    if b"transfer-encoding" in headers:
        message = "chunked requests are not accepted: send the body with Content-Length"
        return refused(400, message, "invalid_request_error", "http.chunked")
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if scope["method"] == "POST" and media != b"application/json":
        message = "POST bodies must be Content-Type: application/json"
        return refused(415, message, "invalid_request_error", "http.content-type")
    length = headers.get(b"content-length", b"0").lstrip(b"0") or b"0"
    if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
        return refused(413, f"request too large: at most {MAX_BODY >> 20} MiB", "invalid_request_error", "http.body-size")
    return None


async def _read(receive: Receive, seconds: float) -> bytes | Refusal | None:
    """The whole body; None when the client went away."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        return refused(408, f"the body did not come within {seconds:g} s", "invalid_request_error", "http.slow-body")


async def _send(send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
    length = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body})


def _cors(origin: str) -> list[tuple[bytes, bytes]]:
    return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]


def _preflight(headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    asked = headers.get(b"access-control-request-headers", b"content-type, authorization")
    granted: list[tuple[bytes, Any]] = [
        (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"600"),
    ]
    if headers.get(b"access-control-request-private-network") == b"true":
        granted.append((b"access-control-allow-private-network", b"true"))
    return granted
