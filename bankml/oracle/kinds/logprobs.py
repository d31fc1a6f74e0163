# SPDX-License-Identifier: MIT OR Apache-2.0
"""Logprobs of chat answers, whole and streamed: ids, texts, bytes and 32-bit floats against llama-server's.

An answer is compared like the server's, and besides each number of its entries by the 32 bits of the float that it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.ask.answers import cache_arguments
from bankml.oracle.ask.exchanges import ask_reference, compare_exchanges
from bankml.oracle.kind import Tally
from bankml.oracle.kinds.serve import CTX, LLAMA_THREADS
from bankml.oracle.options import POSITIVE, Option, Options, choice, declared
from bankml.refusal import Refusal

if TYPE_CHECKING:
    from bankml.reference.build import Reference

CHAT = "/v1/chat/completions"
_HI = [{"role": "user", "content": "Hi"}]
_STORY = [{"role": "user", "content": "Tell me a short story about a clock that runs backwards."}]
_PIZZA = [{"role": "user", "content": "Repeat exactly: 🍕 naïve 日本語 👩‍👩‍👧 Ω"}]
_OPEN = [{"role": "user", "content": "Count to five."}, {"role": "assistant", "content": "One, two,"}]


def requests() -> list[dict[str, Any]]:
    """Bodies of chat requests, in this order: the slot's cache makes each answer depend on those before it."""
    return [*_usual(), *_stops(), *_characters(), *_after_sampling(), *_grammars(), *_fields(), *_refused()]


def _both(messages: list[dict[str, str]], *members: dict[str, Any]) -> list[dict[str, Any]]:
    base = {"messages": messages, "temperature": 0, "max_tokens": 8, "logprobs": True}
    return [{**base, **each, **stream} for each in members for stream in ({}, {"stream": True})]


def _usual() -> list[dict[str, Any]]:
    return [
        *_both(_HI, {}, *({"top_logprobs": n} for n in (0, 1, 2, 5, 20)), {"top_logprobs": None}),
        *_both(_HI, *({"top_logprobs": n, "max_tokens": 2} for n in (64, 129, 256))),
        *_both(_STORY, {"top_logprobs": 3, "max_tokens": 40}, *({"max_tokens": n, "top_logprobs": 2} for n in (0, 1))),
        *_both(_HI, {"max_tokens": 60, "top_logprobs": 1}),
        *(
            request
            for seed in (1, 2, 42)
            for request in _both(_STORY, {"temperature": 1.1, "seed": seed, "top_logprobs": 4, "max_tokens": 24})
        ),
        *_both(_STORY, {"temperature": 0.9, "seed": 5, "repeat_penalty": 1.3, "logit_bias": {"28": -5}, "top_logprobs": 2}),
        *_both(_STORY, {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 9, "top_logprobs": 1}),
        *_both(_OPEN, {"top_logprobs": 1}, {"top_logprobs": 1, "continue_final_message": True, "add_generation_prompt": False}),
        *_both(_HI, {"top_logprobs": 1, "verbose": True, "return_tokens": True, "max_tokens": 4}),
        *_both(_HI, {"top_logprobs": 1, "max_tokens": 4, "stream_options": {"include_usage": True}, "timings_per_token": True}),
    ]


def _stops() -> list[dict[str, Any]]:
    stops: tuple[Any, ...] = (["How"], ["How can"], ["can I help", "zzz"], "Hello", ["o"], ["How you"], ["!"], [" "], ["ssist"])
    return [
        *_both(_HI, *({"stop": stop, "top_logprobs": 1, "max_tokens": 12} for stop in stops)),
        *_both(_STORY, {"stop": ["clock", "\n"], "top_logprobs": 2, "max_tokens": 40, "temperature": 1.0, "seed": 3}),
    ]


def _characters() -> list[dict[str, Any]]:
    # Tokens that are part of a character, made likely: the answer is cut, or goes on, in the middle of one.
    parts = {"10813": 40, "231": 30, "239": 30, "177": 20}
    return [
        *_both(_PIZZA, *({"max_tokens": n, "top_logprobs": 5} for n in (3, 5, 24))),
        *_both(
            _PIZZA, *({"max_tokens": n, "top_logprobs": 3, "temperature": 1.5, "seed": n, "logit_bias": parts} for n in (1, 2, 9))
        ),
        *_both(
            _PIZZA, {"max_tokens": 12, "top_logprobs": 2, "temperature": 2, "seed": 4, "stop": ["🍕", "日"], "logit_bias": parts}
        ),
    ]


