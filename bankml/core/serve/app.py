# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ASGI app: llama-server's routes over one engine. A route reads the request, asks, and shapes the reply; no more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bankml import __version__
from bankml.core.refusal import Refusal
from bankml.core.serve import chat, completions, shapes, text_routes
from bankml.core.serve.answer import Answer, parse
from bankml.core.serve.completion_shapes import Native, OpenAI, Shape
from bankml.core.serve.limits import BODY, NOTE, Limits
from bankml.core.serve.props import models, props
from bankml.core.serve.resident import Resident
from bankml.core.serve.settings import Settings
from bankml.core.serve.worker import Gone

if TYPE_CHECKING:
    from bankml.core.engine import Engine

Handler = Callable[[Request], Awaitable[Response]]

NOT_FOUND = {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}

_NEEDS_FLAG = {
    ("GET", "/metrics"): "metrics endpoint. Start it with `--metrics`",
    ("POST", "/props"): "changing global properties. Start it with `--props`",
    ("GET", "/slots"): "slots endpoint. Start it with `--slots`",
    ("POST", "/slots/{id}"): "slots action. Start it with `--slot-save-path`",
}
_NOT_HERE = (
    "/v1/chat/completions/control",
    "/responses",
    "/v1/responses",
    "/responses/input_tokens",
    "/v1/responses/input_tokens",
    "/chat/completions/input_tokens",
    "/v1/chat/completions/input_tokens",
    "/audio/transcriptions",
    "/v1/audio/transcriptions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/infill",
    "/embedding",
    "/embeddings",
    "/v1/embeddings",
    "/rerank",
    "/reranking",
    "/v1/rerank",
    "/v1/reranking",
    "/lora-adapters",
)


class JSONAnswer(Response):
    """A JSON body as llama-server writes it."""

    def __init__(self, value: Any, status: int = 200) -> None:
        headers = {"content-type": "application/json; charset=utf-8"}
        if status >= 400:
            headers["connection"] = "close"
        super().__init__(shapes.dump(value), status_code=status, headers=headers)


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
                    yield shapes.PING
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


