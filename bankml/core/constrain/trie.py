# SPDX-License-Identifier: MIT OR Apache-2.0
"""A vocabulary made ready for masks: built once for a tokenizer, shared by all grammars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bankml.kernels.grammar import trie as kernel

Ints = npt.NDArray[Any]


class VocabularyLike(Protocol):
    """The part of a tokenizer that masks need."""

    @property
    def n_vocab(self) -> int:
        """How many tokens there are."""
        ...

    @property
    def eog(self) -> frozenset[int]:
        """Tokens that end a generation."""
        ...

    def piece(self, token: int, special: bool = False) -> bytes:
        """The bytes of a token."""
        ...


class VocabularyTrie:
    """The pieces of a vocabulary, control tokens included, as a trie of code points.

    Attributes:
        pieces: bytes of each token.
        eog: the tokens that end a generation: they pass only where the text may end.
        always: tokens whose first code point is 0 although their first byte is not: they pass everywhere.
        late: tokens that begin with a continuation byte, the only ones that can go on inside a character.
    """

    def __init__(self, pieces: Sequence[bytes], eog: frozenset[int]) -> None:
        self.pieces = pieces
        self.n_vocab = len(pieces)
        self.eog = np.array(sorted(token for token in eog if 0 <= token < len(pieces)), np.int64)
        usable = [i for i, piece in enumerate(pieces) if piece and piece[0] and i not in eog]
        usable.sort(key=pieces.__getitem__)
        self.longest = max(map(len, pieces), default=0)
        self.late = _packed([i for i in usable if 0x80 <= pieces[i][0] < 0xC0], pieces)
        self._build(*_packed(usable, pieces))

    @classmethod
    def of(cls, tokenizer: VocabularyLike) -> VocabularyTrie:
        """The trie of a tokenizer's vocabulary."""
        return cls([tokenizer.piece(token, special=True) for token in range(tokenizer.n_vocab)], tokenizer.eog)

    def _build(self, data: Ints, offsets: Ints, ids: Ints) -> None:
        trie = np.zeros((len(data) + 2 * len(ids) + 2, kernel.COLUMNS), np.int32)
        order, always = np.zeros(len(ids), np.int32), np.zeros(len(ids), np.int32)
        values, remains = np.zeros(len(ids) + 1, np.int64), np.zeros(len(ids) + 1, np.int64)
        points, path = np.zeros(self.longest + 2, np.int64), np.full(self.longest + 2, -1, np.int64)
        nodes, placed, n_always, n_open = kernel.build(data, offsets, ids, trie, order, always, values, remains, points, path)
        self.trie = trie[: nodes + 1].copy()
        self.deepest = int(self.trie[:-1, kernel.DEPTH].max(initial=0))
        kernel.ends(self.trie, np.zeros(self.deepest + 1, np.int64))
        self.order, self.always = order[:placed].copy(), always[:n_always].copy()
        self.open_values, self.open_remains = values[:n_open].copy(), remains[:n_open].copy()
        self._symbols, index = np.unique(self.trie[:, kernel.POINT], return_inverse=True)
        self._index = index.astype(np.int32)
        self.places = np.full(self.n_vocab, -1, np.int32)
        self.places[self.order] = np.arange(placed, dtype=np.int32)

    def marked(self, bounds: Ints) -> Ints:
        """The trie's marks for a grammar with these classes of code points."""
        classes = np.searchsorted(bounds, self._symbols, side="right") - 1
        classes = np.where(self._symbols < 0, self._symbols, classes).astype(np.int32)
        marks = np.zeros((len(self.trie) - 1, kernel.MARKS), np.int32)
        kernel.mark(self.trie, self._index, classes, marks, np.zeros((self.deepest + 2, 3), np.int64))
        return marks


def _packed(ids: list[int], pieces: Sequence[bytes]) -> tuple[Ints, Ints, Ints]:
    """Bytes, offsets and ids of tokens, for the kernels."""
    data = np.frombuffer(b"".join([pieces[i] for i in ids]) + b"\0", np.uint8).copy()
    offsets = np.zeros(len(ids) + 1, np.int64)
    np.cumsum([len(pieces[i]) for i in ids], out=offsets[1:])
    return data, offsets, np.array(ids, np.int32)
