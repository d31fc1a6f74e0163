# SPDX-License-Identifier: MIT OR Apache-2.0
"""One run of a template: its clock, its budget, its traces.

The budget is counted, not timed, so that the same template is refused everywhere: every node that a loop, a macro or
a block may execute is paid for before it runs, and every string by its length. A limit of processor time stands behind
it for what the count misjudges.
"""

from __future__ import annotations

import time
from typing import Any

from bankml.core.text.jinja.errors import LimitError
from bankml.core.text.jinja.values import Obj

MAX_STEPS = 5_000_000  # nodes, or 32 bytes of string work each
MAX_STRING = 16 << 20  # bytes of any one string
MAX_OUTPUT = 64 << 20  # bytes that all bodies print, those inside macros included
MAX_SECONDS = 1.0  # of this thread's processor time
_CLOCK_EVERY = 50_000


class TracedStr(bytes):
    """A string that remembers what a template did with it."""

    used = False
    ops: set[bytes]


class TracedList(list[Any]):
    """An array that remembers what a template did with it."""

    used = False
    ops: set[bytes]


class TracedObj(Obj):
    """An object that remembers what a template did with it."""

    used = False
    ops: set[bytes]


Traced = (TracedStr, TracedList, TracedObj)


def mark(value: Any, *ops: bytes) -> None:
    """Notes that a traced value was used, and by which operations."""
    if isinstance(value, Traced):
        value.used = True
        value.ops.update(ops)


def mark_deep(value: Any) -> None:
    """Notes that a value and everything in it was used; what is in it twice is looked at once."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        mark(item)
        if isinstance(item, (dict, list, tuple)):
            seen.add(id(item))
            waiting += item.values() if isinstance(item, dict) else item
            if isinstance(item, dict):
                for key in item:
                    mark(key)


def traced(value: Any) -> Any:
    """A copy of a value in which every string, array and object can be traced."""
    copy: Any
    if isinstance(value, dict):
        copy = TracedObj((key, traced(item)) for key, item in value.items())
    elif isinstance(value, list):
        copy = TracedList([traced(item) for item in value])
    elif isinstance(value, bytes):
        copy = TracedStr(value)
    else:
        return value
    copy.ops = set()
    return copy


class Run:
    """The state that one run shares between all its scopes.

    Args:
        now: the local time that ``strftime_now`` shows.
        trace: whether uses of traced values are noted.
        pieces: whether joined strings remember their pieces.
        seconds: how much processor time the run may take.

    Attributes:
        holds_arrays: whether an array was ever printed.
    """

    __slots__ = ("_deadline", "_next_look", "holds_arrays", "left", "now", "output", "pieces", "trace")

    def __init__(self, now: time.struct_time, trace: bool = False, pieces: bool = False, seconds: float = MAX_SECONDS) -> None:
        self.now = now
        self.trace = trace
        self.pieces = pieces
        self.holds_arrays = False
        self.left = MAX_STEPS
        self.output = MAX_OUTPUT
        self._deadline = time.thread_time() + seconds
        self._next_look = MAX_STEPS - _CLOCK_EVERY

    def spend(self, steps: int) -> None:
        """Pays for work. Raises: LimitError when the budget or the time is used up."""
        self.left -= steps
        if self.left < self._next_look:
            if self.left < 0:
                raise LimitError("work of the template", f"{MAX_STEPS} steps")
            if time.thread_time() > self._deadline:
                raise LimitError("time of the template", f"{MAX_SECONDS:g} s")
            self._next_look = self.left - _CLOCK_EVERY

    def room(self, length: int) -> None:
        """Pays for a string before it is made. Raises: LimitError when it would be too long."""
        if length > MAX_STRING:
            raise LimitError("length of a string in the template", f"{MAX_STRING} bytes")
        if length > 31:
            self.spend(length >> 5)

    def copied(self, scope: dict[bytes, Any]) -> dict[bytes, Any]:
        """A copy of a scope, paid for."""
        if len(scope) > 63:
            self.spend(len(scope) >> 3)
        return dict(scope)

    def sized(self, text: bytes) -> bytes:
        """The string, paid for."""
        self.room(len(text))
        return text

    def printed(self, text: bytes) -> None:
        """Pays for output. Raises: LimitError when the prompt grows too long."""
        self.output -= len(text)
        if self.output < 0:
            raise LimitError("output of the template", f"{MAX_OUTPUT} bytes")
