# SPDX-License-Identifier: MIT OR Apache-2.0
"""The receipt of an answer: what answered, from which file, and hashes that a reader can compute again.

docs/receipts.md has the recipe, command by command.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from bankml import __version__

if TYPE_CHECKING:
    from bankml.core.sampling import SamplingParams

ENGINE = f"bankml {__version__} native: its own forward pass"
EXACT = "held to the bits of llama.cpp b11192"
REFERENCE = "llama.cpp b11192 haswell"


@dataclass(frozen=True)
class Origin:
    """What an answer came from: the same for all answers of a loaded model.

    Attributes:
        model_sha256: of the whole file, as verified; None when it was not.
        pinned: whether that hash was held to a pin.
        guard: the guard's verdict.
        ctx: cells of the context.
        llama_threads: the reference's thread count whose bits split-KV attention gives.
        cache_type: type of the KV cache.
        cache_ram: MiB that the host's prompt cache may hold: with the requests before it decides ``cache_n``.
        inexact: why the answers may not have the reference's bits; None where they have.
    """

    model_sha256: str | None
    pinned: bool
    guard: str | None
    ctx: int
    llama_threads: int
    cache_type: str
    cache_ram: int
    inexact: str | None = None


def exactness(inexact: str | None) -> dict[str, Any]:
    """The members that say whether answers have the reference's bits, and why not where they may not."""
    return {"exact": inexact is None, **({} if inexact is None else {"inexact": inexact})}


def text_sha256(text: str) -> str:
    """sha256 of a text's UTF-8; an unpaired surrogate counts as U+FFFD."""
    return hashlib.sha256(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")).hexdigest()


def receipt(
    origin: Origin,
    *,
    request_sha256: str,
    text: str,
    prompt_tokens: int,
    completion_tokens: int,
    cache_n: int,
    ttft_ms: float | None,
    wall_ms: float,
    sampling: dict[str, Any],
    reasoning: str = "",
    grammar: str = "",
    logprobs_sha256: str | None = None,
) -> dict[str, Any]:
    """The receipt, members in their documented order; ``signed`` is false, and last.

    Args:
        request_sha256: of the body of the request as it came.
        text: the answer as it was sent; of a stream what its events carried, in one string.
        cache_n: tokens of the prompt that an earlier request had left in the slot.
        sampling: the sampling parameters as resolved, the seed as drawn.
        reasoning: what was sent as ``reasoning_content``; a member, its hash, only where there was some.
        grammar: GBNF that bound the answer; a member, its hash, only where there was one.
        logprobs_sha256: of the probabilities that the answer carried; a member only when it carried some.
    """
    return {
        "bankml": __version__,
        "engine": f"{ENGINE}, {EXACT if origin.inexact is None else 'not exact here'}",
        "model_sha256": origin.model_sha256,
        "guard": origin.guard,
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "ttft_ms": None if ttft_ms is None else round(ttft_ms, 3),
        "wall_ms": round(wall_ms, 3),
        "response_sha256": text_sha256(text),
        "request_sha256": request_sha256,
        "pinned": origin.pinned,
        "reference": REFERENCE,
        **exactness(origin.inexact),
        "llama_threads": origin.llama_threads,
        "cache_type": origin.cache_type,
        "ctx": origin.ctx,
        "cache_ram": origin.cache_ram,
        "cache_n": cache_n,
        "sampling": sampling,
        **({"reasoning_sha256": text_sha256(reasoning)} if reasoning else {}),
        **({"grammar_sha256": text_sha256(grammar)} if grammar else {}),
        **({} if logprobs_sha256 is None else {"logprobs_sha256": logprobs_sha256}),
        "signed": False,
    }


def resolved(params: SamplingParams) -> dict[str, Any]:
    """Sampling parameters as a receipt tells them; infinite values, which JSON lacks, as null."""
    return {each.name: _finite(getattr(params, each.name)) for each in fields(params)}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
