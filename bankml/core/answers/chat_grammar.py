# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a schema makes of a chat: the grammar on the model's own template, what it has read before the answer, and the parser.

Source: common_chat_templates_apply (common/chat.cpp), peg_generator::generate_parser (common/chat-auto-parser-generator.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bankml.core.answers.chat_formats import Reading, binds, build, format_name, triggers
from bankml.core.answers.peg_grammar import grammar_of_parser
from bankml.core.chat.template_request import read_request
from bankml.core.constrain.schema_nodes import PREFIX, Document, read_document
from bankml.core.json import ordered
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.core.answers.peg_nodes import Parser
    from bankml.core.chat.template import ChatTemplate, Prompt
    from bankml.core.chat.template_request import ChatRequest

_NO_PARSER = "Unable to generate parser for this template. Automatic parser generation failed: "


@dataclass(frozen=True)
class ChatGrammar:
    """How an answer is bound and read.

    Attributes:
        text: the grammar, GBNF; None where no schema binds the answer.
        prefill: the generation prompt, whose tokens the grammar goes over before the answer's first one.
        parser: what tells the answer's content and reasoning apart.
        format: the reference's name of the way in which the parser's findings are read.
        preserved: texts that stay in the answer where they are control tokens.
        triggers: what the reference names with the grammar, type and text.
        warnings: what of the schema the grammar does not hold to.
    """

    text: str | None
    prefill: bytes
    parser: Parser
    format: str
    preserved: tuple[bytes, ...]
    triggers: tuple[tuple[int, str], ...] = ()
    warnings: list[str] = field(default_factory=list)


def chat_grammar(
    template: ChatTemplate,
    schema: str | bytes | None,
    messages: list[dict[str, Any]] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> ChatGrammar:
    """The grammar that llama-server puts on a chat with ``response_format``, for a schema's JSON text or, with None, JSON mode.

    Args:
        template: the model's.
        schema: JSON text of an object.
        messages: the chat, of which the generation prompt may depend; one user message if None.
        kwargs: variables for the template, as ``chat_template_kwargs``.

    Raises:
        Refusal: ``schema.*``, or as the template does; ``schema.template`` where b11192 binds no answer on this template.
    """
    value = {} if schema is None else ordered.read(schema.encode("utf-8", "surrogatepass") if isinstance(schema, str) else schema)
    if not isinstance(value, dict):
        raise Refusal("schema.object", "the schema of a chat is an object", found=ordered.dump(value)[:60], allowed="an object")
    body: dict[str, Any] = {"messages": messages or [{"role": "user", "content": "Hello"}], "json_schema": value}
    if kwargs:
        body["chat_template_kwargs"] = dict(kwargs)
    request = read_request(body)
    prompt = template.prompt(request)
    if not binds(prompt.style):
        raise Refusal(
            "schema.template",
            f"llama.cpp b11192 binds no answer by a schema on {prompt.style.name} templates",
            hint="a grammar can bind it",
        )
    return grammar_on(prompt, request, template)


def grammar_on(prompt: Prompt, request: ChatRequest, template: ChatTemplate) -> ChatGrammar:
    """The grammar and the parser of a request whose prompt was made.

    A schema that is no object binds nothing here, nor does one on a template where :func:`chat_formats.binds` is false.

    Raises:
        Refusal: ``schema.*``, with the status and the words of llama-server's chat endpoint.
    """
    try:
        return _made(prompt, request, template)
    except Refusal as refusal:
        raise _of_chat(refusal, prompt) from None


def _made(prompt: Prompt, request: ChatRequest, template: ChatTemplate) -> ChatGrammar:
    document: Document | None = None
    bound = isinstance(request.json_schema, dict) and binds(prompt.style)
    if bound:
        # What the reference hands on is the schema written out again.
        document = read_document(ordered.rewritten(request.json_schema))
    parallel = request.parallel_tool_calls
    parser = build(
        Reading(
            style=prompt.style,
            opening=prompt.opening.decode("utf-8", "surrogateescape"),
            generation_prompt=prompt.generation_prompt.decode("utf-8", "surrogateescape"),
            continues=prompt.continues,
            schema=document,
            extracts=request.reasoning_format != "none",
            thinks=request.enable_thinking,
            parallel=template.caps["supports_parallel_tool_calls"] if parallel is None else parallel,
        )
    )
    style = prompt.style
    unbound = ChatGrammar(None, prompt.generation_prompt, parser, format_name(style), style.preserved)
    if not bound:
        return unbound
    grammar = grammar_of_parser(parser)
    text = grammar.text.decode("utf-8", "surrogateescape")
    return replace(unbound, text=text, triggers=triggers(style), warnings=grammar.warnings)


def _of_chat(refusal: Refusal, prompt: Prompt) -> Refusal:
    """The refusal of a schema as the chat endpoint words it.

    A schema's own fault is reported there without the converter's first line. It is a bad request where the error
    passes through the template's own parser, or where the converter finds it; else an error of the server.
    """
    if refusal.code != "schema.unsupported":
        return refusal
    message = refusal.message
    converted = message.startswith(f"{PREFIX}Invalid pattern")
    if not converted:
        message = message.removeprefix(PREFIX)
    named = bool(prompt.style.name)
    bad = converted or not named
    return Refusal(
        refusal.code,
        message if named else _NO_PARSER + message,
        where=refusal.where,
        status=400 if bad else 500,
        kind="invalid_request_error" if bad else "server_error",
    )
