# SPDX-License-Identifier: MIT OR Apache-2.0
"""The threads in which requests are read and bodies are written, so that the event loop only passes bytes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from bankml.core.abandon import Abandoned, go_on, work_for
from bankml.core.http import memory
from bankml.core.http.wanted import Wanted

T = TypeVar("T")

LARGE: Final = 1 << 20
"""Bytes of a body from which its request is read one at a time."""
_THREADS: Final = 2
_WORTH_TRIMMING: Final = 1 << 17


class _Job(Generic[T]):
    """Work that may be dropped, with all that it holds, as long as no thread has begun it."""

    def __init__(self, wanted: Wanted, work: Callable[[], T]) -> None:
        self._wanted = wanted
        self._work = [work]
        self.future: Future[T] | None = None

    def __call__(self) -> T:
        with work_for(self._wanted):
            go_on()
            return self._work.pop()()

    def drop(self) -> None:
        if self.future is not None and self.future.cancel():
            self._work.clear()


class Desk:
    """Runs the work of one request after the other; large requests wait for each other and for nobody else."""

    def __init__(self) -> None:
        self._usual = ThreadPoolExecutor(_THREADS, thread_name_prefix="bankml-requests")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="bankml-large-requests")

    async def run(self, wanted: Wanted, size: int, work: Callable[[], T]) -> T:
        """The result of ``work``, done in a thread for as long as it is wanted.

        Args:
            wanted: who waits for it.
            size: bytes of the request.
            work: asks :func:`bankml.core.abandon.go_on` wherever it may take long.

        Raises:
            Gone: the client left.
            Refusal: the server is stopping, or what ``work`` refuses.
        """
        job = _Job(wanted, work)
        del work
        job.future = (self._large if size > LARGE else self._usual).submit(job)
        try:
            with wanted.leaving(job.drop):
                return await asyncio.wrap_future(job.future)
        except (Abandoned, asyncio.CancelledError):
            if wanted():
                raise
            raise wanted.reason() from None
        finally:
            # An exception holds this frame, and the future the exception: a circle that would keep the request's memory.
            job.future = None

    def tidy(self, size: int) -> None:
        """After a request of this size: give its memory back to the system."""
        if size > _WORTH_TRIMMING:
            self._large.submit(memory.give_back)

    def close(self) -> None:
        """Drop what waits; what runs ends when it next asks whether it is wanted."""
        for pool in (self._usual, self._large):
            pool.shutdown(wait=False, cancel_futures=True)
