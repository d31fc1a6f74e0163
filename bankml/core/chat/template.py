# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chat templates: a model's own Jinja program, run to the bytes of llama-server's ``/apply-template``.

Source: common_chat_templates_init, common_chat_templates_apply_jinja and common_chat_template_direct_apply_impl,
common/chat.cpp; peg_generator::generate_parser, common/chat-auto-parser-generator.cpp.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from bankml.core.chat.messages import Message, fit_content, merge_system, parse_arguments, to_system
from bankml.core.chat.sequence_ends import Ends, ends_of, own_template, tool_template
from bankml.core.chat.template_analysis import calls_are_readable, common_prefix
from bankml.core.chat.template_formats import Draft, Format, find_format
from bankml.core.chat.template_request import ChatRequest, check_logprobs, read_request
from bankml.core.chat.template_style import Style, find_style, named_style
from bankml.core.jinja.caps import find_caps, preserve_reasoning, reasoning_effort
from bankml.core.jinja.errors import LimitError, LocatedError, SourceError, line_and_column
from bankml.core.jinja.program import Program
from bankml.core.jinja.values import from_python
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.gguf.reader import GgufFile
    from bankml.core.tokenizer.tokenizer import Tokenizer

Messages = list[dict[str, Any]]

# For a model without a template of its own. Clients read it in /props, so it is the reference's to the byte: its line ends
# stand inside the quotes as they are, not as escapes.
CHATML = """\
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '
' + message.content + '<|im_end|>
' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant
' -}}
{%- endif -%}"""
# Two checks that some templates make on their input, and that the reference takes out of their source.
_SOFTENED = (
    (
        "<|channel|>",
        "in message.content or",
        '{%- if "<|channel|>analysis<|message|>" in message.content or "<|channel|>final<|message|>" in message.content %}',
    ),
    (
        "[TOOL_CALLS]",
        "if (message['content'] is none or",
        "{%- if (message['content'] is none or message['content'] == '' or message['content']|length == 0) and "
        "(message['tool_calls'] is not defined or message['tool_calls'] is none or message['tool_calls']|length == 0) %}",
    ),
)
_STEPFUN = b"You have access to the following functions in JSONSchema format"
_SPACES = " \t\n\v\f\r"
_NO_PARSER = b"Unable to generate parser for this template. Automatic parser generation failed: "


@dataclass(frozen=True)
class Prompt:
    """What a request becomes.

    Attributes:
        raw: the prompt's bytes, which are what is tokenized.
        generation_prompt: the end of it that opens the answer.
        style: how the answer will look.
        opening: the generation prompt before a continued message was added to it.
        continues: which part of a message is continued: ``content``, ``reasoning``, or empty.
        stops: texts that end the answer, the template's own.
    """

    raw: bytes
    generation_prompt: bytes
    style: Style
    opening: bytes
    continues: str = ""
    stops: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The prompt as JSON can hold it: bad UTF-8, which only a template can make, is replaced."""
        return self.raw.decode("utf-8", "replace")


def _local(now: datetime | None) -> time.struct_time:
    """A time as C's localtime gives it; one with a zone keeps its own wall clock."""
    if now is None:
        return time.localtime()
    if now.tzinfo is None:
        return time.localtime(now.timestamp())
    offset = now.utcoffset()
    zone = {"tm_zone": now.tzname() or "", "tm_gmtoff": int(offset.total_seconds()) if offset else 0}
    # C prints no zone while it is unknown whether summer time holds.
    return time.struct_time((*now.timetuple()[:8], int(bool(now.dst()))), zone)


