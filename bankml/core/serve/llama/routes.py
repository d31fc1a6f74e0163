# SPDX-License-Identifier: MIT OR Apache-2.0
"""llama-server's routes. A route reads the request, asks, and shapes the reply; no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bankml.core.http.responses import small_json
from bankml.core.http.wanted import Wanted
from bankml.core.serve.frame import Asked, Frame, Handler, P, refusing, unsupported, watched
from bankml.core.serve.llama import chat, completions, text_routes
from bankml.core.serve.llama.answer import LlamaAnswer, new_id
from bankml.core.serve.llama.completion_shapes import Native, OpenAI, Shape
from bankml.core.serve.llama.props import models, props

NOT_FOUND: Final = {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}
"""What llama-server answers where it has no route."""

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


class _Llama:
    """The handlers of the routes."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    def _answers(self, prepared: Sequence[P], wanted: Wanted) -> list[LlamaAnswer[P]]:
        return LlamaAnswer[P].of(self.frame.resident, self.frame.desk, prepared, wanted, new_id())

    async def health(self, request: Request) -> Response:
        return small_json({"status": "ok"})

    async def models(self, request: Request) -> Response:
        return small_json(models(await self.frame.resident.acquire()))

    async def props(self, request: Request) -> Response:
        return small_json(props(await self.frame.resident.acquire()))

    def chat(self) -> Asked:
        async def handle(request: Request, wanted: Wanted) -> Response:
            prepared = await self.frame.prepared(request, wanted, chat.read, chat.prepare)
            answers = self._answers(prepared, wanted)
            return await self.frame.answered(
                request, wanted, answers, lambda: chat.whole(answers[0]), lambda: chat.stream(answers[0])
            )

        return handle

    def completion(self, shape: Shape) -> Asked:
        async def handle(request: Request, wanted: Wanted) -> Response:
            prepared = await self.frame.prepared(request, wanted, completions.read, completions.prepare)
            answers = self._answers(prepared, wanted)
            return await self.frame.answered(
                request, wanted, answers, lambda: completions.whole(answers, shape), lambda: completions.stream(answers, shape)
            )

        return handle


def routes(frame: Frame) -> list[Route]:
    """Every route of llama-server; those that bankml does not support refuse by name."""
    llama = _Llama(frame)
    gets: dict[str, Handler] = {
        "/health": llama.health,
        "/v1/health": llama.health,
        "/models": llama.models,
        "/v1/models": llama.models,
        "/props": llama.props,
    }
    posts: dict[str, Asked] = {
        "/tokenize": frame.text(text_routes.tokenize),
        "/detokenize": frame.text(text_routes.detokenize),
        "/apply-template": frame.text(text_routes.apply_template),
        "/chat/completions": llama.chat(),
        "/v1/chat/completions": llama.chat(),
        "/completion": llama.completion(Native()),
        "/completions": llama.completion(Native()),
        "/v1/completions": llama.completion(OpenAI()),
    }
    table = [("GET", path, handler) for path, handler in gets.items()]
    table += [("POST", path, watched(handler, frame)) for path, handler in posts.items()]
    table += [(method, path, unsupported(f"This server does not support {what}")) for (method, path), what in _NEEDS_FLAG.items()]
    table += [(method, path, unsupported(f"bankml does not support llama-server's route {path}")) for method, path in _NOT_HERE]
    return [Route(path, refusing(handler), methods=[method]) for method, path, handler in table]
