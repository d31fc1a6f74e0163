# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q6_K. Super-block: 128 bytes of low nibbles, 64 of two high bits, 16 int8 scales, half d; weight = (d*scale)*(q-32).

Source: ggml_vec_dot_q6_K_q8_K.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a
from .orders import pair_sums, scaled_lanes
from .q2_k import codes

BLOCK, BYTES = 256, 210
form = quantizers.q8_k


def blocks(row):
    """(d, 16 scales, 256 unsigned quants) of each super-block; each 64 low bytes hold 64 low nibbles, then 64 high ones."""
    for block in row.reshape(-1, BYTES):
        bytes_ = block[:128].reshape(2, 1, 64)
        low = np.concatenate([bytes_ & 15, bytes_ >> 4], axis=1).reshape(-1).astype(np.int32)
        yield halves(block[208:])[0], block[192:208].view(np.int8).astype(np.int32), low | codes(block[128:192]) << 4


def dequantize(row):
    """Each product rounded."""
    return np.concatenate([np.repeat(d * scales.astype(F32), 16) * (q - 32).astype(F32) for d, scales, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes of unsigned quants; lane L is corrected by the sums of sub-blocks 2L and 2L+1, not by its own elements'."""
    acc = np.zeros(8, F32)
    for (d, scales, q), block in zip(blocks(row), y, strict=True):
        lane = scaled_lanes(q, block, scales) - 32 * pair_sums(block, scales)
        acc = fma(block.d * d, lane.astype(F32), acc)
    return hs_a(acc)
