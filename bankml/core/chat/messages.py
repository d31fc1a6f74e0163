# SPDX-License-Identifier: MIT OR Apache-2.0
"""The message list of a chat request: what llama-server takes, what it refuses, and the form a template sees.

Source: oaicompat_chat_params_parse, tools/server/server-common.cpp; common_chat_msgs_parse_oaicompat and
common_chat_msg::to_json_oaicompat, common/chat.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bankml.core.json.writer import excerpt
from bankml.refusal import Refusal

_MEDIA = {
    "image_url": "image",
    "input_audio": "audio",
    "input_video": "video",
    "video_url": "video",
}


def invalid(message: str, where: str | None = None) -> Refusal:
    """A request that llama-server answers with status 400."""
    return Refusal("template.messages", message, where=where)


def failed(message: str, where: str | None = None) -> Refusal:
    """A request that llama-server answers with status 500, though it is the request's error."""
    return Refusal("template.messages", message, where=where, status=500, kind="server_error")


def dump(value: Any) -> str:
    """A value as the reference's JSON library writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def loads(text: str) -> Any:
    """JSON text as a value. Raises: ValueError for anything else, NaN and Infinity included."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class JsonError(Exception):
    """An error of the reference's JSON library: a type it did not expect, a key that is not there."""


def type_name(value: Any) -> str:
    """The JSON library's name of a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"


def as_string(value: Any) -> str:
    """The string itself. Raises: JsonError for anything else."""
    if isinstance(value, str):
        return value
    raise JsonError(f"[json.exception.type_error.302] type must be string, but is {type_name(value)}")


def at(value: Any, key: str) -> Any:
    """A member of an object. Raises: JsonError when it is not there."""
    if not isinstance(value, dict):
        raise JsonError(f"[json.exception.type_error.304] cannot use at() with {type_name(value)}")
    if key not in value:
        raise JsonError(f"[json.exception.out_of_range.403] key '{key}' not found")
    return value[key]


def has(value: Any, key: str) -> bool:
    """Whether the value is an object with that key."""
    return isinstance(value, dict) and key in value


def text_or(value: Any, key: str, default: str) -> str:
    """A string member; the default when it is missing or anything else."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else default


def flag_or(value: Any, key: str, default: bool) -> bool:
    """A boolean member; the default when it is missing or anything else."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, bool) else default


def elements(value: Any) -> Iterator[Any]:
    """What a loop of the JSON library passes over: items, values, nothing of null, a plain value itself."""
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif value is not None:
        yield value


@dataclass
class ToolCall:
    """One call of a tool; the arguments are JSON text."""

    name: str = ""
    arguments: str = ""
    id: str = ""


@dataclass
class Message:
    """One message as the reference keeps it: absent and empty are the same thing."""

    role: str = ""
    content: str = ""
    parts: list[tuple[str, str]] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    reasoning_content: str = ""
    name: str = ""
    tool_call_id: str = ""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing but a role."""
        rest = (self.content, self.parts, self.tool_calls, self.reasoning_content, self.name, self.tool_call_id)
        return not any(rest)

    def text(self) -> str:
        """The content, or its text parts with an empty line between them."""
        if self.content:
            return self.content
        joined = ""
        for kind, text in self.parts:
            if kind == "text":
                joined += ("\n\n" if joined else "") + text
        return joined

    def as_dict(self) -> dict[str, Any]:
        """The message as a template sees it, keys in the reference's order."""
        content: Any = self.content
        if not content and self.parts:
            content = [{"type": kind, "text": text} for kind, text in self.parts]
        message: dict[str, Any] = {"role": self.role, "content": content}
        if self.reasoning_content:
            message["reasoning_content"] = self.reasoning_content
        if self.name:
            message["name"] = self.name
        if self.tool_call_id:
            message["tool_call_id"] = self.tool_call_id
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                    **({"id": call.id} if call.id else {}),
                }
                for call in self.tool_calls
            ]
        return message


def check(messages: Any) -> list[Any]:
    """llama-server's own look at the list, before it is parsed.

    Raises:
        Refusal: with llama-server's words and status.
    """
    if not isinstance(messages, list):
        raise invalid("Expected 'messages' to be an array", "/messages")
    for i, message in enumerate(messages):
        where = f"/messages/{i}"
        role = text_or(message, "role", "")
        if role != "assistant" and not has(message, "content"):
            raise invalid("All non-assistant messages must contain 'content'", where)
        if not has(message, "content"):
            if not has(message, "tool_calls"):
                raise invalid("Assistant message must contain either 'content' or 'tool_calls'!", where)
            continue
        content = message["content"]
        if content is None or isinstance(content, str):
            continue
        if not isinstance(content, list):
            raise invalid("Expected 'content' to be a string or an array", f"{where}/content")
        for j, part in enumerate(content):
            kind = text_or(part, "type", "")
            if kind in _MEDIA:
                hint = "hint: if this is unexpected, you may need to provide the mmproj"
                raise failed(f"{_MEDIA[kind]} input is not supported - {hint}", f"{where}/content/{j}")
            if kind != "text":
                raise invalid("unsupported content[].type", f"{where}/content/{j}/type")
    return messages


