# SPDX-License-Identifier: MIT OR Apache-2.0
"""One answer of the engine on its way to a client, whatever shape it gets: prepared, run, accounted for, with its receipt."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from bankml.core.http.desk import Desk
from bankml.core.http.wanted import Gone, Wanted
from bankml.core.receipts.logprobs import ListHash
from bankml.core.receipts.receipt import receipt, resolved
from bankml.core.serve.resident import Resident
from bankml.core.serve.worker import Event, Finished, Token, answer

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Engine
    from bankml.core.sampling import SamplingParams


@dataclass(frozen=True)
class Sent:
    """What is kept of a request's body: not the body, which would wait with the answer for its turn.

    Attributes:
        sha256: of the bytes as they came.
        size: how many they are.
        since: ``time.perf_counter()`` when they were there.
    """

    sha256: str
    size: int
    since: float

    @classmethod
    def of(cls, body: bytes) -> Self:
        """What is kept of a body that came now."""
        since = time.perf_counter()
        return cls(hashlib.sha256(body).hexdigest(), len(body), since)


@dataclass(frozen=True)
class AnswerOptions:
    """What a request says of how its answer is made and sent, whatever the dialect.

    Attributes:
        max_tokens: limit of the answer, None for none; 0 still gives one token.
        cache_prompt: use what the slot holds already.
        n_probs: how many of the most probable tokens to tell with each token, 0 or less for no probabilities.
        post_sampling_probs: whether those are probabilities after the sampler chain.
        ping_seconds: a stream that stays silent so long sends a comment, -1 for never.
    """

    stream: bool
    max_tokens: int | None
    cache_prompt: bool
    n_probs: int
    post_sampling_probs: bool
    ping_seconds: int


@dataclass(kw_only=True)
class Prepared:
    """A request made ready for the engine.

    Attributes:
        sent: what is kept of its body.
        params: as resolved, the seed drawn.
        seed: as the request or the file has it; 0xFFFFFFFF asks for any.
        stop: the strings that end the answer.
        grammar: GBNF that binds the answer, empty for none.
        prefill: the end of the prompt, over which the grammar goes before the answer.
        preserved: control tokens whose text is part of the answer.
    """

    engine: Engine
    request: AnswerOptions
    sent: Sent
    tokens: list[int]
    params: SamplingParams
    seed: int
    stop: list[str]
    grammar: str
    prefill: bytes = b""
    preserved: Collection[int] = ()


def with_seed(params: SamplingParams) -> SamplingParams:
    """Draw the seed here and not in the sampler, so that the receipt names the one that was used."""
    from bankml.core.sampling import RANDOM_SEED

    return replace(params, seed=secrets.randbelow(RANDOM_SEED)) if params.seed == RANDOM_SEED else params


P = TypeVar("P", bound=Prepared)
T = TypeVar("T")


@dataclass
class Answer(Generic[P]):
    """One answer on its way: runs the engine, keeps what was said, knows the note for the log.

    Attributes:
        index: which of the request's answers this is.
        text: what was sent.
        reasoning: what was sent apart from it.
        logprobs: the hash of the probabilities that it carried.
        has_new_line: whether a line end was sent.
        note: what the log row says of it.
    """

    resident: Resident
    desk: Desk
    prepared: P
    wanted: Wanted
    index: int
    identity: str
    text: str = ""
    reasoning: str = ""
    logprobs: ListHash = field(default_factory=ListHash)
    has_new_line: bool = False
    note: str = ""

    @classmethod
    def of(cls, resident: Resident, desk: Desk, prepared: Sequence[P], wanted: Wanted, identity: str) -> list[Self]:
        """The answers to one request, which share its id."""
        return [cls(resident, desk, each, wanted, index, identity) for index, each in enumerate(prepared)]

    async def aside(self, work: Callable[[], T]) -> T:
        """The result of work that follows the size of the request or of the answer, done off the event loop."""
        return await self.desk.run(self.wanted, self.prepared.sent.size, work)

    def _start(self) -> Completion:
        prepared = self.prepared
        request = prepared.request
        # In the thread that also unloads: an engine that is resident here stays so until the answer's end.
        self.resident.check(prepared.engine)
        return prepared.engine.complete(
            prepared.tokens,
            prepared.params,
            max_tokens=request.max_tokens,
            stop=prepared.stop,
            cache_prompt=request.cache_prompt,
            alive=self.wanted,
            n_probs=request.n_probs,
            post_sampling_probs=request.post_sampling_probs,
            grammar=prepared.grammar,
            prefill=prepared.prefill,
            preserved=prepared.preserved,
        )

    async def events(self) -> AsyncIterator[Event]:
        """The engine's events; the last one only when the file is still the verified one and the answer was finished.

        Raises:
            Gone: the client left.
            Refusal: the file changed meanwhile, or the server is stopping.
        """
        async for item in answer(self.resident.thread, self._start, self.wanted):
            if isinstance(item, Finished):
                self._account(item.completion)
                if not self.wanted():
                    raise self.wanted.reason()
                self.resident.check(self.prepared.engine)
            elif isinstance(item, Token):
                self.has_new_line = self.has_new_line or "\n" in item.step.text
            yield item

    async def ended(self) -> Completion:
        """The finished completion, its steps passed over.

        Raises:
            Gone: the client left.
            Refusal: nothing is answered.
        """
        async for item in self.events():
            if isinstance(item, Finished):
                return item.completion
        raise Gone

    def _account(self, completion: Completion) -> None:
        total = len(self.prepared.tokens)
        if self.wanted():
            self.note = (
                f"prompt {total} (cached {completion.cached_tokens}), answer {completion.completion_tokens}, "
                f"{completion.finish_reason}"
            )
        else:
            self.note = (
                f"the client went away; stopped after {min(completion.held_tokens, total)} of {total} prompt tokens "
                f"and {completion.completion_tokens} of the answer (kept in the slot)"
            )

    def receipt(self, completion: Completion) -> dict[str, Any]:
        """The receipt of the finished answer."""
        return receipt(
            self.resident.origin(self.prepared.engine),
            request_sha256=self.prepared.sent.sha256,
            text=self.text,
            reasoning=self.reasoning,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cache_n=completion.cached_tokens,
            ttft_ms=completion.ttft_ms,
            wall_ms=(time.perf_counter() - self.prepared.sent.since) * 1e3,
            sampling=resolved(self.prepared.params),
            grammar=self.prepared.grammar,
            logprobs_sha256=self.logprobs.hexdigest(),
        )
