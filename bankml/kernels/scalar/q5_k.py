# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q5_K. Super-block: half d, half dmin, 12 bytes of 6-bit scales and minima, 32 bytes of high bits, 128 of nibbles.

Source: ggml_vec_dot_q5_K_q8_K.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a
from .orders import scaled_lanes, six_bit_pairs, sums_of_32

BLOCK, BYTES = 256, 176
form = quantizers.q8_k


def blocks(row):
    """(d, dmin, 8 scales, 8 minima, 256 quants) of each super-block; bit g of byte m is on top of element 32g+m."""
    for block in row.reshape(-1, BYTES):
        d, dmin = halves(block[:4])
        bytes_ = block[48:].reshape(4, 1, 32)
        low = np.concatenate([bytes_ & 15, bytes_ >> 4], axis=1).reshape(-1).astype(np.int32)
        high = ((block[None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1).reshape(-1).astype(np.int32)
        yield d, dmin, *six_bit_pairs(block[4:16]), low | high << 4


def dequantize(row):
    """(d*scale)*q - dmin*minimum, each product rounded."""
    parts = []
    for d, dmin, scales, minima, q in blocks(row):
        scale, low = np.repeat(d * scales.astype(F32), 32), np.repeat(dmin * minima.astype(F32), 32)
        parts.append(scale * q.astype(F32) - low)
    return np.concatenate(parts)


def dot(row, y, where):
    """Eight lanes for the quants; the minima in one fused sum beside them."""
    acc, minimum = np.zeros(8, F32), F32(0)
    for (d, dmin, scales, minima, q), block in zip(blocks(row), y, strict=True):
        acc = fma(block.d * d, scaled_lanes(q, block, scales).astype(F32), acc)
        minimum = fma(-block.d * dmin, F32((minima * sums_of_32(block)).sum()), minimum)
    return hs_a(acc) + minimum
