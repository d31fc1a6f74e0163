# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which bytes of an answer may leave now: whole characters only, and nothing that may still become a stop string.

Source: process_token and find_stopping_strings, tools/server/server-context.cpp; validate_utf8, tools/server/server-common.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence


def cut_character(text: bytes | bytearray) -> int:
    """How many bytes at the end begin a character that is not complete."""
    for back in range(1, min(3, len(text)) + 1):
        byte = text[-back]
        if byte >= 0xF8 or byte < 0xC0:
            continue
        length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        if back < length:
            return back
    return 0


def partial_stop(text: bytes, stop: bytes) -> int:
    """Where the longest start of ``stop`` that ends ``text`` begins, -1 where there is none.

    Source: string_find_partial_stop, common/common.h.
    """
    for length in range(min(len(text), len(stop)), 0, -1):
        if text.endswith(stop[:length]):
            return len(text) - length
    return -1


class Release:
    """The bytes of an answer; ``push`` gives what may be sent.

    Attributes:
        text: all bytes so far, without the stop string and what came after it.
        stop_word: the stop string that was met.
        whole: the last token pushed left no character unfinished.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self.text = bytearray()
        self.stop_word: str | None = None
        self.whole = True
        self._stop = [(word, word.encode("utf-8", "surrogatepass")) for word in stop]
        self._sent = 0

    def push(self, piece: bytes, ends: bool = False) -> bytes:
        """Take the bytes of a token. An end token also releases text held back as a possible stop string."""
        self.text += piece
        self.whole = not cut_character(self.text)
        if not self.whole:
            return b""
        if self._stop:
            pending = bytes(self.text[self._sent :])
            at = self._met(pending, len(piece))
            if at >= 0:
                del self.text[self._sent + at :]
            elif not ends and any(partial_stop(pending, word) >= 0 for _, word in self._stop):
                return b""
        released = bytes(self.text[self._sent :])
        self._sent = len(self.text)
        return released

    def _met(self, pending: bytes, last: int) -> int:
        """Where the first stop string begins in what was not sent, -1 where none is complete."""
        first = -1
        for name, word in self._stop:
            at = pending.find(word, max(0, len(pending) - len(word) - last))
            if at >= 0 and (first < 0 or at < first):
                first = at
                self.stop_word = name
        return first