def _encoded(source: str | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.encode("utf-8", "surrogateescape")


def _softened(source: bytes) -> bytes:
    for mark, sign, check in _SOFTENED:
        if mark.encode() in source and sign.encode() in source:
            source = source.replace(check.encode(), b"{%- if false %}")
    return source


class ChatTemplate:
    """One model's template, compiled once; threads may share it.

    Args:
        source: the template; empty or ``chatml`` stands for ChatML.
        bos_text: the text of the token that begins a sequence.
        eos_text: the text of the token that ends one.
        add_bos: whether the tokenizer adds the first by itself, so that the prompt must not begin with it.
        add_eos: the same for the last.
        tool_source: the template for requests with tools, if the model has a second one.
        now: the time that the capability probes see; the local time if None.

    Raises:
        Refusal: a source that llama-server would not start with (``template.syntax``, ``template.load``), or one that
            goes beyond the limits (``template.limit``).
    """

    def __init__(
        self,
        source: str | bytes,
        bos_text: str | bytes = "",
        eos_text: str | bytes = "",
        *,
        add_bos: bool = False,
        add_eos: bool = False,
        tool_source: str | bytes | None = None,
        now: datetime | None = None,
    ) -> None:
        if source in ("", b"", "chatml", b"chatml"):
            source = tool_source or CHATML
        ends = Ends(_encoded(bos_text), _encoded(eos_text), add_bos, add_eos)
        clock = _local(now)
        self._default = _Variant(_softened(_encoded(source)), ends, clock)
        self._with_tools = _Variant(_encoded(tool_source), ends, clock) if tool_source else None

    @classmethod
    def from_gguf(
        cls,
        gguf: GgufFile,
        *,
        tokenizer: Tokenizer | None = None,
        source: str | bytes | None = None,
        now: datetime | None = None,
    ) -> Self:
        """The template that a file brings along, or another source with the file's first and last token.

        Args:
            gguf: the open file.
            tokenizer: the file's, if it is at hand already.
            source: the other source.
            now: as for the class.

        Raises:
            Refusal: as the class does; or the vocabulary is malformed.
        """
        ends = ends_of(gguf, tokenizer)
        tools = tool_template(gguf) if source is None else None
        return cls(
            source if source is not None else own_template(gguf) or "",
            ends.bos,
            ends.eos,
            add_bos=ends.add_bos,
            add_eos=ends.add_eos,
            tool_source=tools,
            now=now,
        )

    @property
    def source(self) -> str:
        """The template's text as it is run."""
        return self._default.source.decode("utf-8", "replace")

    @property
    def caps(self) -> dict[str, bool]:
        """What the template can take, as ``/props`` reports it."""
        return (self._with_tools or self._default).caps.as_dict()

    def apply(self, body: dict[str, Any], now: datetime | None = None) -> Prompt:
        """The prompt of an HTTP body, as llama-server's ``/apply-template`` makes it.

        Raises:
            Refusal: where llama-server refuses, with its words and status; ``template.limit`` beyond the limits.
        """
        prompt = self.prompt(read_request(body), now)
        check_logprobs(body)
        return prompt

    def prompt(self, request: ChatRequest, now: datetime | None = None) -> Prompt:
        """The prompt of a request. Raises: Refusal, as :meth:`apply` does."""
        variant = self._with_tools if request.tools and self._with_tools else self._default
        return variant.prompt(request, _local(now))

    def render(
        self,
        messages: list[dict[str, Any]],
        *,
        add_generation_prompt: bool = True,
        now: datetime | None = None,
        tools: list[dict[str, Any]] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt of a message list as text. Raises: Refusal, as :meth:`apply` does."""
        body: dict[str, Any] = {"messages": messages, "add_generation_prompt": add_generation_prompt}
        if tools is not None:
            body["tools"] = tools
        if kwargs:
            body["chat_template_kwargs"] = dict(kwargs)
        return self.apply(body, now).text


@dataclass
class _Job:
    """One request on its way to the template: messages in the template's form, and its variables."""

    messages: Messages
    tools: Messages | None
    enable_thinking: bool
    extra: dict[str, Any]
    ends: Ends
    now: time.struct_time


class _Variant:
    """One compiled source with what was found out about it."""

    def __init__(self, source: bytes, ends: Ends, now: time.struct_time) -> None:
        self.ends = ends
        self.now = now
        try:
            self.program = Program(source)
            self.source = self.program.source
            self.caps = find_caps(source, now)
        except SourceError as error:
            line, column = line_and_column(source, error.pos)
            place = f"line {line}, column {column}"
            raise Refusal("template.syntax", f"the chat template is no template: {error.message}", where=place) from None
        except LimitError as error:
            raise _limit(error) from None
        self.format: Format | None = find_format(self.source)
        self._renders_once = b"add_generation_prompt" not in self.source
        self._check()

    def _check(self) -> None:
        """Runs the conversation that llama-server tries before it starts."""
        try:
            self.prompt(ChatRequest([Message("user", "test")], enable_thinking=True), self.now)
        except Refusal as refusal:
            if refusal.code == "template.limit":
                raise
            raise Refusal(
                "template.load", "the chat template fails on a single user message", found=refusal.message.strip()
            ) from None
        try:
            readable = self.format or not self.caps.supports_tool_calls or calls_are_readable(self._try, self.style.reasoning)
        except LimitError as error:
            raise _limit(error) from None
        if not readable:
            raise Refusal("template.load", "the chat template writes tool calls that look like JSON and are none")

    def prompt(self, request: ChatRequest, now: time.struct_time) -> Prompt:
        """The prompt of a request. Raises: Refusal."""
        try:
            return self._prompt(request, now)
        except LocatedError as error:
            raise self._raised(error) from None
        except LimitError as error:
            raise _limit(error) from None
        except UnicodeEncodeError:
            raise Refusal("template.messages", "the messages hold half of a surrogate pair, which is no character") from None

    def _raised(self, error: LocatedError) -> Refusal:
        """The template's own error. Without a format of its own the reference takes it for a bad request."""
        if self.format is None:
            message, status, kind = _NO_PARSER + error.message, 400, "invalid_request_error"
        else:
            message, status, kind = error.message, 500, "server_error"
        return Refusal("template.error", message.decode("utf-8", "replace"), status=status, kind=kind)

    def _prompt(self, request: ChatRequest, now: time.struct_time) -> Prompt:
        messages, last, part = self._messages(request)
        extra = {
            "datetime": time.strftime("%b %d %Y", now),
            "date_string": time.strftime("%d %b %Y", now),
            **request.kwargs,
        }
        job = _Job(messages, request.tools, request.enable_thinking, extra, self.ends, now)
        adjusted = self.format.adjust(messages) if self.format else None
        if adjusted is None:
            adjusted = fit_content(messages, self.caps.supports_string_content, self.caps.supports_typed_content)
        job.messages = adjusted
        if self.format and self.format.name == "DeepSeek V4" and isinstance(request.json_schema, dict):
            job.extra["response_format"] = request.json_schema
        generates = request.add_generation_prompt and not request.continues
        draft = self._draft(job, generates)
        if self.format:
            self.format.finish(draft)
        opening = draft.generation_prompt
        continued = last is not None and not last.is_empty
        if last is not None and continued:
            if self.format:
                draft.generation_prompt = self.format.continuation(draft, last, part == "content")
            else:
                draft.generation_prompt = self._continued(draft.generation_prompt, last, part == "content")
            draft.prompt += draft.generation_prompt
        return Prompt(draft.prompt, draft.generation_prompt, self.style, opening, part if continued else "", self.stops)

    def _messages(self, request: ChatRequest) -> tuple[Messages, Message | None, str]:
        """The messages for the template, the one to continue if any, and which part of it goes on."""
        given = request.messages
        if _STEPFUN in self.source:
            given = [_stripped(message) for message in given]
        messages = fit_content(
            [message.as_dict() for message in given], self.caps.supports_string_content, self.caps.supports_typed_content
        )
        last, part = None, request.continues
        if part and given:
            last = request.messages[-1]
            messages.pop()
            if part == "auto":
                only_reasons = last.reasoning_content and not last.content and not last.parts
                part = "reasoning" if only_reasons else "content"
        if b"<|channel|>" not in self.source:
            to_system(messages)
        if not self.caps.supports_system_role:
            merge_system(messages)
        if self.caps.supports_object_arguments:
            parse_arguments(messages)
        return messages, last, part

    def _draft(self, job: _Job, generates: bool) -> Draft:
        """The rendered prompt and what ``add_generation_prompt`` adds to it."""
        prompt = self._text(job, generates)
        if self.format and self.format.opening is not None:
            return Draft(prompt, self.format.opening, generates)
        if self._renders_once and "add_generation_prompt" not in job.extra:
            return Draft(prompt, b"", generates)
        without, with_ = self._text(job, False) if generates else prompt, prompt if generates else self._text(job, True)
        return Draft(prompt, with_[common_prefix(without, with_) :], generates)

    def _text(self, job: _Job, add_generation_prompt: bool) -> bytes:
        """One run of the program."""
        variables = {
            "messages": job.messages,
            "enable_thinking": job.enable_thinking,
            **({"tools": job.tools} if job.tools else {}),
        }
        own: dict[bytes, Any] = {b"bos_token": job.ends.bos, b"eos_token": job.ends.eos}
        own |= from_python(variables | job.extra)
        if add_generation_prompt:
            own[b"add_generation_prompt"] = True
        implied: dict[bytes, Any] = {}
        if isinstance(own.get(b"preserve_reasoning"), bool):
            implied |= preserve_reasoning(own[b"preserve_reasoning"])
        if isinstance(own.get(b"reasoning_effort"), bytes):
            implied |= reasoning_effort(own[b"reasoning_effort"])
        return job.ends.trimmed(self.program.run(implied | own, job.now))

    def _continued(self, opening: bytes, last: Message, to_content: bool) -> bytes:
        """The continued message behind a generation prompt: reasoning between the template's marks, then the content."""
        marks = self.style.reasoning
        if marks.start:
            before, _, _ = opening.partition(marks.start)
            opening = before + marks.start + last.reasoning_content.encode()
            if to_content:
                opening += marks.end
        return opening + last.text().encode() if to_content else opening

    @cached_property
    def style(self) -> Style:
        """How answers look; found out once."""
        if self.format:
            return named_style(self.format.name, self.source)
        caps = self.caps
        return find_style(self.source, self._try, caps.supports_tool_calls, caps.supports_parallel_tool_calls)

    def _try(self, messages: Messages, tools: Messages | None, generate: bool, thinking: bool) -> bytes | None:
        """One run for an analysis; None when the template refuses."""
        ends = dataclasses.replace(self.ends, add_bos=False, add_eos=False)
        fitted = fit_content(messages, self.caps.supports_string_content, self.caps.supports_typed_content)
        job = _Job(fitted, tools, thinking, {"enable_thinking": thinking}, ends, self.now)
        try:
            return self._text(job, generate)
        except LocatedError:
            return None

    @property
    def stops(self) -> tuple[str, ...]:
        """Texts that end an answer under this template."""
        if self.format:
            return self.format.stops
        return ("</assistant>",) if b"laguna_glm_thinking" in self.source else ()


def _stripped(message: Message) -> Message:
    parts = [(kind, text.strip(_SPACES) if kind == "text" else text) for kind, text in message.parts]
    return dataclasses.replace(
        message,
        content=message.content.strip(_SPACES),
        reasoning_content=message.reasoning_content.strip(_SPACES),
        parts=parts,
    )


def _limit(error: LimitError) -> Refusal:
    return Refusal("template.limit", f"the chat template goes beyond a limit: {error.what}", allowed=error.allowed)
