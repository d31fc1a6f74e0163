# SPDX-License-Identifier: MIT OR Apache-2.0
"""A chat request, read in llama-server's order and with its messages: what it says, before any model is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from bankml.core.chat.template_request import ChatRequest as Conversation
from bankml.core.chat.template_request import check_logprobs, read_request
from bankml.core.json.faults import type_error
from bankml.core.json.numbers import INT32_MAX, in_limits, to_bool, to_int32
from bankml.core.serve.answer import AnswerOptions
from bankml.core.serve.llama.fields import CHAT, SAMPLING, check_names, ignored_by_llama, malformed, too_long, too_many
from bankml.core.serve.llama.logprobs import MAX_PROBS
from bankml.core.serve.llama.schema_field import read_schema_from
from bankml.refusal import Refusal

DEFAULT_PING_SECONDS = 30
MAX_STOPS: Final = 1024
MAX_STOP_LENGTH: Final = 1 << 16
MAX_PATHS: Final = 1024
_MOST: Final = {"samplers": 128, "logit_bias": 1 << 16, "chat_template_kwargs": 1024}
"""Elements of what costs each token or each rendering something; llama-server has no such limits."""


@dataclass(frozen=True)
class AnswerRequest(AnswerOptions):
    """What every request for an answer may say, whatever its prompt is.

    Attributes:
        n_keep, n_discard: shown in the settings; without a context shift they mean nothing.
        grammar: GBNF that the request names, empty for none.
        response_fields: the members of llama-server's own shape to send, as paths; empty for all.
        sampling: the members that the sampler reads, as sent.
    """

    n_keep: int
    n_discard: int
    stop: list[str]
    timings_per_token: bool
    return_tokens: bool
    verbose: bool
    grammar: str
    response_fields: list[str]
    sampling: dict[str, Any]


@dataclass(frozen=True)
class ChatRequest(AnswerRequest):
    """A request for an answer in a chat.

    Attributes:
        conversation: what the template reads.
        schema_from: the member that the schema which binds the answer stands in, empty for none.
        names_grammar: whether the request has a ``grammar``, empty and null included.
        silent_prefill: whether a continued message is not sent again.
    """

    conversation: Conversation
    schema_from: str
    names_grammar: bool
    silent_prefill: bool
    include_usage: bool

    def without_messages(self) -> Self:
        """The request without what is needed no more once its prompt is made."""
        return replace(self, conversation=replace(self.conversation, messages=[], tools=None, kwargs={}))

    def without_schema(self) -> Self:
        """The request without what is needed no more once its schema is a grammar."""
        return replace(self, conversation=replace(self.conversation, json_schema=None))


def read_chat(body: Any) -> ChatRequest:
    """The request in ``body``.

    Raises:
        Refusal: with llama-server's status and message where it refuses too; else 400 or 501 naming the member.

    Source: oaicompat_chat_params_parse (tools/server/server-common.cpp), make_llama_cmpl_schema (tools/server/server-schema.cpp).
    """
    conversation = read_request(as_object(body))
    check_names(body, CHAT)
    check_logprobs(body)
    shared = read_shared(body)
    echo = boolean(body, "echo", False)
    schema_from = read_schema_from(body)
    return ChatRequest(
        **shared,
        n_probs=_n_probs(body),
        grammar=read_grammar(body),
        conversation=conversation,
        schema_from=schema_from,
        names_grammar="grammar" in body,
        silent_prefill=body.get("continue_final_message") is True and not echo,
        include_usage=boolean(body.get("stream_options") or {}, "include_usage", False),
    )


def read_shared(body: dict[str, Any]) -> dict[str, Any]:
    """The members of :class:`AnswerRequest` that every endpoint reads in the same way.

    Raises:
        Refusal: one of them has a wrong type or value.
    """
    for name, most in _MOST.items():
        if isinstance(body.get(name), list | dict | str) and len(body[name]) > most:
            raise too_many(name, len(body[name]), most)
    max_tokens = integer(body, ("n_predict", "max_completion_tokens", "max_tokens"), -1, -1)
    integer(body, ("n_cmpl", "n"), 1, 1, 1)
    return {
        "stream": boolean(body, "stream", False),
        "max_tokens": None if max_tokens == -1 else max_tokens,
        "n_keep": integer(body, ("n_keep",), 0, -1),
        "n_discard": integer(body, ("n_discard",), 0, 0),
        "stop": _stop(body),
        "cache_prompt": boolean(body, "cache_prompt", True),
        "timings_per_token": boolean(body, "timings_per_token", False),
        "return_tokens": boolean(body, "return_tokens", False),
        "verbose": boolean(body, "verbose", False),
        "ping_seconds": integer(body, ("sse_ping_interval",), DEFAULT_PING_SECONDS, -1),
        "post_sampling_probs": boolean(body, "post_sampling_probs", False),
        "response_fields": _response_fields(body),
        "sampling": {name: body[name] for name in SAMPLING if body.get(name) is not None},
    }


def as_object(body: Any) -> dict[str, Any]:
    """The body as an object; another JSON value has no members, and so no ``messages``.

    Raises:
        Refusal: it is no object.
    """
    if not isinstance(body, dict):
        raise Refusal("http.messages", "'messages' is required", where="/messages")
    return body


def _n_probs(body: dict[str, Any]) -> int:
    """``top_logprobs``, 20 without it, where ``logprobs`` is true; else ``n_probs``, or ``logprobs`` as a number."""
    names = ("top_logprobs",) if body.get("logprobs") is True else ("n_probs", "logprobs")
    if names == ("top_logprobs",) and not isinstance(body.get(names[0]), int | float | None):
        top = body[names[0]]
        raise ignored_by_llama(names[0], type_error("number", top), top, f"0 to {MAX_PROBS}")
    return probs(body, names, 20 if len(names) == 1 else 0)


def probs(body: dict[str, Any], names: tuple[str, ...], default: int) -> int:
    """How many tokens' probabilities the first of ``names`` that is there asks for."""
    number = integer(body, names, default, -INT32_MAX - 1)
    if number > MAX_PROBS:
        name = next(name for name in names if body.get(name) is not None)
        raise ignored_by_llama(name, f"bankml tells at most {MAX_PROBS} tokens' probabilities", number, f"0 to {MAX_PROBS}")
    return number


