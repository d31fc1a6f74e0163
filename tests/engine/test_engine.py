# SPDX-License-Identifier: MIT OR Apache-2.0
"""The engine on the real model: endings that no record can hold. Answers themselves are held to llama-server by records."""

import sys
import threading
import time

import pytest

from bankml.core.engine import Engine, EngineOptions
from bankml.core.engine.scheduler import Scheduler
from bankml.core.sampling import SamplingParams
from bankml.refusal import Refusal
from tests.steps import calls

GREEDY = SamplingParams.greedy()


@pytest.fixture(scope="module")
def engine(smollm2):
    with Engine.open(smollm2, EngineOptions(n_ctx=512)) as opened:
        yield opened


@pytest.fixture
def prompt(engine):
    return engine.tokenizer.encode("Once upon a time, there was a")


def test_steps_and_totals(engine, prompt):
    completion = engine.complete(prompt, GREEDY, max_tokens=12)
    steps = list(completion)
    assert [step.token for step in steps] == completion.tokens
    assert [step.count for step in steps] == list(range(1, 13))
    assert "".join(step.text for step in steps) == completion.text == completion.raw_text
    assert (completion.finish_reason, completion.stop_type, completion.completion_tokens) == ("length", "limit", 12)
    assert completion.prompt_ms > 0 < completion.predicted_ms
    assert completion.ttft_ms >= completion.prompt_ms


def test_same_again_from_the_cache(engine, prompt):
    first = engine.complete(prompt, GREEDY, max_tokens=8, cache_prompt=False).run()
    again = engine.complete(prompt, GREEDY, max_tokens=8).run()
    assert again.cached_tokens == len(prompt) - 1
    assert again.tokens == first.tokens


def test_alive_is_asked_before_every_token(engine, prompt):
    asked = []

    def alive():
        asked.append(None)
        return len(asked) < 6

    completion = engine.complete(prompt, GREEDY, max_tokens=50, alive=alive).run()
    assert completion.cancelled
    assert completion.completion_tokens == 5
    assert engine.slot.tokens == [*prompt, *completion.tokens[:-1]]


def test_nobody_there_from_the_start(engine, prompt):
    completion = engine.complete(prompt, GREEDY, alive=lambda: False).run()
    assert completion.cancelled
    assert completion.tokens == []


def test_cancel_from_another_thread(engine, prompt):
    completion = engine.complete(prompt, SamplingParams(seed=1, ignore_eos=True), max_tokens=-1)
    threading.Timer(0.2, completion.cancel).start()
    completion.run()
    assert completion.cancelled
    assert 0 < completion.completion_tokens < 500


def test_left_alone_it_lets_the_next_one_in(engine, prompt):
    left = engine.complete(prompt, GREEDY, max_tokens=50)
    next(left)
    left.close()
    assert engine.scheduler.waiting == 0
    assert engine.complete(prompt, GREEDY, max_tokens=2).run().completion_tokens == 2


def test_one_at_a_time_in_order(engine, prompt):
    order = []
    running = engine.complete(prompt, GREEDY, max_tokens=4)
    next(running)

    def wait_for(name):
        engine.complete(prompt, GREEDY, max_tokens=2).run()
        order.append(name)

    threads = [threading.Thread(target=wait_for, args=(name,)) for name in "abc"]
    for count, thread in enumerate(threads, 2):
        thread.start()
        while engine.scheduler.waiting < count:
            time.sleep(0.005)
    assert order == []
    running.run()
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "c"]


def test_waiting_in_vain(engine, prompt):
    running = engine.complete(prompt, GREEDY, max_tokens=4)
    next(running)
    waiting = engine.complete(prompt, GREEDY)
    waiting.cancel()
    assert waiting.run().tokens == []
    assert engine.scheduler.waiting == 1
    running.run()


@pytest.mark.parametrize(
    ("tokens", "code"), [([1] * 512, "engine.context"), ([1, 10**6], "engine.tokens"), ([-1], "engine.tokens")]
)
def test_prompts_that_are_refused(engine, prompt, tokens, code):
    completion = engine.complete(tokens, GREEDY)
    with pytest.raises(Refusal) as caught:
        next(completion)
    assert caught.value.code == code
    assert engine.complete(prompt, GREEDY, max_tokens=1).run().completion_tokens == 1


def test_empty_prompt_has_an_empty_answer(engine):
    completion = engine.complete([], GREEDY).run()
    assert (completion.tokens, completion.text, completion.stop_type) == ([], "", "none")


def test_context_is_rounded_up_as_the_reference_does(smollm2):
    with Engine.open(smollm2, EngineOptions(n_ctx=300, threads=1)) as engine:
        assert engine.n_ctx == 512


def test_context_is_at_most_the_models_own(smollm2):
    with Engine.open(smollm2, EngineOptions(n_ctx=10000, threads=1)) as engine:
        assert engine.n_ctx == 8192


def test_context_that_is_none(smollm2):
    with pytest.raises(Refusal, match="context"):
        Engine.open(smollm2, EngineOptions(n_ctx=-1))


def test_the_engine_adds_little_to_a_token(engine, prompt):
    """Calls of Python between two evaluations of the model."""
    completion = engine.complete(prompt, GREEDY, max_tokens=40)
    evaluate = engine.model.eval

    def uncounted(*args):
        counting = sys.getprofile()
        sys.setprofile(None)
        try:
            return evaluate(*args)
        finally:
            sys.setprofile(counting)

    engine.model.eval = uncounted
    try:
        assert calls(completion.run) < 40 * 100
    finally:
        del engine.model.eval
    assert len(completion.tokens) == 40


def test_turns_give_up():
    scheduler = Scheduler()
    assert scheduler.enter(lambda: True)
    assert not scheduler.enter(lambda: False)
    scheduler.leave()
    assert scheduler.waiting == 0
