# SPDX-License-Identifier: MIT OR Apache-2.0
"""Who goes next: one completion at a time, in the order of their first steps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

_LOOK_SECONDS = 0.05


class Scheduler:
    """A lock that is given in the order in which it was asked for, and that a waiting caller can give up on."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: deque[object] = deque()

    def enter(self, go_on: Callable[[], bool]) -> bool:
        """Wait for the turn; False when ``go_on`` says no before it came."""
        ticket = object()
        with self._changed:
            self._line.append(ticket)
            while self._line[0] is not ticket:
                if not go_on():
                    self._line.remove(ticket)
                    self._changed.notify_all()
                    return False
                self._changed.wait(_LOOK_SECONDS)
        return True

    def leave(self) -> None:
        """End the turn."""
        with self._changed:
            self._line.popleft()
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """How many have the turn or wait for it."""
        return len(self._line)
