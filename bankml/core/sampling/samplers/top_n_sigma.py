# SPDX-License-Identifier: MIT OR Apache-2.0
"""Top-n-sigma. Its formula and widths stand with its kernel."""

from __future__ import annotations

import numpy as np

from bankml.core.sampling.candidates import Candidates
from bankml.core.sampling.samplers.step import Forgetful


class TopNSigma(Forgetful):
    """Drop what lies more than n standard deviations below the largest logit."""

    __slots__ = ("n",)

    def __init__(self, n: float) -> None:
        self.n = np.float32(n)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_top_n_sigma_apply."""
        from bankml.kernels.sampling import more as sampling_more

        sampling_more.top_n_sigma(c.logit, c.state, self.n)
