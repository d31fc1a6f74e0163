# SPDX-License-Identifier: MIT OR Apache-2.0
"""The samplers of a chain, a file each: each holds its numbers and changes the candidates."""

from __future__ import annotations

from bankml.core.sampling.samplers.adaptive_p import AdaptiveP
from bankml.core.sampling.samplers.dist import Dist
from bankml.core.sampling.samplers.logit_bias import LogitBias
from bankml.core.sampling.samplers.min_p import MinP
from bankml.core.sampling.samplers.mirostat import Mirostat
from bankml.core.sampling.samplers.penalties import Penalties
from bankml.core.sampling.samplers.step import Forgetful, Step
from bankml.core.sampling.samplers.temperature import Temperature
from bankml.core.sampling.samplers.top_k import TopK
from bankml.core.sampling.samplers.top_n_sigma import TopNSigma
from bankml.core.sampling.samplers.top_p import TopP
from bankml.core.sampling.samplers.typical import Typical
from bankml.core.sampling.samplers.xtc import Xtc

__all__ = [
    "AdaptiveP",
    "Dist",
    "Forgetful",
    "LogitBias",
    "MinP",
    "Mirostat",
    "Penalties",
    "Step",
    "Temperature",
    "TopK",
    "TopNSigma",
    "TopP",
    "Typical",
    "Xtc",
]
