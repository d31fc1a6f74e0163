# SPDX-License-Identifier: MIT OR Apache-2.0
"""``/v1/chat/completions``: one answer of the engine in llama-server's shapes, whole or streamed, with its receipt."""

from __future__ import annotations

import asyncio
import math
import secrets
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bankml.core.refusal import Refusal
from bankml.core.serve import shapes
from bankml.core.serve.json_reader import read_json
from bankml.core.serve.logprobs import Entry, ListHash, entries
from bankml.core.serve.receipt import receipt
from bankml.core.serve.request import ChatRequest, read_chat
from bankml.core.serve.resident import Resident
from bankml.core.serve.verbose import verbose
from bankml.core.serve.worker import Begun, Ended, Gone, Took, Wanted, answer, counted
from bankml.core.text.utf8 import complete

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Engine, Measured
    from bankml.core.sampling import SamplingParams
    from bankml.core.text.template import Prompt

OFFLOAD_BYTES = 1 << 16


async def parse(body: bytes) -> Any:
    """The JSON of a body; a large one is read off the event loop."""
    return read_json(body) if len(body) < OFFLOAD_BYTES else await asyncio.to_thread(read_json, body)


@dataclass
class Prepared:
    """A request made ready for the engine.

    Attributes:
        params: as resolved, the seed drawn.
        seed: as the request or the file has it; 0xFFFFFFFF asks for any.
        since: ``time.perf_counter()`` when the request came.
    """

    engine: Engine
    request: ChatRequest
    body: bytes
    prompt: Prompt
    tokens: list[int]
    params: SamplingParams
    seed: int
    since: float

    @property
    def stop(self) -> list[str]:
        """The strings that end the answer: the request's, then the template's."""
        return [*self.request.stop, *self.prompt.stops]


async def prepare(resident: Resident, body: bytes) -> Prepared:
    """Read the request, load the model if need be, render and tokenize the prompt, resolve the sampling parameters.

    Raises:
        Refusal: before anything was computed.
    """
    since = time.perf_counter()
    request = read_chat(await parse(body))
    engine = await resident.acquire()
    prompt, tokens, params = await asyncio.to_thread(_ready, engine, request)
    return Prepared(engine, request, body, prompt, tokens, _with_seed(params), params.seed, since)


def _ready(engine: Engine, request: ChatRequest) -> tuple[Prompt, list[int], SamplingParams]:
    from bankml.core.sampling import resolve_params

    prompt = engine.template.prompt(request.conversation)
    tokens = engine.tokenizer.encode(prompt.raw, add_special=True, parse_special=True)
    params = resolve_params(request.sampling, engine.defaults, engine.tokenizer)
    if len(tokens) >= engine.n_ctx:
        raise Refusal(
            "engine.context",
            f"request ({len(tokens)} tokens) exceeds the available context size ({engine.n_ctx} tokens), try increasing it",
            kind="exceed_context_size_error",
            extra={"n_prompt_tokens": len(tokens), "n_ctx": engine.n_ctx},
        )
    return prompt, tokens, params


def _with_seed(params: SamplingParams) -> SamplingParams:
    """Draw the seed here and not in the sampler, so that the receipt names the one that was used."""
    from bankml.core.sampling import RANDOM_SEED

    return replace(params, seed=secrets.randbelow(RANDOM_SEED)) if params.seed == RANDOM_SEED else params


@dataclass
class Answer:
    """One answer on its way: runs the engine, keeps what was said, knows the note for the log.

    Attributes:
        logprobs: the hash of the probabilities that it carried.
        note: what the log row says of it.
    """

    resident: Resident
    prepared: Prepared
    wanted: Wanted
    identity: str = field(default_factory=shapes.new_id)
    text: str = ""
    logprobs: ListHash = field(default_factory=ListHash)
    note: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, resident: Resident, prepared: Prepared, stopping: threading.Event) -> Answer:
        """An answer that nobody has given up yet."""
        return cls(resident, prepared, Wanted(stopping))

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
            grammar=request.grammar,
        )

    def told(self, measured: list[Measured]) -> list[Entry]:
        """The tokens' probabilities in their shape; the receipt will have their hash."""
        told = entries(measured, self.prepared.engine.tokenizer.piece, self.prepared.request.post_sampling_probs)
        self.logprobs.add(told)
        return told

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
            yield item

    def _account(self, completion: Completion) -> None:
        total = len(self.prepared.tokens)
        if self.wanted():
            self.note = (
                f"prompt {total} (cached {completion.cached_tokens}), answer {completion.completion_tokens}, "
                f"{completion.finish_reason}"
            )
        else:
            held = min(len(self.prepared.engine.slot.tokens), total)
            self.note = (
                f"the client went away; stopped after {held} of {total} prompt tokens "
                f"and {completion.completion_tokens} of the answer (kept in the slot)"
            )

    def receipt(self, completion: Completion) -> dict[str, Any]:
        """The receipt of the finished answer."""
        return receipt(
            self.resident.origin(self.prepared.engine),
            request=self.prepared.body,
            text=self.text,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cache_n=completion.cached_tokens,
            ttft_ms=completion.ttft_ms,
            wall_ms=(time.perf_counter() - self.prepared.since) * 1e3,
            sampling=resolved(self.prepared.params),
            logprobs_sha256=self.logprobs.hexdigest(),
        )


