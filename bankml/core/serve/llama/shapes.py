# SPDX-License-Identifier: MIT OR Apache-2.0
"""The JSON shapes of llama-server b11192's chat answers, whole and streamed; members in its order.

Source: to_json_oaicompat_chat and to_json_oaicompat_chat_stream (tools/server/server-task.cpp), server_slot_stats
(tools/server/server-common.h).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from bankml import __version__
from bankml.core.serve.worker import Counts

FINGERPRINT = f"b11192-bankml-{__version__}"

DONE = b"data: [DONE]\n\n"


def timings(counts: Counts) -> dict[str, Any]:
    """The ``timings`` object. The first token is free: its logits come with the prompt's, so rates count one token less."""
    computed = counts.prompt - counts.cached
    steps = max(counts.completion - 1, 0)
    prompt_ms = round(counts.prompt_ms, 3)
    # As the reference clamps it: at least a microsecond once there is a token.
    predicted_ms = max(round(counts.predicted_ms, 3), 0.001) if counts.completion else 0.0
    return {
        "cache_n": counts.cached,
        "prompt_n": computed,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / computed if computed else 0.0,
        "prompt_per_second": 1e3 / prompt_ms * computed if prompt_ms else 0.0,
        "predicted_n": counts.completion,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / steps if steps else 0.0,
        "predicted_per_second": 1e3 / predicted_ms * steps if steps and predicted_ms else 0.0,
    }


def usage(counts: Counts) -> dict[str, Any]:
    """The ``usage`` object."""
    return {
        "completion_tokens": counts.completion,
        "prompt_tokens": counts.prompt,
        "total_tokens": counts.completion + counts.prompt,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
    }


def completion(
    identity: str, model: str, content: str, finish_reason: str, counts: Counts, reasoning: str = ""
) -> dict[str, Any]:
    """A whole answer, without the members that a request must ask for."""
    choice = {
        "finish_reason": finish_reason,
        "index": 0,
        "message": {"role": "assistant", "content": content, **({"reasoning_content": reasoning} if reasoning else {})},
    }
    return {
        "choices": [choice],
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": FINGERPRINT,
        "object": "chat.completion",
        "usage": usage(counts),
        "id": identity,
    }


@dataclass(frozen=True)
class Chunks:
    """Makes the chunks of one streamed answer."""

    identity: str
    model: str

    def delta(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        """A chunk with one choice."""
        return self.bare([{"finish_reason": finish_reason, "index": 0, "delta": delta}])

    def bare(self, choices: list[Any]) -> dict[str, Any]:
        """A chunk with these choices, or with none."""
        return {
            "choices": choices,
            "created": int(time.time()),
            "id": self.identity,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "object": "chat.completion.chunk",
        }

    def role(self) -> dict[str, Any]:
        """The chunk that opens an answer."""
        return self.delta({"role": "assistant", "content": None})
