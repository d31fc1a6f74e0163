# SPDX-License-Identifier: MIT OR Apache-2.0
"""Orders that several types share: eight lanes, or one chain of sums."""

from __future__ import annotations

import numpy as np

from .arithmetic import F32, fma, hs_a, lanes


def dot_lanes(blocks, y):
    """acc[L] = fma(d*dy, sum of the four products of lane L, acc[L]) block by block; then HS-A."""
    acc = np.zeros(8, F32)
    for (d, q), block in zip(blocks, y, strict=True):
        acc = fma(d * block.d, lanes(q * block.q).astype(F32), acc)
    return hs_a(acc)


def dot_two_lanes(blocks, y):
    """Even and odd blocks in two sets of lanes, added before HS-A; an odd last block is added as one fused scalar."""
    even, odd = np.zeros(8, F32), np.zeros(8, F32)
    pairs = list(zip(blocks, y, strict=True))
    for number, ((d, q), block) in enumerate(pairs[: len(pairs) // 2 * 2]):
        step = fma(block.d * d, lanes(q * block.q).astype(F32), odd if number % 2 else even)
        even, odd = (even, step) if number % 2 else (step, odd)
    result = hs_a(even + odd)
    if len(pairs) % 2:
        (d, q), block = pairs[-1]
        result = fma(block.d * d, F32((q * block.q).sum()), result)
    return result


def dot_chain(blocks, y):
    """acc = fma(the block's whole sum, d*dy, acc): repacked weights, whose vector lanes are rows."""
    acc = F32(0)
    for (d, q), block in zip(blocks, y, strict=True):
        acc = fma(F32((q * block.q).sum()), d * block.d, acc)
    return acc


def scaled_lanes(q, y, scales):
    """A super-block's eight integer lanes: each 16 of its products (or 32, as there are scales) times an integer scale."""
    by_group = (q * y.q).reshape(8, 8, 4).sum(axis=2, dtype=np.int32)
    per_group = np.repeat(scales.reshape(8, -1), 8 // (len(scales) // 8), axis=1)
    return (by_group * per_group).sum(axis=0, dtype=np.int32)


def pair_sums(y, values):
    """Lane L: values[2L] and values[2L+1] times the sums of the sub-blocks 2L and 2L+1 of 16 quants."""
    return (y.sums * values).reshape(8, 2).sum(axis=1, dtype=np.int32)


def sums_of_32(y):
    """Sums of each 32 quants of a super-block."""
    return y.sums.reshape(8, 2).sum(axis=1, dtype=np.int32)


def six_bit_pairs(packed):
    """Eight scales and eight minima of 6 bits from 12 bytes. Source: get_scale_min_k4, ggml-quants.c."""
    p = packed.astype(np.int32)
    scales, minima = np.empty(8, np.int32), np.empty(8, np.int32)
    scales[:4], minima[:4] = p[:4] & 63, p[4:8] & 63
    scales[4:] = (p[8:] & 15) | (p[:4] >> 6 << 4)
    minima[4:] = (p[8:] >> 4) | (p[4:8] >> 6 << 4)
    return scales, minima
