# SPDX-License-Identifier: MIT OR Apache-2.0
from dataclasses import replace

import numpy as np
import pytest

from bankml.core.sampling import RANDOM_SEED, Sampler, SamplingParams
from bankml.core.sampling.candidates import Candidates, generator
from bankml.kernels.sampling import samplers as kernels

RNG = np.random.default_rng(3)


def logits(n=2000):
    return RNG.standard_normal(n).astype(np.float32) * np.float32(4)


def test_generator_is_mt19937():
    words = generator(5489)
    for _ in range(9999):
        kernels.mt_next(words)
    assert kernels.mt_next(words) == 4123659995


def test_generator_is_numpys():
    words = generator(7)
    theirs = np.random.RandomState(7)
    assert [kernels.mt_next(words) for _ in range(2000)] == theirs.randint(0, 2**32, 2000, np.uint64).tolist()


def test_greedy_takes_the_largest_and_of_equals_what_partial_sort_puts_first():
    sampler = Sampler(SamplingParams.greedy(), 2000)
    for _ in range(20):
        x = logits()
        assert sampler.sample(x) == int(np.argmax(x))


def test_same_seed_same_tokens_other_seed_others():
    rows = [logits() for _ in range(30)]

    def tokens(seed):
        sampler = Sampler(SamplingParams(seed=seed, temperature=1.5), 2000)
        return [sampler.sample(row) for row in rows]

    assert tokens(5) == tokens(5)
    assert tokens(5) != tokens(6)


def test_random_seed_is_drawn_and_told():
    seeds = {Sampler(SamplingParams(seed=RANDOM_SEED), 10).seed for _ in range(4)}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_load_top_k_is_load_and_top_k():
    for n in (1, 5, 39, 40, 41, 100, 5000):
        for x in (logits(n), np.round(logits(n)), np.zeros(n, np.float32)):
            for k in (1, 2, 40, 128):
                a, b = Candidates(n), Candidates(n)
                kernels.load_top_k(x, k, a.ids, a.logit, a.state)
                kernels.load(x, b.ids, b.logit, b.state)
                kernels.top_k(b.ids, b.logit, b.p, b.state, k, b.key, b.index)
                assert a.size == b.size
                assert (a.ids[: a.size] == b.ids[: b.size]).all()
                assert (a.logit[: a.size] == b.logit[: b.size]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(seed=1),
        SamplingParams(seed=1, top_k=0),
        SamplingParams(seed=1, top_k=500, typical_p=0.5),
        SamplingParams.greedy(),
        SamplingParams(seed=1, mirostat=1),
        SamplingParams(seed=1, mirostat=2),
        SamplingParams(seed=1, top_k=0, dynatemp_range=0.5, xtc_probability=1.0, top_n_sigma=1.0, repeat_penalty=1.5),
    ],
)
def test_logits_that_are_no_numbers_still_give_a_token(value, params):
    for x in (np.full(2000, value, np.float32), np.where(logits() > 0, value, logits()).astype(np.float32)):
        sampler = Sampler(params, 2000)
        for token in (0, 5, 5):
            sampler.accept(token)
        assert all(0 <= sampler.sample(x) < 2000 for _ in range(3))


def test_penalties_forget_what_leaves_the_window():
    sampler = Sampler(SamplingParams(temperature=0.0, presence_penalty=100.0, repeat_last_n=2), 10)
    x = np.arange(10, dtype=np.float32)
    sampler.accept(9)
    assert sampler.sample(x) == 8
    sampler.accept(8)
    assert sampler.sample(x) == 7
    sampler.accept(3)
    assert sampler.sample(x) == 9


def test_suppressed_tokens_are_never_said():
    sampler = Sampler(SamplingParams.greedy(), 10, suppressed=[9, 8])
    assert sampler.sample(np.arange(10, dtype=np.float32)) == 7


@pytest.mark.parametrize("large", [3.4028234663852886e38, -3.4028234663852886e38])
def test_numbers_at_the_limit_of_floats(large):
    params = SamplingParams(
        seed=1,
        frequency_penalty=large,
        presence_penalty=large,
        dry_multiplier=large,
        dry_allowed_length=0,
        dynatemp_range=large,
        dynatemp_exponent=large,
        top_n_sigma=abs(large),
        typical_p=large,
        min_keep=2**31 - 1,
        repeat_last_n=2**31 - 1,
        top_k=2**31 - 1,
    )
    for changed in ({}, {"mirostat": 1, "mirostat_tau": large}, {"mirostat": 2, "mirostat_eta": large}):
        sampler = Sampler(replace(params, **changed), 2000)
        for token in (1, 2, 1, 2):
            sampler.accept(token)
        assert all(0 <= sampler.sample(logits()) < 2000 for _ in range(3))
    adaptive = Sampler(SamplingParams(samplers=("adaptive_p",), adaptive_target=large, adaptive_decay=0.99), 2000)
    adaptive.accept(adaptive.sample(logits()))
    assert 0 <= adaptive.sample(logits()) < 2000
