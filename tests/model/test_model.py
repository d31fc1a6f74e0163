# SPDX-License-Identifier: MIT OR Apache-2.0
"""A loaded model: what its bits depend on and what not, cells kept and given back, bad input."""

import numpy as np
import pytest

from bankml.core.model.model import Model
from bankml.refusal import Refusal

TOKENS = [(7 * i * i + 3 * i) % 317 for i in range(700)]


def bits(logits):
    return logits.view(np.uint32).copy()


def answers(gguf, sizes, **options):
    """The bits of each micro-batch's logits."""
    model = Model.load(gguf, n_ctx=768, **options)
    try:
        out, pos = [], 0
        for size in sizes:
            out.append(bits(model.eval(TOKENS[pos : pos + size], pos)))
            pos += size
        return out
    finally:
        model.close()


def same(a, b):
    return [bool((x == y).all()) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_bits_do_not_depend_on_the_threads(small, name):
    sizes = (200, 1, 3, 320, 1, 64, 1)
    one = answers(small(name), sizes, threads=1)
    for threads in (2, 5):
        assert all(same(one, answers(small(name), sizes, threads=threads)))


def test_bits_depend_on_the_references_threads_past_256_cells_alone(small):
    sizes = (200, 1, 53, 1, 1, 1)
    found = same(answers(small("llama"), sizes, llama_threads=1), answers(small("llama"), sizes, llama_threads=4))
    assert found == [True, True, True, True, True, False]


def test_a_later_cell_is_forgotten(small):
    model = Model.load(small("llama"), n_ctx=512)
    try:
        first = bits(model.eval(TOKENS[:100], 0))
        model.eval(TOKENS[300:400], 50)
        model.eval(TOKENS[50:99], 50)
        again = bits(model.eval(TOKENS[:100], 0))
        assert (first == again).all()
    finally:
        model.close()


def test_logits_may_be_left_out(small):
    model = Model.load(small("llama"), n_ctx=512)
    try:
        whole = bits(model.eval(TOKENS[:40], 0))
        one = bits(model.eval(TOKENS[40:41], 40))
        assert model.eval(TOKENS[:40], 0, logits=False) is None
        assert (bits(model.eval(TOKENS[40:41], 40)) == one).all()
        assert (whole != one).any()
    finally:
        model.close()


@pytest.mark.parametrize("cache_type", ["f16", "q8_0"])
def test_cells_are_copied_and_put_back(small, cache_type):
    model = Model.load(small("llama"), n_ctx=512, cache_type=cache_type)
    try:
        model.eval(TOKENS[:77], 0)
        saved = model.copy_cells(77)
        after = bits(model.eval(TOKENS[77:80], 77))
        model.eval(TOKENS[200:400], 0)
        model.put_cells(saved)
        assert (bits(model.eval(TOKENS[77:80], 77)) == after).all()
    finally:
        model.close()


def test_the_trace_gives_the_logits_of_every_row(small):
    model = Model.load(small("qwen3"), n_ctx=512)
    try:
        traced = model.trace(TOKENS[:9])
        assert set(traced) == {"l_out-0", "l_out-1", "l_out-2", "result_output"}
        assert traced["l_out-1"].shape == (9, 256)
        assert traced["result_output"].shape == (9, 320)
        assert not np.isnan(traced["result_output"]).any()
    finally:
        model.close()


@pytest.mark.parametrize(
    ("tokens", "pos"),
    [([], 0), (TOKENS[:1], -1), (TOKENS[:1], 512), (TOKENS[:513], 0), (TOKENS[:100], 450), ([317], 0), ([-1], 0)],
)
def test_a_micro_batch_that_does_not_fit_is_refused(small, tokens, pos):
    model = Model.load(small("llama"), n_ctx=512)
    try:
        with pytest.raises(Refusal):
            model.eval(tokens, pos)
    finally:
        model.close()


@pytest.mark.parametrize(
    "options",
    [{"n_ctx": -1}, {"n_ctx": 256, "threads": 0}, {"n_ctx": 256, "llama_threads": 0}, {"n_ctx": 256, "cache_type": "q4_0"}],
)
def test_options_out_of_range_are_refused(small, options):
    with pytest.raises(Refusal):
        Model.load(small("llama"), **options)


def test_a_q8_0_cache_needs_heads_of_whole_blocks(small):
    with pytest.raises(Refusal) as refusal:
        Model.load(small("llama-heads-80"), n_ctx=256, cache_type="q8_0")
    assert (refusal.value.code, refusal.value.found) == ("model.cache-type", "80")
    assert refusal.value.where == "key llama.attention.key_length"


def test_no_context_means_the_models_own(small):
    model = Model.load(small("llama"), n_ctx=0)
    try:
        assert model.n_ctx == 1024
    finally:
        model.close()
