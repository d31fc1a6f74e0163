# SPDX-License-Identifier: MIT OR Apache-2.0
"""XTC: top choices left out. Its formula and widths stand with its kernel."""

from __future__ import annotations

import numpy as np

from bankml.core.sampling.candidates import Candidates, Generator
from bankml.core.sampling.samplers.step import Forgetful


class Xtc(Forgetful):
    """Sometimes drop the most probable candidates; it has a generator of its own."""

    __slots__ = ("min_keep", "probability", "rng", "threshold")

    def __init__(self, probability: float, threshold: float, min_keep: int, rng: Generator) -> None:
        self.probability = np.float32(probability)
        self.threshold = np.float32(threshold)
        self.min_keep = min_keep
        self.rng = rng

    def apply(self, c: Candidates) -> None:
        """Source: llama_sample_xtc_apply."""
        from bankml.kernels.sampling import more as sampling_more

        sampling_more.xtc(c.ids, c.logit, c.p, c.state, self.probability, self.threshold, self.min_keep, self.rng, c.key, c.index)
