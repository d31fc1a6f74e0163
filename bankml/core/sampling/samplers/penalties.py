# SPDX-License-Identifier: MIT OR Apache-2.0
"""Penalties of tokens that were there before. Its formula and widths stand with its kernel."""

from __future__ import annotations

from collections import deque

import numpy as np

from bankml.core.sampling.candidates import Candidates, Ints


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
        from bankml.kernels.sampling import more as sampling_more

        sampling_more.penalties(c.ids, c.logit, c.state, self.counts, self.repeat, self.frequency, self.presence)