def _after_sampling() -> list[dict[str, Any]]:
    chains: tuple[dict[str, Any], ...] = (
        {"temperature": 0},
        {"temperature": 0, "top_k": 0},
        {},
        {"top_k": 4, "top_p": 1.0, "min_p": 0.0},
        {"top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"top_k": 0, "top_p": 0.9, "min_p": 0.01},
        {"typical_p": 0.6},
        {"xtc_probability": 1.0, "xtc_threshold": 0.05},
        {"repeat_penalty": 1.2, "dynatemp_range": 0.5},
        {"top_n_sigma": 1.5, "top_k": 0},
        {"mirostat": 1},
        {"mirostat": 2},
        {"samplers": ["top_k", "adaptive_p"], "adaptive_target": 0.4},
        {"samplers": []},
        {"samplers": ["top_k", "min_p", "penalties"], "frequency_penalty": 1.0},
    )
    return _both(
        _STORY, *({"post_sampling_probs": True, "temperature": 0.9, "seed": 8, "top_logprobs": 6, **chain} for chain in chains)
    )


def _grammars() -> list[dict[str, Any]]:
    base = {"temperature": 1.0, "seed": 3, "top_logprobs": 3, "max_tokens": 6}
    grammars = ('root ::= "yes" | "no"', 'root ::= [0-9]+ " 🍕"')
    return _both(
        _STORY, *({**base, "grammar": grammar, "post_sampling_probs": after} for grammar in grammars for after in (False, True))
    )


def _fields() -> list[dict[str, Any]]:
    base = {"messages": _HI, "temperature": 0, "max_tokens": 3}
    fields: tuple[dict[str, Any], ...] = (
        {"n_probs": 2},
        {"n_probs": 0},
        {"n_probs": -1},
        {"n_probs": 1.9},
        {"n_probs": True},
        {"n_probs": 3, "logprobs": 1},
        {"n_probs": None, "logprobs": 2},
        {"n_probs": 2, "logprobs": False},
        {"n_probs": 2, "logprobs": True},
        {"n_probs": 2, "logprobs": True, "top_logprobs": 1},
        {"logprobs": 3},
        {"logprobs": 0},
        {"logprobs": -2},
        {"logprobs": None},
        {"logprobs": False, "top_logprobs": None},
        {"logprobs": True, "top_logprobs": -3},
        {"logprobs": True, "top_logprobs": 2.7},
        {"logprobs": True, "top_logprobs": True},
        {"logprobs": True, "top_logprobs": False},
        {"post_sampling_probs": True},
        {"post_sampling_probs": False, "n_probs": 1},
        {"post_sampling_probs": True, "n_probs": 2, "verbose": True},
        {"logprobs": True, "top_logprobs": 1, "tools": []},
    )
    return [{**base, **each} for each in fields]


def _refused() -> list[dict[str, Any]]:
    base = {"messages": _HI, "temperature": 0, "max_tokens": 1}
    odd: tuple[Any, ...] = ("x", [], {})
    return [
        *(
            {**base, "top_logprobs": value, **rest}
            for value in (0, 2, "x")
            for rest in ({}, {"logprobs": False}, {"logprobs": 2})
        ),
        *({**base, "n_probs": value} for value in odd),
        *({**base, "logprobs": value} for value in odd),
        *({**base, "logprobs": True, "post_sampling_probs": value} for value in (*odd, 1)),
        {**base, "n_probs": 2, "top_logprobs": 2},
    ]


class _Logprobs:
    """Kind ``logprobs``; ``first`` is how many of the requests are asked, ``threads`` and ``cache_type`` are the server's."""

    name = "logprobs"
    checks = "logprobs of chat answers whole and streamed: ids, texts, bytes, 32-bit floats; stop words, cut characters, refusals"
    against = "llama-server"
    small = True
    options: Options = declared(
        first=Option(POSITIVE),
        threads=Option(POSITIVE, LLAMA_THREADS),
        cache_type=Option(choice("f16", "q8_0"), "f16"),
    )

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask a llama-server all of it, or the first requests."""
        if model is None:
            raise Refusal("oracle.model", "the oracle of logprobs needs a model")
        other = {name: options[name] for name in ("threads", "cache_type") if options[name] != self.options[name].default}
        extra = cache_arguments(options["cache_type"])
        with reference.server(model, ctx=CTX, threads=options["threads"], extra=extra) as server:
            exchanges = [ask_reference(server, CHAT, body) for body in requests()[: options["first"]]]
        return {**other, "exchanges": exchanges}

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Ask bankml's app the same, in the same order."""
        if model is None:
            raise Refusal("oracle.model", "the oracle of logprobs needs the recorded model", hint="`bankml pull` fetches it")
        exchanges = [{"path": CHAT, **each} for each in body["exchanges"]]
        threads, cache_type = body.get("threads", LLAMA_THREADS), body.get("cache_type", "f16")
        return compare_exchanges(exchanges, model, CTX, threads, cache_type)


KIND = _Logprobs()
