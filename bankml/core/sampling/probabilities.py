# SPDX-License-Identifier: MIT OR Apache-2.0
"""How probable the sampled token and its rivals were: by the raw logits, or by what the sampler chain left.

Source: populate_token_probs, tools/server/server-context.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bankml.core.sampling.candidates import Candidates, Floats, Ints
from bankml.kernels.sampling import probabilities as kernels
from bankml.kernels.sampling.samplers import SORTED


@dataclass(frozen=True, slots=True)
class Probabilities:
    """One token among the most probable ones.

    Attributes:
        token: the sampled token.
        value: its natural logarithm of a probability, or its probability after sampling; single precision.
        top: the most probable tokens, the first one most, each with its value.
    """

    token: int
    value: float
    top: list[tuple[int, float]]


class Measure(Protocol):
    """Measures one sampled token after the other."""

    def __call__(self, logits: Floats, candidates: Candidates, token: int) -> Probabilities:
        """What ``token``, drawn from ``candidates`` that came of ``logits``, was among."""
        ...


class Logprobs:
    """Logarithms of the softmax of the raw logits, before any sampler.

    Args:
        n_vocab: how many logits there are.
        n: how many of the most probable tokens to name.
    """

    def __init__(self, n_vocab: int, n: int) -> None:
        self._n = min(n, n_vocab)
        self._key: Floats = np.empty(n_vocab, np.float32)
        self._ids: Ints = np.empty(self._n, np.int32)
        self._values: Floats = np.empty(self._n, np.float32)

    def __call__(self, logits: Floats, candidates: Candidates, token: int) -> Probabilities:
        """What ``token`` was among, whatever the samplers made of it."""
        value = kernels.logprobs(logits, token, self._n, self._key, self._ids, self._values)
        return Probabilities(token, float(value), list(zip(self._ids.tolist(), self._values.tolist(), strict=True)))


class SampledProbs:
    """Probabilities that the last sampler drew by; candidates of none are left out.

    Args:
        n: how many of the most probable tokens to name.
    """

    def __init__(self, n: int) -> None:
        self._n = n

    def __call__(self, logits: Floats, candidates: Candidates, token: int) -> Probabilities:
        """What ``token`` was among when it was drawn."""
        c = candidates
        size = c.size
        if c.state[SORTED]:
            order = np.arange(min(size, self._n), dtype=np.int32)
        else:
            kernels.order_by_p(c.p, size, c.key, c.index)
            order = c.index[: min(size, self._n)]
        top: list[tuple[int, float]] = []
        for at in order.tolist():
            if c.p[at] == 0:
                break
            top.append((int(c.ids[at]), float(c.p[at])))
        return Probabilities(token, float(c.p[c.selected]), top)
