# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the oracle of continued texts asks, in this order: the slot's cache makes each answer depend on those before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PATHS = ("/completion", "/v1/completions")
_TEXT = "The three largest animals are"
_BASE = {"prompt": "Once upon a time", "temperature": 0, "n_predict": 5}

Asked = tuple[str, Any]


def requests(ctx: int) -> list[Asked]:
    """Paths and bodies."""
    own, openai = PATHS
    return [
        *_prompts(own, ctx),
        *_prompts(openai, ctx),
        *_each(own, *_answers()),
        *_each(own, *_probabilities()),
        *_each(own, *_chains(), streams=(False,)),
        *_each(own, *_constraints()),
        *_each(own, *_refused()),
        *_each(openai, *_answers()[::3], *_probabilities()[::3], *_constraints()[::4], *_refused()[::4]),
        (own.replace("completion", "completions"), {**_BASE, "n_predict": 1}),
        (own, {**_BASE, "prompt": "a b c d e f g h " * 20, "n_predict": -1, "n_probs": 1}),
        (own, {**_BASE, "prompt": "a b c d e f g h " * 20, "n_predict": -1, "stream": True}),
        *_each(own, *_breakers(), *_extremes(), streams=(False,)),
    ]


def _each(path: str, *members: dict[str, Any], streams: tuple[bool, ...] = (False, True)) -> Iterator[Asked]:
    for each in members:
        for stream in streams:
            yield path, {**_BASE, **each, "stream": stream}


def _prompts(path: str, ctx: int) -> Iterator[Asked]:
    """Every shape of a prompt, and bodies that are none."""
    prompts: tuple[Any, ...] = (
        "Hello",
        "<|im_start|>x <|im_end|>",
        "",
        "é🍕 \ufffd",
        None,
        5,
        True,
        [],
        {},
        [5, 6, 7],
        [1, "a", True],
        ["<|im_start|>x", 5, "<|im_end|>y"],
        [1, "a", None],
        [1.5],
        [1, 1.5],
        [1, "a", 1.5],
        [True],
        [999999],
        [-1],
        [18446744073709551615, 1],
        ["one"],
        ["a", "b"],
        ["", "x"],
        [[], "a"],
        [[1, "b"], "q", [5, 6, 7], {"prompt_string": "z"}],
        [["a", "b"]],
        [[5, True]],
        [None],
        {"prompt_string": "a"},
        {"prompt_string": ["a", 1.5]},
        {"prompt_string": []},
        {"prompt_string": 5},
        {"prompt_string": None},
        {"prompt_string": "a", "multimodal_data": []},
        "x " * ctx,
    )
    for prompt in prompts:
        for stream in (False, True):
            yield path, {"prompt": prompt, "temperature": 0, "n_predict": 2, "return_tokens": True, "stream": stream}
    bodies: tuple[Any, ...] = ([], 5, None, "x", {}, {"n_predict": 2})
    for body in bodies:
        yield path, body


def _answers() -> list[dict[str, Any]]:
    return [
        *({"n_predict": n} for n in (0, 1, 1.9, None)),
        {"n_predict": None, "max_tokens": 2},
        {"max_completion_tokens": 3, "max_tokens": 2, "n_predict": None},
        *({"stop": stop} for stop in ("time", ["there"], "there was", ["was", "e w"], [" "], [], ["zzz"], ["nope", None])),
        {"stop": ["\nfoo"], "n_predict": 24, "prompt": "First line\nSecond line\nThird"},
        {"stop": ["\n"], "n_predict": 24, "prompt": "First line\nSecond line\nThird"},
        {"prompt": "1, 2, 3, 4", "n_predict": 12},
        {"prompt": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "n_predict": 24},
        {"prompt": "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n", "n_predict": 40, "ignore_eos": True},
        {"return_tokens": True},
        {"timings_per_token": True},
        {"verbose": True},
        {"response_fields": ["content", "timings/predicted_n", "nope", "generation_settings/samplers", "tokens/0", "stop/x"]},
        {"response_fields": [], "verbose": True},
        {"response_fields": ["content", "completion_probabilities"], "n_probs": 1, "verbose": True},
        {"cache_prompt": False},
        {"cache_prompt": None},
        {"id_slot": 0},
        {"id_slot": 7},
        {"n": 1, "user": "x", "n_keep": 3},
        {"n_keep": -1, "n_discard": 2},
        {"stream_options": {"include_usage": True}, "echo": False},
        {"lora": [], "grammar": "", "sse_ping_interval": 5},
    ]


