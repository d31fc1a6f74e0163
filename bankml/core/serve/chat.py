# SPDX-License-Identifier: MIT OR Apache-2.0
"""``/v1/chat/completions``: one answer of the engine in llama-server's shapes, whole or streamed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bankml.core.serve import shapes
from bankml.core.serve.answer import Answer, Prepared, parse, with_seed
from bankml.core.serve.logprobs import Entry
from bankml.core.serve.request import ChatRequest, read_chat
from bankml.core.serve.resident import Resident
from bankml.core.serve.verbose import chat_settings, verbose
from bankml.core.serve.worker import Begun, Ended, counted

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Engine
    from bankml.core.sampling import SamplingParams
    from bankml.core.text.template import Prompt


@dataclass
class PreparedChat(Prepared):
    """A chat made ready for the engine.

    Attributes:
        prompt: what the template made of it.
    """

    request: ChatRequest
    prompt: Prompt


async def prepare(resident: Resident, body: bytes) -> PreparedChat:
    """Read the request, load the model if need be, render and tokenize the prompt, resolve the sampling parameters.

    Raises:
        Refusal: before anything was computed.
    """
    since = time.perf_counter()
    request = read_chat(await parse(body))
    engine = await resident.acquire()
    prompt, tokens, params = await asyncio.to_thread(_ready, engine, request)
    return PreparedChat(
        engine=engine,
        request=request,
        body=body,
        tokens=tokens,
        params=with_seed(params),
        seed=params.seed,
        stop=[*request.stop, *prompt.stops],
        grammar=request.grammar,
        since=since,
        prompt=prompt,
    )


def _ready(engine: Engine, request: ChatRequest) -> tuple[Prompt, list[int], SamplingParams]:
    from bankml.core.sampling import resolve_params

    prompt = engine.template.prompt(request.conversation)
    tokens = engine.tokenizer.encode(prompt.raw, add_special=True, parse_special=True)
    params = resolve_params(request.sampling, engine.defaults, engine.tokenizer)
    engine.check(tokens)
    return prompt, tokens, params


async def whole(answer: Answer[PreparedChat]) -> dict[str, Any]:
    """The body of a whole answer.

    Raises:
        Gone: the client left.
        Refusal: nothing is answered.
    """
    request = answer.prepared.request
    completion = await answer.ended()
    answer.text = request.prefill + completion.text
    numbers = counted(completion)
    body = shapes.completion(answer.identity, answer.model, answer.text, completion.finish_reason, numbers)
    told = await answer.told_whole(completion)
    if told:
        body["choices"][0]["logprobs"] = {"content": told}
    if request.verbose:
        body["__verbose"] = _verbose(answer, completion, told)
    body["timings"] = shapes.timings(numbers)
    body["bankml_receipt"] = answer.receipt(completion)
    return body


def _verbose(answer: Answer[PreparedChat], completion: Completion, told: list[Entry]) -> dict[str, Any]:
    return verbose(answer, completion, told, chat_settings(answer.prepared.prompt.generation_prompt))


async def stream(answer: Answer[PreparedChat]) -> AsyncGenerator[bytes]:
    """The events of a streamed answer; the first, empty one says that the answer has begun.

    Raises:
        Gone: the client left.
        Refusal: the answer ends here; before the first event it can still be told with a status.
    """
    request = answer.prepared.request
    chunks = shapes.Chunks(answer.identity, answer.model)
    prefill = request.prefill
    unsaid = prefill if request.echo_prefill else ""
    async for item in answer.events():
        if isinstance(item, Begun):
            yield b""
        elif isinstance(item, Ended):
            answer.text += unsaid
            for chunk in _last_chunks(answer, item.completion, chunks):
                yield shapes.event(chunk)
            yield shapes.DONE
        else:
            step = item.step
            deltas = []
            # As in llama-server: a first token that leaves a character unfinished opens no stream.
            if step.count == 1 and step.whole:
                deltas.append(chunks.role())
            if step.text or (unsaid and deltas):
                deltas.append(chunks.delta({"content": unsaid + step.text}))
                answer.text += unsaid + step.text
                unsaid = ""
            if deltas and step.measured is not None and step.measured.probabilities.top:
                deltas[-1]["choices"][0]["logprobs"] = {"content": answer.told([step.measured])}
            if deltas and (item.stopped or request.timings_per_token):
                deltas[-1]["timings"] = shapes.timings(item.counts)
            for chunk in deltas:
                yield shapes.event(chunk)


def _last_chunks(answer: Answer[PreparedChat], completion: Completion, chunks: shapes.Chunks) -> list[dict[str, Any]]:
    request = answer.prepared.request
    numbers = counted(completion)
    last = [chunks.delta({}, completion.finish_reason)]
    if request.include_usage:
        last.append({**chunks.bare([]), "usage": shapes.usage(numbers)})
    last[-1]["timings"] = shapes.timings(numbers)
    if request.verbose:
        last[0]["__verbose"] = _verbose(answer, completion, [])
    # The event has the shape of a chunk that says nothing: clients read choices[0].delta of every event.
    last.append({"bankml_receipt": answer.receipt(completion), **chunks.delta({}, completion.finish_reason)})
    return last
