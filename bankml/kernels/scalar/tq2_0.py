# SPDX-License-Identifier: MIT OR Apache-2.0
"""TQ2_0. Super-block: 64 bytes of four codes, half d; weight = (code-1)*d. Source: ggml_vec_dot_tq2_0_q8_K."""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves, hs_a
from .orders import pair_sums, scaled_lanes

BLOCK, BYTES = 256, 66
ONES = np.ones(16, np.int32)
form = quantizers.q8_k


def blocks(row):
    """(d, 256 codes) of each super-block; byte m of each 32 holds elements m, m+32, m+64, m+96 of 128."""
    for block in row.reshape(-1, BYTES):
        codes = (block[:64].reshape(2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[None, :, None]) & 3
        yield halves(block[64:])[0], codes.reshape(-1).astype(np.int32)


def dequantize(row):
    """Exact."""
    return np.concatenate([(q - 1).astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes of unsigned codes; what they are too large by is taken off lane by lane from the sums of 16."""
    acc = np.zeros(8, F32)
    for (d, q), block in zip(blocks(row), y, strict=True):
        lane = scaled_lanes(q, block, ONES) - pair_sums(block, ONES)
        acc = fma(lane.astype(F32), block.d * d, acc)
    return hs_a(acc)