class _App:
    """The routes' state."""

    def __init__(self, resident: Resident, settings: Settings, stopping: threading.Event) -> None:
        self.resident = resident
        self.settings = settings
        self.stopping = stopping
        self.started = time.time()

    async def health(self, request: Request) -> Response:
        return JSONAnswer({"status": "ok"})

    async def models(self, request: Request) -> Response:
        return JSONAnswer(models(await self.resident.acquire()))

    async def props(self, request: Request) -> Response:
        return JSONAnswer(props(await self.resident.acquire()))

    async def bankml(self, request: Request) -> Response:
        engine = self.resident.engine
        return JSONAnswer(
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

    def text(self, answer: Callable[[Engine, Any], dict[str, Any]]) -> Handler:
        async def handle(request: Request) -> Response:
            body = await parse(request.scope[BODY])
            engine = await self.resident.acquire()
            return JSONAnswer(await asyncio.to_thread(answer, engine, body))

        return handle

    async def chat(self, request: Request) -> Response:
        prepared = await chat.prepare(self.resident, request.scope[BODY])
        answers = Answer.of(self.resident, [prepared], self.stopping)
        return await _answered(request, answers, lambda: chat.whole(answers[0]), lambda: chat.stream(answers[0]))

    def completion(self, shape: Shape) -> Handler:
        async def handle(request: Request) -> Response:
            answers = Answer.of(self.resident, await completions.prepare(self.resident, request.scope[BODY]), self.stopping)
            return await _answered(
                request, answers, lambda: completions.whole(answers, shape), lambda: completions.stream(answers, shape)
            )

        return handle


async def _answered(
    request: Request,
    answers: Sequence[Answer[Any]],
    whole: Callable[[], Awaitable[Any]],
    stream: Callable[[], AsyncGenerator[bytes]],
) -> Response:
    """Answers that were prepared, in the form that their request asks for, for as long as its client is there."""
    wanted = answers[0].prepared.request
    watcher = asyncio.create_task(_leave_with_client(request, answers))
    try:
        if not wanted.stream:
            return JSONAnswer(await whole())
        events = stream()
        await anext(events)
    except Gone:
        return Response(status_code=499)
    except BaseException:
        watcher.cancel()
        raise
    finally:
        if not wanted.stream:
            watcher.cancel()
        request.scope[NOTE] = _note(answers)
    return EventStream(_guarded(events, request, answers, watcher), wanted.ping_seconds)


def _note(answers: Sequence[Answer[Any]]) -> str:
    return "; ".join(answer.note for answer in answers if answer.note)


async def _leave_with_client(request: Request, answers: Sequence[Answer[Any]]) -> None:
    """Give up the answers when their client goes away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    for answer in answers:
        answer.wanted.leave()


async def _guarded(
    events: AsyncIterator[bytes], request: Request, answers: Sequence[Answer[Any]], watcher: asyncio.Task[None]
) -> AsyncGenerator[bytes]:
    """The events; what goes wrong on the way is told as an event, as llama-server does."""
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
        watcher.cancel()
        request.scope[NOTE] = _note(answers)


def _internal(error: Exception) -> Refusal:
    return Refusal("serve.internal", f"internal error: {type(error).__name__}: {error}", status=500, kind="server_error")


def _refusing(handler: Handler) -> Handler:
    """The handler with every error told as llama-server tells it: none reaches the server, so no traceback does."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            if os.environ.get("BANKML_DEBUG") and not isinstance(error, Refusal):
                raise
            refusal = error if isinstance(error, Refusal) else _internal(error)
            request.scope[NOTE] = refusal.line()
            return JSONAnswer(refusal.http_body(), refusal.status)

    return handle


async def _no_route(request: Request, error: Exception) -> Response:
    return JSONAnswer(NOT_FOUND, 404)


def _unsupported(message: str) -> Handler:
    async def handle(request: Request) -> Response:
        raise Refusal("http.unsupported", message, status=501, kind="not_supported_error")

    return handle


def create_app(
    engine: Engine,
    settings: Settings | None = None,
    reopen: Callable[[], Engine] | None = None,
    stopping: threading.Event | None = None,
) -> Starlette:
    """The app over ``engine``.

    Args:
        reopen: verifies and opens the file again, after it was found changed.
        stopping: set when the server is to stop: answers in progress end.
    """
    chosen = settings or Settings()
    resident = Resident(engine, chosen.llama_threads, reopen)
    app = _App(resident, chosen, stopping or threading.Event())
    gets: dict[str, Handler] = {
        "/health": app.health,
        "/v1/health": app.health,
        "/models": app.models,
        "/v1/models": app.models,
        "/props": app.props,
        "/bankml": app.bankml,
    }
    posts: dict[str, Handler] = {
        "/tokenize": app.text(text_routes.tokenize),
        "/detokenize": app.text(text_routes.detokenize),
        "/apply-template": app.text(text_routes.apply_template),
        "/chat/completions": app.chat,
        "/v1/chat/completions": app.chat,
        "/completion": app.completion(Native()),
        "/completions": app.completion(Native()),
        "/v1/completions": app.completion(OpenAI()),
    }
    table = [("GET", path, handler) for path, handler in gets.items()]
    table += [("POST", path, handler) for path, handler in posts.items()]
    table += [
        (method, path, _unsupported(f"This server does not support {what}")) for (method, path), what in _NEEDS_FLAG.items()
    ]
    table += [("POST", path, _unsupported(f"bankml does not support llama-server's route {path}")) for path in _NOT_HERE]
    routes = [Route(path, _refusing(handler), methods=[method]) for method, path, handler in table]

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        app.stopping.set()
        await asyncio.to_thread(resident.close)

    built = Starlette(
        routes=routes,
        middleware=[Middleware(Limits, settings=chosen)],
        exception_handlers={HTTPException: _no_route},
        lifespan=lifespan,
    )
    built.router.redirect_slashes = False
    built.state.resident = resident
    return built