def read_grammar(body: dict[str, Any]) -> str:
    """The GBNF that the request names, empty for none."""
    grammar = body.get("grammar")
    if grammar is None:
        return ""
    if not isinstance(grammar, str):
        raise ignored_by_llama("grammar", type_error("string", grammar), grammar, "a string")
    return grammar


def _response_fields(body: dict[str, Any]) -> list[str]:
    paths = body.get("response_fields")
    if paths is None:
        return []
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ignored_by_llama("response_fields", "Error: response_fields must be an array of strings", paths, "strings")
    if len(paths) > MAX_PATHS:
        raise too_many("response_fields", len(paths), MAX_PATHS)
    return paths


def _stop(body: dict[str, Any]) -> list[str]:
    stop = body.get("stop")
    if stop is None:
        return []
    if isinstance(stop, str):
        return _within([stop])
    if not isinstance(stop, list):
        raise ignored_by_llama("stop", type_error("string", stop), stop, "a string or an array of strings")
    words = []
    for word in stop:
        if word in (None, [], {}):
            continue
        if not isinstance(word, str):
            raise malformed("stop", type_error("string", word), word, "a string or an array of strings")
        words.append(word)
    return _within(words)


def _within(words: list[str]) -> list[str]:
    if len(words) > MAX_STOPS:
        raise too_many("stop", len(words), MAX_STOPS)
    if sum(map(len, words)) > MAX_STOP_LENGTH:
        raise too_long("stop", MAX_STOP_LENGTH)
    return words


def boolean(body: dict[str, Any], name: str, default: bool) -> bool:
    """A member that is true or false; null counts as absent."""
    value = body.get(name)
    return default if value is None else to_bool(name, value)


def integer(body: dict[str, Any], names: tuple[str, ...], default: int, low: int, high: int = INT32_MAX) -> int:
    """The first of ``names`` that is there. What llama-server would wrap around at 32 bits is refused."""
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        number = in_limits(name, to_int32(name, value), low, high)
        if number != int(value):
            raise ignored_by_llama(name, "the value does not fit 32 bits", value, f"{low} to {high}")
        return number
    return default
