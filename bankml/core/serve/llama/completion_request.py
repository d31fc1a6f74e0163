# SPDX-License-Identifier: MIT OR Apache-2.0
"""A request to continue a text, read in llama-server's order and with its messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from bankml.core.json.faults import type_name
from bankml.core.serve.answer import Prepared
from bankml.core.serve.llama.fields import COMPLETION, check_names, ignored_by_llama, unsupported
from bankml.core.serve.llama.request import AnswerRequest, boolean, probs, read_grammar, read_shared
from bankml.core.serve.llama.schema_field import grammar_of_schema
from bankml.refusal import Refusal


@dataclass(frozen=True)
class CompletionRequest(AnswerRequest):
    """A request for the continuation of one text or of several.

    Attributes:
        prompt: as sent.
        json_schema: the schema that the answers must follow, as sent; None for none.
    """

    prompt: Any
    json_schema: Any

    def without_prompt(self) -> Self:
        """The request without what is needed no more once its prompts are tokens and its schema is a grammar."""
        return replace(self, prompt=None, json_schema=None)


def read_completion(body: Any) -> CompletionRequest:
    """The request in ``body``.

    Raises:
        Refusal: with llama-server's status and message where it refuses too; else 400 or 501 naming the member.

    Source: handle_completions_impl (tools/server/server-context.cpp), make_llama_cmpl_schema (tools/server/server-schema.cpp).
    """
    if not isinstance(body, dict):
        raise _no_prompt(f"[json.exception.type_error.304] cannot use at() with {type_name(body)}")
    if "prompt" not in body:
        raise _no_prompt("[json.exception.out_of_range.403] key 'prompt' not found")
    check_names(body, COMPLETION)
    shared = read_shared(body)
    if boolean(body, "echo", False):
        raise unsupported("echo", True, "false")
    return CompletionRequest(
        **shared,
        n_probs=probs(body, ("n_probs", "logprobs"), 0),
        grammar=read_grammar(body),
        prompt=body["prompt"],
        json_schema=_json_schema(body),
    )


def grammar_of_request(request: CompletionRequest) -> str:
    """The GBNF that binds the answers: the request's own, or that of its schema; empty for none.

    Raises:
        Refusal: the schema has no grammar; in llama-server's words, 400.
    """
    if request.json_schema is None:
        return request.grammar
    return grammar_of_schema(request.json_schema)


def _json_schema(body: dict[str, Any]) -> Any:
    schema = body.get("json_schema")
    if schema is not None and "grammar" in body:
        # Where the name is there, with any value, llama-server passes over the schema.
        raise ignored_by_llama("json_schema", 'Cannot use both "json_schema" and "grammar"', schema, 'absent beside "grammar"')
    return schema


def _no_prompt(message: str) -> Refusal:
    return Refusal("http.prompt", message, where="/prompt")


@dataclass(kw_only=True)
class PreparedText(Prepared):
    """A text to continue, made ready for the engine."""

    request: CompletionRequest
