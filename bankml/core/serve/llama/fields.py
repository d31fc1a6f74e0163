# SPDX-License-Identifier: MIT OR Apache-2.0
"""The names that a request for an answer may carry: what is honoured, what changes nothing, what is refused by name.

llama-server ignores a name that it does not know. bankml does not: a reply of 200 means that all of the request was honoured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bankml.core.json.faults import type_error
from bankml.core.json.numbers import INT32_MAX, INT64_MAX, in_limits, to_bool, to_int32, to_int64
from bankml.core.json.writer import short
from bankml.refusal import Refusal

_MAX_NAME: Final = 100

_EVERYWHERE = frozenset(
    {
        "model",
        "stream",
        "stream_options",
        "n_predict",
        "n_keep",
        "n_discard",
        "max_completion_tokens",
        "max_tokens",
        "n_cmpl",
        "n",
        "stop",
        "cache_prompt",
        "timings_per_token",
        "return_tokens",
        "verbose",
        "sse_ping_interval",
        "logprobs",
        "n_probs",
        "post_sampling_probs",
        "grammar",
        "json_schema",
        "response_fields",
    }
)
"""Read by every endpoint that answers."""

CHAT = _EVERYWHERE | frozenset(
    {
        "messages",
        "add_generation_prompt",
        "continue_final_message",
        "echo",
        "chat_template_kwargs",
        "reasoning_effort",
        "reasoning_format",
        "top_logprobs",
        "response_format",
    }
)
"""Read by the chat endpoint."""

COMPLETION = _EVERYWHERE | frozenset({"prompt", "echo"})
"""Read by the endpoints that continue a text."""

SAMPLING = frozenset(
    {
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "top_n_sigma",
        "typical_p",
        "xtc_probability",
        "xtc_threshold",
        "dynatemp_range",
        "dynatemp_exponent",
        "repeat_last_n",
        "repeat_penalty",
        "frequency_penalty",
        "presence_penalty",
        "dry_multiplier",
        "dry_base",
        "dry_allowed_length",
        "dry_penalty_last_n",
        "dry_sequence_breakers",
        "mirostat",
        "mirostat_tau",
        "mirostat_eta",
        "adaptive_target",
        "adaptive_decay",
        "seed",
        "min_keep",
        "samplers",
        "logit_bias",
        "ignore_eos",
    }
)
"""Read by the sampler, which refuses what it does not reproduce."""

NEUTRAL = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prediction",
        "id_slot",
        "parallel_tool_calls",
    }
)
"""Accepted whatever they hold: with one slot, no tools and no context shift, none of them can change an answer here."""


def _empty(value: Any) -> bool:
    return value in ("", [], {}) or value is False


def _off(value: int) -> bool:
    return value <= 0


def _unlimited(value: Any) -> bool:
    return value == -1 and not isinstance(value, bool)


# name -> (the values that ask for nothing, what such values are called)
_ONLY_OFF: dict[str, tuple[Callable[[Any], bool], str]] = {
    "tools": (_empty, "absent or empty"),
    "tool_choice": (lambda value: value in ("auto", "none"), '"auto" or "none"'),
    "functions": (_empty, "absent or empty"),
    "function_call": (lambda value: value in ("none", "auto"), '"none" or "auto"'),
    "grammar_lazy": (_empty, "false"),
    "grammar_triggers": (_empty, "absent or empty"),
    "preserved_tokens": (_empty, "absent or empty"),
    "lora": (lambda value: value == [], "absent or empty"),
    "parse_tool_calls": (lambda value: isinstance(value, bool), "true or false"),
    "backend_sampling": (_empty, "false"),
    "return_progress": (_empty, "false"),
    "n_indent": (_off, "0"),
    "n_cache_reuse": (_off, "0"),
    "t_max_predict_ms": (_off, "0 or less"),
    "reasoning_control": (_empty, "false"),
    "reasoning_budget_tokens": (_unlimited, "-1"),
    "thinking_budget_tokens": (_unlimited, "-1"),
    "reasoning_budget_message": (_empty, "absent or empty"),
    "modalities": (lambda value: value == ["text"], '["text"]'),
    "audio": (lambda value: False, "absent or null"),
    "suffix": (_empty, "absent or empty"),
    "best_of": (lambda value: value == 1 and not isinstance(value, bool), "1"),
    "web_search_options": (lambda value: False, "absent or null"),
}


def integer(low: int, high: int = INT32_MAX) -> Callable[[str, Any], int]:
    """A reader of a number cut to 32 bits, within limits."""
    return lambda name, value: in_limits(name, to_int32(name, value), low, high)


# Members that llama-server reads with a type, and how; what it makes of the value is then looked at here.
_TYPED: dict[str, Callable[[str, Any], Any]] = {
    "parse_tool_calls": to_bool,
    "post_sampling_probs": to_bool,
    "backend_sampling": to_bool,
    "return_progress": to_bool,
    "reasoning_control": to_bool,
    "n_indent": integer(0),
    "n_cache_reuse": integer(0),
    "reasoning_budget_tokens": integer(-1),
    "t_max_predict_ms": lambda name, value: in_limits(name, to_int64(name, value), -1, INT64_MAX),
}


def pointer(name: str) -> str:
    """The JSON pointer of a top-level member (RFC 6901), cut where its name is long."""
    cut = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
    return "/" + cut.replace("~", "~0").replace("/", "~1")


def unsupported(name: str, found: Any, allowed: str) -> Refusal:
    """The refusal of a feature of llama-server that bankml does not have: status 501."""
    return Refusal(
        "http.unsupported",
        f"bankml does not support {name!r} (at {pointer(name)}): it must be {allowed}",
        where=pointer(name),
        found=short(found),
        allowed=allowed,
        status=501,
        kind="not_supported_error",
        extra={"param": pointer(name)},
    )


def malformed(name: str, message: str, found: Any, allowed: str) -> Refusal:
    """llama-server's refusal of a value: status 400."""
    return Refusal("http.field", f"Field '{name}': {message}", where=pointer(name), found=short(found), allowed=allowed)


