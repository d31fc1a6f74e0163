# SPDX-License-Identifier: MIT OR Apache-2.0
"""A chat request, read in llama-server's order and with its messages: what it says, before any model is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bankml.core.refusal import Refusal
from bankml.core.serve.fields import SAMPLING, check_names, ignored_by_llama, malformed, unsupported
from bankml.core.serve.json_reader import server_error, type_error

INT_MAX = 2**31 - 1
DEFAULT_TOP_LOGPROBS = 20
DEFAULT_PING_SECONDS = 30
REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")


@dataclass(frozen=True)
class Conversation:
    """The part of a request that becomes a prompt.

    Attributes:
        messages: as sent; the template's rules for them are the template's.
        add_generation_prompt: ask the template for the assistant's header.
        kwargs: the request's own variables of the template.
        prefill: the text of a last assistant message, which the answer continues.
        echo_prefill: whether a stream repeats that text at its start.
    """

    messages: list[Any]
    add_generation_prompt: bool = True
    kwargs: dict[str, Any] = field(default_factory=dict)
    prefill: str = ""
    echo_prefill: bool = True


@dataclass(frozen=True)
class ChatRequest:
    """A request for an answer.

    Attributes:
        max_tokens: limit of the answer, None for none; 0 still gives one token.
        n_probs: how many candidates to report for each token, 0 for none.
        ping_seconds: a stream that stays silent so long sends a comment, -1 for never.
        sampling: the members that the sampler reads, as sent.
    """

    conversation: Conversation
    stream: bool
    include_usage: bool
    max_tokens: int | None
    stop: list[str]
    cache_prompt: bool
    timings_per_token: bool
    return_tokens: bool
    verbose: bool
    n_probs: int
    ping_seconds: int
    sampling: dict[str, Any]


def read_chat(body: Any) -> ChatRequest:
    """The request in ``body``.

    Raises:
        Refusal: with llama-server's status and message where it refuses too; else 400 or 501 naming the member.

    Source: oaicompat_chat_params_parse (tools/server/server-common.cpp), make_llama_cmpl_schema (tools/server/server-schema.cpp).
    """
    conversation = read_conversation(body)
    n_probs = _n_probs(body)
    max_tokens = _integer(body, ("n_predict", "max_completion_tokens", "max_tokens"), -1, -1, INT_MAX)
    _integer(body, ("n_cmpl", "n"), 1, 1, 1)
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise ignored_by_llama("stream_options", type_error("object", options), options, "an object")
    return ChatRequest(
        conversation=conversation,
        stream=_boolean(body, "stream", False),
        include_usage=_boolean(options or {}, "include_usage", False),
        max_tokens=None if max_tokens == -1 else max_tokens,
        stop=_stop(body),
        cache_prompt=_boolean(body, "cache_prompt", True),
        timings_per_token=_boolean(body, "timings_per_token", False),
        return_tokens=_boolean(body, "return_tokens", False),
        verbose=_boolean(body, "verbose", False),
        n_probs=n_probs,
        ping_seconds=_integer(body, ("sse_ping_interval",), DEFAULT_PING_SECONDS, -1, INT_MAX),
        sampling={name: body[name] for name in SAMPLING if body.get(name) is not None},
    )


def read_conversation(body: Any) -> Conversation:
    """What of ``body`` becomes a prompt: all that ``/apply-template`` reads.

    Raises:
        Refusal: see :func:`read_chat`.
    """
    if isinstance(body, dict) and body.get("json_schema") is not None and body.get("grammar") not in (None, ""):
        raise server_error("Cannot use both json_schema and grammar")
    if not isinstance(body, dict) or "messages" not in body:
        raise Refusal("http.messages", "'messages' is required", where="/messages")
    messages = body["messages"]
    if not isinstance(messages, list):
        raise Refusal("http.messages", "Expected 'messages' to be an array", where="/messages")
    for index, message in enumerate(messages):
        _check_message(message, f"/messages/{index}")
    check_names(body)
    if body.get("logprobs") is not True and body.get("top_logprobs") is not None:
        raise Refusal("http.logprobs", "top_logprobs requires logprobs to be set to true", where="/top_logprobs")
    prefill, add_generation_prompt = _prefill(body, messages)
    return Conversation(
        messages=messages,
        add_generation_prompt=add_generation_prompt,
        kwargs=_template_kwargs(body),
        prefill=prefill,
        echo_prefill=not body.get("continue_final_message") or body.get("echo") is True,
    )


def _check_message(message: Any, where: str) -> None:
    members = message if isinstance(message, dict) else {}
    role = members.get("role")
    if role == "assistant":
        if "content" not in members and "tool_calls" not in members:
            raise Refusal(
                "http.messages", "Assistant message must contain either 'content' or 'tool_calls'!", where=f"{where}/content"
            )
        if members.get("tool_calls"):
            raise unsupported("tool_calls", members["tool_calls"], "absent or empty")
    elif "content" not in members:
        raise Refusal("http.messages", "All non-assistant messages must contain 'content'", where=f"{where}/content")
    content = members.get("content")
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise Refusal("http.messages", "Expected 'content' to be a string or an array", where=f"{where}/content")
    for number, part in enumerate(content):
        _check_part(part, f"{where}/content/{number}")


def _check_part(part: Any, where: str) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    media = {"image_url": "image", "input_audio": "audio", "input_video": "video", "video_url": "video"}
    if isinstance(kind, str) and kind in media:
        raise Refusal(
            "http.media",
            f"{media[kind]} input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            where=where,
            status=500,
            kind="server_error",
        )
    if kind != "text":
        raise Refusal("http.messages", "unsupported content[].type", where=f"{where}/type")


def _prefill(body: dict[str, Any], messages: list[Any]) -> tuple[str, bool]:
    """The text of a last assistant message and whether the template adds its header after it.

    Source: oaicompat_chat_params_parse; its default of --prefill-assistant is on.
    """
    add = _boolean(body, "add_generation_prompt", True)
    asked = body.get("continue_final_message")
    if asked is not None and not isinstance(asked, bool):
        raise unsupported("continue_final_message", asked, "true or false")
    if body.get("echo") is not None and not isinstance(body["echo"], bool):
        raise ignored_by_llama("echo", type_error("boolean", body["echo"]), body["echo"], "true or false")
    last = messages[-1] if messages else {}
    assistant_last = isinstance(last, dict) and last.get("role") == "assistant"
    if asked:
        if add:
            message = "Cannot set both add_generation_prompt and continue_final_message to true."
            raise Refusal("http.continuation", message, where="/continue_final_message")
        if not assistant_last:
            raise unsupported("continue_final_message", asked, "false unless the last message is the assistant's")
    if not assistant_last:
        return "", add
    if len(messages) > 1 and isinstance(messages[-2], dict) and messages[-2].get("role") == "assistant" and not asked:
        raise Refusal("http.continuation", "Cannot have 2 or more assistant messages at the end of the list.", where="/messages")
    if last.get("reasoning_content"):
        raise unsupported("reasoning_content", last["reasoning_content"], "absent in a last message that is to be continued")
    content = last.get("content") or ""
    if isinstance(content, str):
        return content, False
    return "\n".join(str(part.get("text", "")) for part in content), False


def _template_kwargs(body: dict[str, Any]) -> dict[str, Any]:
    kwargs = body.get("chat_template_kwargs")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise ignored_by_llama("chat_template_kwargs", type_error("object", kwargs), kwargs, "an object")
    merged = dict(kwargs or {})
    if isinstance(merged.get("enable_thinking"), str):
        message = 'invalid type for "enable_thinking" (expected boolean, got string)'
        raise Refusal("http.template-kwargs", message, where="/chat_template_kwargs/enable_thinking")
    effort = body.get("reasoning_effort")
    if effort is not None and not isinstance(effort, str):
        raise ignored_by_llama("reasoning_effort", type_error("string", effort), effort, "a string")
    if effort == "none":
        merged["enable_thinking"] = False
        merged.pop("reasoning_effort", None)
    elif effort:
        merged["reasoning_effort"] = effort
    form = body.get("reasoning_format")
    if form is not None and not isinstance(form, str):
        raise server_error(type_error("string", form))
    if form is not None and form not in REASONING_FORMATS:
        raise server_error(f"Unknown reasoning format: {form}")
    return merged


def _n_probs(body: dict[str, Any]) -> int:
    if body.get("logprobs") is True:
        top = body.get("top_logprobs")
        if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 0):
            raise ignored_by_llama("top_logprobs", type_error("number", top), top, "an integer from 0")
        return DEFAULT_TOP_LOGPROBS if top is None else top
    return _integer(body, ("n_probs", "logprobs"), 0, 0, INT_MAX)


def _stop(body: dict[str, Any]) -> list[str]:
    stop = body.get("stop")
    if stop is None:
        return []
    if isinstance(stop, str):
        return [stop]
    if not isinstance(stop, list):
        raise ignored_by_llama("stop", type_error("string", stop), stop, "a string or an array of strings")
    words = []
    for word in stop:
        if word in (None, [], {}):
            continue
        if not isinstance(word, str):
            raise malformed("stop", type_error("string", word), word, "a string or an array of strings")
        words.append(word)
    return words


def _boolean(body: dict[str, Any], name: str, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise malformed(name, type_error("boolean", value), value, "true or false")
    return value


def _integer(body: dict[str, Any], names: tuple[str, ...], default: int, low: int, high: int) -> int:
    """The first of ``names`` that is there, made an integer as nlohmann::json does: fractions cut, true is 1."""
    for name in names:
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, int | float):
            raise malformed(name, type_error("number", value), value, f"an integer from {low}")
        number = int(value)
        if not low <= number <= high:
            between = f"Value must be between {low} <= value <= {high}, but got {number}"
            raise malformed(name, between, value, f"{low} to {high}")
        return number
    return default
