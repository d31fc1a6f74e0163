# SPDX-License-Identifier: MIT OR Apache-2.0
"""The sampler chain as flags: llama.cpp's names for them, and the request that they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from bankml.cli.values import TEXT

F = TypeVar("F", bound=Callable[..., Any])

# (flags, field of a request, type, what it does); in the order in which the chain runs.
_NUMBERS: tuple[tuple[tuple[str, ...], str, Any, str], ...] = (
    (("--temp", "--temperature"), "temperature", float, "Temperature; 0 is greedy."),
    (("--top-k",), "top_k", int, "Keep the N most probable tokens; 0 keeps all."),
    (("--top-p",), "top_p", float, "Keep the most probable tokens that together reach N."),
    (("--min-p",), "min_p", float, "Keep tokens of at least N times the largest probability."),
    (("--top-n-sigma", "--top-nsigma"), "top_n_sigma", float, "Keep logits within N deviations of the largest."),
    (("--typical", "--typical-p"), "typical_p", float, "Keep tokens of typical surprise that together reach N."),
    (("--xtc-probability",), "xtc_probability", float, "How often XTC drops the most probable tokens."),
    (("--xtc-threshold",), "xtc_threshold", float, "The probability above which XTC drops."),
    (("--min-keep",), "min_keep", int, "Top-p, min-p, typical and XTC leave at least N tokens."),
    (("--dynatemp-range",), "dynatemp_range", float, "The temperature moves within N by the entropy."),
    (("--dynatemp-exp",), "dynatemp_exponent", float, "Exponent of that move."),
    (("--mirostat",), "mirostat", click.IntRange(0, 2), "1 or 2: mirostat in the place of the chain."),
    (("--mirostat-ent",), "mirostat_tau", float, "Its target entropy."),
    (("--mirostat-lr",), "mirostat_eta", float, "Its learning rate."),
    (("--adaptive-target",), "adaptive_target", float, "The probability that the sampler adaptive_p aims at."),
    (("--adaptive-decay",), "adaptive_decay", float, "How slowly it forgets."),
    (("--repeat-last-n",), "repeat_last_n", int, "The penalties look at the last N tokens."),
    (("--repeat-penalty",), "repeat_penalty", float, "Penalty of a token among them; 1 is none."),
    (("--presence-penalty",), "presence_penalty", float, "Less N for a token among them."),
    (("--frequency-penalty",), "frequency_penalty", float, "Less N for each time that it is."),
    (("--dry-multiplier",), "dry_multiplier", float, "DRY: penalty of a token that goes on with a repetition."),
    (("--dry-base",), "dry_base", float, "DRY: how the penalty grows with the repetition's length."),
    (("--dry-allowed-length",), "dry_allowed_length", int, "DRY: repetitions up to N tokens are free."),
    (("--dry-penalty-last-n",), "dry_penalty_last_n", int, "DRY: look at the last N tokens."),
)
# What leaves a greedy answer greedy: it moves logits before the draw.
_MOVES = frozenset(
    {
        *("repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "ignore_eos"),
        *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers"),
    }
)
_BIAS = re.compile(r"\s*(\d{1,10})\s*([+-])\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf)\s*")


def sampling_flags(command: F) -> F:
    """Give a command a flag for every number of the chain; their values come as the fields of a request."""
    flags = [
        click.option("-s", "--seed", metavar="N", type=int, help="Seed of the draw; -1 takes any."),
        *(click.option(*names, field, metavar="N", type=kind, help=text) for names, field, kind, text in _NUMBERS),
        click.option("--dry-sequence-breaker", "dry_sequence_breakers", metavar="TEXT", type=TEXT, multiple=True,
                     help="DRY: repetitions end here. May be given again."),
        click.option("-l", "--logit-bias", metavar="TOKEN+BIAS", type=TEXT, multiple=True,
                     help="Add to a token's logit, as 28+1.5, 28-1.5 or 28-inf. May be given again."),
        click.option("--ignore-eos", is_flag=True, default=None, help="Never end before the limit: ban the end tokens."),
        click.option("--samplers", metavar="NAMES", type=TEXT, help='Another order: names with ";", as "top_k;temperature".'),
        click.option("--sampler-seq", "--sampling-seq", "sampler_letters", metavar="LETTERS", type=TEXT,
                     help='Another order by letters, as "kt".'),
    ]  # fmt: skip
    for flag in reversed(flags):
        command = flag(command)
    return command


def sampling_request(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The request that the flags stand for: greedy, unless one of them has to do with the draw.

    Raises:
        click.UsageError: a bias, a sampler or a breaker cannot be read.
    """
    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    if "logit_bias" in given:
        given["logit_bias"] = [_bias(text) for text in given["logit_bias"]]
    letters = given.pop("sampler_letters", None)
    if letters is not None:
        given["samplers"] = letters
    if "samplers" in given:
        given["samplers"] = _chain(given["samplers"], by_letters=letters is not None)
    if "dry_sequence_breakers" in given:
        given["dry_sequence_breakers"] = list(given["dry_sequence_breakers"])
        if "none" in given["dry_sequence_breakers"]:
            raise click.UsageError("DRY without breakers, which none stands for, is not reproduced")
    return given if given.keys() - _MOVES else {**given, "temperature": 0.0}


def _bias(text: str) -> list[Any]:
    match = _BIAS.fullmatch(text)
    if match is None:
        raise click.UsageError(f"--logit-bias is TOKEN+BIAS or TOKEN-BIAS, as 28-1.5, not {text!r}")
    return [int(match[1]), float(match[2] + match[3])]


def _chain(text: str, by_letters: bool) -> list[str]:
    from bankml.core.sampling.params import chain_from_letters, chain_from_names

    chain: list[str] = []
    for each in text if by_letters else filter(None, text.split(";")):
        known = chain_from_letters(each) if by_letters else chain_from_names([each])
        if not known:
            raise click.UsageError(f"there is no sampler {each!r}")
        chain += known
    return chain
