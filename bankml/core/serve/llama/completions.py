# SPDX-License-Identifier: MIT OR Apache-2.0
"""``/completion`` and ``/v1/completions``: texts continued, whole or streamed; no template sees them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Any

from bankml.core.http import sse
from bankml.core.json.reader import read_json
from bankml.core.serve.answer import Sent, with_seed
from bankml.core.serve.llama.answer import LlamaAnswer
from bankml.core.serve.llama.completion_request import CompletionRequest, PreparedText, grammar_of_request, read_completion
from bankml.core.serve.llama.completion_shapes import Shape
from bankml.core.serve.llama.prompts import prompt_tokens
from bankml.core.serve.worker import Started, Token

if TYPE_CHECKING:
    from bankml.core.engine import Completion, Engine


def read(body: bytes) -> CompletionRequest:
    """The request in a body.

    Raises:
        Refusal: as :func:`read_completion`.
    """
    return read_completion(read_json(body))


def prepare(engine: Engine, request: CompletionRequest, sent: Sent) -> list[PreparedText]:
    """Tokenize each prompt, resolve the sampling parameters and the grammar.

    Raises:
        Refusal: before anything was computed.
    """
    from bankml.core.sampling import resolve_params

    prompts = prompt_tokens(engine.tokenizer, request.prompt)
    params = resolve_params(request.sampling, engine.defaults, engine.tokenizer)
    grammar = grammar_of_request(request)
    for tokens in prompts:
        engine.check(tokens)
    kept = request.without_prompt()
    return [
        PreparedText(
            engine=engine,
            request=kept,
            sent=sent,
            tokens=list(tokens),
            params=with_seed(params),
            seed=params.seed,
            stop=request.stop,
            grammar=grammar,
        )
        for tokens in prompts
    ]


async def whole(answers: list[LlamaAnswer[PreparedText]], shape: Shape) -> Any:
    """The body of whole answers.

    Raises:
        Gone: the client left.
        Refusal: nothing is answered.
    """
    bodies = []
    for answer in answers:
        completion = await answer.ended()
        bodies.append(await answer.aside(partial(_body, answer, completion, shape)))
    return shape.together(bodies)


def _body(answer: LlamaAnswer[PreparedText], completion: Completion, shape: Shape) -> dict[str, Any]:
    answer.text = completion.raw_text
    probabilities = answer.probabilities_of_whole(completion)
    return {**shape.whole(answer, completion, probabilities), "bankml_receipt": answer.receipt(completion)}


async def stream(answers: list[LlamaAnswer[PreparedText]], shape: Shape) -> AsyncGenerator[bytes]:
    """The events of streamed answers, one answer after the other; the first, empty one says that an answer has begun.

    Raises:
        Gone: the client left.
        Refusal: the answer ends here; before the first event it can still be a status.
    """
    for answer in answers:
        async for item in answer.events():
            if isinstance(item, Started):
                yield b""
            elif isinstance(item, Token):
                if item.step.whole:
                    yield sse.event(_part(answer, item, shape))
            else:
                yield await answer.aside(partial(_last_events, answer, item.completion, shape))
    yield shape.done


def _last_events(answer: LlamaAnswer[PreparedText], completion: Completion, shape: Shape) -> bytes:
    receipt = {"bankml_receipt": answer.receipt(completion), **shape.silent(answer, completion)}
    return sse.events([shape.whole(answer, completion, []), receipt])


def _part(answer: LlamaAnswer[PreparedText], took: Token, shape: Shape) -> dict[str, Any]:
    answer.text += took.step.text
    measured = took.step.measured
    probabilities = answer.probabilities([measured]) if measured is not None and measured.probabilities.top else []
    return shape.part(answer, took, probabilities)
