# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lets long work end early: it asks now and then whether anybody still wants its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_wanted: ContextVar[Callable[[], bool] | None] = ContextVar("bankml_wanted", default=None)


class Abandoned(Exception):
    """Nobody wants the result any more."""


@contextmanager
def work_for(wanted: Callable[[], bool]) -> Iterator[None]:
    """Run the block for somebody who may leave; ``wanted`` is asked by :func:`go_on` and answers from any thread."""
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


def go_on() -> None:
    """Return if the result is still wanted; call it every few thousand steps of work that follows the size of an input.

    Raises:
        Abandoned: it is not.
    """
    wanted = _wanted.get()
    if wanted is not None and not wanted():
        raise Abandoned