def parse(messages: list[Any]) -> list[Message]:
    """The checked list as messages.

    Raises:
        Refusal: with llama-server's words and status.
    """
    parsed = []
    for i, message in enumerate(messages):
        try:
            parsed.append(_parse(message))
        except JsonError as error:
            raise failed(f"Failed to parse messages: {error}", f"/messages/{i}") from None
    return parsed


def _parse(message: Any) -> Message:
    if not isinstance(message, dict):
        raise JsonError(f"Expected 'message' to be an object, got {excerpt(message)}")
    if "role" not in message:
        raise JsonError(f"Missing 'role' in message: {excerpt(message)}")
    parsed = Message(as_string(message["role"]))
    content = message.get("content")
    if isinstance(content, str):
        parsed.content = content
    elif isinstance(content, list):
        parsed.parts = [("text", as_string(at(part, "text"))) for part in content]
    for call in elements(message.get("tool_calls")):
        parsed.tool_calls.append(_parse_call(call))
    for name in ("reasoning_content", "name", "tool_call_id"):
        if name in message:
            setattr(parsed, name, as_string(message[name]))
    return parsed


def _parse_call(call: Any) -> ToolCall:
    if not has(call, "type"):
        raise JsonError(f"Missing tool call type: {excerpt(call)}")
    if call["type"] != "function":
        raise JsonError(f"Unsupported tool call type: {excerpt(call)}")
    if "function" not in call:
        raise JsonError(f"Missing tool call function: {excerpt(call)}")
    function = call["function"]
    if not has(function, "name"):
        raise JsonError(f"Missing tool call name: {excerpt(call)}")
    parsed = ToolCall(as_string(function["name"]))
    arguments = at(function, "arguments")
    parsed.arguments = arguments if isinstance(arguments, str) else dump(arguments)
    if "id" in call:
        parsed.id = as_string(call["id"])
    return parsed


def parse_tools(tools: Any) -> list[dict[str, Any]] | None:
    """The tools of a request as a template sees them, or None when there are none.

    Raises:
        Refusal: with llama-server's words and status.
    """
    if tools is None:
        return None
    try:
        return [_parse_tool(tool) for tool in _list_of_tools(tools)] or None
    except JsonError as error:
        raise failed(f"Failed to parse tools: {error}; tools = {excerpt(tools, indent=2)}", "/tools") from None


def _list_of_tools(tools: Any) -> list[Any]:
    if not isinstance(tools, list):
        raise JsonError(f"Expected 'tools' to be an array, got {excerpt(tools)}")
    return tools


def _parse_tool(tool: Any) -> dict[str, Any]:
    if not has(tool, "type"):
        raise JsonError(f"Missing tool type: {excerpt(tool)}")
    if tool["type"] != "function":
        raise JsonError(f"Unsupported tool type: {excerpt(tool)}")
    if "function" not in tool:
        raise JsonError(f"Missing tool function: {excerpt(tool)}")
    function = tool["function"]
    name = as_string(at(function, "name"))
    described = {
        "name": name,
        "description": as_string(function.get("description", "")),
        "parameters": function.get("parameters", {}),
    }
    return {"type": "function", "function": described}


def to_system(messages: list[dict[str, Any]]) -> None:
    """Developer messages become system messages."""
    for message in messages:
        if message["role"] == "developer":
            message["role"] = "system"


def fit_content(messages: list[dict[str, Any]], strings: bool, typed: bool) -> list[dict[str, Any]]:
    """Contents in the form that the template takes, if it takes only one: text, or a list of parts.

    Source: messages_inp_normalizer, common/chat.cpp.
    """
    if strings == typed:
        return messages
    fitted = []
    for original in messages:
        message = dict(original)
        content = message.get("content")
        if typed and isinstance(content, str):
            message["content"] = [{"type": "text", "text": content}]
        elif strings and isinstance(content, list):
            text = ""
            for part in content:
                if text_or(part, "type", "") == "text":
                    text += ("\n" if text else "") + text_or(part, "text", "")
            message["content"] = text
        fitted.append(message)
    return fitted


def merge_system(messages: list[dict[str, Any]]) -> None:
    """For a template without a system role: the first message's system text goes in front of the next message's.

    Raises:
        Refusal: where one of the two contents is a list of parts.
    """
    if not messages or messages[0]["role"] != "system":
        return
    system = messages.pop(0)
    if messages:
        try:
            merged = as_string(at(system, "content")) + "\n" + as_string(at(messages[0], "content"))
        except JsonError as error:
            raise failed(str(error), "/messages/0/content") from None
        messages[0]["content"] = merged


def parse_arguments(messages: list[dict[str, Any]]) -> None:
    """For a template that takes the arguments of tool calls as objects: their text becomes one.

    Raises:
        Refusal: where it is no JSON.
    """
    for i, message in enumerate(messages):
        for call in message.get("tool_calls", []):
            function = call["function"]
            try:
                function["arguments"] = loads(function["arguments"])
            except ValueError as error:
                reason = f"Failed to parse tool call arguments as JSON: {error}"
                raise failed(reason, f"/messages/{i}/tool_calls") from None
