# SPDX-License-Identifier: MIT OR Apache-2.0
"""The numbers of the rotary embedding, as b11192 derives them from the header."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bankml.core.json.numbers import f32
from bankml.core.model.header import ArchitectureKeys

BETA_FAST, BETA_SLOW = 32.0, 1.0
"""YaRN's ramp. b11192 reads keys of these names for other architectures only."""
MAX_ANGLE = 2.0**127
"""What no angle of the context may reach; single precision ends at twice as much."""
YARN_GAP = 2.0**-20
"""How near YaRN's divisor may come to 0."""


@dataclass(frozen=True)
class Rope:
    """Rotary embedding parameters.

    `attn_factor` is without the magnitude of YaRN, which takes a logarithm: see ``model.yarn_magnitude``.
    """

    dims: int
    freq_base: float
    freq_scale: float
    ext_factor: float
    attn_factor: float
    beta_fast: float
    beta_slow: float
    n_ctx_orig: int


def read_rope(keys: ArchitectureKeys, dims: int) -> Rope:
    """The parameters of one file.

    Raises:
        Refusal: ``model.key-value``: a number with which rotated values would not be finite.

    Source: llama_model_base::load_hparams, llama-model.cpp; the constructor of llama_context, llama-context.cpp.
    """
    # A factor of 0 hides the older name, and means no scaling.
    factor_key = "rope.scaling.factor" if keys.has("rope.scaling.factor") else "rope.scale_linear"
    factor = keys.real(factor_key, 0.0)
    scaling = keys.text("rope.scaling.type", "linear")
    rope = Rope(
        dims=dims,
        freq_base=keys.real("rope.freq_base", 10000.0),
        freq_scale=1.0 if factor == 0.0 or scaling == "none" else f32(1.0 / factor),
        ext_factor=1.0 if scaling == "yarn" else 0.0,
        attn_factor=keys.real("rope.scaling.attn_factor", 1.0),
        beta_fast=BETA_FAST,
        beta_slow=BETA_SLOW,
        n_ctx_orig=keys.integer("rope.scaling.original_context_length", 0) or keys.integer("context_length"),
    )
    _check_finite(keys, rope, factor_key, factor)
    return rope


def _check_finite(keys: ArchitectureKeys, rope: Rope, factor_key: str, factor: float) -> None:
    """Refuse numbers that make a rotated value NaN at some position of the context: b11192's answers mean nothing then."""
    positions = keys.integer("context_length")
    if not rope.freq_base > 0.0 or positions / rope.freq_base >= MAX_ANGLE:
        raise keys.out_of_range("rope.freq_base", rope.freq_base, "above 0, and no angle past single precision")
    slowest = min(rope.freq_base, 1.0)
    if not positions / slowest * abs(rope.freq_scale) < MAX_ANGLE:
        raise keys.out_of_range(factor_key, factor, "0, or no angle past single precision")
    if not math.isfinite(rope.attn_factor):
        raise keys.out_of_range("rope.scaling.attn_factor", rope.attn_factor, "a finite number")
    if rope.ext_factor:
        # YaRN divides by 1 + log(factor) / 10.
        if not rope.freq_scale > 0.0 or abs(1.0 - math.log(rope.freq_scale) / 10.0) < YARN_GAP:
            raise keys.out_of_range(factor_key, factor, "with YaRN above 0, finite, and not e^-10")
        if rope.n_ctx_orig >= 1 << 31:
            raise keys.out_of_range("rope.scaling.original_context_length", rope.n_ctx_orig, "with YaRN less than 2^31")
