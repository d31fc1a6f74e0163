# SPDX-License-Identifier: MIT OR Apache-2.0
"""What tells how answers on a template are to be read: its format, or the marks around reasoning and content.

Source: analyze_content and the list of workarounds, common/chat-diff-analyzer.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bankml.core.chat.template_analysis import (
    ASSISTANT,
    GRANITE,
    MARKER,
    NEMOTRON,
    SPACES,
    THOUGHT,
    TOOLS,
    USER,
    Reasoning,
    Render,
    S,
    difference,
    find_reasoning,
    patch_reasoning,
)
from bankml.core.chat.template_tools import find_tool_marks

_WRAPPED = re.compile(b"(" + MARKER + S + b")" + re.escape(ASSISTANT.encode()) + S + b"(" + MARKER + S + b")")
_COHERE = (b"<|CHATBOT_TOKEN|>", b"<|END_OF_TURN_TOKEN|>")
_FUNCTIONARY = b'set has_code_interpreter = tools | selectattr("type", "equalto", "code_interpreter") | list | length > 0'


_THINK = ("<think>", "</think>")
_GEMMA = ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|turn>")
_LFM = ("<|tool_call_start|>", "<|tool_call_end|>", *_THINK)
_COHERE_PAIRS = ("OF_TURN_TOKEN", "THINKING", "TEXT", "ACTION", "TOOL_RESULT")

_PRESERVED: dict[str, tuple[str, ...]] = {
    "Ministral 3": ("[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"),
    "GPT-OSS": ("<|channel|>", "<|constrain|>", "<|message|>", "<|start|>", "<|end|>"),
    "Muse Glimmer": (
        *("<|start|>", "<|message|>", "<|eom|>", "<|eot|>", "<atem:function_calls>", "<atem:invoke", "<atem:parameter"),
        *("</atem:parameter>", "</atem:invoke>", "</atem:function_calls>"),
    ),
    "Functionary v3.2": (">>>all",),
    "Kimi K2": (
        *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>"),
        *("<|tool_call_argument_begin|>", "<|tool_call_end|>", *_THINK),
    ),
    "Kimi K3": ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    "Ling 3": (
        *(*_THINK, "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
        "<|role_end|>",
    ),
    "Cohere 2 MoE": (
        *("<|CHATBOT_TOKEN|>", "<|USER_TOKEN|>", "<|SYSTEM_TOKEN|>"),
        *(f"<|{side}_{name}|>" for name in _COHERE_PAIRS for side in ("START", "END")),
    ),
    "LFM2": (*_LFM, "<|tool_list_start|>", "<|tool_list_end|>"),
    "LFM2.5": _LFM,
    "GigaChat 3": ("<|message_sep|>\n\n", "<|role_sep|>\n"),
    "MiniMax M3": ("]<]minimax[>[", "<tool_call>", "</tool_call>", "<mm:think>", "</mm:think>"),
    "DeepSeek V4": ("｜DSML｜", *_THINK),
    "DeepSeek V3.2": ("｜DSML｜", *_THINK),
    "Gemma 4, old": _GEMMA,
    "Gemma 4": _GEMMA,
    "MiniCPM 5": ("<function", "<param", "</function>", "</param>", *_THINK),
    "Qwen 3 Coder with reasoning": ("<tool_call>", "</tool_call>", *_THINK),
    "Qwen 3 Coder": ("<tool_call>", "</tool_call>"),
}
"""By format: texts that stay in an answer where they are control tokens. Source: common/parsers/."""


@dataclass
class Wrapping:
    """The marks around content, and whether it always stands between them."""

    start: bytes = b""
    end: bytes = b""
    always: bool = False


@dataclass(frozen=True)
class Style:
    """How a template's answers look.

    Attributes:
        name: of its format, empty where none claims it.
        source: its text.
        reasoning: marks around reasoning, where no format claims it.
        content: marks around content, likewise.
        preserved: texts that stay in an answer where they are control tokens.
    """

    name: str
    source: bytes
    reasoning: Reasoning
    content: Wrapping
    preserved: tuple[bytes, ...] = ()


def named_style(name: str, source: bytes) -> Style:
    """The style of a format."""
    return Style(name, source, Reasoning(), Wrapping(), tuple(text.encode() for text in _PRESERVED[name]))


def find_style(source: bytes, render: Render, supports_tool_calls: bool, supports_parallel_calls: bool) -> Style:
    """The style of a template that no format claims."""
    reasoning = find_reasoning(render, supports_tool_calls)
    content = _content(render, reasoning)
    preserved = _marks(reasoning, content)
    if supports_tool_calls:
        preserved |= find_tool_marks(render, reasoning, supports_parallel_calls).all()
    patch_reasoning(source, reasoning)
    _patch_content(source, content)
    preserved = _patched(source, preserved | _marks(reasoning, content))
    return Style("", source, reasoning, content, tuple(sorted(preserved)))


def _marks(reasoning: Reasoning, content: Wrapping) -> set[bytes]:
    found = {each.strip(SPACES) for each in (reasoning.start, reasoning.end, content.start, content.end)}
    return found - {b""}


def _patched(source: bytes, preserved: set[bytes]) -> set[bytes]:
    """What the reference preserves by the look of the source in place of what it found."""
    if all(mark in source for mark in NEMOTRON):
        return {b"<SPECIAL_11>", b"</think>", b"<TOOLCALL>", b"</TOOLCALL>"}
    if _FUNCTIONARY in source:
        return {b"<|eot_id|>", b"<|eom_id|>", b"<function=", b">", b"</function>"}
    return preserved


def _content(render: Render, reasoning: Reasoning) -> Wrapping:
    """Marks around an answer's text."""
    call = {"id": "call00001", "type": "function", "function": {"name": "test_func", "arguments": {"arg1": "value1"}}}
    user = {"role": "user", "content": USER}

    def rendered(**answer: Any) -> bytes | None:
        return render([user, {"role": "assistant", **answer}], TOOLS, False, True)

    said = rendered(content=ASSISTANT)
    called = rendered(content="", tool_calls=[call])
    thought = rendered(content="", reasoning_content=THOUGHT)
    if said is None or called is None or thought is None:
        return Wrapping()
    beside_call, beside_thought = difference(said, called)[0], difference(said, thought)[0]
    if beside_call.strip(SPACES) == ASSISTANT.encode() and _bare(beside_thought, reasoning):
        return Wrapping()
    if reasoning.end and reasoning.end in beside_thought:
        beside_thought = beside_thought.partition(reasoning.end)[2]
    found = _WRAPPED.search(max(beside_call, beside_thought, key=len))
    return Wrapping(found[1], found[2], True) if found else Wrapping()


def _bare(text: bytes, reasoning: Reasoning) -> bool:
    """Whether there is nothing around the text, or only the end of reasoning before it."""
    if text[:1] not in SPACES or not text:
        return True
    end = reasoning.end if reasoning.found else b""
    return bool(end and re.search(re.escape(end) + S + re.escape(ASSISTANT.encode()), text))


def _patch_content(source: bytes, content: Wrapping) -> None:
    """What the reference sets by the look of the source."""
    if GRANITE in source:
        content.start, content.end, content.always = b"<response>", b"</response>", False
    if all(mark in source for mark in _COHERE) and not content.start:
        content.start, content.end, content.always = *_COHERE, True
    if _FUNCTIONARY in source:
        content.end, content.always = b"", False
    if all(mark in source for mark in NEMOTRON):
        content.start, content.end, content.always = b"", b"", False
