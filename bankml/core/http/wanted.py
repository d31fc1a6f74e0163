# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the work for a request is still wanted: by its client, and by a server that is not stopping."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bankml.refusal import Refusal


class Gone(Exception):
    """The client left."""


class Wanted:
    """Whether the work for a request is still wanted: by its client, and by a server that is not stopping."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._gone = threading.Event()
        self._callbacks: list[Callable[[], None]] = []

    def __call__(self) -> bool:
        """True while there is someone to answer; asked from any thread, by the engine before each micro-batch and token."""
        return not (self._gone.is_set() or self._stopping.is_set())

    @property
    def gone(self) -> bool:
        """True when the client went away."""
        return self._gone.is_set()

    def leave(self) -> None:
        """Note that the client went away; on the event loop."""
        self._gone.set()
        for callback in [*self._callbacks]:
            callback()

    @contextmanager
    def leaving(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call ``callback`` when the client leaves within the block."""
        self._callbacks.append(callback)
        if self.gone:
            callback()
        try:
            yield
        finally:
            self._callbacks.remove(callback)

    def reason(self) -> Exception:
        """Why it is wanted no more."""
        return Gone() if self.gone else stopping()


def stopping() -> Refusal:
    """What a client hears whose answer a stopping server does not give."""
    return Refusal("serve.stopping", "bankml serve is stopping", status=503, kind="unavailable_error")
