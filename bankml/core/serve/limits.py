# SPDX-License-Identifier: MIT OR Apache-2.0
"""What every request passes first: header limits, the loopback rule, the body's size and type, CORS; and its log row."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bankml.core.refusal import Refusal
from bankml.core.serve.settings import MAX_BODY, MAX_HEADERS, MAX_LINE, Settings, is_loopback_host
from bankml.core.serve.shapes import dump

if TYPE_CHECKING:
    from collections.abc import Iterable

BODY = "bankml.body"
NOTE = "bankml.note"


def refused(status: int, message: str, kind: str, code: str) -> Refusal:
    """A refusal that only HTTP knows."""
    return Refusal(code, message, status=status, kind=kind)


class Limits:
    """ASGI middleware around the app; the app finds the whole body in ``scope[BODY]`` and may leave a note in ``scope[NOTE]``."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers = _headers(scope["headers"])
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
            answered = await self._answer_early(scope, headers, allowed, receive, watched)
            if not answered:
                await self._app(scope, receive, watched)
        finally:
            self._log(scope, status, time.perf_counter() - start)

    async def _answer_early(self, scope: Scope, headers: dict[bytes, bytes], allowed: str, receive: Receive, send: Send) -> bool:
        """Answer a request that goes no further, else read its body into the scope."""
        refusal = _refusal(scope, headers)
        if refusal is None and scope["method"] == "OPTIONS":
            if allowed:
                await _send(send, 204, b"", _preflight(headers))
                return True
            refusal = refused(403, "this origin is not allowed", "permission_error", "http.origin")
        if refusal is None:
            body = await _read(receive, self._settings.read_seconds)
            if isinstance(body, bytes):
                scope[BODY] = body
                return False
            if body is None:
                return True
            refusal = body
        if refusal.status != 408:
            # A client that is still sending would lose the answer to a reset: its body is read and dropped first.
            await _read(receive, self._settings.read_seconds, keep=False)
        scope[NOTE] = refusal.message
        close = [(b"connection", b"close"), (b"content-type", b"application/json; charset=utf-8")]
        await _send(send, refusal.status, dump(refusal.http_body()), close)
        return True

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        if self._settings.quiet:
            return
        path = scope["path"].encode("unicode_escape").decode("ascii")[:200]
        note = scope[NOTE].encode("unicode_escape").decode("ascii")[:300] if scope[NOTE] else ""
        row = f"bankml serve: {time.strftime('%H:%M:%S')} {scope['method']} {path} {status or '-'} {seconds * 1e3:.0f} ms"
        print(f"{row} - {note}" if note else row, file=sys.stderr, flush=True)


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return dict(pairs)


def _refusal(scope: Scope, headers: dict[bytes, bytes]) -> Refusal | None:
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
    if len(hosts) != 1 or not is_loopback_host(hosts[0].decode("latin-1")):
        return refused(403, "bankml serve: loopback clients only", "permission_error", "http.host")
    if b"transfer-encoding" in headers:
        message = "chunked requests are not accepted: send the body with Content-Length"
        return refused(400, message, "invalid_request_error", "http.chunked")
    if scope["method"] == "POST" and not headers.get(b"content-type", b"").lower().startswith(b"application/json"):
        message = "POST bodies must be Content-Type: application/json"
        return refused(415, message, "invalid_request_error", "http.content-type")
    if int(headers.get(b"content-length", b"0")) > MAX_BODY:
        return refused(413, f"request too large: at most {MAX_BODY >> 20} MiB", "invalid_request_error", "http.body-size")
    return None


async def _read(receive: Receive, seconds: float, keep: bool = True) -> bytes | Refusal | None:
    """The whole body; None when the client went away."""
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                if keep:
                    parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        return refused(408, f"the body did not come within {seconds:g} s", "invalid_request_error", "http.slow-body")


async def _send(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
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
