# SPDX-License-Identifier: MIT OR Apache-2.0
"""Biases of single tokens. Its formula and widths stand with its kernel."""

from __future__ import annotations

import numpy as np

from bankml.core.sampling.candidates import Candidates, Floats, Ints
from bankml.core.sampling.samplers.step import Forgetful


class LogitBias(Forgetful):
    """Add to the logits of named tokens."""

    __slots__ = ("biases", "tokens")

    def __init__(self, pairs: list[tuple[int, float]]) -> None:
        self.tokens: Ints = np.array([token for token, _ in pairs], np.int32)
        self.biases: Floats = np.array([bias for _, bias in pairs], np.float32)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_logit_bias_apply."""
        from bankml.kernels.sampling import more as sampling_more

        sampling_more.add_bias(c.ids, c.logit, c.state, self.tokens, self.biases, np.empty_like(self.tokens))
