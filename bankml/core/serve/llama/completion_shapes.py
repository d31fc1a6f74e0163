# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two shapes of a continued text: llama-server's own, and OpenAI's older one; members in the order of b11192.

Source: to_json_non_oaicompat and to_json_oaicompat of server_task_result_cmpl_final and server_task_result_cmpl_partial,
tools/server/server-task.cpp.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from bankml.core.serve.llama import shapes
from bankml.core.serve.llama.verbose import verbose
from bankml.core.serve.worker import Token, counted

if TYPE_CHECKING:
    from bankml.core.engine import Completion
    from bankml.core.receipts.logprobs import Entry
    from bankml.core.serve.llama.answer import LlamaAnswer

Body = dict[str, Any]

NO_TEMPLATE = {
    "chat_format": "Content-only",
    "reasoning_format": "deepseek",
    "reasoning_in_content": False,
    "generation_prompt": "",
}
"""What the settings of a continued text say of a chat template."""


class Shape(Protocol):
    """How answers to a route look.

    Attributes:
        done: what a stream says after its last event.
    """

    done: bytes

    def whole(self, answer: LlamaAnswer[Any], completion: Completion, probabilities: list[Entry]) -> Body:
        """A finished answer, or the last event of a streamed one, which tells no probabilities."""
        ...

    def part(self, answer: LlamaAnswer[Any], took: Token, probabilities: list[Entry]) -> Body:
        """The event of one token."""
        ...

    def silent(self, answer: LlamaAnswer[Any], completion: Completion) -> Body:
        """An event that says nothing, in the shape that clients expect of the last one."""
        ...

    def together(self, bodies: list[Body]) -> Any:
        """The answers to one request in one body."""
        ...


class Native:
    """llama-server's own shape."""

    done = b""

    def whole(self, answer: LlamaAnswer[Any], completion: Completion, probabilities: list[Entry]) -> Body:
        """A finished answer."""
        return verbose(answer, completion, probabilities, NO_TEMPLATE)

    def part(self, answer: LlamaAnswer[Any], took: Token, probabilities: list[Entry]) -> Body:
        """The event of one token."""
        return {
            "index": answer.index,
            "content": took.step.text,
            "tokens": [took.step.token],
            "stop": False,
            "id_slot": -1,
            "tokens_predicted": took.counts.completion,
            "tokens_evaluated": took.counts.prompt,
            **_timings(answer, took),
            **({"completion_probabilities": probabilities} if probabilities else {}),
        }

    def silent(self, answer: LlamaAnswer[Any], completion: Completion) -> Body:
        """An event without text."""
        return {"index": answer.index, "content": "", "tokens": [], "stop": True, "id_slot": 0}

    def together(self, bodies: list[Body]) -> Any:
        """One answer by itself, several in a list."""
        return bodies[0] if len(bodies) == 1 else bodies


class OpenAI:
    """The shape of OpenAI's ``/v1/completions``."""

    done = shapes.DONE

    def whole(self, answer: LlamaAnswer[Any], completion: Completion, probabilities: list[Entry]) -> Body:
        """A finished answer."""
        numbers = counted(completion)
        text = "" if answer.prepared.request.stream else completion.raw_text
        return {
            "choices": [_choice(answer, text, probabilities, completion.finish_reason)],
            "created": int(time.time()),
            "model": answer.model,
            "system_fingerprint": shapes.FINGERPRINT,
            "object": "text_completion",
            "usage": shapes.usage(numbers),
            "id": answer.identity,
            **({"__verbose": verbose(answer, completion, probabilities, NO_TEMPLATE)} if answer.prepared.request.verbose else {}),
            "timings": shapes.timings(numbers),
        }

    def part(self, answer: LlamaAnswer[Any], took: Token, probabilities: list[Entry]) -> Body:
        """The event of one token."""
        return {
            **self._event(answer, took.step.text, probabilities, None),
            **({"__verbose": Native().part(answer, took, probabilities)} if answer.prepared.request.verbose else {}),
            **_timings(answer, took),
        }

    def silent(self, answer: LlamaAnswer[Any], completion: Completion) -> Body:
        """An event without text."""
        return self._event(answer, "", [], completion.finish_reason)

    def together(self, bodies: list[Body]) -> Any:
        """The first answer with the choices of all, and with all receipts where there are several."""
        if len(bodies) > 1:
            bodies[0]["choices"] = [choice for body in bodies for choice in body["choices"]]
            bodies[0]["bankml_receipt"] = [body["bankml_receipt"] for body in bodies]
        return bodies[0]

    def _event(self, answer: LlamaAnswer[Any], text: str, probabilities: list[Entry], finish_reason: str | None) -> Body:
        return {
            "choices": [_choice(answer, text, probabilities, finish_reason)],
            "created": int(time.time()),
            "model": answer.model,
            "system_fingerprint": shapes.FINGERPRINT,
            "object": "text_completion",
            "id": answer.identity,
        }


def _choice(answer: LlamaAnswer[Any], text: str, probabilities: list[Entry], finish_reason: str | None) -> Body:
    return {
        "text": text,
        "index": answer.index,
        "logprobs": {"content": probabilities} if probabilities else None,
        "finish_reason": finish_reason,
    }


def _timings(answer: LlamaAnswer[Any], took: Token) -> Body:
    wanted = took.stopped or answer.prepared.request.timings_per_token
    return {"timings": shapes.timings(took.counts)} if wanted else {}
