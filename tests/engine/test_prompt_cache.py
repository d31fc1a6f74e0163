# SPDX-License-Identifier: MIT OR Apache-2.0
"""The rules of the slot and the host's prompt cache; ``greedy-turns.json.gz`` holds them to llama-server."""

import dataclasses

import numpy as np
import pytest

from bankml.core.engine import Engine
from bankml.core.engine.prompt_cache import PromptCache, common_prefix, ram_limit
from bankml.core.engine.slot import Slot
from bankml.core.refusal import Refusal


class Cells:
    """Stands in for a model: its cells hold the tokens, so what is restored can be checked."""

    def __init__(self):
        self.cells = []
        self.evaluated = []

    def state_bytes(self, count):
        return 4 * count

    def eval(self, tokens, pos, logits=True):
        self.evaluated.append((pos, len(tokens), logits))
        self.cells[pos:] = tokens
        return np.zeros(4, np.float32) if logits else None

    def copy_cells(self, count):
        return self.cells[:count]

    def put_cells(self, saved):
        self.cells[: len(saved)] = saved


def asked(slot, prompt, cache_prompt=True):
    """Put a prompt through the slot; returns how many tokens it did not evaluate."""
    slot.choose(prompt)
    kept = slot.keep(prompt, cache_prompt)
    slot.evaluate(prompt, lambda: True)
    assert slot.model.cells[: len(prompt)] == prompt == slot.tokens
    return kept


@pytest.fixture
def slot():
    return Slot(Cells(), PromptCache(1 << 30, 4096))


A, B = list(range(100, 200)), list(range(500, 600))


