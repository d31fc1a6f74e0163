# SPDX-License-Identifier: MIT OR Apache-2.0
"""A chat made ready for an engine: its prompt's tokens, what ends its answer, how the answer is bound and read."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bankml.core.answers.chat_grammar import ChatGrammar
    from bankml.core.answers.content import Content
    from bankml.core.chat.template import Prompt
    from bankml.core.chat.template_request import ChatRequest
    from bankml.core.engine.completion import Completion
    from bankml.core.engine.engine import Engine


@dataclass(frozen=True)
class Chat:
    """A conversation on a model's own template.

    Attributes:
        tokens: the prompt.
        stops: texts that end the answer, the template's own.
        reading: how the answer is bound and read.
        preserved: control tokens whose text is part of the answer.
    """

    tokens: array[int]
    stops: tuple[str, ...]
    reading: ChatGrammar
    preserved: frozenset[int]


@dataclass(frozen=True)
class Rendered:
    """A conversation whose prompt is a text yet.

    Attributes:
        prompt: what the template made of it.
        reading: how the answer is bound and read.
    """

    prompt: Prompt
    reading: ChatGrammar


def rendered(engine: Engine, conversation: ChatRequest) -> Rendered:
    """Render a conversation, and find out how its answer will look.

    Raises:
        Refusal: the template's, or the schema's.
    """
    from bankml.core.answers.chat_grammar import grammar_on

    prompt = engine.template.prompt(conversation)
    return Rendered(prompt, grammar_on(prompt, conversation, engine.template))


def ready(engine: Engine, made: Rendered) -> Chat:
    """Tokenize a rendered prompt; the conversation is needed no more."""
    encode = engine.tokenizer.encode
    cut = [encode(text, add_special=False, parse_special=True) for text in made.reading.preserved]
    return Chat(
        tokens=engine.tokenizer.encode_compactly(made.prompt.raw, add_special=True, parse_special=True),
        stops=made.prompt.stops,
        reading=made.reading,
        preserved=frozenset(tokens[0] for tokens in cut if len(tokens) == 1),
    )


def parse_finished(content: Content, completion: Completion) -> tuple[str, str]:
    """Content and reasoning of a finished answer; all of its text where neither is there."""
    content.push(completion.raw_bytes, last=True)
    text, reasoning = content.said.content.decode("utf-8", "replace"), content.said.reasoning.decode("utf-8", "replace")
    return (text, reasoning) if text or reasoning else (completion.raw_text, "")
