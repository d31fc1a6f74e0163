# SPDX-License-Identifier: MIT OR Apache-2.0
"""The chat formats that the reference handles by name: how each rewrites messages and continues an assistant message.

A format is recognised by strings in the template's source, in a fixed order of trial; the conditions are the
reference's. Everything else is the template's own doing.

Source: common_chat_try_specialized_template, common/chat.cpp; common/parsers/.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bankml.core.chat.messages import Message, loads, text_or

Messages = list[dict[str, Any]]


@dataclass
class Draft:
    """A prompt in the making: what was rendered, and the part that the model's answer starts from."""

    prompt: bytes
    generation_prompt: bytes
    generates: bool
    """Whether the prompt was rendered with its generation prompt."""


def _unchanged(messages: Messages) -> Messages | None:
    return None


@dataclass(frozen=True)
class Format:
    """One format: when it applies and what it does.

    Attributes:
        adjust: the messages to render in place of the given ones, or None.
        prefix: how the text of a continued message begins, given the draft and the message.
        joint: what stands between its reasoning and its content.
        finish: a last change of the draft before a continued message is added.
        reasons: whether a continued message shows its reasoning.
        speaks: whether it shows its content even where its reasoning goes on.
        opening: the generation prompt, where the format does not take it from the template.
        stops: texts that end an answer.
    """

    name: str
    applies: Callable[[bytes], bool]
    prefix: Callable[[Draft, Message], str]
    joint: Callable[[Message], str]
    adjust: Callable[[Messages], Messages | None] = _unchanged
    finish: Callable[[Draft], None] = lambda draft: None
    reasons: bool = True
    speaks: bool = False
    opening: bytes | None = None
    stops: tuple[str, ...] = ()

    def continuation(self, draft: Draft, message: Message, to_content: bool) -> bytes:
        """The continued message as the prompt ends with it: its reasoning, and its content if that is what goes on."""
        text = self.prefix(draft, message) + (message.reasoning_content if self.reasons else "")
        if to_content or self.speaks:
            text += self.joint(message) + message.text()
        return text.encode()


def _has(*marks: str, without: tuple[str, ...] = ()) -> Callable[[bytes], bool]:
    present, absent = [m.encode() for m in marks], [m.encode() for m in without]
    return lambda source: all(m in source for m in present) and not any(m in source for m in absent)


def _fixed(name: str, applies: Callable[[bytes], bool], prefix: str, joint: str, **more: Any) -> Format:
    return Format(name, applies, lambda draft, message: prefix, lambda message: joint, **more)


def _copy_reasoning(messages: Messages) -> Messages:
    """Reasoning also under the name ``thinking``."""
    return [{**m, "thinking": m["reasoning_content"]} if "reasoning_content" in m else m for m in messages]


def _gpt_oss_messages(messages: Messages) -> Messages:
    adjusted = _copy_reasoning(messages)
    for message in adjusted:
        if "thinking" in message and message.get("tool_calls"):
            del message["content"]
    return adjusted


def _gpt_oss_finish(draft: Draft) -> None:
    """A finished last turn ends with ``<|end|>`` while generating is not asked for."""
    if not draft.generates:
        before, found, after = draft.prompt.rpartition(b"<|return|>")
        if found:
            draft.prompt = before + b"<|end|>" + after


def _ministral_messages(messages: Messages) -> Messages:
    """System and assistant contents as lists of parts, reasoning first."""
    adjusted = []
    for message in messages:
        if message["role"] not in ("system", "assistant"):
            adjusted.append(message)
            continue
        content: list[Any] = []
        if "reasoning_content" in message:
            content.append({"type": "thinking", "thinking": message["reasoning_content"]})
        if isinstance(message.get("content"), str):
            content.append({"type": "text", "text": message["content"]})
        elif isinstance(message.get("content"), list):
            content.extend(message["content"])
        rest = {key: value for key, value in message.items() if key != "reasoning_content"}
        adjusted.append({**rest, "content": content})
    return adjusted


