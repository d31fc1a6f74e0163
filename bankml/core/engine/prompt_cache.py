# SPDX-License-Identifier: MIT OR Apache-2.0
"""The host's prompt cache: K and V of conversations that the slot had to leave, kept in memory.

Source: server_prompt_cache, tools/server/server-task.cpp.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bankml.core.refusal import EXIT_OTHER, Refusal

DEFAULT_MIB = 8192
_MIB = 1 << 20


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens a and b share at their start."""
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return shorter
    return next(i for i in range(shorter) if a[i] != b[i])


def ram_mib() -> int:
    """MiB that the cache may hold: ``BANKML_CACHE_RAM``, else llama-server's default, whatever is free; 0 is off, -1 no limit.

    Raises:
        Refusal: the variable is no whole number of -1 or more.
    """
    asked = os.environ.get("BANKML_CACHE_RAM")
    if not asked:
        return DEFAULT_MIB
    try:
        mib = int(asked)
    except ValueError:
        mib = -2
    if mib < -1:
        raise Refusal(
            "engine.cache-ram",
            "BANKML_CACHE_RAM is not a size in MiB",
            found=asked[:40],
            allowed="a whole number; 0 is off, -1 without limit",
            exit_code=EXIT_OTHER,
        )
    return mib


def ram_limit(mib: int | None = None) -> int | None:
    """A size in MiB, that of ``ram_mib`` where none is given, in bytes: None means no cache, -1 no limit."""
    mib = ram_mib() if mib is None else mib
    return {0: None, -1: -1}.get(mib, mib * _MIB)


@dataclass
class Entry:
    """Tokens, what the model needs to have them in its cells again, and the bytes of llama-server's state of them."""

    tokens: list[int]
    cells: Any
    size: int


class PromptCache:
    """Entries from the oldest to the newest.

    Args:
        limit: bytes, as llama-server counts them, -1 without limit.
        limit_tokens: tokens that are kept whatever the bytes allow.
    """

    def __init__(self, limit: int, limit_tokens: int) -> None:
        self.limit = limit
        self.limit_tokens = limit_tokens
        self.entries: list[Entry] = []

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(entry.size for entry in self.entries)

    @property
    def n_tokens(self) -> int:
        """Tokens of all entries."""
        return sum(len(entry.tokens) for entry in self.entries)

    def save(self, tokens: list[int], size: int, copy: Callable[[], Any]) -> None:
        """Keep what the slot holds, unless an entry has it already or it is larger than the whole cache.

        ``copy`` is called only when there is room for its ``size`` bytes.

        Source: server_prompt_cache::alloc.
        """
        if not tokens or any(common_prefix(entry.tokens, tokens) == len(tokens) for entry in self.entries):
            return
        if 0 < self.limit < size:
            return
        self.entries = [entry for entry in self.entries if common_prefix(entry.tokens, tokens) < len(entry.tokens)]
        while self.limit > 0 and self.entries and self.size + size > self.limit:
            del self.entries[0]
        try:
            cells = copy()
        except MemoryError:
            # What is there is as much as there may be.
            self.limit = max(1, int(0.4 * self.size))
            self.trim()
            return
        self.entries.append(Entry(list(tokens), cells, size))

    def take(self, held: list[int], prompt: list[int]) -> Entry | None:
        """The entry that serves the prompt better than what the slot holds, removed from the cache.

        It must keep at least a quarter of itself, and beat the best so far in both shares: of itself, and of the prompt.

        Source: server_prompt_cache::load.
        """
        if not prompt:
            return None
        shared = common_prefix(held, prompt)
        keep = np.float32(shared) / np.float32(len(held)) if held else np.float32(-1)
        similar = np.float32(shared) / np.float32(len(prompt))
        best: Entry | None = None
        for entry in self.entries:
            shared = common_prefix(entry.tokens, prompt)
            its_keep = np.float32(shared) / np.float32(len(entry.tokens))
            its_similar = np.float32(shared) / np.float32(len(prompt))
            if its_keep >= np.float32(0.25) and keep < its_keep and similar < its_similar:
                keep, similar, best = its_keep, its_similar, entry
        if best is not None:
            self.entries = [entry for entry in self.entries if entry is not best]
        return best

    def trim(self) -> None:
        """Drop the oldest entries until bytes and tokens are within the limits.

        Source: server_prompt_cache::update.
        """
        while self.limit > 0 and self.entries and self.size > self.limit:
            del self.entries[0]
        tokens = self.limit_tokens
        if self.limit > 0:
            # In single precision, as the reference has it.
            each = max(np.float32(1), np.float32(self.size) / np.float32(max(1, self.n_tokens)))
            tokens = max(tokens, int(np.float32(self.limit) / each))
        while self.entries and self.n_tokens > tokens:
            del self.entries[0]
