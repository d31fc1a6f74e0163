# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ASGI app: llama-server's routes over one engine. A route reads the request, asks, and shapes the reply; no more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bankml import __version__
from bankml.core.json.reader import read_json
from bankml.core.json.writer import dump
from bankml.core.refusal import Refusal
from bankml.core.serve import chat, completions, shapes, text_routes
from bankml.core.serve.answer import Answer, Prepared, Sent
from bankml.core.serve.completion_shapes import Native, OpenAI, Shape
from bankml.core.serve.desk import Desk
from bankml.core.serve.limits import BODY, NOTE, Limits
from bankml.core.serve.log import Log
from bankml.core.serve.props import models, props
from bankml.core.serve.request import AnswerRequest
from bankml.core.serve.resident import Resident
from bankml.core.serve.responses import EventStream, json_body, refusal_body, small_json
from bankml.core.serve.settings import Settings
from bankml.core.serve.worker import Gone, Wanted

if TYPE_CHECKING:
    from bankml.core.engine import Engine

Handler = Callable[[Request], Awaitable[Response]]
Asked = Callable[[Request, Wanted], Awaitable[Response]]
R = TypeVar("R", bound=AnswerRequest)
P = TypeVar("P", bound=Prepared)

_LEFT: Final = 499
"""The status of a request whose client left, in the log."""
NOT_FOUND = {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}