def _is_deepseek_v4(source: bytes) -> bool:
    return _is_deepseek(source) and b"function_calls" not in source


def _is_deepseek(source: bytes) -> bool:
    return b"dsml_token" in source and b"DSML" in source and (b"function_calls" in source or b"tool_calls" in source)


def _deepseek_v4_messages(messages: Messages) -> Messages:
    """The results of tools, within a run of user and tool messages, in the order of the calls."""
    adjusted = list(messages)
    order: dict[str, int] = {}
    i = 0
    while i < len(adjusted):
        message = adjusted[i]
        if message["role"] == "assistant" and message.get("tool_calls"):
            order = {call["id"]: k for k, call in enumerate(message["tool_calls"]) if call.get("id")}
        if message["role"] not in ("user", "tool"):
            i += 1
            continue
        end = i
        while end < len(adjusted) and adjusted[end]["role"] in ("user", "tool"):
            end += 1
        places = [k for k in range(i, end) if adjusted[k]["role"] == "tool"]
        if len(places) > 1 and order:
            results = sorted((adjusted[k] for k in places), key=lambda m: order.get(m.get("tool_call_id", ""), 0))
            for place, result in zip(places, results, strict=True):
                adjusted[place] = result
        i = end
    return adjusted


def _is_old_gemma(source: bytes) -> bool:
    return b"{#- OpenAI Chat Completions:" not in source


def gemma_messages(messages: Messages) -> Messages:
    """Calls, the results that follow and the answer after them as one assistant message with ``tool_responses``."""
    result: Messages = []
    i = 0
    while i < len(messages):
        message = messages[i]
        i += 1
        if message["role"] != "assistant" or not message.get("tool_calls"):
            result.append(message)
            continue
        calls = message["tool_calls"]
        turn: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
        responses: list[Any] = []
        while i < len(messages) and messages[i]["role"] == "tool":
            responses.append(_gemma_response(messages[i], calls, len(responses)))
            i += 1
        if responses:
            turn["tool_responses"] = responses
        if i < len(messages) and messages[i]["role"] == "assistant":
            answer = messages[i]
            if not answer.get("tool_calls") and answer.get("content"):
                turn["content"] = answer["content"]
                i += 1
        if "reasoning_content" in message:
            turn["reasoning_content"] = message["reasoning_content"]
        result.append(turn)
    return result


def _gemma_response(message: dict[str, Any], calls: list[dict[str, Any]], index: int) -> dict[str, Any]:
    response = message.get("content")
    if isinstance(response, str):
        try:
            response = loads(response)
        except ValueError:
            response = message["content"]
    name = text_or(calls[index]["function"], "name", "") if index < len(calls) else ""
    return {"name": name or text_or(message, "tool_call_id", ""), "response": response}


def _gemma_finish(draft: Draft) -> None:
    if draft.generates and draft.prompt.endswith(b"<turn|>\n"):
        draft.generation_prompt = b"<|turn>model\n"
        draft.prompt += draft.generation_prompt


def _gemma_prefix(draft: Draft, message: Message) -> str:
    opener = "<|turn>model\n" if draft.prompt.endswith(b"<turn|>\n") else ""
    return opener + "<|channel>thought\n"


def _deepseek_v4_prefix(draft: Draft, message: Message) -> str:
    return "<｜Assistant｜>" + ("<think>" if message.reasoning_content else "</think>")


_THINK = ("<think>", "</think>")
_CHATML = "<|im_start|>assistant\n"

