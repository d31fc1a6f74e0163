# SPDX-License-Identifier: MIT OR Apache-2.0
"""The draw. Its formula and widths stand with its kernel."""

from __future__ import annotations

from bankml.core.sampling.candidates import Candidates, Generator
from bankml.core.sampling.samplers.step import Forgetful
from bankml.kernels.sampling import samplers as kernels


class Dist(Forgetful):
    """Select one candidate by its probability."""

    __slots__ = ("rng",)

    def __init__(self, rng: Generator) -> None:
        self.rng = rng

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_dist_apply."""
        kernels.dist(c.ids, c.logit, c.p, c.state, self.rng)
