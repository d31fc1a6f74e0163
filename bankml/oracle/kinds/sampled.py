# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sampled answers from given seeds, with every sampler of the chain alone and together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bankml.oracle.ask.answers import OPTIONS, Step, compare_script, record_script
from bankml.oracle.kind import Tally
from bankml.oracle.options import Option, Options, choice, declared

if TYPE_CHECKING:
    from bankml.reference.build import Reference

_STORY = [{"role": "user", "content": "Tell me a short story about a clock that runs backwards."}]
_LIST = [{"role": "user", "content": "List ten animals, one per line."}]


def _asked(messages: list[dict[str, str]], max_tokens: int, **request: Any) -> Step:
    return {"messages": messages, "request": {"max_tokens": max_tokens, **request}}


def chain() -> list[Step]:
    """The default chain: its numbers one after the other, seeds of all kinds, sorts small and large."""
    steps = [_asked(_STORY, 40, seed=seed) for seed in (0, 1, 42, 4294967294, -2, 1.5)]
    requests: tuple[dict[str, Any], ...] = (
        {"top_k": 1},
        {"top_k": 2, "temperature": 2.0},
        {"top_k": 5, "top_p": 1.0, "min_p": 0.0},
        {"top_k": 128},
        {"top_k": 129},
        {"top_k": 0, "temperature": 1.2},
        {"top_k": 1000, "temperature": 1.5},
        {"top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"top_k": 0, "top_p": 1.0, "min_p": 0.1},
        {"top_p": 0.5},
        {"top_p": 0.0, "min_keep": 3},
        {"min_p": 0.3, "min_keep": 2},
        {"temperature": 0.2},
        {"temperature": 1.0},
        {"temperature": 5.0},
        {"temperature": 0.0, "top_k": 0},
    )
    steps += [_asked(_STORY, 24, seed=7, **request) for request in requests]
    return [*steps, _asked(_LIST, 120, seed=11), _asked(_LIST, 80, seed=11, temperature=1.1, stop=["\n5"])]


def samplers() -> list[Step]:
    """Every other sampler, alone and together, and other orders of the chain."""
    together = {
        "repeat_penalty": 1.2,
        "frequency_penalty": 0.2,
        "dry_multiplier": 0.8,
        "top_n_sigma": 2.0,
        "typical_p": 0.9,
        "xtc_probability": 0.5,
        "dynatemp_range": 0.4,
    }
    requests: tuple[dict[str, Any], ...] = (
        {"repeat_penalty": 1.3},
        {"repeat_penalty": 1.1, "repeat_last_n": 8},
        {"frequency_penalty": 0.7, "presence_penalty": 0.3, "repeat_last_n": 300},
        {"dry_multiplier": 0.8},
        {"dry_multiplier": 2.0, "dry_base": 3.0, "dry_allowed_length": 1, "dry_penalty_last_n": 200},
        {"dry_multiplier": 1.0, "dry_allowed_length": 0, "dry_sequence_breakers": [" the", "a clock"]},
        {"top_n_sigma": 1.0},
        {"typical_p": 0.5},
        {"typical_p": 0.7, "top_k": 0},
        {"xtc_probability": 1.0, "xtc_threshold": 0.05},
        {"xtc_probability": 0.5},
        {"dynatemp_range": 0.5, "dynatemp_exponent": 1.5},
        {"mirostat": 1},
        {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.2},
        {"logit_bias": {"28": -5, " clock": 3.5, "198": False}},
        {"logit_bias": [[28, -100], ["time", 2], [999999, 5]], "temperature": 0},
        {"ignore_eos": True, "temperature": 0},
        {"samplers": ["temperature", "top_k", "min-p"]},
        {"samplers": "mkp"},
        {"samplers": []},
        {"samplers": ["top_k", "penalties", "dry", "typ"], "repeat_penalty": 1.2, "dry_multiplier": 1.0, "typical_p": 0.8},
        {"samplers": ["xtc", "top_p", "top_k", "temperature", "top_p"], "xtc_probability": 0.9, "top_p": 0.8},
        {"samplers": ["top_k", "adaptive_p"], "adaptive_target": 0.4, "adaptive_decay": 0.5},
        {"samplers": ["adaptive_p", "min_p"], "adaptive_target": -1, "min_p": 0.02},
        together,
        {**together, "top_k": 0, "min_keep": 4},
    )
    return [_asked(_LIST if "dry_multiplier" in each else _STORY, 32, seed=21, **each) for each in requests]


SCRIPTS = {"chain": chain, "samplers": samplers}


class Sampled:
    """Kind ``sampled``; ``script`` names one of the scripts, ``first`` is how many of its steps are asked."""

    name = "sampled"
    checks = "seeded answers on the real model: tokens, text, endings, counts"
    against = "llama-server's /v1/chat/completions"
    small = True
    options: Options = declared(OPTIONS, script=Option(choice(*SCRIPTS), "chain"))

    def record(self, model: Path | None, reference: Reference, options: dict[str, Any]) -> dict[str, Any]:
        """Ask llama-server the whole script."""
        return record_script(SCRIPTS[options["script"]](), model, reference, options)

    def compare(self, body: dict[str, Any], model: Path | None) -> Tally:
        """Answer the whole script with bankml's engine."""
        return compare_script(body, model)


KIND = Sampled()
