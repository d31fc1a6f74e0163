# SPDX-License-Identifier: MIT OR Apache-2.0
"""Temperature, and dynamic temperature. Its formula and widths stand with its kernel."""

from __future__ import annotations

import numpy as np

from bankml.core.sampling.candidates import Candidates
from bankml.core.sampling.samplers.step import Forgetful
from bankml.kernels.sampling import samplers as kernels


class Temperature(Forgetful):
    """Divide the logits; with ``delta`` above 0 by a temperature that follows the entropy."""

    __slots__ = ("delta", "exponent", "t")

    def __init__(self, t: float, delta: float = 0.0, exponent: float = 1.0) -> None:
        self.t = np.float32(t)
        self.delta = np.float32(delta)
        self.exponent = np.float32(exponent)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_temp_ext_apply."""
        if self.delta > 0:
            from bankml.kernels.sampling import more as sampling_more

            sampling_more.dynamic_temperature(c.ids, c.logit, c.p, c.state, self.t, self.delta, self.exponent, c.key, c.index)
        else:
            kernels.temperature(c.logit, c.state, self.t)
