# SPDX-License-Identifier: MIT OR Apache-2.0
"""Min-p. Its formula and widths stand with its kernel."""

from __future__ import annotations

import numpy as np

from bankml.core.sampling.candidates import Candidates
from bankml.core.sampling.samplers.step import Forgetful
from bankml.kernels.sampling import samplers as kernels


class MinP(Forgetful):
    """Keep candidates of at least ``limit`` times the largest probability."""

    __slots__ = ("limit", "min_keep")

    def __init__(self, limit: float, min_keep: int) -> None:
        self.limit = np.float32(limit)
        self.min_keep = min_keep

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_min_p_apply."""
        kernels.min_p(c.ids, c.logit, c.p, c.state, self.limit, self.min_keep, c.key, c.index)
