# SPDX-License-Identifier: MIT OR Apache-2.0
"""One run of a template: its date and its budget.

Every limit is a count, so that the same template and the same messages have the same verdict on every machine and at any load.
A body is paid for when it is entered, a pass of a loop before it begins, a string or a list by its length before it is made.
No clock is read. A step is the work of one node, a quarter of a microsecond or less; prices were measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bankml.core.jinja.errors import LimitError

MAX_STRING = 32 << 20  # bytes of any one string
MAX_OUTPUT = 128 << 20  # bytes that all bodies print, those inside macros included
MAX_DEPTH = 700  # Python frames that nested expressions, calls of macros and nested values may take
_STRING = 40  # bytes of an empty string
_LIST = 64  # bytes of an empty list


@dataclass(frozen=True)
class Budget:
    """What a run may take.

    Attributes:
        steps: work, counted in nodes.
        memory: bytes of strings and lists made; those of a variable's last string are given back when it gets another.
    """

    steps: int = 2_000_000
    memory: int = 256 << 20

    def for_variables(self, variables: Mapping[bytes, Any]) -> Budget:
        """More for every value and every byte of text among the variables, up to MOST."""
        values = length = 0
        seen: set[int] = set()
        waiting: list[Any] = [variables]
        while waiting:
            value = waiting.pop()
            values += 1
            if isinstance(value, bytes):
                length += len(value)
            elif isinstance(value, (dict, list)) and id(value) not in seen:
                seen.add(id(value))
                waiting += value.values() if isinstance(value, dict) else value
        steps = self.steps + 5_000 * values + 50 * length
        memory = self.memory + 10_000 * values + 200 * length
        return Budget(min(steps, MOST.steps), min(memory, MOST.memory))


SMALL = Budget()
MOST = Budget(steps=100_000_000, memory=1 << 30)


def is_held(value: Any) -> bool:
    """Whether anything but a name of the caller holds the value."""
    return sys.getrefcount(value) > _LAST_HOLDER


def _last_holder() -> int:
    """What the interpreter counts where one name of a caller is all that holds a value."""
    value = bytes(range(4))

    def count(held: Any) -> int:
        return sys.getrefcount(held)

    return count(value)


_LAST_HOLDER = _last_holder()


class Run:
    """The state that one run shares between all its scopes.

    Args:
        now: the local time that ``strftime_now`` shows.
        budget: what the run may take.
        trace: whether uses of traced values are noted.
        pieces: whether joined strings remember their pieces.

    Attributes:
        steps, memory: what is left of the budget.
        depth: how many more frames may be entered.
        holds_arrays: whether an array was ever printed.
    """

    __slots__ = ("budget", "depth", "holds_arrays", "memory", "now", "output", "pieces", "steps", "trace")

    def __init__(self, now: time.struct_time, budget: Budget, trace: bool = False, pieces: bool = False) -> None:
        self.now = now
        self.budget = budget
        self.trace = trace
        self.pieces = pieces
        self.holds_arrays = False
        self.steps = budget.steps
        self.memory = budget.memory
        self.output = MAX_OUTPUT
        self.depth = MAX_DEPTH

    @property
    def rest(self) -> Budget:
        """What is left."""
        return Budget(self.steps, self.memory)

    def spend(self, steps: int) -> None:
        """Pays for work. Raises: LimitError when the budget is used up."""
        self.steps -= steps
        if self.steps < 0:
            raise LimitError("work of the template", f"{self.budget.steps} steps on these messages")

    def hold(self, size: int) -> None:
        """Pays for bytes of memory. Raises: LimitError when the budget is used up."""
        self.memory -= size
        if self.memory < 0:
            raise LimitError("memory of the template", f"{self.budget.memory} bytes on these messages")

    def read(self, length: int) -> None:
        """Pays for a search through a string, or a comparison."""
        if length > 63:
            self.spend(length >> 6)

    def copy(self, length: int) -> None:
        """Pays for the copying of a string. Raises: LimitError when it would be too long."""
        if length > 511:
            if length > MAX_STRING:
                raise LimitError("length of a string in the template", f"{MAX_STRING} bytes")
            self.spend(length >> 9)

    def room(self, length: int) -> None:
        """Pays for a string before it is made. Raises: LimitError when it would be too long."""
        self.copy(length)
        self.hold(_STRING + length)

    def grow(self, length: int, each: int = 8) -> None:
        """Pays for a list before it is made; ``each`` is how many bytes an element takes."""
        self.spend(1 + (length >> 3))
        self.hold(_LIST + each * length)

    def replaced(self, old: Any) -> None:
        """Gives back the memory of a string that was a variable's value, where the caller's name is the last to hold it."""
        if isinstance(old, bytes) and sys.getrefcount(old) <= _LAST_HOLDER:
            self.memory += _STRING + len(old)

    def enter(self, frames: int) -> None:
        """Goes deeper; who enters adds the frames to ``depth`` again. Raises: LimitError when it is too deep."""
        self.depth -= frames
        if self.depth < 0:
            raise LimitError("depth of the template or of its values", f"{MAX_DEPTH} levels")

    def reach(self, frames: int) -> None:
        """Makes sure that this number of frames is left. Raises: LimitError when they are not."""
        if self.depth < frames:
            self.enter(frames)

    def copied(self, scope: dict[bytes, Any]) -> dict[bytes, Any]:
        """A copy of a scope, paid for."""
        self.spend(2 + (len(scope) >> 4))
        return dict(scope)

    def printed(self, text: bytes) -> None:
        """Pays for output. Raises: LimitError when the prompt grows too long."""
        self.output -= len(text)
        if self.output < 0:
            raise LimitError("output of the template", f"{MAX_OUTPUT} bytes")
