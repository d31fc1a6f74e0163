# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rotary position embedding. Source: ggml_rope_cache_init, rope_yarn, rotate_pairs, ggml-cpu/ops.cpp."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arithmetic import F32, fma, logf, powf, sincosf


@dataclass(frozen=True)
class Yarn:
    """How angles are stretched, all float32; `low` and `high` bound the ramp over the pairs."""

    freq_scale: np.float32
    ext: np.float32
    attn: np.float32
    low: np.float32
    high: np.float32


PLAIN = Yarn(F32(1), F32(0), F32(1), F32(0), F32(0))


def table(position, dims, base, yarn=PLAIN, factors=None):
    """(cos, sin) of each pair at a position. The angle is a running product, not a power for each pair."""
    step = powf(F32(base), F32(-2) / F32(dims))
    theta = F32(position)
    out = []
    for i in range(dims // 2):
        te = theta / factors[i] if factors is not None else theta
        angle = ti = yarn.freq_scale * te
        magnitude = yarn.attn
        if yarn.ext != 0:
            y = (F32(i) - yarn.low) / max(F32(0.001), yarn.high - yarn.low)
            mix = (F32(1) - min(F32(1), max(F32(0), y))) * yarn.ext
            angle = fma(ti, F32(1) - mix, te * mix)
            magnitude = fma(F32(0.1), logf(F32(1) / yarn.freq_scale), F32(1)) * yarn.attn
        sin, cos = sincosf(angle)
        out.append((cos * magnitude, sin * magnitude))
        theta = theta * step
    return out


def rotate(x, pairs, *, neox):
    """A head rotated by its table: pairs (2i, 2i+1), or (i, i + half) with `neox`."""
    out, half = x.copy(), len(pairs)
    for i, (c, s) in enumerate(pairs):
        a, b = (i, i + half) if neox else (2 * i, 2 * i + 1)
        x0, x1 = x[a], x[b]
        if not neox and half % 2 == 1 and i == half - 1:
            # The compiler leaves an odd last pair unfused.
            out[a], out[b] = x0 * c - x1 * s, x0 * s + x1 * c
        else:
            out[a], out[b] = fma(x0, c, -(x1 * s)), fma(x0, s, x1 * c)
    return out
