# SPDX-License-Identifier: MIT OR Apache-2.0
"""One answer: steps while it is made, totals when it is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from bankml.core.engine.release import Release, cut_character

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from bankml.core.engine.scheduler import Scheduler
    from bankml.core.engine.slot import Slot
    from bankml.core.sampling.chain import Sampler
    from bankml.core.sampling.probabilities import Measure, Probabilities
    from bankml.core.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TokenProbabilities:
    """One token's probabilities and the bytes it released. A token that leaves a character unfinished has none."""

    probabilities: Probabilities
    text: bytes


@dataclass(frozen=True, slots=True)
class Step:
    """What one token brought.

    Attributes:
        released: what may be released now, often nothing.
        token: the token.
        count: how many tokens the answer has so far.
        eog: the token ends the answer.
        whole: it leaves no character unfinished.
        measured: its probabilities, where they were asked for.
    """

    released: bytes
    token: int
    count: int
    eog: bool
    whole: bool
    measured: TokenProbabilities | None = None

    @property
    def text(self) -> str:
        """What may be released now, as text."""
        return self.released.decode("utf-8", "replace")


class Completion:
    """An answer that is made while it is iterated, once. Afterwards the totals stand.

    From its first step to its last it has the engine to itself: one that is left before its end is closed, by :meth:`close` or a
    ``with`` statement.

    Attributes:
        tokens: what was generated, the end token included.
        prompt_tokens: tokens of the prompt.
        cached_tokens: how many of them were in the slot already.
        held_tokens: how many tokens the slot has at the end.
        stop_type: ``eos``, ``word`` or ``limit``, ``none`` where nothing was asked for; llama-server's words.
        truncated: the context was full.
        cancelled: the caller went away, or ``cancel`` was called.
        prompt_ms: from the start to the first token.
        predicted_ms: from the first token to the last.
        ttft_ms: from the request, waiting included, to the first token.
        measured: the tokens' probabilities, where they were asked for.
    """

    def __init__(
        self,
        slot: Slot,
        scheduler: Scheduler,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        sampler: Sampler,
        *,
        max_tokens: int,
        stop: Sequence[str],
        cache_prompt: bool,
        alive: Callable[[], bool] | None,
        preserved: Collection[int] = (),
        measure: Measure | None = None,
    ) -> None:
        self.prompt = list(prompt)
        self.tokens: list[int] = []
        self.prompt_tokens = len(self.prompt)
        self.cached_tokens = 0
        self.held_tokens = 0
        self.stop_type = "none"
        self.truncated = False
        self.cancelled = False
        self.prompt_ms = 0.0
        self.predicted_ms = 0.0
        self.ttft_ms = 0.0
        self.params = sampler.params
        self.seed = sampler.seed
        self.measured: list[TokenProbabilities] = []
        self._measure = measure
        self._probabilities: Probabilities | None = None
        self._slot = slot
        self._scheduler = scheduler
        self._tokenizer = tokenizer
        self._sampler = sampler
        self._max_tokens = max_tokens
        self._cache_prompt = cache_prompt
        self._alive = alive
        self._preserved = frozenset(preserved)
        self._released = Release(stop)
        self._cancel = threading.Event()
        self._asked = time.perf_counter()
        self._steps = self._run()

    def __iter__(self) -> Iterator[Step]:
        return self._steps

    def __next__(self) -> Step:
        return next(self._steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cancel(self) -> None:
        """Stop before the next token; from any thread."""
        self._cancel.set()

    def close(self) -> None:
        """Stop where it is and let the next one have the engine; from the thread that iterates."""
        self._steps.close()

    def run(self) -> Completion:
        """Make the whole answer; returns itself."""
        for _ in self:
            pass
        return self

    @property
    def completion_tokens(self) -> int:
        """How many tokens were generated, the end token included."""
        return len(self.tokens)

    @property
    def stop_word(self) -> str | None:
        """The stop string that was met."""
        return self._released.stop_word

    @property
    def measured_text(self) -> list[TokenProbabilities]:
        """The probabilities of a non-streamed answer: the tokens of the stop string are cut off.

        Source: send_final_response, tools/server/server-context.cpp.
        """
        if self.stop_type != "word" or self.stop_word is None:
            return self.measured
        stop = self._tokenizer.encode(self.stop_word, add_special=False, parse_special=False)
        return self.measured[: max(len(self.measured) - len(stop), 0)]

    @property
    def finish_reason(self) -> str:
        """``stop`` or ``length``, as OpenAI calls the endings."""
        return "stop" if self.stop_type in ("eos", "word") else "length"

    @property
    def raw_text(self) -> str:
        """All text, as /completion gives it: bytes that are no character become U+FFFD."""
        return self._released.text.decode("utf-8", "replace")

    @property
    def raw_bytes(self) -> bytes:
        """All text, as the tokens have it."""
        return bytes(self._released.text)

    @property
    def text(self) -> str:
        """All text, as a chat gives it: without the bytes of a character cut at the end, unless there is nothing else."""
        whole = self._released.text
        cut = cut_character(whole)
        return whole[: len(whole) - cut].decode("utf-8", "replace") or self.raw_text

    def _going(self) -> bool:
        if self._cancel.is_set() or (self._alive is not None and not self._alive()):
            self.cancelled = True
        return not self.cancelled

    def _run(self) -> Generator[Step, None, None]:
        if not self._scheduler.enter(self._going):
            return
        try:
            yield from self._answer()
        finally:
            self.held_tokens = len(self._slot.tokens)
            self._scheduler.leave()

    def _answer(self) -> Generator[Step, None, None]:
        slot = self._slot
        slot.choose(self.prompt)
        slot.check(self.prompt)
        if not self.prompt:
            return
        start = time.perf_counter()
        self.cached_tokens = slot.keep(self.prompt, self._cache_prompt)
        logits = slot.evaluate(self.prompt, self._going)
        if logits is None:
            return
        for token in self.prompt:
            self._sampler.accept(token)
        token = self._sampled(logits)
        first = time.perf_counter()
        self.prompt_ms = (first - start) * 1e3
        self.ttft_ms = (first - self._asked) * 1e3
        while True:
            step = self._took(token)
            yield step
            if self.stop_type != "none" or not self._going():
                return
            token = self._sampled(slot.step(token))
            self.predicted_ms = (time.perf_counter() - first) * 1e3

    def _sampled(self, logits: npt.NDArray[np.float32]) -> int:
        token = self._sampler.sample(logits)
        self._sampler.accept(token)
        if self._measure is not None:
            self._probabilities = self._measure(logits, self._sampler.chain.candidates, token)
        self.tokens.append(token)
        return token

    def _took(self, token: int) -> Step:
        """Release text and see whether this is the end. Source: process_token, tools/server/server-context.cpp."""
        eog = token in self._tokenizer.eog
        text = self._released.push(self._tokenizer.piece(token, special=token in self._preserved), eog)
        if self._released.stop_word is not None:
            self.stop_type = "word"
        if len(self._slot.tokens) + 1 >= self._slot.n_ctx:
            self.truncated = True
            self.stop_type = "limit"
        if self.stop_type == "none" and 0 <= self._max_tokens <= len(self.tokens):
            self.stop_type = "limit"
        if eog:
            self.stop_type = "eos"
        measured = None
        if self._probabilities is not None and self._released.whole:
            measured = TokenProbabilities(self._probabilities, text)
            self.measured.append(measured)
        return Step(text, token, len(self.tokens), eog, self._released.whole, measured)
