# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drawing under a grammar: draw, check, and only where the token does not pass mask all of them and draw again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bankml.core.constrain.grammar import Grammar
from bankml.core.sampling.candidates import Floats
from bankml.core.sampling.chain import Sampler
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.constrain.trie import VocabularyTrie
    from bankml.core.tokenizer.tokenizer import Tokenizer


def read_grammar(text: str, tokenizer: Tokenizer, vocabulary: VocabularyTrie, prefill: bytes = b"") -> Grammar:
    """The grammar of a request.

    Args:
        prefill: the end of the prompt, over which the grammar goes before the answer.

    Raises:
        Refusal: ``grammar.*``, in the words in which llama-server refuses every grammar that it cannot read, the reason as
            the hint; ``grammar.limit`` names bankml's limit instead, which llama-server does not have.
    """
    try:
        grammar = Grammar.parse(text, tokenizer=tokenizer, vocabulary=vocabulary)
    except Refusal as refusal:
        if refusal.code == "grammar.limit":
            raise
        raise Refusal(
            refusal.code,
            "Failed to initialize samplers: failed to parse grammar",
            where=refusal.where,
            found=refusal.found,
            allowed=refusal.allowed,
            hint=refusal.message,
        ) from None
    _go_over(grammar, tokenizer, prefill)
    return grammar


def _go_over(grammar: Grammar, tokenizer: Tokenizer, prefill: bytes) -> None:
    """Let the grammar go over the end of the prompt. What does not fit is refused in llama-server's words, which lose the reason.

    Source: common_sampler_init, common/sampling.cpp.
    """
    for i, token in enumerate(tokenizer.encode(prefill, add_special=False, parse_special=True)):
        if i == 0 and tokenizer.piece(token, special=True)[:1].isspace() and not prefill[:1].isspace():
            continue
        try:
            grammar.accept(token)
        except Refusal as refusal:
            if refusal.code == "grammar.limit":
                raise
            raise Refusal(refusal.code, "Failed to initialize samplers: std::exception", hint=refusal.message) from None


class Constrained(Sampler):
    """A sampler whose tokens fit a grammar. Tokens of the prompt go to the chain alone.

    The second draw takes the next numbers of the same generator, and penalties see the logits afresh.

    Source: common_sampler_sample, common_sampler_accept, common/sampling.cpp.
    """

    def __init__(self, sampler: Sampler, grammar: Grammar) -> None:
        self.params, self.seed, self.chain = sampler.params, sampler.seed, sampler.chain
        self._grammar = grammar
        self._masked = np.empty(0, np.float32)

    def sample(self, logits: Floats) -> int:
        """The next token, with which the grammar goes on.

        Raises:
            Refusal: ``grammar.rejected``, nothing that is left fits.
        """
        token = super().sample(logits)
        if not self._grammar.allows(token):
            token = super().sample(self._mask(logits))
        self._grammar.accept(token)
        return token

    def _mask(self, logits: Floats) -> Floats:
        if self._masked.size != logits.size:
            self._masked = np.empty(logits.size, np.float32)
        mask = self._grammar.mask()[: logits.size]
        self._masked.fill(-np.inf)
        np.copyto(self._masked[: mask.size], logits[: mask.size], where=mask)
        return self._masked
