# SPDX-License-Identifier: MIT OR Apache-2.0
"""The request fields that hold the schema for the answer: ``response_format`` and ``json_schema``.

llama-server passes over some of what a request may name here. bankml never answers under a constraint that it did not apply:
what llama-server would pass over is refused.

Source: oaicompat_chat_params_parse (tools/server/server-common.cpp), make_llama_cmpl_schema (tools/server/server-schema.cpp).
"""

from __future__ import annotations

from typing import Any, Final

from bankml.core.json.faults import type_error
from bankml.core.serve.llama.fields import ignored_by_llama, malformed, unsupported
from bankml.refusal import Refusal

RESPONSE_FORMAT: Final = "response_format"
JSON_SCHEMA: Final = "json_schema"
_MEMBERS: Final = {"text": {"type"}, "json_object": {"type", "schema"}, "json_schema": {"type", "json_schema"}}
_WRAPPER: Final = {"name", "description", "schema", "strict"}


def read_schema_from(body: dict[str, Any]) -> str:
    """The request field that holds the schema for the answer, empty where none does.

    Raises:
        Refusal: 501 for two constraints of which llama-server would apply one; 400 for what it would pass over.
    """
    kind = _format(body.get(RESPONSE_FORMAT))
    schema = body.get(JSON_SCHEMA)
    if kind not in _MEMBERS or kind == "text":
        return JSON_SCHEMA if schema is not None else ""
    if body.get("grammar"):
        raise unsupported("grammar", body["grammar"], f"absent beside {RESPONSE_FORMAT!r}")
    own = kind == "json_schema" or "schema" in body[RESPONSE_FORMAT]
    if own and schema is not None:
        raise unsupported(JSON_SCHEMA, schema, f"absent beside a schema in {RESPONSE_FORMAT!r}")
    return RESPONSE_FORMAT if own or schema is None else JSON_SCHEMA


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
    return ignored_by_llama(RESPONSE_FORMAT, message, found, allowed)


def grammar_of_schema(schema: Any) -> str:
    """The GBNF of ``json_schema`` where no template's parser takes it up.

    Raises:
        Refusal: the schema has no grammar; in llama-server's words, 400.
    """
    from bankml.core.constrain.schema import grammar_of
    from bankml.core.json import ordered

    try:
        made = grammar_of({"type": "object"} if schema == {} else ordered.rewritten(schema))
    except Refusal as refusal:
        if refusal.code != "schema.unsupported":
            raise
        raise malformed(JSON_SCHEMA, f'"{JSON_SCHEMA}": {refusal.message}', schema, "a schema") from None
    return made.text.decode("utf-8", "surrogateescape")