FORMATS: tuple[Format, ...] = (
    _fixed(
        "Ministral 3",
        _has("[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]", without=("[CALL_ID]",)),
        "[THINK]",
        "[/THINK]",
        adjust=_ministral_messages,
    ),
    _fixed(
        "GPT-OSS",
        _has("<|channel|>"),
        "<|start|>assistant<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        adjust=_gpt_oss_messages,
        finish=_gpt_oss_finish,
    ),
    _fixed(
        "Muse Glimmer",
        _has("<atem:function_calls>", "<|eom|>"),
        "<|start|>assistant to=self<|message|>",
        "<|eom|><|start|>assistant to=user<|message|>",
        opening=b"<|start|>assistant",
    ),
    _fixed(
        "Functionary v3.2",
        _has(">>>all", ">>>${recipient}"),
        "<|start_header_id|>assistant<|end_header_id|>\n\n>>>all\n",
        "",
        reasons=False,
        speaks=True,
    ),
    _fixed(
        "Kimi K2",
        _has("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
        "<|im_assistant|>assistant<|im_middle|>" + _THINK[0],
        _THINK[1],
    ),
    _fixed(
        "Kimi K3",
        _has("<|open|>", "<|close|>", "<|end_of_msg|>"),
        '<|open|>message role="assistant"<|sep|><|open|>think<|sep|>',
        "<|close|>think<|sep|><|open|>response<|sep|>",
    ),
    _fixed(
        "Ling 3",
        _has("<role>ASSISTANT</role>", "<arg_key>"),
        "<role>ASSISTANT</role>\n" + _THINK[0],
        _THINK[1],
        stops=("<|role_end|>",),
    ),
    _fixed(
        "Cohere 2 MoE",
        _has("<|START_TEXT|>", "<|START_ACTION|>"),
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>",
        "<|END_THINKING|><|START_TEXT|>",
    ),
    _fixed(
        "LFM2",
        _has("<|tool_list_start|>", "<|tool_list_end|>"),
        _CHATML + _THINK[0],
        _THINK[1],
        adjust=_copy_reasoning,
    ),
    _fixed(
        "LFM2.5",
        _has("List of tools: [", without=("<|tool_list_start|>",)),
        _CHATML + _THINK[0],
        _THINK[1],
        adjust=_copy_reasoning,
    ),
    _fixed(
        "GigaChat 3",
        _has("<|role_sep|>", "<|message_sep|>", without=("<|function_call|>",)),
        "assistant<|role_sep|>\n",
        "",
        reasons=False,
        speaks=True,
    ),
    Format(
        "MiniMax M3",
        _has("]<]minimax[>[", "<tool_call>", "<invoke name="),
        lambda draft, message: draft.generation_prompt.decode("utf-8", "surrogateescape") + "<mm:think>",
        lambda message: "</mm:think>",
    ),
    Format(
        "DeepSeek V4",
        _is_deepseek_v4,
        _deepseek_v4_prefix,
        lambda message: "</think>" if message.reasoning_content else "",
        adjust=_deepseek_v4_messages,
    ),
    _fixed("DeepSeek V3.2", _is_deepseek, "<｜Assistant｜><think>", "</think>"),
    Format(
        "Gemma 4, old",
        lambda source: b"'<|tool_call>call:'" in source and _is_old_gemma(source),
        _gemma_prefix,
        lambda message: "<channel|>",
        adjust=gemma_messages,
        finish=_gemma_finish,
    ),
    Format(
        "Gemma 4",
        _has("'<|tool_call>call:'"),
        _gemma_prefix,
        lambda message: "<channel|>",
        finish=_gemma_finish,
    ),
    _fixed(
        "MiniCPM 5",
        _has("Tool usage guidelines:", '<function name="', '<param name="'),
        _CHATML + "<think>\n",
        "\n</think>\n\n",
    ),
    _fixed(
        "Qwen 3 Coder with reasoning",
        _has(
            "<tool_call>",
            "<function=",
            "<parameter=",
            "<think>",
            without=("'<tool_call><function=' ~ tool_call.name ~ '>'",),
        ),
        _CHATML + "<think>\n",
        "\n</think>\n\n",
    ),
    _fixed(
        "Qwen 3 Coder",
        _has("<tool_call>", "<function=", "<parameter=", without=("'<tool_call><function=' ~ tool_call.name ~ '>'",)),
        _CHATML,
        "",
        reasons=False,
    ),
)


def find_format(source: bytes) -> Format | None:
    """The first format whose marks the source has."""
    return next((chat_format for chat_format in FORMATS if chat_format.applies(source)), None)
