# SPDX-License-Identifier: MIT OR Apache-2.0
"""llama-server's account of a request's settings: in ``/props`` the defaults, in ``__verbose`` those of one answer.

Source: task_params::to_json, to_json_non_oaicompat (tools/server/server-task.cpp).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bankml.core.serve.llama import shapes
from bankml.core.serve.worker import counted

if TYPE_CHECKING:
    from collections.abc import Collection

    from bankml.core.answers.chat_grammar import ChatGrammar
    from bankml.core.engine import Completion
    from bankml.core.receipts.logprobs import Entry
    from bankml.core.sampling import SamplingParams
    from bankml.core.serve.llama.answer import LlamaAnswer
    from bankml.core.serve.llama.request import AnswerRequest, ChatRequest
    from bankml.core.tokenizer.tokenizer import Tokenizer

_SHORT_LEFT_OUT = (
    "dry_sequence_breakers",
    "stop",
    "logit_bias",
    "grammar",
    "grammar_lazy",
    "grammar_triggers",
    "preserved_tokens",
)


def settings(
    params: SamplingParams,
    request: AnswerRequest | None = None,
    *,
    stop: list[str] | None = None,
    grammar: str = "",
    chat: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The settings of one answer, or the defaults where there is no request, in llama-server's order."""
    max_tokens = -1 if request is None or request.max_tokens is None else request.max_tokens
    return {
        "seed": params.seed,
        "temperature": params.temperature,
        "dynatemp_range": params.dynatemp_range,
        "dynatemp_exponent": params.dynatemp_exponent,
        "top_k": params.top_k,
        "top_p": params.top_p,
        "min_p": params.min_p,
        "top_n_sigma": params.top_n_sigma,
        "xtc_probability": params.xtc_probability,
        "xtc_threshold": params.xtc_threshold,
        "typical_p": params.typical_p,
        "repeat_last_n": params.repeat_last_n,
        "repeat_penalty": params.repeat_penalty,
        "presence_penalty": params.presence_penalty,
        "frequency_penalty": params.frequency_penalty,
        "dry_multiplier": params.dry_multiplier,
        "dry_base": params.dry_base,
        "dry_allowed_length": params.dry_allowed_length,
        "dry_penalty_last_n": params.dry_penalty_last_n,
        "dry_sequence_breakers": list(params.dry_sequence_breakers),
        "mirostat": params.mirostat,
        "mirostat_tau": params.mirostat_tau,
        "mirostat_eta": params.mirostat_eta,
        "adaptive_target": params.adaptive_target,
        "adaptive_decay": params.adaptive_decay,
        "stop": stop or [],
        "max_tokens": max_tokens,
        "n_predict": max_tokens,
        "n_keep": request.n_keep if request else 0,
        "n_discard": request.n_discard if request else 0,
        "ignore_eos": params.ignore_eos,
        "stream": bool(request and request.stream),
        "logit_bias": [{"bias": bias, "token": token} for token, bias in params.logit_bias],
        "n_probs": request.n_probs if request else 0,
        "min_keep": params.min_keep,
        "grammar": grammar,
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
        **(
            chat
            or {"chat_format": "Content-only", "reasoning_format": "none", "reasoning_in_content": False, "generation_prompt": ""}
        ),
        "samplers": list(params.samplers),
        "speculative.types": "none",
        "timings_per_token": bool(request and request.timings_per_token),
        "post_sampling_probs": bool(request and request.post_sampling_probs),
        "backend_sampling": False,
        "lora": [],
    }


def short_settings(params: SamplingParams) -> dict[str, Any]:
    """The defaults as ``/props`` tells them: the lists left out."""
    return {name: value for name, value in settings(params).items() if name not in _SHORT_LEFT_OUT}


def chat_settings(chat: ChatGrammar, request: ChatRequest, preserved: Collection[int], tokenizer: Tokenizer) -> dict[str, Any]:
    """What the settings of a chat answer say of its template."""
    reasoning_format = request.conversation.reasoning_format
    return {
        "grammar_triggers": [_trigger(kind, text, tokenizer) for kind, text in chat.triggers],
        "preserved_tokens": sorted(preserved),
        "chat_format": chat.format,
        "reasoning_format": reasoning_format,
        "reasoning_in_content": request.stream and reasoning_format == "deepseek-legacy",
        "generation_prompt": chat.prefill.decode("utf-8", "replace"),
    }


def _trigger(kind: int, text: str, tokenizer: Tokenizer) -> dict[str, Any]:
    """A word that is one token is shown as that token."""
    tokens = tokenizer.encode(text, add_special=False) if kind == 1 else []
    return {"type": 0, "value": text, "token": tokens[0]} if len(tokens) == 1 else {"type": kind, "value": text}


def verbose(answer: LlamaAnswer[Any], completion: Completion, probabilities: list[Entry], chat: dict[str, Any]) -> dict[str, Any]:
    """An answer in the shape of llama-server's own completion endpoint, or those of its members that the request names.

    Args:
        probabilities: the probabilities of a whole answer.
        chat: what its settings say of a template.
    """
    prepared = answer.prepared
    request = prepared.request
    body = {
        "index": answer.index,
        "content": "" if request.stream else completion.raw_text,
        "tokens": completion.tokens if request.return_tokens and not request.stream else [],
        "id_slot": 0,
        "stop": True,
        "model": answer.model,
        "tokens_predicted": completion.completion_tokens,
        "tokens_evaluated": completion.prompt_tokens,
        "generation_settings": settings(
            replace(prepared.params, seed=prepared.seed),
            request,
            stop=prepared.stop,
            grammar=prepared.grammar,
            chat=chat,
        ),
        "prompt": prepared.engine.tokenizer.join(prepared.tokens).decode("utf-8", "replace"),
        "has_new_line": answer.has_new_line,
        "truncated": completion.truncated,
        "stop_type": completion.stop_type,
        "stopping_word": completion.stop_word or "",
        "tokens_cached": completion.held_tokens,
        "timings": shapes.timings(counted(completion)),
        **({"completion_probabilities": probabilities} if probabilities else {}),
    }
    return picked(body, request.response_fields) if request.response_fields else body


def picked(body: dict[str, Any], paths: list[str]) -> dict[str, Any]:
    """The members at the paths, each under its path; ``a/b`` is member ``b`` of member ``a``.

    Source: json_get_nested_values, tools/server/server-common.cpp.
    """
    found = {}
    for path in paths:
        value: Any = body
        for name in path.split("/"):
            if not isinstance(value, dict) or name not in value:
                break
            value = value[name]
        else:
            found[path] = value
    return found
