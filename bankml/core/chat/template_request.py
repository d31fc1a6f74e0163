# SPDX-License-Identifier: MIT OR Apache-2.0
"""A chat request as far as it decides the prompt: which members llama-server reads, and what it refuses.

Source: oaicompat_chat_params_parse, tools/server/server-common.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bankml.core.chat.messages import (
    JsonError,
    Message,
    as_string,
    check,
    elements,
    failed,
    flag_or,
    has,
    invalid,
    parse,
    parse_tools,
    text_or,
)

_REASONING_FORMATS = ("none", "auto", "deepseek", "deepseek-legacy")
# What a server that runs with --reasoning off hands to every template.
SERVER_KWARGS: dict[str, Any] = {"enable_thinking": False, "preserve_reasoning": True}


@dataclass
class ChatRequest:
    """What a template is rendered for.

    Attributes:
        continues: ``""``, or which part of the last message goes on: ``"auto"``, ``"content"``, ``"reasoning"``.
        kwargs: further variables for the template.
        json_schema: the schema that the answer must follow, None for none; any JSON value, as it was sent.
        reasoning_format: how reasoning is sent; ``none`` leaves it in the content.
        parallel_tool_calls: as asked for; None leaves it to the template.
    """

    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    continues: str = ""
    enable_thinking: bool = False
    kwargs: dict[str, Any] = field(default_factory=dict)
    json_schema: Any = None
    reasoning_format: str = "deepseek"
    parallel_tool_calls: bool | None = None


def read_request(body: dict[str, Any]) -> ChatRequest:
    """The request in an HTTP body of ``/apply-template`` or ``/v1/chat/completions``.

    Raises:
        Refusal: with llama-server's words and status, in its order of looking.
    """
    schema = _schema(body)
    if "messages" not in body:
        raise invalid("'messages' is required")
    request = ChatRequest(parse(check(body["messages"])), json_schema=schema)
    request.tools = parse_tools(body.get("tools"))
    choice = text_or(body, "tool_choice", "auto")
    if choice not in ("auto", "none", "required"):
        raise invalid(f"Invalid tool_choice: {choice}", "/tool_choice")
    request.add_generation_prompt = flag_or(body, "add_generation_prompt", True)
    _continuation(body, request)
    request.reasoning_format = _reasoning_format(body)
    if isinstance(body.get("parallel_tool_calls"), bool):
        request.parallel_tool_calls = body["parallel_tool_calls"]
    if request.tools and choice != "none" and "grammar" in body:
        raise invalid("Cannot use custom grammar constraints with tools.", "/grammar")
    _kwargs(body, request)
    return request


def check_logprobs(body: dict[str, Any]) -> None:
    """What llama-server refuses only after it has rendered.

    Raises:
        Refusal: with llama-server's words and status.
    """
    if flag_or(body, "logprobs", False):
        if isinstance(body.get("tools"), list) and body["tools"] and flag_or(body, "stream", False):
            raise invalid("logprobs is not supported with tools + stream", "/logprobs")
    elif body.get("top_logprobs") is not None:
        raise invalid("top_logprobs requires logprobs to be set to true", "/top_logprobs")


def _schema(body: dict[str, Any]) -> Any:
    schema = body.get("json_schema")
    if schema is not None and text_or(body, "grammar", ""):
        raise failed("Cannot use both json_schema and grammar")
    if "response_format" in body:
        wanted = body["response_format"] if body["response_format"] is not None else {}
        kind = text_or(wanted, "type", "")
        if kind == "json_object":
            if has(wanted, "schema") or schema in (None, [], {}):
                schema = _member(wanted, "schema")
        elif kind == "json_schema":
            schema = _member(_member(wanted, "json_schema"), "schema")
        elif kind not in ("", "text"):
            raise invalid(
                f'response_format type must be one of "text" or "json_object", but got: {kind}', "/response_format/type"
            )
    return {"type": "object"} if schema == {} else schema


def _member(value: Any, key: str) -> Any:
    found = value.get(key) if isinstance(value, dict) else None
    return {} if found is None else found


def _continuation(body: dict[str, Any], request: ChatRequest) -> None:
    """Whether the last message goes on: asked for, or because it is the assistant's."""
    wanted = body.get("continue_final_message")
    request.continues = "auto" if wanted is True else ""
    if isinstance(wanted, str):
        request.continues = {"content": "content", "reasoning_content": "reasoning"}.get(wanted, "")
    last = request.messages[-1] if request.messages else None
    if not request.continues and last is not None and last.role == "assistant":
        if len(request.messages) >= 2 and request.messages[-2].role == "assistant":
            raise invalid("Cannot have 2 or more assistant messages at the end of the list.", "/messages")
        request.continues, request.add_generation_prompt = "auto", False
    if request.continues and request.add_generation_prompt:
        raise invalid("Cannot set both add_generation_prompt and continue_final_message to true.")
    if request.continues and last is not None and last.role == "assistant" and last.tool_calls:
        raise invalid("Cannot continue an assistant message that contains tool calls.", "/messages")


def _reasoning_format(body: dict[str, Any]) -> str:
    if "reasoning_format" not in body:
        return "deepseek"
    try:
        name = as_string(body["reasoning_format"])
    except JsonError as error:
        raise failed(str(error), "/reasoning_format") from None
    if name not in _REASONING_FORMATS:
        raise failed(f"Unknown reasoning format: {name}", "/reasoning_format")
    return name


def _kwargs(body: dict[str, Any], request: ChatRequest) -> None:
    """The server's variables under the request's, and the two of them that are more than variables."""
    given = body.get("chat_template_kwargs")
    pairs = given.items() if isinstance(given, dict) else ((str(i), item) for i, item in enumerate(elements(given)))
    request.kwargs = {**SERVER_KWARGS, **dict(pairs)}
    thinking = request.kwargs["enable_thinking"]
    if isinstance(thinking, bool):
        request.enable_thinking = thinking
    elif isinstance(thinking, str):
        raise invalid(
            'invalid type for "enable_thinking" (expected boolean, got string)', "/chat_template_kwargs/enable_thinking"
        )
    effort = text_or(body, "reasoning_effort", "")
    if effort == "none":
        request.enable_thinking = False
        request.kwargs.pop("reasoning_effort", None)
    elif effort:
        request.kwargs["reasoning_effort"] = effort
