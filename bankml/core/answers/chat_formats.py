# SPDX-License-Identifier: MIT OR Apache-2.0
"""How an answer on each kind of chat template is read: the parsers of the reference, for requests without tools.

A template that no format claims is read by the marks that were found in what it renders.

Source: common/parsers/, autoparser::build_parser (common/chat-auto-parser-generator.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bankml.core.answers.peg import Builder, Part
from bankml.core.answers.peg_nodes import Parser
from bankml.core.chat.template_style import Style
from bankml.core.constrain.schema_nodes import Document

NATIVE: Final = "peg-native"
_THINK: Final = "<think>"
_THOUGHT: Final = "</think>"
_WHITE: Final = " \t\n\v\f\r"
_CHATML: Final = "<|im_start|>assistant\n"


@dataclass(frozen=True)
class Reading:
    """What a parser is built for.

    Attributes:
        style: the template's.
        opening: the generation prompt before a continued message was added to it.
        generation_prompt: with the continued message.
        continues: ``content``, ``reasoning``, or empty where nothing is continued.
        schema: what the answer must be, if anything.
        extracts: reasoning is split from content.
        thinks: the template knows that the model may reason.
        parallel: tools might be called several at once.
    """

    style: Style
    opening: str
    generation_prompt: str
    continues: str = ""
    schema: Document | None = None
    extracts: bool = True
    thinks: bool = False
    parallel: bool = False


def build(reading: Reading) -> Parser:
    """The parser of an answer."""
    builder = Builder()
    return builder.build(_FORMATS.get(reading.style.name, _by_marks)(builder, reading))


def binds(style: Style) -> bool:
    """Whether a schema binds answers on this template; on some the reference reads it and passes over it."""
    return style.name not in _UNBOUND


def triggers(style: Style) -> tuple[tuple[int, str], ...]:
    """What the reference names with a schema's grammar, type and text, though the grammar binds from the first token."""
    return _TRIGGERS.get(style.name, ())


def format_name(style: Style) -> str:
    """The name under which the reference reports how an answer is read."""
    return {"MiniMax M3": "peg-minimax-m3"}.get(style.name, "peg-gemma4" if style.name.startswith("Gemma 4") else NATIVE)


def _value(p: Builder, schema: Document, name: str) -> Part:
    return p.content(p.schema(p.json(), name, schema))


def _by_marks(p: Builder, asked: Reading) -> Part:
    marks = asked.style.reasoning
    content = asked.style.content
    start, end = (each.decode("utf-8", "surrogateescape") for each in (marks.start, marks.end))
    extracting = asked.extracts and marks.found
    reasoning = p.eps().now()
    if not extracting or not end:
        reasoning = p.eps().now()
    else:
        inner = p.reasoning(p.until(end.strip(_WHITE)))
        block = p.optspace(start) + inner + p.optspace(end) if start else inner + p.optspace(end)
        reasoning = p.optional(block).now()
    p.eps().now()
    if asked.schema is not None:
        value = p.rule("response-format", _value(p, asked.schema, "response-format-schema")).now()
        fenced = p.literal("```json") + p.space() + value + p.space() + p.literal("```")
        parser = reasoning + p.space() + p.choice(fenced, p.space() + value + p.space()) + p.end()
    elif content.start and content.end and content.always:
        opening, closing = (each.decode("utf-8", "surrogateescape") for each in (content.start, content.end))
        before = reasoning if extracting else p.content(p.until(opening))
        parser = before + opening + p.content(p.until(closing)) + closing + p.end()
    else:
        parser = reasoning + p.content(p.rest()) + p.end()
    parser = parser.now()
    prefix = p.prefix(asked.opening, start.strip(_WHITE))
    return prefix << parser if asked.schema is not None or marks.found else prefix + parser


def _ministral(p: Builder, asked: Reading) -> Part:
    opening = p.eps().now()
    reasoning = (p.optional("[THINK]" + p.reasoning(p.until("[/THINK]")) + "[/THINK]") if asked.extracts else p.eps()).now()
    if asked.schema is not None:
        return opening + (reasoning << "```json" << _value(p, asked.schema, "response-format") << "```")
    return opening + (reasoning << p.content(p.rest()))


