# SPDX-License-Identifier: MIT OR Apache-2.0
"""The samplers of a chain: each holds its numbers and changes the candidates; formulas and widths stand with the kernels."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import numpy as np

from bankml.core.sampling.candidates import Candidates, Floats, Generator, Ints
from bankml.kernels import sampling as kernels


class Step(Protocol):
    """One sampler."""

    def apply(self, c: Candidates) -> None:
        """Change the candidates."""
        ...

    def accept(self, token: int) -> None:
        """Learn of a token of the prompt or of the answer."""
        ...


class Forgetful:
    """A sampler that does not look at tokens."""

    __slots__ = ()

    def accept(self, token: int) -> None:
        """Nothing to learn."""


class TopK(Forgetful):
    """Keep the k largest logits; k <= 0 keeps all."""

    __slots__ = ("k",)

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_top_k_apply."""
        kernels.top_k(c.ids, c.logit, c.p, c.state, self.k, c.key, c.index)


class TopP(Forgetful):
    """Keep the largest candidates until their probabilities reach ``limit``."""

    __slots__ = ("limit", "min_keep")

    def __init__(self, limit: float, min_keep: int) -> None:
        self.limit = np.float32(limit)
        self.min_keep = min_keep

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_top_p_apply."""
        kernels.top_p(c.ids, c.logit, c.p, c.state, self.limit, self.min_keep, c.key, c.index)


class MinP(Forgetful):
    """Keep candidates of at least ``limit`` times the largest probability."""

    __slots__ = ("limit", "min_keep")

    def __init__(self, limit: float, min_keep: int) -> None:
        self.limit = np.float32(limit)
        self.min_keep = min_keep

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_min_p_apply."""
        kernels.min_p(c.ids, c.logit, c.p, c.state, self.limit, self.min_keep, c.key, c.index)


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
            from bankml.kernels import sampling_more

            sampling_more.dynamic_temperature(c.ids, c.logit, c.p, c.state, self.t, self.delta, self.exponent, c.key, c.index)
        else:
            kernels.temperature(c.logit, c.state, self.t)


class Dist(Forgetful):
    """Select one candidate by its probability."""

    __slots__ = ("rng",)

    def __init__(self, rng: Generator) -> None:
        self.rng = rng

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_dist_apply."""
        kernels.dist(c.ids, c.logit, c.p, c.state, self.rng)


class LogitBias(Forgetful):
    """Add to the logits of named tokens."""

    __slots__ = ("biases", "tokens")

    def __init__(self, pairs: list[tuple[int, float]]) -> None:
        self.tokens: Ints = np.array([token for token, _ in pairs], np.int32)
        self.biases: Floats = np.array([bias for _, bias in pairs], np.float32)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_logit_bias_apply."""
        from bankml.kernels import sampling_more

        sampling_more.add_bias(c.ids, c.logit, c.state, self.tokens, self.biases)


class Penalties:
    """Push down the tokens of the last ``last_n``, prompt included."""

    __slots__ = ("counts", "frequency", "presence", "repeat", "window")

    def __init__(self, n_vocab: int, last_n: int, repeat: float, frequency: float, presence: float) -> None:
        self.window: deque[int] = deque(maxlen=last_n)
        self.counts: Ints = np.zeros(n_vocab, np.int32)
        self.repeat = np.float32(repeat)
        self.frequency = np.float32(frequency)
        self.presence = np.float32(presence)

    def accept(self, token: int) -> None:
        """Source: llama_sampler_penalties_accept."""
        self.counts[token] += 1
        if len(self.window) == self.window.maxlen:
            self.counts[self.window[0]] -= 1
        self.window.append(token)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_penalties_apply."""
        from bankml.kernels import sampling_more

        sampling_more.penalties(c.ids, c.logit, c.state, self.counts, self.repeat, self.frequency, self.presence)


class TopNSigma(Forgetful):
    """Drop what lies more than n standard deviations below the largest logit."""

    __slots__ = ("n",)

    def __init__(self, n: float) -> None:
        self.n = np.float32(n)

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_top_n_sigma_apply."""
        from bankml.kernels import sampling_more

        sampling_more.top_n_sigma(c.logit, c.state, self.n)


class Typical(Forgetful):
    """Keep the candidates of the most ordinary surprise."""

    __slots__ = ("limit", "min_keep")

    def __init__(self, limit: float, min_keep: int) -> None:
        self.limit = np.float32(limit)
        self.min_keep = min_keep

    def apply(self, c: Candidates) -> None:
        """Source: llama_sampler_typical_apply."""
        from bankml.kernels import sampling_more

        sampling_more.typical(c.ids, c.logit, c.p, c.state, self.limit, self.min_keep, c.key, c.index)


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
        from bankml.kernels import sampling_more

        sampling_more.xtc(c.ids, c.logit, c.p, c.state, self.probability, self.threshold, self.min_keep, self.rng, c.key, c.index)


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
        from bankml.kernels import sampling_more

        common = (self.tau, self.eta, self.mu, self.rng, c.key, c.index)
        if self.version == 1:
            sampling_more.mirostat(c.ids, c.logit, c.p, c.state, self.n_vocab, *common)
        else:
            sampling_more.mirostat_v2(c.ids, c.logit, c.p, c.state, *common)


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
        from bankml.kernels import sampling_more

        token = sampling_more.adaptive_p(c.ids, c.logit, c.p, c.state, self.target, self.average, self.original, self.rng)
        if self.target >= 0:
            self.pending = (token, c.selected)
