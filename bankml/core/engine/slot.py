# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one slot: which tokens the model's cells hold, and which of them a new prompt can use.

Source: get_available_slot and update_slots, tools/server/server-context.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bankml.core.engine.prompt_cache import PromptCache, common_prefix
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.model.model import Model

UBATCH = 512
BATCH = 2048
_SIMILAR = np.float32(0.1)
_HALF = np.float32(0.5)


class Slot:
    """Tokens in the cells 0, 1, …, one for each.

    Args:
        model: the model whose cells they are.
        n_ctx: tokens that a prompt and its answer may have together.
        cache: the host's prompt cache, or None.
        batch: tokens of one llama_decode: 2048, or the context where it is smaller.
    """

    def __init__(self, model: Model, n_ctx: int, cache: PromptCache | None, batch: int = BATCH) -> None:
        self.model = model
        self.n_ctx = n_ctx
        self.cache = cache
        self.tokens: list[int] = []
        self._batch = min(batch, BATCH)

    def check(self, prompt: Sequence[int]) -> None:
        """Refuse a prompt with unknown token ids, or one that fills the context.

        Raises:
            Refusal: ``engine.tokens`` or ``engine.context``.

        Source: the checks of launch_slot_with_task and update_slots, tools/server/server-context.cpp.
        """
        n_vocab = self.model.n_vocab
        if any(not 0 <= token < n_vocab for token in prompt):
            raise Refusal("engine.tokens", "Prompt contains invalid tokens", allowed=f"0 to {n_vocab - 1}")
        if len(prompt) >= self.n_ctx:
            raise Refusal(
                "engine.context",
                f"request ({len(prompt)} tokens) exceeds the available context size ({self.n_ctx} tokens), try increasing it",
                kind="exceed_context_size_error",
                extra={"n_prompt_tokens": len(prompt), "n_ctx": self.n_ctx},
            )

    def choose(self, prompt: list[int]) -> None:
        """Before a prompt: where little of the slot would be kept, save it and look for something better.

        Little is a tenth of the prompt or less, or less than half of the slot.

        Source: get_available_slot.
        """
        if self.cache is None:
            return
        shared = common_prefix(self.tokens, prompt)
        similar = np.float32(shared) / np.float32(len(prompt)) if prompt else np.float32(0)
        if similar > _SIMILAR:
            # In single precision and by this detour, as the reference has it.
            kept = np.float32(similar * np.float32(len(prompt))) / np.float32(len(self.tokens))
            if kept >= _HALF:
                return
        count = len(self.tokens)
        self.cache.save(self.tokens, self.model.state_bytes(count), lambda: self.model.copy_cells(count))
        entry = self.cache.take(self.tokens, prompt)
        if entry is not None:
            self.model.put_cells(entry.cells)
            self.tokens = entry.tokens
        self.cache.trim()

    def keep(self, prompt: list[int], cache_prompt: bool) -> int:
        """Forget all but the common start; at least one token of the prompt is left to evaluate. Returns how many are kept."""
        kept = common_prefix(self.tokens, prompt) if cache_prompt else 0
        if kept == len(prompt) and kept > 0:
            kept -= 1
        del self.tokens[kept:]
        return kept

    def evaluate(self, prompt: list[int], go_on: Callable[[], bool]) -> npt.NDArray[np.float32] | None:
        """Evaluate the rest of the prompt in micro-batches; the logits after its last token, None when it was stopped."""
        logits = None
        for start, end in self._cuts(len(self.tokens), len(prompt)):
            if not go_on():
                return None
            logits = self.model.eval(prompt[start:end], start, end == len(prompt))
            self.tokens += prompt[start:end]
        return logits

    def step(self, token: int) -> npt.NDArray[np.float32]:
        """Evaluate one sampled token."""
        logits = self.model.eval([token], len(self.tokens), True)
        assert logits is not None
        self.tokens.append(token)
        return logits

    def _cuts(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Batches of ``batch``, each cut into micro-batches of 512."""
        while start < end:
            batch_end = min(start + self._batch, end)
            while start < batch_end:
                stop = min(start + UBATCH, batch_end)
                yield start, stop
                start = stop
