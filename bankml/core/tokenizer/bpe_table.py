# SPDX-License-Identifier: MIT OR Apache-2.0
"""The merges of a vocabulary as numbers, for the native merging of long and many words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from bankml.core.tokenizer.bpe import BYTE_CHARS, fallback


class MergeTable:
    """Symbols numbered from 0, the bytes first; made once, when there is enough to merge.

    Args:
        merges: see :class:`bankml.core.tokenizer.bpe.Merges`; the same ones apply here.
        ids: token ids by text.
    """

    def __init__(self, merges: Sequence[str], ids: Mapping[str, int]) -> None:
        from bankml.kernels import bpe as kernel

        self._kernel = kernel
        symbols = {BYTE_CHARS[byte]: byte for byte in range(256)}
        lefts, rights, results = [], [], []
        for merge in merges:
            space = merge.find(" ", 1)
            left, right = (merge[:space], merge[space + 1 :]) if space > 0 else ("", "")
            lefts.append(symbols.setdefault(left, len(symbols)))
            rights.append(symbols.setdefault(right, len(symbols)))
            results.append(symbols.setdefault(left + right, len(symbols)))
        self._results = np.array(results, np.int32)
        self._bits = max(4, (2 * len(merges)).bit_length())
        self._keys = np.full(1 << self._bits, kernel.EMPTY, np.int64)
        self._ranks = np.zeros(1 << self._bits, np.int32)
        kernel.fill(np.array(lefts, np.int32), np.array(rights, np.int32), self._keys, self._ranks, self._bits)
        self._letters = np.arange(256, dtype=np.int32)
        self._tokens = [[ids[text]] if text in ids else fallback(text, ids) for text in symbols]

    def apply(self, words: Sequence[bytes]) -> list[list[int]]:
        """The token ids of each word, given as UTF-8."""
        data = np.frombuffer(b"".join(words), np.uint8)
        ends = np.cumsum([len(word) for word in words], dtype=np.int64)
        symbols = np.empty(len(data), np.int32)
        counts = np.zeros(len(words), np.int64)
        room = 1 + max(map(len, words), default=0)
        links, heap = np.empty((3, room), np.int32), np.empty(3 * room, np.int64)
        self._kernel.merge(
            data, ends, self._letters, self._keys, self._ranks, self._bits, self._results, symbols, counts, links, heap
        )
        tokens = self._tokens
        starts = ends - [len(word) for word in words]
        return [
            list(chain.from_iterable(map(tokens.__getitem__, symbols[start : start + count].tolist())))
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
        ]
