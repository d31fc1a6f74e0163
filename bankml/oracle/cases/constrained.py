# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chats in JSON mode, under schemas and under grammars: what the oracle of constrained answers asks over HTTP, in this order."""

from __future__ import annotations

from typing import Any, Final

CHAT: Final = "/v1/chat/completions"
_ASK: Final = [{"role": "user", "content": "Describe a city as JSON."}]
_CITY: Final = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 8},
        "size": {"type": "integer", "minimum": 10, "maximum": 99},
        "old": {"type": "boolean"},
    },
    "required": ["city", "size", "old"],
    "additionalProperties": False,
}
_ARRAY: Final = {"type": "array", "items": {"$ref": "#/$defs/e"}, "maxItems": 3, "$defs": {"e": {"enum": ["a", 1.50, None]}}}
_JSON: Final = {"response_format": {"type": "json_object"}}


def _schema(schema: Any, **more: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}, **more}


def _said(*texts: str, **more: str) -> list[dict[str, Any]]:
    return [*_ASK, *({"role": "assistant", "content": text, **more} for text in texts)]


def _bodies() -> list[dict[str, Any]]:
    shown = {"verbose": True, "return_tokens": True}
    goes_on = {"continue_final_message": True, "add_generation_prompt": False}
    return [
        *({**_schema(schema, max_tokens=28), **shown} for schema in (_CITY, _ARRAY)),
        {**_schema(_CITY, max_tokens=28), "stream": True},
        {**_schema(_CITY, max_tokens=20), "temperature": 1.1, "seed": 7},
        {**_schema(_CITY, max_tokens=20), "temperature": 1.1, "seed": 7, "stream": True, "top_k": 0, "min_p": 0},
        *({**_JSON, "max_tokens": count} for count in (1, 2, 3, 5, 9)),
        {**_JSON, "max_tokens": 14, "stream": True, **shown},
        {"response_format": {"type": "json_object", "schema": _ARRAY}, "temperature": 1.5, "seed": 3, "max_tokens": 20},
        {"json_schema": {}, "max_tokens": 6},
        {"json_schema": _ARRAY, "response_format": {"type": "json_object"}, "max_tokens": 12, "stream": True},
        {"json_schema": {"const": {"k": 1e2, "é": "日"}}, "max_tokens": 40, "stream": True},
        {"json_schema": {"type": "string", "pattern": '^[a-c]"?$'}, "max_tokens": 8},
        {**_schema(_CITY, max_tokens=20), "stop": [":"]},
        {**_schema(_CITY, max_tokens=20), "stop": ['": '], "stream": True},
        {**_JSON, "max_tokens": 4, "logprobs": True, "top_logprobs": 1},
        {**_JSON, "max_tokens": 4, "logprobs": True, "top_logprobs": 1, "stream": True},
        {**_JSON, "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}, "timings_per_token": True},
        *({**_JSON, "max_tokens": 6, "messages": _said('{"city": "R'), "stream": stream} for stream in (False, True)),
        *({**_JSON, "max_tokens": 5, "messages": _said('{"a":'), "stream": on, **goes_on} for on in (False, True)),
        {**_JSON, "max_tokens": 5, "messages": _said("No JSON")},
        *(
            {**_JSON, "max_tokens": 5, "messages": _said(text, reasoning_content="Hm"), "stream": stream}
            for text in ("", "{")
            for stream in (False, True)
        ),
        {"max_tokens": 4, "messages": _said("", reasoning_content="Let me think"), "stream": True},
        {"max_tokens": 4, "messages": _said("Paris is", reasoning_content="Let me think")},
        {
            "max_tokens": 4,
            "messages": _said("So", reasoning_content="Hm"),
            **goes_on,
            "continue_final_message": "reasoning_content",
        },
        {"max_tokens": 4, "messages": _said("So", reasoning_content="Hm"), **goes_on, "continue_final_message": "content"},
        *({**_JSON, "max_tokens": 6, "reasoning_format": form, **shown} for form in ("none", "deepseek-legacy")),
        {**_JSON, "max_tokens": 6, "chat_template_kwargs": {"enable_thinking": True}, **shown},
        {"max_tokens": 8, "chat_template_kwargs": {"enable_thinking": True}, "stream": True},
        {"grammar": 'root ::= "<think>" [a-z ]{1,9} "</think>" [a-z]{1,4}', "max_tokens": 16},
        {"grammar": 'root ::= "<think>\\n" [a-z ]{1,9} "\\n</think>\\n\\n" [a-z]{1,4}', "max_tokens": 16, "stream": True},
        {"grammar": 'root ::= "```json\\n{" "}" "\\n```"', "max_tokens": 12, "stream": True, **shown},
        {"grammar": "root ::= [à-ÿ日本]{2,4}", "max_tokens": 9, "stream": True, "temperature": 1.0, "seed": 5},
    ]


def _refused() -> list[dict[str, Any]]:
    wrong = {"type": "object", "properties": {"a": {"type": "what"}}}
    return [
        *(_schema(schema) for schema in (wrong, {"type": "string", "pattern": "^(a$"}, {"$ref": "#/x"}, {"type": ["a"]})),
        {**_schema(wrong), "stream": True},
        *({"json_schema": schema} for schema in (wrong, True, "x", 5, [1])),
        {"json_schema": {"type": "object"}, "grammar": 'root ::= "a"'},
        *({"response_format": {"type": kind}} for kind in ("x", "json")),
        {**_JSON, "messages": _said('{"a": x')},
    ]


def chats() -> list[dict[str, Any]]:
    """Requests: ``path``, ``body``, and ``stream`` where the answer is a stream and not a refusal."""
    base = {"messages": _ASK, "temperature": 0, "max_tokens": 2}
    answered = [{**base, **body} for body in _bodies()]
    return [
        *({"path": CHAT, "body": body, "stream": body.get("stream") is True} for body in answered),
        *({"path": CHAT, "body": {**base, **body}, "stream": False} for body in _refused()),
    ]
