# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q2_K. Super-block: 16 bytes of scale and minimum, 64 bytes of four codes, half d, half dmin. Source: ggml_vec_dot_q2_K_q8_K."""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a
from .orders import pair_sums, scaled_lanes

BLOCK, BYTES = 256, 84
form = quantizers.q8_k


def codes(data):
    """256 codes of 2 bits from 64 bytes: byte m of each 32 holds elements m, m+32, m+64, m+96 of 128."""
    return ((data.reshape(2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[None, :, None]) & 3).reshape(-1).astype(np.int32)


def blocks(row):
    """(d, dmin, 16 scales, 16 minima, 256 quants) of each super-block."""
    for block in row.reshape(-1, BYTES):
        d, dmin = halves(block[80:])
        both = block[:16].astype(np.int32)
        yield d, dmin, both & 15, both >> 4, codes(block[16:80])


def dequantize(row):
    """(d*scale)*q - dmin*minimum, each product rounded."""
    parts = []
    for d, dmin, scales, minima, q in blocks(row):
        scale, low = np.repeat(d * scales.astype(F32), 16), np.repeat(dmin * minima.astype(F32), 16)
        parts.append(scale * q.astype(F32) - low)
    return np.concatenate(parts)


def dot(row, y, where):
    """Minima, then quants, into the same eight lanes."""
    acc = np.zeros(8, F32)
    for (d, dmin, scales, minima, q), block in zip(blocks(row), y, strict=True):
        acc = fma(-block.d * dmin, pair_sums(block, minima).astype(F32), acc)
        acc = fma(block.d * d, scaled_lanes(q, block, scales).astype(F32), acc)
    return hs_a(acc)