def _probabilities() -> list[dict[str, Any]]:
    parts = {"10813": 40, "231": 30, "239": 30, "177": 20}
    pieces = [{"prompt": "🍕", "temperature": 1.5, "seed": seed, "logit_bias": parts, "n_predict": 6} for seed in (1, 2, 3)]
    return [
        *({"n_probs": n} for n in (0, 1, 2, 10, 200, -1, 1.9, True)),
        *({"logprobs": n} for n in (0, 2, True, False)),
        {"logprobs": 3, "n_probs": 1},
        *({"n_probs": 3, "stop": stop} for stop in ("there was", ["was", "e w"], ["zzz"], [" a t"])),
        *({"n_probs": 2, **each} for each in pieces),
        {"n_probs": 2, "post_sampling_probs": True},
        {"n_probs": 4, "post_sampling_probs": True, "temperature": 1.0, "seed": 5},
        {"n_probs": 4, "post_sampling_probs": True, "temperature": 1.0, "seed": 5, "mirostat": 2},
        {"n_probs": 4, "post_sampling_probs": True, "temperature": 1.0, "seed": 5, "samplers": ["top_k", "min_p"], "top_k": 3},
        {"n_probs": 2, "timings_per_token": True},
        {"n_probs": 2, "n_predict": 0},
        {"n_probs": 2, "prompt": ["a", "b"], "n_predict": 2},
    ]


def _chains() -> list[dict[str, Any]]:
    chains: tuple[dict[str, Any], ...] = (
        {},
        {"top_k": 0},
        {"top_k": 0, "top_p": 1, "min_p": 0},
        {"top_k": 200, "top_p": 0.999},
        {"min_p": 0.2, "min_keep": 4},
        {"typical_p": 0.5},
        {"top_n_sigma": 1.0, "top_k": 0},
        {"xtc_probability": 0.9, "xtc_threshold": 0.05},
        {"dynatemp_range": 0.6, "dynatemp_exponent": 1.5},
        {"repeat_penalty": 1.4, "repeat_last_n": 16},
        {"frequency_penalty": 0.7, "presence_penalty": -0.3},
        {"dry_multiplier": 0.8, "dry_allowed_length": 1, "dry_sequence_breakers": ["\n", ","]},
        {"mirostat": 1},
        {"mirostat": 2, "mirostat_tau": 2, "mirostat_eta": 0.3},
        {"samplers": "kt"},
        {"samplers": ["temperature", "top_p", "top_k"]},
        {"samplers": []},
        {"samplers": ["xtc", "adaptive_p"], "adaptive_target": 0.5},
        {"logit_bias": {"28": -10, "time": False}},
        {"logit_bias": [[28, 2.5], ["the", -3], ["x"], [5, True], [-1, 2]]},
        {"ignore_eos": True, "logit_bias": {"5": 1}},
    )
    return [
        {"prompt": _TEXT, "temperature": 1.2, "seed": 30 + number, "n_predict": 10, "return_tokens": True, **chain}
        for number, chain in enumerate(chains)
    ]


