# SPDX-License-Identifier: MIT OR Apache-2.0
"""A grammar at work: which tokens may come next, and what follows after one."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from bankml.core.constrain.gbnf import Rules, TokenizerLike, parse
from bankml.core.constrain.machine import Machine, check_left_recursion
from bankml.core.constrain.trie import Ints, VocabularyTrie
from bankml.kernels.grammar import tokens as grammar_tokens
from bankml.kernels.grammar import trie as vocabulary_trie
from bankml.kernels.grammar.machine import start_state
from bankml.refusal import Refusal

Mask = npt.NDArray[np.bool_]


class Grammar:
    """The reference's grammar sampler: stacks over rules, with UTF-8 carried across tokens.

    It is one answer's: make another for the next answer.

    Source: llama_grammar_apply_impl, llama_grammar_accept_impl, src/llama-grammar.cpp.
    """

    def __init__(self, rules: Rules, vocabulary: VocabularyTrie | None = None, root: str = "root") -> None:
        start = rules.symbols.get(root.encode("utf-8", "surrogateescape"))
        if start is None:
            raise Refusal("grammar.root", f"grammar does not contain a '{root}' symbol")
        check_left_recursion(rules)
        self.rules = rules
        self.vocabulary = vocabulary
        self._machine = Machine(rules)
        self._state = self._machine.ask(start_state, start)
        self._value, self._remain = 0, 0
        self._marks: tuple[VocabularyTrie, Ints] | None = None
        if vocabulary is not None:
            self._marked(vocabulary)

    @classmethod
    def parse(
        cls,
        text: str | bytes,
        root: str = "root",
        tokenizer: TokenizerLike | None = None,
        vocabulary: VocabularyTrie | None = None,
    ) -> Self:
        """The grammar of a GBNF text; ``tokenizer`` reads terminals such as ``<think>``.

        Raises:
            Refusal: ``grammar.syntax``, ``grammar.root``, ``grammar.left-recursion``, each with the reference's reason, or
                ``grammar.limit``.
        """
        return cls(parse(text, tokenizer), vocabulary, root)

    @property
    def may_end(self) -> bool:
        """Whether the text may end here."""
        return self._machine.ends(self._state)

    def allows(self, token: int) -> bool:
        """Whether a token may come next."""
        vocabulary = self._known()
        if token in vocabulary.eog:
            return self.may_end
        piece = vocabulary.pieces[token]
        if not piece or piece[0] == 0:
            return False
        points, count, value, remain = self._decoded(piece)
        return self._machine.ask(grammar_tokens.fits, self._state, token, points, count, value, remain) > 0

    def accept(self, token: int) -> None:
        """Go on after a token. Ask :meth:`allows` first: as in the reference, one that breaks a character is not noticed here.

        Raises:
            Refusal: ``grammar.rejected``, no stack would be left; the grammar is as it was.
        """
        vocabulary = self._known()
        if token in vocabulary.eog:
            if not self.may_end:
                raise _rejected(vocabulary.pieces[token], token)
            return
        self._accept(token, vocabulary.pieces[token])

    def mask(self, vocabulary: VocabularyTrie | None = None) -> Mask:
        """bool[n_vocab]: which tokens may come next."""
        vocabulary = vocabulary or self._known()
        mask = np.zeros(vocabulary.n_vocab, np.bool_)
        if self._remain > 0:
            room = np.zeros(vocabulary.longest + 2, np.int64)
            self._machine.ask(
                vocabulary_trie.check_many, self._state, *vocabulary.late, self._value, self._remain, mask.view(np.uint8), room
            )
        else:
            self._machine.ask(
                vocabulary_trie.walk,
                vocabulary.trie,
                self._marked(vocabulary),
                vocabulary.order,
                vocabulary.places,
                vocabulary.open_values,
                vocabulary.open_remains,
                self._state,
                np.zeros(vocabulary.deepest + 1, np.int64),
                mask.view(np.uint8),
            )
            mask[vocabulary.always] = True
        mask[vocabulary.eog] = self.may_end
        return mask

    def _known(self) -> VocabularyTrie:
        if self.vocabulary is None:
            raise ValueError("the grammar was given no vocabulary")
        return self.vocabulary

    def _marked(self, vocabulary: VocabularyTrie) -> Ints:
        if self._marks is None or self._marks[0] is not vocabulary:
            self._marks = vocabulary, vocabulary.marked(self._machine.bounds)
        return self._marks[1]

    def _decoded(self, piece: bytes) -> tuple[npt.NDArray[np.int64], int, int, int]:
        points = np.zeros(len(piece) + 2, np.int64)
        count, value, remain = grammar_tokens.decode(
            np.frombuffer(piece + b"\0", np.uint8).copy(), 0, len(piece), self._value, self._remain, points
        )
        return points, int(count), int(value), int(remain)

    def _accept(self, token: int, piece: bytes) -> None:
        points, count, value, remain = self._decoded(piece)
        after = self._machine.ask(grammar_tokens.accept, self._state, token, points, count)
        if after == 0:
            raise _rejected(piece, token)
        self._state, self._value, self._remain = after, value, remain
        self._machine.granted()
        if self._machine.large():
            self._state = self._machine.restart(after)


def _rejected(piece: bytes, token: int) -> Refusal:
    text = piece.decode("utf-8", "replace")
    return Refusal(
        "grammar.rejected",
        f"got exception: Unexpected empty grammar stack after accepting piece: {text} ({token})",
        status=500,
        kind="server_error",
    )