_NEEDS_FLAG = {
    ("GET", "/metrics"): "metrics endpoint. Start it with `--metrics`",
    ("POST", "/props"): "changing global properties. Start it with `--props`",
    ("GET", "/slots"): "slots endpoint. Start it with `--slots`",
    ("POST", "/slots/{id}"): "slots action. Start it with `--slot-save-path`",
}
_NOT_HERE = (
    ("POST", "/v1/chat/completions/control"),
    ("POST", "/responses"),
    ("POST", "/v1/responses"),
    ("POST", "/responses/input_tokens"),
    ("POST", "/v1/responses/input_tokens"),
    ("POST", "/chat/completions/input_tokens"),
    ("POST", "/v1/chat/completions/input_tokens"),
    ("POST", "/audio/transcriptions"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/infill"),
    ("POST", "/embedding"),
    ("POST", "/embeddings"),
    ("POST", "/v1/embeddings"),
    ("POST", "/rerank"),
    ("POST", "/reranking"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/reranking"),
    ("GET", "/lora-adapters"),
    ("POST", "/lora-adapters"),
    ("GET", "/v1/stream"),
    ("DELETE", "/v1/stream"),
    ("POST", "/v1/streams/lookup"),
    ("GET", "/cors-proxy"),
    ("POST", "/cors-proxy"),
    ("GET", "/tools"),
    ("POST", "/tools"),
)
"""Routes that llama-server has, if only to refuse them. Source: main of tools/server/server.cpp."""


class _App:
    """The routes' state."""

    def __init__(self, resident: Resident, settings: Settings, stopping: threading.Event) -> None:
        self.resident = resident
        self.settings = settings
        self.stopping = stopping
        self.desk = Desk()
        self.started = time.time()

    async def health(self, request: Request) -> Response:
        return small_json({"status": "ok"})

    async def models(self, request: Request) -> Response:
        return small_json(models(await self.resident.acquire()))

    async def props(self, request: Request) -> Response:
        return small_json(props(await self.resident.acquire()))

    async def bankml(self, request: Request) -> Response:
        engine = self.resident.engine
        return small_json(
            {
                **self.resident.verification,
                "bankml": __version__,
                "resident": engine is not None,
                "settings": {
                    "listen": self.settings.address,
                    "ctx": engine.n_ctx if engine else None,
                    "threads": self.settings.threads,
                    "llama_threads": self.settings.llama_threads,
                    "allow_origin": sorted(self.settings.allow_origin),
                },
                "started_at": int(self.started),
            }
        )

    def text(self, answer: Callable[[Engine, Any], dict[str, Any]]) -> Asked:
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

    def chat(self) -> Asked:
        async def handle(request: Request, wanted: Wanted) -> Response:
            answers = await self._prepared(request, wanted, chat.read, chat.prepare)
            return await self._answered(request, wanted, answers, lambda: chat.whole(answers[0]), lambda: chat.stream(answers[0]))

        return handle

    def completion(self, shape: Shape) -> Asked:
        async def handle(request: Request, wanted: Wanted) -> Response:
            answers = await self._prepared(request, wanted, completions.read, completions.prepare)
            return await self._answered(
                request, wanted, answers, lambda: completions.whole(answers, shape), lambda: completions.stream(answers, shape)
            )

        return handle

    async def _prepared(
        self,
        request: Request,
        wanted: Wanted,
        read: Callable[[bytes], R],
        prepare: Callable[[Engine, R, Sent], list[P]],
    ) -> list[Answer[P]]:
        """Answers that have all they need but their turn; of the request's body only its hash is left."""
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
        return Answer.of(self.resident, self.desk, prepared, wanted)

    async def _answered(
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
    """The events; an error on the way becomes an event, as in llama-server."""
    try:
        async for data in events:
            if data:
                yield data
    except Gone:
        pass
    except Refusal as refusal:
        answers[-1].note = refusal.message
        yield shapes.event(refusal.http_body())
    except Exception as error:
        answers[-1].note = f"{type(error).__name__}: {error}"
        yield shapes.event(_internal(error).http_body())
    finally:
        request.scope[NOTE] = _note(answers)


def _internal(error: Exception) -> Refusal:
    return Refusal("serve.internal", f"internal error: {type(error).__name__}: {error}", status=500, kind="server_error")


def _refusing(handler: Handler) -> Handler:
    """Wrap a handler: every exception becomes llama-server's error body."""

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


def _watched(handler: Asked, app: _App) -> Handler:
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


async def _no_route(request: Request, error: Exception) -> Response:
    return Response(dump(NOT_FOUND), 404, {"content-type": "application/json; charset=utf-8", "connection": "close"})


def _unsupported(message: str) -> Handler:
    async def handle(request: Request) -> Response:
        raise Refusal("http.unsupported", message, status=501, kind="not_supported_error")

    return handle


def create_app(
    engine: Engine,
    settings: Settings | None = None,
    reopen: Callable[[], Engine] | None = None,
    stopping: threading.Event | None = None,
    log: Log | None = None,
) -> Starlette:
    """The app over ``engine``.

    Args:
        reopen: verifies and opens the file again, after it was found changed.
        stopping: set when the server is to stop: answers in progress end.
        log: gets a row for each request.
    """
    chosen = settings or Settings()
    stop = stopping or threading.Event()
    resident = Resident(engine, chosen.llama_threads, reopen)
    app = _App(resident, chosen, stop)
    gets: dict[str, Handler] = {
        "/health": app.health,
        "/v1/health": app.health,
        "/models": app.models,
        "/v1/models": app.models,
        "/props": app.props,
        "/bankml": app.bankml,
    }
    posts: dict[str, Asked] = {
        "/tokenize": app.text(text_routes.tokenize),
        "/detokenize": app.text(text_routes.detokenize),
        "/apply-template": app.text(text_routes.apply_template),
        "/chat/completions": app.chat(),
        "/v1/chat/completions": app.chat(),
        "/completion": app.completion(Native()),
        "/completions": app.completion(Native()),
        "/v1/completions": app.completion(OpenAI()),
    }
    table = [("GET", path, handler) for path, handler in gets.items()]
    table += [("POST", path, _watched(handler, app)) for path, handler in posts.items()]
    table += [
        (method, path, _unsupported(f"This server does not support {what}")) for (method, path), what in _NEEDS_FLAG.items()
    ]
    table += [(method, path, _unsupported(f"bankml does not support llama-server's route {path}")) for method, path in _NOT_HERE]
    routes = [Route(path, _refusing(handler), methods=[method]) for method, path, handler in table]

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        stop.set()
        app.desk.close()
        await asyncio.to_thread(resident.close)

    built = Starlette(
        routes=routes,
        middleware=[Middleware(Limits, settings=chosen, log=log)],
        exception_handlers={HTTPException: _no_route},
        lifespan=lifespan,
    )
    built.router.redirect_slashes = False
    built.state.resident = resident
    return built
