# SPDX-License-Identifier: MIT OR Apache-2.0
"""``/v1/chat/completions``: one answer of the engine in llama-server's shapes, whole or streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bankml.core.http import sse
from bankml.core.json.reader import read_json
from bankml.core.receipts.logprobs import Entry
from bankml.core.serve.answer import Prepared, Sent, with_seed
from bankml.core.serve.llama import shapes
from bankml.core.serve.llama.answer import LlamaAnswer
from bankml.core.serve.llama.constraint import constraint
from bankml.core.serve.llama.request import ChatRequest, read_chat
from bankml.core.serve.llama.verbose import chat_settings, verbose
from bankml.core.serve.worker import Finished, Started, counted

if TYPE_CHECKING:
    from bankml.core.answers.chat_grammar import ChatGrammar
    from bankml.core.answers.content import Content
    from bankml.core.answers.peg_read import Said
    from bankml.core.engine import Completion, Engine


@dataclass(kw_only=True)
class PreparedChat(Prepared):
    """A chat made ready for the engine.

    Attributes:
        chat: how its answer is read.
    """

    request: ChatRequest
    chat: ChatGrammar

    def content(self) -> Content:
        """What will tell the answer's content and reasoning."""
        from bankml.core.answers.content import Content

        return Content(self.chat, self.request.silent_prefill)


def read(body: bytes) -> ChatRequest:
    """The request in a body.

    Raises:
        Refusal: as :func:`read_chat`.
    """
    return read_chat(read_json(body))


def prepare(engine: Engine, request: ChatRequest, sent: Sent) -> list[PreparedChat]:
    """Render and tokenize the prompt, resolve the sampling parameters and the grammar.

    Raises:
        Refusal: before anything was computed.
    """
    from bankml.core.engine.chat import ready, rendered
    from bankml.core.sampling import resolve_params

    made = rendered(engine, request.conversation)
    # Long messages are not kept beside the tokens of their prompt.
    request = request.without_messages()
    chat = ready(engine, made)
    params = resolve_params(request.sampling, engine.defaults, engine.tokenizer)
    bound = constraint(request, chat.reading)
    engine.check(chat.tokens)
    return [
        PreparedChat(
            engine=engine,
            request=request.without_schema(),
            sent=sent,
            tokens=list(chat.tokens),
            params=with_seed(params),
            seed=params.seed,
            stop=[*request.stop, *chat.stops],
            grammar=bound.grammar,
            prefill=bound.prefill,
            preserved=chat.preserved,
            chat=chat.reading,
        )
    ]


async def whole(answer: LlamaAnswer[PreparedChat]) -> dict[str, Any]:
    """The body of a whole answer.

    Raises:
        Gone: the client left.
        Refusal: nothing is answered.
    """
    completion = await answer.ended()
    return await answer.aside(lambda: _body(answer, completion))


def _body(answer: LlamaAnswer[PreparedChat], completion: Completion) -> dict[str, Any]:
    from bankml.core.engine.chat import parse_finished

    answer.text, answer.reasoning = parse_finished(answer.prepared.content(), completion)
    numbers = counted(completion)
    body = shapes.completion(answer.identity, answer.model, answer.text, completion.finish_reason, numbers, answer.reasoning)
    probabilities = answer.probabilities_of_whole(completion)
    if probabilities:
        body["choices"][0]["logprobs"] = {"content": probabilities}
    if answer.prepared.request.verbose:
        body["__verbose"] = _verbose(answer, completion, probabilities)
    body["timings"] = shapes.timings(numbers)
    body["bankml_receipt"] = answer.receipt(completion)
    return body


def _verbose(answer: LlamaAnswer[PreparedChat], completion: Completion, probabilities: list[Entry]) -> dict[str, Any]:
    prepared = answer.prepared
    chat = chat_settings(prepared.chat, prepared.request, prepared.preserved, prepared.engine.tokenizer)
    return verbose(answer, completion, probabilities, chat)


async def stream(answer: LlamaAnswer[PreparedChat]) -> AsyncGenerator[bytes]:
    """The events of a streamed answer; the first, empty one says that the answer has begun.

    Raises:
        Gone: the client left.
        Refusal: the answer ends here; before the first event it can still be a status.
    """
    request = answer.prepared.request
    chunks = shapes.Chunks(answer.identity, answer.model)
    content = answer.prepared.content()
    async for item in answer.events():
        if isinstance(item, Started):
            yield b""
        elif isinstance(item, Finished):
            last = _text_chunks(answer, chunks, content.push(b"", last=True))
            yield await answer.aside(partial(_last_events, answer, item.completion, chunks, last))
            yield shapes.DONE
        elif item.step.whole:
            step = item.step
            # As in llama-server: a first token that leaves a character unfinished opens no stream.
            deltas = [chunks.role()] if step.count == 1 else []
            deltas += _text_chunks(answer, chunks, content.push(step.released))
            if deltas and step.measured is not None and step.measured.probabilities.top:
                deltas[-1]["choices"][0]["logprobs"] = {"content": answer.probabilities([step.measured])}
            if deltas and (item.stopped or request.timings_per_token):
                deltas[-1]["timings"] = shapes.timings(item.counts)
            for chunk in deltas:
                yield sse.event(chunk)


def _text_chunks(answer: LlamaAnswer[PreparedChat], chunks: shapes.Chunks, said: Said) -> list[dict[str, Any]]:
    """Chunks for the new text; also appends it to the answer."""
    reasoning, content = said.reasoning.decode("utf-8", "replace"), said.content.decode("utf-8", "replace")
    answer.reasoning += reasoning
    answer.text += content
    text = [{"reasoning_content": reasoning}] if reasoning else []
    return [chunks.delta(delta) for delta in (*text, *([{"content": content}] if content else []))]


def _last_events(
    answer: LlamaAnswer[PreparedChat], completion: Completion, chunks: shapes.Chunks, text: list[dict[str, Any]]
) -> bytes:
    return sse.events([*text, *_last_chunks(answer, completion, chunks, text)])


def _last_chunks(
    answer: LlamaAnswer[PreparedChat], completion: Completion, chunks: shapes.Chunks, text: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The chunks after the last text, which is ``text``."""
    request = answer.prepared.request
    numbers = counted(completion)
    last = [chunks.delta({}, completion.finish_reason)]
    if request.include_usage:
        last.append({**chunks.bare([]), "usage": shapes.usage(numbers)})
    last[-1]["timings"] = shapes.timings(numbers)
    if request.verbose:
        [*text, *last][0]["__verbose"] = _verbose(answer, completion, [])
    # The event has the shape of a chunk that says nothing: clients read choices[0].delta of every event.
    last.append({"bankml_receipt": answer.receipt(completion), **chunks.delta({}, completion.finish_reason)})
    return last
