# SPDX-License-Identifier: MIT OR Apache-2.0
"""``/completion`` and ``/v1/completions``: texts continued, whole or streamed; no template sees them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from bankml.core.serve import shapes
from bankml.core.serve.answer import Answer, Prepared, parse, with_seed
from bankml.core.serve.completion_request import CompletionRequest, grammar_of_request, read_completion
from bankml.core.serve.completion_shapes import Shape
from bankml.core.serve.prompts import prompt_tokens
from bankml.core.serve.resident import Resident
from bankml.core.serve.worker import Begun, Took

if TYPE_CHECKING:
    from bankml.core.engine import Engine
    from bankml.core.sampling import SamplingParams


async def prepare(resident: Resident, body: bytes) -> list[Prepared]:
    """Read the request, load the model if need be, tokenize each prompt, resolve the sampling parameters.

    Raises:
        Refusal: before anything was computed.
    """
    since = time.perf_counter()
    request = read_completion(await parse(body))
    engine = await resident.acquire()
    prompts, params, grammar = await asyncio.to_thread(_ready, engine, request)
    return [
        Prepared(
            engine=engine,
            request=request,
            body=body,
            tokens=tokens,
            params=with_seed(params),
            seed=params.seed,
            stop=request.stop,
            grammar=grammar,
            since=since,
        )
        for tokens in prompts
    ]


def _ready(engine: Engine, request: CompletionRequest) -> tuple[list[list[int]], SamplingParams, str]:
    from bankml.core.sampling import resolve_params

    prompts = prompt_tokens(engine.tokenizer, request.prompt)
    params = resolve_params(request.sampling, engine.defaults, engine.tokenizer)
    grammar = grammar_of_request(request)
    for tokens in prompts:
        engine.check(tokens)
    return prompts, params, grammar


async def whole(answers: list[Answer[Prepared]], shape: Shape) -> Any:
    """The body of whole answers.

    Raises:
        Gone: the client left.
        Refusal: nothing is answered.
    """
    bodies = []
    for answer in answers:
        completion = await answer.ended()
        answer.text = completion.raw_text
        told = await answer.told_whole(completion)
        bodies.append({**shape.whole(answer, completion, told), "bankml_receipt": answer.receipt(completion)})
    return shape.together(bodies)


async def stream(answers: list[Answer[Prepared]], shape: Shape) -> AsyncGenerator[bytes]:
    """The events of streamed answers, one answer after the other; the first, empty one says that an answer has begun.

    Raises:
        Gone: the client left.
        Refusal: the answer ends here; before the first event it can still be told with a status.
    """
    for answer in answers:
        async for item in answer.events():
            if isinstance(item, Begun):
                yield b""
            elif isinstance(item, Took):
                if item.step.whole:
                    yield shapes.event(_part(answer, item, shape))
            else:
                yield shapes.event(shape.whole(answer, item.completion, []))
                yield shapes.event({"bankml_receipt": answer.receipt(item.completion), **shape.silent(answer, item.completion)})
    yield shape.done


def _part(answer: Answer[Prepared], took: Took, shape: Shape) -> dict[str, Any]:
    answer.text += took.step.text
    measured = took.step.measured
    told = answer.told([measured]) if measured is not None and measured.probabilities.top else []
    return shape.part(answer, took, told)