def _breakers() -> list[dict[str, Any]]:
    """DRY with breakers of several tokens and outside ASCII, on texts that repeat themselves over them."""
    sets: tuple[tuple[list[str], str], ...] = (
        (["é"], "Le café était fermé, le café était fermé, le café"),
        (["…", "—", "’", "€"], "Wait… it’s 5€ — no, wait… it’s 5€ — no, wait… it’s"),
        (["。", "日"], "今日は日曜日。今日は日曜日。今日は"),
        (["🙂", "👩‍👩‍👧"], "so 🙂 and 🍕 and so 🙂 and 🍕 and so 🙂"),
        (["🍣🙂"], "so 🙂 and 🍕 and so 🙂 and 🍕 and so 🙂"),
        (["a clock that", " red"], "I saw a clock that was red and a clock that was red and a clock"),
        (["ing the rest of", "", "the\x00x"], "I was seeing the rest of it, seeing the rest of it, seeing the rest"),
        (["1111111111111111111111111111111111111111é"], "1111111111 is 1111111111 is 1111111111 is 111"),
        (["The quick brown fox jumps over the lazyé dog"], "The quick brown fox. The quick brown fox. The quick"),
        (["日本日本日本日本日本日本日本"], "日本日本日本日本日本。日本日本日本日本日本。日本"),
        (["<|im_end|>", "x<|im_start|>"], "<|im_end|> x y <|im_end|> x y <|im_end|> x"),
    )
    base = {"dry_multiplier": 1.1, "dry_allowed_length": 1, "n_probs": 3, "post_sampling_probs": True, "n_predict": 8}
    return [
        {**base, "dry_sequence_breakers": breakers, "prompt": prompt, "temperature": 0.9, "seed": seed, "return_tokens": True}
        for seed, (breakers, prompt) in enumerate(sets)
    ]


def _extremes() -> list[dict[str, Any]]:
    """Numbers beyond single precision, which an answer writes as null, and candidates of exactly one half each."""
    halves = {
        "logit_bias": [[28, 1e9], [29, 1e9]],
        "n_probs": 4,
        "post_sampling_probs": True,
        "xtc_probability": 1,
        "temperature": 1,
    }
    return [
        {"temperature": 1e39, "seed": 7},
        {"dry_base": 1e39, "seed": 7},
        {"temperature": 1e39, "dry_base": 1e39, "dynatemp_range": 1e39, "typical_p": -1e39, "mirostat_tau": 1e39, "seed": 7},
        {"prompt": "a a a a", "dry_base": 1e39, "dry_multiplier": 1, "temperature": 0.8, "seed": 7},
        *({**halves, "xtc_threshold": threshold, "seed": 3} for threshold in (0.5, 0.49, 0.51)),
    ]


def _constraints() -> list[dict[str, Any]]:
    return [
        {"grammar": 'root ::= "yes" | "no"'},
        {"grammar": 'root ::= [A-Z] [a-z]+ "."', "temperature": 1.3, "seed": 2, "n_probs": 2},
        {"grammar": 'root ::= "🍕" "🍕" " "?', "n_predict": 9, "n_probs": 1},
        {"grammar": 'root ::= "🍕🍕"', "n_predict": 2, "return_tokens": True},
        {"json_schema": {}, "n_predict": 12},
        {"json_schema": {"enum": ["red", 3]}},
        {"json_schema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}},
        {"json_schema": {"type": "array", "items": {"const": 1.50}, "minItems": 2, "maxItems": 2}, "seed": 1, "temperature": 1},
    ]


def _refused() -> list[dict[str, Any]]:
    return [
        *({"grammar": grammar} for grammar in ("root ::= x", 'root ::= root "a"', "root", 'a ::= "b"')),
        {"json_schema": {"type": "what"}},
        {"json_schema": {"properties": {"a": {"pattern": "x"}}}},
        {"json_schema": {"$ref": "#/nope"}},
        {"n_predict": -2},
        {"n_predict": "x"},
        *({"n": n} for n in (0, 2)),
        {"temperature": "hot"},
        {"repeat_penalty": 0},
        {"dry_sequence_breakers": []},
        {"adaptive_decay": 1},
        {"min_keep": -1},
        {"n_keep": -2},
        {"n_discard": -1},
        {"stop": [5]},
        {"logprobs": "x"},
        {"n_probs": []},
        {"cache_prompt": 1},
        {"echo": "x"},
        {"ignore_eos": 1},
        {"samplers": [5]},
        {"sse_ping_interval": -2},
        {"lora": {}},
        {"grammar": 'root ::= "a" [\\U003FFFFF]'},
    ]
