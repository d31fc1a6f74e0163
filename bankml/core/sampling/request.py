# SPDX-License-Identifier: MIT OR Apache-2.0
"""A request's sampling fields under b11192's names, read in its order with its limits and its refusals.

Source: make_llama_cmpl_schema and the eval functions, tools/server/server-schema.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from bankml.core.json.numbers import (
    FLOAT_MAX,
    INT32_MAX,
    bad_field,
    clamp,
    f32,
    in_limits,
    to_bool,
    to_float,
    to_int32,
    to_uint32,
    type_error,
)
from bankml.core.sampling.params import CHAIN, SamplingParams, chain_from_letters, chain_from_names
from bankml.refusal import Refusal

MAX_BREAKERS = 1024
"""Each is looked for in every new token of the window."""
MAX_BREAKER = 1 << 12
MAX_BIASES = 1 << 16
MAX_BIAS_TEXT = 1 << 12


class Vocabulary(Protocol):
    """What logit_bias, ignore_eos and DRY need of a tokenizer."""

    @property
    def n_vocab(self) -> int:
        """How many tokens there are."""
        ...

    @property
    def eog(self) -> frozenset[int]:
        """The tokens that end an answer."""
        ...

    def encode(self, text: str | bytes, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of a text."""
        ...


def _int_clamped(low: int, high: int) -> Callable[[str, Any], Any]:
    return lambda name, value: clamp(to_int32(name, value), low, high)


def _int_within(low: int, high: int) -> Callable[[str, Any], Any]:
    return lambda name, value: in_limits(name, to_int32(name, value), low, high)


def _float_clamped(low: float = -FLOAT_MAX, high: float = FLOAT_MAX) -> Callable[[str, Any], Any]:
    return lambda name, value: clamp(to_float(name, value), low, high)


def _float_within(low: float, high: float) -> Callable[[str, Any], Any]:
    return lambda name, value: in_limits(name, to_float(name, value), low, high)


_NUMBERS: dict[str, Callable[[str, Any], Any]] = {
    "top_k": _int_clamped(0, INT32_MAX),
    "top_p": _float_clamped(0.0, 1.0),
    "min_p": _float_clamped(0.0, 1.0),
    "top_n_sigma": _float_clamped(),
    "xtc_probability": _float_clamped(0.0, 1.0),
    "xtc_threshold": _float_clamped(0.0, 1.0),
    "typical_p": _float_clamped(),
    "temperature": _float_clamped(0.0, float("inf")),
    "dynatemp_range": _float_clamped(),
    "dynatemp_exponent": _float_clamped(),
    "repeat_last_n": _int_within(0, INT32_MAX),
    "repeat_penalty": _float_clamped(),
    "frequency_penalty": _float_clamped(),
    "presence_penalty": _float_clamped(),
    "dry_multiplier": _float_clamped(),
    "dry_base": to_float,
    "dry_allowed_length": _int_within(0, INT32_MAX),
    "dry_penalty_last_n": _int_within(0, INT32_MAX),
    "mirostat": _int_clamped(0, 2),
    "mirostat_tau": _float_clamped(),
    "mirostat_eta": _float_clamped(),
    "adaptive_target": _float_clamped(-FLOAT_MAX, 1.0),
    "adaptive_decay": _float_within(0.0, f32(0.99)),
    "seed": to_uint32,
    "min_keep": _int_within(0, INT32_MAX),
}
"""In the order in which b11192 reads them, which decides what is refused first."""


def resolve_params(
    request: Mapping[str, Any], gguf_defaults: Mapping[str, Any], vocabulary: Vocabulary | None = None
) -> SamplingParams:
    """The sampler chain of a request: its fields over the file's defaults over b11192's. Other fields are left alone.

    A null counts as absent.

    Args:
        request: the JSON object.
        gguf_defaults: what ``params.gguf_defaults`` found in the file.
        vocabulary: needed by ``logit_bias`` and ``ignore_eos``.

    Raises:
        Refusal: a field of the wrong type or outside its limits, in llama-server's words; or a sampler that bankml
            does not reproduce (status 501).
    """
    base = replace(SamplingParams(), **gguf_defaults)
    given = {name: value for name, value in request.items() if value is not None}
    found: dict[str, Any] = {name: read(name, given[name]) for name, read in _NUMBERS.items() if name in given}
    if found.get("dry_base", 1.0) < 1.0:
        found["dry_base"] = base.dry_base
    if "dry_sequence_breakers" in given:
        found["dry_sequence_breakers"] = _breakers(given["dry_sequence_breakers"])
    if "logit_bias" in given:
        found["logit_bias"] = tuple(_biases(given["logit_bias"], _needed(vocabulary, "logit_bias")))
    if "ignore_eos" in given:
        found["ignore_eos"] = to_bool("ignore_eos", given["ignore_eos"])
        if found["ignore_eos"]:
            ends = sorted(_needed(vocabulary, "ignore_eos").eog)
            found["logit_bias"] = (*found.get("logit_bias", ()), *((token, float("-inf")) for token in ends))
    if "samplers" in given:
        chain = _chain(given["samplers"])
        if chain is not None:
            found["samplers"] = chain
    params = replace(base, **found)
    check(params)
    return params


