# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tokens' probabilities as llama-server writes them.

Source: completion_token_output::probs_vector_to_json, tools/server/server-task.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bankml.core.receipts.logprobs import Entry
from bankml.core.tokenizer.utf8 import complete

if TYPE_CHECKING:
    from bankml.core.engine import TokenProbabilities

MAX_PROBS = 256
"""The most tokens that an entry may name here; b11192 has no limit, and an entry of a whole vocabulary takes megabytes."""


def entries(
    measured: Iterable[TokenProbabilities], piece: Callable[[int], bytes], post_sampling_probs: bool = False
) -> list[Entry]:
    """One entry for each measured token: id, text, bytes, value, and the same of the most probable tokens."""
    name = "prob" if post_sampling_probs else "logprob"

    def entry(token: int, text: bytes, value: float) -> Entry:
        return {"id": token, "token": _characters(text), "bytes": list(text), name: value}

    return [
        {
            **entry(each.probabilities.token, each.text, each.probabilities.value),
            f"top_{name}s": [entry(token, piece(token), value) for token, value in each.probabilities.top],
        }
        for each in measured
    ]


def _characters(text: bytes) -> str:
    """The text without a character unfinished at its end; any other byte that is no UTF-8 becomes U+FFFD."""
    return text[: complete(text)].decode("utf-8", "replace")
