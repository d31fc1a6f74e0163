# SPDX-License-Identifier: MIT OR Apache-2.0
"""Adaptive-p. Its formula and widths stand with its kernel."""

from __future__ import annotations

import numpy as np

from bankml.core.sampling.candidates import Candidates, Floats, Generator


class AdaptiveP:
    """Select so that the probabilities of what is selected average ``target``; a negative target only selects."""

    __slots__ = ("average", "decay", "original", "pending", "rng", "target")

    def __init__(self, n_vocab: int, target: float, decay: float, rng: Generator) -> None:
        self.target = np.float32(target)
        self.decay = np.float32(min(max(decay, 0.0), float(np.float32(0.99))))
        share = np.float32(1) - self.decay
        with np.errstate(over="ignore"):
            self.average: Floats = np.array([self.target / share, np.float32(1) / share], np.float32)
        self.original: Floats = np.empty(n_vocab, np.float32)
        self.pending = (-1, -1)
        self.rng = rng

    def accept(self, token: int) -> None:
        """Source: llama_sampler_adaptive_p_accept."""
        if token == self.pending[0]:
            with np.errstate(over="ignore", invalid="ignore"):
                self.average[0] = self.original[self.pending[1]] + self.decay * self.average[0]
                self.average[1] = np.float32(1) + self.decay * self.average[1]
        self.pending = (-1, -1)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_adaptive_p_apply."""
        from bankml.kernels.sampling import more as sampling_more

        token = sampling_more.adaptive_p(c.ids, c.logit, c.p, c.state, self.target, self.average, self.original, self.rng)
        if self.target >= 0:
            self.pending = (token, c.selected)
