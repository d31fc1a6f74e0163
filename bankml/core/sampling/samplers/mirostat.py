# SPDX-License-Identifier: MIT OR Apache-2.0
"""Mirostat, both versions. Its formula and widths stand with its kernel."""

from __future__ import annotations

import numpy as np

from bankml.core.sampling.candidates import Candidates, Floats, Generator
from bankml.core.sampling.samplers.step import Forgetful


class Mirostat(Forgetful):
    """Select by a surprise that is steered towards ``tau``; version 1 or 2."""

    __slots__ = ("eta", "mu", "n_vocab", "rng", "tau", "version")

    def __init__(self, version: int, n_vocab: int, tau: float, eta: float, rng: Generator) -> None:
        self.version = version
        self.n_vocab = n_vocab
        self.tau = np.float32(tau)
        self.eta = np.float32(eta)
        with np.errstate(over="ignore"):
            self.mu: Floats = np.array([np.float32(2) * self.tau], np.float32)
        self.rng = rng

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_mirostat_apply, llama_sampler_mirostat_v2_apply."""
        from bankml.kernels.sampling import more as sampling_more

        common = (self.tau, self.eta, self.mu, self.rng, c.key, c.index)
        if self.version == 1:
            sampling_more.mirostat(c.ids, c.logit, c.p, c.state, self.n_vocab, *common)
        else:
            sampling_more.mirostat_v2(c.ids, c.logit, c.p, c.state, *common)
