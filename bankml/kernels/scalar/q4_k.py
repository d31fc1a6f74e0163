# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q4_K. Super-block: half d, half dmin, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles.

Source: ggml_vec_dot_q4_K_q8_K; gemv and gemm q4_K_8x8, repack.cpp.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a
from .orders import scaled_lanes, six_bit_pairs, sums_of_32

BLOCK, BYTES = 256, 144
form = quantizers.q8_k


def blocks(row):
    """(d, dmin, 8 scales, 8 minima, 256 quants) of each super-block; each 32 bytes hold 32 low nibbles, then 32 high ones."""
    for block in row.reshape(-1, BYTES):
        d, dmin = halves(block[:4])
        bytes_ = block[16:].reshape(4, 1, 32)
        yield (
            d,
            dmin,
            *six_bit_pairs(block[4:16]),
            np.concatenate([bytes_ & 15, bytes_ >> 4], axis=1).reshape(-1).astype(np.int32),
        )


def dequantize(row):
    """(d*scale)*q - dmin*minimum, each product rounded."""
    parts = []
    for d, dmin, scales, minima, q in blocks(row):
        scale, low = np.repeat(d * scales.astype(F32), 32), np.repeat(dmin * minima.astype(F32), 32)
        parts.append(scale * q.astype(F32) - low)
    return np.concatenate(parts)


def dot(row, y, where):
    """Three kernels: of plain rows; of repacked rows for whole groups of four columns; of repacked rows for the other columns."""
    if not where.repacked:
        return _lanes(row, y)
    return _chain(row, y, steps=4 if where.column < where.columns // 4 * 4 else 1)


def _lanes(row, y):
    """Eight lanes for the quants, four for the minima."""
    acc, minimum = np.zeros(8, F32), np.zeros(4, F32)
    for (d, dmin, scales, minima, q), block in zip(blocks(row), y, strict=True):
        acc = fma(block.d * d, scaled_lanes(q, block, scales).astype(F32), acc)
        pairs = (minima * sums_of_32(block)).reshape(4, 2).sum(axis=1, dtype=np.int32)
        minimum = fma(-block.d * dmin, pairs.astype(F32), minimum)
    return hs_a(acc) + ((minimum[0] + minimum[2]) + (minimum[1] + minimum[3]))


def _chain(row, y, *, steps):
    """Two chains, in one or four fused steps a super-block, subtracted at the end."""
    acc, minimum = F32(0), F32(0)
    for (d, dmin, scales, minima, q), block in zip(blocks(row), y, strict=True):
        by_32 = (q * block.q).reshape(8, 32).sum(axis=1, dtype=np.int32) * scales
        for part in by_32.reshape(steps, -1).sum(axis=1, dtype=np.int32):
            acc = fma(F32(part), d * block.d, acc)
        for part in (minima * sums_of_32(block)).reshape(steps, -1).sum(axis=1, dtype=np.int32):
            minimum = fma(F32(part), dmin * block.d, minimum)
    return acc - minimum