def resolved(params: SamplingParams) -> dict[str, Any]:
    """Sampling parameters as a receipt tells them; infinite values, which JSON lacks, as null."""
    from dataclasses import asdict

    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in asdict(params).items()
    }


async def whole(answer_: Answer) -> dict[str, Any]:
    """The body of a whole answer.

    Raises:
        Gone: the client left.
        Refusal: nothing is answered.
    """
    request = answer_.prepared.request
    async for item in answer_.events():
        if not isinstance(item, Ended):
            continue
        completion = item.completion
        answer_.text = request.prefill + completion.text
        numbers = counted(completion)
        body = shapes.completion(answer_.identity, answer_.model, answer_.text, completion.finish_reason, numbers)
        measured = completion.measured_text
        # Off the event loop: of a long answer it takes a second.
        told = await asyncio.to_thread(answer_.told, measured) if measured else []
        if told:
            body["choices"][0]["logprobs"] = {"content": told}
        if request.verbose:
            body["__verbose"] = verbose(answer_.prepared, completion, answer_.model, numbers)
            if told:
                body["__verbose"]["completion_probabilities"] = told
        body["timings"] = shapes.timings(numbers)
        body["bankml_receipt"] = answer_.receipt(completion)
        return body
    raise Gone


async def stream(answer_: Answer) -> AsyncGenerator[bytes]:
    """The events of a streamed answer; the first, empty one says that the answer has begun.

    Raises:
        Gone: the client left.
        Refusal: the answer ends here; before the first event it can still be told with a status.
    """
    request = answer_.prepared.request
    chunks = shapes.Chunks(answer_.identity, answer_.model)
    prefill = request.prefill
    unsaid = prefill if request.echo_prefill else ""
    async for item in answer_.events():
        if isinstance(item, Begun):
            yield b""
        elif isinstance(item, Ended):
            answer_.text += unsaid
            for chunk in _last_chunks(answer_, item.completion, chunks):
                yield shapes.event(chunk)
            yield shapes.DONE
        else:
            step = item.step
            deltas = []
            if step.count == 1 and _whole_character(answer_.prepared.engine, step.token):
                deltas.append(chunks.role())
            if step.text or (unsaid and deltas):
                deltas.append(chunks.delta({"content": unsaid + step.text}))
                answer_.text += unsaid + step.text
                unsaid = ""
            if deltas and step.measured is not None and step.measured.probabilities.top:
                deltas[-1]["choices"][0]["logprobs"] = {"content": answer_.told([step.measured])}
            if deltas and (item.stopped or request.timings_per_token):
                deltas[-1]["timings"] = shapes.timings(item.counts)
            for chunk in deltas:
                yield shapes.event(chunk)


def _last_chunks(answer_: Answer, completion: Completion, chunks: shapes.Chunks) -> list[dict[str, Any]]:
    request = answer_.prepared.request
    numbers = counted(completion)
    last = [chunks.delta({}, completion.finish_reason)]
    if request.include_usage:
        last.append({**chunks.bare([]), "usage": shapes.usage(numbers)})
    last[-1]["timings"] = shapes.timings(numbers)
    if request.verbose:
        last[0]["__verbose"] = verbose(answer_.prepared, completion, answer_.model, numbers)
    # The event has the shape of a chunk that says nothing: clients read choices[0].delta of every event.
    last.append({"bankml_receipt": answer_.receipt(completion), **chunks.delta({}, completion.finish_reason)})
    return last


def _whole_character(engine: Engine, token: int) -> bool:
    """Whether a first token leaves no character unfinished; llama-server opens its stream only then.

    Source: process_token, tools/server/server-context.cpp.
    """
    piece = engine.tokenizer.piece(token)
    return complete(piece) == len(piece)
