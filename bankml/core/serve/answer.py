# SPDX-License-Identifier: MIT OR Apache-2.0
"""One answer of the engine on its way to a client, whatever shape it gets: prepared, run, accounted for, with its receipt."""

from __future__ import annotations

import asyncio
import math
import secrets
import threading
import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bankml.core.refusal import Refusal
from bankml.core.serve import shapes
from bankml.core.serve.json_reader import read_json
from bankml.core.serve.logprobs import Entry, ListHash, entries
from bankml.core.serve.receipt import receipt
from bankml.core.serve.request import AnswerRequest
from bankml.core.serve.resident import Resident
from bankml.core.serve.worker import Begun, Ended, Gone, Took, Wanted, answer

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Engine, Measured
    from bankml.core.sampling import SamplingParams

OFFLOAD_BYTES = 1 << 16


async def parse(body: bytes) -> Any:
    """The JSON of a body; a large one is read off the event loop."""
    return read_json(body) if len(body) < OFFLOAD_BYTES else await asyncio.to_thread(read_json, body)


@dataclass(kw_only=True)
class Prepared:
    """A request made ready for the engine.

    Attributes:
        params: as resolved, the seed drawn.
        seed: as the request or the file has it; 0xFFFFFFFF asks for any.
        stop: the strings that end the answer.
        grammar: GBNF that binds the answer, empty for none.
        prefill: the end of the prompt, over which the grammar goes before the answer.
        preserved: control tokens whose text is part of the answer.
        since: ``time.perf_counter()`` when the request came.
    """

    engine: Engine
    request: AnswerRequest
    body: bytes
    tokens: list[int]
    params: SamplingParams
    seed: int
    stop: list[str]
    grammar: str
    since: float
    prefill: bytes = b""
    preserved: Collection[int] = ()


def with_seed(params: SamplingParams) -> SamplingParams:
    """Draw the seed here and not in the sampler, so that the receipt names the one that was used."""
    from bankml.core.sampling import RANDOM_SEED

    return replace(params, seed=secrets.randbelow(RANDOM_SEED)) if params.seed == RANDOM_SEED else params


P = TypeVar("P", bound=Prepared)


@dataclass
class Answer(Generic[P]):
    """One answer on its way: runs the engine, keeps what was said, knows the note for the log.

    Attributes:
        index: which of the request's answers this is.
        text: what was told.
        reasoning: what was told apart from it.
        logprobs: the hash of the probabilities that it carried.
        has_new_line: whether a line end was sent.
        note: what the log row says of it.
    """

    resident: Resident
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
    def of(cls, resident: Resident, prepared: Sequence[P], stopping: threading.Event) -> list[Answer[P]]:
        """The answers to one request, which nobody has given up yet."""
        identity = shapes.new_id()
        return [cls(resident, each, Wanted(stopping), index, identity) for index, each in enumerate(prepared)]

    @property
    def model(self) -> str:
        """The model's name in answers: its path, as llama-server names a model started with ``-m``."""
        return str(self.prepared.engine.gguf.path)

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

    def told(self, measured: list[Measured]) -> list[Entry]:
        """The tokens' probabilities in their shape; the receipt will have their hash."""
        told = entries(measured, self.prepared.engine.tokenizer.piece, self.prepared.request.post_sampling_probs)
        self.logprobs.add(told)
        return told

    async def told_whole(self, completion: Completion) -> list[Entry]:
        """The probabilities of a whole answer, none where none were asked for."""
        measured = completion.measured_text
        # Off the event loop: of a long answer it takes a second.
        return await asyncio.to_thread(self.told, measured) if measured else []

    async def events(self) -> AsyncIterator[Begun | Took | Ended]:
        """The engine's events; the last one only when the file is still the verified one and the answer was finished.

        Raises:
            Gone: the client left.
            Refusal: the file changed meanwhile, or the server is stopping.
        """
        async for item in answer(self.resident.thread, self._start, self.wanted):
            if isinstance(item, Ended):
                self._account(item.completion)
                if not self.wanted():
                    if self.wanted.gone:
                        raise Gone
                    raise Refusal("serve.stopping", "bankml serve is stopping", status=503, kind="unavailable_error")
                self.resident.check(self.prepared.engine)
            elif isinstance(item, Took):
                self.has_new_line = self.has_new_line or "\n" in item.step.text
            yield item

    async def ended(self) -> Completion:
        """The finished completion, its steps passed over.

        Raises:
            Gone: the client left.
            Refusal: nothing is answered.
        """
        async for item in self.events():
            if isinstance(item, Ended):
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
            request=self.prepared.body,
            text=self.text,
            reasoning=self.reasoning,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cache_n=completion.cached_tokens,
            ttft_ms=completion.ttft_ms,
            wall_ms=(time.perf_counter() - self.prepared.since) * 1e3,
            sampling=resolved(self.prepared.params),
            grammar=self.prepared.grammar,
            logprobs_sha256=self.logprobs.hexdigest(),
        )


def resolved(params: SamplingParams) -> dict[str, Any]:
    """Sampling parameters as a receipt tells them; infinite values, which JSON lacks, as null."""
    from dataclasses import asdict

    return {name: _finite(value) for name, value in asdict(params).items()}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