def _gpt_oss(p: Builder, asked: Reading) -> Part:
    start = p.rule("start", p.literal("<|start|>assistant")).now()
    end = p.rule("end", p.literal("<|end|>")).now()
    content = p.rule("message-content", p.until("<|end|>")).now()
    channel = (p.literal("<|channel|>") + (p.literal("commentary") | p.literal("analysis"))).now()
    constrain_type = p.chars("[A-Za-z0-9_-]", 1, -1).now()
    stray = p.optional(p.literal("<|channel|>commentary") + p.optional(p.literal(" to=assistant"))).now()
    start_analysis = (stray + p.literal("<|channel|>analysis<|message|>")).now()
    if asked.extracts:
        p.rule("analysis", start_analysis + p.reasoning(content) + end).now()
    else:
        p.rule("analysis", p.content(start_analysis + content + end)).now()
    analysis = p.ref("analysis").now()
    preamble = p.rule("preamble", p.literal("<|channel|>commentary<|message|>") + p.content(content) + end).now()
    final = p.rule("final", stray + p.literal("<|channel|>final<|message|>") + p.content(content)).now()
    unsolicited = p.rule("unsolicited", p.atomic(p.optional(channel) + p.literal(" to=") + content + end)).now()
    anything = p.rule("any", preamble | analysis).now()
    if asked.schema is not None:
        constraint = p.optional(p.space() + p.optional(p.literal("<|constrain|>")) + constrain_type).now()
        value = _value(p, asked.schema, "response-format-schema")
        answer = p.rule("response-format", p.literal("<|channel|>final") + constraint + p.literal("<|message|>") + value).now()
        return p.many(start + analysis) + start + answer
    return p.many(start + anything) + start + (final | unsolicited)


def _muse_glimmer(p: Builder, asked: Reading) -> Part:
    start = p.rule("start", p.literal("<|start|>assistant")).now()
    if not asked.extracts:
        return start + p.content(p.rest())
    inner = p.reasoning(p.until("<|eom|>"))
    p.rule("analysis", p.literal(" to=self<|message|>") + inner + p.literal("<|eom|>")).now()
    analysis = p.ref("analysis").now()
    recipient = p.optional(p.literal(" to=user")).now()
    said = p.content(p.until("<|eot|>", "<|eom|>"))
    final = p.rule("final", recipient + p.literal("<|message|>") + said).now()
    return p.many(start + analysis) + start + final


def _functionary(p: Builder, asked: Reading) -> Part:
    _ = (p.literal("all\n") + p.content(p.until(">>>"))).now()
    to_end = (p.literal("all\n") + p.content(p.rest())).now()
    opening = p.literal("<|start_header_id|>assistant<|end_header_id|>\n\n>>>").now()
    return opening + to_end + p.end()


def _kimi_k2(p: Builder, asked: Reading) -> Part:
    end = p.end().now()
    reasoning = p.eps()
    if asked.extracts:
        inner = p.reasoning(p.until(_THOUGHT, "<|tool_calls_section_begin|>", "<|tool_call_begin|>"))
        reasoning = p.optional(_THINK + inner + p.optional(p.literal(_THOUGHT)))
    reasoning = reasoning.now()
    opening = p.literal("<|im_assistant|>assistant<|im_middle|>").now()
    return opening + reasoning + p.content(p.rest()) + end


def _kimi_k3(p: Builder, asked: Reading) -> Part:
    said, over = "<|open|>response<|sep|>", "<|close|>message<|sep|>"
    thought = "<|close|>think<|sep|>"
    end = p.end().now()
    start = p.optional(p.literal('<|open|>message role="assistant"<|sep|>')).now()
    inner = p.until(thought, said)
    body = (p.reasoning(inner) if asked.extracts else p.content(inner)).now()
    reasoning = p.optional(p.optional(p.literal("<|open|>think<|sep|>")) + body + p.optional(p.literal(thought))).now()
    closing = "<|close|>response<|sep|>"
    text = p.content(p.until(closing, "<|open|>tools<|sep|>", over))
    response = (p.optional(p.literal(said)) + text + p.optional(p.literal(closing))).now()
    trailer = (p.optional(p.literal(over)) + p.optional(p.literal("<|end_of_msg|>"))).now()
    return start + reasoning + response + trailer + end


def _ling_3(p: Builder, asked: Reading) -> Part:
    if asked.continues:
        thinking = asked.continues != "content"
    else:
        thinking = asked.generation_prompt.rfind(_THINK) > asked.generation_prompt.rfind(_THOUGHT)
    end = p.end().now()
    opener = p.optional(p.literal("<role>ASSISTANT</role>") + p.optional(p.space())).now()
    inner = (p.until(_THOUGHT, "<tool_call>") if thinking else p.until(_THOUGHT)).now()
    body = (p.reasoning(inner) if asked.extracts else p.content(inner)).now()
    reasoning = p.optional(p.optional(p.literal(_THINK)) + body + p.optional(p.literal(_THOUGHT))).now()
    p.optional(p.content(p.until("<tool_call>"))).now()
    tail = (p.optional(p.content(p.until("<|role_end|>"))) + p.optional(p.literal("<|role_end|>"))).now()
    return opener + reasoning + tail + end


