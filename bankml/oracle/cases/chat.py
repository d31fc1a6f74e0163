# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the oracle of chats asks: schemas, settings, continued messages, and answers of every format's look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_DEFS: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "size": {"$ref": "#/$defs/Size"},
        "tags": {"type": "array", "items": {"enum": ["a", 1, None, 2.50]}, "minItems": 1},
    },
    "required": ["name", "size"],
    "$defs": {"Size": {"type": "object", "properties": {"w": {"type": "integer", "minimum": 0}}, "additionalProperties": False}},
}
SCHEMAS: Final = tuple(
    json.dumps(schema)
    for schema in (
        {"type": "object"},
        _DEFS,
        {"anyOf": [{"type": "string", "pattern": "^[A-Z]{2}$"}, {"type": "null"}]},
        {"type": "object", "properties": {"a": {"type": "what"}}},
        {"type": "string", "pattern": "^(a$"},
        {"type": "object", "properties": {"root": {}, "until-4": {"const": "é\n"}}, "additionalProperties": {"type": "number"}},
        {"$ref": "#/nowhere"},
    )
)

_VALUES = (
    '{"a": "x\\u00e9\\"y", "b": -2.5e+3, "c": [true, {}]}',
    '{ "a":"日本\\/" , "b" :[1 , 2]}\n',
    '{"a":01}',
    "[1 2]",
    '{"a":"\\x"}',
)
_TEXTS = (
    "Hello <think>\nhm\n</think>\n\nworld",
    "</think>x <tool_call>y",
    "all\nHello >>>x",
    "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Hi",
    '<|channel|>final json<|message|>{"a":1}',
    " to=self<|message|>why<|eom|><|start|>assistant to=user<|message|>Hi<|eot|>",
    'a<|END_THINKING|><|START_TEXT|>{"a":1}<|END_TEXT|>',
    '[THINK]x[/THINK]```json {"a":1} ```',
    "<|channel>thought\nhm<channel|>content<channel|>",
    "<mm:think>a</mm:think>b",
    "hm<|close|>think<|sep|><|open|>response<|sep|>Yes<|close|>response<|sep|>",
    "<|CHATBOT_TOKEN|>Hi<|END_OF_TURN_TOKEN|>",
    "é text<|role_end|>",
)
_BYTES = (
    b"ab\xffc\xc3",
    b'{"a":"\xe3\x81',
    b"[1.\xe3",
    b"<think>\xff\xfe</think>\xc3\x28",
    b"a </th\xe3</think>b<\xf8",
    # Overlong forms: of letters of marks, and of others, whole and cut off.
    b"<think>a\xc0\xbc/think>b</thi\xe0\x81\xae\xf0\x80\x81\xab>c\xe0\x82\xa9</\xc1",
    b"a\xf0\x80\x80\xbc|channel|>x<\xc1\xbcchannel|\xc0\xbey\xed\xa0\x80",
    b'{"\xc0\xa2":1\xc0\xb5,"b":-\xe0\x80\xb12.\xf0\x80\x80\xb5e\xc0\xab2}',
    b"[1\xc0\xae5",
    b"[\xc0\xb0",
)


def answers() -> list[bytes]:
    """Whole answers; every beginning of each is read."""
    fenced = f"```json\n{_VALUES[1]}```"
    return [*(text.encode() for text in (*_VALUES, fenced, *_TEXTS)), *_BYTES]


def beginnings(answer: bytes) -> Iterator[bytes]:
    """The answer cut after every byte, and whole."""
    return (answer[:end] for end in range(len(answer) + 1))


@dataclass(frozen=True)
class Case:
    """One request, but for its template.

    Attributes:
        schema: JSON text, empty for none.
        how: ``continue_final_message``.
        reads: whether answers are read.
    """

    schema: str
    reasoning_format: str
    thinking: bool
    parallel: bool
    messages: list[dict[str, Any]]
    how: bool | str = False
    reads: bool = False

    def body(self) -> dict[str, Any]:
        """The request as the endpoint gets it."""
        body: dict[str, Any] = {
            "messages": self.messages,
            "reasoning_format": self.reasoning_format,
            "chat_template_kwargs": {"enable_thinking": self.thinking},
            "parallel_tool_calls": self.parallel,
        }
        if self.how:
            body |= {"continue_final_message": self.how, "add_generation_prompt": False}
        return body | ({"json_schema": json.loads(self.schema)} if self.schema else {})

    def question(self, source: str, said: list[bytes]) -> bytes:
        """The request as the probe gets it."""
        return json.dumps(
            {
                "source": source,
                "bos": "<s>",
                "eos": "</s>",
                "messages": self.messages,
                "json_schema": self.schema,
                "reasoning_format": self.reasoning_format,
                "enable_thinking": self.thinking,
                "parallel": self.parallel,
                "continues": self.how,
                "answers": [each.hex() for each in said] if self.reads else [],
            }
        ).encode()


def cases() -> list[Case]:
    """Every schema under every setting, then those under which answers are read."""
    user = [{"role": "user", "content": "Hi"}]
    spoken = [*user, {"role": "assistant", "content": '{"z":'}]
    thought = [*user, {"role": "assistant", "content": "", "reasoning_content": "Hm"}]
    both = [*user, {"role": "assistant", "content": "So", "reasoning_content": "Hm"}]
    conversations: list[tuple[list[dict[str, Any]], bool | str]] = [
        *((user, False), (spoken, True), (thought, True), (both, "content"), (both, "reasoning_content"))
    ]
    formats = [("deepseek", False), ("deepseek", True), ("none", False)]
    bound = [
        Case(schema, form, thinking, thinking, *conversation)
        for schema in SCHEMAS
        for form, thinking in formats
        for conversation in conversations[:2]
    ]
    read = [
        Case(schema, form, thinking, False, *conversation, reads=True)
        for schema in ("", SCHEMAS[0])
        for form, thinking in formats
        for conversation in (conversations[: 5 if schema else 3] if form == "deepseek" and not thinking else conversations[:1])
    ]
    return [*bound, *read]
