# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a sampler chain is made of: its numbers, b11192's defaults for them, and what a GGUF file puts in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bankml.core.gguf.text_values import as_text, read_integer, read_real
from bankml.core.json.numbers import f32

RANDOM_SEED = 0xFFFFFFFF
"""This seed asks for a seed from the system. Source: LLAMA_DEFAULT_SEED, include/llama.h."""

CHAIN = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
"""The default order. Source: common_params_sampling, common/common.h."""


@dataclass(frozen=True)
class SamplingParams:
    """The numbers of one chain, floats already rounded to single precision.

    Source: common_params_sampling, common/common.h (names there, defaults here).
    """

    seed: int = RANDOM_SEED
    temperature: float = f32(0.8)
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = f32(0.95)
    min_p: float = f32(0.05)
    min_keep: int = 0
    top_n_sigma: float = -1.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = f32(0.1)
    repeat_last_n: int = 64
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = f32(0.1)
    adaptive_target: float = -1.0
    adaptive_decay: float = f32(0.9)
    ignore_eos: bool = False
    logit_bias: tuple[tuple[int, float], ...] = field(default=())
    """Token and bias in the order of the request, then the end tokens where they are ignored."""
    samplers: tuple[str, ...] = CHAIN

    @classmethod
    def greedy(cls, **changes: Any) -> SamplingParams:
        """The default chain at temperature 0."""
        return replace(cls(temperature=0.0), **changes)


# GGUF key -> (field, type). Source: common_init_sampler_from_model, common/common.cpp.
_GGUF_NUMBERS: dict[str, tuple[str, type]] = {
    "general.sampling.top_k": ("top_k", int),
    "general.sampling.top_p": ("top_p", float),
    "general.sampling.min_p": ("min_p", float),
    "general.sampling.xtc_probability": ("xtc_probability", float),
    "general.sampling.xtc_threshold": ("xtc_threshold", float),
    "general.sampling.temp": ("temperature", float),
    "general.sampling.penalty_last_n": ("repeat_last_n", int),
    "general.sampling.penalty_repeat": ("repeat_penalty", float),
    "general.sampling.mirostat": ("mirostat", int),
    "general.sampling.mirostat_tau": ("mirostat_tau", float),
    "general.sampling.mirostat_eta": ("mirostat_eta", float),
}
_GGUF_CHAIN = "general.sampling.sequence"
_CHAIN_BYTES = 511


def gguf_defaults(kv: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a file's ``general.sampling.*`` keys set, rounded as b11192 rounds them.

    b11192 reads these keys through text with six decimals, so 0.1234567 comes out as 0.123457; a value whose text does
    not begin with a number changes nothing.

    Source: common_init_sampler_from_model, common/common.cpp; gguf_data_to_str, src/llama-impl.cpp.
    """
    found: dict[str, Any] = {}
    for key, (name, kind) in _GGUF_NUMBERS.items():
        text = as_text(kv.get(key))
        value = read_integer(text) if kind is int else read_real(text)
        if value is not None:
            found[name] = value
    chain = as_text(kv.get(_GGUF_CHAIN))
    if chain:
        found["samplers"] = tuple(chain_from_names(chain.encode()[:_CHAIN_BYTES].decode("utf-8", "replace").split(";")))
    return found


_NAMES = (*CHAIN, "infill", "adaptive_p")
_LETTERS = dict(zip("edskypmxtia", _NAMES, strict=True))
_ALIASES = (
    {name: name for name in _NAMES}
    | {name.replace("_", mark): name for name in _NAMES if "_" in name for mark in ("-", "")}
    | {"nucleus": "top_p", "temp": "temperature", "typ": "typ_p"}
)


def chain_from_names(names: list[str]) -> list[str]:
    """The samplers that these names mean, in that order; unknown ones are left out.

    Source: common_sampler_types_from_names, common/sampling.cpp.
    """
    lowered = (re.sub(r"[A-Z]", lambda letter: letter[0].lower(), name) for name in names)
    return [_ALIASES[name] for name in lowered if name in _ALIASES]


def chain_from_letters(letters: str) -> list[str]:
    """The samplers that these letters mean. Source: common_sampler_types_from_chars, common/sampling.cpp."""
    return [_LETTERS[letter] for letter in letters if letter in _LETTERS]
