# SPDX-License-Identifier: MIT OR Apache-2.0
"""What binds a chat's answer: a user's grammar, or a schema that the request names in one of two members.

llama-server passes over some of what a request may name here. bankml never answers under a constraint that it did not apply:
what llama-server would pass over is refused.

Source: oaicompat_chat_params_parse (tools/server/server-common.cpp), make_llama_cmpl_schema (tools/server/server-schema.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bankml.core.json.faults import type_error
from bankml.core.refusal import Refusal
from bankml.core.serve.fields import ignored_by_llama, malformed, unsupported

if TYPE_CHECKING:
    from bankml.core.constrain.chat_grammar import ChatGrammar
    from bankml.core.serve.request import ChatRequest

_FORMAT: Final = "response_format"
_SCHEMA: Final = "json_schema"
_MEMBERS: Final = {"text": {"type"}, "json_object": {"type", "schema"}, "json_schema": {"type", "json_schema"}}
_WRAPPER: Final = {"name", "description", "schema", "strict"}


@dataclass(frozen=True)
class Constraint:
    """What binds an answer.

    Attributes:
        grammar: GBNF, empty for none.
        prefill: the end of the prompt, over which it goes before the answer.
    """

    grammar: str = ""
    prefill: bytes = b""


def read_schema_from(body: dict[str, Any]) -> str:
    """The member in which the schema stands that binds the answer, empty where no schema does.

    Raises:
        Refusal: 501 for two constraints of which llama-server would apply one; 400 for what it would pass over.
    """
    kind = _format(body.get(_FORMAT))
    schema = body.get(_SCHEMA)
    if kind not in _MEMBERS or kind == "text":
        return _SCHEMA if schema is not None else ""
    if body.get("grammar"):
        raise unsupported("grammar", body["grammar"], f"absent beside {_FORMAT!r}")
    own = kind == "json_schema" or "schema" in body[_FORMAT]
    if own and schema is not None:
        raise unsupported(_SCHEMA, schema, f"absent beside a schema in {_FORMAT!r}")
    return _FORMAT if own or schema is None else _SCHEMA


def _format(asked: Any) -> str:
    """The type of ``response_format``, all of whose members mean something."""
    if asked is None:
        return ""
    if not isinstance(asked, dict):
        raise _passed_over(type_error("object", asked), asked, "an object")
    kind = asked.get("type")
    members = _MEMBERS.get(kind) if isinstance(kind, str) else None
    if members is None:
        raise _passed_over("it has no type", asked, '{"type": "text"}, or "json_object" or "json_schema" as the type')
    _only(asked, members)
    wrapper = asked.get("json_schema")
    if wrapper is not None and not isinstance(wrapper, dict):
        raise _passed_over(type_error("object", wrapper), wrapper, "an object")
    _only(wrapper or {}, _WRAPPER)
    schema = (wrapper or {} if kind == "json_schema" else asked).get("schema")
    if schema is not None and not isinstance(schema, dict):
        raise _passed_over("the schema is no object, and would bind nothing", schema, "an object")
    return str(kind)


def _only(value: dict[str, Any], members: set[str]) -> None:
    for name, member in value.items():
        if name not in members:
            raise _passed_over(f"{name!r} means nothing there", member, ", ".join(sorted(members)))


def _passed_over(message: str, found: Any, allowed: str) -> Refusal:
    return ignored_by_llama(_FORMAT, message, found, allowed)


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
    if request.schema_from == _FORMAT:
        raise unsupported(_FORMAT, schema, "absent on this template, where b11192 binds no answer by it")
    if request.names_grammar:
        raise unsupported("grammar", request.grammar, f"absent beside {_SCHEMA!r} on this template")
    return Constraint(grammar_of_schema(schema), chat.prefill)


def grammar_of_schema(schema: Any) -> str:
    """The GBNF of ``json_schema`` where no template's parser takes it up.

    Raises:
        Refusal: the schema has no grammar; in llama-server's words, 400.
    """
    from bankml.core.constrain import json_text
    from bankml.core.constrain.schema import grammar_of

    try:
        made = grammar_of({"type": "object"} if schema == {} else json_text.rewritten(schema))
    except Refusal as refusal:
        if refusal.code != "schema.unsupported":
            raise
        raise malformed(_SCHEMA, f'"{_SCHEMA}": {refusal.message}', schema, "a schema") from None
    return made.text.decode("utf-8", "surrogateescape")