def ignored_by_llama(name: str, message: str, found: Any, allowed: str) -> Refusal:
    """The refusal of a value that means nothing and that llama-server passes over: status 400, with a pointer to it."""
    refusal = malformed(name, message, found, allowed)
    refusal.extra = {"param": pointer(name)}
    return refusal


def too_many(name: str, found: int, most: int) -> Refusal:
    """The refusal of a list that is longer than bankml takes it; llama-server has no such limit."""
    return Refusal(
        "http.limit",
        f"{name!r} has {found} elements, above bankml's limit of {most}",
        where=pointer(name),
        found=str(found),
        allowed=f"at most {most}",
        extra={"param": pointer(name)},
    )


def too_long(name: str, most: int) -> Refusal:
    """The refusal of a text that is longer than bankml takes it; llama-server has no such limit."""
    return Refusal(
        "http.limit",
        f"{name!r} is longer than bankml's limit of {most} characters",
        where=pointer(name),
        allowed=f"at most {most} characters",
        extra={"param": pointer(name)},
    )


def known_names(shape: frozenset[str]) -> frozenset[str]:
    """Every member that a request may carry."""
    return shape | SAMPLING | NEUTRAL | frozenset(_ONLY_OFF)


def check_names(body: dict[str, Any], shape: frozenset[str]) -> None:
    """Every member of the request is known, and none asks for what bankml does not do; null counts as absent.

    Args:
        shape: the members that the endpoint reads itself.

    Raises:
        Refusal: 501 for a feature of llama-server that bankml does not have, 400 for a name that it does not know.
    """
    for name, value in body.items():
        if value is None:
            continue
        meant = _TYPED[name](name, value) if name in _TYPED else value
        if name in shape or name in SAMPLING:
            _check_type(name, value)
        elif name in NEUTRAL:
            continue
        elif name == "lora" and not isinstance(value, list):
            raise malformed(name, "Error: 'lora' must be an array of objects with 'id' and 'scale' fields", value, "an array")
        elif name in _ONLY_OFF:
            asks_nothing, allowed = _ONLY_OFF[name]
            if not asks_nothing(meant):
                raise unsupported(name, value, allowed)
        else:
            raise Refusal(
                "http.field-unknown",
                f"bankml does not know the field {short(name)} (at {pointer(name)}) and answers only requests it honours in full",
                where=pointer(name),
                found=short(value),
                extra={"param": pointer(name)},
            )


# Members that llama-server passes over, or reads as their default, when they are of another type.
_WANTED: dict[str, tuple[type | tuple[type, ...], str]] = {
    "chat_template_kwargs": (dict, "object"),
    "stream_options": (dict, "object"),
    "reasoning_effort": (str, "string"),
    "add_generation_prompt": (bool, "boolean"),
    "logit_bias": ((dict, list), "object"),
    "samplers": ((str, list), "array"),
}


def _check_type(name: str, value: Any) -> None:
    if name in _WANTED:
        kinds, word = _WANTED[name]
        if not isinstance(value, kinds):
            raise ignored_by_llama(name, type_error(word, value), value, f"of type {word}")
    if name == "continue_final_message" and not isinstance(value, bool) and value not in ("content", "reasoning_content"):
        raise ignored_by_llama(name, "means nothing", value, 'true, false, "content" or "reasoning_content"')
