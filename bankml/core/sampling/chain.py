# SPDX-License-Identifier: MIT OR Apache-2.0
"""The chain of an answer: samplers in b11192's order over the logits of one token after another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bankml.core.sampling.candidates import Candidates, Floats, generator
from bankml.core.sampling.params import RANDOM_SEED, SamplingParams
from bankml.core.sampling.samplers import (
    AdaptiveP,
    Dist,
    Forgetful,
    LogitBias,
    MinP,
    Mirostat,
    Penalties,
    Step,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from bankml.kernels.sampling import samplers as kernels

if TYPE_CHECKING:
    from bankml.core.sampling.dry import Pieces


class Chain:
    """Samplers in a row; the last one selects."""

    def __init__(self, steps: Sequence[Step], n_vocab: int) -> None:
        self.steps = list(steps)
        self.candidates = Candidates(n_vocab)
        first = self.steps[0] if self.steps else None
        # The usual first sampler needs no copy of the vocabulary.
        self._head = first.k if isinstance(first, TopK) and 1 <= first.k <= kernels.HEAP_LIMIT else 0
        self._rest = [step.apply for step in (self.steps[1:] if self._head else self.steps)]
        self._learning = [step.accept for step in self.steps if not isinstance(step, Forgetful)]

    def apply(self, logits: Floats) -> Candidates:
        """Run all samplers over the logits of one token."""
        c = self.candidates
        if self._head:
            kernels.load_top_k(logits, self._head, c.ids, c.logit, c.state)
        else:
            kernels.load(logits, c.ids, c.logit, c.state)
        for apply in self._rest:
            apply(c)
        return c

    def accept(self, token: int) -> None:
        """Show a token to the samplers that look at tokens."""
        for accept in self._learning:
            accept(token)


class Sampler:
    """Draws the tokens of one answer.

    Args:
        params: the chain.
        n_vocab: how many logits there are.
        vocabulary: the tokenizer, which DRY needs for its breakers.
        suppressed: tokens that the model never says (``tokenizer.ggml.suppress_tokens``).
    """

    def __init__(
        self, params: SamplingParams, n_vocab: int, vocabulary: Pieces | None = None, suppressed: Iterable[int] = ()
    ) -> None:
        self.params = params
        self.seed = params.seed if params.seed != RANDOM_SEED else int.from_bytes(os.urandom(4), "little")
        self.chain = Chain(_steps(params, self.seed, n_vocab, vocabulary, suppressed), n_vocab)

    def accept(self, token: int) -> None:
        """A token of the prompt, or the one just sampled, joins what penalties and DRY look at."""
        self.chain.accept(token)

    def sample(self, logits: Floats) -> int:
        """The next token. Source: common_sampler_sample, common/sampling.cpp."""
        c = self.chain.apply(logits)
        return int(c.ids[c.selected])


def _steps(params: SamplingParams, seed: int, n_vocab: int, vocabulary: Pieces | None, suppressed: Iterable[int]) -> list[Step]:
    """The samplers that change something. Source: common_sampler_init, common/sampling.cpp."""
    steps: list[Step] = []
    biases = [*params.logit_bias, *((token, float("-inf")) for token in suppressed)]
    if biases:
        steps.append(LogitBias(biases))
    if params.mirostat:
        steps.append(Temperature(params.temperature))
        steps.append(Mirostat(params.mirostat, n_vocab, params.mirostat_tau, params.mirostat_eta, generator(seed)))
        return steps
    for name in (each for each in params.samplers if each != "adaptive_p"):
        step = _step(name, params, seed, n_vocab, vocabulary)
        if step is not None:
            steps.append(step)
    if "adaptive_p" in params.samplers:
        steps.append(AdaptiveP(n_vocab, params.adaptive_target, params.adaptive_decay, generator(seed)))
    else:
        steps.append(Dist(generator(seed)))
    return steps


def _step(name: str, params: SamplingParams, seed: int, n_vocab: int, vocabulary: Pieces | None) -> Step | None:
    """One sampler of the chain, None where its numbers make it do nothing."""
    keep = params.min_keep
    if name == "penalties":
        return _penalties(params, n_vocab)
    if name == "dry":
        return _dry(params, vocabulary)
    if name == "top_n_sigma":
        return TopNSigma(params.top_n_sigma) if params.top_n_sigma > 0 else None
    if name == "top_k":
        return TopK(params.top_k) if params.top_k > 0 else None
    if name == "typ_p":
        return Typical(params.typical_p, keep) if params.typical_p < 1 else None
    if name == "top_p":
        return TopP(params.top_p, keep) if params.top_p < 1 else None
    if name == "min_p":
        return MinP(params.min_p, keep) if params.min_p > 0 else None
    if name == "xtc":
        off = params.xtc_probability <= 0 or params.xtc_threshold > 0.5
        return None if off else Xtc(params.xtc_probability, params.xtc_threshold, keep, generator(seed))
    assert name == "temperature"
    off = params.temperature == 1 and params.dynatemp_range <= 0
    return None if off else Temperature(params.temperature, params.dynatemp_range, params.dynatemp_exponent)


def _penalties(params: SamplingParams, n_vocab: int) -> Step | None:
    numbers = (params.repeat_penalty, params.frequency_penalty, params.presence_penalty)
    if params.repeat_last_n <= 0 or numbers == (1.0, 0.0, 0.0):
        return None
    return Penalties(n_vocab, params.repeat_last_n, *numbers)


def _dry(params: SamplingParams, vocabulary: Pieces | None) -> Step | None:
    if params.dry_multiplier == 0 or params.dry_base < 1 or params.dry_penalty_last_n <= 0:
        return None
    from bankml.core.sampling.dry import Breakers, Dry, no_breakers

    tails = no_breakers if vocabulary is None else Breakers(params.dry_sequence_breakers, vocabulary).tails
    return Dry(params.dry_multiplier, params.dry_base, params.dry_allowed_length, params.dry_penalty_last_n, tails)
