# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ASGI app: the routes of every dialect over one engine, and ``/bankml``.

May import: core.engine, core.http, core.json, core.serve, core.serve.llama.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bankml import __version__
from bankml.core.http.limits import Limits
from bankml.core.http.log import Log
from bankml.core.http.responses import small_json
from bankml.core.http.settings import Settings
from bankml.core.json.writer import dump
from bankml.core.serve.frame import Frame, Handler, refusing
from bankml.core.serve.llama.routes import NOT_FOUND, routes
from bankml.core.serve.resident import Resident

if TYPE_CHECKING:
    from bankml.core.engine import Engine


def _about(frame: Frame) -> Handler:
    async def handle(request: Request) -> Response:
        engine = frame.resident.engine
        return small_json(
            {
                **frame.resident.verification,
                "bankml": __version__,
                "resident": engine is not None,
                "settings": {
                    "listen": frame.settings.address,
                    "ctx": engine.n_ctx if engine else None,
                    "threads": frame.settings.threads,
                    "llama_threads": frame.settings.llama_threads,
                    "allow_origin": sorted(frame.settings.allow_origin),
                },
                "started_at": int(frame.started),
            }
        )

    return handle


async def _no_route(request: Request, error: Exception) -> Response:
    return Response(dump(NOT_FOUND), 404, {"content-type": "application/json; charset=utf-8", "connection": "close"})


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
    frame = Frame(resident, chosen, stop)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        stop.set()
        frame.desk.close()
        await asyncio.to_thread(resident.close)

    built = Starlette(
        routes=[*routes(frame), Route("/bankml", refusing(_about(frame)))],
        middleware=[Middleware(Limits, settings=chosen, log=log)],
        exception_handlers={HTTPException: _no_route},
        lifespan=lifespan,
    )
    built.router.redirect_slashes = False
    built.state.resident = resident
    return built