def _cohere_2(p: Builder, asked: Reading) -> Part:
    opening = p.literal("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>").now()
    end = p.end().now()
    p.eps().now()
    start, thought, text_start, text_end = "<|START_THINKING|>", "<|END_THINKING|>", "<|START_TEXT|>", "<|END_TEXT|>"
    inner = p.until(thought, text_start, "<|START_ACTION|>")
    if asked.extracts:
        reasoning = p.optional(p.literal(start) + p.reasoning(inner) + p.optional(p.literal(thought))).now()
    else:
        reasoning = p.optional(p.content(p.literal(start) + inner + p.optional(p.literal(thought)))).now()
    said = p.content(p.until(text_end)) if asked.schema is None else _value(p, asked.schema, "response-format-schema")
    text = (p.literal(text_start) + said + p.optional(p.literal(text_end))).now()
    return opening + reasoning + text + p.optional(p.literal("<|END_OF_TURN_TOKEN|>")) + end


def _lfm_2(p: Builder, asked: Reading) -> Part:
    opening = p.literal(_CHATML).now()
    end = p.end().now()
    reasoning = p.eps().now()
    if asked.extracts and _THINK.encode() in asked.style.source:
        reasoning = p.optional(_THINK + p.reasoning(p.until(_THOUGHT)) + _THOUGHT).now()
    if asked.schema is not None:
        value = _value(p, asked.schema, "response-format-schema").now()
        return opening + reasoning + value + end
    return opening + reasoning + p.content(p.rest()) + end


def _gigachat(p: Builder, asked: Reading) -> Part:
    p.eps().now()
    rest = p.content(p.rest()).now()
    return p.literal("assistant<|role_sep|>\n") + rest


def _minimax_m3(p: Builder, asked: Reading) -> Part:
    start, thought = "<mm:think>", "</mm:think>"
    opening = p.prefix(asked.opening, start).now()
    end = p.end().now()
    reasoning = p.eps().now()
    if asked.extracts:
        if asked.thinks:
            inside = p.including(p.reasoning(p.until(thought)) + p.literal(thought), thought)
            block = (p.literal(start) + p.space() + inside).now()
        else:
            block = (p.literal(start) + p.including(p.until(thought) + p.literal(thought), thought)).now()
        reasoning = p.optional(p.choice(block, p.literal(thought))).now()
    if asked.schema is not None:
        return opening + reasoning + _fenced(p, asked.schema).now() + end
    return opening + reasoning + p.content(p.rest()) + end


def _fenced(p: Builder, schema: Document) -> Part:
    value = _value(p, schema, "response-format-schema")
    fenced = p.literal("```json") + p.space() + value + p.space() + p.literal("```")
    return p.rule("response-format", fenced)


def _deepseek(p: Builder, asked: Reading) -> Part:
    newer = asked.style.name == "DeepSeek V4"
    calls_start = _TRIGGERS[asked.style.name][0][1]
    calls_end = calls_start.replace("<", "</")
    opening = p.literal("<｜Assistant｜>").now()
    end = p.end().now()
    tool = p.choice().now()
    p.eps().now()
    calls = p.literal(calls_start) + p.space() + tool
    if asked.parallel:
        calls = calls + p.many(p.space() + tool)
    calls = calls + p.space() + p.literal(calls_end)
    called = p.rule("tool-call", calls, trigger=True).now()
    reasoning = p.eps().now()
    p.eps().now()
    p.optional(called).now()
    if asked.extracts and asked.thinks:
        reasoning = p.optional(_THINK + p.reasoning(p.until(_THOUGHT)) + _THOUGHT).now()
        inner = p.reasoning(p.until("\n\n" + calls_start, calls_start, _THOUGHT))
        (_THINK + inner + p.space() + called).now()
    elif asked.extracts and newer:
        reasoning = p.optional(p.literal(_THOUGHT)).now()
    elif asked.extracts:
        reasoning = p.optional(p.literal(_THINK) + p.until(_THOUGHT) + p.literal(_THOUGHT)).now()
    if asked.schema is not None:
        return opening + reasoning + _fenced(p, asked.schema).now() + end
    return opening + reasoning + p.content(p.rest()) + end