def test_common_prefix():
    assert common_prefix([], [1]) == 0
    assert common_prefix([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common_prefix([1, 2], [1, 2, 3]) == 2


def test_at_least_one_token_is_evaluated(slot):
    assert asked(slot, A) == 0
    assert asked(slot, A) == 99
    assert asked(slot, A[:50]) == 49
    assert slot.model.evaluated[-1] == (49, 1, True)


def test_cache_prompt_false_evaluates_all(slot):
    asked(slot, A)
    assert asked(slot, A, cache_prompt=False) == 0


def test_conversations_come_back_from_the_host(slot):
    asked(slot, A)
    asked(slot, B)
    assert asked(slot, [*A, 1]) == 100
    assert asked(slot, [*B, 2]) == 100
    assert [len(entry.tokens) for entry in slot.cache.entries] == [101]


def test_exactly_half_of_the_slot_is_no_reason_to_save(slot):
    asked(slot, A[:40])
    asked(slot, [*A[:20], 7, 8])
    assert slot.cache.entries == []
    asked(slot, [*A[:10], 9])
    assert [entry.tokens for entry in slot.cache.entries] == [[*A[:20], 7, 8]]


def test_a_tenth_of_the_prompt_is_too_little(slot):
    asked(slot, A[:10])
    slot.choose([*A[:10], *B[:90]])
    assert [entry.tokens for entry in slot.cache.entries] == [A[:10]]


def test_an_entry_must_beat_the_slot_in_both_shares():
    cache = PromptCache(1 << 20, 4096)
    cache.save([1, 2, 3, 4, 9, 9, 9, 9], 8, lambda: "long")
    assert cache.take([1, 2], [1, 2, 3, 4, 5]) is None  # keeps half of itself, the slot all
    assert cache.take([1, 7, 7], [1, 2, 3, 4, 5]).cells == "long"
    assert cache.entries == []


def test_an_entry_that_ties_with_the_slot_in_the_prompts_share_stays():
    cache = PromptCache(1 << 20, 4096)
    cache.save([1, 2, 9], 8, lambda: "short")
    assert cache.take([1, 2, 7, 7, 7, 7, 7, 7], [1, 2, 3, 4]) is None
    assert [entry.tokens for entry in cache.entries] == [[1, 2, 9]]
    assert cache.take([1, 7, 7, 7, 7, 7, 7, 7], [1, 2, 3, 4]).cells == "short"


def test_an_entry_must_keep_a_quarter_of_itself():
    cache = PromptCache(1 << 20, 4096)
    cache.save([1, *range(10, 14)], 8, lambda: None)
    assert cache.take([], [1, 2]) is None
    cache.save([1, *range(20, 23)], 8, lambda: None)
    assert cache.take([], [1, 2]) is not None


def test_contained_prompts_are_not_kept_twice():
    cache = PromptCache(1 << 20, 4096)
    cache.save([1, 2], 8, lambda: None)
    cache.save([1, 2, 3], 8, lambda: None)
    cache.save([1, 2], 8, lambda: pytest.fail("copied what is there already"))
    assert [entry.tokens for entry in cache.entries] == [[1, 2, 3]]


def test_limits_drop_the_oldest():
    cache = PromptCache(100, 4)
    for n in range(5):
        cache.save([n, n], 40, lambda: None)
    assert [entry.tokens[0] for entry in cache.entries] == [3, 4]
    cache.save([9], 101, lambda: pytest.fail("copied what is too large"))
    unlimited = PromptCache(-1, 4)
    for n in range(5):
        unlimited.save([n, n], 40, lambda: None)
    unlimited.trim()
    assert [entry.tokens[0] for entry in unlimited.entries] == [3, 4]


def test_as_many_tokens_stay_as_the_bytes_allow():
    cache = PromptCache(1000, 4)
    for n in range(5):
        cache.save([n, n], 20, lambda: None)
    cache.trim()
    # Ten tokens of ten bytes each: a hundred would be allowed.
    assert [entry.tokens[0] for entry in cache.entries] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("size", "kept"), [(39, 0), (9, 7), (57, 0), (58, 7)])
def test_the_limit_of_tokens_is_reckoned_in_single_precision(size, kept):
    # size / (size / 7) is 7 or just under 7, and in double precision the other of the two.
    assert (int(size / (size / 7)) == 7) == (kept == 0)
    cache = PromptCache(size, 1)
    cache.save([1] * 7, size, lambda: None)
    cache.trim()
    assert cache.n_tokens == kept


def test_where_memory_ends_the_cache_is_made_smaller():
    cache = PromptCache(1000, 4096)
    cache.save([1], 100, lambda: None)
    cache.save([2], 100, lambda: None)

    def copy():
        raise MemoryError

    cache.save([3], 100, copy)
    assert (cache.limit, [entry.tokens for entry in cache.entries]) == (80, [])


def test_without_a_cache_nothing_is_saved():
    slot = Slot(Cells(), None)
    asked(slot, A)
    asked(slot, B)
    assert asked(slot, A) == 0


@pytest.mark.parametrize(
    ("batch", "start", "end", "cuts"),
    [
        (2048, 0, 513, [512, 1]),
        (2048, 100, 1200, [512, 512, 76]),
        (2048, 0, 2049, [512, 512, 512, 512, 1]),
        (256, 0, 300, [256, 44]),
        (1000, 0, 1010, [512, 488, 10]),
    ],
)
def test_micro_batches(batch, start, end, cuts):
    slot = Slot(Cells(), None, batch)
    prompt = list(range(end))
    slot.tokens = prompt[:start]
    slot.evaluate(prompt, lambda: True)
    assert [count for _, count, _ in slot.model.evaluated] == cuts
    assert [logits for _, _, logits in slot.model.evaluated] == [False] * (len(cuts) - 1) + [True]


def test_stopped_between_micro_batches_it_keeps_what_it_has():
    slot = Slot(Cells(), None)
    answers = iter([True, False])
    assert slot.evaluate(list(range(1500)), lambda: next(answers)) is None
    assert slot.tokens == list(range(512))


@pytest.mark.parametrize(("value", "limit"), [("0", None), ("-1", -1), ("3", 3 << 20)])
def test_ram_limit(monkeypatch, value, limit):
    monkeypatch.setenv("BANKML_CACHE_RAM", value)
    assert ram_limit() == limit


def test_without_the_variable_the_limit_is_llama_servers_whatever_is_free(monkeypatch):
    monkeypatch.delenv("BANKML_CACHE_RAM", raising=False)
    assert ram_limit() == 8192 << 20


@pytest.mark.parametrize("value", ["-2", "x", "1.5"])
def test_ram_limit_that_is_none(monkeypatch, value):
    monkeypatch.setenv("BANKML_CACHE_RAM", value)
    with pytest.raises(Refusal):
        ram_limit()


@pytest.mark.parametrize(("cache_type", "cell"), [("f16", 30 * 2 * 3 * 64 * 2), ("q8_0", 30 * 2 * 3 * 2 * 34)])
def test_an_entry_counts_the_bytes_of_llama_cpps_state(smollm2, cache_type, cell):
    with Engine.open(smollm2, n_ctx=256, cache_type=cache_type) as engine:
        assert [engine.model.state_bytes(count) for count in (1, 455)] == [744 + 12 + cell, 744 + 455 * (12 + cell)]
        engine.slot.tokens = list(range(9))
        engine.slot.choose([100, 101])
        assert engine.slot.cache.size == 744 + 9 * (12 + cell)


def test_entries_are_plain_data():
    cache = PromptCache(1 << 20, 4)
    cache.save([1], 8, lambda: "cells")
    assert dataclasses.asdict(cache.entries[0]) == {"tokens": [1], "cells": "cells", "size": 8}
