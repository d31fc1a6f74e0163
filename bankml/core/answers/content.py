# SPDX-License-Identifier: MIT OR Apache-2.0
"""Splits a chat answer into content and reasoning, streamed or whole.

Source: task_result_state (tools/server/server-task.cpp), common_chat_msg_diff::compute_diffs (common/chat.cpp).
"""

from __future__ import annotations

from bankml.core.answers.chat_formats import NATIVE
from bankml.core.answers.chat_grammar import ChatGrammar
from bankml.core.answers.peg_read import MismatchError, Reader, Said
from bankml.refusal import Refusal


class Content:
    """One answer, split as it comes.

    Args:
        chat: what the answer was bound and is read by.
        silent_prefill: a continued message is not sent again.

    Attributes:
        said: what was returned so far.
    """

    def __init__(self, chat: ChatGrammar, silent_prefill: bool = False) -> None:
        self._chat = chat
        self._reader = Reader(chat.parser, keeps_blank=chat.format != NATIVE)
        self._text = chat.prefill
        self.said = Said()
        if silent_prefill:
            self.said = self._read(partial=True)

    def push(self, text: bytes, last: bool = False) -> Said:
        """Take the next bytes of the answer, whole characters but for the last ones; returns what is new.

        Raises:
            Refusal: ``chat.format``, with the words and the status of llama-server: the answer does not fit.
        """
        self._text += text
        new = self._read(partial=not last)
        if new == Said():
            return new
        before, self.said = self.said, new
        return Said(_added(before.content, new.content), _added(before.reasoning, new.reasoning))

    def _read(self, partial: bool) -> Said:
        try:
            return self._reader.read(self._text, partial)
        except MismatchError:
            raise _failed(f"The model produced output that does not match the expected {self._chat.format} format") from None


def _added(before: bytes, now: bytes) -> bytes:
    """What a text has more than it had; nothing where it has less."""
    if now.startswith(before):
        return now[len(before) :]
    if before.startswith(now):
        return b""
    raise _failed(f"Invalid diff: '{before.decode('utf-8', 'replace')}' not found at start of '{now.decode('utf-8', 'replace')}'")


def _failed(message: str) -> Refusal:
    return Refusal("chat.format", message, status=500, kind="server_error")
