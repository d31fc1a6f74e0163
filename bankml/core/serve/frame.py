# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the routes of every dialect share: reading, answering and sending, and what an error becomes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from bankml.core.http import sse
from bankml.core.http.desk import Desk
from bankml.core.http.limits import BODY, NOTE
from bankml.core.http.responses import EventStream, json_body, refusal_body
from bankml.core.http.settings import Settings
from bankml.core.http.wanted import Gone, Wanted
from bankml.core.json.reader import read_json
from bankml.core.serve.answer import Answer, Prepared, Sent
from bankml.core.serve.resident import Resident
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.engine import Engine

Handler = Callable[[Request], Awaitable[Response]]
Asked = Callable[[Request, Wanted], Awaitable[Response]]
R = TypeVar("R")
P = TypeVar("P", bound=Prepared)

_LEFT: Final = 499
"""The status of a request whose client left, in the log."""


class Frame:
    """What the routes of every dialect share: the model, the desk, the settings; how a request is read, answered and sent."""

    def __init__(self, resident: Resident, settings: Settings, stopping: threading.Event) -> None:
        self.resident = resident
        self.settings = settings
        self.stopping = stopping
        self.desk = Desk()
        self.started = time.time()

    def text(self, answer: Callable[[Engine, Any], dict[str, Any]]) -> Asked:
        """The handler of a route that computes nothing: ``answer`` is given the engine and the body's JSON."""

        async def handle(request: Request, wanted: Wanted) -> Response:
            engine = await self.resident.acquire()
            body = request.scope[BODY]
            data = body.take()
            size = len(data)
            asked = [data]
            del data
            value = await self.desk.run(wanted, size, lambda: answer(engine, read_json(asked.pop())))
            return await json_body(self.desk, wanted, size, value)

        return handle

    async def prepared(
        self,
        request: Request,
        wanted: Wanted,
        read: Callable[[bytes], R],
        prepare: Callable[[Engine, R, Sent], list[P]],
    ) -> list[P]:
        """Requests that have all they need but their turn; of the body only its hash is left."""
        body = request.scope[BODY]
        held: list[Any] = [body.take()]
        size = len(held[0])

        def first() -> Sent:
            sent = Sent.of(held[0])
            held[0] = read(held[0])
            return sent

        sent = await self.desk.run(wanted, size, first)
        engine = await self.resident.acquire()
        prepared = await self.desk.run(wanted, size, lambda: prepare(engine, held.pop(), sent))
        body.free()
        return prepared

    async def answered(
        self,
        request: Request,
        wanted: Wanted,
        answers: Sequence[Answer[Any]],
        whole: Callable[[], Awaitable[Any]],
        stream: Callable[[], AsyncGenerator[bytes]],
    ) -> Response:
        """Answers that were prepared, in the form that their request asks for."""
        asked = answers[0].prepared
        try:
            if not asked.request.stream:
                return await json_body(self.desk, wanted, asked.sent.size, await whole())
            events = stream()
            await anext(events)
        finally:
            request.scope[NOTE] = _note(answers)
        return EventStream(_guarded(events, request, answers), asked.request.ping_seconds)


def _note(answers: Sequence[Answer[Any]]) -> str:
    return "; ".join(answer.note for answer in answers if answer.note)


async def _guarded(events: AsyncIterator[bytes], request: Request, answers: Sequence[Answer[Any]]) -> AsyncGenerator[bytes]:
    """The events; an error on the way becomes an event."""
    try:
        async for data in events:
            if data:
                yield data
    except Gone:
        pass
    except Refusal as refusal:
        answers[-1].note = refusal.message
        yield sse.event(refusal.http_body())
    except Exception as error:
        answers[-1].note = f"{type(error).__name__}: {error}"
        yield sse.event(_internal(error).http_body())
    finally:
        request.scope[NOTE] = _note(answers)


def _internal(error: Exception) -> Refusal:
    return Refusal("serve.internal", f"internal error: {type(error).__name__}: {error}", status=500, kind="server_error")


def refusing(handler: Handler) -> Handler:
    """Wrap a handler: every exception becomes an error body."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except Gone:
            request.scope[NOTE] = request.scope[NOTE] or "the client went away"
            return Response(status_code=_LEFT)
        except Exception as error:
            if os.environ.get("BANKML_DEBUG") and not isinstance(error, Refusal):
                raise
            # No variable of this frame may keep the error, whose traceback holds the frame and all that was read.
            return _refused(request, error if isinstance(error, Refusal) else _internal(error))

    return handle


def _refused(request: Request, refusal: Refusal) -> Response:
    request.scope[NOTE] = refusal.line()
    return refusal_body(refusal)


def watched(handler: Asked, app: Frame) -> Handler:
    """Wrap a handler: its work is wanted until its client leaves, from the first byte read to the last one sent."""

    async def handle(request: Request) -> Response:
        wanted = Wanted(app.stopping)
        watcher = asyncio.create_task(_watch(request, wanted))
        size = len(request.scope[BODY].data)

        def ended() -> None:
            watcher.cancel()
            app.desk.tidy(size)

        try:
            response = await handler(request, wanted)
        except BaseException:
            ended()
            raise
        return _Watched(response, ended)

    return handle


class _Watched(Response):
    """A response whose client is watched until it is sent."""

    def __init__(self, response: Response, ended: Callable[[], None]) -> None:
        self._response = response
        self._ended = ended

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the response."""
        try:
            await self._response(scope, receive, send)
        finally:
            self._ended()


async def _watch(request: Request, wanted: Wanted) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    wanted.leave()


def unsupported(message: str) -> Handler:
    """The handler of a route that is refused with 501."""

    async def handle(request: Request) -> Response:
        raise Refusal("http.unsupported", message, status=501, kind="not_supported_error")

    return handle
