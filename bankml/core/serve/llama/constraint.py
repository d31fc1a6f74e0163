# SPDX-License-Identifier: MIT OR Apache-2.0
"""What binds a chat's answer: a user's grammar, or the grammar of a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bankml.core.serve.llama.fields import unsupported
from bankml.core.serve.llama.schema_field import JSON_SCHEMA, RESPONSE_FORMAT, grammar_of_schema

if TYPE_CHECKING:
    from bankml.core.answers.chat_grammar import ChatGrammar
    from bankml.core.serve.llama.request import ChatRequest


@dataclass(frozen=True)
class Constraint:
    """What binds an answer.

    Attributes:
        grammar: GBNF, empty for none.
        prefill: the end of the prompt, over which it goes before the answer.
    """

    grammar: str = ""
    prefill: bytes = b""


def constraint(request: ChatRequest, chat: ChatGrammar) -> Constraint:
    """What binds the answer of a request whose prompt was made.

    Raises:
        Refusal: 501 where llama-server would read a schema and not apply it; else the schema's own.
    """
    if chat.text is not None:
        return Constraint(chat.text, chat.prefill)
    if not request.schema_from:
        return Constraint(request.grammar)
    schema = request.conversation.json_schema
    if request.schema_from == RESPONSE_FORMAT:
        raise unsupported(RESPONSE_FORMAT, schema, "absent on this template, where b11192 binds no answer by it")
    if request.names_grammar:
        raise unsupported("grammar", request.grammar, f"absent beside {JSON_SCHEMA!r} on this template")
    return Constraint(grammar_of_schema(schema), chat.prefill)