def check(params: SamplingParams) -> None:
    """Refuse a chain that b11192 would not build or that bankml does not reproduce.

    Source: common_sampler_init, common/sampling.cpp.
    """
    inverse = 1.0 / params.repeat_penalty if params.repeat_penalty else float("inf")
    if not _finite(params.repeat_penalty) or params.repeat_penalty <= 0.0 or not _finite(f32(inverse)):
        raise _init_error("penalty_repeat must be finite and greater than 0")
    if not _finite(params.frequency_penalty):
        raise _init_error("penalty_freq must be finite")
    if not _finite(params.presence_penalty):
        raise _init_error("penalty_present must be finite")
    if params.mirostat == 0 and "infill" in params.samplers:
        raise unsupported("samplers", "infill", ", ".join((*CHAIN, "adaptive_p")))


def unsupported(name: str, found: str, allowed: str) -> Refusal:
    """The refusal of a sampler that bankml does not reproduce: status 501."""
    return Refusal(
        "sampling.unsupported",
        f"Field '{name}': bankml does not reproduce {found}",
        where=f"/{name}",
        found=found,
        allowed=allowed,
        status=501,
        kind="not_supported_error",
    )


def _init_error(message: str) -> Refusal:
    return Refusal("sampling.init", f"Failed to initialize samplers: {message}")


def _finite(x: float) -> bool:
    return x - x == 0.0


def _needed(vocabulary: Vocabulary | None, name: str) -> Vocabulary:
    if vocabulary is None:
        raise unsupported(name, f"{name} without a vocabulary", "absent")
    return vocabulary


def _breakers(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise bad_field("dry_sequence_breakers", "Error: dry_sequence_breakers must be a non-empty array of strings", value)
    if len(value) > MAX_BREAKERS:
        raise unsupported("dry_sequence_breakers", f"{len(value)} breakers", f"at most {MAX_BREAKERS} strings")
    if any(len(each) > MAX_BREAKER for each in value):
        raise unsupported("dry_sequence_breakers", "a breaker that long", f"at most {MAX_BREAKER} characters each")
    return tuple(value)


def _chain(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return tuple(chain_from_letters(value))
    if isinstance(value, list):
        for each in value:
            if not isinstance(each, str):
                raise type_error("samplers", "string", each)
        return tuple(chain_from_names(value))
    return None


_LONG = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")


def _biases(value: Any, vocabulary: Vocabulary) -> list[tuple[int, float]]:
    """Pairs in the request's order; what is neither a number nor false, or no token, is passed over as b11192 does."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [(each[0], each[1]) for each in value if isinstance(each, list) and len(each) == 2]
    by_key = isinstance(value, dict)
    found: list[tuple[int, float]] = []
    for token, given in pairs:
        if len(found) > MAX_BIASES or (isinstance(token, str) and len(token) > MAX_BIAS_TEXT):
            raise unsupported(
                "logit_bias", "more tokens than that", f"at most {MAX_BIASES} tokens, and {MAX_BIAS_TEXT} characters a text"
            )
        if given is False:
            bias = float("-inf")
        elif isinstance(given, int | float) and not isinstance(given, bool):
            bias = to_float("logit_bias", given)
        else:
            continue
        if isinstance(token, str) and not (by_key and (token == "" or _LONG.fullmatch(token))):
            found += [(each, bias) for each in vocabulary.encode(token, add_special=False, parse_special=False)]
        elif isinstance(token, str):
            found += _in_vocabulary(int(token or 0), bias, vocabulary)
        elif isinstance(token, int) and not isinstance(token, bool):
            found += _in_vocabulary(token, bias, vocabulary)
    return found


def _in_vocabulary(number: int, bias: float, vocabulary: Vocabulary) -> list[tuple[int, float]]:
    token = to_int32("logit_bias", max(-(2**63), min(2**63 - 1, number)))
    return [(token, bias)] if 0 <= token < vocabulary.n_vocab else []
