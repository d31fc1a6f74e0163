# SPDX-License-Identifier: MIT OR Apache-2.0
"""Carries one answer from the thread that computes it to the event loop that sends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bankml.core.http.wanted import Gone, Wanted

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Step


@dataclass(frozen=True)
class Counts:
    """What was counted and measured while an answer was made.

    Attributes:
        prompt: tokens of the prompt, those found in the slot included.
        cached: tokens of the prompt found in the slot.
        completion: generated tokens, the end token included.
        prompt_ms: from the start to the first token's logits.
        predicted_ms: from then to the last token.
    """

    prompt: int
    cached: int
    completion: int
    prompt_ms: float
    predicted_ms: float


@dataclass(frozen=True)
class Started:
    """The answer's turn has come: the engine works on its prompt."""


@dataclass(frozen=True)
class Token:
    """A step, and what stood when it was made.

    Attributes:
        stopped: it completed a stop string.
        counts: up to this step.
    """

    step: Step
    stopped: bool
    counts: Counts


@dataclass(frozen=True)
class Finished:
    """The last event of an answer: its totals."""

    completion: Completion


Event = Started | Token | Finished


def counted(completion: Completion) -> Counts:
    """The numbers of a completion, up to now."""
    return Counts(
        prompt=completion.prompt_tokens,
        cached=completion.cached_tokens,
        completion=completion.completion_tokens,
        prompt_ms=completion.prompt_ms,
        predicted_ms=completion.predicted_ms,
    )


async def answer(thread: Executor, start: Callable[[], Completion], wanted: Wanted) -> AsyncIterator[Event]:
    """Run a completion in ``thread`` and yield its events as they come.

    Raises:
        Gone: the client left before its turn came.
        Refusal: the server was stopping when its turn came.
        Exception: whatever the engine raised; Refusals before the first step as well as after it.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | BaseException] = asyncio.Queue()
    held = [start]

    def put(item: Event | BaseException) -> None:
        # The loop may be gone when the server was stopped the hard way; nobody waits then.
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, item)

    def work() -> None:
        try:
            if not wanted():
                put(wanted.reason())
                return
            completion = held.pop()()
            put(Started())
            for step in completion:
                put(Token(step, completion.stop_word is not None, counted(completion)))
            put(Finished(completion))
        except BaseException as error:
            put(error)

    future = thread.submit(work)

    def drop() -> None:
        if future.cancel():
            held.clear()
            queue.put_nowait(Gone())

    finished = False
    with wanted.leaving(drop):
        try:
            while not finished:
                item = await queue.get()
                if isinstance(item, BaseException):
                    try:
                        raise item
                    finally:
                        # Its traceback holds this frame: together they would keep all that led to the error.
                        del item
                finished = isinstance(item, Finished)
                yield item
        finally:
            if not finished:
                wanted.leave()
            if not future.cancelled():
                await asyncio.shield(asyncio.wrap_future(future))
