# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q2_0. Block: half d, 64 codes of 2 bits from the lowest; weight = (code-1)*d.

Source: ggml_vec_dot_q2_0_q8_0_generic, contracted by gcc.
"""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, fma, halves

BLOCK, BYTES = 64, 18
form = quantizers.q8


def blocks(row):
    """(d, 64 quants) of each block."""
    for block in row.reshape(-1, BYTES):
        codes = (block[2:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        yield halves(block[:2])[0], codes.reshape(-1).astype(np.int32) - 1


def dequantize(row):
    """Exact."""
    return np.concatenate([q.astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """Scalar sums, both fused."""
    total = F32(0)
    for number, (d, q) in enumerate(blocks(row)):
        inner = F32(0)
        for part, block in zip(q.reshape(2, 32), y[2 * number : 2 * number + 2], strict=True):
            inner = fma(block.d, F32((part * block.q).sum()), inner)
        total = fma(d, inner, total)
    return total
