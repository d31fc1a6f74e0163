# SPDX-License-Identifier: MIT OR Apache-2.0
"""Q5_0. Block: half d, 32 high bits, 16 bytes; weight = (q-16)*d. Source: ggml_vec_dot_q5_0_q8_0; tinyBLAS_Q0_AVX."""

from __future__ import annotations

import numpy as np

from . import quantizers
from .arithmetic import F32, halves
from .orders import dot_lanes

BLOCK, BYTES = 32, 22
form = quantizers.q8


def fives(high, low):
    """32 quants of 5 bits: bit i of `high` on top of nibble i of `low`."""
    bits = np.unpackbits(high, bitorder="little").astype(np.int32)
    return np.concatenate([low & 15, low >> 4]).astype(np.int32) | bits << 4


def blocks(row):
    """(d, 32 quants) of each block."""
    for block in row.reshape(-1, BYTES):
        yield halves(block[:2])[0], fives(block[2:6], block[6:]) - 16


def dequantize(row):
    """One rounding."""
    return np.concatenate([q.astype(F32) * d for d, q in blocks(row)])


def dot(row, y, where):
    """Eight lanes."""
    return dot_lanes(blocks(row), y)
