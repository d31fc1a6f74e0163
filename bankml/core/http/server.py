# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the app on a port until a signal stops it; by SIGINT or SIGTERM it stops quickly, also in the middle of an answer."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import uvicorn
from starlette.types import ASGIApp

from bankml.core.http import memory
from bankml.core.http.log import Log
from bankml.core.http.protocol import limited
from bankml.core.http.settings import MAX_HEADERS, MAX_LINE, STOP_SECONDS, Settings
from bankml.refusal import Refusal

_BACKLOG = 128
_SWITCH_SECONDS = 0.0005
"""How long a thread that computes in Python keeps the interpreter while another waits for it."""


def bound_socket(settings: Settings) -> tuple[socket.socket, Settings]:
    """A socket bound to the address, not listening yet: clients are refused by the kernel until it does.

    Returns:
        The socket, and the settings with the port that the system chose where they ask for port 0.

    Raises:
        Refusal: something else holds the address, or it is not this machine's.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named: asyncio sends small writes at once only where it is.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise _cannot_listen(settings, error) from None
    return bound, replace(settings, port=bound.getsockname()[1])


def _cannot_listen(settings: Settings, error: OSError) -> Refusal:
    in_use = error.errno == errno.EADDRINUSE
    return Refusal(
        "serve.port",
        f"cannot listen on {settings.address}: {'another program does' if in_use else error.strerror}",
        where=settings.address,
        hint="--listen 127.0.0.1:PORT takes another port" if in_use else None,
    )


class _Server(uvicorn.Server):
    """uvicorn's server with bankml's way to stop, and with a word when it listens."""

    def __init__(self, config: uvicorn.Config, stopping: threading.Event, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT, SIGTERM and SIGHUP, and not raise them again: a stop that was asked for is no failure."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for each in signals:
            loop.add_signal_handler(each, self._stop)
        try:
            yield
        finally:
            for each in signals:
                loop.remove_signal_handler(each)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    def _stop(self) -> None:
        if self._stopping.is_set():
            self.force_exit = True
        self._stopping.set()
        self.should_exit = True


def run(
    make_app: Callable[[threading.Event, Log | None], ASGIApp],
    settings: Settings,
    bound: socket.socket,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal says stop, then end answers in progress.

    Args:
        make_app: makes the app of the event that is set when the server is to stop, and of the log of its requests.
        bound: from :func:`bound_socket`.
        ready: called once the port listens.

    Raises:
        Refusal: another program listens on the address since.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    memory.settle()
    stopping = threading.Event()
    log = None if settings.quiet else Log()
    try:
        bound.listen(_BACKLOG)
    except OSError as error:
        raise _cannot_listen(settings, error) from None
    try:
        server = _Server(configured(make_app(stopping, log), settings), stopping, ready)
        asyncio.run(server.serve([bound]))
    finally:
        if log is not None:
            log.close()


def configured(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """uvicorn with bankml's protocol, its limits and nothing else of its own."""
    return uvicorn.Config(
        app,
        http=limited(settings),
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(settings.read_seconds),
        timeout_graceful_shutdown=int(STOP_SECONDS),
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=(MAX_HEADERS + 2) * MAX_LINE,
    )
