# SPDX-License-Identifier: MIT OR Apache-2.0
"""NVFP4. Block: 4 scale bytes, 32 bytes; weight = table[nibble] * half of a UE4M3 number, a scale for each 16 weights.

Source: ggml_vec_dot_nvfp4_q8_0; ggml_ue4m3_to_fp32, ggml-impl.h.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, hs_a, lanes
from .mxfp4 import VALUES

BLOCK, BYTES = 64, 36
form = quantizers.q8


def half_of_ue4m3(s):
    """Four bits of exponent, biased by 7, three of mantissa; bit 7 does not count, and 0x7F alone is no number and reads as 0."""
    exponent, mantissa = s >> 3 & 15, s & 7
    if s == 0x7F:
        return F32(0)
    raw = np.ldexp(F32(mantissa), -9) if exponent == 0 else np.ldexp(F32(1) + F32(mantissa) / F32(8), exponent - 7)
    return raw * F32(0.5)


def blocks(row):
    """(4 scales, 64 table values) of each block; byte j of each 8 holds elements j and 8+j of 16."""
    for block in row.reshape(-1, BYTES):
        q = block[4:].reshape(4, 8)
        yield [half_of_ue4m3(int(s)) for s in block[:4]], VALUES[np.concatenate([q & 15, q >> 4], axis=1).reshape(-1)]


def dequantize(row):
    """Exact."""
    return np.concatenate([q.astype(F32) * np.repeat(np.array(scales, F32), 16) for scales, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes for each 32 weights, four of them with each scale."""
    acc = np.zeros(8, F32)
    for number, (scales, q) in enumerate(blocks(row)):
        for half in range(2):
            block = y[2 * number + half]
            factors = np.repeat(np.array(scales[2 * half : 2 * half + 2], F32) * block.d, 4)
            acc = fma(factors, lanes(q[32 * half : 32 * half + 32] * block.q).astype(F32), acc)
    return hs_a(acc)
