# SPDX-License-Identifier: MIT OR Apache-2.0
"""Carries one answer from the thread that computes it to the event loop that sends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bankml.core.serve.shapes import Counts

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Step


@dataclass(frozen=True)
class Begun:
    """The answer's turn has come: the engine works on its prompt."""


@dataclass(frozen=True)
class Took:
    """A step, and what stood when it was made.

    Attributes:
        stopped: it completed a stop string.
        counts: up to this step.
    """

    step: Step
    stopped: bool
    counts: Counts


@dataclass(frozen=True)
class Ended:
    """The last event of an answer: its totals."""

    completion: Completion


def counted(completion: Completion) -> Counts:
    """The numbers of a completion, up to now."""
    return Counts(
        prompt=completion.prompt_tokens,
        cached=completion.cached_tokens,
        completion=completion.completion_tokens,
        prompt_ms=completion.prompt_ms,
        predicted_ms=completion.predicted_ms,
    )


class Gone(Exception):
    """The client left before its answer's turn came."""


class Wanted:
    """Whether an answer is still wanted: by its client, and by a server that is not stopping."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._gone = threading.Event()

    def __call__(self) -> bool:
        """True while there is someone to answer; read by the engine before each micro-batch and each token."""
        return not (self._gone.is_set() or self._stopping.is_set())

    @property
    def gone(self) -> bool:
        """True when the client went away."""
        return self._gone.is_set()

    def leave(self) -> None:
        """The client went away."""
        self._gone.set()


async def answer(thread: Executor, start: Callable[[], Completion], wanted: Wanted) -> AsyncIterator[Begun | Took | Ended]:
    """Run a completion in ``thread`` and yield its events as they come.

    Raises:
        Gone: nobody wanted it any more when its turn came.
        Exception: whatever the engine raised; Refusals before the first step as well as after it.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Begun | Took | Ended | BaseException] = asyncio.Queue()

    def put(item: Begun | Took | Ended | BaseException) -> None:
        # The loop may be gone when the server was stopped the hard way; nobody waits then.
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, item)

    def work() -> None:
        try:
            if not wanted():
                put(Gone())
                return
            completion = start()
            put(Begun())
            for step in completion:
                put(Took(step, completion.stop_word is not None, counted(completion)))
            put(Ended(completion))
        except BaseException as error:
            put(error)

    future = loop.run_in_executor(thread, work)
    try:
        while True:
            item = await queue.get()
            if isinstance(item, BaseException):
                raise item
            yield item
            if isinstance(item, Ended):
                return
    finally:
        wanted.leave()
        await asyncio.shield(future)
