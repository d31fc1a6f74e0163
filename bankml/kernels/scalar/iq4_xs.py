# SPDX-License-Identifier: MIT OR Apache-2.0
"""IQ4_XS. Super-block: half d, 16 high bits of scales, 4 bytes of low ones, 128 bytes; weight = (d*(scale-32))*table[nibble].

Source: ggml_vec_dot_iq4_xs_q8_K; iqp.cpp.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a
from .iq4_nl import VALUES
from .orders import scaled_lanes

BLOCK, BYTES = 256, 136
form = quantizers.q8_k


def blocks(row):
    """(d, 8 scales, 256 table values) of each super-block."""
    group = np.arange(8)
    for block in row.reshape(-1, BYTES):
        high = (int(block[2]) | int(block[3]) << 8) >> 2 * group & 3
        low = block[4 + group // 2].astype(np.int32) >> 4 * (group % 2) & 15
        bytes_ = block[8:].reshape(8, 1, 16)
        values = VALUES[np.concatenate([bytes_ & 15, bytes_ >> 4], axis=1).reshape(-1)]
        yield halves(block[:2])[0], (low | high << 4).astype(np.int32) - 32, values


def dequantize(row):
    """Each product rounded."""
    return np.concatenate([np.repeat(d * scales.astype(F32), 32) * q.astype(F32) for d, scales, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes; eight columns and more of a matrix in groups of eight rows: one chain over whole super-blocks."""
    if where.repacked and where.columns >= 8:
        acc = F32(0)
        for (d, scales, q), block in zip(blocks(row), y, strict=True):
            acc = fma(F32(scaled_lanes(q, block, scales).sum()), d * block.d, acc)
        return acc
    acc = np.zeros(8, F32)
    for (d, scales, q), block in zip(blocks(row), y, strict=True):
        acc = fma(d * block.d, scaled_lanes(q, block, scales).astype(F32), acc)
    return hs_a(acc)
