# SPDX-License-Identifier: MIT OR Apache-2.0
"""b11192's sampler chain: its numbers, the request's fields for them, and the draw.

May import: core.gguf, core.json, kernels, refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bankml.core.sampling.params import RANDOM_SEED, SamplingParams, gguf_defaults
from bankml.core.sampling.request import resolve_params

if TYPE_CHECKING:
    from bankml.core.sampling.chain import Chain, Sampler

__all__ = ["RANDOM_SEED", "Chain", "Sampler", "SamplingParams", "gguf_defaults", "resolve_params"]


def __getattr__(name: str) -> Any:
    # The chain loads kernels; a request is read without them.
    if name in ("Chain", "Sampler"):
        from bankml.core.sampling import chain

        return getattr(chain, name)
    raise AttributeError(name)
