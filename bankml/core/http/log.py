# SPDX-License-Identifier: MIT OR Apache-2.0
"""The log: rows on stderr, written by a thread of their own, so that whoever reads them never holds up an answer."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Final

_WAITING: Final = 1000
_LAST_SECONDS: Final = 0.5


class Log:
    """Rows in the order in which they came. Where they come faster than they are read, the newest are dropped and counted."""

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._rows: deque[str] = deque()
        self._changed = threading.Condition()
        self._dropped = 0
        self._closed = False
        self._thread = threading.Thread(target=self._write, name="bankml-log", daemon=True)
        self._thread.start()

    def row(self, text: str) -> None:
        """Take a row; never waits."""
        with self._changed:
            if len(self._rows) >= _WAITING:
                self._dropped += 1
                return
            if self._dropped:
                self._rows.append(f"bankml serve: {self._dropped} rows of this log were dropped: nobody read them")
                self._dropped = 0
            self._rows.append(text)
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, if somebody reads it."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_LAST_SECONDS)

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._rows and not self._closed:
                    self._changed.wait()
                if not self._rows:
                    return
                row = self._rows.popleft()
            self._put(row.encode("utf-8", "backslashreplace") + b"\n")

    def _put(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            # Closed, or a full disk: a server goes on without its log.
            pass
