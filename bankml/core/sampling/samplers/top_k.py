# SPDX-License-Identifier: MIT OR Apache-2.0
"""Top-k. Its formula and widths stand with its kernel."""

from __future__ import annotations

from bankml.core.sampling.candidates import Candidates
from bankml.core.sampling.samplers.step import Forgetful
from bankml.kernels.sampling import samplers as kernels


class TopK(Forgetful):
    """Keep the k largest logits; k <= 0 keeps all."""

    __slots__ = ("k",)

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_top_k_apply."""
        kernels.top_k(c.ids, c.logit, c.p, c.state, self.k, c.key, c.index)