def _gemma_4(p: Builder, asked: Reading) -> Part:
    start = p.rule("start", p.optional(p.literal("<|turn>model\n"))).now()
    channel, over = "<|channel>", "<channel|>"
    if asked.extracts:
        inner = p.reasoning(p.until(over))
        p.rule("thought", p.literal("<|channel>thought") + p.space() + inner + p.literal(over)).now()
    else:
        p.rule("thought", p.content(p.literal("<|channel>thought") + p.space() + p.until(over) + p.literal(over))).now()
    empty = p.gbnf(p.many(p.literal(channel) + p.negate(p.literal("thought"))), "").now()
    thought = ((p.peek(p.literal(channel)) + empty + p.ref("thought")) | p.negate(p.literal(channel))).now()
    if asked.schema is not None:
        value = (p.literal("```json") << _value(p, asked.schema, "response-format-schema") << p.literal("```")).now()
        return start + p.optional(thought) + value
    content = p.rule("content", p.content(p.until(channel, over))).now()
    message = p.rule("message", thought + content).now()
    return start + p.repeat(message, 1, -1)


def _minicpm_5(p: Builder, asked: Reading) -> Part:
    opening = p.literal(_CHATML).now()
    reasoning = p.eps().now()
    if asked.extracts:
        reasoning = ((_THINK << p.reasoning(p.until(_THOUGHT)) << _THOUGHT) + p.space()).now()
    if asked.schema is not None:
        return opening + reasoning + _value(p, asked.schema, "response-format")
    return opening + reasoning + p.content(p.rest()) + p.end()


def _qwen_3_coder(p: Builder, asked: Reading) -> Part:
    opening = p.literal(_CHATML).now()
    reasoning = p.eps().now()
    if asked.extracts and asked.style.name == "Qwen 3 Coder with reasoning":
        inner = p.reasoning(p.until(_THOUGHT, "<tool_call>"))
        closing = p.literal(_THOUGHT) | p.peek(p.literal("<tool_call>"))
        reasoning = p.optional(_THINK + p.space() + inner + closing).now()
    if asked.schema is not None:
        return opening + (reasoning << _value(p, asked.schema, "response-format"))
    return opening + (reasoning << p.content(p.rest()))


_FORMATS: Final[dict[str, Callable[[Builder, Reading], Part]]] = {
    "Ministral 3": _ministral,
    "GPT-OSS": _gpt_oss,
    "Muse Glimmer": _muse_glimmer,
    "Functionary v3.2": _functionary,
    "Kimi K2": _kimi_k2,
    "Kimi K3": _kimi_k3,
    "Ling 3": _ling_3,
    "Cohere 2 MoE": _cohere_2,
    "LFM2": _lfm_2,
    "LFM2.5": _lfm_2,
    "GigaChat 3": _gigachat,
    "MiniMax M3": _minimax_m3,
    "DeepSeek V4": _deepseek,
    "DeepSeek V3.2": _deepseek,
    "Gemma 4, old": _gemma_4,
    "Gemma 4": _gemma_4,
    "MiniCPM 5": _minicpm_5,
    "Qwen 3 Coder with reasoning": _qwen_3_coder,
    "Qwen 3 Coder": _qwen_3_coder,
}

_UNBOUND: Final = {"Muse Glimmer", "Functionary v3.2", "Kimi K2", "Kimi K3", "Ling 3", "GigaChat 3"}

_TRIGGERS: Final[dict[str, tuple[tuple[int, str], ...]]] = {
    "Ministral 3": ((1, "[TOOL_CALLS]"),),
    "GPT-OSS": (
        (2, r"^\s+to$"),
        (2, r"^<\|channel\|>(?:commentary|analysis)\s+to=functions$"),
        (2, r"<\|start\|>assistant(\s+to)"),
        (2, r"<\|start\|>assistant(<\|channel\|>(?:commentary|analysis)\s+to)"),
    ),
    "Cohere 2 MoE": ((1, "<|START_ACTION|>"),),
    "LFM2": ((1, "<|tool_call_start|>"),),
    "LFM2.5": ((1, "<|tool_call_start|>"),),
    "MiniMax M3": ((1, "]<]minimax[>[<tool_call>"),),
    "DeepSeek V4": ((1, "<｜DSML｜tool_calls>"),),
    "DeepSeek V3.2": ((1, "<｜DSML｜function_calls>"),),
    "Gemma 4, old": ((1, "<|tool_call>"),),
    "Gemma 4": ((1, "<|tool_call>"),),
    "MiniCPM 5": ((1, "<function"),),
}
